//! Removing old records so that the rest stays provable.
//!
//! Whole segments are looked at, and only signed ones. What is there of a segment is proved first:
//! nothing is signed anew that does not hold. Then the list of what goes, with a digest of what stays,
//! is signed and the records removed, in one transaction. The chain's last record always stays.

use std::{collections::BTreeMap, io, path::Path, sync::Arc, time::Duration};

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use thiserror::Error;

use super::{OpenSqliteError, Place, database, seal, shelf, without_links};
use crate::{
    chain::{self, ChainFault, Head},
    checkpoint::{KeptDigest, Prover, Segments, Statement, segments::Segment},
    log::indexed::put_together,
    retention::{Class, Retention},
    search::{
        posting::{BLOCK, Places, encode},
        walk::{Chain, key_of},
    },
    signing::{PublicKey, SigningKey},
    store::StoreError,
};

/// What to remove, and who vouches for the rest.
#[derive(Debug)]
pub struct Prune<'a> {
    /// Signs what is removed.
    pub key: &'a SigningKey,
    /// Others whose checkpoints are believed.
    pub trusted: &'a [PublicKey],
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
    /// It failed; what was removed before is signed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Removes old records of the database at `path`, chain by chain.
///
/// # Errors
/// When the database cannot be used. A chain that does not hold is an answer, and keeps its records.
pub fn prune(path: &Path, prune: &Prune<'_>) -> Result<Vec<PrunedChain>, PruneError> {
    let not_found = |source| OpenSqliteError::File {
        path: path.to_owned(),
        source,
    };
    let path = &without_links(path).map_err(not_found)?;
    // It must be there: a database is not made to be pruned.
    let place = Place::of(path).map_err(not_found)?;
    let mut connection = database::open_to_write(path)?;
    let failed = |e: rusqlite::Error| place.error("prune", io::Error::other(e));
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    // What goes is overwritten, not only forgotten.
    connection
        .pragma_update(None, "secure_delete", "ON")
        .map_err(failed)?;
    let mut pruned = Vec::new();
    for chain in shelf::chains(&connection).map_err(failed)? {
        let outcome = prune_chain(&mut connection, &chain, prune).map_err(failed)?;
        pruned.push(PrunedChain {
            node: chain.node,
            outcome,
        });
    }
    if !prune.dry_run {
        // The log still holds what went. Others may read: then the next checkpoint does it.
        connection.busy_timeout(SHORT_PATIENCE).map_err(failed)?;
        let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        emptied.map_err(failed)?;
    }
    Ok(pruned)
}

type Counts = BTreeMap<Class, u64>;

fn prune_chain(
    connection: &mut Connection,
    chain: &Chain,
    prune: &Prune<'_>,
) -> Result<Result<Counts, ChainFault>, rusqlite::Error> {
    let mut trusted = prune.trusted.to_vec();
    trusted.push(prune.key.public());
    let lines = seal::lines(connection, chain.chain)?;
    let segments = match put_together(&lines, chain, &trusted) {
        // Nothing is signed yet: nothing can go.
        Err(ChainFault::Unsigned) => return Ok(Ok(Counts::new())),
        Err(fault) => return Ok(Err(fault)),
        Ok(segments) => Arc::new(segments),
    };
    let mut counts = Counts::new();
    let mut before = Head::START;
    for segment in segments.all() {
        let end = segment.end();
        if !segment.is_gone() {
            // Records as their checkpoints list them: somebody else may prune at the same time.
            let moment = connection.transaction()?;
            let left = Left::read(&moment, (chain, segment), before, &segments, prune)?;
            moment.finish()?;
            let left = match left {
                Ok(left) => left,
                Err(fault) => return Ok(Err(fault)),
            };
            let gone = prune.dry_run
                || left.goes.is_empty()
                || left.write(connection, (chain, segment), &segments, prune.key)?;
            for (class, count) in left.goes.into_iter().filter(|_| gone) {
                *counts.entry(class).or_default() += count;
            }
        }
        before = end;
    }
    Ok(Ok(counts))
}

/// Whether the first record that is left is old enough for any to go.
fn begins_before(
    connection: &Connection,
    chain: &Chain,
    segment: &Segment,
    retention: &Retention,
) -> Result<bool, rusqlite::Error> {
    let first: Option<String> = connection
        .prepare_cached(
            "SELECT line FROM record WHERE position BETWEEN ?1 AND ?2 ORDER BY position LIMIT 1",
        )?
        .query_row(
            [
                key_of(chain.chain, segment.first),
                key_of(chain.chain, segment.last),
            ],
            |row| row.get(0),
        )
        .optional()?;
    // What is no record is for the proof to name.
    let record = first.and_then(|line| chain::open(format!("{line}\n").as_bytes()).ok());
    let newest = retention.newest();
    Ok(record.is_none_or(|record| newest.is_some_and(|newest| record.time.as_str() < newest)))
}

