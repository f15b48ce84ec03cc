//! Whether a line break lies within a Base64 text or ends it.
//!
//! A text in lines (PEM, RFC 7468; MIME, RFC 2045) is full in each line but its last; whatever else stands on a line
//! of its own, behind a name or in a list, ends with it. Told from what went before alone, so that it does not hang on
//! where a body was cut.

use crate::credential::spelling::sextet;

/// Where in its line, and in what lines, a Base64 text is.
#[derive(Debug, Clone, Default)]
pub(super) struct Wrap {
    /// Characters since the line began; `None` where other things stand in it.
    column: Option<usize>,
    /// Characters of a full line, as far as one was seen.
    width: Option<usize>,
    /// A line break was within it already.
    broken: bool,
    /// A line break, as it is written, that nothing followed yet.
    pub(super) waiting: Vec<u8>,
}

impl Wrap {
    /// What stands before a text tells: `behind` and then `raw` end where it begins.
    pub(super) fn after(behind: &[u8], raw: &[u8]) -> Self {
        let mut back = Back {
            octets: raw.iter().rev().chain(behind.iter().rev()),
            next: None,
        };
        let Some(column) = back.line() else {
            return Self::default();
        };
        // Of the line before it only that it is as full as others is of interest.
        let mut before = back.is_broken().then(|| back.line()).flatten();
        if before == Some(0) && back.next == Some(b'r') {
            // Both octets of a line break, as JSON writes them.
            before = back.is_broken().then(|| back.line()).flatten();
        }
        let width = before.filter(|width| *width > 0);
        Self {
            column: Some(column),
            width,
            broken: width.is_some(),
            waiting: Vec::new(),
        }
    }

    /// A character of it went by.
    pub(super) fn letter(&mut self) {
        if let Some(column) = &mut self.column {
            *column += 1;
        }
    }

    /// A piece of it went by, as it is written; line breaks in it are within the text.
    pub(super) fn passed(&mut self, spelled: &[u8]) {
        let mut rest = spelled;
        while let Some((octet, after)) = rest.split_first() {
            let escaped = *octet == b'\\' && matches!(after.first(), Some(b'n' | b'r'));
            if matches!(octet, b'\r' | b'\n') || escaped {
                if let Some(column) = self.column.filter(|column| *column > 0) {
                    self.width = Some(column);
                }
                (self.column, self.broken) = (Some(0), true);
            } else {
                self.letter();
            }
            rest = after.get(usize::from(escaped)..).unwrap_or_default();
        }
    }

    /// Whether a line break, written so, is within the text, as it is where that has to go on (`surely`); it waits
    /// then for what follows.
    pub(super) fn goes_on_over(&mut self, octet: u8, spelled: &[u8], surely: bool) -> bool {
        let in_break = self.broken && self.column == Some(0);
        let second_half =
            in_break && octet == b'\n' && matches!(*self.waiting, [b'\r'] | [.., b'r']);
        // One line break: who floods a text with empty lines ends it.
        if second_half || surely && !in_break {
            (self.column, self.broken) = (Some(0), true);
            self.waiting.extend_from_slice(spelled);
            return true;
        }
        let Some(column) = self.column.filter(|column| *column > 0) else {
            return false;
        };
        let full = match self.width {
            Some(width) => column == width,
            None => self.broken || FULL.contains(&column),
        };
        if !full {
            return false;
        }
        *self = Self {
            column: Some(0),
            width: Some(column),
            broken: true,
            waiting: spelled.to_vec(),
        };
        true
    }
}

/// Reads lines from their ends.
struct Back<I> {
    octets: I,
    next: Option<u8>,
}

impl<'a, I: Iterator<Item = &'a u8>> Back<I> {
    /// The characters of a line that holds nothing but Base64, as far as that is looked for; stands then on what is
    /// before them.
    fn line(&mut self) -> Option<usize> {
        let (mut letters, mut last) = (0, 0);
        let mut next = self.next.take();
        loop {
            match next.or_else(|| self.octets.next().copied()) {
                Some(octet) if sextet(octet).is_some() => {
                    (letters, last) = (letters + 1, octet);
                    if letters > LONGEST {
                        return None;
                    }
                }
                // A line break as JSON writes it, whose letter was taken for one of the text.
                Some(b'\\') if matches!(last, b'n' | b'r') && letters > 0 => {
                    self.next = Some(last);
                    return Some(letters - 1);
                }
                other => {
                    self.next = other;
                    let begins = matches!(other, None | Some(b'\n' | b'\r' | b'"' | b'\'' | b'>'));
                    return (begins || self.is_indented()).then_some(letters);
                }
            }
            next = None;
        }
    }

