//! Reading a file of JSON lines: from its end towards its beginning, or behind a place.
//!
//! A place is the number of octets up to the end of a line. The last line may be unfinished while
//! somebody writes it: it is not there yet.

use std::{
    fs::File,
    io::{self, BufReader, Seek as _, SeekFrom},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use super::{ChainProof, Log, LogVerdict, ReadLogError};
use crate::{
    row::Row,
    search::{Found, Marks, Page, Position, Query},
    store::{StoreError, jsonl::LONGEST_LINE},
    verify::{Expected, verify_lines},
};

/// A file that is read.
#[derive(Debug)]
pub struct JsonlLog {
    file: File,
    path: PathBuf,
    place: String,
}

impl JsonlLog {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let place = path.display().to_string();
        let failed = |source| StoreError {
            attempted: "open",
            place: place.clone(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            let why = "it is no ordinary file";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            place,
        })
    }

    fn error(&self, source: io::Error) -> StoreError {
        StoreError {
            attempted: "read",
            place: self.place.clone(),
            source,
        }
    }

    fn length(&self) -> Result<u64, StoreError> {
        let found = self.file.metadata().map_err(|e| self.error(e))?;
        Ok(found.len())
    }

    fn row(&self, line: &str, seq: u64) -> Result<Row, ReadLogError> {
        Row::read(line).map_err(|source| ReadLogError::Row {
            place: format!("{} (octet {seq})", self.place),
            seq,
            source,
        })
    }

    fn text(&self, line: &[u8]) -> Result<String, StoreError> {
        String::from_utf8(line.to_vec()).map_err(|e| self.error(io::Error::other(e)))
    }
}

impl Log for JsonlLog {
    fn search_until(
        &mut self,
        query: &Query,
        stop: &dyn Fn() -> bool,
    ) -> Result<Page, ReadLogError> {
        let needles = query.filter.needles();
        let end = match &query.before {
            Some(marks) => marks.of(CHAIN).min(self.length()?),
            None => self.length()?,
        };
        let mut backwards = Backwards::new(&self.file, end);
        let mut records = Vec::new();
        for read in 0_u64.. {
            if read.is_multiple_of(LINES_A_LOOK) && stop() {
                break;
            }
            let next = backwards.next_line().map_err(|e| self.error(e))?;
            let Some((begin, line)) = next else {
                return Ok(Page {
                    records,
                    next: None,
                });
            };
            if !needles.may_match(line) {
                continue;
            }
            let line = self.text(line)?;
            let row = self.row(&line, begin)?;
            if !query.filter.matches(&row) {
                continue;
            }
            if records.len() == query.limit {
                // There is one more: the next page begins with it, at the end of its line.
                let mut next = Marks::default();
                next.set(Position {
                    chain: CHAIN,
                    seq: begin + line.len() as u64 + 1,
                });
                return Ok(Page {
                    records,
                    next: Some(next),
                });
            }
            let at = Position {
                chain: CHAIN,
                seq: begin + line.len() as u64 + 1,
            };
            records.push(Found { at, line, row });
        }
        Err(ReadLogError::Stopped)
    }

    fn after(&mut self, marks: &Marks, most: usize) -> Result<Vec<Found>, ReadLogError> {
        let mut at = marks.of(CHAIN);
        let mut found = Vec::new();
        let mut window = vec![0; WINDOW];
        while found.len() < most {
            let read = self
                .file
                .read_at(&mut window, at)
                .map_err(|e| self.error(e))?;
            let octets = window.get(..read).unwrap_or_default();
            let Some(whole) = octets.iter().rposition(|octet| *octet == b'\n') else {
                if read == window.len() && (window.len() as u64) < LONGEST_LINE {
                    window.resize(window.len() * 2, 0);
                    continue;
                }
                break;
            };
            let lines = octets.get(..whole).unwrap_or_default();
            for line in lines
                .split(|octet| *octet == b'\n')
                .take(most - found.len())
            {
                let line = self.text(line)?;
                at += line.len() as u64 + 1;
                let row = self.row(&line, at)?;
                let at = Position {
                    chain: CHAIN,
                    seq: at,
                };
                found.push(Found { at, line, row });
            }
        }
        Ok(found)
    }

