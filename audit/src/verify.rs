//! Proof that no record of a chain is missing or changed, reading it once, with bounded memory.
//!
//! A chain cannot prove that nothing was cut off *behind* its last record. What can be seen of that is
//! reported: sandboxes that began and never ended, and the last place and hash, to compare with a
//! copy kept elsewhere.

use std::{
    collections::BTreeSet,
    io::{self, BufRead},
};

use gig_policy::SandboxId;
use thiserror::Error;

use crate::{
    chain::{self, ChainFault, Head},
    event::Event,
    log::lines::{Line, Lines},
    record::Record,
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

/// Checks a chain line by line.
#[derive(Debug)]
pub struct Verifier {
    verified: Verified,
    running: BTreeSet<SandboxId>,
}

impl Default for Verifier {
    fn default() -> Self {
        Self {
            verified: Verified {
                head: Head::START,
                times: None,
                gaps: 0,
                unended: Vec::new(),
            },
            running: BTreeSet::new(),
        }
    }
}

impl Verifier {
    /// Takes the next line, with its newline.
    ///
    /// # Errors
    /// When it is not the next record.
    pub fn line(&mut self, octets: &[u8]) -> Result<Record, ChainFault> {
        let verified = &mut self.verified;
        let record = chain::open(octets)?;
        verified.head = chain::follow(verified.head, &record)?;
        match (record.entry.event, record.entry.sandbox) {
            (Event::AuditGap, _) => verified.gaps += 1,
            (Event::SandboxStart, Some(id)) => {
                self.running.insert(id);
            }
            (Event::SandboxExit, Some(id)) => {
                self.running.remove(&id);
            }
            _ => {}
        }
        let last = record.time.clone();
        verified.times = Some(match verified.times.take() {
            Some((first, _)) => (first, last),
            None => (last.clone(), last),
        });
        Ok(record)
    }

    /// What can be said of the chain, when it ends here.
    #[must_use]
    pub fn finish(mut self) -> Verified {
        self.verified.unended = self.running.into_iter().collect();
        self.verified
    }
}

/// Checks a whole chain.
///
/// # Errors
/// At the first line that was changed, moved, cut or is missing its predecessor.
pub fn verify(reader: impl BufRead) -> Result<Verified, VerifyError> {
    let mut verifier = Verifier::default();
    let mut lines = Lines::new(reader);
    loop {
        let line = lines.number() + 1;
        let next = lines.next_line();
        let next = next.map_err(|source| VerifyError::Read { line, source })?;
        let read = match next {
            None => return Ok(verifier.finish()),
            Some(Line::Whole(octets)) => verifier.line(octets).map(drop),
            Some(Line::Unfinished(_)) => Err(ChainFault::Unfinished),
            Some(Line::TooLong) => Err(ChainFault::TooLong),
        };
        read.map_err(|why| VerifyError::BrokenAt { line, why })?;
    }
}

#[cfg(test)]
mod tests;
