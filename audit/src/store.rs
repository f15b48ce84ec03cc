//! Where records are kept: the trait that the writer drives, and its homes.
//!
//! The writer calls [`Store::begin`], seals its group behind the head it got, and hands the octets to
//! [`Store::append`]. A store that fails leaves the chain as it was.

use std::io;

use thiserror::Error;

use crate::{chain::Head, record::Record};

pub mod jsonl;
pub mod memory;
pub mod postgres;
pub mod prune;
pub mod sqlite;
#[cfg(test)]
mod tests;
mod upkeep;

/// The end of a chain as a store found it.
#[derive(Debug, Clone)]
pub struct Tail {
    /// The last whole record.
    pub head: Head,
    /// What was wrong behind it and is repaired now; becomes an `audit.gap` record.
    pub repaired: Option<String>,
}

/// Sealed records, in order, and the lines that hold them.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// The records.
    pub records: &'a [Record],
    /// The same as JSON lines.
    pub lines: &'a [u8],
}

/// What became of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// All of it is there.
    Written,
    /// Nothing was written: the chain ends elsewhere by now. The group is to be begun and sealed again.
    Moved,
}

/// A sink of records. Driven by one thread.
pub trait Store: Send {
    /// Takes the sink for one group and says where its chain stands.
    ///
    /// # Errors
    /// When the sink cannot be locked or read.
    fn begin(&mut self) -> Result<Tail, StoreError>;

    /// Whether [`Store::begin_at_once`] and an append are as quick as a copy into the page cache, so
    /// that they may run on the thread of whoever records.
    fn is_prompt(&self) -> bool {
        false
    }

    /// As [`Store::begin`], but `None` where it would have to wait for another process or to repair.
    ///
    /// # Errors
    /// When the sink cannot be locked or read.
    fn begin_at_once(&mut self) -> Result<Option<Tail>, StoreError> {
        Ok(None)
    }

    /// Adds a group behind the head that `begin` answered, and gives the sink back. Answers when the
    /// kernel (or the database) has it all; after an error it holds none of it, as far as it can.
    ///
    /// # Errors
    /// When the group could not be written whole.
    fn append(&mut self, group: Group<'_>) -> Result<Appended, StoreError>;

    /// Writes what changes nothing, to see whether anything can be written; `None` where there is nothing that would
    /// show it. Not between `begin` and `append`.
    fn try_out(&mut self) -> Option<Result<(), StoreError>> {
        None
    }

    /// Waits until everything appended is on the disk; at once where there is no disk.
    ///
    /// # Errors
    /// When the disk failed: what was appended may be lost.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Nobody records any more: what has to be said last is written now.
    fn close(&mut self) {}

    /// A second handle that waits for the disk on another thread; `None` where there is no disk.
    fn syncer(&self) -> Option<Box<dyn Syncer>>;
}

/// Waits for the disk, beside the writer.
pub trait Syncer: Send {
    /// As [`Store::sync`].
    ///
    /// # Errors
    /// When the disk failed: what was appended may be lost.
    fn sync(&mut self) -> Result<(), StoreError>;
}

/// A store did not take or give what it should.
#[derive(Debug, Error)]
#[error("cannot {attempted} the record in {place}")]
pub struct StoreError {
    /// `lock`, `read`, `write`, `sync`.
    pub attempted: &'static str,
    /// Which file or database.
    pub place: String,
    /// What the system said.
    #[source]
    pub source: io::Error,
}
