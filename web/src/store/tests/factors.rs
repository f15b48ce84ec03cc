//! Second factors, as every store keeps them.

use super::{
    two_person::{by, make, member, owner, password, ruled, two_people},
    *,
};
use crate::credential::Digest;

on_both! {
    a_code_is_spent_once_however_many_ask_at_once,
    a_code_is_of_one_factor_and_one_that_is_written_down_is_used_once,
    a_factor_goes_by_who_has_a_code_or_by_another_and_takes_its_codes,
    a_password_is_changed_with_a_code_by_who_has_one,
    who_signs_on_elsewhere_has_no_factor_here,
    nobody_who_changes_policies_loses_a_factor_by_one_person,
    a_role_that_asks_for_a_factor_asks_sessions_that_are_there,
}

fn digest(n: u8) -> Digest {
    Digest::from_octets([n; 32])
}

fn enrolled(name: &str, since: i64) -> Change {
    Change::SetFactor {
        name: name.to_owned(),
        password: "own".to_owned(),
        sealed: vec![1, 2, 3],
        since: at(since),
        step: 10,
        codes: vec![digest(1), digest(2)],
    }
}

fn device(step: i64, since: i64) -> Option<UsedCode> {
    let since = at(since);
    Some(UsedCode::Device { step, since })
}

fn session(id: &str, name: &str, code: Option<UsedCode>) -> Change {
    Change::StartSession {
        id: id.to_owned(),
        digest: credential::mint_token().unwrap().digest,
        user: name.to_owned(),
        password: "own".to_owned(),
        code,
        expires: at(3600),
        agent: String::new(),
    }
}

fn is_of_code(outcome: Result<Applied, ChangeError>) {
    assert!(matches!(outcome, Err(ChangeError::Code)), "{outcome:?}");
}

fn lapsed(outcome: Result<Applied, ChangeError>) {
    assert!(matches!(outcome, Err(ChangeError::Lapsed)), "{outcome:?}");
}

/// An admin with a factor.
fn fill(store: &dyn Store) {
    member(store, "ana", Role::Admin);
    make(store, &enrolled("ANA", 0), &by("ana")).unwrap();
}

fn a_code_is_spent_once_however_many_ask_at_once(store: &dyn Store) {
    fill(store);
    for code in [device(11, 0), Some(UsedCode::WrittenDown(digest(1)))] {
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let asks = (0..8).map(|n| {
                let change = session(&format!("{n}"), "ana", code.clone());
                scope.spawn(move || apply(store, &change).is_ok())
            });
            let asks: Vec<_> = asks.collect();
            asks.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(outcomes.iter().filter(|done| **done).count(), 1, "{code:?}");
        for session in store.sessions(at(1)).unwrap() {
            let id = session.id;
            apply(store, &Change::EndSession { id }).unwrap();
        }
    }
}

fn a_code_is_of_one_factor_and_one_that_is_written_down_is_used_once(store: &dyn Store) {
    fill(store);
    lapsed(apply(store, &session("a", "ana", None)));
    // That which set it up, one before it, one of another factor.
    for (step, since) in [(10, 0), (9, 0), (12, 1)] {
        is_of_code(apply(store, &session("a", "ana", device(step, since))));
    }
    apply(store, &session("a", "ana", device(12, 0))).unwrap();
    is_of_code(apply(store, &session("b", "ana", device(11, 0))));
    apply(store, &session("b", "ANA", device(13, 0))).unwrap();
    let began = store.session("a", at(1)).unwrap().unwrap().began;
    assert_eq!(began, "password and code");
    let written = |n| session("c", "ana", Some(UsedCode::WrittenDown(digest(n))));
    is_of_code(apply(store, &written(3)));
    apply(store, &written(2)).unwrap();
    is_of_code(apply(store, &written(2)));
    let kept = store.second_factor("ANA").unwrap().unwrap();
    assert_eq!(
        (kept.sealed, kept.since, kept.codes),
        (vec![1, 2, 3], at(0), 1)
    );
    // A code of who has no factor is no way in, either.
    member(store, "ben", Role::Viewer);
    lapsed(apply(store, &session("d", "ben", device(99, 0))));
    apply(store, &session("d", "ben", None)).unwrap();
    // What is refused changes nothing: the code is there still.
    let denies = |_: Entry| Err("full".to_owned());
    let change = session("e", "ana", device(14, 0));
    assert!(store.apply(&change, &actor(0), &denies).is_err());
    apply(store, &change).unwrap();
}

