//! Removing old records so that the rest stays provable.
//!
//! Whole segments are looked at, and only signed ones. What is there of a segment is proved first:
//! nothing is signed anew that does not hold. Then the list of what goes, with a digest of what stays,
//! is signed and the records removed, in one transaction. The chain's last record always stays.

use std::{collections::BTreeMap, sync::Arc};

use thiserror::Error;

use super::{StoreError, postgres::OpenRecordError, sqlite::OpenSqliteError};
use crate::{
    chain::{self, ChainFault, Head},
    checkpoint::{KeptDigest, Prover, Segments, Statement, segments::Segment},
    counts::{
        counting::Ledger,
        removing::{Old, drop_counts},
    },
    log::indexed::put_together,
    retention::{Class, Retention},
    row::Row,
    search::{
        posting::BLOCK,
        walk::{Chain, key_of},
    },
    signing::{PublicKey, SigningKey},
};

/// What to remove, and who vouches for the rest.
#[derive(Debug)]
pub struct Prune<'a> {
    /// Signs what is removed.
    pub key: &'a SigningKey,
    /// Others whose checkpoints are believed.
    pub trusted: &'a [PublicKey],
    /// Of whose chain alone; `None` for every chain there is.
    pub only: Option<&'a str>,
    /// What goes.
    pub retention: &'a Retention,
    /// Only count.
    pub dry_run: bool,
}

/// What became of one chain.
#[derive(Debug)]
pub struct PrunedChain {
    /// Whose.
    pub node: String,
    /// How many records went, by class; or why nothing more did.
    pub outcome: Result<BTreeMap<Class, u64>, ChainFault>,
}

