//! Records as JSON lines, appended to a file (or a pipe, or standard error).
//!
//! Several processes may append to one regular file: a group is written under `flock`, behind the
//! last record that is really there. A line that a crash left unfinished is cut off and told of; one
//! that lacks nothing but its newline is kept, gets it, and is told of too. A file whose last line is
//! no record is refused rather than continued. New files have mode 0600.
//! A file that no longer stands under its name (moved, deleted, another in its place) takes no more
//! records: whoever looks there would not find them, or would find what somebody else wrote.
//! Pipes and terminals have no tail: their chain begins with the process.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::OwnedFd,
        unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};
use thiserror::Error;

use crate::{
    chain::{self, Head},
    store::{Appended, Group, Store, StoreError, Syncer, Tail},
};

/// A file of JSON lines, open for appending.
#[derive(Debug)]
pub struct JsonlStore {
    file: File,
    place: String,
    /// Where a regular file stands, and which one it is.
    name: Option<Name>,
    size: u64,
    head: Head,
    /// A pipe took part of a line and then failed.
    unfinished: bool,
}

/// An audit file could not be taken.
#[derive(Debug, Error)]
pub enum OpenJsonlError {
    /// The file cannot be opened or made.
    #[error("cannot open {path} to append audit records")]
    Open {
        /// As given.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is a link that somebody else may have laid, to what is no record yet.
    #[error("{path} is a link, and what it leads to is no record yet: name the file itself")]
    Link {
        /// As given.
        path: PathBuf,
    },
    /// It is a FIFO whose other end is not open.
    #[error("nobody reads the FIFO {path}, where audit records would go: start its reader first")]
    Unread {
        /// As given.
        path: PathBuf,
    },
    /// It holds something else.
    #[error("cannot continue the record in {path}: move the file away or name another")]
    Continue {
        /// As given.
        path: PathBuf,
        /// What is wrong with its end.
        #[source]
        source: StoreError,
    },
}

impl JsonlStore {
    /// Opens or makes the file at `path` and checks that its end is an audit record.
    ///
    /// # Errors
    /// When it cannot be opened for appending, or its last line is not a whole, unchanged record.
    pub fn open(path: &Path) -> Result<Self, OpenJsonlError> {
        let failed = |source: io::Error| OpenJsonlError::Open {
            path: path.to_owned(),
            source,
        };
        let place = path.display().to_string();
        let mut options = OpenOptions::new();
        let kind = path.metadata().ok().map(|found| found.file_type());
        let special = kind.is_some_and(|kind| !kind.is_file());
        // The system's own links to streams.
        let streams = [
            "/dev/stdin",
            "/dev/stdout",
            "/dev/stderr",
            "/dev/fd",
            "/proc",
        ];
        let is_stream = streams.iter().any(|known| path.starts_with(known));
        let is_link = !is_stream
            && path
                .symlink_metadata()
                .is_ok_and(|found| found.is_symlink());
        if is_link
            && path
                .metadata()
                .map_or(true, |found| found.is_file() && found.len() == 0)
        {
            return Err(OpenJsonlError::Link {
                path: path.to_owned(),
            });
        }
        if special {
            // Without O_NONBLOCK, a FIFO that nobody reads would stop us here for ever.
            let nonblock = OFlags::NONBLOCK | OFlags::NOCTTY;
            options.custom_flags(nonblock.bits().cast_signed());
        } else {
            options.read(true).append(true).create(true).mode(0o600);
            if !is_link && !is_stream {
                // Nor is it one that was laid just now.
                options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
            }
        }
        let file = options.write(true).open(path).map_err(|source| {
            match Errno::from_io_error(&source) {
                // A device may be missing its other side as well, and nobody can start a reader there.
                Some(Errno::NXIO) if kind.is_some_and(|kind| kind.is_fifo()) => {
                    OpenJsonlError::Unread {
                        path: path.to_owned(),
                    }
                }
                _ => failed(source),
            }
        })?;
        if special {
            let flags = rustix::fs::fcntl_getfl(&file).map_err(|e| failed(e.into()))?;
            rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)
                .map_err(|e| failed(e.into()))?;
        }
        let found = file.metadata().map_err(failed)?;
        let name = found.is_file().then(|| Name {
            path: path.to_owned(),
            identity: (found.dev(), found.ino()),
        });
        let store = Self::over(file, place, name);
        // Take the end once now, so that a wrong file stops the start and not the first request. The
        // repair, if any, is told by the first group: it must see the same state again.
        store
            .check_end()
            .map_err(|source| OpenJsonlError::Continue {
                path: path.to_owned(),
                source,
            })?;
        Ok(store)
    }

