//! `gig doctor` and `gig audit verify` on what is no record.

use gig_tests::lab::place;
use serde_json::Value;

use super::{gig, gig_with};

#[test]
fn doctor_tries_every_mechanism_and_says_so_as_json() {
    let answer = gig(&["doctor", "--json"]);
    let told: Value =
        serde_json::from_str(&answer.output).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
    assert_eq!(told["sandboxes_work"], true, "{told}");
    assert_eq!(answer.status, 0, "{told}");
    let checks = told["checks"].as_array().cloned().unwrap_or_default();
    let names: Vec<_> = checks
        .iter()
        .filter_map(|check| check["name"].as_str())
        .collect();
    for name in EXPECTED {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    // A whole sandbox is what they are for: none of these is missing where one works.
    for check in &checks {
        assert_ne!(check["state"], "missing", "{check}");
    }
}

/// What the host must be asked for, by the names that people are told.
const EXPECTED: [&str; 18] = [
    "user namespaces",
    "nested user namespaces",
    "veth links",
    "nftables ruleset",
    "redirect with original destination",
    "bubblewrap",
    "Landlock",
    "seccomp: strict",
    "limit: memory",
    "limit: processes",
    "limit: processor time",
    "limit: /tmp",
    "AppArmor's restriction",
    "name servers",
    "certificate authority",
    "roots for origins",
    "the record",
    "a whole sandbox",
];

#[test]
fn doctor_speaks_to_people() {
    let answer = gig(&["doctor"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    for name in EXPECTED {
        assert!(answer.output.contains(name), "{name}: {answer:?}");
    }
}

/// The sample in the README is of this doctor.
#[test]
fn the_readme_shows_checks_that_exist() {
    let readme =
        std::fs::read_to_string(place::repository().join("README.md")).expect("the README");
    let (_, sample) = readme.split_once("$ gig doctor\n").expect("a sample");
    let (sample, _) = sample.split_once("```").expect("its end");
    let answer = gig(&["doctor"]);
    let names: Vec<&str> = sample
        .lines()
        .filter_map(|line| {
            ["works ", "limited "]
                .iter()
                .find_map(|state| line.strip_prefix(state))
        })
        .filter_map(|rest| rest.trim_start().split("  ").next())
        .collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        let told = answer.output.lines().any(|line| {
            let rest = line
                .split_once(' ')
                .map_or("", |(_, rest)| rest.trim_start());
            rest.starts_with(&format!("{name}  "))
        });
        assert!(told, "{name}: {answer:?}");
    }
    assert!(!answer.output.contains("\\u{"), "{answer:?}");
}

#[test]
fn what_is_no_record_does_not_verify() {
    let answer = gig_with(&["audit", "verify", "-"], "this is no record\n");
    assert_eq!(answer.status, 1, "{answer:?}");
    let answer = gig(&["audit", "verify", "/no/such/file"]);
    assert_ne!(answer.status, 0, "{answer:?}");
    assert!(answer.errors.contains("/no/such/file"), "{answer:?}");
}
