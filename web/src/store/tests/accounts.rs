//! Accounts that a sign-on provider vouches for, on every store.

use super::*;

on_both! {
    an_account_elsewhere_has_no_password_and_no_role_of_ours,
    an_account_is_found_by_issuer_and_subject_and_by_nothing_else,
    who_signs_on_is_of_the_teams_that_their_groups_say,
    who_signs_in_in_two_ways_is_one_person_under_the_two_person_rule,
    who_signs_in_in_two_ways_is_one_of_two_who_may_approve,
}

fn account(subject: &str) -> Account {
    Account {
        issuer: "https://idp.example".to_owned(),
        subject: subject.to_owned(),
    }
}

fn sign_on(id: &str, name: &str, subject: &str, role: Role, first: bool) -> Change {
    Change::SignOn {
        id: id.to_owned(),
        digest: credential::mint_token().unwrap().digest,
        name: name.parse().unwrap(),
        account: account(subject),
        role,
        teams: Vec::new(),
        first,
        expires: at(3600),
        agent: "browser".to_owned(),
    }
}

fn an_account_elsewhere_has_no_password_and_no_role_of_ours(store: &dyn Store) {
    apply(store, &user("root", Role::Admin)).unwrap();
    let told = RefCell::new(String::new());
    let witness = |entry: Entry| {
        *told.borrow_mut() = entry.findings[0].to_string();
        Ok(())
    };
    let first = sign_on("one", "eva", "u1", Role::Admin, true);
    store.apply(&first, &actor(0), &witness).unwrap();
    assert_eq!(
        told.into_inner(),
        "signed in for the first time through https://idp.example (u1) as admin, session one"
    );
    let session = store.session("one", at(1)).unwrap().unwrap();
    assert_eq!(
        (session.user.as_str(), session.began.as_str()),
        ("eva", "single sign-on")
    );
    for change in [
        Change::SetPassword {
            code: None,
            name: "EVA".to_owned(),
            password: "hash".to_owned(),
            end_tokens: false,
        },
        Change::SetRole {
            name: "eva".to_owned(),
            role: Role::Viewer,
        },
    ] {
        let refused = apply(store, &change);
        assert!(
            matches!(refused, Err(ChangeError::SignOn { .. })),
            "{refused:?}"
        );
    }
    // Nor is the empty hash of theirs a password that was checked.
    let by_password = Change::StartSession {
        code: None,
        id: "two".to_owned(),
        digest: credential::mint_token().unwrap().digest,
        user: "eva".to_owned(),
        password: String::new(),
        expires: at(3600),
        agent: String::new(),
    };
    assert!(matches!(
        apply(store, &by_password),
        Err(ChangeError::Missing { .. })
    ));
    apply(store, &sign_on("three", "eva", "u1", Role::Viewer, false)).unwrap();
    assert_eq!(
        store.session("one", at(1)).unwrap().unwrap().role,
        Role::Viewer
    );
}

fn an_account_is_found_by_issuer_and_subject_and_by_nothing_else(store: &dyn Store) {
    apply(store, &user("ana", Role::Admin)).unwrap();
    let taken = apply(store, &sign_on("one", "ANA", "u1", Role::Viewer, true));
    assert!(
        matches!(taken, Err(ChangeError::Exists { .. })),
        "{taken:?}"
    );
    // Not one that has a password.
    let lapsed = apply(store, &sign_on("two", "ana", "u1", Role::Admin, false));
    assert!(matches!(lapsed, Err(ChangeError::Lapsed)), "{lapsed:?}");
    assert!(store.user_of(&account("")).unwrap().is_none());
    apply(store, &sign_on("three", "eva", "u1", Role::Viewer, true)).unwrap();
    let again = apply(store, &sign_on("four", "eva-2", "u1", Role::Viewer, true));
    assert!(
        matches!(again, Err(ChangeError::Exists { .. })),
        "{again:?}"
    );
    assert_eq!(store.user_of(&account("u1")).unwrap().unwrap().name, "eva");
    let mut elsewhere = account("u1");
    elsewhere.issuer.push('/');
    assert!(store.user_of(&elsewhere).unwrap().is_none());
}

