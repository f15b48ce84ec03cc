//! What a database needs beside appends: terms of full blocks, and checkpoints.
//!
//! A thread of its own, with a connection of its own. It holds the lock in slices of about a
//! millisecond, so that a group never waits long. Whatever it has not done when gig dies is done by
//! the next gig; until then a search reads those records line by line.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::{database, seal::seal};
use crate::{
    chain::Head,
    search::{
        index::{BlockTerms, index},
        posting::BLOCK,
        walk::key_of,
    },
    signing::SigningKey,
    store::StoreError,
};

/// Handle to the thread; dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Upkeep {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The chain's last record.
    end: AtomicU64,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    work: bool,
    closing: bool,
    /// Ends of segments that are not signed yet.
    seals: Vec<Head>,
}

impl Upkeep {
    pub(super) fn start(
        path: &Path,
        (chain, node): (u32, Arc<str>),
        key: Option<Arc<SigningKey>>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Worker {
            path: path.to_owned(),
            chain,
            node,
            key,
            shared: Arc::clone(&shared),
            connection: None,
            failing: false,
        };
        let thread = std::thread::Builder::new()
            .name("audit-upkeep".to_owned())
            .spawn(move || worker.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// The chain ends here now.
    pub(super) fn appended(&self, seq: u64) {
        let before = self.shared.end.swap(seq, Ordering::Relaxed);
        if before / RECORDS_BETWEEN != seq / RECORDS_BETWEEN {
            self.shared.state.lock().work = true;
            self.shared.wake.notify_one();
        }
    }

    /// A segment ends here: it is to be signed.
    pub(super) fn seal(&self, head: Head) {
        let mut state = self.shared.state.lock();
        state.seals.push(head);
        state.work = true;
        self.shared.wake.notify_one();
    }

    /// Ends the thread: nothing is indexed or signed by it from here on. Answers what it did not sign.
    pub(super) fn end(&mut self) -> Vec<Head> {
        self.shared.state.lock().closing = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that indexes the record panicked");
        }
        std::mem::take(&mut self.shared.state.lock().seals)
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.end();
    }
}

struct Worker {
    path: PathBuf,
    chain: u32,
    node: Arc<str>,
    key: Option<Arc<SigningKey>>,
    shared: Arc<Shared>,
    connection: Option<Connection>,
    failing: bool,
}

impl Worker {
    fn run(mut self) {
        loop {
            let mut state = self.shared.state.lock();
            while !state.work && !state.closing {
                self.shared.wake.wait(&mut state);
            }
            state.work = false;
            if state.closing {
                return;
            }
            drop(state);
            let done = self.work();
            if let Err(error) = &done
                && !self.failing
            {
                let cause = std::error::Error::source(error).map(ToString::to_string);
                let cause = cause.unwrap_or_default();
                tracing::warn!(%error, cause, "the record is not indexed or signed as far as it could be");
            }
            self.failing = done.is_err();
        }
    }

    fn work(&mut self) -> Result<(), StoreError> {
        if self.connection.is_none() {
            let opened = database::open_to_write(&self.path);
            let mut opened = opened.map_err(|e| self.error("open", io::Error::other(e)))?;
            let patient = opened.busy_handler(Some(super::wait_a_little));
            patient.map_err(|e| self.error("lock", io::Error::other(e)))?;
            self.connection = Some(opened);
        }
        while !self.shared.state.lock().closing {
            self.seal()?;
            self.checkpoint()?;
            let end = self.shared.end.load(Ordering::Relaxed);
            if !self.index_next(end)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Signs the segments that ended; in order, each by itself.
    fn seal(&mut self) -> Result<(), StoreError> {
        let (Some(key), Some(connection)) = (&self.key, &mut self.connection) else {
            return Ok(());
        };
        loop {
            let next = self.shared.state.lock().seals.first().copied();
            let Some(head) = next else {
                return Ok(());
            };
            // What cannot be signed now is tried again with the next segment, and at the end.
            let signed = seal(connection, (self.chain, &self.node), key, head);
            signed.map_err(|source| StoreError {
                attempted: "sign",
                place: self.path.display().to_string(),
                source: io::Error::other(source),
            })?;
            self.shared.state.lock().seals.remove(0);
        }
    }

    /// Indexes the first full block that is not; false when there is none.
    fn index_next(&mut self, end: u64) -> Result<bool, StoreError> {
        let chain = self.chain;
        let Some(connection) = &mut self.connection else {
            return Ok(false);
        };
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

    /// Moves the log into the database once it is large, in two steps: most of it beside the writer,
    /// the rest while the writer waits, so that the log begins anew.
    fn checkpoint(&self) -> Result<(), StoreError> {
        let log = self.path_of_log().metadata().map_or(0, |found| found.len());
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        if log < LARGE_LOG {
            return Ok(());
        }
        for kind in ["PASSIVE", "FULL"] {
            let statement = format!("PRAGMA wal_checkpoint({kind})");
            connection
                .query_row(&statement, [], |_| Ok(()))
                .map_err(|e| self.error("checkpoint", io::Error::other(e)))?;
        }
        Ok(())
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

/// How often the thread looks: four times a block.
const RECORDS_BETWEEN: u64 = 1024;
/// A tenth of a second of full load; small enough to be read again quickly after a crash.
const LARGE_LOG: u64 = 16 * 1024 * 1024;
/// Terms written at once: about a millisecond.
const SLICE: usize = 500;
/// Lets a waiting group in: it looks ten times a millisecond.
const BETWEEN_SLICES: Duration = Duration::from_micros(500);
