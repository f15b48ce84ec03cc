//! `gig doctor` and `gig audit verify` on what is no record.

use serde_json::Value;

use super::{gig, gig_with};

#[test]
fn doctor_tries_every_mechanism_and_says_so_as_json() {
    let answer = gig(&["doctor", "--json"]);
    let told: Value =
        serde_json::from_str(&answer.output).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
    assert_eq!(told["sandboxes_work"], true, "{told}");
    assert_eq!(answer.status, 0, "{told}");
    let checks = told["checks"].as_array().map_or(0, Vec::len);
    assert!(checks >= 8, "{told}");
}

#[test]
fn doctor_speaks_to_people() {
    let answer = gig(&["doctor"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert!(answer.output.lines().count() >= 8, "{answer:?}");
}

#[test]
fn what_is_no_record_does_not_verify() {
    let answer = gig_with(&["audit", "verify", "-"], "this is no record\n");
    assert_eq!(answer.status, 1, "{answer:?}");
    let answer = gig(&["audit", "verify", "/no/such/file"]);
    assert_ne!(answer.status, 0, "{answer:?}");
    assert!(answer.errors.contains("/no/such/file"), "{answer:?}");
}
