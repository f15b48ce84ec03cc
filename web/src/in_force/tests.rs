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
