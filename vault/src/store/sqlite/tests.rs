//! Several connections at once, one moment a snapshot, nothing lost.

use std::{fs, sync::Arc};

use super::*;
use crate::{cipher::Sealed, master_key::KeyId, store::SecretRow, store::VersionRow};

fn secret(name: &str) -> SecretRow {
    SecretRow {
        owner: "local".into(),
        name: name.into(),
        definition: "{}".to_owned(),
        created: 7,
        removed: None,
        key: KeyId::from_row("0011223344556677".to_owned()),
        tag: vec![1, 2, 3],
    }
}

fn version(name: &str, version: u64) -> VersionRow {
    let sealed = Sealed {
        nonce: [9; 12],
        octets: vec![0, 255, 1],
    };
    VersionRow {
        owner: "local".into(),
        name: name.into(),
        version,
        created: 7,
        expires: Some(8),
        retires: None,
        revoked: Some(9),
        custody: true,
        format: 1,
        key: KeyId::from_row("0011223344556677".to_owned()),
        wrapped: sealed.clone(),
        value: sealed,
        tag: vec![4],
    }
}

#[test]
fn rows_come_back_as_they_were_put() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gig.db");
    let store = SqliteStore::open(&path).unwrap();
    let changes = [
        Change::PutSecret(secret("A")),
        Change::PutVersion(version("A", 1)),
        Change::PutVersion(version("A", 2)),
    ];
    store.commit(0, &changes).unwrap();
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.generation, 1);
    assert_eq!(snapshot.secrets, [secret("A")]);
    assert_eq!(snapshot.versions, [version("A", 1), version("A", 2)]);
    let gone = Change::DeleteSecret {
        owner: "local".into(),
        name: "A".into(),
    };
    store.commit(1, &[gone]).unwrap();
    let snapshot = store.snapshot().unwrap();
    assert!(snapshot.secrets.is_empty() && snapshot.versions.is_empty());
}

#[test]
fn a_commit_on_an_old_snapshot_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gig.db");
    let (one, two) = (
        SqliteStore::open(&path).unwrap(),
        SqliteStore::open(&path).unwrap(),
    );
    assert_eq!(
        (one.generation().unwrap(), two.generation().unwrap()),
        (0, 0)
    );
    one.commit(0, &[Change::PutSecret(secret("A"))]).unwrap();
    let late = two.commit(0, &[Change::PutSecret(secret("B"))]);
    assert!(matches!(late, Err(CommitError::Overtaken)));
    assert_eq!(
        (one.generation().unwrap(), two.generation().unwrap()),
        (1, 1)
    );
    assert_eq!(two.snapshot().unwrap().secrets, [secret("A")]);
}

#[test]
fn everybodys_commits_are_counted_and_none_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = Arc::new(dir.path().join("gig.db"));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let path = Arc::clone(&path);
            std::thread::spawn(move || {
                let store = SqliteStore::open(&path).unwrap();
                for n in 0..10 {
                    let row = secret(&format!("S{thread}_{n}"));
                    loop {
                        let generation = store.generation().unwrap();
                        match store.commit(generation, &[Change::PutSecret(row.clone())]) {
                            Ok(()) => break,
                            Err(CommitError::Overtaken) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let snapshot = SqliteStore::open(&path).unwrap().snapshot().unwrap();
    assert_eq!((snapshot.generation, snapshot.secrets.len()), (40, 40));
}

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
