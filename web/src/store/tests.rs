//! What every store promises: each of these runs on SQLite and on a real PostgreSQL.

use std::cell::RefCell;

use jiff::Timestamp;

use super::*;
use crate::{credential, role::Role};

pub(super) mod server;

/// Makes two tests of each function: one on either database.
macro_rules! on_both {
    ($($name:ident,)+) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                let folder = tempfile::tempdir().unwrap();
                let store = $crate::store::SqliteStore::open(&folder.path().join("gig.db")).unwrap();
                super::$name(&store);
            })+
        }
        mod postgres {
            $(#[test]
            fn $name() {
                let database = $crate::store::tests::server::Database::fresh();
                let store = $crate::store::PostgresStore::open(&database.url()).unwrap();
                super::$name(&store);
            })+
        }
    };
}

mod accounts;
mod drafts;
mod factors;
mod held;
mod nodes;
pub(crate) mod once;
mod second_self;
mod setup;
mod teams;
mod tries;
mod two_person;
mod vouched;

on_both! {
    what_is_not_recorded_does_not_happen,
    a_refused_change_is_not_recorded,
    the_last_admin_stays,
    sessions_end_by_time_by_idleness_with_their_user_and_with_a_new_password,
    tokens_end_with_who_made_them,
    tokens_end_by_time_and_by_removal,
    versions_count_on_and_stale_changes_are_refused,
    an_assigned_policy_stays_and_goes_with_its_server,
    a_server_that_was_removed_gets_nothing_of_what_is_for_all,
    a_person_has_twenty_sessions_and_sees_their_own,
    the_record_of_a_server_says_what_changed_and_no_value,
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn actor(seconds: i64) -> Actor {
    Actor {
        name: "ana".into(),
        person: Some("ana".into()),
        owner: false,
        at: at(seconds),
        ..crate::app::tests::owner()
    }
}

fn apply(store: &dyn Store, change: &Change) -> Result<Applied, ChangeError> {
    store.apply(change, &actor(0), &|_| Ok(()))
}

fn user(name: &str, role: Role) -> Change {
    Change::AddUser {
        name: name.parse().unwrap(),
        role,
        password: "hash".to_owned(),
    }
}

fn policy(name: &str, expected: Option<u64>, document: &str) -> Change {
    Change::SavePolicy {
        name: name.parse().unwrap(),
        expected,
        document: document.to_owned(),
        reason: "why".to_owned(),
        secrets: Vouched::Freely,
    }
}

/// A server that is there for the first time.
fn registered(name: &str) -> Change {
    Change::SaveServer {
        name: name.parse().unwrap(),
        spec: ServerSpec {
            command: vec!["true".to_owned()],
            ..ServerSpec::default()
        },
        new: true,
        expected: None,
    }
}

fn what_is_not_recorded_does_not_happen(store: &dyn Store) {
    let told = RefCell::new(Vec::new());
    let witness = |entry: Entry| {
        told.borrow_mut().push(entry);
        Err("disk full".to_owned())
    };
    let refused = store.apply(&user("ben", Role::Viewer), &actor(0), &witness);
    assert!(matches!(refused, Err(ChangeError::NotRecorded(_))));
    assert!(store.users().unwrap().is_empty());
    let told = told.into_inner();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].profile.as_deref(), Some("ana"));
    assert_eq!(&*told[0].findings[0], "user ben added as viewer");
}

fn a_refused_change_is_not_recorded(store: &dyn Store) {
    let witness = |_: Entry| panic!("it was told");
    let change = Change::RemoveUser {
        name: "nobody".to_owned(),
    };
    let refused = store.apply(&change, &actor(0), &witness);
    assert!(matches!(refused, Err(ChangeError::Missing { .. })));
}

fn the_last_admin_stays(store: &dyn Store) {
    // Where there is none yet, who is none is not the last.
    apply(store, &user("dan", Role::Viewer)).unwrap();
    let remove = |name: &str| Change::RemoveUser {
        name: name.to_owned(),
    };
    apply(store, &remove("dan")).unwrap();
    apply(store, &user("ana", Role::Admin)).unwrap();
    let demote = Change::SetRole {
        name: "ana".to_owned(),
        role: Role::Viewer,
    };
    for change in [&remove("ana"), &remove("ANA"), &demote] {
        assert!(matches!(
            apply(store, change),
            Err(ChangeError::LastAdmin { .. })
        ));
    }
    apply(store, &user("cem", Role::Admin)).unwrap();
    apply(store, &demote).unwrap();
}

