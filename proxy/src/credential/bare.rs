//! Letters and digits of a text, its escapes undone: what is left of pieces when all that may stand
//! between them is gone.
//!
//! The same as [`unescape`] and leaving everything else out, and quick where a text is full of escapes
//! that stand for nothing that is left. What is not told at a glance is undone in full.

use memchr::memchr3;

use super::unescape::{hex, unescape};

/// Appends what is left of `octets`; `view` is room to work in.
pub(super) fn add_bare(octets: &[u8], view: &mut Vec<u8>, bare: &mut Vec<u8>) {
    let begun = bare.len();
    if add_at_a_glance(octets, bare).is_none() {
        bare.truncate(begun);
        view.clear();
        unescape(octets, view);
        bare.extend(view.iter().filter(|octet| octet.is_ascii_alphanumeric()));
    }
}

/// The same, if no escape is found that may stand for more, or go together with its neighbours.
fn add_at_a_glance(octets: &[u8], bare: &mut Vec<u8>) -> Option<()> {
    let mut rest = octets;
    loop {
        rest = add_plain(rest, bare);
        let (introducer, behind) = match rest.split_first() {
            Some((octet, behind)) => (*octet, behind),
            None => return Some(()),
        };
        rest = match introducer {
            b'%' => percent(behind, bare)?,
            b'\\' => backslash(behind)?,
            _ => ampersand(behind)?,
        };
    }
}

/// Takes what stands before the first octet that may begin an escape; gives the rest.
fn add_plain<'a>(octets: &'a [u8], bare: &mut Vec<u8>) -> &'a [u8] {
    // Room is made for what is taken here alone: a text may be nothing but escapes.
    let end = memchr3(b'%', b'\\', b'&', octets).unwrap_or(octets.len());
    let (plain, rest) = octets.split_at(end);
    let begun = bare.len();
    bare.resize(begun + plain.len(), 0);
    let room = bare.get_mut(begun..).unwrap_or_default();
    let mut taken = 0;
    for octet in plain {
        if let Some(slot) = room.get_mut(taken) {
            *slot = *octet;
        }
        taken += usize::from(CLASSES.get(usize::from(*octet)).copied().unwrap_or(OTHER));
    }
    bare.truncate(begun + taken);
    rest
}

/// What is behind a percent sign.
fn percent<'a>(behind: &'a [u8], bare: &mut Vec<u8>) -> Option<&'a [u8]> {
    let next = |at: usize| behind.get(at).copied();
    if next(0).is_some_and(is_introducer) || next(1).is_some_and(is_introducer) {
        return None;
    }
    let digits = next(0).and_then(hex).zip(next(1).and_then(hex));
    let Some((high, low)) = digits else {
        return Some(behind);
    };
    let octet = high << 4 | low;
    if is_joining(octet) {
        return None;
    }
    if octet.is_ascii_alphanumeric() {
        bare.push(octet);
    }
    behind.get(2..)
}

/// What is behind a backslash.
fn backslash(mut behind: &[u8]) -> Option<&[u8]> {
    while let Some((b'\\', more)) = behind.split_first() {
        behind = more;
    }
    match behind.split_first() {
        Some((b'u' | b'x' | b'%' | b'&', _)) => None,
        Some((b'n' | b'r' | b't', more)) => Some(more),
        _ => Some(behind),
    }
}

/// What is behind an ampersand.
fn ampersand(behind: &[u8]) -> Option<&[u8]> {
    let near = behind.get(..LONGEST_NAME).unwrap_or(behind);
    let end = near.iter().position(|octet| !octet.is_ascii_lowercase());
    match end.and_then(|end| near.get(end)) {
        // A name, or what may become one.
        Some(b';' | b'#' | b'&' | b'%' | b'\\') => None,
        _ => Some(behind),
    }
}

const fn is_introducer(octet: u8) -> bool {
    matches!(octet, b'%' | b'\\' | b'&')
}

/// Whether it may be part of another escape once it stands there.
const fn is_joining(octet: u8) -> bool {
    is_introducer(octet) || matches!(octet, b'#' | b';')
}

const OTHER: u8 = 0;
/// Counts as one octet that is left.
const LEFT: u8 = 1;

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "it runs to 127, when the program is compiled"
)]
const CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut octet = 0;
    while octet < 128 {
        if (octet as u8).is_ascii_alphanumeric() {
            classes[octet] = LEFT;
        }
        octet += 1;
    }
    classes
};
/// Longer than any name of a reference that is undone.
const LONGEST_NAME: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bare(text: &[u8]) -> Vec<u8> {
        let (mut view, mut bare) = (Vec::new(), Vec::new());
        add_bare(text, &mut view, &mut bare);
        bare
    }

    fn in_full(text: &[u8]) -> Vec<u8> {
        let mut view = Vec::new();
        unescape(text, &mut view);
        view.retain(u8::is_ascii_alphanumeric);
        view
    }

    #[test]
    fn letters_and_digits_are_left_and_escapes_undone() {
        for (text, expected) in [
            ("gigph-01 23", "gigph0123"),
            ("a%62%2Dc+d%0D%0A", "abcd"),
            (
                r#"a
b	"c\\nd \/"#,
                "abcd",
            ),
            (r"ab&#99;&lt;&amp;d", "abcd"),
            ("a=1&b=%4", "a1b4"),
            ("%%36%31", "a"),
        ] {
            let left = bare(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&left), expected, "{text}");
        }
    }

    #[test]
    fn nothing_but_escapes_takes_no_longer_than_its_length() {
        // Were room made for all of the rest behind each, this would take a minute.
        for escape in ["%20", r"\n", "& "] {
            let text = [&escape.repeat(400_000), "a1"].concat();
            let left = bare(text.as_bytes());
            assert!(left.ends_with(b"a1") && left.capacity() < 4096, "{escape}");
        }
    }

    proptest! {
        #[test]
        fn a_glance_sees_what_undoing_in_full_does(
            parts in prop::collection::vec(prop_oneof![
                Just("%"), Just("\\"), Just("&"), Just("#"), Just(";"), Just("x"), Just("u"), Just("00"),
                Just("6"), Just("1"), Just("25"), Just("3b"), Just("5c"), Just("26"), Just("n"), Just("amp"),
                Just("lt"), Just("-"), Just("g"), Just("percnt"), Just("é"),
            ], 0..24),
        ) {
            let text = parts.concat();
            let (left, full) = (bare(text.as_bytes()), in_full(text.as_bytes()));
            prop_assert_eq!(left, full, "{}", text);
        }

        #[test]
        fn and_in_any_octets(text in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(bare(&text), in_full(&text));
        }
    }
}
