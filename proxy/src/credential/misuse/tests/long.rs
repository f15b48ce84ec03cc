//! What a long text costs that a program has and writes with escapes, in pieces of an octet: SECURITY.md says it.

use super::*;
use crate::credential::spelling::look::LOOKED;

/// Octets that are looked at for each of `text` that comes, one by one; that it is noted is the tally's to say.
fn looked_for_each(text: &str) -> usize {
    let mut guard = guard(&watch());
    LOOKED.set(0);
    for octet in text.as_bytes().chunks(1) {
        guard.look(octet).unwrap();
    }
    LOOKED.get() / text.len()
}

#[test]
fn with_each_octet_all_of_what_has_begun_is_looked_at_and_no_more() {
    let sentinel = "gigph-0123456789abcdef";
    let each = |write: fn(u32) -> String| -> String {
        let letters = sentinel.chars();
        letters.map(|letter| write(u32::from(letter))).collect()
    };
    for (spelled, most) in [
        (sentinel.to_owned(), 12),
        (each(|c| format!("%{c:02x}")), 34),
        (each(|c| format!("\\u{c:04x}")), 67),
        (each(|c| format!("&#x{c:07x};")), 122),
    ] {
        let looked = looked_for_each(&spelled);
        assert!(looked <= most, "{looked} for {spelled}");
        // What is over is not looked at again.
        let often = looked_for_each(&spelled.repeat(50));
        assert!(often <= most + 1, "{often} for many of {spelled}");
    }
    // Text in which nothing begins.
    assert!(looked_for_each(&"nothing of it, ".repeat(50)) <= 4);
}
