//! The search of a database: every chain newest first, merged by time.
//!
//! A chain's newest records, which no index has yet, are read line by line; older ones are proposed
//! by the terms of their block. A [`Shelf`] is what a database has to offer for that.

use std::{collections::VecDeque, ops::RangeInclusive};

use super::{
    Found, Marks, Page, Position, Query,
    filter::{Known, Needles},
    posting::{BLOCK, Places},
    term::{sourced, told},
};
use crate::{chain::Head, log::ReadLogError, row::Row, store::StoreError};

/// Lines and terms in a database. Lines that are gone are left out.
pub(crate) trait Shelf {
    /// For messages.
    fn place(&self) -> String;
    fn chains(&mut self) -> Result<Vec<Chain>, StoreError>;
    /// Indexed blocks below `before`, newest first.
    fn blocks(&mut self, chain: u32, before: u64, most: u32) -> Result<Vec<Block>, StoreError>;
    /// For each block the places that have a term of every group.
    fn meet(&mut self, blocks: &[i64], groups: &[Vec<i64>]) -> Result<Vec<Places>, StoreError>;
    /// The lines at these places, in this order.
    fn lines_at(&mut self, chain: u32, places: &[u64]) -> Result<Vec<(u64, String)>, StoreError>;
    /// Lines from `from` to below `before`, newest first.
    fn lines_before(
        &mut self,
        chain: u32,
        before: u64,
        from: u64,
        most: u32,
    ) -> Result<Vec<(u64, String)>, StoreError>;
    /// How many lines stand where no chain has any: behind its end, or without a chain. And the keys
    /// of at most `most` of them.
    fn strays(&mut self, most: u32) -> Result<(u64, Vec<i64>), StoreError>;

    /// How many records have these keys, both ends included.
    fn count(&mut self, keys: (i64, i64)) -> Result<u64, StoreError>;
    /// The signed checkpoints of a chain, in order.
    fn checkpoints(&mut self, chain: u32) -> Result<Vec<String>, StoreError>;
    /// The newest checkpoint of each segment that ends at a place of `ends`, in order; of `most` segments.
    fn newest_checkpoints(
        &mut self,
        chain: u32,
        ends: RangeInclusive<u64>,
        most: u32,
    ) -> Result<Vec<String>, StoreError>;
    /// One checkpoint by its number.
    fn checkpoint(&mut self, chain: u32, number: u64) -> Result<Option<String>, StoreError>;
    /// Lines behind `after`, oldest first.
    fn lines_after(
        &mut self,
        chain: u32,
        after: u64,
        most: u32,
    ) -> Result<Vec<(u64, String)>, StoreError>;
}

/// One machine's chain.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) chain: u32,
    pub(crate) node: String,
    pub(crate) head: Head,
}

/// A block that is indexed.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// `position / 4096`.
    pub(crate) key: i64,
    pub(crate) first_time: String,
    pub(crate) last_time: String,
}

impl Block {
    /// The first place of the block in its chain.
    pub(crate) fn first(&self) -> u64 {
        (self.key.cast_unsigned() % BLOCKS_OF_CHAIN) * u64::from(BLOCK)
    }
}

/// The key of a line: chain and place in one number that fits a database's integer.
pub(crate) fn key_of(chain: u32, seq: u64) -> i64 {
    ((u64::from(chain) << SEQ_BITS) | (seq & ((1 << SEQ_BITS) - 1))).cast_signed()
}

/// The place that a key names.
pub(crate) fn position_of(key: i64) -> Position {
    let key = key.cast_unsigned();
    Position {
        // 24 bits are left of 64.
        chain: u32::try_from(key >> SEQ_BITS).unwrap_or(u32::MAX),
        seq: key & ((1 << SEQ_BITS) - 1),
    }
}

/// Ranges of keys, both ends included, in which no chain of `chains` has a record.
pub(crate) fn between(chains: &[Chain]) -> Vec<(i64, i64)> {
    let mut ranges = Vec::new();
    let mut from = i64::MIN;
    let mut sorted: Vec<&Chain> = chains.iter().collect();
    sorted.sort_unstable_by_key(|chain| chain.chain);
    for chain in sorted {
        ranges.push((from, key_of(chain.chain, 0)));
        from = key_of(chain.chain, chain.head.seq).saturating_add(1);
    }
    ranges.push((from, i64::MAX));
    ranges
}

