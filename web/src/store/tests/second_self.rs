//! Ways for one person to be two, which the two-person rule closes on every store.

use super::{
    two_person::{
        by, decide, make, member, owner, password, proposed, ruled, token_of, two_people,
    },
    *,
};

on_both! {
    a_password_that_somebody_else_chose_makes_no_second_person,
    a_role_goes_to_the_account_that_was_looked_at,
    who_lost_the_right_meanwhile_changes_nothing,
    a_token_is_worth_nothing_without_the_admin_behind_it,
    one_person_does_not_change_what_a_server_reaches,
    an_assignment_is_approved_for_the_server_that_was_looked_at,
    proposals_end_with_their_authors_right_and_with_the_rule,
    nobody_takes_all_places_or_keeps_the_rule_from_ending,
}

fn outdated(outcome: Result<Applied, ChangeError>) {
    assert!(
        matches!(outcome, Err(ChangeError::Outdated { .. })),
        "{outcome:?}"
    );
}

fn role(name: &str, role: Role) -> Change {
    let name = name.to_owned();
    Change::SetRole { name, role }
}

fn remove(name: &str) -> Change {
    let name = name.to_owned();
    Change::RemoveUser { name }
}

fn server(network: Network, command: &str, new: bool) -> Change {
    Change::SaveServer {
        name: "s".parse().unwrap(),
        spec: ServerSpec {
            command: vec![command.to_owned()],
            network,
            ..ServerSpec::default()
        },
        new,
        expected: None,
    }
}

fn assign() -> Change {
    Change::Assign {
        place: Some("s".to_owned()).into(),
        policy: Some("p".to_owned()),
        expected: None,
    }
}

fn a_password_that_somebody_else_chose_makes_no_second_person(store: &dyn Store) {
    member(store, "ana", Role::Admin);
    apply(store, &user("cem", Role::Approver)).unwrap();
    let on = Change::TwoPersonRule { on: true };
    two_people(apply(store, &on));
    two_people(make(store, &on, &owner()));
    // A token of theirs is not themselves.
    make(store, &password("cem", "known"), &token_of("cem")).unwrap();
    two_people(apply(store, &on));
    make(store, &password("cem", "own"), &by("CEM")).unwrap();
    apply(store, &policy("p", Some(0), "one")).unwrap();
    apply(store, &on).unwrap();
    let id = proposed(apply(store, &policy("p", Some(1), "two")));
    // The owner can, and then it is the owner's until they choose again.
    make(store, &password("cem", "lost"), &owner()).unwrap();
    assert!(!store.user("cem").unwrap().unwrap().own_password);
    let all = Change::Assign {
        place: Place::All,
        policy: Some("p".to_owned()),
        expected: None,
    };
    two_people(make(store, &all, &by("cem")));
    let approve = decide(id, Decision::Approve);
    two_people(make(store, &approve, &by("cem")));
    make(store, &password("cem", "own again"), &by("cem")).unwrap();
    make(store, &approve, &by("cem")).unwrap();
}

fn a_role_goes_to_the_account_that_was_looked_at(store: &dyn Store) {
    ruled(store);
    let viewer = user("puppet", Role::Viewer);
    make(store, &viewer, &by("ana")).unwrap();
    let raise = role("puppet", Role::Approver);
    two_people(make(store, &raise, &by("ana")));
    let own = password("puppet", "own");
    make(store, &own, &by("puppet")).unwrap();
    // The same name with a password that its author knows.
    let id = proposed(make(store, &raise, &by("ana")));
    make(store, &password("puppet", "known"), &by("ana")).unwrap();
    assert!(store.proposal(id).unwrap().unwrap().stale);
    outdated(make(store, &decide(id, Decision::Approve), &by("cem")));
    two_people(make(store, &raise, &by("ana")));
    // The same name for another account.
    make(store, &own, &by("puppet")).unwrap();
    let id = proposed(make(store, &raise, &by("ana")));
    make(store, &remove("puppet"), &by("ana")).unwrap();
    make(store, &viewer, &by("ana")).unwrap();
    outdated(make(store, &decide(id, Decision::Approve), &by("cem")));
    assert_eq!(store.user("puppet").unwrap().unwrap().role, Role::Viewer);
    make(store, &password("puppet", "new"), &by("puppet")).unwrap();
    let id = proposed(make(store, &raise, &by("ana")));
    make(store, &decide(id, Decision::Approve), &by("cem")).unwrap();
    assert_eq!(store.user("puppet").unwrap().unwrap().role, Role::Approver);
}

