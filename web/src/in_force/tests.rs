//! What is decided again is read once, and a store that fails is not asked for each server.

use std::sync::atomic::Ordering;

use super::*;
use crate::app::tests::Lab;

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
    assert_eq!(asked(), 3, "servers, assignments, and the one policy");
    lab.store.failing.store(true, Ordering::SeqCst);
    assert!(decide_again(lab.store.as_ref(), lab.control.as_ref()).is_none());
    assert_eq!(asked(), 1, "whoever fails once is not asked again");
    for name in names {
        assert_eq!(lab.control.put_for(name), ["p", UNREADABLE]);
    }
}
