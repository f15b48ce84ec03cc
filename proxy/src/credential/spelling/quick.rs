//! What an octet that may begin an escape stands for, told quickly where only one reading can matter.
//!
//! Most escapes are of one layer, or of several of the same kind. All else is odd, and is read by
//! [`super::unit()`] in every way there is.

use super::{
    special::{is_introducer, is_line_break},
    unit::NAMES,
};
use crate::credential::unescape::pair;

/// The one reading that can matter, where none of the octets that may begin an escape does as itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quick {
    /// This octet, up to there; if it may begin an escape itself, none was begun.
    Octet(u8, usize),
    /// A line break, up to there.
    Break(usize),
    /// Several octets, of which this is the first.
    Wide(u8),
    /// It takes a closer look.
    Odd,
}

/// Reads at `at`, where an octet stands that may begin an escape, through so many layers.
#[inline]
pub(super) fn quick(raw: &[u8], at: usize, layers: u8) -> Quick {
    // What texts are full of, without further ado.
    if let Some(&[b'%', high, low]) = raw.get(at..at + 3)
        && let Some(octet) = pair(high, low)
    {
        return stands_for(raw, octet, at + 3, layers);
    }
    if let Some((octet, length)) = raw.get(at..).and_then(whole_name) {
        return stands_for(raw, octet, at + length, layers);
    }
    match raw.get(at) {
        Some(introducer) => escape(raw, *introducer, at + 1, layers),
        None => Quick::Odd,
    }
}

/// What `introducer`, however it was written, stands for with what follows it.
fn escape(raw: &[u8], introducer: u8, after: usize, layers: u8) -> Quick {
    let Some(&next) = raw.get(after) else {
        return Quick::Odd;
    };
    let none = Quick::Octet(introducer, after);
    match (introducer, next) {
        (b'\\', b'\\') => further(raw, b'\\', after + 1, layers),
        (b'\\', b'%' | b'&') => Quick::Odd,
        (_, b'%' | b'\\' | b'&') => unless_escape(raw, after, layers, none),
        (b'%', _) => number(raw, (after, 2), true, layers, none),
        (b'\\', b'"' | b'\'' | b'/' | b'-' | b'_' | b'.' | b'=' | b'+') => {
            Quick::Octet(next, after + 1)
        }
        (b'\\', b'n' | b'r') => Quick::Break(after + 1),
        (b'\\', b't') => Quick::Octet(b'\t', after + 1),
        (b'\\', b'u') => number(raw, (after + 1, 4), false, layers, none),
        (b'\\', b'x') => number(raw, (after + 1, 2), false, layers, none),
        (b'&', b'#') => Quick::Odd,
        (b'&', next) if may_name(next) => name(raw, after, layers, none),
        _ => none,
    }
}

/// `none`, unless an escape stands within.
fn unless_escape(raw: &[u8], within: usize, layers: u8, none: Quick) -> Quick {
    let Some((layers, introducer)) = layers.checked_sub(1).zip(raw.get(within)) else {
        return Quick::Odd;
    };
    let inner = escape(raw, *introducer, within + 1, layers);
    if inner == Quick::Octet(*introducer, within + 1) {
        none
    } else {
        Quick::Odd
    }
}

/// So many hexadecimal digits.
fn number(raw: &[u8], (at, digits): (usize, usize), octet: bool, layers: u8, none: Quick) -> Quick {
    let mut number = 0;
    for at in at..at + digits {
        let Some(digit) = raw.get(at) else {
            return Quick::Odd;
        };
        match char::from(*digit).to_digit(16) {
            Some(digit) => number = number << 4 | digit,
            None if is_introducer(*digit) => return unless_escape(raw, at, layers, none),
            None => return none,
        }
    }
    let end = at + digits;
    match u8::try_from(number) {
        Ok(stands) if octet || stands < 0x80 => stands_for(raw, stands, end, layers),
        _ => match char::from_u32(number) {
            Some(character) => {
                let first = character.encode_utf8(&mut [0; 4]).bytes().next();
                first.map_or(none, Quick::Wide)
            }
            // Half of a pair: another may follow.
            None => Quick::Odd,
        },
    }
}

#[inline]
fn stands_for(raw: &[u8], octet: u8, end: usize, layers: u8) -> Quick {
    if is_line_break(octet) {
        return Quick::Break(end);
    }
    if !is_introducer(octet) {
        return Quick::Octet(octet, end);
    }
    further(raw, octet, end, layers)
}

