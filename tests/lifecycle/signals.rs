//! Signals to gig are signals to the program.

use std::time::Duration;

use gig_tests::lab::{Finished, Lab};
use rustix::process::Signal;

const PATIENCE: Duration = Duration::from_secs(20);

fn signalled(script: &str, signal: Signal) -> Finished {
    let lab = Lab::new();
    let mut live = lab.gig().start(["sh", "-c", script]);
    live.wait_for("ready");
    live.signal(signal);
    live.finish(PATIENCE)
}

#[test]
fn a_program_that_handles_a_signal_decides_its_end() {
    let signals = [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ];
    for (signal, name) in signals {
        let script = format!(
            "trap 'echo got-{name}; exit 7' {name}; echo ready; while :; do sleep 0.05; done"
        );
        let _run = signalled(&script, signal)
            .exits(7)
            .says(&format!("got-{name}"));
    }
}

#[test]
fn a_program_that_does_not_handle_it_is_ended_by_it() {
    let _run = signalled("echo ready; exec sleep 60", Signal::TERM).exits(143);
    let _run = signalled("echo ready; exec sleep 60", Signal::INT).exits(130);
}

#[test]
fn a_program_that_ignores_it_goes_on() {
    let lab = Lab::new();
    let mut live = lab.gig().start([
        "sh",
        "-c",
        "trap '' TERM; echo ready; sleep 1; echo went-on",
    ]);
    live.wait_for("ready");
    live.signal(Signal::TERM);
    let _run = live.finish(PATIENCE).success().says("went-on");
}

#[test]
fn stopping_and_continuing_reach_the_program() {
    let lab = Lab::new();
    let mut live = lab.gig().start([
        "sh",
        "-c",
        "trap 'echo continued; exit 5' CONT; echo ready; while :; do sleep 0.05; done",
    ]);
    live.wait_for("ready");
    live.signal(Signal::TSTP);
    std::thread::sleep(Duration::from_millis(300));
    live.signal(Signal::CONT);
    let _run = live.finish(PATIENCE).exits(5).says("continued");
}
