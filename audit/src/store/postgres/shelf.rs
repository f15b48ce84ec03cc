//! Reading the record of a fleet: search, tail, proof.

use std::{
    collections::{BTreeMap, HashMap},
    ops::RangeInclusive,
    time::Duration,
};

use gig_postgres::{Link, LinkError};

use super::{PostgresRecord, drawer, rows, seal, session::get};
use crate::{
    chain::Head,
    log::{
        ChainProof, Log, LogVerdict, ReadLogError,
        in_chain::{self, InChain, Known},
        indexed,
    },
    search::{
        Found, Marks, Page, Position, Query,
        posting::{BLOCK, Places},
        walk::{self, Block, Chain, Shelf, between, key_of},
    },
    store::StoreError,
    verify::Expected,
};

/// A record that is read.
#[derive(Debug)]
pub struct PostgresLog {
    record: PostgresRecord,
    link: Option<Link>,
    /// A transaction: the record as of one moment.
    held: bool,
}

impl PostgresRecord {
    /// Connects to read.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn log(&self) -> Result<PostgresLog, StoreError> {
        let mut log = PostgresLog {
            record: self.clone(),
            link: None,
            held: false,
        };
        log.ask("reach", |link| link.run("SELECT 1"))?;
        Ok(log)
    }
}

impl PostgresLog {
    /// Asks over the connection; once more over a new one where that was lost, unless that had a moment.
    pub(super) fn ask<T>(
        &mut self,
        attempted: &'static str,
        ask: impl Fn(&Link) -> Result<T, LinkError>,
    ) -> Result<T, StoreError> {
        let known = self.link.take_if(|link| !link.is_broken());
        let fresh = known.is_none();
        if fresh && self.held {
            let gone = LinkError::Failed("the connection was lost in the middle".into());
            return Err(self.record.error(attempted, gone));
        }
        let link = match known {
            Some(link) => link,
            None => connect(&self.record).map_err(|e| self.record.error("reach", e))?,
        };
        let answer = ask(&link);
        let lost = matches!(answer, Err(LinkError::Lost(_)));
        if !link.is_broken() {
            self.link = Some(link);
        }
        if lost && !fresh && !self.held {
            return self.ask(attempted, ask);
        }
        answer.map_err(|e| self.record.error(attempted, e))
    }

    fn read<T>(&mut self, ask: impl Fn(&Link) -> Result<T, LinkError>) -> Result<T, StoreError> {
        self.ask("read", ask)
    }

    /// From here on the record is read as it is now, until [`PostgresLog::release`].
    pub(super) fn hold(&mut self) -> Result<(), StoreError> {
        if !self.held {
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
            self.read(|link| link.run(begin))?;
            self.held = true;
        }
        Ok(())
    }

    pub(super) fn release(&mut self) -> Result<(), StoreError> {
        let ended = self.read(|link| link.run("ROLLBACK"));
        self.held = false;
        ended
    }

    /// Records that a search still reads line by line: usually less than a block of 4,096 a chain.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn unindexed(&mut self) -> Result<u64, StoreError> {
        indexed::unindexed(self)
    }

    /// How many blocks say that a record of theirs has a term.
    #[cfg(test)]
    pub(in crate::store) fn blocks_with(&mut self, term: i64) -> Result<usize, StoreError> {
        self.read(|link| {
            let look = "SELECT terms FROM audit_posting WHERE drawer = $1";
            let wanted = drawer::drawer_of(term);
            let rows = link.asked(link.client().query(look, &[&wanted]))?;
            let mut count = 0;
            for row in &rows {
                count += drawer::terms(get(link, row, 0)?)
                    .filter(|(other, _)| *other == term)
                    .count();
            }
            Ok(count)
        })
    }

    /// Lines with their places, by a statement that takes two bounds and a limit.
    fn lines(
        &mut self,
        statement: &str,
        (from, to): (i64, i64),
        most: u32,
    ) -> Result<Vec<(u64, String)>, StoreError> {
        let most = i64::from(most);
        self.read(|link| {
            let rows = link.asked(link.client().query(statement, &[&from, &to, &most]))?;
            let line = |row| {
                Ok((
                    walk::position_of(get(link, row, 0)?).seq,
                    get(link, row, 1)?,
                ))
            };
            rows.iter().map(line).collect()
        })
    }
}

fn connect(record: &PostgresRecord) -> Result<Link, LinkError> {
    let link = record.connect(PATIENCE)?;
    link.run(SESSION)?;
    Ok(link)
}

