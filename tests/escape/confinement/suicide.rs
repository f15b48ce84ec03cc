//! A program that kills what it can reach: its parents, the first process, everything.

use gig_tests::lab::{Lab, http_origin::greet};

#[test]
fn killing_the_parents_of_the_program_reaches_nobody() {
    let lab = Lab::new();
    let origin = lab.https("api.example.com", greet);
    // Signals to the first process of a namespace from inside are dropped; there is nothing above it.
    let run = lab.gig().allow("api.example.com").sh(
        "for s in KILL TERM STOP INT HUP SEGV; do kill -$s 1 2>/dev/null; kill -$s $PPID 2>/dev/null; done; \
         kill -KILL -1 2>/dev/null; kill -STOP -1 2>/dev/null; \
         curl -sS -m 60 --fail https://api.example.com/",
    );
    let run = run.success().says("hello from the origin");
    assert_eq!(origin.requests().len(), 1, "{run}");
}

#[test]
fn a_stopped_program_is_still_ended() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .option(["--timeout", "2s"])
        .sh("echo begun; kill -STOP $$; echo went on");
    assert!(
        run.text().contains("begun") && !run.text().contains("went on"),
        "{run}"
    );
    assert!([124, 137, 143].contains(&run.status), "{run}");
}
