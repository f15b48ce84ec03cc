//! What only a database that others use, too, can do wrong: two nodes at once, a server that goes away,
//! one that is not to be trusted.

use std::sync::Barrier;

use jiff::Timestamp;

use super::*;
use crate::{
    credential::Digest,
    role::Role,
    store::{
        Actor, Applied, Change, Hearing, Store,
        tests::server::{Database, Postgres},
    },
};

fn apply(store: &PostgresStore, change: &Change) -> Result<Applied, ChangeError> {
    store.apply(change, &actor(), &|_| Ok(()))
}

fn actor() -> Actor {
    Actor {
        request: None,
        once: None,
        name: "ana".into(),
        person: Some("ana".into()),
        owner: false,
        standing: crate::store::Standing::Itself,
        address: None,
        at: Timestamp::from_second(1_800_000_000).unwrap(),
    }
}

fn user(name: &str, role: Role) -> Change {
    Change::AddUser {
        name: name.parse().unwrap(),
        role,
        password: "hash".to_owned(),
    }
}

fn policy(expected: Option<u64>) -> Change {
    Change::SavePolicy {
        name: "p".parse().unwrap(),
        expected,
        document: "document".to_owned(),
        reason: String::new(),
        secrets: crate::store::Vouched::Freely,
    }
}

#[test]
fn of_two_nodes_that_save_the_same_version_one_is_told_to_look_again() {
    let database = Database::fresh();
    let open = || PostgresStore::open(&database.url()).unwrap();
    // Both make the tables at the same time, too.
    let nodes: Vec<_> = std::thread::scope(|scope| {
        let opened = [scope.spawn(open), scope.spawn(open)];
        opened.map(|one| one.join().unwrap()).into()
    });
    for version in 0..20 {
        let barrier = Barrier::new(2);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let barrier = &barrier;
            let saved = nodes.iter().map(|node| {
                scope.spawn(move || {
                    barrier.wait();
                    apply(node, &policy(Some(version)))
                })
            });
            let saved: Vec<_> = saved.collect();
            saved.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let made = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let stale = |outcome: &&Result<_, _>| matches!(outcome, Err(ChangeError::Stale { .. }));
        let stale = outcomes.iter().filter(stale).count();
        assert_eq!((made, stale), (1, 1), "{outcomes:?}");
    }
    let heads = nodes[0].versions("p", None, 100).unwrap();
    assert_eq!(heads.len(), 20);
}

#[test]
fn of_two_nodes_that_hear_the_same_answer_one_takes_it() {
    let database = Database::fresh();
    let nodes = [(); 2].map(|()| PostgresStore::open(&database.url()).unwrap());
    let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
    for number in 0..20 {
        let (digest, barrier) = (Digest::of(&number.to_string()), Barrier::new(2));
        let heard: Vec<_> = std::thread::scope(|scope| {
            let (digest, barrier) = (&digest, &barrier);
            let heard = nodes.iter().map(|node| {
                scope.spawn(move || {
                    barrier.wait();
                    node.hear("ops", digest, at(601), at(0)).unwrap()
                })
            });
            let heard: Vec<_> = heard.collect();
            heard.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let first = heard.iter().filter(|one| **one == Hearing::First).count();
        assert_eq!(first, 1, "{heard:?}");
        // Nor one that was started anew.
        if number == 19 {
            let anew = PostgresStore::open(&database.url()).unwrap();
            assert_eq!(
                anew.hear("ops", &digest, at(602), at(1)).unwrap(),
                Hearing::Again
            );
        }
    }
}

#[test]
fn two_nodes_do_not_take_the_last_two_admins_away_from_each_other() {
    let database = Database::fresh();
    let nodes = [(); 2].map(|()| PostgresStore::open(&database.url()).unwrap());
    for _ in 0..20 {
        for name in ["one", "two"] {
            let added = apply(&nodes[0], &user(name, Role::Admin));
            assert!(matches!(added, Ok(_) | Err(ChangeError::Exists { .. })));
        }
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            for (node, name) in nodes.iter().zip(["one", "two"]) {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let name = name.to_owned();
                    apply(node, &Change::RemoveUser { name })
                });
            }
        });
        assert_eq!(nodes[1].users().unwrap().len(), 1);
    }
}

