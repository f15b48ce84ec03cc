//! `tests/judge_open.py`: when the escape suite is said to be able to fail.

use std::{
    fs,
    process::{Command, Output},
};

use gig_tests::lab::place::{User, repository, scratch};

const BOTH: &str = "ESCAPED: 3 packets reached the internet; \
    ESCAPED: the client was not refused as it should be; status 0";
const ORIGIN: &str = "ESCAPED: 3 packets reached the internet; status 0";
const CLIENT: &str = "ESCAPED: the client was not refused as it should be; status 0";

/// Thirty tests of each of two classes, all with `said`, but for those that say otherwise.
fn judge(said: &str, otherwise: &[(&str, &str)]) -> Output {
    let folder = scratch(User::of_this_run());
    let (mut log, mut list) = (String::new(), String::new());
    for class in ["dns", "rules"] {
        for n in 0..30 {
            let name = format!("network::{class}::t{n}");
            let other = otherwise.iter().find(|(start, _)| name.starts_with(start));
            let words = other.map_or(said, |(_, words)| words);
            list += &format!("{name}: test\n");
            if !words.is_empty() {
                log += &format!("---- {name} stdout ----\npanicked: {words}\n\n");
            }
        }
    }
    let place = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("write a file");
        path
    };
    Command::new("/usr/bin/python3")
        .arg(repository().join("tests/judge_open.py"))
        .args([place("log", &log), place("list", &list)])
        .args(["dns", "rules"])
        .output()
        .expect("run the judge")
}

#[track_caller]
fn complains(judged: &Output, of: &str) {
    let errors = String::from_utf8_lossy(&judged.stderr);
    assert!(
        !judged.status.success() && errors.contains(of),
        "{judged:?}"
    );
}

#[test]
fn a_suite_that_fails_as_a_whole_by_all_witnesses_can_fail() {
    let judged = judge(BOTH, &[]);
    assert!(judged.status.success(), "{judged:?}");
    let table = String::from_utf8_lossy(&judged.stdout);
    assert!(table.contains("dns: 30 of 30 escape, 30 seen to arrive, 30 told by the client"));
}

#[test]
fn one_test_that_passes_proves_nothing() {
    complains(
        &judge(BOTH, &[("network::dns::t7", "")]),
        "proves nothing: network::dns::t7",
    );
}

#[test]
fn one_test_that_fails_otherwise_proves_nothing() {
    let judged = judge(BOTH, &[("network::rules::t3", "no such program")]);
    complains(&judged, "proves nothing: network::rules::t3");
}

#[test]
fn a_class_that_only_its_clients_tell_of_proves_nothing() {
    let judged = judge(BOTH, &[("network::rules", CLIENT)]);
    complains(&judged, "rules: nothing was seen to arrive");
}

#[test]
fn a_class_of_which_no_client_tells_proves_nothing() {
    complains(
        &judge(BOTH, &[("network::dns", ORIGIN)]),
        "dns: no client told",
    );
}

#[test]
fn a_suite_that_did_not_run_proves_nothing() {
    complains(&judge("", &[]), "proves nothing: network::dns::t0");
}