fn a_factor_goes_by_who_has_a_code_or_by_another_and_takes_its_codes(store: &dyn Store) {
    fill(store);
    let remove = |code| Change::RemoveFactor {
        name: "ana".to_owned(),
        code,
    };
    let twice = make(store, &enrolled("ana", 1), &by("ana"));
    assert!(
        matches!(twice, Err(ChangeError::Exists { .. })),
        "{twice:?}"
    );
    lapsed(make(store, &remove(None), &by("ana")));
    is_of_code(make(store, &remove(device(10, 0)), &by("ana")));
    make(store, &remove(device(11, 0)), &by("ana")).unwrap();
    assert!(store.second_factor("ana").unwrap().is_none());
    let again = make(store, &remove(None), &by("ben"));
    assert!(
        matches!(again, Err(ChangeError::Missing { .. })),
        "{again:?}"
    );
    // The same codes again: those of before are gone.
    make(store, &enrolled("ana", 2), &by("ana")).unwrap();
    member(store, "ben", Role::Admin);
    make(store, &remove(None), &by("ben")).unwrap();
    make(store, &enrolled("ana", 3), &by("ana")).unwrap();
    assert!(store.user("ana").unwrap().unwrap().second_factor);
    let name = "ana".to_owned();
    apply(store, &Change::RemoveUser { name }).unwrap();
    assert!(store.second_factor("ana").unwrap().is_none());
    // Nobody sets one up for another, nor with a password that is no longer theirs.
    for (change, who) in [(enrolled("ben", 4), "cem"), (enrolled("ana", 4), "ana")] {
        let refused = make(store, &change, &by(who));
        assert!(
            matches!(refused, Err(ChangeError::Missing { .. })),
            "{refused:?}"
        );
    }
}

fn a_password_is_changed_with_a_code_by_who_has_one(store: &dyn Store) {
    fill(store);
    let with = |code| Change::SetPassword {
        name: "ana".to_owned(),
        password: "other".to_owned(),
        end_tokens: false,
        code,
    };
    lapsed(make(store, &with(None), &by("ana")));
    is_of_code(make(store, &with(device(10, 0)), &by("ana")));
    make(store, &with(device(11, 0)), &by("ana")).unwrap();
    // By another it is set as before, and the factor stays.
    make(store, &password("ana", "third"), &by("ben")).unwrap();
    assert!(store.user("ana").unwrap().unwrap().second_factor);
}

fn who_signs_on_elsewhere_has_no_factor_here(store: &dyn Store) {
    let first = Change::SignOn {
        id: "one".to_owned(),
        digest: digest(9),
        name: "eva".parse().unwrap(),
        account: Account {
            issuer: "https://idp.example".to_owned(),
            subject: "u1".to_owned(),
        },
        role: Role::Admin,
        teams: Vec::new(),
        first: true,
        expires: at(3600),
        agent: String::new(),
    };
    apply(store, &first).unwrap();
    let refused = make(store, &enrolled("eva", 0), &by("eva"));
    assert!(
        matches!(refused, Err(ChangeError::SignOn { .. })),
        "{refused:?}"
    );
    let roles = vec![Role::Admin];
    apply(store, &Change::FactorRule { roles }).unwrap();
    assert!(!store.session("one", at(1)).unwrap().unwrap().lacks_factor);
}

fn nobody_who_changes_policies_loses_a_factor_by_one_person(store: &dyn Store) {
    ruled(store);
    let since = |name| make(store, &enrolled(name, 0), &by(name)).unwrap();
    since("ben");
    since("cem");
    let remove = |name: &str, code| Change::RemoveFactor {
        name: name.to_owned(),
        code,
    };
    two_people(make(store, &remove("ben", None), &by("ana")));
    make(store, &remove("cem", device(11, 0)), &by("cem")).unwrap();
    let told = RefCell::new(Vec::new());
    let witness = |entry: Entry| {
        told.borrow_mut()
            .extend(entry.findings.iter().map(ToString::to_string));
        Ok(())
    };
    store
        .apply(&remove("ben", None), &owner(), &witness)
        .unwrap();
    let want = [
        "user ben has no second factor any more",
        "two-person rule passed by this machine's owner",
    ];
    assert_eq!(told.into_inner(), want);
    // Nor is it asked for no more by one person, once it was.
    let rule = |roles: &[Role]| Change::FactorRule {
        roles: roles.to_vec(),
    };
    make(store, &rule(&[Role::Admin]), &by("ana")).unwrap();
    make(store, &rule(&[Role::Admin, Role::Editor]), &by("ana")).unwrap();
    two_people(make(store, &rule(&[Role::Editor]), &by("ana")));
    make(store, &rule(&[]), &owner()).unwrap();
}

fn a_role_that_asks_for_a_factor_asks_sessions_that_are_there(store: &dyn Store) {
    member(store, "ana", Role::Admin);
    member(store, "ben", Role::Viewer);
    apply(store, &session("a", "ana", None)).unwrap();
    apply(store, &session("b", "ben", None)).unwrap();
    let lacks = |id| store.session(id, at(1)).unwrap().unwrap().lacks_factor;
    assert!(!lacks("a") && !lacks("b"));
    let rule = |roles: &[Role]| {
        let roles = roles.to_vec();
        apply(store, &Change::FactorRule { roles }).unwrap();
    };
    rule(&[Role::Approver, Role::Admin]);
    assert_eq!(store.factor_rule().unwrap(), [Role::Approver, Role::Admin]);
    assert!(lacks("a") && !lacks("b"));
    apply(store, &session("c", "ana", None)).unwrap();
    let at_a = Actor {
        standing: Standing::Session {
            id: "a".into(),
            role: Role::Admin,
        },
        ..by("ana")
    };
    make(store, &enrolled("ana", 0), &at_a).unwrap();
    assert!(!lacks("a"));
    // Whoever else came by the password alone is out, and nobody else is.
    assert!(store.session("c", at(1)).unwrap().is_none());
    assert!(store.session("b", at(1)).unwrap().is_some());
    rule(&[]);
    assert!(store.factor_rule().unwrap().is_empty());
    rule(&[Role::Viewer]);
    assert!(lacks("b"));
}
