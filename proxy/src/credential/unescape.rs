//! Undoes escapes while octets pass, so that what is looked for has one spelling.
//!
//! Percent-encoding, JSON's and JavaScript's backslashes and HTML's character references are undone
//! wherever they stand and as often as they were put on: this is a view to look at, never what is sent.

use memchr::memchr3;

/// Appends `octets` to `view` with escapes undone; the last octets of `view` may be the beginning of
/// an escape that `octets` ends.
pub fn unescape(octets: &[u8], view: &mut Vec<u8>) {
    undo(octets, view, true);
}

/// The same where a backslash before `%` or `&` belongs to what is written behind it: `\%75002d` is `\u002d`.
pub(super) fn unescape_behind(octets: &[u8], view: &mut Vec<u8>) {
    undo(octets, view, false);
}

/// Whether that may be another view.
pub(super) fn escapes_behind(octets: &[u8]) -> bool {
    let mut backslashes = memchr::memchr_iter(b'\\', octets);
    backslashes.any(|at| matches!(octets.get(at + 1), Some(b'%' | b'&')))
}

/// `shells`: a backslash before `%` or `&` is the escape of that.
fn undo(octets: &[u8], view: &mut Vec<u8>, shells: bool) {
    let mut rest = octets;
    // What was begun before may end here.
    let mut watching = LONGEST;
    while !rest.is_empty() {
        if watching == 0 {
            let run = memchr3(b'%', b'\\', b'&', rest).unwrap_or(rest.len());
            let (plain, more) = rest.split_at(run);
            view.extend_from_slice(plain);
            rest = more;
            watching = LONGEST;
            continue;
        }
        let Some((octet, more)) = rest.split_first() else {
            return;
        };
        watching = if matches!(octet, b'%' | b'\\' | b'&') {
            LONGEST
        } else {
            watching - 1
        };
        view.push(*octet);
        while fold(view, shells) {
            watching = LONGEST;
        }
        rest = more;
    }
}

/// Whether there is anything to undo.
#[must_use]
pub fn escapes(octets: &[u8]) -> bool {
    memchr3(b'%', b'\\', b'&', octets).is_some()
}

/// Replaces an escape that `view` ends with by what it stands for.
fn fold(view: &mut Vec<u8>, shells: bool) -> bool {
    let Some(last) = view.last().copied() else {
        return false;
    };
    let found = match last {
        b';' => reference(view),
        b'%' | b'&' if !shells => None,
        _ => after_backslash(view, last).or_else(|| digits(view, last)),
    };
    let Some((length, octet)) = found else {
        return false;
    };
    view.truncate(view.len() - length);
    match octet {
        Stands::Octet(octet) => view.push(octet),
        Stands::Character(character) => {
            view.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    true
}

enum Stands {
    Octet(u8),
    Character(char),
}

/// `%XX`, `\xXX`, `\uXXXX`.
fn digits(view: &[u8], last: u8) -> Option<(usize, Stands)> {
    hex(last)?;
    if let [.., b'%', high, low] = view {
        return Some((3, Stands::Octet(hex(*high)? << 4 | hex(*low)?)));
    }
    if let [.., b'\\', b'x', high, low] = view {
        return Some((4, Stands::Octet(hex(*high)? << 4 | hex(*low)?)));
    }
    let (number, before) = number(view)?;
    if let Some(character) = char::from_u32(number) {
        return Some((6, Stands::Character(character)));
    }
    // Half of a pair stands for nothing by itself.
    let (high, _) = self::number(before)?;
    Some((12, Stands::Character(surrogates(high, number)?)))
}

/// The number of the `\uXXXX` that `view` ends with, and what stands before it.
fn number(view: &[u8]) -> Option<(u32, &[u8])> {
    let [before @ .., b'\\', b'u', a, b, c, d] = view else {
        return None;
    };
    let mut number = 0;
    for digit in [a, b, c, d] {
        number = number << 4 | u32::from(hex(*digit)?);
    }
    Some((number, before))
}

/// The character of a surrogate pair (RFC 8259 §7).
pub(super) fn surrogates(high: u32, low: u32) -> Option<char> {
    let pair = [u16::try_from(high).ok()?, u16::try_from(low).ok()?];
    let mut characters = char::decode_utf16(pair);
    characters
        .next()?
        .ok()
        .filter(|_| characters.next().is_none())
}

/// `\/`, `\"`, `\\` and the like.
fn after_backslash(view: &[u8], last: u8) -> Option<(usize, Stands)> {
    let [.., b'\\', _] = view else {
        return None;
    };
    let octet = match last {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'/' | b'"' | b'\'' | b'\\' | b'&' | b'%' | b'-' | b'_' | b'.' | b'=' | b'+' => last,
        _ => return None,
    };
    Some((2, Stands::Octet(octet)))
}

/// `&#45;`, `&#x2d;`, `&amp;`.
fn reference(view: &[u8]) -> Option<(usize, Stands)> {
    let from = view.len().saturating_sub(LONGEST);
    let near = view.get(from..)?;
    let ampersand = memchr::memrchr(b'&', near)?;
    let length = near.len() - ampersand;
    let inside = near.get(ampersand + 1..near.len() - 1)?;
    let text = std::str::from_utf8(inside).ok()?;
    let character = if let Some(number) = text.strip_prefix('#') {
        let number = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        };
        char::from_u32(number)?
    } else {
        NAMED.iter().find(|(name, _)| *name == text)?.1
    };
    Some((length, Stands::Character(character)))
}

#[inline]
pub(super) const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// What two hexadecimal digits stand for.
#[inline]
pub(super) fn pair(high: u8, low: u8) -> Option<u8> {
    let digit = |octet: u8| DIGITS.get(usize::from(octet)).copied().unwrap_or(NONE);
    let (high, low) = (digit(high), digit(low));
    ((high | low) & NONE == 0).then_some(high << 4 | low)
}

/// For each octet which digit it is.
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "an octet is less than 256, and it is made when the program is compiled"
)]
const DIGITS: [u8; 256] = {
    let mut digits = [NONE; 256];
    let mut octet = 0;
    while octet < 256 {
        if let Some(digit) = hex(octet as u8) {
            digits[octet] = digit;
        }
        octet += 1;
    }
    digits
};
/// It is no digit.
const NONE: u8 = 0x80;