/// One page, given up as soon as `stop` says so.
pub(crate) fn search(
    shelf: &mut impl Shelf,
    query: &Query,
    stop: &dyn Fn() -> bool,
) -> Result<Page, ReadLogError> {
    let plan = Plan {
        stop,
        query,
        needles: query.filter.needles(),
    };
    let mut walks = Vec::new();
    for chain in shelf.chains()? {
        walks.push(Walk::new(shelf, &chain, query.before.as_ref())?);
    }
    let mut records = Vec::new();
    while records.len() < query.limit {
        let Some(found) = newest(&mut walks, shelf, &plan)? else {
            return Ok(Page {
                records,
                next: None,
            });
        };
        records.push(found);
    }
    // Whether anything is behind this page decides if there is another.
    let mut more = false;
    for walk in &mut walks {
        walk.fill(shelf, &plan)?;
        more |= !walk.ready.is_empty();
    }
    let marks = walks.iter().map(|walk| (walk.chain, walk.bound));
    Ok(Page {
        next: more.then(|| Marks(marks.collect())),
        records,
    })
}

struct Plan<'a> {
    stop: &'a dyn Fn() -> bool,
    query: &'a Query,
    needles: Needles,
}

impl Plan<'_> {
    /// For each block, newest first, the places to look at. An index was made by the gig of its day: where that knew less
    /// more is looked at, so that nothing is missed.
    fn meet(&self, shelf: &mut impl Shelf, blocks: &[i64]) -> Result<Vec<Places>, StoreError> {
        let filter = &self.query.filter;
        let knows = self.known(shelf, blocks)?;
        let mut met = [Known::Old, Known::Deeds, Known::All].map(|known| {
            let some = blocks.iter().zip(&knows);
            let some = some.filter(|(_, knows)| **knows == known);
            let some: Vec<i64> = some.map(|(block, _)| *block).collect();
            match some.is_empty() {
                true => Ok(Vec::new().into_iter()),
                false => shelf.meet(&some, &filter.groups(known)).map(Vec::into_iter),
            }
        });
        let mut places = Vec::with_capacity(blocks.len());
        for knows in knows {
            let [old, deeds, all] = &mut met;
            let of = match knows {
                Known::Old => old,
                Known::Deeds => deeds,
                Known::All => all,
            };
            match of {
                Ok(of) => places.extend(of.next()),
                Err(_) => break,
            }
        }
        for one in met {
            one?;
        }
        Ok(places)
    }

    /// How much the index of each block knows of what is asked for. Blocks are indexed in order and gigs grow newer:
    /// where the oldest of some knows it, so do the others.
    fn known(&self, shelf: &mut impl Shelf, blocks: &[i64]) -> Result<Vec<Known>, StoreError> {
        let filter = &self.query.filter;
        let enough = match (filter.src.is_empty(), filter.text.is_empty()) {
            (true, true) => return Ok(vec![Known::All; blocks.len()]),
            (true, false) => [vec![told()]],
            (false, _) => [vec![sourced()]],
        };
        let oldest = blocks.get(blocks.len().saturating_sub(1)..);
        let oldest = shelf.meet(oldest.unwrap_or_default(), &enough)?;
        if oldest.iter().all(|places| !places.is_empty()) {
            return Ok(vec![Known::All; blocks.len()]);
        }
        let told = shelf.meet(blocks, &[vec![told()]])?;
        let sourced = shelf.meet(blocks, &[vec![sourced()]])?;
        let has = |all: &[Places], place: usize| all.get(place).is_some_and(|one| !one.is_empty());
        let known = |place| match (has(&told, place), has(&sourced, place)) {
            (_, true) => Known::All,
            (true, false) => Known::Deeds,
            (false, false) => Known::Old,
        };
        Ok((0..blocks.len()).map(known).collect())
    }
}

/// Takes the newest record of all chains.
fn newest(
    walks: &mut [Walk],
    shelf: &mut impl Shelf,
    plan: &Plan<'_>,
) -> Result<Option<Found>, ReadLogError> {
    for walk in walks.iter_mut() {
        walk.fill(shelf, plan)?;
    }
    let first = |walk: &Walk| walk.ready.front().map(|found| found.row.time.clone());
    let best = walks
        .iter_mut()
        .filter(|walk| !walk.ready.is_empty())
        .max_by(|one, other| first(one).cmp(&first(other)));
    Ok(best.and_then(Walk::take))
}

/// One chain, read from its end.
struct Walk {
    chain: u32,
    /// Everything from here on is given out.
    bound: u64,
    /// Everything from here on is read.
    before: u64,
    /// Below this everything is indexed.
    floor: u64,
    /// Places of read blocks that a line was not fetched for.
    proposed: VecDeque<u64>,
    /// Found and not given out.
    ready: VecDeque<Found>,
    /// How many blocks to look at next.
    stride: u32,
}

