//! The two-person rule, as every store keeps it.

use super::*;

on_both! {
    a_change_waits_for_somebody_else_and_is_made_in_both_names,
    what_is_not_recorded_is_neither_proposed_nor_approved,
    what_was_built_on_something_else_is_stale,
    assignments_and_removals_wait_and_what_cannot_be_made_is_not_proposed,
    a_policy_for_a_server_waits_as_one_change_and_is_made_as_one,
    authors_withdraw_and_others_reject,
    nobody_ends_the_rule_alone_or_makes_a_second_self,
    two_who_may_approve_are_needed_and_stay,
    the_machines_owner_passes_and_the_record_says_so,
    a_server_that_is_registered_again_is_under_the_policy_that_two_put_there,
    what_somebody_proposed_goes_with_them,
    a_policy_goes_though_a_server_that_went_had_it,
    a_tokens_person_is_who_made_it_however_many_tokens_are_between,
}

pub(super) fn by(name: &str) -> Actor {
    Actor {
        name: name.into(),
        person: Some(name.into()),
        ..actor(0)
    }
}

/// A token that somebody made.
pub(super) fn token_of(person: &str) -> Actor {
    Actor {
        name: "token ci (1)".into(),
        person: Some(person.into()),
        ..actor(0)
    }
}

pub(super) fn owner() -> Actor {
    Actor {
        name: crate::local_user(0).into(),
        person: Some(Actor::OWNER.into()),
        owner: true,
        ..actor(0)
    }
}

pub(super) fn make(
    store: &dyn Store,
    change: &Change,
    actor: &Actor,
) -> Result<Applied, ChangeError> {
    store.apply(change, actor, &|_| Ok(()))
}

/// Somebody with a password of their own.
pub(super) fn member(store: &dyn Store, name: &str, role: Role) {
    apply(store, &user(name, role)).unwrap();
    make(store, &password(name, "own"), &by(name)).unwrap();
}

pub(super) fn password(name: &str, password: &str) -> Change {
    Change::SetPassword {
        code: None,
        name: name.to_owned(),
        password: password.to_owned(),
        end_tokens: false,
    }
}

/// A store with two admins, an editor and an approver, and the rule on.
pub(super) fn ruled(store: &dyn Store) {
    let users = [
        ("ana", Role::Admin),
        ("ben", Role::Editor),
        ("cem", Role::Approver),
        ("dan", Role::Admin),
    ];
    for (name, role) in users {
        member(store, name, role);
    }
    apply(store, &policy("p", Some(0), "one")).unwrap();
    apply(store, &Change::TwoPersonRule { on: true }).unwrap();
}

pub(super) fn proposed(outcome: Result<Applied, ChangeError>) -> u64 {
    let proposal = outcome.unwrap().proposal.unwrap();
    assert_eq!(proposal.state, ProposalState::Pending);
    proposal.id
}

pub(super) fn decide(id: u64, decision: Decision) -> Change {
    Change::Decide {
        id,
        decision,
        why: "seen".to_owned(),
    }
}

pub(super) fn two_people(outcome: Result<Applied, ChangeError>) {
    assert!(
        matches!(outcome, Err(ChangeError::TwoPeople(_))),
        "{outcome:?}"
    );
}

fn document(store: &dyn Store) -> String {
    store.policy("p", None).unwrap().unwrap().document
}