fn who_lost_the_right_meanwhile_changes_nothing(store: &dyn Store) {
    ruled(store);
    let start = Change::StartSession {
        code: None,
        id: "one".to_owned(),
        digest: credential::mint_token().unwrap().digest,
        user: "cem".to_owned(),
        password: password_of(store, "cem"),
        expires: at(3600),
        agent: "browser".to_owned(),
    };
    make(store, &start, &by("cem")).unwrap();
    let cem = Actor {
        standing: Standing::Session {
            id: "one".into(),
            role: Role::Approver,
        },
        ..by("cem")
    };
    let id = proposed(make(store, &policy("p", Some(1), "two"), &by("ben")));
    let approve = decide(id, Decision::Approve);
    let lapsed = |actor: &Actor| {
        let outcome = make(store, &approve, actor);
        assert!(matches!(outcome, Err(ChangeError::Lapsed)), "{outcome:?}");
    };
    // They approve with a body that comes after they were made a viewer, or removed.
    make(store, &role("cem", Role::Viewer), &by("ana")).unwrap();
    lapsed(&cem);
    make(store, &remove("cem"), &by("ana")).unwrap();
    lapsed(&cem);
    lapsed(&Actor {
        at: at(3600),
        ..cem
    });
    make(store, &approve, &by("dan")).unwrap();
}

fn a_token_is_worth_nothing_without_the_admin_behind_it(store: &dyn Store) {
    for name in ["ana", "dan"] {
        member(store, name, Role::Admin);
    }
    let add = |id: &str| Change::AddToken {
        id: id.to_owned(),
        digest: credential::mint_token().unwrap().digest,
        name: format!("t-{id}").parse().unwrap(),
        role: Role::Admin,
        expires: None,
        narrowing: crate::Narrowing::default(),
    };
    let there = |id: &str| store.token(id, at(1)).unwrap().is_some();
    make(store, &add("a"), &by("dan")).unwrap();
    make(store, &add("o"), &owner()).unwrap();
    let token = Actor {
        standing: Standing::Token {
            id: "a".into(),
            role: Role::Admin,
        },
        ..token_of("dan")
    };
    make(store, &add("b"), &token).unwrap();
    assert!(there("a") && there("b") && there("o"));
    make(store, &remove("dan"), &by("ana")).unwrap();
    let late = make(store, &add("c"), &token);
    assert!(matches!(late, Err(ChangeError::Lapsed)), "{late:?}");
    // Put there behind everybody's back, it is still nobody's.
    make(store, &add("d"), &by("dan")).unwrap();
    assert!(!there("d") && there("o"));
}

fn one_person_does_not_change_what_a_server_reaches(store: &dyn Store) {
    ruled(store);
    let ana = by("ana");
    two_people(make(store, &server(Network::Local, "true", true), &ana));
    make(store, &server(Network::External, "true", true), &ana).unwrap();
    for network in [Network::Local, Network::Disconnected] {
        two_people(make(store, &server(network, "true", false), &ana));
    }
    make(store, &server(Network::External, "false", false), &ana).unwrap();
    // Nor by the way round.
    let name = "s".to_owned();
    make(store, &Change::remove_server(name), &ana).unwrap();
    for network in [Network::Local, Network::Disconnected] {
        two_people(make(store, &server(network, "true", true), &ana));
    }
    make(store, &server(Network::External, "true", true), &ana).unwrap();
    let local = server(Network::Local, "true", false);
    let passed = make(store, &local, &owner()).unwrap();
    assert!(passed.passed);
    two_people(make(store, &server(Network::External, "true", false), &ana));
}

