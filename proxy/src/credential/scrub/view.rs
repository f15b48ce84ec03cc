//! One spelling of a text: escapes undone, line breaks left out, and where each octet came from.
//!
//! Percent-encoding, JSON's and JavaScript's backslashes and HTML's character references are undone, up
//! to three of them put on one another; line breaks go, so that Base64 in lines is one run. It is a view
//! to look at: what is sent is cut from the original by the positions kept here.

use memchr::{memchr2, memchr3};

/// A view; kept between uses, so that its room is.
#[derive(Debug, Default)]
pub(super) struct View {
    octets: Vec<u8>,
    breaks: Vec<Break>,
    /// The original is its own view.
    same: usize,
}

/// From here on the view and the original run in step.
#[derive(Debug, Clone, Copy)]
struct Break {
    view: usize,
    raw: usize,
    /// Octets of the original that the octet at `view` stands for.
    unit: usize,
}

impl View {
    /// Makes the view of `raw`; gives how many octets of it were understood. What is left is the
    /// beginning of an escape, and is never left when it is the `last`.
    pub(super) fn make(&mut self, raw: &[u8], last: bool) -> usize {
        self.octets.clear();
        self.breaks.clear();
        self.same = 0;
        let (mut escape, mut line) = (next_escape(raw, 0), next_line(raw, 0));
        if escape == raw.len() && line == raw.len() {
            self.same = raw.len();
            return raw.len();
        }
        let mut at = 0;
        loop {
            let stop = escape.min(line);
            self.octets
                .extend_from_slice(raw.get(at..stop).unwrap_or_default());
            if stop == raw.len() {
                return stop;
            }
            at = stop;
            if stop == line {
                at += 1;
                line = next_line(raw, at);
                self.mark(at, 1);
                continue;
            }
            let Some(unit) = unit(raw, at, DEPTH, last) else {
                return at;
            };
            self.mark(at, unit.end - at);
            self.push(&unit, at);
            at = unit.end;
            escape = next_escape(raw, at);
            if line < at {
                line = next_line(raw, at);
            }
        }
    }

    /// What is looked at.
    pub(super) fn octets<'a>(&'a self, raw: &'a [u8]) -> &'a [u8] {
        if self.same > 0 { raw } else { &self.octets }
    }

    /// Where the octet at `view` begins in the original.
    pub(super) fn start(&self, view: usize) -> usize {
        match self.before(view) {
            Some(at) if at.view == view => at.raw,
            Some(at) => at.raw + at.unit + (view - at.view - 1),
            None => view,
        }
    }

    /// Where what ends before `view` ends in the original.
    pub(super) fn end(&self, view: usize) -> usize {
        let Some(last) = view.checked_sub(1) else {
            return 0;
        };
        match self.before(last) {
            Some(at) if at.view == last => at.raw + at.unit,
            _ => self.start(last) + 1,
        }
    }

    fn before(&self, view: usize) -> Option<Break> {
        let after = self.breaks.partition_point(|at| at.view <= view);
        self.breaks.get(after.checked_sub(1)?).copied()
    }

    fn mark(&mut self, raw: usize, unit: usize) {
        let view = self.octets.len();
        if let Some(known) = self.breaks.last_mut()
            && known.view == view
        {
            *known = Break { view, raw, unit };
            return;
        }
        self.breaks.push(Break { view, raw, unit });
    }

    /// Appends what an escape stands for; a line break stands for nothing.
    fn push(&mut self, unit: &Unit, at: usize) {
        let octets = unit.octets.get(..unit.len).unwrap_or_default();
        if matches!(octets, [b'\r' | b'\n']) {
            self.mark(unit.end, 1);
            return;
        }
        for (number, octet) in octets.iter().enumerate() {
            if number > 0 {
                // Only the first of several octets stands for the escape.
                self.breaks.push(Break {
                    view: self.octets.len(),
                    raw: unit.end,
                    unit: 0,
                });
            }
            self.octets.push(*octet);
        }
        if octets.len() != unit.end - at {
            self.breaks.push(Break {
                view: self.octets.len(),
                raw: unit.end,
                unit: 1,
            });
        }
    }
}

/// The view of a whole text.
pub(super) fn canonical(text: &[u8]) -> Vec<u8> {
    let mut view = View::default();
    view.make(text, true);
    view.octets(text).to_vec()
}

/// What stands at one place.
#[derive(Debug, Clone, Copy)]
struct Unit {
    octets: [u8; 4],
    len: usize,
    end: usize,
}

impl Unit {
    const fn octet(octet: u8, end: usize) -> Self {
        Self {
            octets: [octet, 0, 0, 0],
            len: 1,
            end,
        }
    }

    /// Text of more than one octet escapes nothing.
    const fn single(&self) -> u8 {
        if self.len == 1 { self.octets[0] } else { 0 }
    }
}

