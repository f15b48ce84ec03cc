//! JSON within a string of JSON, or within a field of a form: in which strings a sentinel stands.
//!
//! A value with a quotation mark, a backslash or a line end is written so that it ends none of them. Text in a string that
//! is no JSON has marks that mean nothing; where nobody can tell the two apart, such a value is not placed.

use memchr::{memchr, memchr_iter, memrchr};
use zeroize::Zeroizing;

use super::{media::Beginning, place::Escape, strings, unescape::hex};

/// Follows the strings of a body while it streams.
#[derive(Debug)]
pub(super) struct Nested {
    /// The fields of a form are the outermost strings.
    form: bool,
    /// The strings that are open, outermost first.
    open: Vec<Within>,
    /// Backslashes just before.
    run: usize,
    /// The last octet that was neither blank nor a backslash.
    last: u8,
    /// In a form: in a name, and of a coded octet what came.
    name: bool,
    coded: Coded,
    /// Of `\u` and four digits what came, and in which string that stands for a letter.
    letter: Option<(u8, u32, usize)>,
}

/// One open string.
#[derive(Debug, Clone, Copy)]
struct Within {
    /// How what it holds begins.
    begins: Beginning,
    /// It began where a member of JSON would, or is all that the string around it begins with.
    member: bool,
    /// Marks or backslashes stand in it as `\u0022` and `\u005c`: which strings they end nobody follows.
    coded: bool,
}

#[derive(Debug, Clone, Copy)]
enum Coded {
    No,
    Percent,
    High(u8),
}

impl Within {
    const FIELD: Self = Self {
        begins: Beginning::Blank,
        member: false,
        coded: false,
    };
}

impl Nested {
    /// For JSON.
    pub(super) const fn of_json() -> Self {
        Self {
            form: false,
            open: Vec::new(),
            run: 0,
            last: 0,
            name: false,
            coded: Coded::No,
            letter: None,
        }
    }

    /// For a form.
    pub(super) fn of_form() -> Self {
        Self {
            form: true,
            open: vec![Within::FIELD],
            name: true,
            ..Self::of_json()
        }
    }

    /// Takes the next octets.
    pub(super) fn read(&mut self, octets: &[u8]) {
        let skipped = match self.form {
            true => self.skip_fields(octets),
            false => self.skip_strings(octets),
        };
        let mut rest = octets.get(skipped..).unwrap_or_default();
        while let Some((octet, after)) = rest.split_first() {
            let plain = match (self.is_plain(), self.form) {
                (false, _) => 0,
                (true, true) => self.plain_in_form(rest),
                (true, false) => self.plain_in_json(rest),
            };
            if plain > 0 {
                rest = rest.get(plain..).unwrap_or_default();
                continue;
            }
            match self.form {
                true => self.written(*octet),
                false => self.octet(*octet),
            }
            rest = after;
        }
    }

    /// Takes all fields of a form that are over: nothing is left of them. Gives how many octets that was.
    fn skip_fields(&mut self, octets: &[u8]) -> usize {
        match memrchr(b'&', octets) {
            Some(at) => {
                self.field(true);
                at + 1
            }
            None => 0,
        }
    }

    /// Takes all up to where the last of the outermost strings begins, or ends: what stands in those that are over
    /// changes nothing. Gives how many octets that was.
    fn skip_strings(&mut self, octets: &[u8]) -> usize {
        let Some(marks) = strings::marks(octets, self.run % 2 == 1) else {
            return 0;
        };
        let closes = self.open.is_empty() == marks.count.is_multiple_of(2);
        let before = octets.get(..marks.last).unwrap_or_default();
        self.last = self.last_behind(before);
        (self.run, self.letter) = (0, None);
        self.open.clear();
        if closes {
            self.last = b'"';
        } else {
            self.mark();
        }
        marks.last + 1
    }

