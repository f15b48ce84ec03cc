//! A database that somebody put in the place of another.

use super::*;

#[tokio::test]
async fn a_database_under_a_link_is_the_one_the_link_names() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real.db"), folder.path().join("link.db"));
    let (_recorder, owner) = start(&real, "n");
    owner.close(PATIENCE);
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let store = Box::new(SqliteStore::open(&link, "n").unwrap());
    let settings = RecorderSettings {
        durability: crate::Durability::Strict,
        ..RecorderSettings::new("n")
    };
    let (recorder, owner) = Recorder::start(store, settings).unwrap();
    recorder.record(numbered(1)).await.unwrap();
    owner.close(PATIENCE);
    assert_eq!(verified(&real), [1]);
    assert!(!folder.path().join("link.db-wal").exists());
    // A link that leads nowhere makes nothing there.
    let (nowhere, target) = (folder.path().join("to.db"), folder.path().join("made.db"));
    std::os::unix::fs::symlink(&target, &nowhere).unwrap();
    assert!(SqliteStore::open(&nowhere, "n").is_err());
    assert!(!target.exists());
}

#[tokio::test]
async fn another_database_in_its_place_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("a.db"), folder.path().join("b.db"));
    write_one(&path).await;
    let mut log = SqliteLog::open(&path).unwrap();
    let end = log.end().unwrap();
    assert!(!log.replaced(&end).unwrap());
    fs::rename(&path, &away).unwrap();
    assert!(!log.replaced(&end).unwrap(), "nothing is there yet");
    let (_recorder, owner) = start(&path, "n");
    owner.close(PATIENCE);
    assert!(log.replaced(&end).unwrap());
}