fn counted(link: &Link, (from, to): (i64, i64)) -> Result<u64, LinkError> {
    let look = "SELECT count(*) FROM audit_record WHERE position BETWEEN $1 AND $2";
    let row = link.asked(link.client().query_one(look, &[&from, &to]))?;
    let counted: i64 = get(link, &row, 0)?;
    Ok(counted.cast_unsigned())
}

impl Shelf for PostgresLog {
    fn place(&self) -> String {
        self.record.place().to_owned()
    }

    fn chains(&mut self) -> Result<Vec<Chain>, StoreError> {
        self.read(|link| {
            let look = "SELECT chain, node, seq, hash FROM audit_chain ORDER BY chain";
            let rows = link.asked(link.client().query(look, &[]))?;
            let chain = |row| {
                let (chain, seq): (i32, i64) = (get(link, row, 0)?, get(link, row, 2)?);
                Ok(Chain {
                    chain: chain.cast_unsigned(),
                    node: get(link, row, 1)?,
                    head: Head {
                        seq: seq.cast_unsigned(),
                        hash: rows::hash_of(get(link, row, 3)?),
                    },
                })
            };
            rows.iter().map(chain).collect()
        })
    }

    fn blocks(&mut self, chain: u32, before: u64, most: u32) -> Result<Vec<Block>, StoreError> {
        let first = key_of(chain, 0) / i64::from(BLOCK);
        let before = first + before.min(walk::BLOCKS_OF_CHAIN).cast_signed();
        let most = i64::from(most);
        self.read(|link| {
            let look = "SELECT block, first_time, last_time FROM audit_block
                        WHERE block >= $1 AND block < $2 ORDER BY block DESC LIMIT $3";
            let rows = link.asked(link.client().query(look, &[&first, &before, &most]))?;
            let block = |row| {
                Ok(Block {
                    key: get(link, row, 0)?,
                    first_time: get(link, row, 1)?,
                    last_time: get(link, row, 2)?,
                })
            };
            rows.iter().map(block).collect()
        })
    }

    /// One question for all blocks and terms; what stands in a drawer is looked through here.
    fn meet(&mut self, blocks: &[i64], groups: &[Vec<i64>]) -> Result<Vec<Places>, StoreError> {
        if groups.is_empty() || blocks.is_empty() {
            return Ok(vec![Places::ALL; blocks.len()]);
        }
        let mut terms: Vec<i64> = groups.concat();
        terms.sort_unstable();
        let mut drawers: Vec<i16> = terms.iter().map(|term| drawer::drawer_of(*term)).collect();
        drawers.sort_unstable();
        drawers.dedup();
        let found = self.read(|link| {
            let look = "SELECT block, terms FROM audit_posting
                        WHERE block = ANY($1) AND drawer = ANY($2)";
            let rows = link.asked(link.client().query(look, &[&blocks, &drawers]))?;
            let mut found: HashMap<(i64, i64), Places> = HashMap::new();
            for row in &rows {
                let block: i64 = get(link, row, 0)?;
                for (term, places) in drawer::terms(get(link, row, 1)?) {
                    if terms.binary_search(&term).is_ok() {
                        found.insert((block, term), places);
                    }
                }
            }
            Ok(found)
        })?;
        let met = blocks.iter().map(|block| {
            let mut places = Places::ALL;
            for group in groups {
                let mut any = Places::NONE;
                for term in group {
                    if let Some(theirs) = found.get(&(*block, *term)) {
                        any.join(theirs);
                    }
                }
                places.meet(&any);
            }
            places
        });
        Ok(met.collect())
    }

    fn lines_at(&mut self, chain: u32, places: &[u64]) -> Result<Vec<(u64, String)>, StoreError> {
        let keys: Vec<i64> = places.iter().map(|seq| key_of(chain, *seq)).collect();
        let mut lines: HashMap<u64, String> = self.read(|link| {
            let look = "SELECT position, line FROM audit_record WHERE position = ANY($1)";
            let rows = link.asked(link.client().query(look, &[&keys]))?;
            let line = |row| {
                Ok((
                    walk::position_of(get(link, row, 0)?).seq,
                    get(link, row, 1)?,
                ))
            };
            rows.iter().map(line).collect()
        })?;
        // In the order in which they were asked for.
        let found = places.iter().filter_map(|seq| lines.remove_entry(seq));
        Ok(found.collect())
    }

    fn lines_before(
        &mut self,
        chain: u32,
        before: u64,
        from: u64,
        most: u32,
    ) -> Result<Vec<(u64, String)>, StoreError> {
        self.lines(
            "SELECT position, line FROM audit_record WHERE position >= $1 AND position < $2
             ORDER BY position DESC LIMIT $3",
            (key_of(chain, from), key_of(chain, before)),
            most,
        )
    }

