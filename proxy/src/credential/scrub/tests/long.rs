//! A long value with escapes, in many small pieces: it is looked at a few times, and not with each piece.

use super::*;
use crate::credential::spelling::look::LOOKED;

/// So many letters that mean nothing.
fn letters(count: usize) -> String {
    let mut state = 7_u64;
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'a' + u8::try_from((state >> 33) % 26).unwrap())
    };
    (0..count).map(|_| letter()).collect()
}

/// Each of the usual ways to write it, and what one letter takes there at most.
fn spellings(value: &str) -> [String; 5] {
    let each = |write: fn(u32) -> String| value.chars().map(|c| write(u32::from(c))).collect();
    [
        value.to_owned(),
        each(|c| format!("\\u{c:04x}")),
        each(|c| format!("%{c:02X}")),
        each(|c| format!("&#x{c:06x};")),
        general_purpose::STANDARD.encode(value),
    ]
}

#[test]
fn a_long_value_in_small_pieces_is_looked_at_a_few_times() {
    let value = letters(2000);
    let scrub = scrub_of(&[(&value, SENTINEL)]);
    for spelled in spellings(&value) {
        for size in [7, 100, 1000] {
            let mut scrubber = scrub.scrubber(Fit::Free);
            let mut out = Vec::new();
            LOOKED.set(0);
            for piece in spelled.as_bytes().chunks(size) {
                scrubber.push(piece, &mut out).unwrap();
                // Who waits for more asks each time.
                let _: usize = scrubber.leaving();
            }
            scrubber.finish(&mut out).unwrap();
            assert!(out.len() < 2 * SENTINEL.len(), "{}", text(out));
            let (looked, length) = (LOOKED.get(), spelled.len());
            assert!(looked <= 16 * length, "{looked} of {length} in {size}");
        }
    }
}

#[test]
fn what_joined_without_a_look_is_looked_at_before_it_is_let_go() {
    let value = letters(2000);
    let scrub = scrub_of(&[(&value, SENTINEL)]);
    let mut scrubber = scrub.scrubber(Fit::Free);
    let mut out = Vec::new();
    let (begun, rest) = value.split_at(1000);
    scrubber.push(begun.as_bytes(), &mut out).unwrap();
    let (one, two) = rest.split_at(100);
    scrubber.push(one.as_bytes(), &mut out).unwrap();
    // More of a value than may be shown.
    scrubber.release(&mut out).unwrap();
    assert!(out.is_empty() && scrubber.leaving() == 0);
    scrubber.push(two.as_bytes(), &mut out).unwrap();
    assert_eq!(text(std::mem::take(&mut out)), SENTINEL);
    // Something else: all of it goes.
    scrubber.push(begun.as_bytes(), &mut out).unwrap();
    scrubber.push(b" and no more of it", &mut out).unwrap();
    assert!(out.is_empty() && scrubber.leaving() > 0);
    scrubber.release(&mut out).unwrap();
    assert_eq!(text(out), format!("{begun} and no more of it"));
}

#[test]
fn what_is_not_waited_for_goes_piece_by_piece() {
    let value = letters(2000);
    let scrub = granted(&[(&value, SENTINEL)], &[]);
    let mut scrubber = scrub.scrubber(Fit::Free);
    let (mut out, mut came) = (Vec::new(), 0);
    let (begun, _) = value.split_at(1900);
    for piece in begun.as_bytes().chunks(7) {
        came += piece.len();
        scrubber.push(piece, &mut out).unwrap();
        assert_eq!(out.len(), came);
    }
}