fn an_assignment_is_approved_for_the_server_that_was_looked_at(store: &dyn Store) {
    ruled(store);
    make(store, &server(Network::External, "true", true), &by("ana")).unwrap();
    let id = proposed(make(store, &assign(), &by("ben")));
    let other = server(Network::External, "other", false);
    make(store, &other, &by("ana")).unwrap();
    outdated(make(store, &decide(id, Decision::Approve), &by("cem")));
    let id = proposed(make(store, &assign(), &by("ben")));
    make(store, &decide(id, Decision::Approve), &by("cem")).unwrap();
    assert_eq!(store.assignments().unwrap().len(), 1);
}

fn proposals_end_with_their_authors_right_and_with_the_rule(store: &dyn Store) {
    ruled(store);
    let change = policy("p", Some(1), "two");
    let id = proposed(make(store, &change, &by("ben")));
    assert!(!store.proposal(id).unwrap().unwrap().stale);
    make(store, &role("ben", Role::Viewer), &by("ana")).unwrap();
    assert!(store.proposal(id).unwrap().unwrap().stale);
    outdated(make(store, &decide(id, Decision::Approve), &by("cem")));
    make(store, &remove("ben"), &by("ana")).unwrap();
    let gone = make(store, &decide(id, Decision::Approve), &by("cem"));
    assert!(matches!(gone, Err(ChangeError::Decided { .. })), "{gone:?}");
    // Both want the rule to end, and it ends once.
    let off = Change::TwoPersonRule { on: false };
    let first = proposed(make(store, &off, &by("ana")));
    let second = proposed(make(store, &off, &by("dan")));
    make(store, &decide(first, Decision::Approve), &by("cem")).unwrap();
    assert!(!store.two_person_rule().unwrap());
    let state = |id: u64| store.proposal(id).unwrap().unwrap().state;
    assert_eq!(state(first), ProposalState::Approved);
    assert_eq!(state(second), ProposalState::Withdrawn);
    apply(store, &Change::TwoPersonRule { on: true }).unwrap();
    let late = make(store, &decide(second, Decision::Approve), &by("cem"));
    assert!(matches!(late, Err(ChangeError::Decided { .. })), "{late:?}");
}

fn nobody_takes_all_places_or_keeps_the_rule_from_ending(store: &dyn Store) {
    ruled(store);
    for count in 0..50 {
        let change = policy(&format!("p{count}"), Some(0), "x");
        proposed(make(store, &change, &by("ana")));
    }
    let more = policy("more", Some(0), "x");
    two_people(make(store, &more, &token_of("ana")));
    // In the place of one that waits.
    let told = RefCell::new(String::new());
    let witness = |entry: Entry| {
        *told.borrow_mut() = entry.findings.join("; ");
        Ok(())
    };
    let again = policy("p7", Some(0), "y");
    proposed(store.apply(&again, &by("ana"), &witness));
    let words = "waits for a second person, proposal 51 in place of 8: version saved";
    assert!(told.borrow().contains(words), "{told:?}");
    let reject = decide(51, Decision::Reject);
    store.apply(&reject, &by("cem"), &witness).unwrap();
    let words = "proposal 51 of ana rejected, not made: version saved";
    assert!(told.borrow().contains(words), "{told:?}");
    proposed(make(store, &again, &by("ana")));
    proposed(make(store, &more, &by("ben")));
    proposed(make(
        store,
        &Change::TwoPersonRule { on: false },
        &by("ana"),
    ));
}

#[test]
fn a_list_of_proposals_is_found_by_its_index_and_read_without_documents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gig.db");
    let _store = SqliteStore::open(&path).unwrap();
    let database = rusqlite::Connection::open(&path).unwrap();
    let plan = |sql: &str| -> String {
        let mut statement = database
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap();
        let lines = statement.query_map((1, 1), |row| row.get(3)).unwrap();
        lines
            .collect::<Result<Vec<String>, _>>()
            .unwrap()
            .join("; ")
    };
    let pending = plan(rows::PENDING);
    assert!(pending.contains("proposals_state (state=?"), "{pending}");
    let decided = plan(rows::DECIDED);
    assert!(
        decided.contains("PRIMARY KEY") && !decided.contains("TEMP B-TREE"),
        "{decided}"
    );
    let sql = "SELECT name FROM pragma_table_info('proposals') ORDER BY cid DESC LIMIT 1";
    let last: String = database.query_row(sql, (), |row| row.get(0)).unwrap();
    assert_eq!(last, "value");
}