impl Walk {
    fn new(
        shelf: &mut impl Shelf,
        chain: &Chain,
        before: Option<&Marks>,
    ) -> Result<Self, StoreError> {
        let end = chain.head.seq + 1;
        // A chain that the cursor does not name began after its search did.
        let bound = before.map_or(end, |marks| marks.of(chain.chain).min(end));
        let newest = shelf.blocks(chain.chain, u64::MAX, 1)?;
        let floor = newest
            .first()
            .map_or(0, |block| block.first() + u64::from(BLOCK));
        Ok(Self {
            chain: chain.chain,
            bound,
            before: bound,
            floor,
            proposed: VecDeque::new(),
            ready: VecDeque::new(),
            stride: FIRST_STRIDE,
        })
    }

    fn take(&mut self) -> Option<Found> {
        let found = self.ready.pop_front()?;
        self.bound = found.at.seq;
        Some(found)
    }

    /// Reads on until something is ready or the chain is read whole.
    fn fill(&mut self, shelf: &mut impl Shelf, plan: &Plan<'_>) -> Result<(), ReadLogError> {
        while self.ready.is_empty() {
            // A look is some hundred lines or blocks: milliseconds.
            if (plan.stop)() {
                return Err(ReadLogError::Stopped);
            }
            if !self.proposed.is_empty() {
                self.fetch(shelf, plan)?;
            } else if self.before > self.floor {
                self.read_newest(shelf, plan)?;
            } else if self.before == 0 || !self.propose(shelf, plan)? {
                self.before = 0;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Lines without an index.
    fn read_newest(&mut self, shelf: &mut impl Shelf, plan: &Plan<'_>) -> Result<(), ReadLogError> {
        let lines = shelf.lines_before(self.chain, self.before, self.floor, LINES_AT_ONCE)?;
        self.before = match lines.last() {
            Some((seq, _)) => *seq,
            None => self.floor,
        };
        self.judge(lines, shelf, plan)
    }

    /// Looks at the next blocks; false when there are no more.
    fn propose(&mut self, shelf: &mut impl Shelf, plan: &Plan<'_>) -> Result<bool, StoreError> {
        let below = self.before.div_ceil(u64::from(BLOCK));
        let blocks = shelf.blocks(self.chain, below, self.stride)?;
        let Some(oldest) = blocks.last() else {
            return Ok(false);
        };
        let next = oldest.first();
        self.stride = (self.stride * 2).min(LAST_STRIDE);
        let filter = &plan.query.filter;
        let in_time = |block: &&Block| {
            filter
                .since
                .as_ref()
                .is_none_or(|since| block.last_time >= *since)
                && filter
                    .until
                    .as_ref()
                    .is_none_or(|until| block.first_time < *until)
        };
        let wanted: Vec<&Block> = blocks.iter().filter(in_time).collect();
        let keys: Vec<i64> = wanted.iter().map(|block| block.key).collect();
        let met = plan.meet(shelf, &keys)?;
        for (block, places) in wanted.into_iter().zip(met) {
            let first = block.first();
            let seqs = places.newest_first().map(|place| first + u64::from(place));
            self.proposed.extend(seqs.filter(|seq| *seq < self.before));
        }
        self.before = next;
        Ok(true)
    }

    /// Fetches the next proposed lines.
    fn fetch(&mut self, shelf: &mut impl Shelf, plan: &Plan<'_>) -> Result<(), ReadLogError> {
        let some = plan.query.limit.clamp(LEAST_FETCHED, MOST_FETCHED);
        let places: Vec<u64> = self
            .proposed
            .drain(..some.min(self.proposed.len()))
            .collect();
        let lines = shelf.lines_at(self.chain, &places)?;
        self.judge(lines, shelf, plan)
    }

    fn judge(
        &mut self,
        lines: Vec<(u64, String)>,
        shelf: &impl Shelf,
        plan: &Plan<'_>,
    ) -> Result<(), ReadLogError> {
        for (seq, line) in lines {
            if !plan.needles.may_match(line.as_bytes()) {
                continue;
            }
            let row = Row::read(&line).map_err(|source| ReadLogError::Row {
                place: shelf.place(),
                seq,
                source,
            })?;
            if plan.query.filter.matches(&row) {
                let at = Position {
                    chain: self.chain,
                    seq,
                };
                self.ready.push_back(Found { at, line, row });
            }
        }
        Ok(())
    }
}

/// Records of one chain: a hundred years of 300 a second.
pub(crate) const SEQ_BITS: u32 = 40;
/// Blocks of one chain.
pub(crate) const BLOCKS_OF_CHAIN: u64 = (1 << SEQ_BITS) / BLOCK as u64;
/// Most pages are answered by the newest blocks.
const FIRST_STRIDE: u32 = 8;
/// Some megabytes of places at most.
const LAST_STRIDE: u32 = 256;
const LINES_AT_ONCE: u32 = 512;
const LEAST_FETCHED: usize = 16;
const MOST_FETCHED: usize = 256;