/// What `introducer`, which was escaped itself, stands for with what follows it a layer further in.
fn further(raw: &[u8], introducer: u8, after: usize, layers: u8) -> Quick {
    let Some(layers) = layers.checked_sub(1) else {
        return match raw.get(after) {
            // Nothing that is escaped goes on so, however often.
            Some(next) if ends(introducer, *next) => Quick::Octet(introducer, after),
            _ => Quick::Odd,
        };
    };
    // The letter behind a backslash, and all behind that, may be written by its number.
    if introducer == b'\\' && matches!(raw.get(after..after + 2), Some([b'\\', b'u' | b'x'])) {
        return Quick::Odd;
    }
    escape(raw, introducer, after, layers)
}

/// Whether no escape that begins so goes on with `next`.
#[inline]
fn ends(introducer: u8, next: u8) -> bool {
    match introducer {
        b'&' => next != b'#' && !is_introducer(next) && !may_name(next),
        b'%' => !next.is_ascii_hexdigit() && !is_introducer(next),
        // What stands for itself behind a backslash is told elsewhere.
        _ => false,
    }
}

/// Whether the name of a reference may begin with it.
const fn may_name(octet: u8) -> bool {
    matches!(octet, b'a' | b'l' | b'g' | b'q' | b's' | b'p' | b'e' | b'c')
}

/// What a reference by name stands for that is written as it is, and how long it is.
#[inline]
const fn whole_name(raw: &[u8]) -> Option<(u8, usize)> {
    match raw {
        [b'&', b'a', b'm', b'p', b';', ..] => Some((b'&', 5)),
        [b'&', b'l', b't', b';', ..] => Some((b'<', 4)),
        [b'&', b'g', b't', b';', ..] => Some((b'>', 4)),
        [b'&', b'q', b'u', b'o', b't', b';', ..] => Some((b'"', 6)),
        _ => None,
    }
}

/// A reference by name.
fn name(raw: &[u8], at: usize, layers: u8, none: Quick) -> Quick {
    let rest = raw.get(at..).unwrap_or_default();
    let Some(length) = rest.iter().position(|octet| !octet.is_ascii_lowercase()) else {
        return if rest.len() > LONGEST {
            none
        } else {
            Quick::Odd
        };
    };
    let (name, end) = (rest.get(..length).unwrap_or_default(), at + length + 1);
    match rest.get(length) {
        Some(b';') => {
            let begun = |known: &&(&[u8], u8)| known.0.first() == name.first() && known.0 == name;
            match NAMES.iter().find(begun) {
                Some((_, octet)) => stands_for(raw, *octet, end, layers),
                None => none,
            }
        }
        Some(octet) if is_introducer(*octet) && length <= LONGEST => Quick::Odd,
        _ => none,
    }
}

/// No name is longer.
const LONGEST: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::spelling::unit::{DEPTH, unit};

    /// Whatever is read quickly is the innermost reading; all others, and where it is read wrongly all, are octets
    /// that begin escapes and that no text has there.
    fn check(raw: &[u8]) {
        let (octet, end) = match quick(raw, 0, DEPTH) {
            Quick::Octet(octet, end) => (octet, Some(end)),
            Quick::Break(end) => (b'\n', Some(end)),
            Quick::Wide(first) => (first, None),
            Quick::Odd => return,
        };
        let told = || String::from_utf8_lossy(raw).into_owned();
        for depth in 0..=DEPTH {
            let unit = unit(raw, 0, depth, true).unwrap();
            let first = *unit.octets().first().unwrap();
            let breaks = is_line_break(first) && is_line_break(octet);
            let is_it = (first == octet || breaks) && end.is_none_or(|end| unit.end == end);
            assert!(is_introducer(first) || is_it, "{} at depth {depth}", told());
        }
    }

    #[test]
    fn what_is_read_quickly_is_the_innermost_reading() {
        const PARTS: [&[u8]; 15] = [
            b"\\", b"u006e", b"x6E", b"n", b"u0075", b"%", b"5c", b"25", b"&", b"amp;", b"#92;",
            b"\"", b"6", b"u00e4", b"t",
        ];
        for first in [b"\\", b"%", b"&"] {
            for number in 0..PARTS.len().pow(4) {
                let mut raw = first.to_vec();
                let mut left = number;
                for _ in 0..4 {
                    raw.extend_from_slice(PARTS[left % PARTS.len()]);
                    left /= PARTS.len();
                }
                check(&raw);
            }
        }
    }
}
