//! `--timeout`, `--memory`, `--pids`, `--cpus`, `--tmp-size`: enforced, or refused with the reason.

use std::time::Duration;

use gig_audit::Event;
use gig_tests::lab::{Finished, Lab};

/// A limit that this host cannot enforce must refuse the start and name the option.
fn enforced(run: &Finished, option: &str) -> bool {
    if run.status == 125 {
        assert!(
            run.error_text().contains(option),
            "a refusal names {option}: {run}"
        );
        return false;
    }
    true
}

#[test]
fn a_run_over_its_time_is_ended() {
    let lab = Lab::new();
    let run = lab.gig().option(["--timeout", "1s"]).run(["sleep", "600"]);
    assert!(run.elapsed < Duration::from_secs(120), "{run}");
    assert!(
        run.status == 143 || run.status == 137 || run.status == 124,
        "{run}"
    );
    let _run = run.complains("--timeout");
}

/// The caller's limit is the program's; gig takes what it needs.
#[test]
fn a_run_needs_no_large_stack() {
    let lab = Lab::new();
    let run = lab.gig().under(["prlimit", "--stack=131072:131072"]);
    let run = run.sh("ulimit -s; exit 7").exits(7);
    assert_eq!(run.text(), "128\n", "{run}");
}

#[test]
fn a_program_that_ignores_the_polite_signal_is_killed() {
    let lab = Lab::new();
    let run = lab
        .gig()
        .option(["--timeout", "1s"])
        .sh("trap '' TERM; while :; do sleep 1; done");
    assert!(run.elapsed < Duration::from_secs(120), "{run}");
    assert!(run.status == 137 || run.status == 124, "{run}");
}

/// A program has the ids of the sandbox's first process, and may take its open files down to none.
#[test]
fn a_program_that_limits_the_first_process_is_told_and_ends_as_any() {
    let lab = Lab::new();
    let program = "import resource, signal, sys, time\n\
        resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))\n\
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n\
        time.sleep(600)";
    let run = lab.gig().option(["--timeout", "3s"]).python(program);
    assert!(run.elapsed < Duration::from_secs(120), "{run}");
    assert_eq!(run.status, 9, "{run}");
}

#[test]
fn memory_is_limited() {
    let lab = Lab::new();
    let run = lab.gig().option(["--memory", "100MB"]);
    let run = run.python("x = bytearray(300 << 20); print('ALLOCATED', len(x))");
    if enforced(&run, "--memory") {
        assert!(!run.text().contains("ALLOCATED"), "{run}");
        let run = run.complains("more memory than --memory");
        let told = run.audit.of(Event::SandboxExit).any(|exit| {
            let findings = format!("{:?}", exit.findings);
            findings.contains("more memory than its limit")
        });
        assert!(told, "{run}");
    }
}

#[test]
fn processes_are_limited() {
    let lab = Lab::new();
    let run = lab.gig().option(["--pids", "20"]);
    let run = run.python(
        "import os, signal\n\
         started = 0\n\
         for n in range(60):\n\
         \x20try: child = os.fork()\n\
         \x20except OSError as e: print(e.strerror); break\n\
         \x20if child == 0: signal.pause()\n\
         \x20started += 1\n\
         print(started)",
    );
    if enforced(&run, "--pids") {
        // The program itself is one, and what starts it may be.
        let told = run.text();
        let (why, started) = told.split_once('\n').unwrap_or_default();
        assert_eq!(why, "Resource temporarily unavailable", "{run}");
        let started: u32 = started.trim().parse().expect("how many were started");
        assert!((10..20).contains(&started), "{run}");
    }
}

#[test]
fn processor_time_is_limited() {
    let lab = Lab::new();
    let run = lab.gig().option(["--cpus", "0.2"]);
    let run = run.python(
        "import time; s = time.process_time(); w = time.monotonic()\n\
        while time.monotonic() - w < 2: pass\nprint('used', time.process_time() - s)",
    );
    if enforced(&run, "--cpus") {
        let used: f64 = run
            .text()
            .trim()
            .trim_start_matches("used ")
            .parse()
            .unwrap_or(9.0);
        assert!(used < 1.0, "{run}");
    }
}

#[test]
fn the_private_tmp_is_limited() {
    let lab = Lab::new();
    let run = lab.gig().option(["--tmp-size", "10MB"]);
    let run = run.sh("head -c 30000000 /dev/zero > /tmp/big; wc -c < /tmp/big");
    if enforced(&run, "--tmp-size") {
        let size: u64 = run.text().trim().parse().unwrap_or(u64::MAX);
        assert!(size <= 10 << 20, "{run}");
    }
}
