//! The file is its owner's; what every store promises is shown beside the others.

use std::{fs, sync::Arc};

use super::*;
use crate::store::tests::secret;

#[test]
fn the_file_is_its_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gig.db");
    let store = SqliteStore::open(&path).unwrap();
    store.commit(0, &[Change::PutSecret(secret("A"))]).unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
    }
    drop(store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = SqliteStore::open(&path).unwrap_err().to_string();
    assert!(refused.contains("chmod 600"), "{refused}");
}

/// Who has it open all the time does not keep what was removed in its log.
#[test]
fn what_is_removed_is_in_no_log_while_others_have_it_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gig.db");
    let serves = SqliteStore::open(&path).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let mut added = secret("A");
    added.definition = "what was defined of it".to_owned();
    let (owner, name) = (Arc::clone(&added.owner), Arc::clone(&added.name));
    let definition = added.definition.clone();
    store.commit(0, &[Change::PutSecret(added)]).unwrap();
    assert_eq!(serves.snapshot().unwrap().secrets.len(), 1);
    let holds_it = || {
        let files = fs::read_dir(dir.path()).unwrap();
        let mut texts = files.map(|file| fs::read(file.unwrap().path()).unwrap());
        let wanted = definition.as_bytes();
        texts.any(|text| text.windows(wanted.len()).any(|part| part == wanted))
    };
    assert!(holds_it());
    let removed = Change::DeleteSecret { owner, name };
    store.commit(1, &[removed]).unwrap();
    assert!(!holds_it(), "a file of {} holds it", dir.path().display());
    assert!(serves.snapshot().unwrap().secrets.is_empty());
}

#[test]
fn who_opens_it_again_leaves_the_locks_of_this_process_alone() {
    use std::os::unix::fs::MetadataExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gig.db");
    for _ in 0..2 {
        let _first = SqliteStore::open(&path).unwrap();
        // It holds locks itself, so that it goes before anybody looks for those of the first.
        drop(SqliteStore::open(&path).unwrap());
        // Without it the next process that closes the file takes the log away under this one.
        let file = format!(":{} ", path.metadata().unwrap().ino());
        let locks = fs::read_to_string("/proc/locks").unwrap();
        assert!(locks.lines().any(|line| line.contains(&file)), "{locks}");
    }
}
