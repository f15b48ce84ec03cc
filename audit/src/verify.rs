//! Proof that no record of a chain is missing or changed, reading it once, with bounded memory.
//!
//! A chain cannot prove that nothing was cut off *behind* its last record. What can be seen of that is
//! reported: sandboxes that began and never ended, and the last place and hash, to compare with a
//! copy kept elsewhere.

use std::{
    collections::BTreeSet,
    io::{self, BufRead, Read as _},
};

use gig_policy::SandboxId;
use thiserror::Error;

use crate::{
    chain::{self, ChainFault, Head},
    event::Event,
    store::jsonl::LONGEST_LINE,
};

/// A chain that holds together from its first record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The last record; [`Head::START`] when there is none.
    pub head: Head,
    /// When the first and the last record were written.
    pub times: Option<(String, String)>,
    /// How many `audit.gap` records tell of refused or repaired ones.
    pub gaps: u64,
    /// Sandboxes that began and did not end: still running, killed with gig, or cut off.
    pub unended: Vec<SandboxId>,
}

/// The chain does not hold, or could not be read.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The file or pipe failed.
    #[error("cannot read line {line} of the record")]
    Read {
        /// Counted from 1.
        line: u64,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The first line that is not what was written.
    #[error("the record is broken at line {line}")]
    BrokenAt {
        /// Counted from 1.
        line: u64,
        /// How.
        #[source]
        why: ChainFault,
    },
}

/// Checks a whole chain.
///
/// # Errors
/// At the first line that was changed, moved, cut or is missing its predecessor.
pub fn verify(mut reader: impl BufRead) -> Result<Verified, VerifyError> {
    let mut verified = Verified {
        head: Head::START,
        times: None,
        gaps: 0,
        unended: Vec::new(),
    };
    let mut running = BTreeSet::new();
    let mut octets = Vec::new();
    for line in 1.. {
        octets.clear();
        let mut limited = reader.by_ref().take(LONGEST_LINE + 1);
        limited
            .read_until(b'\n', &mut octets)
            .map_err(|source| VerifyError::Read { line, source })?;
        if octets.is_empty() {
            break;
        }
        let broken = |why| VerifyError::BrokenAt { line, why };
        if octets.len() as u64 > LONGEST_LINE {
            return Err(broken(ChainFault::TooLong));
        }
        let record = chain::open(&octets).map_err(broken)?;
        verified.head = chain::follow(verified.head, &record).map_err(broken)?;
        match (record.entry.event, record.entry.sandbox) {
            (Event::AuditGap, _) => verified.gaps += 1,
            (Event::SandboxStart, Some(id)) => {
                running.insert(id);
            }
            (Event::SandboxExit, Some(id)) => {
                running.remove(&id);
            }
            _ => {}
        }
        verified.times = Some(match verified.times.take() {
            Some((first, _)) => (first, record.time),
            None => (record.time.clone(), record.time),
        });
    }
    verified.unended = running.into_iter().collect();
    Ok(verified)
}

#[cfg(test)]
mod tests;
