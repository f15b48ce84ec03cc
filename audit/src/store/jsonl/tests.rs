//! Files: shared, torn, cut, foreign, and what a crash leaves.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
    time::Duration,
};

use super::*;
use crate::{
    entry::Entry,
    event::Event,
    recorder::{Recorder, RecorderSettings},
    verify::{Verified, verify},
};

async fn append(path: &Path, count: u64) {
    let store = Box::new(JsonlStore::open(path).unwrap());
    let (recorder, owner) = Recorder::start(store, RecorderSettings::new("n")).unwrap();
    for n in 0..count {
        let mut entry = Entry::new(Event::Dns);
        entry.conn = Some(n);
        recorder.record(entry).await.unwrap();
    }
    owner.close(Duration::from_secs(60));
}

fn verified(path: &Path) -> Verified {
    verify(fs::read(path).unwrap().as_slice()).unwrap()
}

#[tokio::test]
async fn a_new_file_is_for_its_owner_only_and_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    append(&path, 2).await;
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    append(&path, 3).await;
    assert_eq!(verified(&path).head.seq, 5);
    assert_eq!(verified(&path).gaps, 0);
}

#[tokio::test]
async fn a_file_that_is_not_under_its_name_takes_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
    let store = Box::new(JsonlStore::open(&path).unwrap());
    let (recorder, owner) = Recorder::start(store, RecorderSettings::new("n")).unwrap();
    recorder.record(Entry::new(Event::Dns)).await.unwrap();
    fs::rename(&path, &away).unwrap();
    recorder.record(Entry::new(Event::Dns)).await.unwrap_err();
    fs::write(&path, "forged").unwrap();
    recorder.record(Entry::new(Event::Dns)).await.unwrap_err();
    fs::rename(&away, &path).unwrap();
    recorder.record(Entry::new(Event::Dns)).await.unwrap();
    owner.close(Duration::from_secs(60));
    assert!(verified(&path).head.seq >= 2);
}

#[tokio::test]
async fn a_torn_last_line_is_cut_off_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    append(&path, 3).await;
    for torn_at in [2, 10, 200] {
        let mut octets = fs::read(&path).unwrap();
        let before = verified(&path);
        octets.truncate(octets.len() - torn_at);
        fs::write(&path, octets).unwrap();
        append(&path, 2).await;
        let after = verified(&path);
        assert_eq!(after.gaps, before.gaps + 1);
        assert_eq!(after.head.seq, before.head.seq + 2); // one torn, a gap and two more
    }
}

#[tokio::test]
async fn a_last_line_without_its_end_is_kept_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    // The first record of all, then one behind others.
    for count in [1, 3] {
        append(&path, count).await;
        let before = verified(&path);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, whole.strip_suffix(b"\n").unwrap()).unwrap();
        append(&path, 2).await;
        let after = verified(&path);
        assert!(fs::read(&path).unwrap().starts_with(&whole));
        assert_eq!(after.gaps, before.gaps + 1);
        assert_eq!(after.head.seq, before.head.seq + 3); // a gap and two more
    }
}

#[tokio::test]
async fn a_last_line_of_another_chain_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("a"), folder.path().join("b"));
    append(&path, 2).await;
    append(&other, 3).await;
    let mine = fs::read_to_string(&path).unwrap();
    let theirs = fs::read_to_string(&other).unwrap();
    let third = theirs.lines().last().unwrap();
    fs::write(&path, format!("{mine}{third}")).unwrap();
    append(&path, 1).await;
    assert!(!fs::read_to_string(&path).unwrap().contains(third));
    assert_eq!(verified(&path).head.seq, 4); // two, a gap and one more
}

#[tokio::test]
async fn a_torn_first_line_is_cut_off_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    fs::write(&path, "{\"seq\":1,\"time\":\"20").unwrap();
    append(&path, 1).await;
    assert_eq!(verified(&path).head.seq, 2);
    assert_eq!(verified(&path).gaps, 1);
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes");
    for text in ["hello", "hello\n", "{\"seq\":1}\n", "\n"] {
        fs::write(&path, text).unwrap();
        let refused = JsonlStore::open(&path).unwrap_err();
        assert!(matches!(refused, OpenJsonlError::Continue { .. }));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[tokio::test]
async fn a_tampered_last_line_is_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    append(&path, 1).await;
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"conn\":0", "\"conn\":9")).unwrap();
    assert!(JsonlStore::open(&path).is_err());
}