    fn strays(&mut self, most: u32) -> Result<(u64, Vec<i64>), StoreError> {
        let chains = self.chains()?;
        self.read(|link| {
            let (mut count, mut first) = (0, Vec::new());
            for (from, to) in between(&chains) {
                let counted = counted(link, (from, to))?;
                count += counted;
                let had = i64::try_from(first.len()).unwrap_or(i64::MAX);
                let left = i64::from(most).saturating_sub(had);
                if counted > 0 && left > 0 {
                    let look = "SELECT position FROM audit_record WHERE position BETWEEN $1 AND $2
                                ORDER BY position LIMIT $3";
                    let rows = link.asked(link.client().query(look, &[&from, &to, &left]))?;
                    for row in &rows {
                        first.push(get(link, row, 0)?);
                    }
                }
            }
            let look = "SELECT DISTINCT chain FROM audit_checkpoint
                        WHERE chain NOT IN (SELECT chain FROM audit_chain)";
            for row in &link.asked(link.client().query(look, &[]))? {
                let chain: i32 = get(link, row, 0)?;
                count += 1;
                first.push(key_of(chain.cast_unsigned(), 0));
            }
            Ok((count, first))
        })
    }

    fn count(&mut self, keys: (i64, i64)) -> Result<u64, StoreError> {
        self.read(|link| counted(link, keys))
    }

    fn checkpoints(&mut self, chain: u32) -> Result<Vec<String>, StoreError> {
        self.read(|link| seal::lines(link, chain))
    }

    fn newest_checkpoints(
        &mut self,
        chain: u32,
        ends: RangeInclusive<u64>,
        most: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.read(|link| seal::newest(link, chain, &ends, most))
    }

    fn checkpoint(&mut self, chain: u32, number: u64) -> Result<Option<String>, StoreError> {
        self.read(|link| seal::line(link, chain, number))
    }

    fn lines_after(
        &mut self,
        chain: u32,
        after: u64,
        most: u32,
    ) -> Result<Vec<(u64, String)>, StoreError> {
        self.lines(
            "SELECT position, line FROM audit_record WHERE position > $1 AND position <= $2
             ORDER BY position LIMIT $3",
            (key_of(chain, after), key_of(chain, u64::MAX)),
            most,
        )
    }
}

impl Log for PostgresLog {
    fn search_until(
        &mut self,
        query: &Query,
        stop: &dyn Fn() -> bool,
    ) -> Result<Page, ReadLogError> {
        walk::search(self, query, stop)
    }

    fn after(&mut self, marks: &Marks, most: usize) -> Result<Vec<Found>, ReadLogError> {
        indexed::after(self, marks, most)
    }

    fn found_at(&mut self, at: Position) -> Result<Option<Found>, ReadLogError> {
        indexed::found_at(self, at)
    }

    fn unindexed(&mut self) -> Result<u64, ReadLogError> {
        Ok(indexed::unindexed(self)?)
    }

    fn in_chain(
        &mut self,
        at: Position,
        known: &Known,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<InChain>, ReadLogError> {
        self.hold()?;
        let found = in_chain::of(self, at, known, stop);
        self.release()?;
        found
    }

    fn end(&mut self) -> Result<Marks, ReadLogError> {
        Ok(indexed::end(self)?)
    }

    fn kept_until(&mut self, marks: &Marks) -> Result<BTreeMap<u32, u64>, ReadLogError> {
        Ok(indexed::kept_until(self, marks)?)
    }

    fn verify(&mut self, expected: Expected<'_>) -> Result<LogVerdict, ReadLogError> {
        self.hold()?;
        let verdict = indexed::verify(self, expected);
        self.release()?;
        Ok(verdict?)
    }

    fn proof(&mut self) -> Result<Vec<ChainProof>, ReadLogError> {
        self.hold()?;
        Ok(indexed::proof(self)?)
    }

    fn replaced(&mut self, marks: &Marks) -> Result<bool, ReadLogError> {
        Ok(indexed::is_shorter(self, marks)?)
    }
}

/// For a page of a search, or a slice of a proof.
const PATIENCE: Duration = Duration::from_secs(30);
/// Whoever writes an export to something slow keeps its moment for ten minutes between two looks. The plan
/// of a statement is made for its values: how many blocks and terms are asked for differs widely.
const SESSION: &str = "
    SET statement_timeout TO '30s';
    SET lock_timeout TO '30s';
    SET idle_in_transaction_session_timeout TO '10min';
    SET plan_cache_mode TO force_custom_plan";