fn sessions_end_by_time_by_idleness_with_their_user_and_with_a_new_password(store: &dyn Store) {
    apply(store, &user("ana", Role::Admin)).unwrap();
    apply(store, &user("ben", Role::Viewer)).unwrap();
    let start = |id: &str, user: &str| Change::StartSession {
        code: None,
        id: id.to_owned(),
        digest: credential::mint_token().unwrap().digest,
        user: user.to_owned(),
        password: password_of(store, user),
        expires: at(12 * 3600),
        agent: "browser".to_owned(),
    };
    for (id, user) in [("a", "ana"), ("b", "ben"), ("c", "ben")] {
        apply(store, &start(id, user)).unwrap();
    }
    assert!(matches!(
        apply(store, &start("d", "eve")),
        Err(ChangeError::Missing { .. })
    ));
    let alive = |id: &str, now: i64| store.session(id, at(now)).unwrap().is_some();
    assert!(alive("a", 7199) && !alive("a", 7200));
    store.touch_session("a", at(7000)).unwrap();
    assert!(alive("a", 7200 + 6999));
    for hour in 1..13 {
        store.touch_session("a", at(hour * 3600)).unwrap();
    }
    assert!(!alive("a", 12 * 3600));
    let lapsed = |hours: i64| {
        let found = store.lapsed_session("a", at(hours * 3600)).unwrap();
        found.map(|(_, user)| user)
    };
    assert_eq!(
        (lapsed(11), lapsed(37)),
        (None, None),
        "alive, and long ago"
    );
    assert_eq!(lapsed(13).as_deref(), Some("ana"));
    let password = Change::SetPassword {
        code: None,
        name: "ben".to_owned(),
        password: "new".to_owned(),
        end_tokens: false,
    };
    apply(store, &password).unwrap();
    assert!(!alive("b", 1) && !alive("c", 1));
    // Checked before the new password was set, begun after it.
    let mut late = start("d", "ben");
    if let Change::StartSession { password, .. } = &mut late {
        "old".clone_into(password);
    }
    assert!(matches!(
        apply(store, &late),
        Err(ChangeError::Missing { .. })
    ));
    apply(store, &start("e", "ben")).unwrap();
    apply(
        store,
        &Change::RemoveUser {
            name: "ben".to_owned(),
        },
    )
    .unwrap();
    assert!(!alive("e", 1));
    apply(store, &Change::EndSession { id: "a".to_owned() }).unwrap();
    assert!(!alive("a", 1) && lapsed(13).is_none());
}

fn password_of(store: &dyn Store, name: &str) -> String {
    let user = store.user(name).unwrap();
    user.map(|user| user.password).unwrap_or_default()
}

fn tokens_end_with_who_made_them(store: &dyn Store) {
    for name in ["ana", "ben", "cem"] {
        apply(store, &user(name, Role::Admin)).unwrap();
    }
    let add = |id: &str, author: &str| {
        let change = Change::AddToken {
            id: id.to_owned(),
            digest: credential::mint_token().unwrap().digest,
            name: format!("of-{author}").parse().unwrap(),
            role: Role::Admin,
            expires: None,
            narrowing: crate::Narrowing::default(),
        };
        let actor = Actor {
            name: author.into(),
            person: Some(author.into()),
            ..actor(0)
        };
        store.apply(&change, &actor, &|_| Ok(())).unwrap();
    };
    let there = |id: &str| store.token(id, at(1)).unwrap().is_some();
    add("a", "ana");
    add("b", "ben");
    add("c", "cem");
    let name = "ben".to_owned();
    apply(store, &Change::RemoveUser { name }).unwrap();
    assert!(there("a") && !there("b") && there("c"));
    let (name, role) = ("cem".to_owned(), Role::Editor);
    apply(store, &Change::SetRole { name, role }).unwrap();
    assert!(there("a") && !there("c"));
}