fn a_change_waits_for_somebody_else_and_is_made_in_both_names(store: &dyn Store) {
    ruled(store);
    let id = proposed(make(store, &policy("p", Some(1), "two"), &by("ben")));
    assert_eq!(document(store), "one");
    let approve = decide(id, Decision::Approve);
    two_people(make(store, &approve, &by("ben")));
    two_people(make(store, &approve, &by("BEN")));
    two_people(make(store, &approve, &token_of("ben")));
    let nobody = Actor {
        person: None,
        ..actor(0)
    };
    two_people(make(store, &approve, &nobody));
    assert_eq!(document(store), "one");
    let told = RefCell::new(Vec::new());
    let witness = |entry: Entry| {
        told.borrow_mut().push(entry);
        Ok(())
    };
    let applied = store.apply(&approve, &by("cem"), &witness).unwrap();
    assert_eq!(applied.version, Some(2));
    let kept = store.policy("p", None).unwrap().unwrap();
    assert_eq!(kept.document, "two");
    assert_eq!(kept.head.author, "ben, approved by cem");
    let entry = told.into_inner().pop().unwrap();
    assert_eq!(entry.event, gig_audit::Event::PolicyChange);
    assert_eq!(
        (entry.profile.as_deref(), entry.policy.as_deref()),
        (Some("cem"), Some("p"))
    );
    assert_eq!(entry.policy_version, Some(2));
    assert_eq!(
        &*entry.findings[0],
        "proposal 1 of ben approved: version saved"
    );
    let again = make(store, &approve, &by("dan"));
    assert!(matches!(again, Err(ChangeError::Decided { .. })));
    let kept = store.proposal(id).unwrap().unwrap();
    assert_eq!(
        (kept.state, kept.version),
        (ProposalState::Approved, Some(2))
    );
    assert_eq!(kept.decided.unwrap().by, "cem");
}

fn what_is_not_recorded_is_neither_proposed_nor_approved(store: &dyn Store) {
    ruled(store);
    let full = |_: Entry| Err("disk full".to_owned());
    let change = policy("p", Some(1), "two");
    assert!(store.apply(&change, &by("ben"), &full).is_err());
    assert!(store.proposals(true, None, 10).unwrap().is_empty());
    let id = proposed(make(store, &change, &by("ben")));
    let approve = decide(id, Decision::Approve);
    assert!(store.apply(&approve, &by("cem"), &full).is_err());
    assert_eq!(document(store), "one");
    assert!(make(store, &approve, &by("cem")).is_ok());
}

fn what_was_built_on_something_else_is_stale(store: &dyn Store) {
    ruled(store);
    let first = proposed(make(store, &policy("p", Some(1), "two"), &by("ben")));
    let second = proposed(make(store, &policy("p", None, "three"), &by("ana")));
    let assign = Change::Assign {
        place: Place::All,
        policy: Some("p".to_owned()),
        expected: None,
    };
    let third = proposed(make(store, &assign, &by("ben")));
    make(store, &decide(first, Decision::Approve), &by("cem")).unwrap();
    for id in [second, third] {
        assert!(store.proposal(id).unwrap().unwrap().stale);
        let late = make(store, &decide(id, Decision::Approve), &by("cem"));
        assert!(
            matches!(late, Err(ChangeError::Outdated { .. })),
            "{late:?}"
        );
    }
    assert_eq!(document(store), "two");
    assert!(store.assignments().unwrap().is_empty());
    // Proposed again, on what is there now; what was there of one's own goes.
    let again = proposed(make(store, &policy("p", Some(2), "three"), &by("ana")));
    let kept = store.proposal(second).unwrap().unwrap();
    assert_eq!(kept.state, ProposalState::Withdrawn);
    make(store, &decide(again, Decision::Approve), &by("cem")).unwrap();
    assert_eq!(document(store), "three");
}

fn assignments_and_removals_wait_and_what_cannot_be_made_is_not_proposed(store: &dyn Store) {
    ruled(store);
    let assign = |policy: Option<&str>| Change::Assign {
        place: Place::All,
        policy: policy.map(str::to_owned),
        expected: None,
    };
    let remove = Change::RemovePolicy {
        name: "p".to_owned(),
        expected: None,
    };
    let missing = make(store, &assign(Some("none")), &by("cem"));
    assert!(matches!(missing, Err(ChangeError::Missing { .. })));
    let id = proposed(make(store, &assign(Some("p")), &by("cem")));
    make(store, &decide(id, Decision::Approve), &by("ana")).unwrap();
    assert_eq!(store.assignments().unwrap().len(), 1);
    let used = make(store, &remove, &by("ben"));
    assert!(matches!(used, Err(ChangeError::InUse { .. })));
    let id = proposed(make(store, &assign(None), &by("cem")));
    assert_eq!(store.assignments().unwrap().len(), 1);
    make(store, &decide(id, Decision::Approve), &by("ana")).unwrap();
    let id = proposed(make(store, &remove, &by("ben")));
    assert_eq!(document(store), "one");
    make(store, &decide(id, Decision::Approve), &by("ana")).unwrap();
    assert!(store.policy("p", None).unwrap().is_none());
}

