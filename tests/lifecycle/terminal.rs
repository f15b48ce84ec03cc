//! A person at a terminal: `fixtures/terminal.py` types, and says what came of it.

use std::process::{Command, Stdio};

use gig_tests::lab::{Lab, fixture};

fn at_a_terminal(steps: &[&str], program: &[&str]) {
    let lab = Lab::new();
    let subject = lab.gig().env("TERM", "xterm").command(program);
    let mut command = Command::new("/usr/bin/python3");
    command
        .arg(fixture::path("terminal.py"))
        .args(steps)
        .arg("--");
    command.arg(subject.get_program()).args(subject.get_args());
    let output = command.stdin(Stdio::null()).output().expect("the typist");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

#[test]
fn a_shell_at_a_terminal_works() {
    at_a_terminal(
        &[
            "expect:$ ",
            "send:echo $((6*7)); tty\\r",
            "expect:42\\r",
            "expect:/dev/",
            "send:exit 3\\r",
            "status:3",
            "cooked",
        ],
        &["env", "PS1=$ ", "bash", "--norc", "-i"],
    );
}

#[test]
fn ctrl_c_interrupts_the_foreground_job_only() {
    at_a_terminal(
        &[
            "expect:$ ",
            // Said by the job itself: from then on it is the one that Ctrl-C is for.
            "send:sh -c 'echo rea\"\"dy; exec sleep 60'\\r",
            "expect:ready",
            "send:\\x03",
            "expect:$ ",
            "send:echo status $?\\r",
            "expect:status 130",
            "send:exit 5\\r",
            "status:5",
        ],
        &["env", "PS1=$ ", "bash", "--norc", "-i"],
    );
}

#[test]
fn jobs_are_stopped_and_continued() {
    at_a_terminal(
        &[
            "expect:$ ",
            "send:sh -c 'echo rea\"\"dy; exec sleep 60'\\r",
            "expect:ready",
            "send:\\x1a",
            "expect:Stopped",
            "send:kill %1; fg; true\\r",
            "expect:$ ",
            "send:exit 4\\r",
            "status:4",
        ],
        &["env", "PS1=$ ", "bash", "--norc", "-i"],
    );
}

#[test]
fn the_windows_size_and_its_changes_arrive() {
    at_a_terminal(
        &["expect:24 80", "size:50x132", "expect:50 132", "status:0"],
        &[
            "bash",
            "-c",
            "trap 'stty size; exit 0' WINCH; stty size; while :; do sleep 0.05; done",
        ],
    );
}

#[test]
fn the_terminal_is_as_before_after_a_program_that_left_it_raw() {
    at_a_terminal(
        &["expect:raw", "status:0", "cooked"],
        &["sh", "-c", "stty raw -echo; echo raw"],
    );
}

#[test]
fn the_terminal_is_as_before_after_a_killed_program() {
    at_a_terminal(
        &["expect:raw", "status:137", "cooked"],
        &["sh", "-c", "stty raw -echo; echo raw; kill -9 $$"],
    );
}

#[test]
fn the_end_of_input_at_a_terminal_ends_cat() {
    at_a_terminal(
        &[
            "send:line\\r",
            "expect:line\\r\\nline",
            "send:\\x04",
            "status:0",
        ],
        &["cat"],
    );
}