    /// Writes to an open pipe, socket or terminal, such as a duplicate of standard error.
    #[must_use]
    pub fn stream(fd: OwnedFd, place: &str) -> Self {
        Self::over(File::from(fd), place.to_owned(), None)
    }

    const fn over(file: File, place: String, name: Option<Name>) -> Self {
        Self {
            file,
            place,
            name,
            size: 0,
            head: Head::START,
            unfinished: false,
        }
    }

    fn check_end(&self) -> Result<(), StoreError> {
        if self.name.is_none() {
            return Ok(());
        }
        self.lock()?;
        let end = self.length().and_then(|size| self.find_end(size));
        self.unlock();
        end.map(|_| ())
    }

    fn lock(&self) -> Result<(), StoreError> {
        loop {
            match flock(&self.file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.error("lock", errno.into())),
            }
        }
    }

    fn unlock(&self) {
        if let Err(errno) = flock(&self.file, FlockOperation::Unlock) {
            tracing::error!(place = self.place, error = %errno, "cannot unlock the record");
        }
    }

    fn length(&self) -> Result<u64, StoreError> {
        let Some(name) = &self.name else {
            return Ok(0);
        };
        let found = name.path.metadata().map_err(|e| self.error("find", e))?;
        if (found.dev(), found.ino()) == name.identity {
            return Ok(found.len());
        }
        let why = "another file is in its place";
        Err(self.error("find", io::Error::new(io::ErrorKind::NotFound, why)))
    }

    fn error(&self, attempted: &'static str, source: io::Error) -> StoreError {
        StoreError {
            attempted,
            place: self.place.clone(),
            source,
        }
    }

    fn not_ours(&self, why: String) -> StoreError {
        self.error("read", io::Error::new(io::ErrorKind::InvalidData, why))
    }

    /// Finds the last whole line of a file of `size` octets and how many octets follow it.
    fn find_end(&self, size: u64) -> Result<End, StoreError> {
        let mut window = WINDOW.min(size);
        loop {
            let mut octets = vec![0; usize::try_from(window).unwrap_or(usize::MAX)];
            self.file
                .read_exact_at(&mut octets, size - window)
                .map_err(|e| self.error("read", e))?;
            let whole = octets
                .iter()
                .rposition(|b| *b == b'\n')
                .map_or(0, |at| at + 1);
            let (lines, torn) = octets.split_at(whole);
            let before = lines.len().saturating_sub(1);
            let begin = lines.iter().take(before).rposition(|b| *b == b'\n');
            if begin.is_some() || window == size {
                let line = lines
                    .get(begin.map_or(0, |at| at + 1)..)
                    .unwrap_or_default();
                return self.judge_end(line, torn);
            }
            if window >= LONGEST_LINE {
                return Err(self.not_ours("its last line is longer than any record".to_owned()));
            }
            window = (window * 2).min(size);
        }
    }

    fn judge_end(&self, line: &[u8], torn: &[u8]) -> Result<End, StoreError> {
        let head = if line.is_empty() {
            // No whole line at all: only the beginning of a first record may be cut off.
            let ours = torn.iter().zip(FIRST_OCTETS).all(|(a, b)| a == b);
            if !ours {
                return Err(self.not_ours("it holds something other than audit records".to_owned()));
            }
            Head::START
        } else {
            let record = chain::open(line).map_err(|fault| self.not_ours(fault.to_string()))?;
            Head {
                seq: record.seq,
                hash: record.hash,
            }
        };
        let kept = finished(head, torn);
        Ok(End {
            head: kept.unwrap_or(head),
            torn: torn.len() as u64,
            is_kept: kept.is_some(),
        })
    }

    fn find_tail(&mut self) -> Result<Tail, StoreError> {
        let size = self.length()?;
        if size == self.size {
            return Ok(self.tail(None));
        }
        let end = self.find_end(size)?;
        let mut repaired = None;
        // Continue our own chain: a file that lost records or got a stranger's must not verify.
        if size < self.size {
            let lost = self.size - size;
            repaired = Some(format!(
                "the file lost {lost} octets that were written before"
            ));
        } else if !self.holds_ours() {
            repaired = Some(format!(
                "record {}, which was written before, is another now",
                self.head.seq
            ));
        } else {
            self.head = end.head;
        }
        let mut whole = size;
        if end.is_kept {
            self.file
                .write_all(b"\n")
                .map_err(|e| self.error("write", e))?;
            whole += 1;
            repaired = Some(format!(
                "the line of record {} lacked its end, which it got: the record is whole",
                end.head.seq
            ));
        } else if end.torn > 0 {
            whole -= end.torn;
            self.file
                .set_len(whole)
                .map_err(|e| self.error("write", e))?;
            repaired = Some(format!(
                "an unfinished line of {} octets was cut off",
                end.torn
            ));
        }
        self.size = whole;
        Ok(self.tail(repaired))
    }

    /// Whether the last record of ours still ends where it was written; others may stand behind it.
    fn holds_ours(&self) -> bool {
        self.size == 0
            || self
                .find_end(self.size)
                .is_ok_and(|end| end.torn == 0 && end.head == self.head)
    }

    const fn tail(&self, repaired: Option<String>) -> Tail {
        Tail {
            head: self.head,
            repaired,
        }
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.unfinished {
            self.file.write_all(b"\n")?;
            self.unfinished = false;
        }
        self.file.write_all(lines)
    }

    /// Takes back what a failed write left, so that the file ends with a whole line again.
    fn take_back(&mut self) {
        if self.name.is_none() {
            self.unfinished = true;
        } else if let Err(error) = self.file.set_len(self.size) {
            // The next `begin` finds a length it does not know and repairs.
            tracing::error!(place = self.place, %error, "cannot cut off an unfinished record");
        }
    }
}