/// Those of HTML's names that stand for what credentials are made of.
const NAMED: [(&str, char); 12] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("plus", '+'),
    ("sol", '/'),
    ("equals", '='),
    ("period", '.'),
    ("lowbar", '_'),
    ("colon", ':'),
    ("percnt", '%'),
];
/// No escape that is undone is longer, save by leading zeros.
pub const LONGEST: usize = 12;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn view(text: &str) -> String {
        let mut out = Vec::new();
        unescape(text.as_bytes(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn escapes_are_undone_however_often_they_were_put_on() {
        assert_eq!(view("gigph%2Dab"), "gigph-ab");
        assert_eq!(view("gigph%252Dab"), "gigph-ab");
        assert_eq!(view("gigph%25252dab"), "gigph-ab");
        assert_eq!(view(r"gigph\u002dab \/ \x2d"), "gigph-ab / -");
        assert_eq!(view(r"gigph\\u002dab"), "gigph-ab");
        assert_eq!(
            view(r"\ud83d\ude00 \\uD83D\\uDE00 \ud83d \ude00"),
            "😀 😀 \\ud83d \\ude00"
        );
        assert_eq!(view("gigph&#45;ab&#x2D;cd&amp;#45;"), "gigph-ab-cd-");
        assert_eq!(view("%26%2345%3B"), "-");
        assert_eq!(view("100% of it & more; \\d"), "100% of it & more; \\d");
    }

    #[test]
    fn a_backslash_before_an_escape_belongs_to_what_that_stands_for() {
        for text in [
            r"gigph\%75002dab",
            r"gigph\&#117;002dab",
            r"gigph\&#x78;2dab",
            r"gigph\%2575002dab",
        ] {
            assert!(escapes_behind(text.as_bytes()), "{text}");
            let mut out = Vec::new();
            unescape_behind(text.as_bytes(), &mut out);
            assert_eq!(out, b"gigph-ab", "{text}");
        }
        assert!(!escapes_behind(br"a\b\n%26"));
    }

    proptest! {
        #[test]
        fn where_it_is_cut_does_not_matter(text in r"[a4%\\u0&#x;2dD]{0,60}", cut in 0_usize..60) {
            let cut = cut.min(text.len());
            let mut out = Vec::new();
            unescape(&text.as_bytes()[..cut], &mut out);
            unescape(&text.as_bytes()[cut..], &mut out);
            prop_assert_eq!(String::from_utf8_lossy(&out), view(&text));
        }

        #[test]
        fn plain_text_stays(text in "[a-z0-9 ]{0,200}") {
            prop_assert_eq!(view(&text), text);
        }
    }
}
