//! What stands at one place of a text: an octet, or an escape that stands for one.
//!
//! Percent-encoding, JSON's and JavaScript's backslashes and HTML's character references, up to three of
//! them put on one another. Every place can also be read as the octet that it is; which reading counts is
//! for the asker to say.

use super::special::is_introducer;
use crate::credential::unescape::surrogates;

/// A text with its escapes undone, each as deep as it goes.
pub(in crate::credential) fn canonical(text: &[u8]) -> Vec<u8> {
    let (mut octets, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len()
        && let Some(unit) = unit(text, at, DEPTH, true)
    {
        octets.extend_from_slice(unit.octets());
        at = unit.end;
    }
    octets
}

/// What stands at one place.
#[derive(Debug, Clone, Copy)]
pub(in crate::credential) struct Unit {
    octets: [u8; 4],
    len: usize,
    /// Where it ends.
    pub(in crate::credential) end: usize,
}

impl Unit {
    pub(super) const fn octet(octet: u8, end: usize) -> Self {
        Self {
            octets: [octet, 0, 0, 0],
            len: 1,
            end,
        }
    }

    /// What it stands for.
    pub(in crate::credential) fn octets(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }

    /// Whether it stands for the end of a line, or a part of one.
    pub(super) const fn is_line_break(&self) -> bool {
        self.len == 1 && matches!(self.octets[0], b'\r' | b'\n')
    }

    /// Text of more than one octet escapes nothing.
    const fn single(&self) -> u8 {
        if self.len == 1 { self.octets[0] } else { 0 }
    }
}

/// The unit at `at` with `depth` layers of escapes undone; `None` when it goes on after the end.
pub(in crate::credential) fn unit(raw: &[u8], at: usize, depth: u8, last: bool) -> Option<Unit> {
    let octet = match raw.get(at) {
        Some(octet) => *octet,
        // Nothing comes any more: an escape that needs more is none.
        None if last => return Some(Unit::octet(0, at)),
        None => return None,
    };
    let plain = Unit::octet(octet, at + 1);
    if depth == 0 || !is_introducer(octet) {
        return Some(plain);
    }
    let next = |at| unit(raw, at, depth - 1, last);
    if octet == b'\\' && matches!(raw.get(at + 1), Some(b'%' | b'&')) {
        // What is behind may be the letter of an escape, written otherwise: `\%75002d`.
        let kind = next(at + 1)?;
        let digits = match kind.single() {
            b'u' => 4,
            b'x' => 2,
            _ => 0,
        };
        if digits > 0
            && let Some((number, end)) = numeral(next, kind.end, digits)?
            && let Some(unit) = standing(number, end, false)
        {
            return Some(unit);
        }
    }
    let first = next(at)?;
    let found = match first.single() {
        b'%' => numeral(next, first.end, 2)?,
        b'\\' => {
            let kind = next(first.end)?;
            match kind.single() {
                b'u' => match numeral(next, kind.end, 4)? {
                    Some((high @ 0xd800..0xdc00, end)) => low_half(next, high, end)?,
                    found => found,
                },
                b'x' => numeral(next, kind.end, 2)?,
                b'n' => Some((u32::from(b'\n'), kind.end)),
                b'r' => Some((u32::from(b'\r'), kind.end)),
                b't' => Some((u32::from(b'\t'), kind.end)),
                itself if BACKSLASHED.contains(&itself) => Some((u32::from(itself), kind.end)),
                _ => None,
            }
        }
        b'&' => reference(next, first.end)?,
        _ => None,
    };
    let octets = first.single() == b'%';
    Some(found.map_or(first, |(number, end)| {
        standing(number, end, octets).unwrap_or(first)
    }))
}

/// The octet or character of this number.
fn standing(number: u32, end: usize, octet: bool) -> Option<Unit> {
    if octet || number < 0x80 {
        return Some(Unit::octet(u8::try_from(number).ok()?, end));
    }
    let mut octets = [0; 4];
    let len = char::from_u32(number)?.encode_utf8(&mut octets).len();
    Some(Unit { octets, len, end })
}

/// A number, if it is one, and where it ends; `None` on the outside when the text ends first.
type Parsed = Option<Option<(u32, usize)>>;

/// Exactly `digits` hexadecimal digits.
fn numeral(next: impl Fn(usize) -> Option<Unit>, mut at: usize, digits: usize) -> Parsed {
    let mut number = 0;
    for _ in 0..digits {
        let unit = next(at)?;
        let Some(digit) = char::from(unit.single()).to_digit(16) else {
            return Some(None);
        };
        number = number * 16 + digit;
        at = unit.end;
    }
    Some(Some((number, at)))
}

/// The character that a high half is of with the low one behind it (RFC 8259 §7), where that is one.
fn low_half(next: impl Fn(usize) -> Option<Unit> + Copy, high: u32, at: usize) -> Parsed {
    let backslash = next(at)?;
    if backslash.single() != b'\\' {
        return Some(None);
    }
    let kind = next(backslash.end)?;
    if kind.single() != b'u' {
        return Some(None);
    }
    let found = numeral(next, kind.end, 4)?;
    let character = found.and_then(|(low, end)| Some((surrogates(high, low)?, end)));
    Some(character.map(|(character, end)| (u32::from(character), end)))
}

/// What follows `&` in a character reference.
fn reference(next: impl Fn(usize) -> Option<Unit>, mut at: usize) -> Parsed {
    let mut name = [0; NAME];
    for length in 0..NAME {
        let unit = next(at)?;
        at = unit.end;
        let octet = unit.single();
        let known = name.get(..length).unwrap_or_default();
        if octet == b';' {
            return Some(referred(known).map(|number| (number, at)));
        }
        let fits = match known {
            [] if octet == b'#' => true,
            [b'#'] => octet.is_ascii_digit() || octet.eq_ignore_ascii_case(&b'x'),
            [b'#', b'x' | b'X', ..] => octet.is_ascii_hexdigit(),
            [b'#', ..] => octet.is_ascii_digit(),
            [..] => NAMES.iter().any(|(whole, _)| {
                whole.starts_with(known) && whole.get(length).is_some_and(|next| *next == octet)
            }),
        };
        if !fits {
            return Some(None);
        }
        if let Some(slot) = name.get_mut(length) {
            *slot = octet;
        }
    }
    Some(None)
}

fn referred(name: &[u8]) -> Option<u32> {
    let digits = |digits: &[u8], radix| {
        let text = std::str::from_utf8(digits).ok()?;
        u32::from_str_radix(text, radix).ok()
    };
    match name {
        [b'#', b'x' | b'X', hex @ ..] => digits(hex, 16),
        [b'#', decimal @ ..] => digits(decimal, 10),
        _ => {
            let (_, octet) = NAMES.iter().find(|(known, _)| *known == name)?;
            Some(u32::from(*octet))
        }
    }
}

/// A reference put into JSON that is put into a query has three.
pub(in crate::credential) const DEPTH: u8 = 3;
/// `#x0000041;` is the longest that is taken for one.
const NAME: usize = 10;
/// What stands for itself behind a backslash: JSON's, JavaScript's, and what shells and patterns add.
const BACKSLASHED: &[u8] = b"/\"'\\%&-_.=+";
/// The references that encoders write.
pub(super) const NAMES: [(&[u8], u8); 12] = [
    (b"amp", b'&'),
    (b"lt", b'<'),
    (b"gt", b'>'),
    (b"quot", b'"'),
    (b"apos", b'\''),
    (b"sol", b'/'),
    (b"plus", b'+'),
    (b"equals", b'='),
    (b"lowbar", b'_'),
    (b"period", b'.'),
    (b"colon", b':'),
    (b"percnt", b'%'),
];
