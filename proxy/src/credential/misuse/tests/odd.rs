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

/// What keys of a kind begin with is no piece of any one of them.
#[test]
fn another_key_of_the_same_kind_is_none_of_ours() {
    let key = |seed: u32| {
        let mut state = seed;
        let random = std::iter::repeat_with(move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        });
        [vec![7; 55], random.take(1500).collect()].concat()
    };
    let written = |octets: &[u8]| pem("OPENSSH PRIVATE KEY", octets, 70, "\n");
    let hex =
        |octets: &[u8]| -> String { octets.iter().map(|octet| format!("{octet:02x}")).collect() };
    let (ours, another) = (key(1), key(2));
    let watch = watch_of(written(&ours).as_bytes());
    for (octets, expected) in [(&ours, true), (&another, false)] {
        for text in [
            written(octets),
            written(octets).replace('\n', "\\n"),
            hex(octets),
        ] {
            let mut guard = guard(&watch);
            assert_eq!(guard.look(text.as_bytes()).is_err(), expected, "{text}");
        }
    }
}
