//! What goes from one store to another, and what does not.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
};

use jiff::Timestamp;

use super::*;
use crate::{
    credential::Digest,
    role::Role,
    store::{Actor, Change, Place, Standing, Store, tests::server::Database},
};

/// Table and columns, sorted.
fn listed() -> BTreeMap<String, Vec<String>> {
    let copied = COPIED.iter().map(|table| {
        let mut columns: Vec<_> = table.columns.iter().map(ToString::to_string).collect();
        columns.sort();
        (table.name.to_owned(), columns)
    });
    copied.collect()
}

fn there(store: &impl Tables, sql: &str) -> BTreeMap<String, Vec<String>> {
    let ask = |db: &Transaction<'_>| {
        db.query_all(sql, (), |row| {
            Ok((row.get::<String>(0)?, row.get::<String>(1)?))
        })
    };
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for (table, column) in store.read(ask).unwrap() {
        let own = ["appliance_schema_history", "standing", "clock"];
        if !own.contains(&table.as_str()) && !PASSING.contains(&table.as_str()) {
            found.entry(table).or_default().push(column);
        }
    }
    found
}

#[test]
fn no_table_and_no_column_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteStore::open(&folder.path().join("gig.db")).unwrap();
    let sql = "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c
               WHERE t.type = 'table' ORDER BY t.name, c.name";
    assert_eq!(there(&file, sql), listed());
    let database = Database::fresh();
    let fleet = PostgresStore::open(&database.url()).unwrap();
    let sql = "SELECT table_name::text, column_name::text FROM information_schema.columns
               WHERE table_schema = 'gig' ORDER BY table_name::text COLLATE \"C\",
               column_name::text COLLATE \"C\"";
    assert_eq!(there(&fleet, sql), listed());
}

fn actor(name: &str) -> Actor {
    Actor {
        request: None,
        once: None,
        name: name.into(),
        person: Some(name.into()),
        owner: false,
        standing: Standing::Itself,
        address: None,
        at: Timestamp::from_second(1_800_000_000).unwrap(),
    }
}

fn apply(store: &dyn Store, change: Change) {
    store.apply(&change, &actor("ana"), &|_| Ok(())).unwrap();
}

/// An admin who chose their password.
fn admin(store: &dyn Store, name: &str) {
    let add = Change::AddUser {
        name: name.parse().unwrap(),
        role: Role::Admin,
        password: "first".to_owned(),
    };
    let choose = Change::SetPassword {
        code: None,
        name: name.to_owned(),
        password: "hash".to_owned(),
        end_tokens: false,
    };
    for change in [add, choose] {
        store.apply(&change, &actor(name), &|_| Ok(())).unwrap();
    }
}

/// Two admins, one signed in, a token, a policy with more versions than are read at once, assigned,
/// and a proposal.
fn fill(store: &dyn Store) {
    admin(store, "ana");
    admin(store, "ben");
    apply(
        store,
        Change::StartSession {
            code: None,
            id: "s1".to_owned(),
            digest: Digest::from_octets([1; 32]),
            user: "ana".to_owned(),
            password: "hash".to_owned(),
            expires: Timestamp::from_second(1_900_000_000).unwrap(),
            agent: "a browser".to_owned(),
        },
    );
    apply(
        store,
        Change::AddToken {
            id: "t1".to_owned(),
            digest: Digest::from_octets([2; 32]),
            name: "ci".parse().unwrap(),
            role: Role::Viewer,
            expires: None,
            narrowing: crate::Narrowing::default(),
        },
    );
    for version in 0..300 {
        apply(
            store,
            Change::SavePolicy {
                name: "p".parse().unwrap(),
                expected: Some(version),
                document: format!("# ünï {version}\n"),
                reason: String::new(),
                secrets: crate::store::Vouched::Freely,
            },
        );
    }
    apply(
        store,
        Change::SaveTeam {
            name: "data".parse().unwrap(),
            members: vec!["ana".to_owned(), "ben".to_owned()],
            expected: None,
        },
    );
    for place in [Place::All, Place::Team("data".to_owned())] {
        apply(
            store,
            Change::Assign {
                place,
                policy: Some("p".to_owned()),
                expected: None,
            },
        );
    }
    apply(store, Change::TwoPersonRule { on: true });
    apply(
        store,
        Change::SavePolicy {
            name: "q".parse().unwrap(),
            expected: Some(0),
            document: "draft".to_owned(),
            reason: "why".to_owned(),
            secrets: crate::store::Vouched::Freely,
        },
    );
}

/// Everything that can be asked for.
fn told(store: &dyn Store) -> String {
    let now = actor("ana").at;
    format!(
        "{:?}",
        (
            store.users().unwrap(),
            store.tokens().unwrap(),
            store.policies().unwrap(),
            store.policy("p", Some(7)).unwrap(),
            store.versions("p", None, 1000).unwrap(),
            (store.assignments().unwrap(), store.teams().unwrap()),
            store.two_person_rule().unwrap(),
            store.proposal(1).unwrap(),
            store.sessions(now).unwrap().len(),
        )
    )
}

