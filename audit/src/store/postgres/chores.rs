//! Indexing and signing the record of a fleet, each node its own chain. Nobody waits for it: a block is
//! written in one transaction, and readers see all of it or nothing.

use std::{io, sync::Arc, time::Duration};

use gig_postgres::{Link, LinkError};

use super::{PostgresLog, PostgresRecord, drawer, seal::seal, session::get};
use crate::{
    chain::Head,
    checkpoint::Began,
    counts::{
        counting::{Memory, count_some},
        removing::{Swept, sweep},
    },
    search::{
        index::{BlockTerms, index},
        posting::BLOCK,
        walk::{BLOCKS_OF_CHAIN, key_of},
    },
    signing::SigningKey,
    store::{StoreError, upkeep::Chores},
};

/// The thread's own connection.
pub(super) struct PostgresChores {
    record: PostgresRecord,
    chain: u32,
    node: Arc<str>,
    key: Arc<SigningKey>,
    began: Began,
    link: Option<Link>,
    /// Counts.
    log: Option<PostgresLog>,
    /// Since when nothing that is too old is counted any more.
    swept: Swept,
    counted: Memory,
}

impl PostgresChores {
    /// For the chain of one node; connects when there is something to do.
    pub(super) fn new(
        record: &PostgresRecord,
        (chain, node): (u32, Arc<str>),
        key: Arc<SigningKey>,
        began: Began,
    ) -> Self {
        Self {
            record: record.clone(),
            chain,
            node,
            key,
            began,
            link: None,
            log: None,
            swept: Swept::default(),
            counted: Memory::default(),
        }
    }

    fn ask<T>(
        &mut self,
        attempted: &'static str,
        ask: impl FnOnce(&Link) -> Result<T, LinkError>,
    ) -> Result<T, StoreError> {
        let known = self.link.take_if(|link| !link.is_broken());
        let link = match known {
            Some(link) => link,
            None => {
                let link = self.record.connect(PATIENCE);
                link.map_err(|e| self.record.error("reach", e))?
            }
        };
        let done = ask(self.link.insert(link));
        done.map_err(|e| self.record.error(attempted, e))
    }
}

impl Chores for PostgresChores {
    fn seal(&mut self, head: Head) -> Result<(), StoreError> {
        let (node, key) = (Arc::clone(&self.node), Arc::clone(&self.key));
        let (chain, began) = (self.chain, self.began);
        self.ask("sign", |link| {
            seal(link, (chain, &node), &key, (head, began))
        })
    }

    fn index_next(&mut self, end: u64) -> Result<bool, StoreError> {
        let chain = self.chain;
        let first = self.ask("index", |link| next_block(link, chain))?;
        if first + u64::from(BLOCK) > end + 1 {
            return Ok(false);
        }
        let position = key_of(chain, first);
        let lines = self.ask("index", |link| lines_of(link, position))?;
        let terms = index(&lines).map_err(|error| StoreError {
            attempted: "index",
            place: self.record.place().to_owned(),
            source: io::Error::other(error),
        })?;
        self.ask("index", |link| {
            write_block(link, position / i64::from(BLOCK), terms)
        })?;
        Ok(true)
    }

    fn count_next(&mut self) -> Result<bool, StoreError> {
        let mut log = match self.log.take() {
            Some(log) => log,
            None => self.record.log()?,
        };
        // A node's is dropped with what failed: another connection is made.
        let more_old = sweep(&mut log, &mut self.swept);
        let more = count_some(&mut log, self.chain, &mut self.counted)?;
        self.log = Some(log);
        Ok(more || more_old)
    }
}

/// The first place of the first block that is not indexed.
fn next_block(link: &Link, chain: u32) -> Result<u64, LinkError> {
    let first = key_of(chain, 0) / i64::from(BLOCK);
    let last = first + BLOCKS_OF_CHAIN.cast_signed() - 1;
    let look = "SELECT max(block) FROM audit_block WHERE block BETWEEN $1 AND $2";
    let row = link.asked(link.client().query_one(look, &[&first, &last]))?;
    let newest: Option<i64> = get(link, &row, 0)?;
    let next = newest.map_or(0, |block| block + 1 - first);
    Ok(next.cast_unsigned() * u64::from(BLOCK))
}

fn lines_of(link: &Link, from: i64) -> Result<Vec<(u16, String)>, LinkError> {
    let to = from + i64::from(BLOCK) - 1;
    let look = "SELECT position, line FROM audit_record WHERE position BETWEEN $1 AND $2";
    let rows = link.asked(link.client().query(look, &[&from, &to]))?;
    let line = |row| {
        let place: i64 = get(link, row, 0)?;
        // Below 4,096.
        Ok((
            u16::try_from(place - from).unwrap_or_default(),
            get(link, row, 1)?,
        ))
    };
    rows.iter().map(line).collect()
}

/// A block's terms, and that it is indexed: both or neither.
fn write_block(link: &Link, block: i64, terms: Option<BlockTerms>) -> Result<(), LinkError> {
    let (first, last, postings) = match terms {
        Some(terms) => (terms.first_time, terms.last_time, terms.postings),
        None => Default::default(),
    };
    let drawers = drawer::put(&postings);
    let (names, texts): (Vec<i16>, Vec<Vec<u8>>) = drawers.into_iter().unzip();
    let write = "
        WITH told AS (
            INSERT INTO audit_block (block, first_time, last_time) VALUES ($1, $2, $3)
            ON CONFLICT (block) DO NOTHING)
        INSERT INTO audit_posting (block, drawer, terms)
        SELECT $1, added.drawer, added.terms FROM unnest($4::int2[], $5::bytea[]) AS added (drawer, terms)
        ON CONFLICT (block, drawer) DO NOTHING";
    let client = link.client();
    link.asked(client.execute(write, &[&block, &first, &last, &names, &texts]))
        .map(drop)
}

/// Nobody waits for it.
const PATIENCE: Duration = Duration::from_secs(10);
