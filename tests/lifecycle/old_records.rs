//! Run files in the data directory: removed when they are old, never under a run that goes on.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::fs::{MetadataExt, chown},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use gig_tests::lab::{Lab, network::text};

/// The subject without `--audit`, so that its record is in `data`.
fn recording_below(lab: &Lab, data: &Path, script: &str) -> Command {
    let subject = lab
        .gig()
        .host_env("GIG_DATA_DIR", &text(data))
        .command(["sh", "-c", script]);
    let mut command = Command::new(subject.get_program());
    let mut words = subject.get_args();
    while let Some(word) = words.next() {
        if word == "--audit" {
            let _its_value = words.next();
        } else {
            command.arg(word);
        }
    }
    command.current_dir(lab.home());
    command
}

fn make_old(path: &Path) {
    let long_ago = SystemTime::now() - Duration::from_secs(90 * 86_400);
    let file = File::options().write(true).open(path).expect("the file");
    file.set_modified(long_ago).expect("make it old");
}

#[test]
fn old_runs_are_removed_but_not_one_that_goes_on() {
    let lab = Lab::new();
    let data = lab.home().join("data");
    let mut going_on = recording_below(&lab, &data, "echo up; read go");
    going_on.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut going_on = going_on.spawn().expect("start gig");
    let mut line = String::new();
    let output = going_on.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert_eq!(line, "up\n");
    let runs = data.join("audit/runs");
    let own = fs::read_dir(&runs).expect("the runs").next();
    let own = own.expect("one run").expect("its entry").path();
    let old = |n: u32| {
        runs.join(format!(
            "2020-01-02-{n:08}-0000-7000-8000-000000000000.jsonl"
        ))
    };
    // As if it had been started long ago: the name tells the day.
    fs::rename(&own, old(0)).expect("an old name");
    make_old(&old(0));
    let theirs = fs::metadata(&runs).expect("whose the folder is");
    for n in 1..=60 {
        File::create(old(n)).expect("an old record");
        make_old(&old(n));
        chown(old(n), Some(theirs.uid()), Some(theirs.gid())).expect("give it to its user");
    }
    let ended = recording_below(&lab, &data, "true")
        .output()
        .expect("a second gig");
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{errors}");
    assert!(old(0).exists(), "the record of a run that goes on");
    // The newest fifty: 12..=60 and the second run's own.
    assert!(!old(1).exists() && !old(11).exists() && old(12).exists());
    drop(going_on.stdin.take());
    going_on.wait().expect("its end");
}