fn tokens_end_by_time_and_by_removal(store: &dyn Store) {
    apply(store, &user("ana", Role::Admin)).unwrap();
    let minted = credential::mint_token().unwrap();
    let add = Change::AddToken {
        id: minted.id.clone(),
        digest: minted.digest,
        name: "ci".parse().unwrap(),
        role: Role::Auditor,
        expires: Some(at(100)),
        narrowing: crate::Narrowing::default(),
    };
    apply(store, &add).unwrap();
    assert!(matches!(
        apply(store, &add),
        Err(ChangeError::Exists { .. })
    ));
    let found = store.token(&minted.id, at(99)).unwrap().unwrap();
    assert!(found.digest.is(&minted.digest) && found.used.is_none());
    assert!(store.token(&minted.id, at(100)).unwrap().is_none());
    apply(
        store,
        &Change::RemoveToken {
            id: minted.id.clone(),
        },
    )
    .unwrap();
    assert!(store.token(&minted.id, at(0)).unwrap().is_none());
}

fn versions_count_on_and_stale_changes_are_refused(store: &dyn Store) {
    let version = |outcome: Result<Applied, ChangeError>| outcome.unwrap().version;
    assert_eq!(version(apply(store, &policy("p", Some(0), "one"))), Some(1));
    assert_eq!(version(apply(store, &policy("p", Some(1), "two"))), Some(2));
    for expected in [0, 1, 3] {
        let refused = apply(store, &policy("p", Some(expected), "x"));
        assert!(matches!(
            refused,
            Err(ChangeError::Stale { current: 2, .. })
        ));
    }
    assert_eq!(store.policy("p", None).unwrap().unwrap().document, "two");
    assert_eq!(store.policy("p", Some(1)).unwrap().unwrap().document, "one");
    let page = store.versions("p", Some(2), 10).unwrap();
    assert_eq!(
        page.iter().map(|head| head.version).collect::<Vec<_>>(),
        [1]
    );
    let remove = |expected: Option<u64>| {
        let name = "p".to_owned();
        apply(store, &Change::RemovePolicy { name, expected })
    };
    for expected in [0, 1, 3] {
        let refused = remove(Some(expected));
        assert!(matches!(
            refused,
            Err(ChangeError::Stale { current: 2, .. })
        ));
    }
    remove(Some(2)).unwrap();
    assert!(store.policy("p", None).unwrap().is_none() && store.policies().unwrap().is_empty());
    // What it was can be read on.
    assert_eq!(store.policy("p", Some(1)).unwrap().unwrap().document, "one");
    assert_eq!(store.versions("p", None, 10).unwrap().len(), 2);
    assert!(store.policy("q", Some(1)).unwrap().is_none());
    // A number never means two documents.
    assert_eq!(
        version(apply(store, &policy("p", Some(0), "three"))),
        Some(3)
    );
}

fn an_assigned_policy_stays_and_goes_with_its_server(store: &dyn Store) {
    apply(store, &policy("p", None, "x")).unwrap();
    let server = registered("s");
    let assign = |server: Option<&str>, policy: Option<&str>| Change::Assign {
        place: server.map(str::to_owned).into(),
        policy: policy.map(str::to_owned),
        expected: None,
    };
    let missing = apply(store, &assign(Some("s"), Some("p")));
    assert!(matches!(
        missing,
        Err(ChangeError::Missing { what: "server", .. })
    ));
    apply(store, &server).unwrap();
    assert!(matches!(
        apply(store, &server),
        Err(ChangeError::Exists { .. })
    ));
    apply(store, &assign(Some("s"), Some("p"))).unwrap();
    let remove = Change::RemovePolicy {
        name: "p".to_owned(),
        expected: None,
    };
    assert!(matches!(
        apply(store, &remove),
        Err(ChangeError::InUse { .. })
    ));
    apply(store, &Change::remove_server("s".to_owned())).unwrap();
    assert!(store.assignments().unwrap().is_empty());
    apply(store, &assign(None, Some("p"))).unwrap();
    assert_eq!(store.assignments().unwrap()[0].place, Place::All);
    apply(store, &assign(None, None)).unwrap();
    apply(store, &remove).unwrap();
}