/// Takes the places of removed records out of a block's terms: what was in them is not to be guessed
/// from the index.
fn forget(connection: &mut Connection, block: i64) -> Result<(), rusqlite::Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut there = Places::NONE;
    let first = block * i64::from(BLOCK);
    let mut look = transaction
        .prepare_cached("SELECT position - ?1 FROM record WHERE position BETWEEN ?1 AND ?2")?;
    for place in look.query_map([first, first + i64::from(BLOCK) - 1], |row| row.get(0))? {
        there.add(place?);
    }
    drop(look);
    let mut look =
        transaction.prepare_cached("SELECT term, places FROM posting WHERE block = ?1")?;
    let terms = look.query_map([block], |row| {
        Ok((row.get(0)?, Places::decode(row.get_ref(1)?.as_blob()?)))
    })?;
    let terms: Vec<(i64, Places)> = terms.collect::<Result<_, _>>()?;
    drop(look);
    for (term, mut places) in terms {
        let before = places;
        places.meet(&there);
        if places.is_empty() {
            transaction
                .prepare_cached("DELETE FROM posting WHERE block = ?1 AND term = ?2")?
                .execute((block, term))?;
        } else if places != before {
            let mut left: Vec<u16> = places.newest_first().collect();
            left.reverse();
            transaction
                .prepare_cached("UPDATE posting SET places = ?3 WHERE block = ?1 AND term = ?2")?
                .execute((block, term, encode(&left)))?;
        }
    }
    transaction.commit()
}

/// What stays of a segment, and what goes.
struct Left {
    stays: Vec<Head>,
    goes: Counts,
}

impl Left {
    fn read(
        connection: &Connection,
        (chain, segment): (&Chain, &Segment),
        before: Head,
        segments: &Arc<Segments>,
        prune: &Prune<'_>,
    ) -> Result<Result<Self, ChainFault>, rusqlite::Error> {
        let mut left = Self {
            stays: Vec::new(),
            goes: Counts::new(),
        };
        let others = seal::since(connection, chain.chain, segments.count())?;
        if others.contains(&segment.last)
            || !begins_before(connection, chain, segment, prune.retention)?
        {
            return Ok(Ok(left));
        }
        let mut prover = Prover::behind(before, Arc::clone(segments));
        let mut look = connection.prepare_cached(
            "SELECT position, line FROM record WHERE position BETWEEN ?1 AND ?2 ORDER BY position",
        )?;
        let bounds = [
            key_of(chain.chain, segment.first),
            key_of(chain.chain, segment.last),
        ];
        let mut rows = look.query(bounds)?;
        while let Some(row) = rows.next()? {
            let (position, line): (i64, String) = (row.get(0)?, row.get(1)?);
            let record = match chain::open(format!("{line}\n").as_bytes()) {
                Ok(record) if position == key_of(chain.chain, record.seq) => record,
                Ok(record) => {
                    return Ok(Err(ChainFault::Elsewhere {
                        place: position.cast_unsigned(),
                        seq: record.seq,
                        node: record.node,
                    }));
                }
                Err(fault) => return Ok(Err(fault)),
            };
            if let Err(fault) = prover.take(&record) {
                return Ok(Err(fault));
            }
            let is_end = record.seq == chain.head.seq;
            if prune.retention.removes(&record) && !is_end {
                let class = Class::of(record.entry.event);
                *left.goes.entry(class).or_default() += 1;
            } else {
                left.stays.push(Head {
                    seq: record.seq,
                    hash: record.hash,
                });
            }
        }
        Ok(prover.reaches(segment.last).map(|()| left))
    }

    /// Signs the segment anew and removes what goes; false, and nothing done, where somebody else did
    /// so since it was read.
    fn write(
        &self,
        connection: &mut Connection,
        (chain, segment): (&Chain, &Segment),
        known: &Segments,
        key: &SigningKey,
    ) -> Result<bool, rusqlite::Error> {
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
            kept: Some(kept.finish()),
            pruned,
        };
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if seal::since(&transaction, chain.chain, known.count())?.contains(&segment.last) {
            return Ok(false);
        }
        seal::add(&transaction, (chain.chain, &chain.node), key, &statement)?;
        for (first, last) in &statement.pruned {
            let (first, last) = (key_of(chain.chain, *first), key_of(chain.chain, *last));
            transaction
                .prepare_cached("DELETE FROM record WHERE position BETWEEN ?1 AND ?2")?
                .execute([first, last])?;
        }
        transaction.commit()?;
        let size = i64::from(BLOCK);
        let first = key_of(chain.chain, segment.first) / size;
        let last = key_of(chain.chain, segment.last) / size;
        (first..=last).try_for_each(|block| forget(connection, block))?;
        Ok(true)
    }
}

/// Nobody waits for this: others go first.
const PATIENCE: Duration = Duration::from_secs(60);
const SHORT_PATIENCE: Duration = Duration::from_secs(2);
