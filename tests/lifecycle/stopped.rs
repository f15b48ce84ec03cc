//! A program that stops at its terminal: gig stops with it, and whoever brings gig back brings both.

use std::{fs, thread, time::Duration};

use gig_tests::lab::{Finished, Lab, Live};
use rustix::process::Signal;

use crate::{
    background::at_a_shell_in,
    death::{Surroundings, family},
    terminal::at_a_terminal,
};

/// Has the whole screen, says its size and each key that it gets, and leaves the screen when it stops. It waits for
/// keys a moment at a time: one that waits for ever may miss the signal right before.
const SCREEN: &str = "\
import os, select, signal, sys, tty
def say(text):
    os.write(1, text.encode())
def draw():
    columns, rows = os.get_terminal_size()
    say('\\x1b[?1049hwindow %d %d\\r\\n' % (rows, columns))
def stop(number, frame):
    say('\\x1b[?1049l')
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, stop)
    draw()
signal.signal(signal.SIGTSTP, stop)
tty.setcbreak(0)
draw()
key = b''
while key != b'q':
    if select.select([0], [], [], 0.05)[0]:
        key = os.read(0, 1)
        say('key-' + key.decode() + '\\r\\n')
say('\\x1b[?1049l')
sys.exit(9)
";

/// Reads lines, and ends with 9.
const LINES: &str = "echo rea\"\"dy; while read -r line; do echo got-$line; done; exit 9";

/// What a shell's person sees of the modes that the shell's next command has.
const MODES: &str = "send:stty -a | grep -q -e ' -icanon' -e ' -echo ' || echo mo\"\"des\\r";

fn at_a_shell(steps: &[&str], program: &[&str]) {
    let lab = Lab::new();
    at_a_shell_in(&lab, lab.gig(), steps, program);
}

#[test]
fn ctrl_z_stops_gig_and_the_shell_brings_both_back() {
    at_a_shell(
        &[
            "expect:$ ",
            "send:GIG\\r",
            "expect:\\x1b[?1049hwindow 24 80",
            "send:\\x1a",
            // What it writes before it stops is shown before the shell says a word.
            "expect:\\x1b[?1049l",
            "expect:Stopped",
            MODES,
            "expect:modes\\r",
            "size:30x100",
            "send:fg\\r",
            "expect:\\x1b[?1049hwindow 30 100",
            "send:k",
            "expect:key-k",
            "send:\\x1a",
            "expect:\\x1b[?1049l",
            "expect:Stopped",
            "send:bg\\r",
            "expect:window 30 100",
            "send:jobs\\r",
            "expect:Running",
            MODES,
            "expect:modes\\r",
            "send:fg\\r",
            "expect:gig.sh",
            "send:l",
            "expect:key-l",
            "send:q",
            "expect:\\x1b[?1049l",
            "expect:$ ",
            "send:echo status-$?\\r",
            "expect:status-9",
            "send:exit 0\\r",
            "status:0",
            "cooked",
        ],
        &["python3", "-c", SCREEN],
    );
}

#[test]
fn a_program_that_stops_itself_stops_gig() {
    at_a_shell(
        &[
            "expect:$ ",
            "send:GIG\\r",
            "expect:ready",
            "expect:Stopped",
            "send:echo shell-$((6*7))\\r",
            "expect:shell-42",
            "send:fg\\r",
            "expect:went-on",
            "expect:$ ",
            "send:echo status-$?\\r",
            "expect:status-5",
            "send:exit 0\\r",
            "status:0",
            "cooked",
        ],
        &[
            "sh",
            "-c",
            "echo ready; kill -STOP $$; echo went-on; exit 5",
        ],
    );
}

/// It gave the terminal to another group and took it not back: as a job of a shell's it has it after `fg`.
#[test]
fn a_program_that_reads_in_the_background_of_its_terminal_has_it_when_it_is_brought_back() {
    let program = "\
import os, signal, sys
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpgid(0))
    os._exit(0)
