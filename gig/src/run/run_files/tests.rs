//! What stays and what goes, with days as numbers and files of no content.

use super::*;

const NOW: i64 = 1_795_000_000;
const DAY: i64 = 86_400;

fn at(days_ago: i64) -> Timestamp {
    Timestamp::from_second(NOW - days_ago * DAY).unwrap()
}

/// A file as the `n`th run of that day would have left it.
fn leave(folder: &Path, days_ago: i64, n: usize) -> PathBuf {
    let name = format!(
        "{}-{n:08}-0000-7000-8000-000000000000.jsonl",
        day(at(days_ago))
    );
    let path = folder.join(name);
    let file = File::create(&path).unwrap();
    file.set_modified(SystemTime::from(at(days_ago))).unwrap();
    path
}

fn left(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn runs_older_than_a_month_go_beyond_the_newest_fifty() {
    let folder = tempfile::tempdir().unwrap();
    let old: Vec<_> = (0..20).map(|n| leave(folder.path(), 40, n)).collect();
    for n in 0..45 {
        leave(folder.path(), 35, n);
    }
    tidy(folder.path(), at(0));
    assert_eq!(left(folder.path()), KEEP_NEWEST);
    assert!(!old[0].exists() && old[19].exists());
}

#[test]
fn runs_of_the_last_month_all_stay() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..200 {
        leave(folder.path(), 29, n);
    }
    tidy(folder.path(), at(0));
    assert_eq!(left(folder.path()), 200);
}

#[test]
fn a_run_that_ended_lately_and_files_of_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let long = leave(folder.path(), 90, 0);
    File::options()
        .write(true)
        .open(&long)
        .unwrap()
        .set_modified(SystemTime::from(at(1)))
        .unwrap();
    let notes = folder.path().join("2020-01-01-notes.jsonl");
    fs::write(&notes, "mine").unwrap();
    let gone = leave(folder.path(), 90, 1);
    for n in 0..60 {
        leave(folder.path(), 35, n);
    }
    tidy(folder.path(), at(0));
    assert!(long.exists() && notes.exists() && !gone.exists());
}

#[test]
fn names_are_those_that_are_tidied() {
    let sandbox = SandboxId::new(uuid::Uuid::from_u128(7));
    assert!(is_run_file(&name(sandbox, at(0))));
}