impl Store for JsonlStore {
    fn begin(&mut self) -> Result<Tail, StoreError> {
        if self.name.is_none() {
            return Ok(self.tail(None));
        }
        self.lock()?;
        let tail = self.find_tail();
        if tail.is_err() {
            self.unlock();
        }
        tail
    }

    fn is_prompt(&self) -> bool {
        self.name.is_some()
    }

    fn begin_at_once(&mut self) -> Result<Option<Tail>, StoreError> {
        if self.name.is_none() {
            return Ok(None);
        }
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(None),
            Err(errno) => return Err(self.error("lock", errno.into())),
        }
        match self.length() {
            Ok(size) if size == self.size && size > 0 => Ok(Some(self.tail(None))),
            // Another length than ours means that there is something to read or to repair.
            other => {
                self.unlock();
                other.map(|_| None)
            }
        }
    }

    fn append(&mut self, group: Group<'_>) -> Result<Appended, StoreError> {
        let outcome = self.write(group.lines);
        match &outcome {
            Ok(()) => {
                self.size += group.lines.len() as u64;
                if let Some(last) = group.records.last() {
                    self.head = Head {
                        seq: last.seq,
                        hash: last.hash,
                    };
                }
            }
            Err(_) => self.take_back(),
        }
        if self.name.is_some() {
            self.unlock();
        }
        let written = outcome.map(|()| Appended::Written);
        written.map_err(|e| self.error("write", e))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        if self.name.is_none() {
            return Ok(());
        }
        self.file.sync_data().map_err(|e| self.error("sync", e))
    }

    fn syncer(&self) -> Option<Box<dyn Syncer>> {
        self.name.as_ref()?;
        let file = self.file.try_clone().ok()?;
        Some(Box::new(JsonlSyncer {
            file,
            place: self.place.clone(),
        }))
    }
}

/// The name of a regular file, and the file that had it when it was opened.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

#[derive(Debug)]
struct JsonlSyncer {
    file: File,
    place: String,
}

impl Syncer for JsonlSyncer {
    fn sync(&mut self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|source| StoreError {
            attempted: "sync",
            place: self.place.clone(),
            source,
        })
    }
}

#[derive(Debug)]
struct End {
    head: Head,
    /// Octets behind the last newline.
    torn: u64,
    /// They are a record, and `head` is theirs.
    is_kept: bool,
}

/// The head of a record that follows `head` and lacks nothing but its newline.
fn finished(head: Head, torn: &[u8]) -> Option<Head> {
    let line = [torn, b"\n"].concat();
    let record = chain::open(&line).ok()?;
    chain::follow(head, &record).ok()
}

/// How every line begins.
const FIRST_OCTETS: &[u8] = b"{\"seq\":";
/// First look at a file's end: some hundred ordinary records.
const WINDOW: u64 = 64 * 1024;
/// Longest line that is looked for: eight texts of 8 KiB, each octet escaped to six, and room.
pub const LONGEST_LINE: u64 = 4 * 1024 * 1024;

#[cfg(test)]
mod tests;