fn who_signs_on_is_of_the_teams_that_their_groups_say(store: &dyn Store) {
    let team = |name: &str, members: &[&str]| Change::SaveTeam {
        name: name.parse().unwrap(),
        members: members.iter().map(|one| (*one).to_owned()).collect(),
        expected: None,
    };
    for (name, members) in [
        ("data", vec!["ana"]),
        ("ops", vec!["cem", "eva"]),
        ("own", vec!["eva"]),
    ] {
        apply(store, &team(name, &members)).unwrap();
    }
    let on = |id: &str, first: bool, said: &[(&str, bool)]| {
        let mut change = sign_on(id, "Eva", "u1", Role::Viewer, first);
        if let Change::SignOn { teams, .. } = &mut change {
            *teams = said
                .iter()
                .map(|(team, of)| ((*team).to_owned(), *of))
                .collect();
        }
        change
    };
    let told = RefCell::new(Vec::new());
    let witness = |entry: Entry| {
        *told.borrow_mut() = entry.findings.iter().map(ToString::to_string).collect();
        Ok(())
    };
    let of_which = || {
        let teams = store.teams().unwrap().into_iter();
        let hers = teams.filter(|team| team.members.iter().any(|one| one == "eva"));
        hers.map(|team| team.name).collect::<Vec<_>>()
    };
    let said = [("data", true), ("ops", false), ("nowhere", true)];
    let first = on("one", true, &said);
    assert!(first.touches_policies());
    store.apply(&first, &actor(0), &witness).unwrap();
    assert_eq!(
        of_which(),
        ["data", "own"],
        "what the provider says nothing of stays"
    );
    assert_eq!(
        told.borrow()[1..],
        [
            "added to team data, as the provider says",
            "taken out of team ops, as the provider says",
            "not added to team nowhere, which is not there"
        ]
    );
    store
        .apply(&on("two", false, &said), &actor(0), &witness)
        .unwrap();
    assert_eq!(told.borrow().len(), 2, "nothing changed");
    // Teams of different policies: not signed in, and of none of them.
    for name in ["p", "q"] {
        apply(store, &policy(name, None, "one")).unwrap();
    }
    for (team, policy) in [("data", "p"), ("ops", "q")] {
        let assign = Change::Assign {
            place: Place::Team(team.to_owned()),
            policy: Some(policy.to_owned()),
            expected: None,
        };
        apply(store, &assign).unwrap();
    }
    let both = apply(store, &on("three", false, &[("data", true), ("ops", true)]));
    assert!(
        matches!(both, Err(ChangeError::Ambiguous { .. })),
        "{both:?}"
    );
    assert!(store.session("three", at(1)).unwrap().is_none());
    assert_eq!(of_which(), ["data", "own"]);
    assert!(!on("four", false, &[]).touches_policies());
}

fn who_signs_in_in_two_ways_is_one_person_under_the_two_person_rule(store: &dyn Store) {
    use super::two_person::{by, decide, make, member, proposed, ruled, two_people};

    member(store, "svc-1", Role::Editor);
    member(store, "eva-2", Role::Editor);
    ruled(store);
    // Ben has a password here, and comes by the company's provider, too; so does somebody else.
    apply(store, &sign_on("one", "ben-2", "u1", Role::Approver, true)).unwrap();
    apply(store, &sign_on("two", "benno", "u2", Role::Approver, true)).unwrap();
    let id = proposed(make(store, &policy("p", Some(1), "two"), &by("ben")));
    let approve = decide(id, Decision::Approve);
    two_people(make(store, &approve, &by("ben-2")));
    make(store, &approve, &by("benno")).unwrap();
    // By their mail, and where the local account has the number.
    let more = |id, name, subject| sign_on(id, name, subject, Role::Approver, true);
    apply(store, &more("four", "ben@corp.example", "u4")).unwrap();
    apply(store, &more("five", "eva", "u5")).unwrap();
    let id = proposed(make(store, &policy("p", Some(2), "2b"), &by("ben")));
    let approve = decide(id, Decision::Approve);
    two_people(make(store, &approve, &by("ben@corp.example")));
    let id = proposed(make(store, &policy("p", Some(2), "2c"), &by("eva-2")));
    two_people(make(store, &decide(id, Decision::Approve), &by("eva")));
    // A number in a name that somebody has here is a part of it.
    apply(
        store,
        &sign_on("three", "svc-2", "u3", Role::Approver, true),
    )
    .unwrap();
    let id = proposed(make(store, &policy("p", Some(2), "three"), &by("svc-1")));
    make(store, &decide(id, Decision::Approve), &by("svc-2")).unwrap();
}

fn who_signs_in_in_two_ways_is_one_of_two_who_may_approve(store: &dyn Store) {
    use super::two_person::{member, two_people};

    member(store, "ana", Role::Admin);
    let on = Change::TwoPersonRule { on: true };
    apply(store, &sign_on("one", "ana-2", "u1", Role::Approver, true)).unwrap();
    two_people(apply(store, &on));
    // Two of a provider are two.
    apply(store, &sign_on("two", "ana-3", "u2", Role::Approver, true)).unwrap();
    apply(store, &on).unwrap();
}
