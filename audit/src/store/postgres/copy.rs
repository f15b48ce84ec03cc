//! The record of a fleet in a file, as one moment has it, and from a file into an empty database: for backups.
//!
//! Lines, checkpoints and ends are taken as they are, so that the copy proves as much as what was copied.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use gig_postgres::{Link, LinkError};
use rusqlite::Connection;
use thiserror::Error;

use super::{PostgresLog, PostgresRecord, seal::alone};
use crate::{
    checkpoint::Began,
    search::walk::{Chain, Shelf, key_of},
    store::{
        StoreError,
        sqlite::{OpenSqliteError, SqliteChores, SqliteLog, database},
        upkeep::Chores as _,
    },
};

/// A record was not copied.
#[derive(Debug, Error)]
pub enum CopyRecordError {
    /// The fleet's database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenSqliteError),
    /// The file cannot be read or written.
    #[error("cannot copy the record to or from {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
}

impl PostgresRecord {
    /// Copies all of it into a new file at `to`, as it is at one moment.
    ///
    /// # Errors
    /// [`CopyRecordError`]; the file is of no use then.
    pub fn save_to(&self, to: &Path) -> Result<(), CopyRecordError> {
        let failed = |source| CopyRecordError::File {
            path: to.to_owned(),
            source,
        };
        let mut log = self.log()?;
        log.hold()?;
        let mut file = database::open_to_write(to)?;
        let chains = log.chains()?;
        for chain in &chains {
            save_chain(&mut log, chain, &mut file, &failed)?;
        }
        log.release()?;
        drop(file);
        for Chain { chain, node, head } in chains {
            let mut chores = SqliteChores::new(to, (chain, node.into()), None, Began::FIRST);
            while chores.index_next(head.seq)? {
                chores.tidy()?;
            }
            while chores.count_next()? {
                chores.tidy()?;
            }
        }
        Ok(())
    }

    /// Fills an empty database from the file at `from`; false, and nothing done, where it holds a record
    /// already: that is evidence, and is written over by nothing.
    ///
    /// # Errors
    /// [`CopyRecordError`]; nothing was filled then.
    pub fn load_from(&self, from: &Path) -> Result<bool, CopyRecordError> {
        let mut file = SqliteLog::open(from)?;
        let chains = file.chains()?;
        let link = self.connect(PATIENCE).map_err(|e| self.error("reach", e))?;
        let mut fault = None;
        // Of no chain: whoever fills it does so alone.
        let filled = alone(&link, 0, || {
            // More than a record at a time: what a node's own session may take is too short for it.
            link.run("SET LOCAL statement_timeout TO '30s'")?;
            link.run("LOCK TABLE audit_chain, audit_record, audit_checkpoint IN EXCLUSIVE MODE")?;
            let look =
                "SELECT EXISTS (SELECT FROM audit_chain) OR EXISTS (SELECT FROM audit_record)";
            let row = link.asked(link.client().query_one(look, &[]))?;
            if super::session::get(&link, &row, 0)? {
                return Ok(false);
            }
            for chain in &chains {
                if let Err(error) = load_chain(&link, chain, &mut file)? {
                    fault = Some(error);
                    return Err(LinkError::Failed("the backup cannot be read".into()));
                }
            }
            let next = "SELECT setval(pg_get_serial_sequence('audit_chain', 'chain'),
                                      greatest(1, (SELECT max(chain) FROM audit_chain)))";
            link.asked(link.client().execute(next, &[])).map(|_| true)
        });
        match fault {
            Some(fault) => Err(fault.into()),
            None => Ok(filled.map_err(|e| self.error("restore", e))?),
        }
    }
}