#[test]
fn a_change_that_a_node_cannot_record_is_not_seen_by_another_and_holds_nobody_up() {
    let database = Database::fresh();
    let nodes = [(); 2].map(|()| PostgresStore::open(&database.url()).unwrap());
    let witness = |_: gig_audit::Entry| {
        assert!(nodes[1].users().unwrap().is_empty());
        Err("disk full".to_owned())
    };
    let refused = nodes[0].apply(&user("ben", Role::Viewer), &actor(), &witness);
    assert!(matches!(refused, Err(ChangeError::NotRecorded(_))));
    assert!(nodes[0].users().unwrap().is_empty());
    apply(&nodes[1], &user("ben", Role::Viewer)).unwrap();
    assert_eq!(nodes[0].users().unwrap().len(), 1);
}

#[test]
fn a_change_made_on_one_node_is_news_on_the_other() {
    let database = Database::fresh();
    let nodes = [(); 2].map(|()| PostgresStore::open(&database.url()).unwrap());
    let mut news = nodes[1].news().unwrap();
    let begun = news.next().unwrap();
    apply(&nodes[0], &user("ben", Role::Viewer)).unwrap();
    assert_eq!(news.next().unwrap(), begun);
    apply(&nodes[0], &policy(None)).unwrap();
    assert_eq!(news.next().unwrap(), begun + 1);
    // What was told before anybody listened is counted.
    apply(&nodes[0], &policy(None)).unwrap();
    let mut late = nodes[1].news().unwrap();
    assert_eq!(late.next().unwrap(), begun + 2);
    // Another connection, which may be another server's, is never found without a word.
    let cut = "SELECT bool_and(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()
                 AND backend_type = 'client backend'";
    assert_eq!(database.sql(cut), "t");
    assert!(late.next().is_err());
    assert_eq!(late.next().unwrap(), begun + 2);
}

#[test]
fn a_server_that_went_away_is_found_again_and_what_was_acknowledged_is_there() {
    let mut server = Postgres::start();
    let url = server.url("postgres");
    let store = PostgresStore::open(&url).unwrap();
    apply(&store, &user("ana", Role::Admin)).unwrap();
    let mut news = store.news().unwrap();
    let count = news.next().unwrap();
    server.crash();
    let lost = store.users().unwrap_err();
    assert_eq!(lost.attempted, "read", "{lost}");
    assert!(matches!(
        apply(&store, &user("ben", Role::Viewer)),
        Err(ChangeError::Store(_))
    ));
    assert!(news.next().is_err());
    assert!(PostgresStore::open(&url).is_err());
    server.start_again();
    assert_eq!(news.next().unwrap(), count);
    // Two connections were lost: neither is tried by the first change.
    apply(&store, &user("cem", Role::Viewer)).unwrap();
    let users = store.users().unwrap();
    let names: Vec<&str> = users.iter().map(|user| user.name.as_str()).collect();
    assert_eq!(names, ["ana", "cem"]);
}

#[test]
fn a_server_that_takes_connections_and_says_nothing_does_not_hide_the_next() {
    let database = Database::fresh();
    // The kernel takes connections, and nobody ever answers.
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join(".s.PGSQL.5432");
    let _silent = std::os::unix::net::UnixListener::bind(socket).unwrap();
    let silent = format!("?host={}&host=", folder.path().display());
    let url = database.url().replace("?host=", &silent);
    let store = PostgresStore::open(&url).unwrap();
    let mut news = store.news().unwrap();
    let begun = news.next().unwrap();
    apply(&store, &policy(None)).unwrap();
    assert_eq!(news.next().unwrap(), begun + 1);
}

#[test]
fn a_change_whose_end_is_not_known_is_refused_and_not_made_twice() {
    let database = Database::fresh();
    let store = PostgresStore::open(&database.url()).unwrap();
    // While it is being recorded its connection is cut.
    let cut = |_: gig_audit::Entry| {
        let text = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND state = 'idle in transaction'";
        assert_eq!(database.sql(text), "t");
        Ok(())
    };
    let refused = store.apply(&policy(Some(0)), &actor(), &cut);
    assert!(matches!(refused, Err(ChangeError::Store(_))), "{refused:?}");
    assert!(store.policy("p", None).unwrap().is_none());
    assert_eq!(apply(&store, &policy(Some(0))).unwrap().version, Some(1));
}

#[test]
fn names_are_asked_for_as_they_are_typed_and_no_text_breaks_a_question() {
    let database = Database::fresh();
    let store = PostgresStore::open(&database.url()).unwrap();
    apply(&store, &user("Ana", Role::Admin)).unwrap();
    assert_eq!(store.user("aNA").unwrap().unwrap().name, "Ana");
    // The Kelvin sign is no k, and a NUL is in no name.
    apply(&store, &user("kim", Role::Admin)).unwrap();
    for name in ["\u{212a}im", "a\0", "'; DROP TABLE users; --", ""] {
        assert!(store.user(name).unwrap().is_none(), "{name:?}");
    }
}