    /// The last octet that is neither blank nor a backslash, once `text` was read.
    fn last_behind(&self, text: &[u8]) -> u8 {
        let mut rest = text;
        while let Some((octet, before)) = rest.split_last() {
            rest = before;
            let blank = octet.is_ascii_whitespace() || *octet == b'\\';
            // A blank that is written in letters.
            let written = matches!(octet, b'n' | b'r' | b't') && {
                let run = before.iter().rev().take_while(|octet| **octet == b'\\');
                let run = run.count();
                let all = run == before.len();
                (run + if all { self.run } else { 0 }) % 2 == 1
            };
            if !blank && !written {
                return *octet;
            }
        }
        self.last
    }

    /// Whether what comes next stands behind no escape, and in no string that just began.
    fn is_plain(&self) -> bool {
        let within = self.open.last().map(|within| within.begins);
        self.run == 0
            && self.letter.is_none()
            && matches!(self.coded, Coded::No)
            && matches!(within, None | Some(Beginning::Json | Beginning::Other))
    }

    /// Takes what comes before the next backslash at once, up to where the last string in it begins; gives how much
    /// that was. Without a backslash every mark is one of the outermost strings.
    fn plain_in_json(&mut self, rest: &[u8]) -> usize {
        let length = memchr(b'\\', rest).unwrap_or(rest.len());
        let text = rest.get(..length).unwrap_or_default();
        let marks = memchr_iter(b'"', text).count();
        if marks == 0 {
            self.seen(text);
            return length;
        }
        let closes = self.open.is_empty() == marks.is_multiple_of(2);
        self.open.clear();
        if closes {
            self.seen(text);
            return length;
        }
        let last = memrchr(b'"', text).unwrap_or_default();
        self.seen(text.get(..last).unwrap_or_default());
        self.mark();
        last + 1
    }

    /// How many octets change nothing but what was seen last: letters, and escapes that are no mark.
    fn plain_in_form(&mut self, rest: &[u8]) -> usize {
        let (mut at, mut seen) = (0, None);
        while let Some(octet) = rest.get(at) {
            match octet {
                b'&' | b'"' | b'\\' => break,
                b'=' if self.name => break,
                b'+' => {}
                b'%' => match rest.get(at + 1..at + 3) {
                    Some([high, low]) => match hex(*high).zip(hex(*low)) {
                        Some((high, low)) => {
                            let octet = high << 4 | low;
                            if matches!(octet, b'"' | b'\\') {
                                break;
                            }
                            seen = Some(octet)
                                .filter(|octet| !octet.is_ascii_whitespace())
                                .or(seen);
                            at += 2;
                        }
                        None => break,
                    },
                    _ => break,
                },
                octet if octet.is_ascii_whitespace() => {}
                octet => seen = Some(*octet),
            }
            at += 1;
        }
        self.last = seen.unwrap_or(self.last);
        at
    }

    /// The last octet that is no blank was seen.
    fn seen(&mut self, text: &[u8]) {
        let last = text.iter().rfind(|octet| !octet.is_ascii_whitespace());
        self.last = last.copied().unwrap_or(self.last);
    }

    /// In how many strings within the outermost one a sentinel would stand here; `None` where that cannot be told.
    pub(super) fn depth(&self) -> Option<usize> {
        if self.open.iter().any(|within| within.coded) {
            return None;
        }
        for (at, pair) in self.open.windows(2).enumerate() {
            let [outer, inner] = pair else { break };
            match outer.begins {
                Beginning::Json => {}
                _ if inner.member => return None,
                // Marks in a text.
                _ => return Some(at),
            }
        }
        Some(self.open.len().saturating_sub(1))
    }

    /// An octet of a form, as it is written.
    fn written(&mut self, octet: u8) {
        let digit = char::from(octet).to_digit(16);
        let digit = digit.and_then(|digit| u8::try_from(digit).ok());
        match (self.coded, octet, digit) {
            (Coded::Percent, _, Some(high)) => self.coded = Coded::High(high),
            (Coded::High(high), _, Some(low)) => {
                self.coded = Coded::No;
                self.octet(high << 4 | low);
            }
            (_, b'%', _) => self.coded = Coded::Percent,
            (_, b'&', _) => self.field(true),
            (_, b'=', _) if self.name => self.field(false),
            (_, b'+', _) => self.plain(b' '),
            _ => self.plain(octet),
        }
    }