os.waitpid(child, 0)
print('ready', flush=True)
print('got-' + sys.stdin.readline(), flush=True)
sys.exit(9)
";
    at_a_shell(
        &[
            "expect:$ ",
            "send:GIG\\r",
            "expect:ready",
            "expect:Stopped",
            "send:fg\\r",
            "expect:gig.sh",
            "send:hello\\r",
            "expect:got-hello",
            "expect:$ ",
            "send:echo status-$?\\r",
            "expect:status-9",
            "send:exit 0\\r",
            "status:0",
            "cooked",
        ],
        &["python3", "-c", program],
    );
    // Without a shell it has it at once.
    at_a_terminal(
        &[
            "expect:ready",
            "send:hello\\r",
            "expect:got-hello",
            "status:9",
            "cooked",
        ],
        &["python3", "-c", program],
    );
}

/// The jobs of a shell inside are that shell's; the shell itself is one of the shell's outside.
#[test]
fn a_shell_inside_has_jobs_of_its_own() {
    at_a_shell(
        &[
            "expect:$ ",
            "send:GIG\\r",
            "expect:inner> ",
            "send:sh -c 'echo rea\"\"dy; exec sleep 60'\\r",
            "expect:ready",
            "send:\\x1a",
            "expect:Stopped",
            "expect:inner> ",
            "send:echo inside-$((6*7))-$PS1\\r",
            "expect:inside-42-inner>",
            // Ctrl-Z at its prompt is nothing.
            "send:\\x1a",
            "send:suspend\\r",
            "expect:Stopped",
            "expect:$ ",
            "send:echo outside-$((6*7))-$PS1\\r",
            "expect:outside-42-$",
            "send:fg\\r",
            "expect:gig.sh",
            "send:jobs\\r",
            "expect:Stopped",
            "expect:exec sleep 60",
            "send:kill %1; fg; true\\r",
            "expect:inner> ",
            "send:exit 4\\r",
            "expect:$ ",
            "send:echo status-$?\\r",
            "expect:status-4",
            "send:exit 0\\r",
            "status:0",
            "cooked",
        ],
        &["env", "PS1=inner> ", "bash", "--norc", "-i"],
    );
}

#[test]
fn ctrl_z_in_a_pipeline_stops_all_of_it() {
    for line in ["GIG | cat", "GIG 2>/dev/null"] {
        at_a_shell(
            &[
                "expect:$ ",
                &format!("send:{line}\\r"),
                "expect:ready",
                "send:\\x1a",
                "expect:Stopped",
                "send:echo shell-$((6*7))\\r",
                "expect:shell-42",
                "send:fg\\r",
                "expect:gig.sh",
                "send:hello\\r",
                "expect:got-hello",
                "send:\\x04",
                "expect:$ ",
                "send:exit 0\\r",
                "status:0",
                "cooked",
            ],
            &["sh", "-c", LINES],
        );
    }
}

/// Nobody would bring it back, or it is not to be stopped: as for any program Ctrl-Z is nothing then.
#[test]
fn ctrl_z_where_nobody_brings_it_back_is_nothing() {
    let steps = [
        "expect:ready",
        "send:\\x1a",
        "send:hello\\r",
        "expect:got-hello",
        "send:\\x04",
        "status:9",
        "cooked",
    ];
    at_a_terminal(&steps, &["sh", "-c", LINES]);
    at_a_shell(
        &[
            "expect:$ ",
            "send:(trap '' TSTP; GIG)\\r",
            "expect:ready",
            "send:\\x1a",
            "send:hello\\r",
            "expect:got-hello",
            "absent:Stopped",
            "send:\\x04",
            "expect:$ ",
            "send:exit 0\\r",
            "status:0",
            "cooked",
        ],
        &["sh", "-c", LINES],
    );
}

/// What else it started would have more than its time.
#[test]
fn the_time_limit_ends_a_run_that_is_stopped() {
    let lab = Lab::new();
    at_a_shell_in(
        &lab,
        lab.gig().option(["--timeout", "4s"]),
        &[
            "expect:$ ",
            "send:GIG\\r",
            "expect:ready",
            "send:\\x1a",
            "expect:Stopped",
            "expect:time limit",
            "send:wait %1; echo status-$?\\r",
            "expect:status-143",
            "send:exit 0\\r",
            "status:0",
            "cooked",
        ],
        &["sh", "-c", LINES],
    );
}

