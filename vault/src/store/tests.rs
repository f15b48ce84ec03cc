//! What every store promises, shown on each: several connections at once, one moment a snapshot, nothing lost,
//! one at a time alone.

use std::{path::PathBuf, time::Duration};

use tokio::time::Instant;

use super::{postgres::PostgresStore, sqlite::SqliteStore, *};
use crate::cipher::Sealed;

/// Each test on both.
macro_rules! on_both {
    ($($name:ident,)+) => {
        mod on_sqlite {
            $(#[test]
            fn $name() {
                super::$name(&super::Place::sqlite());
            })+
        }

        mod on_postgres {
            $(#[test]
            fn $name() {
                super::$name(&super::Place::postgres());
            })+
        }
    };
}

pub(super) mod server;
mod transfer;

use server::Database;

on_both! {
    rows_come_back_as_they_were_put,
    a_commit_on_an_old_snapshot_changes_nothing,
    everybodys_commits_are_counted_and_none_is_lost,
    one_at_a_time_has_leave_and_gives_it_back,
}

/// A database of a test's own.
pub(super) enum Place {
    Sqlite(tempfile::TempDir),
    Postgres(Database),
}

impl Place {
    pub(super) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(super) fn postgres() -> Self {
        Self::Postgres(Database::fresh())
    }

    fn file(folder: &tempfile::TempDir) -> PathBuf {
        folder.path().join("gig.db")
    }

    /// A connection of one's own.
    pub(super) fn open(&self) -> Box<dyn Store> {
        match self {
            Self::Sqlite(folder) => Box::new(SqliteStore::open(&Self::file(folder)).unwrap()),
            Self::Postgres(database) => Box::new(PostgresStore::open(&database.url()).unwrap()),
        }
    }
}

pub(super) fn secret(name: &str) -> SecretRow {
    SecretRow {
        owner: "local".into(),
        name: name.into(),
        definition: "{}".to_owned(),
        given: 5,
        created: 7,
        removed: None,
        key: KeyId::from_row("0011223344556677".to_owned()),
        tag: vec![1, 2, 3],
    }
}

pub(super) fn sealed() -> Sealed {
    Sealed {
        nonce: [9; 12],
        octets: vec![0, 255, 1],
    }
}

pub(super) fn version(name: &str, version: u64) -> VersionRow {
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
        wrapped: sealed(),
        value: sealed(),
        tag: vec![4],
    }
}

pub(super) fn custody() -> CustodyRow {
    CustodyRow {
        owner: "local".into(),
        salt: vec![1; 16],
        memory: u32::MAX,
        passes: 3,
        lanes: 4,
        check: sealed(),
        key: KeyId::from_row("0011223344556677".to_owned()),
        tag: vec![5],
    }
}

pub(super) fn key(id: &str, state: KeyState) -> KeyRow {
    KeyRow {
        id: KeyId::from_row(id.to_owned()),
        created: 7,
        state,
        other: (state == KeyState::Past).then(sealed),
        other_id: (state == KeyState::Past).then(|| KeyId::from_row("ff".to_owned())),
        until: (state == KeyState::Past).then_some(-1),
    }
}

/// Commits, again when somebody else was first.
pub(super) fn put(store: &dyn Store, change: &Change) {
    loop {
        let generation = store.generation().unwrap();
        match store.commit(generation, std::slice::from_ref(change)) {
            Ok(()) => return,
            Err(CommitError::Overtaken) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// What another connection committed is seen soon.
pub(super) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn rows_come_back_as_they_were_put(place: &Place) {
    let store = place.open();
    let generation = store.generation().unwrap();
    let changes = [
        Change::PutSecret(secret("A")),
        Change::PutVersion(version("A", 1)),
        Change::PutVersion(version("A", 2)),
        Change::PutCustody(custody()),
        Change::PutKey(key("01", KeyState::Past)),
        Change::PutKey(key("02", KeyState::Current)),
    ];
    store.commit(generation, &changes).unwrap();
    drop(store);
    let store = place.open();
    let snapshot = store.snapshot().unwrap();
    assert!(snapshot.generation > generation);
    assert_eq!(snapshot.secrets, [secret("A")]);
    assert_eq!(snapshot.versions, [version("A", 1), version("A", 2)]);
    assert_eq!(snapshot.custodies, [custody()]);
    let keys = [key("01", KeyState::Past), key("02", KeyState::Current)];
    assert_eq!(snapshot.keys, keys);
    // Put again, each replaces itself.
    let mut changed = secret("A");
    changed.removed = Some(99);
    let mut later = version("A", 2);
    later.retires = Some(100);
    let mut other = custody();
    other.salt = vec![2; 16];
    let changes = [
        Change::PutSecret(changed.clone()),
        Change::PutVersion(later.clone()),
        Change::DeleteVersion {
            owner: "local".into(),
            name: "A".into(),
            version: 1,
        },
        Change::PutCustody(other.clone()),
        Change::PutKey(key("02", KeyState::Past)),
        Change::DeleteKey(KeyId::from_row("01".to_owned())),
    ];
    store.commit(snapshot.generation, &changes).unwrap();
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.secrets, [changed]);
    assert_eq!(snapshot.versions, [later]);
    assert_eq!(snapshot.custodies, [other]);
    assert_eq!(snapshot.keys, [key("02", KeyState::Past)]);
    let gone = [
        Change::DeleteSecret {
            owner: "local".into(),
            name: "A".into(),
        },
        Change::DeleteCustody {
            owner: "local".into(),
        },
        Change::DeleteKey(KeyId::from_row("02".to_owned())),
    ];
    store.commit(snapshot.generation, &gone).unwrap();
    assert!(store.snapshot().unwrap().is_empty());
}

fn a_commit_on_an_old_snapshot_changes_nothing(place: &Place) {
    let (one, two) = (place.open(), place.open());
    let first = one.generation().unwrap();
    assert_eq!(two.generation().unwrap(), first);
    one.commit(first, &[Change::PutSecret(secret("A"))])
        .unwrap();
    // Who committed knows it at once.
    assert!(one.generation().unwrap() > first);
    assert_eq!(one.snapshot().unwrap().secrets, [secret("A")]);
    let late = two.commit(first, &[Change::PutSecret(secret("B"))]);
    assert!(matches!(late, Err(CommitError::Overtaken)));
    // And so does who was overtaken.
    assert_eq!(two.generation().unwrap(), one.generation().unwrap());
    assert_eq!(two.snapshot().unwrap().secrets, [secret("A")]);
}

fn everybodys_commits_are_counted_and_none_is_lost(place: &Place) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let store = place.open();
                for n in 0..10 {
                    put(
                        &*store,
                        &Change::PutSecret(secret(&format!("S{thread}_{n}"))),
                    );
                }
            });
        }
    });
    assert_eq!(place.open().snapshot().unwrap().secrets.len(), 40);
}

fn one_at_a_time_has_leave_and_gives_it_back(place: &Place) {
    let (one, two) = (place.open(), place.open());
    let (a, b): (SecretName, SecretName) = ("A".parse().unwrap(), "B".parse().unwrap());
    let leave = one.alone(&a).unwrap().expect("nobody has it");
    for store in [&one, &two] {
        assert!(store.alone(&a).unwrap().is_none(), "somebody has it");
    }
    assert!(two.alone(&b).unwrap().is_some(), "of another secret");
    drop(leave);
    let again = until("it is given back", || two.alone(&a).unwrap());
    // Whose leave it is outlives the store that it came from.
    drop(two);
    assert!(one.alone(&a).unwrap().is_none());
    drop(again);
    until("it is given back again", || one.alone(&a).unwrap());
}