    fn field(&mut self, name: bool) {
        self.name = name;
        self.coded = Coded::No;
        self.run = 0;
        self.last = 0;
        self.letter = None;
        self.open = vec![Within::FIELD];
    }

    fn plain(&mut self, octet: u8) {
        self.coded = Coded::No;
        self.octet(octet);
    }

    fn octet(&mut self, octet: u8) {
        self.spelled(octet);
        match octet {
            b'\\' => self.run = self.run.saturating_add(1),
            b'"' => {
                self.mark();
                self.run = 0;
            }
            // A blank that is written in letters, within a string.
            b'n' | b'r' | b't' if self.run % 2 == 1 => self.run = 0,
            _ => {
                self.run = 0;
                self.begin(octet);
                if !octet.is_ascii_whitespace() {
                    self.last = octet;
                }
            }
        }
    }

    /// A letter that is written by its number.
    fn spelled(&mut self, octet: u8) {
        let digit = char::from(octet).to_digit(16);
        self.letter = match (self.letter, digit) {
            (None, _) if octet == b'u' && self.run % 2 == 1 => {
                Some((0, 0, self.level().saturating_sub(1)))
            }
            (Some((3, high, level)), Some(digit)) => {
                let is_mark = matches!(high << 4 | digit, 0x22 | 0x5c);
                if let Some(within) = self.open.get_mut(level).filter(|_| is_mark) {
                    within.coded = true;
                }
                None
            }
            (Some((came, high, level)), Some(digit)) => Some((came + 1, high << 4 | digit, level)),
            _ => None,
        };
    }

    /// The string that is innermost goes on with this.
    fn begin(&mut self, octet: u8) {
        if let Some(within) = self.open.last_mut() {
            within.begins.read(&[octet]);
        }
    }

    /// How deep a string is whose quotation mark stands behind so many backslashes.
    fn level(&self) -> usize {
        let mut run = self.run;
        let mut level = usize::from(self.form);
        while run % 2 == 1 {
            run /= 2;
            level += 1;
        }
        level
    }

    /// A quotation mark: by the backslashes before it that of a string so deep.
    fn mark(&mut self) {
        let level = self.level();
        if level < self.open.len() {
            self.open.truncate(level);
        } else if level == self.open.len() && level < DEEPEST {
            let around = self.open.last().map(|within| within.begins);
            let member =
                [b':', b',', b'[', b'{'].contains(&self.last) || around == Some(Beginning::Blank);
            self.begin(b'"');
            self.open.push(Within {
                member,
                ..Within::FIELD
            });
        }
        self.last = b'"';
    }
}

/// Whether a value means something else in a string of JSON than what it is.
pub(super) fn needs_care(value: &[u8]) -> bool {
    let special = |octet: &u8| matches!(octet, b'"' | b'\\' | 0..=0x1f | 0x7f);
    value.iter().any(special)
}

/// Appends `value` as it is written in so many strings of JSON within what `escape` is for.
pub(super) fn write(escape: Escape, depth: usize, value: &[u8], out: &mut Vec<u8>) {
    if depth == 0 {
        return escape.write(value, out);
    }
    let mut text = Zeroizing::new(value.to_vec());
    for _ in 0..depth {
        let mut within = Zeroizing::new(Vec::with_capacity(text.len() * LONGEST));
        Escape::Json.write(&text, &mut within);
        text = within;
    }
    escape.write(&text, out);
}

