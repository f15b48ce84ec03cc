//! What is decided again is read once, and a store that fails is not asked for each server.

use std::sync::atomic::Ordering;

use super::*;
use crate::{app::tests::Lab, store::Change};

#[test]
fn what_is_in_force_is_read_once_and_a_store_that_fails_is_asked_once() {
    let servers: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let names: Vec<&str> = servers.iter().map(String::as_str).collect();
    let lab = Lab::with(&names);
    for name in &names {
        drop(lab.control.run(name, "before"));
    }
    let asked = || lab.store.asked.swap(0, Ordering::SeqCst);
    let _before = asked();
    let said = decide_again(lab.store.as_ref(), lab.control.as_ref());
    assert!(said.unwrap().knows("s7"));
    assert_eq!(
        asked(),
        2,
        "servers, assignments, floors and teams at once, and the one policy"
    );
    lab.store.failing.store(true, Ordering::SeqCst);
    assert!(decide_again(lab.store.as_ref(), lab.control.as_ref()).is_none());
    assert_eq!(asked(), 1, "whoever fails once is not asked again");
    for name in names {
        assert_eq!(lab.control.put_for(name), ["p", UNREADABLE]);
    }
}

#[test]
fn what_is_in_force_is_bounded_by_the_floors_of_all_and_of_the_server() {
    let lab = Lab::with(&["one", "two"]);
    let save = |name: &str, host: &str| {
        lab.make(&Change::SavePolicy {
            name: name.parse().unwrap(),
            expected: None,
            document: format!("version: 1\negress:\n  - host: '{host}'\n"),
            reason: String::new(),
            secrets: crate::store::Vouched::Freely,
        });
    };
    let floor = |server: Option<&str>, policy: &str| {
        lab.make(&Change::SetFloor {
            place: server.map(str::to_owned).into(),
            policy: Some(policy.to_owned()),
            expected: None,
        });
    };
    save("company", "*.example.com");
    save("narrow", "other.example.com");
    floor(None, "company");
    floor(Some("two"), "narrow");
    let asked = |server: &str| {
        let policy = effective(lab.store.as_ref(), server, "ana").unwrap().policy;
        let told = policy.explain("GET", "https://api.example.com/").unwrap();
        (told.verdict, told.policy, policy.floors().len())
    };
    assert_eq!(asked("one"), ("allow", "p".to_owned(), 1));
    assert_eq!(asked("two"), ("deny", "narrow".to_owned(), 2));
}

#[test]
fn each_for_whom_it_is_another_policy_is_named_and_all_others_come_last() {
    let lab = Lab::with(&["one"]);
    for name in ["q", "narrow"] {
        lab.make(&crate::app::tests::saved(name));
    }
    let team = |name: &str, members: &[&str]| {
        lab.make(&Change::SaveTeam {
            name: name.parse().unwrap(),
            members: members.iter().map(|one| (*one).to_owned()).collect(),
            expected: None,
        });
    };
    team("data", &["ana", "ben"]);
    team("same", &["eva"]);
    let put = |place: Place, policy: &str, floor: bool| {
        let (policy, expected) = (Some(policy.to_owned()), None);
        lab.make(&match floor {
            true => Change::SetFloor {
                place,
                policy,
                expected,
            },
            false => Change::Assign {
                place,
                policy,
                expected,
            },
        });
    };
    put(Place::Team("data".to_owned()), "q", false);
    put(Place::profile("Ben"), "narrow", true);
    put(Place::profile("cem"), "p", true);
    let told = || {
        let lines = InForce::read(lab.store.as_ref()).unwrap().by_person("one");
        let words = |one: ForWhom| {
            let (people, floors) = (one.people.join("+"), one.floors.join("+"));
            format!(
                "{people}: {} v{} by {} under {floors}",
                one.policy, one.version, one.by
            )
        };
        lines.unwrap().into_iter().map(words).collect::<Vec<_>>()
    };
    assert_eq!(
        told(),
        [
            "ana: q v1 by team data under ",
            "ben: q v1 by team data under narrow",
            "cem: p v1 by all servers under p",
            ": p v1 by all servers under ",
        ]
    );
    // Who gets what everybody gets is not named.
    put(Place::Team("same".to_owned()), "p", true);
    put(Place::All, "p", true);
    assert_eq!(told().last().unwrap(), ": p v1 by all servers under p");
    assert!(
        !told()
            .iter()
            .any(|line| line.contains("eva") || line.contains("cem"))
    );
}