#[test]
fn what_a_fleet_keeps_goes_into_a_file_and_back_without_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteStore::open(&folder.path().join("gig.db")).unwrap();
    let (first, second) = (Database::fresh(), Database::fresh());
    let fleet = PostgresStore::open(&first.url()).unwrap();
    fill(&fleet);
    let before = told(&fleet);
    assert!(before.ends_with(", 1)"), "one session: {before}");
    // What is copied beside it is of the same moment: no change gets between.
    let changes = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let change = || {
            let rule = Change::TwoPersonRule { on: false };
            let other = PostgresStore::open(&first.url()).unwrap();
            other.apply(&rule, &actor("ana"), &|_| Ok(())).unwrap();
            changes.fetch_add(1, Ordering::SeqCst);
        };
        let beside = || {
            scope.spawn(change);
            std::thread::sleep(std::time::Duration::from_millis(300));
            changes.load(Ordering::SeqCst)
        };
        assert_eq!(fleet.save_to(&file, beside).unwrap(), 0);
    });
    assert_eq!(changes.into_inner(), 1, "it was made afterwards");
    let without = before.strip_suffix(", 1)").unwrap().to_owned() + ", 0)";
    assert_eq!(told(&file), without);

    let fresh = PostgresStore::open(&second.url()).unwrap();
    let by = Restorer {
        name: "root".to_owned(),
        at: actor("ana").at,
    };
    assert_eq!(
        fresh.load_from(&file, false, &by).unwrap(),
        Some(Vec::new())
    );
    assert_eq!(told(&fresh), without);
    // What is there stays, unless it is to go.
    file.forget_everything().unwrap();
    assert_eq!(fresh.load_from(&file, false, &by).unwrap(), None);
    assert_eq!(told(&fresh), without);
    assert!(fresh.load_from(&file, true, &by).unwrap().is_some());
    assert!(fresh.users().unwrap().is_empty());
    // Nobody has it, and its numbers are given.
    assert!(fresh.policy("p", None).unwrap().is_none());
    assert_eq!(saved(&fresh, "p", 0), 301);
}

/// Saves another version; its number.
fn saved(store: &dyn Store, name: &str, on: u64) -> u64 {
    let change = Change::SavePolicy {
        name: name.parse().unwrap(),
        expected: Some(on),
        document: format!("# behind {on}\n"),
        reason: String::new(),
        secrets: crate::store::Vouched::Freely,
    };
    let applied = store.apply(&change, &actor("ana"), &|_| Ok(())).unwrap();
    applied.version.unwrap()
}

fn file(folder: &tempfile::TempDir, name: &str) -> SqliteStore {
    SqliteStore::open(&folder.path().join(name)).unwrap()
}

#[test]
fn a_backup_gives_no_number_of_a_version_twice() {
    let folder = tempfile::tempdir().unwrap();
    let backup_in = |name: &str| {
        let backup = file(&folder, name);
        for (name, last) in [("p", 3), ("kept", 2), ("gone", 1)] {
            (0..last).for_each(|on| assert_eq!(saved(&backup, name, on), on + 1));
        }
        let remove = |store: &dyn Store| {
            let name = "gone".to_owned();
            apply(
                store,
                Change::RemovePolicy {
                    name,
                    expected: None,
                },
            );
        };
        remove(&backup);
        backup
    };
    let backup = || backup_in(&uuid::Uuid::now_v7().to_string());
    let by = Restorer {
        name: "root".to_owned(),
        at: Timestamp::from_second(1_800_000_001).unwrap(),
    };
    let database = Database::fresh();
    let fleet = PostgresStore::open(&database.url()).unwrap();
    let standing = backup_in("standing");
    assert_eq!(
        fleet.load_from(&backup(), false, &by).unwrap(),
        Some(Vec::new())
    );
    // What goes on in the meantime, in either database.
    for store in [&fleet as &dyn Store, &standing] {
        assert_eq!((saved(store, "p", 3), saved(store, "p", 4)), (4, 5));
        assert_eq!((saved(store, "gone", 0), saved(store, "new", 0)), (2, 1));
    }
    let want = [Renumbered {
        name: "p".to_owned(),
        was: 3,
        now: 6,
    }];
    let again = backup();
    let numbers = given_in(&folder.path().join("standing")).unwrap();
    assert_eq!(again.go_on_behind(&numbers, &by).unwrap(), want);
    assert_eq!(
        fleet.load_from(&backup(), true, &by).unwrap().unwrap(),
        want
    );
    for store in [&fleet as &dyn Store, &again] {
        let newest = store.policy("p", None).unwrap().unwrap();
        assert_eq!(
            (newest.head.version, &*newest.document),
            (6, "# behind 2\n")
        );
        assert_eq!(newest.head.reason, "restored: version 3 of the backup");
        assert_eq!(
            store.policy("p", Some(5)).unwrap().map(|one| one.document),
            None
        );
        assert_eq!(saved(store, "p", 6), 7);
        assert_eq!(saved(store, "kept", 2), 3, "nothing of it went on");
        assert!(store.policy("gone", None).unwrap().is_none());
        assert_eq!((saved(store, "gone", 0), saved(store, "new", 0)), (3, 2));
    }
}

#[test]
fn visitors_are_forgotten_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteStore::open(&folder.path().join("gig.db")).unwrap();
    fill(&file);
    let before = told(&file);
    file.forget_visitors().unwrap();
    let without = before.strip_suffix(", 1)").unwrap().to_owned() + ", 0)";
    assert_eq!(told(&file), without);
}
