//! What was signed around one record: its segment, and the segments that are missing beside it.
//!
//! Of each segment only its newest checkpoint is read: its own signature, and that it names the one before it.
//! That all of them are there and agree is the proof of the whole chain, not this one's.

use std::ops::RangeInclusive;

use super::{Gap, Known};
use crate::{
    chain::{ChainFault, Head},
    checkpoint::{self, Checkpoint, CheckpointFault, segments::Segment},
    record::ChainHash,
    search::walk::{Chain, Shelf},
    store::StoreError,
};

/// The checkpoints of one chain, as far as somebody looks.
pub(super) struct Signed<'a, S> {
    pub(super) shelf: &'a mut S,
    pub(super) chain: &'a Chain,
    pub(super) known: &'a Known,
    /// Of how many missing segments beside a record.
    pub(super) most: u32,
}

/// What was signed of the segment that covers a place.
pub(super) struct Said {
    pub(super) checkpoint: Checkpoint,
    pub(super) segment: Segment,
    pub(super) is_known: bool,
    /// Where the segment before it ends.
    pub(super) before: Head,
}

impl<S: Shelf> Signed<'_, S> {
    /// The segment of a place; `None` where nothing was signed of it.
    pub(super) fn around(
        &mut self,
        place: u64,
    ) -> Result<Result<Option<Said>, ChainFault>, StoreError> {
        let Some(line) = self.newest(place..=u64::MAX, 1)?.pop() else {
            return Ok(Ok(None));
        };
        let one = match self.follows(&line)? {
            Ok(one) if (one.segment.first..=one.segment.last).contains(&place) => one,
            Ok(one) => return Ok(Err(one.contradicts())),
            Err(why) => return Ok(Err(why)),
        };
        let before = match self.end_before(&one)? {
            Ok(before) => before,
            Err(why) => return Ok(Err(why)),
        };
        Ok(Ok(Some(Said {
            checkpoint: one.checkpoint,
            segment: one.segment,
            is_known: one.is_known,
            before,
        })))
    }

    /// Whether every one of `places` was removed, as checkpoints say; `gap` is told how far that was looked at, and
    /// who signed it.
    pub(super) fn gone(
        &mut self,
        places: RangeInclusive<u64>,
        gap: &mut Gap,
    ) -> Result<Result<(), ChainFault>, StoreError> {
        let (mut next, last) = (*places.start(), *places.end());
        let mut looked = 0;
        while looked < self.most {
            let most = AT_ONCE.min(self.most - looked);
            let lines = self.newest(next..=u64::MAX, most)?;
            if lines.is_empty() {
                return Ok(Err(missing(next, last)));
            }
            for line in lines {
                match self.runs_on(&line, next, last, gap) {
                    Ok(end) if end >= last => return Ok(Ok(())),
                    Ok(end) => next = end + 1,
                    Err(why) => return Ok(Err(why)),
                }
                looked += 1;
            }
        }
        gap.is_long = true;
        // What is nearest to the later record is looked at in any case.
        let Some(line) = self.newest(last..=u64::MAX, 1)?.pop() else {
            return Ok(Err(missing(last, last)));
        };
        let nearest = self.open(&line).map(|one| one.segment.first.max(next));
        let shown = nearest.and_then(|from| self.runs_on(&line, from, last, gap));
        Ok(shown.map(drop))
    }

    /// How far a segment's removed places run on from `next`: to its end, or to `last`.
    fn runs_on(&self, line: &str, next: u64, last: u64, gap: &mut Gap) -> Result<u64, ChainFault> {
        let one = self.open(line)?;
        let segment = &one.segment;
        let run = segment.pruned.partition_point(|(_, end)| *end < next);
        let run = segment.pruned.get(run);
        let run = run.filter(|(first, end)| *first <= next && *end >= last.min(segment.last));
        let Some((_, end)) = run else {
            return Err(missing(next, last));
        };
        if !one.is_known {
            gap.stranger = Some(one.checkpoint.key);
        }
        Ok(*end)
    }

    /// Where the segment before ends.
    fn end_before(&mut self, one: &One) -> Result<Result<Head, ChainFault>, StoreError> {
        let end = one.segment.first - 1;
        if end == 0 {
            return Ok(Ok(Head::START));
        }
        let Some(line) = self.newest(end..=end, 1)?.pop() else {
            return Ok(Err(one.contradicts()));
        };
        Ok(match self.follows(&line)? {
            Ok(before) if before.segment.last == end => Ok(before.segment.end()),
            Ok(before) => Err(before.contradicts()),
            Err(why) => Err(why),
        })
    }

    /// A checkpoint that names the one before it.
    fn follows(&mut self, line: &str) -> Result<Result<One, ChainFault>, StoreError> {
        let one = match self.open(line) {
            Ok(one) => one,
            Err(why) => return Ok(Err(why)),
        };
        let number = one.checkpoint.number;
        let before = match number.checked_sub(2) {
            Some(_) => self.shelf.checkpoint(self.chain.chain, number - 1)?,
            None => None,
        };
        let prev = before.map_or(ChainHash::NONE, |line| checkpoint::digest(&line));
        if prev == one.checkpoint.prev {
            return Ok(Ok(one));
        }
        let expected = number;
        let why = CheckpointFault::Order { expected, prev };
        Ok(Err(ChainFault::Checkpoint { number, why }))
    }

    /// A checkpoint of this chain, whose signature holds; of the own chain only by a key that is known.
    fn open(&self, line: &str) -> Result<One, ChainFault> {
        let fault = |number, why| ChainFault::Checkpoint { number, why };
        let checkpoint = checkpoint::open(line).map_err(|why| fault(number_of(line), why))?;
        let number = checkpoint.number;
        if *checkpoint.node != *self.chain.node {
            return Err(fault(number, CheckpointFault::Elsewhere(checkpoint.node)));
        }
        let is_known = self.known.keys.contains(&checkpoint.key);
        if !is_known && self.chain.node == self.known.node {
            return Err(fault(number, CheckpointFault::ForeignKey(checkpoint.key)));
        }
        let Some(segment) = Segment::of(&checkpoint) else {
            let (first, last) = (checkpoint.first, checkpoint.last);
            return Err(fault(
                number,
                CheckpointFault::Contradiction { first, last },
            ));
        };
        Ok(One {
            checkpoint,
            segment,
            is_known,
        })
    }

    fn newest(&mut self, ends: RangeInclusive<u64>, most: u32) -> Result<Vec<String>, StoreError> {
        self.shelf.newest_checkpoints(self.chain.chain, ends, most)
    }
}

/// One checkpoint by itself.
struct One {
    checkpoint: Checkpoint,
    segment: Segment,
    is_known: bool,
}

impl One {
    fn contradicts(&self) -> ChainFault {
        let Segment { first, last, .. } = self.segment;
        ChainFault::Checkpoint {
            number: self.checkpoint.number,
            why: CheckpointFault::Contradiction { first, last },
        }
    }
}

/// What a line that is no checkpoint says of its number; 0 where it says nothing.
fn number_of(line: &str) -> u64 {
    let value: Option<serde_json::Value> = serde_json::from_str(line).ok();
    let number =
        value.and_then(|value| value.get("checkpoint").and_then(serde_json::Value::as_u64));
    number.unwrap_or(0)
}

/// Records are missing that no checkpoint lists.
fn missing(next: u64, last: u64) -> ChainFault {
    ChainFault::Order {
        expected: next,
        found: last + 1,
    }
}

/// Their lines are some hundred octets each where nothing is left of a segment.
const AT_ONCE: u32 = 64;