#[test]
fn tables_of_a_later_gig_are_left_alone_and_a_password_is_not_repeated() {
    let database = Database::fresh();
    drop(PostgresStore::open(&database.url()).unwrap());
    let later = "INSERT INTO gig.appliance_schema_history VALUES (1000, 'later', '', '')";
    assert_eq!(database.sql(later), "");
    let refused = PostgresStore::open(&database.url()).map(drop).unwrap_err();
    assert!(
        matches!(refused, OpenPostgresError::Later { .. }),
        "{refused:?}"
    );
    let url = database.url().replace("postgres@", "nobody:hunter2@");
    let refused = PostgresStore::open(&url).map(drop).unwrap_err();
    let words = format!("{refused} {refused:?}");
    assert!(
        words.contains("nobody") && !words.contains("hunter2"),
        "{words}"
    );
}

#[test]
fn across_a_network_only_a_server_with_the_right_certificate_is_spoken_to() {
    let mut server = Postgres::start();
    server.sql("postgres", "CREATE ROLE gig LOGIN PASSWORD 'hunter2'");
    server.sql("postgres", "CREATE DATABASE gig OWNER gig");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.pem();
    let port = server.speak_tls(&certificate, &made.signing_key.serialize_pem());
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, certificate).unwrap();
    let open = |host: &str, password: &str, mode: &str, root: Option<&std::path::Path>| {
        let root = root.map(|path| format!("&sslrootcert={}", path.display()));
        let root = root.unwrap_or_default();
        let url = format!("postgres://gig:{password}@{host}:{port}/gig?sslmode={mode}{root}");
        PostgresStore::open(&url).map_err(|refused| format!("{refused:?}"))
    };
    let store = open("localhost", "hunter2", "verify-full", Some(&root)).unwrap();
    apply(&store, &user("ana", Role::Admin)).unwrap();
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                     WHERE usename = 'gig'";
    assert_eq!(server.ask("postgres", encrypted), "t");
    assert!(open("localhost", "hunter2", "require", Some(&root)).is_ok());
    assert!(open("localhost", "hunter2", "prefer", Some(&root)).is_ok());
    for (host, password, mode, root) in [
        // Another name, another root, in the clear, another password.
        ("127.0.0.1", "hunter2", "require", Some(&*root)),
        ("localhost", "hunter2", "require", None),
        ("localhost", "hunter2", "prefer", None),
        ("localhost", "hunter2", "disable", None),
        ("localhost", "hunter3", "require", Some(&*root)),
    ] {
        let words = open(host, password, mode, root).map(drop).unwrap_err();
        assert!(!words.contains("hunter"), "{words}");
    }
}

#[test]
fn a_schema_of_another_role_is_refused_and_tables_up_to_date_wait_for_nobody() {
    let database = Database::fresh();
    let first = PostgresStore::open(&database.url()).unwrap();
    apply(&first, &user("ana", Role::Admin)).unwrap();
    drop(first);
    // Somebody else is at the tables of a gig, and never ends: the first byte of the lock is "g".
    let holder = PostgresStore::open(&database.url()).unwrap();
    let held = holder.pool.lend(false, |link| {
        link.batch("SELECT pg_advisory_lock(1734960897)")?;
        let opened = PostgresStore::open(&database.url());
        Ok::<_, DatabaseError>(opened.unwrap().users().unwrap().len())
    });
    assert_eq!(held.flatten().unwrap(), 1);
    drop(holder);
    let role = format!("other_{}", std::process::id());
    database.sql(&format!(
        "CREATE ROLE {role}; ALTER SCHEMA gig OWNER TO {role}"
    ));
    database.sql(&format!(
        "CREATE ROLE in_{role} LOGIN; GRANT ALL ON SCHEMA gig TO in_{role}"
    ));
    let url = database.url();
    let (scheme, rest) = url.split_once("://").unwrap();
    let host = rest.split_once('@').map_or(rest, |(_, host)| host);
    let refused = PostgresStore::open(&format!("{scheme}://in_{role}@{host}"));
    let refused = refused.map(drop).unwrap_err();
    assert!(
        matches!(refused, OpenPostgresError::Anothers { .. }),
        "{refused:?}"
    );
}
