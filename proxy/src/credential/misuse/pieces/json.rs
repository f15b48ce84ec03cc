//! Pieces in JSON (RFC 8259): strings and numbers, of members and elements, in the order in which they
//! stand, and the names of members in theirs. Anything that is called JSON is read like this, be it sound
//! or not: nothing depends on where a value stands but whether it is a name.

use memchr::memchr2;

use super::{Row, end, leave_ends};
use crate::credential::{
    letters::{Classes, Reading},
    watch::{Found, Watch},
};

/// What was read of a text, as far as a find may still come of it.
#[derive(Debug, Default)]
pub(super) struct Json {
    values: Row,
    names: Row,
    /// Of a string that is not over, or of which it is not known whether it is a name.
    text: Vec<u8>,
    /// What that begins with, where it is long.
    head: Vec<u8>,
    within: Within,
}

/// Where in the text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Within {
    /// Outside of strings.
    #[default]
    Between,
    /// In a string; behind a backslash that makes the next octet something else.
    String { escaped: bool },
    /// Behind a string.
    Behind,
}

impl Json {
    pub(super) fn look<'a>(
        &mut self,
        octets: &[u8],
        watch: &'a Watch,
        tell: &mut impl FnMut(&'a Found),
    ) {
        let end = end(watch);
        let mut rest = octets;
        while !rest.is_empty() {
            rest = match self.within {
                Within::Between => self.between(rest),
                Within::String { escaped } => self.string(rest, escaped, end),
                Within::Behind => self.behind(rest, end),
            };
        }
        if leave_ends(&mut self.head, &mut self.text, end) {
            self.renew();
        }
        // It may be either, and be whole already.
        let open = (&*self.head, &*self.text, end);
        self.values.tell(open, watch, tell);
        self.names.tell(open, watch, tell);
    }

    /// Has what is not over read anew.
    pub(super) fn renew(&mut self) {
        self.values.settle();
        self.names.settle();
    }

    #[cfg(test)]
    pub(super) const fn kept(&self) -> usize {
        self.values.bare.len() + self.names.bare.len() + self.text.len() + self.head.len()
    }

    /// Numbers and words are values.
    fn between<'a>(&mut self, octets: &'a [u8]) -> &'a [u8] {
        self.renew();
        for (at, octet) in octets.iter().enumerate() {
            if *octet == b'"' {
                self.within = Within::String { escaped: false };
                return octets.get(at + 1..).unwrap_or_default();
            }
            if octet.is_ascii_alphanumeric() {
                self.values.bare.push(*octet);
            }
        }
        &[]
    }

    fn string<'a>(&mut self, octets: &'a [u8], escaped: bool, end: usize) -> &'a [u8] {
        let (mut at, mut escaped) = (0, escaped);
        if self.text.is_empty() && !escaped {
            match self.plain(octets, end) {
                Ok(behind) => return behind,
                Err(plain) => at = plain,
            }
        }
        loop {
            if escaped {
                at += 1;
            }
            let rest = octets.get(at..).unwrap_or_default();
            let Some(found) = memchr2(b'"', b'\\', rest) else {
                // What the backslash is before comes next.
                escaped &= octets.len() < at;
                self.within = Within::String { escaped };
                self.text.extend_from_slice(octets);
                return &[];
            };
            at += found;
            let (text, behind) = octets.split_at(at);
            if behind.first() == Some(&b'\\') {
                (escaped, at) = (true, at + 1);
                continue;
            }
            let behind = behind.get(1..).unwrap_or_default();
            let next = behind.iter().find(|octet| !octet.is_ascii_whitespace());
            self.within = Within::Between;
            match next {
                Some(next) if self.text.is_empty() => self.row(*next).add(text, end),
                _ => {
                    self.text.extend_from_slice(text);
                    self.within = Within::Behind;
                }
            }
            return behind;
        }
    }

    /// Takes a string, all of it, in which there is no escape: what is behind it is left. Otherwise says how
    /// far there is neither an escape nor an end.
    #[inline]
    fn plain<'a>(&mut self, octets: &'a [u8], end: usize) -> Result<&'a [u8], usize> {
        self.renew();
        let letters = &mut self.values.bare;
        let before = letters.len();
        // More than this is not taken as a whole.
        let near = octets.get(..2 * end + 1).unwrap_or(octets);
        let rest = letters.add::<Plain>(near);
        let length = near.len() - rest.len();
        let behind = octets.get(length + 1..).unwrap_or_default();
        let next = behind.iter().find(|octet| !octet.is_ascii_whitespace());
        let (Some(b'"'), Some(next)) = (rest.first(), next) else {
            letters.truncate(before);
            return Err(length);
        };
        if *next == b':' {
            letters.move_to(before, &mut self.names.bare);
        }
        self.within = Within::Between;
        Ok(behind)
    }

    /// What follows a string says what it is.
    fn behind<'a>(&mut self, octets: &'a [u8], end: usize) -> &'a [u8] {
        let Some(at) = octets.iter().position(|octet| !octet.is_ascii_whitespace()) else {
            return &[];
        };
        let rest = octets.get(at..).unwrap_or_default();
        let text = std::mem::take(&mut self.text);
        let head = std::mem::take(&mut self.head);
        if let Some(next) = rest.first() {
            self.renew();
            self.row(*next).add_ends(&head, &text, end);
        }
        self.within = Within::Between;
        rest
    }

    /// Where a string belongs with this behind it.
    const fn row(&mut self, next: u8) -> &mut Row {
        match next {
            b':' => &mut self.names,
            _ => &mut self.values,
        }
    }
}

/// Stops where a string ends or an escape may begin.
struct Plain;

impl Reading for Plain {
    const CLASSES: Classes = Classes::stopping(b"\"%\\&");
}