fn save_chain(
    log: &mut PostgresLog,
    chain: &Chain,
    file: &mut Connection,
    failed: &impl Fn(rusqlite::Error) -> CopyRecordError,
) -> Result<(), CopyRecordError> {
    let (seq, hash) = (chain.head.seq, chain.head.hash.0);
    let told = "INSERT INTO chain (chain, node, seq, hash) VALUES (?1, ?2, ?3, ?4)";
    file.execute(told, (chain.chain, &chain.node, seq, hash))
        .map_err(failed)?;
    for (number, line) in (1_u64..).zip(log.checkpoints(chain.chain)?) {
        let last = crate::checkpoint::open(&line).map_or(0, |checkpoint| checkpoint.last);
        let told = "INSERT INTO checkpoint (chain, number, last, line) VALUES (?1, ?2, ?3, ?4)";
        file.execute(told, (chain.chain, number, last, line))
            .map_err(failed)?;
    }
    let mut read = 0;
    // What stands in place of a first record, or behind the end, is copied, too: it is what was found.
    loop {
        let lines = log.lines_after(chain.chain, read, LINES_AT_ONCE)?;
        let Some((last, _)) = lines.last() else {
            return Ok(());
        };
        read = *last;
        let group = file.transaction().map_err(failed)?;
        for (seq, line) in &lines {
            group
                .prepare_cached("INSERT INTO record (position, line) VALUES (?1, ?2)")
                .and_then(|mut insert| insert.execute((key_of(chain.chain, *seq), line)))
                .map_err(failed)?;
        }
        group.commit().map_err(failed)?;
    }
}

/// One chain, with everything that is said of it. The inner error is the file's.
fn load_chain(
    link: &Link,
    chain: &Chain,
    file: &mut SqliteLog,
) -> Result<Result<(), StoreError>, LinkError> {
    let id = chain.chain.cast_signed();
    let (seq, hash) = (chain.head.seq.cast_signed(), chain.head.hash.0.to_vec());
    let told = "INSERT INTO audit_chain (chain, node, seq, hash, key) VALUES ($1, $2, $3, $4, '')";
    link.asked(
        link.client()
            .execute(told, &[&id, &chain.node, &seq, &hash]),
    )?;
    let checkpoints = match file.checkpoints(chain.chain) {
        Ok(checkpoints) => checkpoints,
        Err(error) => return Ok(Err(error)),
    };
    for (number, line) in (1_i64..).zip(checkpoints) {
        let last = crate::checkpoint::open(&line).map_or(0, |checkpoint| checkpoint.last);
        let told =
            "INSERT INTO audit_checkpoint (chain, number, last, line) VALUES ($1, $2, $3, $4)";
        let last = last.cast_signed();
        link.asked(link.client().execute(told, &[&id, &number, &last, &line]))?;
    }
    let mut read = 0;
    loop {
        let lines = match file.lines_after(chain.chain, read, LINES_AT_ONCE) {
            Ok(lines) => lines,
            Err(error) => return Ok(Err(error)),
        };
        let Some((last, _)) = lines.last() else {
            return Ok(Ok(()));
        };
        read = *last;
        let (places, lines): (Vec<i64>, Vec<String>) = lines
            .into_iter()
            .map(|(seq, line)| (key_of(chain.chain, seq), line))
            .unzip();
        fill(link, &places, &lines)?;
    }
}

/// In slices that a slow server takes in time, however long the lines are.
fn fill(link: &Link, mut places: &[i64], mut lines: &[String]) -> Result<(), LinkError> {
    let fill =
        "INSERT INTO audit_record (position, line) SELECT * FROM unnest($1::int8[], $2::text[])";
    while !lines.is_empty() {
        let mut octets = 0;
        let fits = lines.iter().take_while(|line| {
            octets += line.len();
            octets <= MOST_OCTETS
        });
        // Never none: a line that is longer goes alone.
        let count = fits.count().clamp(1, lines.len());
        let (some, left) = lines.split_at(count);
        let (at, rest) = places.split_at(count.min(places.len()));
        link.asked(link.client().execute(fill, &[&at, &some]))?;
        (places, lines) = (rest, left);
    }
    Ok(())
}

/// For a slice of it.
const PATIENCE: Duration = Duration::from_secs(35);
/// Of lines, in a statement that fills.
const MOST_OCTETS: usize = 4 * 1024 * 1024;
/// Some megabytes.
const LINES_AT_ONCE: u32 = 4096;
