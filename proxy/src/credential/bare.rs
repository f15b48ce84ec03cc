//! Letters and digits of a text, its escapes undone: what is left of pieces when all that may stand
//! between them is gone.
//!
//! The same as [`unescape`] and leaving everything else out, and quick where a text is full of escapes
//! that stand for nothing that is left. What is not told at a glance is undone in full.

use super::{
    letters::{Classes, JOINING, Letters, Reading},
    unescape::{hex, unescape},
};

/// Appends what is left of `octets`; `view` is room to work in.
pub(super) fn add_bare(octets: &[u8], view: &mut Vec<u8>, bare: &mut Letters) {
    let begun = bare.len();
    if add_at_a_glance(octets, bare).is_none() {
        bare.truncate(begun);
        view.clear();
        unescape(octets, view);
        bare.add::<All>(view);
    }
}

/// The same, if no escape is found that may stand for more, or go together with its neighbours.
fn add_at_a_glance(octets: &[u8], bare: &mut Letters) -> Option<()> {
    let mut rest = octets;
    loop {
        rest = bare.add::<Unescaped>(rest);
        let Some((introducer, behind)) = rest.split_first() else {
            return Some(());
        };
        rest = match introducer {
            b'%' => percent(behind, bare)?,
            b'\\' => backslash(behind)?,
            _ => ampersand(behind)?,
        };
    }
}

/// What is behind a percent sign.
#[inline]
fn percent<'a>(behind: &'a [u8], bare: &mut Letters) -> Option<&'a [u8]> {
    if let Some((&[high, low], rest)) = behind.split_first_chunk()
        && let Some((high, low)) = hex(high).zip(hex(low))
    {
        let octet = high << 4 | low;
        if is_joining(octet) {
            return None;
        }
        if octet.is_ascii_alphanumeric() {
            bare.push(octet);
        }
        return Some(rest);
    }
    let next = |at: usize| behind.get(at).copied();
    if next(0).is_some_and(is_introducer) || next(1).is_some_and(is_introducer) {
        return None;
    }
    Some(behind)
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
fn is_joining(octet: u8) -> bool {
    JOINING.contains(&octet)
}

/// Escapes have been undone: what is left of them is text.
struct All;

impl Reading for All {
    const CLASSES: Classes = Classes::stopping(b"");
}

/// Up to what may be an escape that is not undone at a glance.
struct Unescaped;

impl Reading for Unescaped {
    const CLASSES: Classes = Classes::stopping(b"%\\&").undoing();
}

/// Longer than any name of a reference that is undone.
const LONGEST_NAME: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bare(text: &[u8]) -> Vec<u8> {
        let (mut view, mut bare) = (Vec::new(), Letters::default());
        add_bare(text, &mut view, &mut bare);
        bare.as_slice().to_vec()
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
            assert!(left.ends_with(b"a1") && left.len() < 4096, "{escape}");
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
