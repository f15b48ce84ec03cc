//! Limits hold, or refuse.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::lab::{Test, Who, am_root, command, eventually, everybody, run, running, shell};

pub(crate) const TESTS: &[Test] = &[
    (
        "processes_are_limited_and_a_fork_bomb_is_contained",
        processes,
    ),
    ("private_directories_are_limited", tmp_size),
    ("memory_limit_ends_the_program", memory),
    ("limit_that_cannot_be_enforced_refuses", refused),
    (
        "no_control_group_is_left_after_the_callers_death",
        no_group_left,
    ),
];

fn processes() {
    for who in everybody() {
        let script =
            "i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done 2>/dev/null; echo started";
        let ended = run(*who, &["--pids", "10", "--", "/bin/sh", "-c", script]);
        // dash gives up at the first fork that fails.
        assert!(
            ended.err.contains("Cannot fork") || ended.code == Some(2),
            "{who:?}: {ended:?}"
        );
        shell(
            *who,
            &["--pids", "30"],
            "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 1",
        );
        shell(*who, &[], ":");
    }
}

fn tmp_size() {
    for who in everybody() {
        let out = shell(
            *who,
            &["--tmp-size", "1048576"],
            "for d in /tmp /var /home/sandbox /dev/shm /run; do head -c 3000000 /dev/zero > $d/x 2>/dev/null; stat -c %s $d/x; done",
        );
        assert_eq!(out, "1048576\n".repeat(5), "{who:?}");
    }
}

fn may_group() -> bool {
    am_root() && Path::new("/sys/fs/cgroup").exists()
}

fn memory() {
    if !may_group() {
        return;
    }
    let script = "x = b'x' * 200_000_000; print(len(x))";
    let limit = [
        "--memory",
        "60000000",
        "--",
        "/usr/bin/python3",
        "-c",
        script,
    ];
    let ended = run(Who::Root, &limit);
    if ended.err.contains("cannot be enforced here") {
        return;
    }
    assert_eq!(ended.code, Some(137), "{ended:?}");
    let enough = [
        "--memory",
        "600000000",
        "--",
        "/usr/bin/python3",
        "-c",
        script,
    ];
    assert_eq!(run(Who::Root, &enough).out, "200000000\n");
}

fn refused() {
    // No group is delegated to an id without an account.
    let ended = run(Who::User, &["--memory", "60000000", "--", "/bin/true"]);
    if am_root() {
        assert_eq!(ended.code, Some(125), "{ended:?}");
        assert!(
            ended.err.contains("--memory cannot be enforced here"),
            "{ended:?}"
        );
    }
}

fn groups() -> Vec<std::path::PathBuf> {
    fn below(path: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with("gig-00000000-0000-0000-0000-00000000abc")
            {
                found.push(entry.path());
            } else if is_directory {
                below(&entry.path(), found);
            }
        }
    }
    let mut found = Vec::new();
    below(Path::new("/sys/fs/cgroup"), &mut found);
    found
}

fn no_group_left() {
    if !may_group() {
        return;
    }
    let args = [
        "--id",
        "0xabc1",
        "--cpus",
        "900",
        "--",
        "/bin/sleep",
        "1000.0625",
    ];
    let mut driver = command(Who::Root, &args)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let refused = (0..2400).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(25));
        !groups().is_empty() || driver.try_wait().unwrap().is_some()
    }) && driver.try_wait().unwrap().is_some();
    if refused {
        return;
    }
    driver.kill().unwrap();
    driver.wait().unwrap();
    eventually("the group is gone", || groups().is_empty());
    eventually("the program is gone", || !running("1000.0625"));
}