    /// Whether there is nothing but blanks before.
    fn is_indented(&mut self) -> bool {
        let mut seen = 0;
        while matches!(self.next, Some(b' ' | b'\t')) && seen < LONGEST {
            self.next = self.octets.next().copied();
            seen += 1;
        }
        seen > 0 && matches!(self.next, None | Some(b'\n' | b'\r'))
    }

    /// Whether it stands on a line break, which is passed then.
    fn is_broken(&mut self) -> bool {
        match self.next.take() {
            Some(b'\n') => {
                self.next = self.octets.next().copied();
                if self.next == Some(b'\r') {
                    self.next = None;
                }
                true
            }
            // As JSON writes it: the backslash went by.
            Some(b'n') => {
                self.next = self.octets.next().copied();
                true
            }
            Some(b'\r' | b'r') => true,
            _ => false,
        }
    }
}

/// Lines as OpenSSL and PEM (64), MIME (76), Ruby (60), OpenSSH (70) and OpenPGP's older ones (72) fill them.
const FULL: [usize; 5] = [60, 64, 70, 72, 76];
/// Longer lines are not those of a text in lines.
const LONGEST: usize = 160;
/// How much of what went is looked at: two lines and what stands between them.
pub(super) const BEHIND: usize = 2 * LONGEST + 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a line break behind `before` and `text` is within the text.
    fn goes_on(before: &str, text: &str) -> bool {
        let mut wrap = Wrap::after(&[], before.as_bytes());
        wrap.passed(text.as_bytes());
        wrap.goes_on_over(b'\n', b"\n", false)
    }

    #[test]
    fn full_lines_go_on_and_others_end() {
        let line = |letters: usize| "A".repeat(letters);
        assert!(goes_on("", &line(64)));
        assert!(goes_on("-----BEGIN X-----\n", &line(64)));
        assert!(goes_on("{\"key\": \"", &line(76)));
        assert!(goes_on("data: |\n  ", &line(76)));
        assert!(!goes_on("", &line(40)));
        assert!(!goes_on("_auth=", &line(64)));
        assert!(!goes_on("authorization: Basic ", &line(64)));
        assert!(!goes_on("", &line(63)));
    }

    #[test]
    fn the_line_before_tells_how_long_a_full_one_is() {
        let line = "A".repeat(20);
        for between in ["\n", "\r\n", "\\n", "\\r\\n"] {
            assert!(goes_on(&format!("\"{line}{between}"), &line), "{between:?}");
            assert!(!goes_on(&format!("\"{line}{between}"), &"A".repeat(16)));
        }
        assert!(!goes_on(&format!("name={line}\n"), &line));
        assert!(goes_on("", &format!("{line}\n{line}")));
        assert!(goes_on("x: ", &format!("{line}\n{line}\n{line}")));
    }

    #[test]
    fn one_line_break_waits_however_surely_a_text_goes_on() {
        for (octet, spelled) in [(b'\n', "\n"), (b'\r', "\r"), (b'\n', "\\n"), (b'\r', "\\r")] {
            let mut wrap = Wrap::after(&[], b"x: ");
            wrap.passed(b"AAAA");
            let mut on = || wrap.goes_on_over(octet, spelled.as_bytes(), true);
            assert!(on(), "{spelled:?}");
            assert!(!on(), "{spelled:?}");
            assert_eq!(wrap.waiting, spelled.as_bytes());
        }
    }

    #[test]
    fn an_empty_line_ends_a_text() {
        let mut wrap = Wrap::after(&[], b"");
        wrap.passed("A".repeat(64).as_bytes());
        assert!(wrap.goes_on_over(b'\r', b"\r", false));
        assert!(wrap.goes_on_over(b'\n', b"\n", false));
        assert_eq!(wrap.waiting, b"\r\n");
        assert!(!wrap.goes_on_over(b'\n', b"\n", false));
    }
}
