//! What could not be read is read again, whatever happens to who reads.

use std::sync::mpsc;

use super::*;
use crate::{
    app::tests::{Lab, owner, saved},
    store::Store as _,
};

/// Waits until the policies that were put in force for `one` end with `wanted`.
fn comes_to(lab: &Lab, wanted: &str) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let put = lab.control.put_for("one");
        if put.last().is_some_and(|last| last == wanted) {
            return put;
        }
        assert!(begun.elapsed() < LATE, "{put:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

const LATE: Duration = Duration::from_mins(2);

#[tokio::test]
async fn what_could_not_be_read_from_a_store_of_ones_own_is_tried_again() {
    let lab = Lab::with(&["one"]);
    drop(lab.control.run("one", "before"));
    lab.store.failing.store(true, Ordering::SeqCst);
    lab.app.change(owner(), saved("p")).await.unwrap();
    assert_eq!(lab.control.put_for("one"), ["policy not readable"]);
    let following = Following::start(&lab.app).unwrap();
    lab.store.failing.store(false, Ordering::SeqCst);
    comes_to(&lab, "p");
    drop(following);
    assert!(lab.store.policies().is_ok());
}

#[test]
fn a_panic_denies_everything_until_a_try_succeeds() {
    let lab = Lab::with(&["one"]);
    drop(lab.control.run("one", "before"));
    lab.store.panics.store(1, Ordering::SeqCst);
    lab.app.undecided.store(true, Ordering::Relaxed);
    let following = Following::start(&lab.app).unwrap();
    assert_eq!(comes_to(&lab, "p"), [UNKNOWN, "p"]);
    drop(following);
}

#[tokio::test]
async fn a_panic_in_the_midst_of_a_change_leaves_a_doubt() {
    let lab = Lab::with(&["one"]);
    drop(lab.control.run("one", "before"));
    lab.store.panics.store(1, Ordering::SeqCst);
    assert!(lab.app.change(owner(), saved("p")).await.is_err());
    let following = Following::start(&lab.app).unwrap();
    comes_to(&lab, "p");
    drop(following);
}

#[test]
fn who_follows_ends_also_while_policies_may_not_change() {
    let lab = Lab::with(&["one"]);
    let none_changes = Arc::clone(&lab.app.policies).try_read_owned().unwrap();
    lab.app.undecided.store(true, Ordering::Relaxed);
    let following = Following::start(&lab.app).unwrap();
    // It has begun to wait for it, or never will.
    let begun = Instant::now();
    while lab.app.undecided.load(Ordering::Relaxed) {
        assert!(begun.elapsed() < LATE);
        std::thread::sleep(Duration::from_millis(10));
    }
    let (ended, end) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        drop(following);
        ended.send(()).unwrap();
    });
    end.recv_timeout(LATE).unwrap();
    thread.join().unwrap();
    drop(none_changes);
}
