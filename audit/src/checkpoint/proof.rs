//! Proves a chain against its checkpoints, record by record, with bounded memory.
//!
//! Where nothing was removed this is the hash chain and no more. Where records are missing, the
//! checkpoint of their segment has to list exactly those, and what is left of the segment has to be,
//! record for record, what was signed.

use std::sync::Arc;

use super::{KeptDigest, Segments, segments::Segment};
use crate::{
    chain::{self, ChainFault, Head},
    record::{ChainHash, Record},
};

/// Follows a chain.
#[derive(Debug)]
pub(crate) struct Prover {
    segments: Arc<Segments>,
    /// Index of the segment that the next place belongs to.
    at: usize,
    /// The last place that was seen or passed over.
    seq: u64,
    /// The hash of that record; `None` where it was removed and nothing tells.
    hash: Option<ChainHash>,
    kept: KeptDigest,
    /// Records that somebody kept place and hash of.
    known: Vec<Head>,
    /// Those of them that were there, or are the end of a segment that was.
    met: Vec<Head>,
}

impl Prover {
    /// Begins before the first record.
    pub(crate) fn new(segments: Segments) -> Self {
        Self::behind(Head::START, Arc::new(segments))
    }

    /// Begins behind `head`, which is the end of a segment.
    pub(crate) fn behind(head: Head, segments: Arc<Segments>) -> Self {
        let at = segments
            .all()
            .partition_point(|segment| segment.last <= head.seq);
        Self {
            segments,
            at,
            seq: head.seq,
            hash: Some(head.hash),
            kept: KeptDigest::default(),
            known: Vec::new(),
            met: Vec::new(),
        }
    }

    /// Says later which of these the chain holds.
    pub(crate) fn looking_for(mut self, known: &[Head]) -> Self {
        self.known = known.to_vec();
        self
    }

    /// Those that it was looking for and that the chain holds.
    pub(crate) fn met(&self) -> &[Head] {
        &self.met
    }

    /// What the checkpoints say.
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The last place, and its hash as far as it is known.
    pub(crate) fn head(&self) -> Head {
        Head {
            seq: self.seq,
            hash: self.hash.unwrap_or(ChainHash::NONE),
        }
    }

    /// Takes the next record that is there.
    ///
    /// # Errors
    /// When a record before it is missing and no checkpoint says so, or it is not what was written.
    pub(crate) fn take(&mut self, record: &Record) -> Result<(), ChainFault> {
        self.pass_over(record.seq)?;
        let expected = Head {
            seq: self.seq,
            // Where the record before was removed, the digest of the segment vouches for this one.
            hash: self.hash.unwrap_or(record.prev),
        };
        let head = chain::follow(expected, record)?;
        if self.segment().is_some_and(|segment| segment.kept.is_some()) {
            self.kept.add(head);
        }
        self.reach(head.seq, Some(head.hash))
    }

    /// Ends the chain behind the record at `end`.
    ///
    /// # Errors
    /// When a checkpoint speaks of records behind the last one.
    pub(crate) fn finish(&mut self) -> Result<(), ChainFault> {
        let covered = self.segments.covered();
        self.pass_over(covered.saturating_add(1))?;
        if self.seq < covered {
            return Err(ChainFault::CutOff {
                signed: covered,
                found: self.seq,
            });
        }
        Ok(())
    }

    fn segment(&self) -> Option<&Segment> {
        self.segments.all().get(self.at)
    }

    /// Whether everything up to `last` is there or was removed.
    ///
    /// # Errors
    /// When a record is missing that no checkpoint lists.
    pub(crate) fn reaches(&mut self, last: u64) -> Result<(), ChainFault> {
        self.pass_over(last.saturating_add(1))?;
        if self.seq >= last {
            return Ok(());
        }
        Err(ChainFault::Order {
            expected: self.seq + 1,
            found: last.saturating_add(1),
        })
    }

    /// Passes over removed records below `next`, as far as checkpoints list them.
    fn pass_over(&mut self, next: u64) -> Result<(), ChainFault> {
        while self.seq + 1 < next {
            let Some(segment) = self.segment() else {
                return Ok(());
            };
            let missing = self.seq + 1;
            let runs = &segment.pruned;
            let run = runs.binary_search_by_key(&missing, |(first, _)| *first);
            let run = run.ok().and_then(|place| runs.get(place));
            let Some((_, last)) = run.copied().filter(|(_, last)| *last < next) else {
                return Ok(());
            };
            self.reach(last, None)?;
        }
        Ok(())
    }

    /// Stands at a place now, and ends its segment if it is the last one.
    fn reach(&mut self, seq: u64, hash: Option<ChainHash>) -> Result<(), ChainFault> {
        self.seq = seq;
        self.hash = hash;
        let ended = match self.segments.all().get(self.at) {
            Some(segment) if seq >= segment.last => {
                let kept = std::mem::take(&mut self.kept).finish();
                self.hash = Some(segment.hash);
                self.at += 1;
                differs(segment, hash, kept).map_or(Ok(()), Err)
            }
            _ => Ok(()),
        };
        let here = self.head();
        if self.known.contains(&here) {
            self.met.push(here);
        }
        ended
    }
}

fn differs(segment: &Segment, hash: Option<ChainHash>, kept: ChainHash) -> Option<ChainFault> {
    let end_is_another = hash.is_some_and(|hash| hash != segment.hash);
    let rest_is_another = segment.kept.is_some_and(|signed| signed != kept);
    (end_is_another || rest_is_another).then_some(ChainFault::NotAsSigned {
        first: segment.first,
        last: segment.last,
    })
}
