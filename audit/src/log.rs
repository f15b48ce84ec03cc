//! Reading what was recorded: one trait over files and databases, for search, tail and export.
//!
//! A log may be read while others write to it. Nothing here changes a record.

pub(crate) mod indexed;
pub mod jsonl;

use crate::{
    row::ReadRowError,
    search::{Found, Marks, Page, Query},
    store::StoreError,
    verify::{Verified, VerifyError},
};
use thiserror::Error;

/// Records that can be read.
pub trait Log {
    /// One page of what is looked for, newest first.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn search(&mut self, query: &Query) -> Result<Page, ReadLogError>;

    /// At most `most` records behind `marks`, oldest first within each chain.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn after(&mut self, marks: &Marks, most: usize) -> Result<Vec<Found>, ReadLogError>;

    /// Where each chain ends now.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn end(&mut self) -> Result<Marks, ReadLogError>;

    /// Proves each chain whole, or says where it is broken.
    ///
    /// # Errors
    /// When the log cannot be read. A broken chain is an answer.
    fn verify(&mut self) -> Result<Vec<ChainVerdict>, ReadLogError>;
}

/// What verification says of one chain.
#[derive(Debug)]
pub struct ChainVerdict {
    /// The machine, where the log holds several chains.
    pub node: Option<String>,
    /// Whole, or how it is broken.
    pub outcome: Result<Verified, VerifyError>,
}

/// A log cannot be read.
#[derive(Debug, Error)]
pub enum ReadLogError {
    /// The file or database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It holds something that is no record.
    #[error("cannot read record {seq} of {place}")]
    Row {
        /// Which log.
        place: String,
        /// Its place.
        seq: u64,
        /// What is wrong.
        #[source]
        source: ReadRowError,
    },
}