#[tokio::test]
async fn a_file_cut_while_in_use_never_verifies_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let store = Box::new(JsonlStore::open(&path).unwrap());
    let (recorder, owner) = Recorder::start(store, RecorderSettings::new("n")).unwrap();
    recorder.record(Entry::new(Event::Dns)).await.unwrap();
    recorder.record(Entry::new(Event::Dns)).await.unwrap();
    fs::write(&path, "").unwrap();
    recorder.record(Entry::new(Event::Dns)).await.unwrap();
    owner.close(Duration::from_secs(60));
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("the file lost"), "{text}");
    assert!(verify(text.as_bytes()).is_err());
}

#[tokio::test]
async fn long_files_and_long_lines_are_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let store = Box::new(JsonlStore::open(&path).unwrap());
    let (recorder, owner) = Recorder::start(store, RecorderSettings::new("n")).unwrap();
    let mut entry = Entry::new(Event::Request);
    entry.path = Some("\u{1}".repeat(100_000).into());
    entry.host = entry.path.clone();
    entry.method = entry.path.clone();
    for _ in 0..5 {
        recorder.record(entry.clone()).await.unwrap();
    }
    owner.close(Duration::from_secs(60));
    append(&path, 1).await;
    assert_eq!(verified(&path).head.seq, 6);
}

#[tokio::test]
async fn a_failed_write_leaves_whole_lines_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    append(&path, 2).await;
    let mut store = JsonlStore::open(&path).unwrap();
    store.begin().unwrap();
    // What a write that ran out of space leaves:
    store.file.write_all(b"{\"seq\":3,\"ti").unwrap();
    store.take_back();
    store.unlock();
    assert_eq!(verified(&path).head.seq, 2);
}

/// The other process of the tests below.
#[tokio::test]
#[ignore = "run by other tests in a process of its own"]
async fn child_appends() {
    let path = std::env::var_os("GIG_TEST_AUDIT").unwrap();
    append(path.as_ref(), 20_000).await;
}

#[expect(clippy::disallowed_methods, reason = "a second process is the point")]
fn child(path: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "store::jsonl::tests::child_appends"])
        .env("GIG_TEST_AUDIT", path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn processes_share_a_file_and_one_killed_in_the_middle_breaks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    append(&path, 1).await;
    for _ in 0..5 {
        let length = path.metadata().unwrap().len();
        let mut other = child(&path);
        while path.metadata().unwrap().len() == length {
            append(&path, 1).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        append(&path, 200).await;
        other.kill().unwrap();
        other.wait().unwrap();
        append(&path, 1).await;
    }
    assert!(verified(&path).head.seq > 1000);
}

#[tokio::test]
async fn a_strangers_records_in_place_of_ours_are_told_and_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let (path, theirs) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
    append(&theirs, 9).await;
    let store = Box::new(JsonlStore::open(&path).unwrap());
    let (recorder, owner) = Recorder::start(store, RecorderSettings::new("n")).unwrap();
    recorder.record(Entry::new(Event::Dns)).await.unwrap();
    // The same file, other records.
    fs::write(&path, fs::read(&theirs).unwrap()).unwrap();
    recorder.record(Entry::new(Event::Dns)).await.unwrap();
    owner.close(Duration::from_secs(60));
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("record 1, which was written before"),
        "{text}"
    );
    verify(text.as_bytes()).unwrap_err();
}

#[test]
fn a_fifo_that_nobody_reads_is_refused_by_that_word() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let refused = JsonlStore::open(&path).unwrap_err();
    assert!(
        matches!(refused, OpenJsonlError::Unread { .. }),
        "{refused}"
    );
}

/// Whoever could write where a record is to be would have gig begin one in another file.
#[tokio::test]
async fn a_link_leads_to_a_record_that_is_there_and_to_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (link, file) in [
        ("new.jsonl", "absent"),
        ("empty.jsonl", "empty"),
        ("own.jsonl", "own"),
    ] {
        std::os::unix::fs::symlink(at(file), at(link)).unwrap();
    }
    fs::write(at("empty"), "").unwrap();
    append(&at("own"), 1).await;
    for link in ["new.jsonl", "empty.jsonl"] {
        let refused = JsonlStore::open(&at(link)).unwrap_err().to_string();
        assert!(refused.contains("is a link"), "{refused}");
    }
    assert!(!at("absent").exists());
    append(&at("own.jsonl"), 1).await;
    assert_eq!(verified(&at("own")).head.seq, 2);
}