/// A database could not be pruned.
#[derive(Debug, Error)]
pub enum PruneError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenSqliteError),
    /// It cannot be opened, and is a fleet's.
    #[error(transparent)]
    OpenRecord(#[from] OpenRecordError),
    /// It failed; what was removed before is signed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A database that can be pruned.
pub(super) trait Shears: Ledger {
    /// From here on it is read as it is now.
    fn hold_moment(&mut self) -> Result<(), StoreError>;

    /// No more.
    fn end_moment(&mut self) -> Result<(), StoreError>;

    /// The last places of the segments that checkpoints behind number `known` speak of.
    fn since(&mut self, chain: u32, known: u64) -> Result<Vec<u64>, StoreError>;

    /// Signs what is said of a segment as the chain's next checkpoint, removes what it lists, and keeps until when
    /// that was written and that its blocks are untidy; false, and nothing done, where a checkpoint behind number
    /// `known` speaks of the same segment.
    fn cut(
        &mut self,
        whose: (u32, &str),
        known: u64,
        key: &SigningKey,
        going: (&Statement, &Goes),
    ) -> Result<bool, StoreError>;

    /// Blocks whose terms still say what was in removed records.
    fn untidy(&mut self) -> Result<Vec<i64>, StoreError>;

    /// Takes the places of removed records out of a block's terms: what was in them is not to be guessed
    /// from the index. It is tidy then.
    fn forget(&mut self, block: i64) -> Result<(), StoreError>;
}

/// Removes old records, chain by chain.
pub(super) fn prune(
    shears: &mut impl Shears,
    prune: &Prune<'_>,
) -> Result<Vec<PrunedChain>, StoreError> {
    if !prune.dry_run {
        // Whoever removed before may have been ended in between.
        tidy(shears)?;
    }
    let mut pruned = Vec::new();
    let asked = |chain: &Chain| prune.only.is_none_or(|node| node == chain.node);
    for chain in shears.chains()?.into_iter().filter(asked) {
        let outcome = prune_chain(shears, &chain, prune)?;
        if let Ok((_, covered)) = &outcome
            && !prune.dry_run
        {
            let stays = first_behind(shears, chain.chain, *covered)?;
            for (class, before) in prune.retention.each() {
                let old = Old {
                    chain: Some(chain.chain),
                    class: Some(class.as_str()),
                    before: stays.as_deref().map_or(before, |stays| before.min(stays)),
                };
                drop_counts(shears, &old)?;
            }
        }
        pruned.push(PrunedChain {
            node: chain.node,
            outcome: outcome.map(|(counts, _)| counts),
        });
    }
    Ok(pruned)
}

type Counts = BTreeMap<Class, u64>;

/// What goes of a segment.
pub(super) type Goes = BTreeMap<Class, Going>;

/// Records of a class that go.
#[derive(Debug, Default)]
pub(super) struct Going {
    count: u64,
    /// When the newest was written.
    pub(super) newest: String,
}

/// When the first record was written that no checkpoint covers: it stays, however old it is, and so do its counts.
fn first_behind(
    shears: &mut impl Shears,
    chain: u32,
    covered: u64,
) -> Result<Option<String>, StoreError> {
    let first = shears.lines_after(chain, covered, 1)?.pop();
    // What is no record says nothing of its time: nothing is dropped then.
    Ok(first.map(|(_, line)| Row::read(&line).map_or_else(|_| String::new(), |row| row.time)))
}

/// How many records went, and the last place that is signed.
fn prune_chain(
    shears: &mut impl Shears,
    chain: &Chain,
    prune: &Prune<'_>,
) -> Result<Result<(Counts, u64), ChainFault>, StoreError> {
    let mut trusted = prune.trusted.to_vec();
    trusted.push(prune.key.public());
    let lines = shears.checkpoints(chain.chain)?;
    let segments = match put_together(&lines, chain, &trusted) {
        // Nothing is signed yet: nothing can go.
        Err(ChainFault::Unsigned) => return Ok(Ok((Counts::new(), 0))),
        Err(fault) => return Ok(Err(fault)),
        Ok(segments) => Arc::new(segments),
    };
    let mut counts = Counts::new();
    let mut before = Head::START;
    for segment in segments.all() {
        let end = segment.end();
        if !segment.is_gone() {
            // Records as their checkpoints list them: somebody else may prune at the same time.
            shears.hold_moment()?;
            let left = Left::read(shears, (chain, segment), before, &segments, prune);
            shears.end_moment()?;
            let left = match left? {
                Ok(left) => left,
                Err(fault) => return Ok(Err(fault)),
            };
            let gone = prune.dry_run
                || left.goes.is_empty()
                || left.write(shears, (chain, segment), &segments, prune.key)?;
            for (class, going) in left.goes.into_iter().filter(|_| gone) {
                *counts.entry(class).or_default() += going.count;
            }
        }
        before = end;
    }
    Ok(Ok((counts, segments.covered())))
}

/// Whether the first record that is left is old enough for any to go.
fn begins_before(
    shears: &mut impl Shears,
    chain: &Chain,
    segment: &Segment,
    retention: &Retention,
) -> Result<bool, StoreError> {
    let before = segment.first.saturating_sub(1);
    let first = shears.lines_after(chain.chain, before, 1)?.pop();
    let first = first.filter(|(seq, _)| *seq <= segment.last);
    // What is no record is for the proof to name.
    let record = first.and_then(|(_, line)| chain::open(format!("{line}\n").as_bytes()).ok());
    let newest = retention.newest();
    Ok(record.is_none_or(|record| newest.is_some_and(|newest| record.time.as_str() < newest)))
}

/// What stays of a segment, and what goes.
struct Left {
    stays: Vec<Head>,
    goes: Goes,
}

impl Left {
    fn read(
        shears: &mut impl Shears,
        (chain, segment): (&Chain, &Segment),
        before: Head,
        segments: &Arc<Segments>,
        prune: &Prune<'_>,
    ) -> Result<Result<Self, ChainFault>, StoreError> {
        let mut left = Self {
            stays: Vec::new(),
            goes: Goes::new(),
        };
        let others = shears.since(chain.chain, segments.count())?;
        if others.contains(&segment.last)
            || !begins_before(shears, chain, segment, prune.retention)?
        {
            return Ok(Ok(left));
        }
        let mut prover = Prover::behind(before, Arc::clone(segments));
        let mut read = segment.first.saturating_sub(1);
        while read < segment.last {
            let mut lines = shears.lines_after(chain.chain, read, LINES_AT_ONCE)?;
            lines.retain(|(seq, _)| *seq <= segment.last);
            let Some((last, _)) = lines.last() else { break };
            read = *last;
            for (seq, line) in &lines {
                if let Err(fault) = left.take((*seq, line), chain, &mut prover, prune) {
                    return Ok(Err(fault));
                }
            }
        }
        Ok(prover.reaches(segment.last).map(|()| left))
    }

    fn take(
        &mut self,
        (seq, line): (u64, &str),
        chain: &Chain,
        prover: &mut Prover,
        prune: &Prune<'_>,
    ) -> Result<(), ChainFault> {
        let record = chain::open(format!("{line}\n").as_bytes())?;
        if record.seq != seq {
            return Err(ChainFault::Elsewhere {
                place: seq,
                seq: record.seq,
                node: record.node,
            });
        }
        prover.take(&record)?;
        let is_end = record.seq == chain.head.seq;
        if prune.retention.removes(&record) && !is_end {
            let class = Class::of(record.entry.event);
            let going = self.goes.entry(class).or_default();
            going.count += 1;
            going.newest = record.time.max(std::mem::take(&mut going.newest));
        } else {
            self.stays.push(Head {
                seq: record.seq,
                hash: record.hash,
            });
        }
        Ok(())
    }

    /// Signs the segment anew and removes what goes; false, and nothing done, where somebody else did
    /// so since it was read.
    fn write(
        &self,
        shears: &mut impl Shears,
        (chain, segment): (&Chain, &Segment),
        known: &Segments,
        key: &SigningKey,
    ) -> Result<bool, StoreError> {
        let mut kept = KeptDigest::default();
        let mut pruned = Vec::new();
        let mut next = segment.first;
        for record in &self.stays {
            if next < record.seq {
                pruned.push((next, record.seq - 1));
            }
            next = record.seq + 1;
            kept.add(*record);
        }
        if next <= segment.last {
            pruned.push((next, segment.last));
        }
        let statement = Statement {
            first: segment.first,
            last: segment.last,
            hash: segment.hash,
            inherited: segment.inherited,
            kept: Some(kept.finish()),
            pruned,
        };
        let whose = (chain.chain, chain.node.as_str());
        if !shears.cut(whose, known.count(), key, (&statement, &self.goes))? {
            return Ok(false);
        }
        tidy(shears)?;
        Ok(true)
    }
}

/// Makes all blocks tidy, each by itself: who writes to the record waits for one at most.
fn tidy(shears: &mut impl Shears) -> Result<(), StoreError> {
    let mut untidy = shears.untidy()?.into_iter();
    untidy.try_for_each(|block| shears.forget(block))
}

/// The blocks that hold a segment.
pub(super) fn blocks(chain: u32, statement: &Statement) -> impl Iterator<Item = i64> {
    let size = i64::from(BLOCK);
    let first = key_of(chain, statement.first) / size;
    let last = key_of(chain, statement.last) / size;
    first..=last
}

/// Some megabytes.
const LINES_AT_ONCE: u32 = 4096;
