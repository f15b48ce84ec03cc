//! Nodes that hear of each other's commits, and a database that is not there.

use tokio::time::Instant;

use super::*;
use crate::{
    cipher::Sealed,
    store::{
        KeyRow, KeyState, SecretRow, VersionRow,
        tests::{
            key, put, secret,
            server::{Database, Postgres},
            until, version,
        },
    },
};

#[test]
fn what_a_node_commits_is_known_on_another_within_a_second() {
    let database = Database::fresh();
    let [one, two] = [(); 2].map(|()| PostgresStore::open(&database.url()).unwrap());
    // Both follow by now.
    for name in ["A", "B", "C"] {
        put(&one, &Change::PutSecret(secret(name)));
        let began = Instant::now();
        until("it is known", || {
            let known = two.snapshot().unwrap().secrets;
            known.iter().any(|row| *row.name == *name).then_some(())
        });
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
    }
    // One that was told nothing looks: somebody wrote by hand.
    let by_hand = "SET search_path TO gig; DELETE FROM secrets WHERE name = 'A';
                   UPDATE secret_generation SET generation = generation + 1";
    database.sql(by_hand);
    until("it is seen", || {
        (two.snapshot().unwrap().secrets.len() == 2).then_some(())
    });
}

/// A login's token that another spent just now is not spent again.
#[test]
fn who_has_leave_knows_what_was_committed_before() {
    let database = Database::fresh();
    let stores = [(); 2].map(|()| PostgresStore::open(&database.url()).unwrap());
    let name: SecretName = "A".parse().unwrap();
    for (round, turn) in (1..=60).zip(stores.iter().cycle()) {
        let leave = until("it is given back", || turn.alone(&name).unwrap());
        let snapshot = turn.snapshot().unwrap();
        let known = snapshot.secrets.first().map_or(0, |row| row.given);
        assert_eq!(known, round - 1);
        let spent = SecretRow {
            given: round,
            ..secret("A")
        };
        turn.commit(snapshot.generation, &[Change::PutSecret(spent)])
            .unwrap();
        drop(leave);
    }
}

/// Rows that nobody sees any more stay in a table's file for as long as it is small.
#[test]
fn what_is_taken_out_is_in_no_file_of_a_table() {
    let database = Database::fresh();
    let store = PostgresStore::open(&database.url()).unwrap();
    let link = store.server.connect(CONNECTING, PATIENCE).unwrap();
    let is_there = |table: &str, octets: &[u8]| {
        link.run("CHECKPOINT").unwrap();
        let file = format!("SELECT pg_read_binary_file(pg_relation_filepath('gig.{table}'))");
        let row = link.asked(link.client().query_one(&file, &[])).unwrap();
        let file: Vec<u8> = row.get(0);
        file.windows(octets.len()).any(|part| part == octets)
    };
    let marked = |text: &str| Sealed {
        nonce: [9; 12],
        octets: text.as_bytes().to_vec(),
    };
    let kept = VersionRow {
        value: marked("the value that stays"),
        ..version("A", 2)
    };
    let gone = VersionRow {
        value: marked("the value that is forgotten"),
        ..version("A", 1)
    };
    for change in [
        Change::PutSecret(secret("A")),
        Change::PutVersion(kept.clone()),
        Change::PutVersion(gone),
    ] {
        put(&store, &change);
    }
    assert!(is_there("secret_versions", b"the value that is forgotten"));
    put(
        &store,
        &Change::DeleteVersion {
            owner: "local".into(),
            name: "A".into(),
            version: 1,
        },
    );
    assert!(!is_there("secret_versions", b"the value that is forgotten"));
    assert!(is_there("secret_versions", b"the value that stays"));
    // A key that another was sealed with, once it leads there no more.
    let leads = KeyRow {
        other: Some(marked("the next key, sealed")),
        ..key("0011223344556677", KeyState::Past)
    };
    put(&store, &Change::PutKey(leads.clone()));
    assert!(is_there("secret_keys", b"the next key, sealed"));
    put(
        &store,
        &Change::PutKey(KeyRow {
            other: None,
            ..leads
        }),
    );
    assert!(!is_there("secret_keys", b"the next key, sealed"));
    assert_eq!(store.snapshot().unwrap().versions, [kept]);
}

#[test]
fn a_role_that_may_make_no_schema_is_told_with_what_lets_it() {
    let database = Database::fresh();
    let role = format!("plain_{}", std::process::id());
    database.sql(&format!("CREATE ROLE {role} LOGIN"));
    let url = database.url();
    let (scheme, rest) = url.split_once("://").unwrap();
    let host = rest.split_once('@').map_or(rest, |(_, host)| host);
    let open = || PostgresStore::open(&format!("{scheme}://{role}@{host}"));
    let refused = open().map(drop).unwrap_err().to_string();
    let (_, grant) = refused.split_once("GRANT").expect(&refused);
    database.sql(&format!("GRANT{grant}"));
    assert!(open().is_ok());
}

#[test]
fn tables_of_an_earlier_gig_are_brought_up_to_date() {
    let database = Database::fresh();
    let earlier = || SecretRow {
        given: 0,
        ..secret("A")
    };
    put(
        &PostgresStore::open(&database.url()).unwrap(),
        &Change::PutSecret(earlier()),
    );
    database.sql(
        "SET search_path TO gig; ALTER TABLE secrets DROP COLUMN given;
         DELETE FROM secret_schema_history WHERE version = 2",
    );
    let store = PostgresStore::open(&database.url()).unwrap();
    assert_eq!(store.snapshot().unwrap().secrets, [earlier()]);
    put(&store, &Change::PutSecret(secret("A")));
    assert_eq!(store.snapshot().unwrap().secrets, [secret("A")]);
}

#[test]
fn what_cannot_be_confirmed_is_not_answered_and_comes_back_with_the_database() {
    let mut server = Postgres::start();
    server.sql("postgres", "CREATE DATABASE vault");
    let store = PostgresStore::open(&server.url("vault")).unwrap();
    put(&store, &Change::PutSecret(secret("A")));
    let generation = store.generation().unwrap();
    server.crash();
    // What was known a moment ago still is; for five seconds.
    assert_eq!(store.generation().unwrap(), generation);
    let error = until("it is not known any more", || store.snapshot().err());
    let told = error.to_string();
    assert!(
        told.contains("cannot read the store of secrets") && told.len() > 60,
        "{told}"
    );
    assert!(store.generation().is_err());
    let late = store.commit(generation, &[Change::PutSecret(secret("B"))]);
    assert!(matches!(late, Err(CommitError::Store(_))), "{late:?}");
    assert!(store.alone(&"A".parse().unwrap()).is_err());
    server.start_again();
    until("it is known again", || store.generation().ok());
    assert_eq!(store.snapshot().unwrap().secrets, [secret("A")]);
    put(&store, &Change::PutSecret(secret("B")));
}
