//! Indexing and signing an SQLite database, beside who writes to it.
//!
//! It holds the lock in slices of about a millisecond, so that a group never waits long.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::{Place, SqliteLog, database, seal::seal};
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
        walk::key_of,
    },
    signing::SigningKey,
    store::{StoreError, upkeep::Chores},
};

/// The thread's own view of the database.
pub(in crate::store) struct SqliteChores {
    path: PathBuf,
    chain: u32,
    node: Arc<str>,
    key: Option<Arc<SigningKey>>,
    began: Began,
    log: Option<SqliteLog>,
    /// Since when nothing that is too old is counted any more.
    swept: Swept,
    counted: Memory,
}

impl SqliteChores {
    /// For the chain of one machine; connects when there is something to do.
    pub(in crate::store) fn new(
        path: &Path,
        (chain, node): (u32, Arc<str>),
        key: Option<Arc<SigningKey>>,
        began: Began,
    ) -> Self {
        Self {
            path: path.to_owned(),
            chain,
            node,
            key,
            began,
            log: None,
            swept: Swept::default(),
            counted: Memory::default(),
        }
    }

    fn log(&mut self) -> Result<&mut SqliteLog, StoreError> {
        let log = match self.log.take() {
            Some(log) => log,
            None => {
                let opened = database::open_to_write(&self.path);
                let mut connection = opened.map_err(|e| self.error("open", io::Error::other(e)))?;
                let patient = connection.busy_handler(Some(super::wait_a_little));
                patient.map_err(|e| self.error("lock", io::Error::other(e)))?;
                let place = Place::of(&self.path).map_err(|e| self.error("find", e))?;
                SqliteLog::over(connection, place)
            }
        };
        Ok(self.log.insert(log))
    }

    fn connection(&mut self) -> Result<&mut Connection, StoreError> {
        Ok(&mut self.log()?.connection)
    }

    fn path_of_log(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push("-wal");
        name.into()
    }

    fn error(&self, attempted: &'static str, source: io::Error) -> StoreError {
        StoreError {
            attempted,
            place: self.path.display().to_string(),
            source,
        }
    }
}

impl Chores for SqliteChores {
    fn seal(&mut self, head: Head) -> Result<(), StoreError> {
        let Some(key) = self.key.clone() else {
            return Ok(());
        };
        let (chain, node, began) = (self.chain, Arc::clone(&self.node), self.began);
        let signed = seal(self.connection()?, (chain, &node), &key, (head, began));
        signed.map_err(|e| self.error("sign", io::Error::other(e)))
    }

    /// Moves the log into the database once it is large, in two steps: most of it beside the writer,
    /// the rest while the writer waits, so that the log begins anew.
    fn tidy(&mut self) -> Result<(), StoreError> {
        let log = self.path_of_log().metadata().map_or(0, |found| found.len());
        if log < LARGE_LOG {
            return Ok(());
        }
        for kind in ["PASSIVE", "FULL"] {
            let statement = format!("PRAGMA wal_checkpoint({kind})");
            let moved = self.connection()?.query_row(&statement, [], |_| Ok(()));
            moved.map_err(|e| self.error("checkpoint", io::Error::other(e)))?;
        }
        Ok(())
    }

    fn index_next(&mut self, end: u64) -> Result<bool, StoreError> {
        let chain = self.chain;
        let connection = self.connection()?;
        let outcome = next_block(connection, chain).and_then(|first| {
            if first + u64::from(BLOCK) > end + 1 {
                return Ok(Ok(false));
            }
            let lines = lines_of(connection, chain, first)?;
            match index(&lines) {
                Ok(terms) => write_block(connection, key_of(chain, first), terms).map(Ok),
                Err(error) => Ok(Err(error)),
            }
        });
        match outcome {
            Ok(Ok(more)) => Ok(more),
            Ok(Err(error)) => Err(self.error("index", io::Error::other(error))),
            Err(error) => Err(self.error("index", io::Error::other(error))),
        }
    }

    fn count_next(&mut self) -> Result<bool, StoreError> {
        let (chain, mut swept) = (self.chain, std::mem::take(&mut self.swept));
        let mut counted = std::mem::take(&mut self.counted);
        let log = self.log()?;
        let more_old = sweep(log, &mut swept);
        let more = count_some(log, chain, &mut counted);
        (self.swept, self.counted) = (swept, counted);
        Ok(more? || more_old)
    }
}

/// The first place of the first block that is not indexed.
fn next_block(connection: &Connection, chain: u32) -> Result<u64, rusqlite::Error> {
    let size = i64::from(BLOCK);
    let newest: Option<i64> = connection
        .prepare_cached("SELECT max(block) FROM block WHERE block BETWEEN ?1 AND ?2")?
        .query_row(
            [key_of(chain, 0) / size, key_of(chain, u64::MAX) / size],
            |row| row.get(0),
        )
        .optional()?
        .flatten();
    let next = newest.map_or(0, |block| block + 1 - key_of(chain, 0) / size);
    Ok(next.cast_unsigned() * u64::from(BLOCK))
}

fn lines_of(
    connection: &Connection,
    chain: u32,
    first: u64,
) -> Result<Vec<(u16, String)>, rusqlite::Error> {
    let from = key_of(chain, first);
    connection
        .prepare_cached("SELECT position, line FROM record WHERE position BETWEEN ?1 AND ?2")?
        .query_map([from, from + i64::from(BLOCK) - 1], |row| {
            let place: i64 = row.get(0)?;
            // Below 4,096.
            Ok((u16::try_from(place - from).unwrap_or_default(), row.get(1)?))
        })?
        .collect()
}

/// Writes a block's terms in slices, and only then that the block is indexed: what a crash leaves
/// behind is written over. Always true: there may be another.
fn write_block(
    connection: &mut Connection,
    position: i64,
    terms: Option<BlockTerms>,
) -> Result<bool, rusqlite::Error> {
    let block = position / i64::from(BLOCK);
    let (first_time, last_time, postings) = match terms {
        Some(terms) => (terms.first_time, terms.last_time, terms.postings),
        None => Default::default(),
    };
    for slice in postings.chunks(SLICE) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut insert = transaction.prepare_cached(
            "INSERT OR REPLACE INTO posting (block, term, places) VALUES (?1, ?2, ?3)",
        )?;
        for (term, places) in slice {
            insert.execute(params![block, term, places])?;
        }
        drop(insert);
        transaction.commit()?;
        std::thread::sleep(BETWEEN_SLICES);
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO block (block, first_time, last_time) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![block, first_time, last_time])?;
    Ok(true)
}

/// A tenth of a second of full load; small enough to be read again quickly after a crash.
const LARGE_LOG: u64 = 16 * 1024 * 1024;
/// Terms written at once: about a millisecond.
const SLICE: usize = 500;
/// Lets a waiting group in: it looks ten times a millisecond.
const BETWEEN_SLICES: Duration = Duration::from_micros(500);