#[test]
fn what_was_kept_is_there_for_the_next_process_and_others_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gig.db");
    let first = SqliteStore::open(&path).unwrap();
    apply(&first, &user("ana", Role::Admin)).unwrap();
    let second = SqliteStore::open(&path).unwrap();
    assert_eq!(second.users().unwrap().len(), 1);
    apply(&second, &user("ben", Role::Viewer)).unwrap();
    assert_eq!(first.users().unwrap().len(), 2);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let refused = SqliteStore::open(&path).map(drop).unwrap_err();
    assert!(refused.to_string().contains("chmod 600"), "{refused}");
}

fn a_server_that_was_removed_gets_nothing_of_what_is_for_all(store: &dyn Store) {
    let document = "version: 1\nname: wide\negress:\n  - host: api.example.com\n";
    apply(store, &policy("wide", None, document)).unwrap();
    apply(store, &registered("one")).unwrap();
    let policy = Some("wide".to_owned());
    apply(
        store,
        &Change::Assign {
            place: Place::All,
            policy,
            expected: None,
        },
    )
    .unwrap();
    let in_force = || {
        crate::in_force::effective(store, "one", "ana")
            .unwrap()
            .policy
            .reference()
            .name
            .to_string()
    };
    assert_eq!(in_force(), "wide");
    let name = "one".to_owned();
    apply(store, &Change::remove_server(name)).unwrap();
    assert_eq!(in_force(), "no longer registered");
}

fn a_person_has_twenty_sessions_and_sees_their_own(store: &dyn Store) {
    apply(store, &user("ana", Role::Admin)).unwrap();
    apply(store, &user("ben", Role::Viewer)).unwrap();
    let start = |id: String, user: &str, second: i64| {
        let change = Change::StartSession {
            code: None,
            id,
            digest: credential::mint_session().unwrap().digest,
            user: user.to_owned(),
            password: "hash".to_owned(),
            expires: at(43_200),
            agent: String::new(),
        };
        store.apply(&change, &actor(second), &|_| Ok(())).unwrap();
    };
    start("of-ben".to_owned(), "ben", 0);
    for n in 0..25 {
        start(format!("s{n}"), "ANA", n);
    }
    let own = store.sessions_of("Ana", at(30)).unwrap();
    let own: Vec<String> = own.into_iter().map(|session| session.id).collect();
    let newest: Vec<String> = (5..25).rev().map(|n| format!("s{n}")).collect();
    assert_eq!(own, newest);
    assert_eq!(store.sessions_of("ben", at(30)).unwrap().len(), 1);
    assert_eq!(store.sessions(at(30)).unwrap().len(), 21);
}

fn the_record_of_a_server_says_what_changed_and_no_value(store: &dyn Store) {
    let told = RefCell::new(Vec::new());
    let witness = |entry: Entry| {
        *told.borrow_mut() = entry.findings.iter().map(ToString::to_string).collect();
        Ok(())
    };
    let mut spec = ServerSpec {
        command: vec!["serve".to_owned()],
        secrets: vec!["one".to_owned()],
        env: [("KEY".to_owned(), "value-1".to_owned())].into(),
        ..ServerSpec::default()
    };
    let save = |spec: &ServerSpec| {
        let change = Change::SaveServer {
            name: "s".parse().unwrap(),
            spec: spec.clone(),
            new: false,
            expected: None,
        };
        store.apply(&change, &actor(0), &witness).unwrap();
        told.borrow().clone()
    };
    let first = save(&spec);
    let want = [
        "server registered: serve",
        "network: external",
        "secrets: one",
        "variables: KEY",
    ];
    assert_eq!(first, want);
    assert_eq!(save(&spec), ["server changed: serve"]);
    spec.command.push("--token=v4lue".to_owned());
    let told = save(&spec).join("; ");
    assert!(
        told.contains("serve (1 argument, sha256 ") && !told.contains("v4lue"),
        "{told}"
    );
    spec.command.truncate(1);
    save(&spec);
    spec.network = Network::Local;
    spec.secrets = Vec::new();
    spec.read_only = vec!["/srv".to_owned()];
    spec.env = [
        ("KEY".to_owned(), "value-2".to_owned()),
        ("NEW".to_owned(), "value-3".to_owned()),
    ]
    .into();
    let want = [
        "server changed: serve",
        "network: local, before: external",
        "secrets: nothing, before: one",
        "read-only: /srv, before: nothing",
        "variables: KEY, NEW, before: KEY",
        "other values of variables: KEY",
    ];
    assert_eq!(save(&spec), want);
}
