//! Quotation marks in text: whether what comes next stands between two of them.
//!
//! Of text nobody knows the grammar. What is between two marks of a line may be a string of JSON, of a program or of a
//! query, which a value with a mark of its own would end. A mark that is escaped ends nothing; where none follows,
//! the line does. Apostrophes within and behind words are none.

use memchr::{memchr2, memchr3, memrchr};

/// Follows one text while it streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quoted {
    /// The mark that is open.
    open: Option<u8>,
    /// Behind a backslash between marks.
    escaped: bool,
    /// Behind a letter or a digit.
    in_word: bool,
}

impl Quoted {
    /// Between none.
    pub(super) const CLOSED: Self = Self {
        open: None,
        escaped: false,
        in_word: false,
    };

    /// Whether what comes next stands between marks.
    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes the next octets.
    pub(super) fn read(&mut self, octets: &[u8]) {
        let mut rest = octets;
        // All that is open ends with its line.
        if let Some(at) = memrchr(b'\n', rest) {
            *self = Self::CLOSED;
            rest = rest.get(at + 1..).unwrap_or_default();
        }
        while !rest.is_empty() {
            let next = match self.open {
                _ if self.escaped => Some(0),
                Some(mark) => memchr2(mark, b'\\', rest),
                None => memchr2(b'"', b'\'', rest),
            };
            let Some(at) = next else {
                self.in_word = rest.last().is_some_and(u8::is_ascii_alphanumeric);
                return;
            };
            if let Some(before) = at.checked_sub(1).and_then(|before| rest.get(before)) {
                self.in_word = before.is_ascii_alphanumeric();
            }
            let octet = rest.get(at).copied().unwrap_or_default();
            self.mark(octet);
            self.in_word = octet.is_ascii_alphanumeric();
            rest = rest.get(at + 1..).unwrap_or_default();
        }
    }

    fn mark(&mut self, octet: u8) {
        match (self.open, octet) {
            _ if self.escaped => self.escaped = false,
            (Some(_), b'\\') => self.escaped = true,
            (Some(mark), _) if mark == octet => self.open = None,
            (None, b'\'') if self.in_word => {}
            (None, mark @ (b'"' | b'\'')) => self.open = Some(mark),
            _ => {}
        }
    }
}

/// Whether a value between marks could end what it stands in, or be something else there.
pub(super) fn needs_care(value: &[u8]) -> bool {
    memchr3(b'"', b'\'', b'\\', value).is_some() || value.iter().any(u8::is_ascii_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_marks_is_told_from_what_does_not() {
        for (text, open) in [
            ("password=<", false),
            ("say \"hi\" <", false),
            ("{\"k\": \"<\"}", true),
            ("{\"k\": \"v\", \"l\": <", false),
            ("{\"k\": \"say \\\"<", true),
            ("{\"k\": \"say \\\"hi\\\" <", true),
            ("{\"k\": \"a\\\\\", <", false),
            ("data: {\\\"k\\\": \\\"<", true),
            ("curl -d '{\"k\": \"v\"}' <", false),
            ("curl -d '{\"k\": \"<", true),
            ("VALUES ('<", true),
            ("it's <", false),
            ("don't say 'it' <", false),
            ("5\" disk <", true),
            ("5\" disk\n<", false),
            ("5\" disk\nsay \"<", true),
            ("a\n\"b\" 'c\" d' <", false),
        ] {
            let (before, _) = text.split_once('<').unwrap();
            for size in [1, 2, 3, 1000] {
                let mut quoted = Quoted::CLOSED;
                for piece in before.as_bytes().chunks(size) {
                    quoted.read(piece);
                }
                assert_eq!(quoted.is_open(), open, "{text} by {size}");
            }
        }
    }
}
