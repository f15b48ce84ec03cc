//! gig as a job in the background: it runs there, takes nothing from who is in the foreground, and is a
//! person's to type at when it is brought to the front.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use gig_tests::lab::{Lab, Subject};
use rustix::process::Signal;

use crate::terminal::{quoted, typed};

const READS: &str = "echo rea\"\"dy; while read -r line; do echo got-$line; done; exit 9";

/// Types at an interactive shell, in which `GIG` is a run of gig's with `script`.
fn at_a_shell(steps: &[&str], script: &str) {
    let lab = Lab::new();
    at_a_shell_in(&lab, lab.gig(), steps, &["sh", "-c", script]);
}

/// The same with a program.
pub(crate) fn at_a_shell_in(lab: &Lab, gig: Subject<'_>, steps: &[&str], program: &[&str]) {
    let gig = quoted(&gig.env("TERM", "xterm").command(program));
    let file = lab.file("gig.sh", &format!("exec {gig}\n"));
    let run = format!("sh {}", file.display());
    let steps: Vec<_> = steps.iter().map(|step| step.replace("GIG", &run)).collect();
    let steps: Vec<_> = steps.iter().map(String::as_str).collect();
    let mut shell = Command::new("env");
    shell.args(["PS1=$ ", "bash", "--norc", "-i"]);
    typed(&steps, &shell);
}

#[test]
fn a_job_of_the_background_runs_beside_the_shell_and_is_typed_at_in_the_foreground() {
    at_a_shell(
        &[
            "expect:$ ",
            "send:GIG &\\r",
            "expect:ready",
            "send:\\recho shell-$((6*7))\\r",
            "expect:shell-42",
            "send:jobs\\r",
            "expect:Running",
            "send:fg\\r",
            "expect:gig.sh",
            "send:hello\\r",
            "expect:got-hello",
            "send:\\x04",
            "expect:$ ",
            "send:echo status-$?\\r",
            "expect:status-9",
            "send:exit 0\\r",
            "status:0",
            "cooked",
        ],
        READS,
    );
}

#[test]
fn a_job_that_ends_in_the_background_leaves_the_shell_its_terminal() {
    at_a_shell(
        &[
            "expect:$ ",
            "send:GIG & wait $!; echo status-$?\\r",
            "expect:status-4",
            "expect:$ ",
            "send:echo shell-$((6*7))\\r",
            "expect:shell-42",
            "send:exit 0\\r",
            "status:0",
            "cooked",
        ],
        "sleep 0.3; exit 4",
    );
}

#[test]
fn a_job_that_was_stopped_goes_on_in_the_background_and_comes_back() {
    for stop in ["job:TSTP", "job:STOP"] {
        at_a_shell(
            &[
                "expect:$ ",
                "send:GIG\\r",
                "expect:ready",
                stop,
                "expect:Stopped",
                "send:bg\\r",
                "expect:$ ",
                "send:echo shell-$((6*7))\\r",
                "expect:shell-42",
                "send:jobs\\r",
                "expect:Running",
                "send:fg\\r",
                "expect:gig.sh",
                "send:hello\\r",
                "expect:got-hello",
                "send:\\x04",
                "expect:$ ",
                "send:echo status-$?\\r",
                "expect:status-9",
                "send:exit 0\\r",
                "status:0",
                "cooked",
            ],
            READS,
        );
    }
}

/// Stopped by a signal that gig does not hear of, and continued.
#[test]
fn a_job_that_was_stopped_without_a_word_has_its_keys_again() {
    at_a_shell(
        &[
            "expect:$ ",
            "send:GIG\\r",
            "expect:ready",
            "job:STOP",
            "expect:Stopped",
            "send:fg\\r",
            "expect:gig.sh",
            "send:k",
            "expect:key-k",
            "expect:$ ",
            "send:exit 0\\r",
            "status:0",
            "cooked",
        ],
        "exec bash -c 'echo rea\"\"dy; read -r -s -n 1 k; echo key-$k'",
    );
}

#[test]
fn what_gig_was_started_to_ignore_does_not_reach_the_program() {
    let lab = Lab::new();
    let gig = lab.gig().command([
        "sh",
        "-c",
        "trap 'echo got-TERM; exit 7' TERM; echo ready; while :; do sleep 0.05; done",
    ]);
    let mut nohup = Command::new("sh");
    nohup
        .args(["-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh"])
        .arg(gig.get_program())
        .args(gig.get_args())
        .current_dir(lab.home());
    let mut child = nohup
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let mut output = std::io::BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line).expect("read");
    assert_eq!(line, "ready\n");
    let pid = i32::try_from(child.id()).ok();
    let pid = pid.and_then(rustix::process::Pid::from_raw).expect("a pid");
    let send = |signal| rustix::process::kill_process(pid, signal).expect("it is there");
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT] {
        send(signal);
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("wait").is_none());
    send(Signal::TERM);
    assert_eq!(child.wait().expect("its end").code(), Some(7));
}
