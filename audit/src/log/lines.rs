//! Lines of a record, one after the other, from anything that can be read: the one place that knows how
//! long a line may be and what an unfinished one is.

use std::io::{self, BufRead, Read as _};

use crate::store::jsonl::LONGEST_LINE;

/// Reads lines in order, with bounded memory.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    octets: Vec<u8>,
    number: u64,
}

/// One line as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// With its newline.
    Whole(&'a [u8]),
    /// The last octets, without a newline: still being written, or cut off by a crash.
    Unfinished(&'a [u8]),
    /// Longer than any record; what follows of it is not read.
    TooLong,
}

impl<R: BufRead> Lines<R> {
    /// Begins with the next line of `reader`.
    pub const fn new(reader: R) -> Self {
        Self {
            reader,
            octets: Vec::new(),
            number: 0,
        }
    }

    /// How many lines were read.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The next line; `None` at the end. Behind a line that is too long nothing can be told apart.
    ///
    /// # Errors
    /// When the reader fails.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.octets.clear();
        self.number += 1;
        let mut limited = self.reader.by_ref().take(LONGEST_LINE + 1);
        limited.read_until(b'\n', &mut self.octets)?;
        Ok(match self.octets.last() {
            None => {
                self.number -= 1;
                None
            }
            Some(_) if self.octets.len() as u64 > LONGEST_LINE => Some(Line::TooLong),
            Some(b'\n') => Some(Line::Whole(&self.octets)),
            Some(_) => Some(Line::Unfinished(&self.octets)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_and_bounded() {
        let mut lines = Lines::new(&b"one\n\ntwo"[..]);
        assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"one\n")));
        assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"\n")));
        assert_eq!(lines.next_line().unwrap(), Some(Line::Unfinished(b"two")));
        assert_eq!(lines.next_line().unwrap(), None);
        assert_eq!(lines.number(), 3);
        let long = io::BufReader::new(io::repeat(b'x'));
        assert_eq!(Lines::new(long).next_line().unwrap(), Some(Line::TooLong));
    }
}