fn a_policy_for_a_server_waits_as_one_change_and_is_made_as_one(store: &dyn Store) {
    let save_for = |server: &str| Change::SaveFor {
        name: "new".parse().unwrap(),
        expected: Some(0),
        document: "narrow".to_owned(),
        reason: "why".to_owned(),
        secrets: Vouched::Freely,
        server: server.to_owned(),
    };
    apply(store, &registered("docs")).unwrap();
    // Nothing of it where a part cannot be made.
    let missing = apply(store, &save_for("nowhere"));
    assert!(matches!(missing, Err(ChangeError::Missing { .. })));
    assert!(store.policy("new", None).unwrap().is_none());
    ruled(store);
    assert!(make(store, &save_for("nowhere"), &by("ben")).is_err());
    let id = proposed(make(store, &save_for("docs"), &by("ben")));
    assert!(store.policies().unwrap().iter().all(|one| one.name == "p"));
    assert!(store.assignments().unwrap().is_empty());
    let kept = store.proposal(id).unwrap().unwrap();
    assert_eq!(
        (kept.draft.policy(), kept.draft.server().as_deref()),
        (Some("new"), Some("docs"))
    );
    // No documents in lists.
    let listed = store.proposals(true, None, 10).unwrap();
    assert_eq!(listed[0].draft.value, "");
    let told = RefCell::new(Vec::new());
    let witness = |entry: Entry| {
        told.borrow_mut().push(entry);
        Ok(())
    };
    let approve = decide(id, Decision::Approve);
    let applied = store.apply(&approve, &by("cem"), &witness).unwrap();
    assert_eq!(applied.version, Some(1));
    let saved = store.policy("new", None).unwrap().unwrap();
    assert_eq!(saved.document, "narrow");
    let assigned = store.assignments().unwrap();
    assert_eq!(
        (assigned[0].place.server(), assigned[0].policy.as_str()),
        (Some("docs"), "new")
    );
    let entry = told.into_inner().pop().unwrap();
    assert_eq!(
        (entry.policy.as_deref(), entry.server.as_deref()),
        (Some("new"), Some("docs"))
    );
    assert_eq!(
        &*entry.findings[0],
        "proposal 1 of ben approved: version saved and put in force for docs"
    );
    // Somebody put another there meanwhile: it is not what was looked at.
    let again = Change::SaveFor {
        name: "new".parse().unwrap(),
        expected: Some(1),
        document: "wider".to_owned(),
        reason: String::new(),
        secrets: Vouched::Freely,
        server: "docs".to_owned(),
    };
    let id = proposed(make(store, &again, &by("ben")));
    let other = Change::Assign {
        place: Some("docs".to_owned()).into(),
        policy: Some("p".to_owned()),
        expected: None,
    };
    make(store, &other, &owner()).unwrap();
    assert!(store.proposal(id).unwrap().unwrap().stale);
    let late = make(store, &decide(id, Decision::Approve), &by("cem"));
    assert!(matches!(late, Err(ChangeError::Outdated { .. })));
}

fn authors_withdraw_and_others_reject(store: &dyn Store) {
    ruled(store);
    let change = policy("p", Some(1), "two");
    let id = proposed(make(store, &change, &by("ben")));
    two_people(make(store, &decide(id, Decision::Reject), &by("ben")));
    two_people(make(store, &decide(id, Decision::Withdraw), &by("ana")));
    make(store, &decide(id, Decision::Reject), &by("cem")).unwrap();
    let id = proposed(make(store, &change, &by("ben")));
    make(store, &decide(id, Decision::Withdraw), &token_of("ben")).unwrap();
    let states: Vec<_> = store.proposals(false, None, 10).unwrap();
    let states: Vec<_> = states.iter().map(|one| one.state).collect();
    assert_eq!(states, [ProposalState::Withdrawn, ProposalState::Rejected]);
    assert_eq!(document(store), "one");
    let late = make(store, &decide(id, Decision::Approve), &by("cem"));
    assert!(matches!(late, Err(ChangeError::Decided { .. })));
}