    fn found_at(&mut self, at: Position) -> Result<Option<Found>, ReadLogError> {
        if at.seq > self.length()? {
            return Ok(None);
        }
        let mut backwards = Backwards::new(&self.file, at.seq);
        let next = backwards.next_line().map_err(|e| self.error(e))?;
        let Some((begin, line)) =
            next.filter(|(begin, line)| begin + line.len() as u64 + 1 == at.seq)
        else {
            return Ok(None);
        };
        let line = self.text(line)?;
        let row = self.row(&line, begin)?;
        Ok(Some(Found { at, line, row }))
    }

    fn end(&mut self) -> Result<Marks, ReadLogError> {
        let length = self.length()?;
        let mut backwards = Backwards::new(&self.file, length);
        let mut end = Marks::default();
        let whole = backwards.whole_end().map_err(|e| self.error(e))?;
        end.set(Position {
            chain: CHAIN,
            seq: whole,
        });
        Ok(end)
    }

    fn verify(&mut self, expected: Expected<'_>) -> Result<LogVerdict, ReadLogError> {
        self.file
            .seek(SeekFrom::Start(0))
            .map_err(|e| self.error(e))?;
        let reader = BufReader::with_capacity(WINDOW, &self.file);
        Ok(verify_lines(reader, expected))
    }

    fn proof(&mut self) -> Result<Vec<ChainProof>, ReadLogError> {
        Ok(Vec::new())
    }

    fn replaced(&mut self, marks: &Marks) -> Result<bool, ReadLogError> {
        let there = match self.path.metadata() {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.error(error).into()),
        };
        let ours = self.file.metadata().map_err(|e| self.error(e))?;
        let same = (there.dev(), there.ino()) == (ours.dev(), ours.ino());
        Ok(!same || ours.len() < marks.of(CHAIN))
    }
}

/// Lines of a file, last one first.
struct Backwards<'a> {
    file: &'a File,
    /// What is read begins here.
    begin: u64,
    /// Octets from `begin` on, up to the end of the next line.
    octets: Vec<u8>,
    /// What follows the last newline is still there.
    unfinished: bool,
    /// The line that was handed out last.
    given: Vec<u8>,
}

impl<'a> Backwards<'a> {
    const fn new(file: &'a File, end: u64) -> Self {
        Self {
            file,
            begin: end,
            octets: Vec::new(),
            unfinished: true,
            given: Vec::new(),
        }
    }

    /// Where the line begins, and its octets without the newline.
    fn next_line(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        if std::mem::take(&mut self.unfinished) {
            // Behind the last newline stands what is not written whole.
            self.whole_end()?;
        }
        if self.octets.is_empty() && !self.grow()? {
            return Ok(None);
        }
        // The newline of the line itself is the last octet.
        let before = |octets: &[u8]| {
            let body = octets
                .split_last()
                .map(|(_, body)| body)
                .unwrap_or_default();
            memchr::memrchr(b'\n', body)
        };
        let start = loop {
            match before(&self.octets) {
                Some(newline) => break newline + 1,
                None if !self.grow()? => break 0,
                None => {}
            }
        };
        let begin = self.begin + start as u64;
        // The line is handed out from behind what is kept.
        let line = self.octets.split_off(start);
        self.given = line;
        self.given.pop();
        Ok(Some((begin, &self.given)))
    }

    /// Cuts what follows the last newline; answers where that is.
    fn whole_end(&mut self) -> io::Result<u64> {
        self.unfinished = false;
        loop {
            if let Some(newline) = memchr::memrchr(b'\n', &self.octets) {
                self.octets.truncate(newline + 1);
                return Ok(self.begin + newline as u64 + 1);
            }
            if !self.grow()? {
                self.octets.clear();
                return Ok(0);
            }
        }
    }

    /// Reads what stands before; false at the beginning of the file.
    fn grow(&mut self) -> io::Result<bool> {
        let some = (WINDOW as u64).min(self.begin);
        if some == 0 {
            return Ok(false);
        }
        if self.octets.len() as u64 > LONGEST_LINE {
            let why = "a line is longer than any record";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let mut octets = vec![0; usize::try_from(some).unwrap_or(WINDOW)];
        self.file.read_exact_at(&mut octets, self.begin - some)?;
        octets.append(&mut self.octets);
        self.octets = octets;
        self.begin -= some;
        Ok(true)
    }
}

/// A file is one chain.
const CHAIN: u32 = 0;
/// Lines between two questions whether anybody still waits.
const LINES_A_LOOK: u64 = 1024;
/// Some hundred ordinary records a read.
const WINDOW: usize = 256 * 1024;

#[cfg(test)]
mod tests;
