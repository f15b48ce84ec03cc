//! gig in a pipeline at a terminal: whoever else sits there keeps keys and modes, and the program has
//! what it would have without gig.

use std::process::Command;

use gig_tests::lab::Lab;

use crate::terminal::{quoted, typed};

/// Types at bash, which runs `line` with `GIG` replaced by a run of gig's with `program`.
fn piped(steps: &[&str], program: &[&str], line: &str) {
    let lab = Lab::new();
    let gig = quoted(&lab.gig().env("TERM", "xterm").command(program));
    let mut shell = Command::new("env");
    let line = line.replace("GIG", &gig);
    shell.args(["TERM=xterm", "bash", "-c"]);
    shell.arg(format!("set -o pipefail; {line}"));
    typed(steps, &shell);
}

#[test]
fn a_pager_behind_gig_keeps_its_keys_and_modes() {
    // The program ends long before the pager, and does not end before it.
    for last in ["true", "exec yes more"] {
        let program = format!("seq -f 'line %g' 200; {last}");
        piped(
            &[
                "expect:\\x1b[?1049h",
                "expect:line 20\\r\\n",
                "send:/line 120\\r",
                "expect:line 140\\r\\n",
                "send:?line 77\\r",
                "expect:line 99",
                "send:q",
                "expect:\\x1b[?1049l",
                "status:0",
                "cooked",
            ],
            &["sh", "-c", &program],
            "GIG | less; exit ${PIPESTATUS[1]}",
        );
    }
}

#[test]
fn a_pager_in_gig_behind_a_pipe_has_its_keys() {
    piped(
        &[
            "expect:\\x1b[?1049h",
            "expect:line 20\\r",
            "send:G",
            "expect:line 200\\r",
            "send:q",
            "expect:\\x1b[?1049l",
            "status:0",
            "cooked",
        ],
        &["less"],
        "seq -f 'line %g' 200 | GIG",
    );
}

#[test]
fn a_program_before_a_pipe_has_lines_and_the_end_of_input() {
    piped(
        &[
            "expect:ready",
            "send:one\\r",
            // As typed, and as printed: once each.
            "expect:one\\r\\ngot-one\\r\\n",
            "send:two\\r",
            "expect:two\\r\\ngot-two\\r\\n",
            "send:\\x04",
            "expect:end\\r\\n",
            "status:4",
            "cooked",
        ],
        &[
            "sh",
            "-c",
            "echo ready; while read -r line; do echo got-$line; done; echo end; exit 4",
        ],
        "GIG | cat",
    );
}

#[test]
fn a_password_asked_for_in_a_pipeline_is_not_shown() {
    for (program, line) in [
        ("read -r -s -p 'pass: ' x; echo ${#x}-long", "GIG | cat"),
        (
            "read -r -s -p 'pass: ' x 2>/dev/tty </dev/tty; echo ${#x}-long; cat",
            "printf 'two\\n' | GIG | cat",
        ),
    ] {
        piped(
            &[
                "expect:pass: ",
                "send:secret\\r",
                "absent:secret",
                "expect:6-long",
                "status:0",
                "cooked",
            ],
            &["bash", "-c", program],
            line,
        );
    }
}

/// As a menu does whose choice a script takes.
#[test]
fn keys_typed_at_a_program_whose_output_is_taken_are_its_own() {
    piped(
        &[
            "expect:which? ",
            "send:k",
            "expect:chosen-k\\r\\n",
            "send:rest\\r",
            "expect:shell-rest\\r\\n",
            "status:0",
            "cooked",
        ],
        &["bash", "-c", "read -r -s -n 1 -p 'which? ' k; echo $k"],
        "x=$(GIG); echo chosen-$x; read -r y; echo shell-$y",
    );
}

/// Standard input is something else, and the terminal is there all the same.
#[test]
fn lines_that_a_program_waits_for_at_its_terminal_are_its_own_whatever_its_input_is() {
    piped(
        &[
            "expect:ready",
            "send:one\\r",
            "expect:one\\r\\ngot-one\\r\\n",
            "expect:input-two\\r\\n",
            "send:three\\r",
            "expect:three\\r\\ngot-three\\r\\n",
            "send:rest\\r",
            "expect:shell-rest\\r\\n",
            "status:0",
            "cooked",
        ],
        &[
            "sh",
            "-c",
            "echo ready; read -r a </dev/tty; echo got-$a; read -r b; echo input-$b; \
             exec 3</dev/tty; read -r c <&3; echo got-$c",
        ],
        "echo two | GIG; read -r y; echo shell-$y",
    );
    piped(
        &[
            "expect:did one",
            "send:y\\r",
            "expect:did one\\r\\n",
            "expect:did two",
            "send:n\\r",
            "status:0",
            "cooked",
        ],
        &["xargs", "-p", "-n1", "echo", "did"],
        "printf 'one\\ntwo\\n' | GIG",
    );
}

/// What is typed ahead stays for who reads it next.
#[test]
fn lines_that_are_not_the_programs_are_left() {
    piped(
        &[
            "expect:ready",
            "send:ahead\\r",
            "expect:end",
            "expect:shell-ahead\\r\\n",
            "status:0",
        ],
        &["sh", "-c", "echo ready; sleep 0.5; cat"],
        "echo end | GIG; read -r y; echo shell-$y",
    );
}

#[test]
fn ctrl_c_in_a_pipeline_reaches_all_of_the_foreground_job() {
    for line in ["GIG | cat", "echo x | GIG", "GIG 2>/dev/null | cat"] {
        piped(
            &["expect:ready", "send:\\x03", "status:130", "cooked"],
            &["bash", "-c", "echo ready; sleep 60; sleep 60"],
            line,
        );
    }
}