fn nobody_ends_the_rule_alone_or_makes_a_second_self(store: &dyn Store) {
    ruled(store);
    let off = Change::TwoPersonRule { on: false };
    let id = proposed(make(store, &off, &by("ana")));
    assert!(store.two_person_rule().unwrap());
    two_people(make(
        store,
        &decide(id, Decision::Approve),
        &token_of("ana"),
    ));
    for role in [Role::Editor, Role::Approver, Role::Admin] {
        two_people(make(store, &user("puppet", role), &by("ana")));
    }
    make(store, &user("puppet", Role::Viewer), &by("ana")).unwrap();
    let role = |name: &str, role: Role| Change::SetRole {
        name: name.to_owned(),
        role,
    };
    two_people(make(store, &role("puppet", Role::Editor), &by("ana")));
    make(store, &password("puppet", "own"), &by("puppet")).unwrap();
    let raised = proposed(make(store, &role("puppet", Role::Editor), &by("ana")));
    let kept = store.user("puppet").unwrap().unwrap();
    assert_eq!(kept.role, Role::Viewer);
    two_people(make(store, &decide(raised, Decision::Approve), &by("ana")));
    two_people(make(store, &password("ben", "known"), &by("ana")));
    make(store, &password("ben", "new"), &by("ben")).unwrap();
    make(store, &decide(raised, Decision::Approve), &by("cem")).unwrap();
    assert_eq!(store.user("puppet").unwrap().unwrap().role, Role::Editor);
    make(store, &decide(id, Decision::Approve), &by("cem")).unwrap();
    assert!(!store.two_person_rule().unwrap());
    assert_eq!(
        make(store, &policy("p", Some(1), "two"), &by("ana"))
            .unwrap()
            .version,
        Some(2)
    );
}

fn two_who_may_approve_are_needed_and_stay(store: &dyn Store) {
    member(store, "ana", Role::Admin);
    member(store, "ben", Role::Editor);
    let on = Change::TwoPersonRule { on: true };
    two_people(apply(store, &on));
    assert!(!store.two_person_rule().unwrap());
    member(store, "cem", Role::Approver);
    apply(store, &on).unwrap();
    let name = "cem".to_owned();
    two_people(apply(store, &Change::RemoveUser { name }));
    let (name, role) = ("cem".to_owned(), Role::Viewer);
    two_people(apply(store, &Change::SetRole { name, role }));
    let (name, role) = ("cem".to_owned(), Role::Editor);
    let id = proposed(apply(store, &Change::SetRole { name, role }));
    two_people(make(store, &decide(id, Decision::Approve), &by("ben")));
    assert_eq!(store.user("cem").unwrap().unwrap().role, Role::Approver);
}

fn the_machines_owner_passes_and_the_record_says_so(store: &dyn Store) {
    ruled(store);
    let told = RefCell::new(Vec::new());
    let witness = |entry: Entry| {
        told.borrow_mut().push(entry.findings.join("; "));
        Ok(())
    };
    let saved = store.apply(&policy("p", Some(1), "two"), &owner(), &witness);
    assert_eq!(saved.unwrap().version, Some(2));
    store
        .apply(&user("eve", Role::Admin), &owner(), &witness)
        .unwrap();
    let told = told.into_inner();
    assert_eq!(told.len(), 2);
    for words in told {
        assert!(words.contains("two-person rule passed"), "{words}");
    }
    // Not so a token that the owner made: it may be anybody's by now, and a second person's of nobody.
    let token = token_of(Actor::OWNER);
    two_people(make(store, &policy("p", Some(2), "three"), &token));
    let id = proposed(make(store, &policy("p", Some(2), "three"), &by("ben")));
    for decision in [Decision::Approve, Decision::Reject] {
        two_people(make(store, &decide(id, decision), &token));
    }
    // Their own approval passes the rule as well, and says so.
    let told = RefCell::new(Vec::new());
    let witness = |entry: Entry| {
        told.borrow_mut().push(entry.findings.join("; "));
        Ok(())
    };
    let approve = decide(id, Decision::Approve);
    let approved = store.apply(&approve, &owner(), &witness).unwrap();
    assert!(approved.passed, "{approved:?}");
    let told = told.into_inner();
    assert!(told[0].contains("two-person rule passed"), "{told:?}");
}

