//! Pieces in the parts of a multipart body (RFC 2046 §5.1): what each holds, without its header section.

use memchr::memmem::Finder;

use super::{Row, end};
use crate::credential::{
    letters::{Classes, Reading},
    parts::{delimiter, head},
    watch::{Found, Watch},
};

/// What was read of a body, as far as a find may still come of it.
#[derive(Debug)]
pub(super) struct Multipart {
    contents: Row,
    /// A line break and what begins the line between two parts.
    delimiter: Finder<'static>,
    /// What is not done with: of a header section, or of a content that goes on.
    open: Vec<u8>,
    within: Within,
    /// The content before was short and held no escape: so may be the next.
    brief: bool,
}

/// Where in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Head,
    Content,
}

impl Multipart {
    pub(super) fn new(boundary: &[u8]) -> Self {
        Self {
            contents: Row::default(),
            delimiter: delimiter(boundary),
            // The first line is one like those after a line break.
            open: b"\n".to_vec(),
            within: Within::Content,
            brief: true,
        }
    }

    pub(super) fn look<'a>(
        &mut self,
        octets: &[u8],
        watch: &'a Watch,
        tell: &mut impl FnMut(&'a Found),
    ) {
        let end = end(watch).max(self.delimiter.needle().len() + 1);
        let mut open = std::mem::take(&mut self.open);
        open.extend_from_slice(octets);
        let done = self.take(&open, end);
        drop(open.drain(..done));
        if done > 0 {
            self.contents.settle();
        }
        if self.within == Within::Head && open.len() > LONGEST_HEAD {
            // No header section: it counts as a content, whatever comes.
            self.within = Within::Content;
        }
        let mut pending: &[u8] = &[];
        if self.within == Within::Content {
            self.contents.shorten(&mut open, end);
            pending = &open;
        }
        self.contents.tell((&[], pending, end), watch, tell);
        self.open = open;
    }

    pub(super) fn renew(&mut self) {
        self.contents.settle();
    }

    #[cfg(test)]
    pub(super) const fn kept(&self) -> usize {
        self.contents.bare.len() + self.open.len()
    }

    /// Takes what is whole; gives how much of it that is.
    fn take(&mut self, octets: &[u8], end: usize) -> usize {
        let mut done = 0;
        loop {
            let rest = octets.get(done..).unwrap_or_default();
            match self.within {
                Within::Head => {
                    let Some(length) = head(rest) else {
                        return done;
                    };
                    // The line break before may begin the next line between parts.
                    done += length - 1;
                    self.within = Within::Content;
                }
                Within::Content => {
                    let over = self.briefly(rest, end);
                    done += over;
                    let rest = rest.get(over..).unwrap_or_default();
                    let Some(length) = self.content(rest, end) else {
                        return done;
                    };
                    done += length + self.delimiter.needle().len();
                    self.within = Within::Head;
                }
            }
        }
    }

    /// Takes contents that are short with the header sections behind them; gives how much of `octets` that is.
    fn briefly(&mut self, octets: &[u8], end: usize) -> usize {
        if !self.brief {
            return 0;
        }
        self.contents.settle();
        let (letters, delimiter) = (&mut self.contents.bare, self.delimiter.needle());
        letters.add_contents(octets, delimiter, BRIEF.min(2 * end))
    }

    /// Takes a content that `octets` begin with, if it is whole; gives how long it is.
    fn content(&mut self, octets: &[u8], end: usize) -> Option<usize> {
        if self.brief {
            if let Some(length) = self.in_one_go(octets, end) {
                return Some(length);
            }
            self.brief = false;
        }
        let at = self.delimiter.find(octets)?;
        let (content, _) = octets.split_at(at);
        self.contents.add(content, end);
        self.brief = content.len() <= BRIEF;
        Some(at)
    }

    /// The same in one go with looking for its end, if that is near and no escape comes before it that is not
    /// undone at a glance.
    fn in_one_go(&mut self, octets: &[u8], end: usize) -> Option<usize> {
        self.contents.settle();
        let letters = &mut self.contents.bare;
        let before = letters.len();
        let delimiter = self.delimiter.needle();
        let near = octets.get(..BRIEF.min(2 * end) + delimiter.len());
        let near = near.unwrap_or(octets);
        let mut rest = letters.add::<Briefly>(near);
        while rest.first() == Some(&b'\n') {
            if rest.starts_with(delimiter) {
                return Some(near.len() - rest.len());
            }
            // A line of the content.
            rest = letters.add::<Briefly>(rest.get(1..).unwrap_or_default());
        }
        letters.truncate(before);
        None
    }
}

/// Stops where an escape may begin, and where a line between parts may.
struct Briefly;

impl Reading for Briefly {
    const CLASSES: Classes = Classes::stopping(b"%\\&").undoing().up_to_lines();
}

/// A content that is longer is rare, and its end is found sooner than its letters are.
const BRIEF: usize = 1024;
/// Longer than anybody's.
const LONGEST_HEAD: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The letters of all contents that are whole, each looked for and then read.
    fn in_two_goes(octets: &[u8], end: usize) -> Vec<u8> {
        let (mut contents, delimiter) = (Row::default(), delimiter(b"b1"));
        let mut rest = octets;
        while let Some(at) = delimiter.find(rest) {
            contents.add(&rest[..at], end);
            rest = &rest[at + delimiter.needle().len()..];
            let Some(length) = head(rest) else { break };
            rest = &rest[length - 1..];
        }
        contents.bare.as_slice().to_vec()
    }

    fn content() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            4 => "[a-zA-Z0-9 .-]{0,90}",
            1 => "[a-z]{0,90}".prop_map(|text| text.repeat(12)),
            3 => prop::sample::select(vec![
                "\r\n", "\n", "\n-", "\n--", "\n--b", "\r\n--b0", "--b1", "%41", "%4", "%", "&amp;", "&", "\\u0041",
            ]).prop_map(str::to_owned),
        ];
        prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn what_is_read_in_one_go_with_its_end_is_what_is_looked_for_and_read(
            contents in prop::collection::vec(content(), 0..8), end in 8_usize..700, cut in any::<prop::sample::Index>(),
        ) {
            let mut body = String::from("\nbefore");
            for (number, content) in contents.iter().enumerate() {
                let line = if number % 2 == 0 { "\r\n" } else { "\n" };
                body += &format!("{line}--b1{line}A: b{line}{line}{content}");
            }
            body += "\r\n--b1--\r\n";
            let octets = &body.as_bytes()[..cut.index(body.len() + 1)];
            let mut multipart = Multipart::new(b"b1");
            let done = multipart.take(octets, end);
            prop_assert!(done <= octets.len());
            let expected = in_two_goes(octets, end);
            prop_assert_eq!(multipart.contents.bare.as_slice(), expected);
        }
    }
}
