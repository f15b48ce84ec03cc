//! Proof that no record of a chain is missing or changed, reading it once, with bounded memory.
//!
//! A chain cannot prove by itself that nothing was cut off *behind* its last record. Whoever kept place and hash of
//! a record elsewhere names it in [`Expected`]: a chain that was cut or written anew holds it no more. What else can be
//! seen of that is reported: sandboxes that began and never ended, and the last place and hash.

use std::{
    collections::BTreeSet,
    io::{self, BufRead},
    sync::Arc,
};

use gig_policy::SandboxId;
use thiserror::Error;

use crate::{
    chain::{self, ChainFault, Head},
    checkpoint::{Prover, Segments},
    deed::Deed,
    event::Event,
    log::lines::{Line, Lines},
    record::Record,
    signing::PublicKey,
};

mod file;

pub use file::{ExportedChain, verify_lines};

/// What somebody knows of chains beforehand, and holds them to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected<'a> {
    /// Each chain has to be signed, and by none but these; by nobody where it is empty.
    pub keys: &'a [PublicKey],
    /// Records whose place and hash they kept. That none of the chains holds one is told by
    /// [`missing`](crate::log::LogVerdict::missing); no chain is broken for it, since it is said of none.
    pub records: &'a [Head],
}

/// A chain that holds together from its first record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The last record; [`Head::START`] when there is none.
    pub head: Head,
    /// When the first and the last record were written.
    pub times: Option<(String, String)>,
    /// How many `audit.gap` records tell of refused or repaired ones.
    pub gaps: u64,
    /// What the first of those say, each behind the place of its record: sixteen at most.
    pub gaps_told: Vec<(u64, Arc<str>)>,
    /// Sandboxes that began and did not end: still running, killed with gig, or cut off.
    pub unended: Vec<SandboxId>,
    /// Sandboxes, of this chain or another, that are said to be lost together with their node.
    pub lost: Vec<SandboxId>,
    /// What checkpoints vouch for; `None` where there are none.
    pub signed: Option<Signed>,
    /// The expected records that it holds.
    pub met: Vec<Head>,
    /// Those that it held once, as the checkpoints say, and that were removed: what their hash was nobody can say.
    pub gone: Vec<Head>,
}

/// What a chain's checkpoints vouch for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// How many there are.
    pub checkpoints: u64,
    /// Records up to here are signed.
    pub covered: u64,
    /// Records that were removed, as the checkpoints say.
    pub pruned: u64,
    /// Records that one run wrote and did not sign, and another found and signed.
    pub inherited: u64,
    /// Who signed.
    pub keys: Vec<PublicKey>,
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
    prover: Prover,
    /// Of the expected records, those whose place was removed.
    gone: Vec<Head>,
    times: Option<(String, String)>,
    gaps: u64,
    gaps_told: Vec<(u64, Arc<str>)>,
    running: BTreeSet<SandboxId>,
    lost: Vec<SandboxId>,
}

/// Of a chain without checkpoints.
impl Default for Verifier {
    fn default() -> Self {
        Self::new(Segments::new(&[]), &[])
    }
}

impl Verifier {
    /// Of a chain whose checkpoints say this, and that may hold these records.
    #[must_use]
    pub fn new(segments: Segments, records: &[Head]) -> Self {
        let is_gone = |record: &&Head| segments.has_lost(record.seq);
        Self {
            gone: records.iter().filter(is_gone).copied().collect(),
            prover: Prover::new(segments).looking_for(records),
            times: None,
            gaps: 0,
            gaps_told: Vec::new(),
            running: BTreeSet::new(),
            lost: Vec::new(),
        }
    }

    /// Takes the next line, with its newline.
    ///
    /// # Errors
    /// When it is not the next record.
    pub fn line(&mut self, octets: &[u8]) -> Result<Record, ChainFault> {
        let record = chain::open(octets)?;
        self.prover.take(&record)?;
        match (record.entry.event, record.entry.sandbox) {
            (Event::AuditGap, _) => {
                self.gaps += 1;
                let findings = record.entry.findings.iter().cloned();
                let room = MOST_TOLD.saturating_sub(self.gaps_told.len());
                let told = findings.map(|finding| (record.seq, finding));
                self.gaps_told.extend(told.take(room));
            }
            (Event::SandboxStart, Some(id)) => {
                self.running.insert(id);
            }
            (Event::SandboxExit, Some(id)) => {
                self.running.remove(&id);
            }
            (_, Some(id)) if record.entry.deed == Some(Deed::SandboxLost) => self.lost.push(id),
            _ => {}
        }
        let last = record.time.clone();
        self.times = Some(match self.times.take() {
            Some((first, _)) => (first, last),
            None => (last.clone(), last),
        });
        Ok(record)
    }

    /// The last record so far.
    #[must_use]
    pub fn head(&self) -> Head {
        self.prover.head()
    }

    /// What can be said of the chain, when it ends here.
    ///
    /// # Errors
    /// When a checkpoint speaks of records behind the last one.
    pub fn finish(mut self) -> Result<Verified, ChainFault> {
        self.prover.finish()?;
        let segments = self.prover.segments();
        let signed = (segments.count() > 0).then(|| Signed {
            checkpoints: segments.count(),
            covered: segments.covered(),
            pruned: segments.pruned(),
            inherited: segments.inherited(),
            keys: segments.keys().iter().copied().collect(),
        });
        let met = self.prover.met().to_vec();
        self.gone.retain(|record| !met.contains(record));
        Ok(Verified {
            met,
            gone: self.gone,
            head: self.prover.head(),
            times: self.times,
            gaps: self.gaps,
            gaps_told: self.gaps_told,
            unended: self.running.into_iter().collect(),
            lost: self.lost,
            signed,
        })
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
            None => {
                let finished = verifier.finish();
                return finished.map_err(|why| VerifyError::BrokenAt { line, why });
            }
            Some(Line::Whole(octets)) => verifier.line(octets).map(drop),
            Some(Line::Unfinished(_)) => Err(ChainFault::Unfinished),
            Some(Line::TooLong) => Err(ChainFault::TooLong),
        };
        read.map_err(|why| VerifyError::BrokenAt { line, why })?;
    }
}

/// What gaps say, of one chain: who wants them all searches the record.
const MOST_TOLD: usize = 16;

#[cfg(test)]
mod tests;
