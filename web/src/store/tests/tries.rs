//! Tries to sign in are counted by all nodes together, on both databases.

use super::{super::*, at};
use crate::credential::Digest;

on_both! {
    tries_are_counted_until_their_time_is_over,
}

fn counter(what: &str, most: u32, forgets: bool) -> Counter {
    Counter {
        what: Digest::of(what),
        most,
        forgets,
    }
}

fn tries_are_counted_until_their_time_is_over(store: &dyn Store) {
    let both = [counter("ana here", 5, true), counter("ana", 7, false)];
    let take = |of: &[Counter], seconds| store.take_try(of, at(seconds)).unwrap();
    for seconds in 0..5 {
        assert_eq!(take(&both, seconds), None, "{seconds}");
    }
    // What is refused is no further try of the name.
    for seconds in [60, 61] {
        let left = u64::try_from(15 * 60 - seconds).unwrap();
        assert_eq!(take(&both, seconds), Some(left));
    }
    let elsewhere = [counter("ana there", 5, true), both[1].clone()];
    assert_eq!(take(&elsewhere, 62), None);
    // Who succeeds was no guesser: that one is taken back, and what was failed from there.
    store.give_try_back(&elsewhere).unwrap();
    for seconds in [63, 64] {
        assert_eq!(take(&elsewhere, seconds), None);
    }
    assert_eq!(take(&elsewhere, 65), Some(15 * 60 - 65), "of the name");
    assert_eq!(take(&both, 15 * 60), None, "it is over");
}
