//! Reading what was recorded: one trait over files and databases, for search, tail and export.
//!
//! A log may be read while others write to it. Nothing here changes a record.

pub mod in_chain;
pub(crate) mod indexed;
pub mod jsonl;
pub mod lines;

use std::collections::BTreeMap;

use self::in_chain::{InChain, Known};
use crate::{
    chain::Head,
    row::ReadRowError,
    search::{Found, Marks, Page, Position, Query},
    signing::PublicKey,
    store::StoreError,
    verify::{Expected, ExportedChain, Verified, VerifyError},
};
use thiserror::Error;

/// Records that can be read.
pub trait Log {
    /// One page of what is looked for, newest first.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn search(&mut self, query: &Query) -> Result<Page, ReadLogError> {
        self.search_until(query, &|| false)
    }

    /// The same, given up as soon as `stop` says so: it is asked again and again while records are read.
    ///
    /// # Errors
    /// [`ReadLogError::Stopped`]; when the log cannot be read.
    fn search_until(
        &mut self,
        query: &Query,
        stop: &dyn Fn() -> bool,
    ) -> Result<Page, ReadLogError>;

    /// At most `most` records behind `marks`, oldest first within each chain.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn after(&mut self, marks: &Marks, most: usize) -> Result<Vec<Found>, ReadLogError>;

    /// The record at a place, if there is one.
    ///
    /// # Errors
    /// When the log cannot be read, or what stands there is no record.
    fn found_at(&mut self, at: Position) -> Result<Option<Found>, ReadLogError>;

    /// The record at a place with what stands around it and what was signed of it. `None` where there is
    /// none, and where the log is a file: that is proved as a whole or not at all.
    ///
    /// # Errors
    /// [`ReadLogError::Stopped`] as soon as `stop` says so; when the log cannot be read, or what stands there is no
    /// record. A record that does not hold is an answer, and so is a neighbour that is none.
    fn in_chain(
        &mut self,
        _at: Position,
        _known: &Known,
        _stop: &dyn Fn() -> bool,
    ) -> Result<Option<InChain>, ReadLogError> {
        Ok(None)
    }

    /// Where each chain ends now.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn end(&mut self) -> Result<Marks, ReadLogError>;

    /// How many records of each chain are there up to `marks`; none of a file, which loses none of its lines.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn kept_until(&mut self, _marks: &Marks) -> Result<BTreeMap<u32, u64>, ReadLogError> {
        Ok(BTreeMap::new())
    }

    /// Records that a search still reads line by line: usually less than a block of 4,096 a chain. None where
    /// the log is a file, which has no index.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn unindexed(&mut self) -> Result<u64, ReadLogError> {
        Ok(0)
    }

    /// Proves each chain whole, or says where it is broken.
    ///
    /// # Errors
    /// When the log cannot be read. A broken chain is an answer.
    fn verify(&mut self, expected: Expected<'_>) -> Result<LogVerdict, ReadLogError>;

    /// What an export has to hold so that it can be proved without the log: each chain and its
    /// checkpoints. From here on the log is read as it is at this moment. Empty where the log is a file:
    /// that is its own proof.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn proof(&mut self) -> Result<Vec<ChainProof>, ReadLogError>;

    /// Whether something else stands under the log's name now: another file or database, or one that
    /// ends before `marks`. Where nothing stands there the log is what it was.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn replaced(&mut self, marks: &Marks) -> Result<bool, ReadLogError>;
}

/// What an export says of a chain before its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainProof {
    /// Its number in this log, as in [`Position`].
    pub chain: u32,
    /// Whose it is, and where it ends.
    pub exported: ExportedChain,
    /// Its checkpoints, in order, without newlines.
    pub checkpoints: Vec<String>,
}

impl ChainProof {
    /// Where its last record stands.
    #[must_use]
    pub const fn end(&self) -> Position {
        Position {
            chain: self.chain,
            seq: self.exported.last,
        }
    }
}

/// What verification says of a log.
#[derive(Debug, Default)]
pub struct LogVerdict {
    /// Of each chain.
    pub chains: Vec<ChainVerdict>,
    /// Records that belong to no chain, or stand behind the end of theirs.
    pub strays: Strays,
}

/// Records where none should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strays {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Position>,
}

impl LogVerdict {
    /// Whether nothing is missing, changed or added.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.strays.count == 0 && self.chains.iter().all(|chain| chain.outcome.is_ok())
    }

    /// Those of `named` that signed nothing of what is there: a chain that was taken away whole is told by nobody else.
    /// None where a chain is broken, since what that was signed by is not known.
    #[must_use]
    pub fn missed(&self, named: &[PublicKey]) -> Vec<PublicKey> {
        let mut missed = named.to_vec();
        for chain in &self.chains {
            let Ok(verified) = &chain.outcome else {
                return Vec::new();
            };
            let signed = verified.signed.iter().flat_map(|signed| &signed.keys);
            signed.for_each(|key| missed.retain(|named| named != key));
        }
        missed.sort_unstable();
        missed.dedup();
        missed
    }

    /// Those of the `expected` records that no chain holds: the end of theirs was cut off, or it was written anew. None
    /// where a chain is broken, since what that held is not known.
    #[must_use]
    pub fn missing(&self, expected: &[Head]) -> Vec<Missing> {
        let mut missing = expected.to_vec();
        let mut gone = Vec::new();
        for chain in &self.chains {
            let Ok(verified) = &chain.outcome else {
                return Vec::new();
            };
            missing.retain(|record| !verified.met.contains(record));
            gone.extend(&verified.gone);
        }
        let missing = missing.into_iter().map(|record| Missing {
            record,
            is_gone: gone.contains(&&record),
        });
        missing.collect()
    }
}

/// An expected record that no chain holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// Which.
    pub record: Head,
    /// A chain goes on behind its place, and says that what stood there was removed: whether it was this one, nobody
    /// can say any more.
    pub is_gone: bool,
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
    /// Nobody waits for it any more.
    #[error("the search was given up before all of the record was read")]
    Stopped,
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