fn a_server_that_is_registered_again_is_under_the_policy_that_two_put_there(store: &dyn Store) {
    ruled(store);
    let server = registered("s");
    make(store, &server, &by("ana")).unwrap();
    let assign = Change::Assign {
        place: Some("s".to_owned()).into(),
        policy: Some("p".to_owned()),
        expected: None,
    };
    let id = proposed(make(store, &assign, &by("ana")));
    make(store, &decide(id, Decision::Approve), &by("cem")).unwrap();
    let name = "s".to_owned();
    make(store, &Change::remove_server(name), &by("ana")).unwrap();
    make(store, &server, &by("ana")).unwrap();
    let kept = store.assignments().unwrap();
    assert_eq!(kept[0].place.server(), Some("s"));
}

fn a_tokens_person_is_who_made_it_however_many_tokens_are_between(store: &dyn Store) {
    apply(store, &user("ana", Role::Admin)).unwrap();
    apply(store, &user("ben", Role::Admin)).unwrap();
    let add = |id: &str, actor: &Actor| {
        let change = Change::AddToken {
            id: id.to_owned(),
            digest: credential::mint_token().unwrap().digest,
            name: format!("t-{id}").parse().unwrap(),
            role: Role::Admin,
            expires: None,
            narrowing: crate::Narrowing::default(),
        };
        store.apply(&change, actor, &|_| Ok(())).unwrap();
        store.token(id, at(1)).unwrap().unwrap()
    };
    assert_eq!(add("a", &by("ben")).person, "ben");
    let second = add("b", &token_of("ben"));
    assert_eq!(
        (second.author.as_str(), second.person.as_str()),
        ("token ci (1)", "ben")
    );
    let name = "BEN".to_owned();
    apply(store, &Change::RemoveUser { name }).unwrap();
    assert!(store.tokens().unwrap().is_empty());
}

fn what_somebody_proposed_goes_with_them(store: &dyn Store) {
    ruled(store);
    let id = proposed(make(store, &policy("p", Some(1), "two"), &by("ben")));
    let others = proposed(make(store, &policy("q", Some(0), "two"), &by("dan")));
    let name = "BEN".to_owned();
    make(store, &Change::RemoveUser { name }, &by("ana")).unwrap();
    let gone = store.proposal(id).unwrap().unwrap();
    assert_eq!(gone.state, ProposalState::Withdrawn);
    // Nobody approves it, whoever has the name next.
    let late = make(store, &decide(id, Decision::Approve), &by("cem"));
    assert!(matches!(late, Err(ChangeError::Decided { .. })));
    let waits = store.proposal(others).unwrap().unwrap();
    assert_eq!(waits.state, ProposalState::Pending);
}

fn a_policy_goes_though_a_server_that_went_had_it(store: &dyn Store) {
    ruled(store);
    make(store, &registered("s"), &by("ana")).unwrap();
    let assign = Change::Assign {
        place: Some("s".to_owned()).into(),
        policy: Some("p".to_owned()),
        expected: None,
    };
    make(store, &assign, &owner()).unwrap();
    let remove = Change::RemovePolicy {
        name: "p".to_owned(),
        expected: None,
    };
    let used = make(store, &remove, &owner());
    assert!(matches!(used, Err(ChangeError::InUse { .. })));
    let name = "s".to_owned();
    make(store, &Change::remove_server(name), &by("ana")).unwrap();
    make(store, &remove, &owner()).unwrap();
    // Back again, it is under what is not there: nothing is allowed.
    make(store, &registered("s"), &by("ana")).unwrap();
    let policy = crate::in_force::effective(store, "s", "ana")
        .unwrap()
        .policy;
    let reference = policy.reference();
    assert_eq!((&*reference.name, reference.version), ("p", 0));
}
