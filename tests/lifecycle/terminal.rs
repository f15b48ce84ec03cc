//! A person at a terminal: `fixtures/terminal.py` types, and says what came of it.

use std::process::{Command, Stdio};

use gig_tests::lab::{Lab, fixture};

pub(crate) fn at_a_terminal(steps: &[&str], program: &[&str]) {
    let lab = Lab::new();
    typed(steps, &lab.gig().env("TERM", "xterm").command(program));
}

pub(crate) fn typed(steps: &[&str], subject: &Command) {
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

/// As a shell reads it.
pub(crate) fn quoted(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| format!("'{}'", word.to_str().expect("UTF-8").replace('\'', r"'\''")))
        .collect::<Vec<_>>()
        .join(" ")
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

/// A person with sub-ids who shows no folder of theirs has a terminal that is theirs alone, and /dev/tty opens it.
#[test]
fn a_terminal_is_opened_by_name() {
    let alone = "echo by-$((6*7)) >/dev/tty";
    let named = "echo err-$((6*7)) >/dev/stderr; echo at-$((6*7)) >$(tty)";
    at_a_terminal(&["expect:by-42", "status:0"], &["sh", "-c", alone]);
    let lab = Lab::new();
    if lab.user().is_root() {
        let steps = ["expect:err-42", "expect:at-42", "status:0"];
        at_a_terminal(&steps, &["sh", "-c", named]);
    }
}

#[test]
fn gig_stops_at_a_signal_with_the_terminal_given_back_and_goes_on() {
    at_a_terminal(
        &[
            "expect:$ ",
            "kill:TSTP",
            "stopped",
            "cooked",
            "kill:CONT",
            "send:echo $((6*7))\\r",
            "expect:42\\r",
            "send:exit 6\\r",
            "status:6",
            "cooked",
        ],
        &["env", "PS1=$ ", "bash", "--norc", "-i"],
    );
}

/// As a person's shell does it: gig is a job of its own, stopped and brought back.
#[test]
fn gig_is_a_job_that_a_shell_stops_and_brings_back() {
    let lab = Lab::new();
    let program = "echo rea\"\"dy; while read -r line; do echo got-$line; done; exit 9";
    let subject = lab
        .gig()
        .env("TERM", "xterm")
        .command(["sh", "-c", program]);
    let line = quoted(&subject).replace('\\', r"\\");
    let mut shell = Command::new("env");
    shell.args(["PS1=$ ", "bash", "--norc", "-i"]);
    typed(
        &[
            "expect:$ ",
            &format!("send:{line}\\r"),
            "expect:ready",
            // To the foreground job of the terminal, which is gig and all it is made of.
            "job:TSTP",
            "expect:Stopped",
            "send:echo shell-$((6*7))\\r",
            "expect:shell-42",
            "send:fg\\r",
            "expect:read -r line",
            "send:hello\\r",
            "expect:got-hello",
            "send:\\x04",
            "expect:$ ",
            "send:echo status-$?\\r",
            "expect:status-9",
            "send:exit 0\\r",
            "status:0",
        ],
        &shell,
    );
}

/// The whole screen is the program's: its other page, keys of several octets, sizes, and back.
#[test]
fn full_screen_programs_work() {
    at_a_terminal(
        &[
            "expect:\\x1b[?1049h",
            "expect:line 20\\r\\n",
            "send:G",
            "expect:line 200\\r\\n",
            "send:?line 77\\r",
            "expect:line 99",
            "send:q",
            "expect:\\x1b[?1049l",
            "status:0",
            "cooked",
        ],
        &["sh", "-c", "seq -f 'line %g' 200 | less"],
    );
    // It waits for keys a moment at a time: one that waits for ever may miss the signal right before.
    let curses = "import curses\n\
        def main(w):\n\
        \x20row, key = 0, 'none'\n\
        \x20w.timeout(50)\n\
        \x20while key != 'q':\n\
        \x20 if key: w.addstr(row, 0, '%s at %d %d' % ((key,) + w.getmaxyx())); w.refresh(); row += 1\n\
        \x20 try: key = w.getkey()\n\
        \x20 except curses.error: key = ''\n\
        curses.wrapper(main)";
    at_a_terminal(
        &[
            "expect:none at 24 80",
            "send:\\x1bOA",
            "expect:KEY_UP at 24 80",
            "size:30x100",
            "expect:KEY_RESIZE at 30 100",
            "send:q",
            "status:0",
            "cooked",
        ],
        &["python3", "-c", curses],
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

/// gig shares the terminal with the shell, and nothing is typed at the program.
#[test]
fn ctrl_c_reaches_a_program_whose_input_is_no_terminal() {
    let program = "trap 'echo got-INT; exit 7' INT; echo rea\"\"dy; while :; do sleep 0.05; done";
    for rest in ["</dev/null", "< <(exec tail -f /dev/null)"] {
        let lab = Lab::new();
        let gig = quoted(&lab.gig().command(["sh", "-c", program]));
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("exec {gig} {rest}")]);
        typed(
            &["expect:ready", "send:\\x03", "expect:got-INT", "status:7"],
            &shell,
        );
    }
}

/// Its window is closed: the program is told, may go on writing to nobody, and its end is gig's.
#[test]
fn a_program_outlives_its_terminal_if_it_wants_to() {
    let program = "trap 'head -c 1000000 /dev/zero; exit 7' HUP; echo rea\"\"dy; \
                   while :; do sleep 0.05; done";
    at_a_terminal(
        &["expect:ready", "hangup", "status:7"],
        &["sh", "-c", program],
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

/// A terminal to type at, and a file for what is printed: each is what it is.
#[test]
fn what_goes_to_a_file_from_a_terminal_is_byte_for_byte() {
    let lab = Lab::new();
    let program = "trap 'echo got-INT; exit 7' INT; printf 'one\\ntwo\\n'; echo rea\"\"dy >&2; \
                   while :; do sleep 0.05; done";
    let gig = quoted(&lab.gig().command(["sh", "-c", program]));
    let file = lab.home().join("printed");
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("exec {gig} >'{}'", file.display())]);
    typed(
        &["expect:ready", "send:\\x03", "status:7", "cooked"],
        &shell,
    );
    let printed = std::fs::read(&file).expect("what was printed");
    assert_eq!(printed, b"one\ntwo\ngot-INT\n");
}

/// A pipe to read, and a terminal to print to: a line ends there as every program's does.
#[test]
fn what_comes_by_a_pipe_is_shown_at_a_terminal_as_any_programs() {
    let lab = Lab::new();
    let gig = quoted(&lab.gig().command(["cat"]));
    let mut shell = Command::new("bash");
    let line = format!("set -o pipefail; printf 'one\\ntwo\\n' | {gig}; echo \"status $?\"");
    shell.args(["-c", &line]);
    typed(
        &[
            "expect:one\\r\\ntwo\\r\\nstatus 0\\r\\n",
            "status:0",
            "cooked",
        ],
        &shell,
    );
}
