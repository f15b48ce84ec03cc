//! Pieces in the parts of a multipart body (RFC 2046 §5.1): what each holds, without its header section.

use memchr::memmem::Finder;

use super::{Row, end};
use crate::credential::{
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
                    let Some(at) = self.delimiter.find(rest) else {
                        return done;
                    };
                    let (content, _) = rest.split_at(at);
                    self.contents.add(content, end);
                    done += at + self.delimiter.needle().len();
                    self.within = Within::Head;
                }
            }
        }
    }
}

/// Longer than anybody's.
const LONGEST_HEAD: usize = 16 * 1024;
