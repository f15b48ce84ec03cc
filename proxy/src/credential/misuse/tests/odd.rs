//! Values that are more than letters, digits and a few marks, as encoders write them.

use super::*;
use crate::credential::writings::tests::{ODD, written};

#[test]
fn a_value_of_any_signs_is_refused_however_it_is_written_and_cut() {
    for value in ODD {
        let watch = watch_of(value.as_bytes());
        for (way, text) in written(value) {
            let whole = [b"before ".as_slice(), &text, b" after"].concat();
            for cut in 0..whole.len() {
                let mut guard = guard(&watch);
                let (head, tail) = whole.split_at(cut);
                let refused = guard.look(head).is_err() || guard.look(tail).is_err();
                assert!(refused, "{value} as {way} cut at {cut}");
            }
            let mut found = false;
            watch.find_escaped(&whole, |_| found = true);
            assert!(found, "{value} as {way} in a header section");
        }
    }
}
