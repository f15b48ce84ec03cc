//! Values that are more than letters, digits and a few marks, as encoders write them.

use super::*;
use crate::credential::writings::tests::{ODD, written};

#[test]
fn a_value_of_any_signs_comes_back_as_its_sentinel_however_it_is_written_and_cut() {
    for value in ODD {
        let scrub = scrub_of(&[(value, SENTINEL)]);
        for (way, text) in written(value) {
            let whole = [b"{\"x\": \"", text.as_slice(), b"\", \"y\": 1}"].concat();
            let told = |out: &[u8]| format!("{value} as {way}: {}", String::from_utf8_lossy(out));
            let holds = |out: &[u8]| out.windows(text.len()).any(|part| part == text);
            for cut in 0..=whole.len() {
                let (head, tail) = whole.split_at(cut);
                let out = through(&scrub, Fit::Free, &[head, tail]);
                assert!(!holds(&out), "{} cut at {cut}", told(&out));
            }
            let octets: Vec<&[u8]> = whole.chunks(1).collect();
            let exact = through(&scrub, Fit::Exact, &octets);
            assert_eq!(exact.len(), whole.len(), "{}", told(&exact));
            assert!(!holds(&exact), "{}", told(&exact));
        }
    }
}
