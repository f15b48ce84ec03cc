//! Signals to gig are signals to the program.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use gig_tests::lab::{Finished, Lab, Live, network::text};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::death::family;

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

fn by_number(live: &Live, number: &str) {
    let script = format!("kill -{number} {}", live.pid());
    let status = Command::new("sh").args(["-c", &script]).status();
    assert!(status.expect("run sh").success(), "{script}");
}

/// Those that have no name of their own: what supervisors give a meaning to (systemd's `KillSignal=RTMIN+3`).
#[test]
fn a_real_time_signal_reaches_the_program() {
    let lab = Lab::new();
    for number in ["16", "34", "37", "64"] {
        let script = format!(
            "trap 'echo got-{number}; exit 7' {number}; echo ready; while :; do sleep 0.05; done"
        );
        let mut live = lab.gig().start(["sh", "-c", &script]);
        live.wait_for("ready");
        by_number(&live, number);
        let _run = live
            .finish(PATIENCE)
            .exits(7)
            .says(&format!("got-{number}"));
    }
    let mut live = lab.gig().start(["sh", "-c", "echo ready; exec sleep 60"]);
    live.wait_for("ready");
    by_number(&live, "37");
    let _run = live.finish(PATIENCE).exits(128 + 37);
}

/// The program has ended, and left more to look through than gig looks through in a moment.
#[test]
fn a_signal_ends_a_gig_that_looks_for_what_was_left() {
    let lab = Lab::new();
    let folders: Vec<String> = (0..16)
        .map(|number| text(&lab.folder(&format!("folder-{number}"))))
        .collect();
    let subject = folders
        .iter()
        .fold(lab.gig(), |gig, folder| gig.option(["--rw", folder]));
    // Files of a megabyte in which nothing is.
    let script = format!(
        "for folder in {}; do mkdir -p $folder/.git/hooks; \
         truncate -s 1048575 $(seq -f $folder/.git/hooks/%g 60); done; echo ready",
        folders.join(" ")
    );
    let mut live = subject.start(["sh", "-c", &script]);
    live.wait_for("ready");
    thread::sleep(Duration::from_millis(300));
    live.signal(Signal::TERM);
    let signalled = Instant::now();
    let run = live.finish(PATIENCE);
    let took = signalled.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}: {run}");
    let run = run.complains("was not looked through to the end");
    let mut ends = run.audit.of(gig_audit::Event::SandboxExit);
    let findings = format!("{:?}", ends.next().expect("its end").findings);
    assert!(findings.contains("not looked for to the end"), "{findings}");
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
    thread::sleep(Duration::from_millis(300));
    live.signal(Signal::CONT);
    let _run = live.finish(PATIENCE).exits(5).says("continued");
}

/// Says each TERM that it gets, and at USR1 how many there were. By write(2): a handler may interrupt a
/// print, and must not print then.
const COUNTS: &str = "
import os, signal, time
count = 0
def say(text):
    os.write(1, text.encode() + b'\\n')
def term(number, frame):
    global count
    count += 1
    say('term')
def usr1(number, frame):
    say('in all %d' % count)
    os._exit(7)
signal.signal(signal.SIGTERM, term)
signal.signal(signal.SIGUSR1, usr1)
say('ready')
while True:
    time.sleep(0.05)
";

/// TERM is sent by `strike`, which is told gig's pid: the program gets it, once, and its end is gig's.
fn told_once(strike: impl FnOnce(&Lab, Pid)) {
    let lab = Lab::new();
    let mut gig = lab
        .gig()
        .command(["python3", "-c", COUNTS])
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gig");
    let pid = i32::try_from(gig.id()).ok().and_then(Pid::from_raw);
    let pid = pid.expect("a pid");
    let mut lines = BufReader::new(gig.stdout.take().expect("its output")).lines();
    let mut next = || lines.next().map(|line| line.expect("a line"));
    assert_eq!(next().as_deref(), Some("ready"));
    strike(&lab, pid);
    assert_eq!(next().as_deref(), Some("term"));
    kill_process(pid, Signal::USR1).expect("gig is there");
    assert_eq!(next().as_deref(), Some("in all 1"));
    assert_eq!(gig.wait().expect("its end").code(), Some(7));
}

/// As timeout(1), a shell and a terminal do.
#[test]
fn a_signal_to_gigs_process_group_reaches_the_program_once() {
    told_once(|_, gig| kill_process_group(gig, Signal::TERM).expect("the group"));
}

/// As a service manager does that ends a control group: gig, hub, engine, first process of the sandbox.
#[test]
fn a_signal_to_every_process_of_gigs_reaches_the_program_once() {
    told_once(|lab, gig| {
        let (processes, _) = family(lab, gig.as_raw_nonzero().get().unsigned_abs());
        let own: Vec<u32> = processes.into_keys().filter(|pid| is_gigs(*pid)).collect();
        // gig, the two stages of the hub, bwrap and the first process.
        assert!(own.len() >= 5, "{own:?}");
        for pid in own {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            kill_process(pid.expect("a pid"), Signal::TERM).expect("it is there");
        }
    });
}

/// Not one of the sandbox's own: those are two namespaces down, and not the first there.
fn is_gigs(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let ids: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    ids.len() < 3 || ids.last() == Some(&"1")
}
