//! Root with every capability in a user namespace of its own, in a sandbox's network and with no filter round it: what
//! an administrator could change, send and borrow, and then every way out.
//!
//! The sockets of virtual machines know no network namespace; they are the filter's to refuse
//! (`vsock_sockets_are_refused`).

use gig_policy::DenyReason;
use gig_tests::lab::{Finished, Lab, denial::Refusal, http_origin::greet};

use crate::beside;

const ALLOWED: &str = "api.example.com";
const DENIED: &str = "evil.example.net";

/// `act` of `fixtures/own_root.py`, and whether `host`, at an origin that counts, was let alone by it.
fn tries(act: &str, refusal: Refusal<'_>, words: &[(&str, usize)]) {
    let lab = Lab::new();
    let origin = lab.https(DENIED, greet);
    let address = origin.raw().address().ip().to_string();
    let variables = [
        ("LAB_ACT", act),
        ("LAB_HOST", DENIED),
        ("LAB_ADDRESS", &address),
    ];
    let subject = lab.gig().allow(ALLOWED);
    let run = beside::run(&lab, subject, &variables);
    refusal
        .client(|run| said(run, words))
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
    if !run.open {
        assert!(lab.resolver.asked().is_empty(), "{run}");
    }
}

/// Every line is a refusal; each of `words` is in as many of them as said.
fn said(run: &Finished, words: &[(&str, usize)]) -> bool {
    let text = run.text();
    let refused = |line: &str| line == "END" || line.contains(": refused: ");
    text.ends_with("END\n")
        && text.lines().all(refused)
        && words
            .iter()
            .all(|(word, times)| text.lines().filter(|line| line.contains(word)).count() == *times)
}

/// Of every way out: HTTP's answer, the answer to CONNECT, a name twice.
const WAYS: [(&str, usize); 2] = [
    (": refused: ConnectionRefusedError HTTP/1.1 403", 2),
    ("code 3", 2),
];

#[test]
fn its_own_root_changes_nothing_of_its_network() {
    let refusal = Refusal::new(DenyReason::HostNotAllowed).of(DENIED).times(4);
    // The kernel's answer to each, because the network is not its user namespace's; a setting belongs to nobody there.
    let words = [WAYS[0], WAYS[1], ("PermissionError", 21)];
    tries("changes", refusal, &words);
}

#[test]
fn its_own_root_has_sockets_of_programs_only() {
    let refusal = Refusal::new(DenyReason::HostNotAllowed).of(DENIED).times(4);
    tries(
        "sockets",
        refusal,
        &[WAYS[0], WAYS[1], ("PermissionError", 5)],
    );
}

#[test]
fn its_own_root_sends_in_nobody_elses_name() {
    // What has another's source is dropped: whoever sent it hears nothing, and only its own question is recorded.
    let refusal = Refusal::new(DenyReason::HostNotAllowed).of(DENIED);
    tries("spoofs", refusal, &[("as_", 4), ("code 3", 1)]);
}

#[test]
fn a_network_of_its_own_roots_own_leads_nowhere_nor_back() {
    let words = [
        ("Network is unreachable", 3),
        ("return: refused: PermissionError", 1),
    ];
    tries("nested", Refusal::by_the_kernel(), &words);
}