/// Each time that it is woken to be ended it is stopped anew.
#[test]
fn a_program_that_stops_again_and_again_is_ended_in_time() {
    const AGAIN: &str = "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nprint('rea' + 'dy', flush=True)\n\
                         while 1: os.kill(os.getpid(), 19)";
    let lab = Lab::new();
    at_a_shell_in(
        &lab,
        lab.gig().option(["--timeout", "2s"]),
        &[
            "expect:$ ",
            "send:GIG\\r",
            "expect:ready",
            "expect:Stopped",
            "expect:time limit",
            "send:while kill -0 %1 2>/dev/null; do sleep 0.1; done; echo go''ne\\r",
            "expect:gone",
            "send:exit 0\\r",
            "status:0",
            "cooked",
        ],
        &["python3", "-c", AGAIN],
    );
}

#[test]
fn a_gig_that_is_killed_while_it_is_stopped_leaves_nothing() {
    let lab = Lab::new();
    let before = Surroundings::of(&lab);
    // Not another test's.
    let slept = format!("sleep 98768.{}", std::process::id());
    let program = format!("echo rea\"\"dy; {slept}1 & exec {slept}2");
    at_a_shell_in(
        &lab,
        lab.gig(),
        &[
            "expect:$ ",
            "send:GIG\\r",
            "expect:ready",
            "send:\\x1a",
            "expect:Stopped",
            MODES,
            "expect:modes\\r",
            // Gone when the shell knows it.
            "send:kill -9 %1; while [ \"$(jobs -s)\" ]; do sleep 0.1; done; echo over-$((6*7))\\r",
            "expect:over-42",
            MODES,
            "expect:modes\\r",
            "send:exit 0\\r",
            "status:0",
            "cooked",
        ],
        &["sh", "-c", &program],
    );
    eventually("nothing runs", || {
        !running(&format!("{slept}1")) && !running(&format!("{slept}2"))
    });
    before.are_all_there_is(&lab);
}

/// Without a terminal it is nobody's job: gig goes on, may be told to end, and tells the program to go on.
#[test]
fn a_program_without_a_terminal_that_stops_is_brought_back_and_ended_by_signals_to_gig() {
    let finish = |signals: &[Signal], rest: &str| -> Finished {
        let lab = Lab::new();
        let script = format!("trap 'exit 6' TERM; echo ready; kill -STOP $$; echo went-on; {rest}");
        let mut live = lab.gig().start(["sh", "-c", &script]);
        live.wait_for("ready");
        eventually("it stops", || states(&lab, &live).contains(&'T'));
        assert_ne!(state(live.pid()), Some('T'));
        for signal in signals {
            live.signal(*signal);
        }
        live.finish(Duration::from_secs(20))
    };
    let _run = finish(&[Signal::CONT], "exit 5").exits(5).says("went-on");
    // Whichever of the two is the first to arrive.
    let stays = "while :; do sleep 0.05; done";
    let _run = finish(&[Signal::TERM, Signal::CONT], stays).exits(6);
}

/// As a shell stops a job: not its first process alone, which would leave the others running without a way out.
#[test]
fn what_the_program_started_stops_and_goes_on_with_it() {
    let lab = Lab::new();
    let script = "trap 'kill $!; exit 5' USR1; sleep 98770 & echo ready; while :; do wait; done";
    let mut live = lab.gig().start(["sh", "-c", script]);
    live.wait_for("ready");
    let stopped = || {
        let states = states(&lab, &live);
        states.iter().filter(|state| **state == 'T').count()
    };
    live.signal(Signal::TSTP);
    // gig, the program and what it started.
    eventually("all are stopped", || stopped() == 3);
    live.signal(Signal::CONT);
    eventually("all go on", || stopped() == 0);
    live.signal(Signal::USR1);
    let _run = live.finish(Duration::from_secs(20)).exits(5);
}

/// What gig and all that descends from it do.
fn states(lab: &Lab, live: &Live<'_>) -> Vec<char> {
    let (family, _) = family(lab, live.pid());
    family.keys().filter_map(|pid| state(*pid)).collect()
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn running(command: &str) -> bool {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let mut commands = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    commands.any(|line| String::from_utf8_lossy(&line).replace('\0', " ").trim() == command)
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}: not in twenty seconds");
}