/// Each level doubles the backslashes: deeper ones nobody writes, and none is followed there.
const DEEPEST: usize = 8;
/// Octets that one octet becomes in a string of JSON at most.
const LONGEST: usize = 6;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_skipped_leaves_what_reading_leaves(
            form in any::<bool>(),
            pieces in prop::collection::vec("[\"\\\\{}\\[\\]:, \nnu025ca%&=+x]{0,40}|[\"\\\\:, nx]{0,200}", 0..5),
        ) {
            let new = || if form { Nested::of_form() } else { Nested::of_json() };
            let (mut skips, mut reads) = (new(), new());
            for piece in pieces {
                skips.read(piece.as_bytes());
                for octet in piece.bytes() {
                    match form {
                        true => reads.written(octet),
                        false => reads.octet(octet),
                    }
                }
                prop_assert_eq!(format!("{skips:?}"), format!("{reads:?}"));
            }
        }
    }

    /// How deep `<` stands, read in pieces of `size`.
    fn depth(escape: Escape, text: &str, size: usize) -> Option<usize> {
        let (before, _) = text.split_once('<').unwrap();
        let mut nested = match escape {
            Escape::Percent => Nested::of_form(),
            _ => Nested::of_json(),
        };
        for piece in before.as_bytes().chunks(size) {
            nested.read(piece);
        }
        nested.depth()
    }

    #[test]
    fn strings_within_strings_are_told_from_text_with_marks() {
        for (text, expected) in [
            (r#"{"k":"<"}"#, Some(0)),
            (r#"{"k":"say \"hi\" <"}"#, Some(0)),
            (r#"{"k":"say \"<\""}"#, Some(0)),
            (r#"{"k":"a\\","l":"<"}"#, Some(0)),
            (r#"{"k":"{\"l\":\"<\"}"}"#, Some(1)),
            (r#"{"k":"{\"l\":\"v\",\"m\":\"Bearer <\"}"}"#, Some(1)),
            (r#"{"k":"{\n  \"l\": \"<\"}"}"#, Some(1)),
            (r#"{"k":"[{\"l\":\"<\"}]"}"#, Some(1)),
            (r#"{"k":"{\"l\":\"say \\\"hi\\\" <\"}"}"#, Some(1)),
            (r#"{"k":"{\"l\":\"a\\\\\",\"m\":\"<\"}"}"#, Some(1)),
            (r#"{"k":"{\"l\":\"{\\\"m\\\":\\\"<\\\"}\"}"}"#, Some(2)),
            (r#"{"k":"{\"l\":1}","m":"<"}"#, Some(0)),
            // What stands in a text may be JSON, or look like it.
            (r#"{"k":"data: {\"l\":\"<\"}"}"#, None),
            (r#"{"k":"curl -d '{\"l\": \"<\"}'"}"#, None),
            (r#"{"k":"data: {\"l\":\"v\"} <"}"#, Some(0)),
            // Nor does anybody follow marks that are written by number, or know what is all of a string.
            (r#"{"k":"{\u0022l\u0022:\u0022<\u0022}"}"#, None),
            (r#"{"k":"{\"l\":\"a\u005c\",\"m\":\"<\"}"}"#, None),
            (r#"{"k":"\u0022 and \u00e9","m":"\u00e9 <"}"#, Some(0)),
            (r#"{"k":"\"<\""}"#, None),
        ] {
            for size in [1, 2, 1000] {
                assert_eq!(
                    depth(Escape::Json, text, size),
                    expected,
                    "{text} by {size}"
                );
            }
        }
        for (text, expected) in [
            ("k=<", Some(0)),
            ("k=say \"<", Some(0)),
            ("payload={\"k\":\"<\"}", Some(1)),
            ("a=b&payload=%7B%22k%22%3A+%22<%22%7D", Some(1)),
            ("payload=%7b%22k%22%3a%22v%22%7d&l=<", Some(0)),
            ("payload=%7B%22k%22%3A%22a%5C%22%2C<", Some(1)),
            (
                "payload=%7B%22k%22%3A%22%7B%5C%22l%5C%22%3A%5C%22<",
                Some(2),
            ),
            ("q=not+json:+%7B%22k%22%3A%22<", None),
            ("q=5%22+disk+<", Some(0)),
        ] {
            for size in [1, 2, 1000] {
                let found = depth(Escape::Percent, text, size);
                assert_eq!(found, expected, "{text} by {size}");
            }
        }
    }
}