/// The unit at `at` with `depth` layers of escapes undone; `None` when it goes on after the end.
fn unit(raw: &[u8], at: usize, depth: u8, last: bool) -> Option<Unit> {
    let octet = match raw.get(at) {
        Some(octet) => *octet,
        // Nothing comes any more: an escape that needs more is none.
        None if last => return Some(Unit::octet(0, at)),
        None => return None,
    };
    let plain = Unit::octet(octet, at + 1);
    if depth == 0 || !matches!(octet, b'%' | b'\\' | b'&') {
        return Some(plain);
    }
    let first = unit(raw, at, depth - 1, last)?;
    let next = |at| unit(raw, at, depth - 1, last);
    let found = match first.single() {
        b'%' => numeral(next, first.end, 2)?,
        b'\\' => {
            let kind = next(first.end)?;
            match kind.single() {
                b'u' => numeral(next, kind.end, 4)?,
                b'x' => numeral(next, kind.end, 2)?,
                b'n' => Some((u32::from(b'\n'), kind.end)),
                b'r' => Some((u32::from(b'\r'), kind.end)),
                b't' => Some((u32::from(b'\t'), kind.end)),
                itself @ (b'/' | b'"' | b'\'' | b'\\') => Some((u32::from(itself), kind.end)),
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
            [] => octet == b'#' || octet.is_ascii_alphabetic(),
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

fn next_escape(raw: &[u8], from: usize) -> usize {
    let rest = raw.get(from..).unwrap_or_default();
    memchr3(b'%', b'\\', b'&', rest).map_or(raw.len(), |at| from + at)
}

fn next_line(raw: &[u8], from: usize) -> usize {
    let rest = raw.get(from..).unwrap_or_default();
    memchr2(b'\r', b'\n', rest).map_or(raw.len(), |at| from + at)
}

/// A reference put into JSON that is put into a query has three.
const DEPTH: u8 = 3;
/// `#x0000041;` is the longest that is taken for one.
const NAME: usize = 10;
/// The references that encoders write.
const NAMES: [(&[u8], u8); 10] = [
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
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(text: &str) -> String {
        String::from_utf8(canonical(text.as_bytes())).unwrap()
    }

    #[test]
    fn escapes_are_undone_also_on_one_another() {
        assert_eq!(seen("gigph%2dab%2D"), "gigph-ab-");
        assert_eq!(seen("a%252Db%25252Dc"), "a-b-c");
        assert_eq!(seen(r"a\u002db\/c\x2d"), "a-b/c-");
        assert_eq!(seen(r"a\\u002db"), "a-b");
        assert_eq!(seen("a&#45;b&#x2D;c&amp;d&amp;#45;"), "a-b-c&d-");
        assert_eq!(seen("%26%2345%3B"), "-");
        assert_eq!(seen("100% of it & more; \\d"), "100% of it & more; \\d");
    }

    #[test]
    fn line_breaks_are_left_out_however_written() {
        assert_eq!(seen("ab\r\ncd\nef\\ngh%0Aij"), "abcdefghij");
    }

    #[test]
    fn positions_lead_back_to_the_original() {
        let raw = b"ab%2Dcd\r\nef\\u0041g";
        let mut view = View::default();
        assert_eq!(view.make(raw, true), raw.len());
        assert_eq!(view.octets(raw), b"ab-cdefAg");
        let cut = |from: usize, to: usize| &raw[view.start(from)..view.end(to)];
        assert_eq!(cut(2, 3), b"%2D");
        assert_eq!(cut(0, 2), b"ab");
        assert_eq!(cut(3, 5), b"cd");
        assert_eq!(cut(4, 6), b"d\r\ne");
        assert_eq!(cut(5, 8), b"ef\\u0041");
        assert_eq!(cut(8, 9), b"g");
    }

    #[test]
    fn what_may_go_on_is_left() {
        for whole in ["%2D", "\\u002d", "&#45;", "%252D", "&amp;"] {
            for cut in 1..whole.len() {
                let text: String = "ab".chars().chain(whole.chars().take(cut)).collect();
                let mut view = View::default();
                assert_eq!(view.make(text.as_bytes(), false), 2, "{text}");
                assert_eq!(view.make(text.as_bytes(), true), text.len(), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn positions_never_run_backwards(text in r"[a4%\\u0&#x;2dD\n]{0,40}") {
            let mut view = View::default();
            let whole = view.make(text.as_bytes(), true);
            prop_assert_eq!(whole, text.len());
            let octets = view.octets(text.as_bytes()).len();
            let mut at = 0;
            for position in 0..octets {
                prop_assert!(view.start(position) >= at);
                prop_assert!(view.end(position + 1) >= view.start(position));
                at = view.end(position + 1);
            }
            prop_assert!(at <= text.len());
        }
    }
}
