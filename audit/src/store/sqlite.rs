//! Records as rows of an SQLite database: durable as the file of lines is, and quick to search.
//!
//! One row a record, holding the very line, so that the chain is proved from the database as from a
//! file. A group is one transaction; its pages are handed to the kernel before anybody is answered,
//! and brought to the disk by the recorder's own thread. Terms to search by are written later, by
//! `upkeep`, a block of 4,096 records at a time: what a request waits for is an append and no more.
//! Several processes may write to one database; each takes the lock for its group and finds the head
//! that is really there.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rusqlite::{
    Connection, OptionalExtension as _,
    types::{ToSqlOutput, ValueRef},
};

use crate::{
    chain::{self, Head},
    checkpoint::{Began, Segments},
    record::{ChainHash, Record},
    search::{posting::BLOCK, walk::key_of},
    signing::SigningKey,
    store::{Appended, Group, Store, StoreError, Syncer, Tail, upkeep::Upkeep},
};

mod chores;
mod counts;
pub(crate) mod database;
mod prune;
mod seal;
mod shelf;
mod snapshot;

pub(super) use self::chores::SqliteChores;
pub use database::{OpenSqliteError, is_sqlite, without_links};
pub use prune::prune;
pub use shelf::SqliteLog;
pub use snapshot::{SnapshotError, check_pages, snapshot};

/// A database that is written to.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    place: Place,
    chain: u32,
    node: Arc<str>,
    head: Head,
    began: Began,
    key: Option<Arc<SigningKey>>,
    /// Something was written, and `head` is its end.
    wrote: bool,
    /// Between `begin` and `append`.
    held: bool,
    upkeep: Upkeep,
}

/// Which file it is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    identity: (u64, u64),
}

impl SqliteStore {
    /// Opens or makes the database at `path`, to continue the chain of the machine `node`, and starts
    /// the thread that indexes.
    ///
    /// # Errors
    /// When it cannot be opened or made, or holds something other than audit records, or its end is
    /// not the record it should be.
    pub fn open(path: &Path, node: &str) -> Result<Self, OpenSqliteError> {
        Self::open_signing(path, node, None, true)
    }

    /// As [`SqliteStore::open`]; with a key, what is written is signed: every 4,096 records, some minutes after it
    /// was written, and at the end. `serves`: not as a command beside an appliance.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_signing(
        path: &Path,
        node: &str,
        key: Option<Arc<SigningKey>>,
        serves: bool,
    ) -> Result<Self, OpenSqliteError> {
        let not_found = |source| OpenSqliteError::File {
            path: path.to_owned(),
            source,
        };
        let path = &without_links(path).map_err(not_found)?;
        let connection = database::open_to_write(path)?;
        let place = Place::of(path).map_err(not_found)?;
        let failed = |source: rusqlite::Error| OpenSqliteError::Database {
            path: path.to_owned(),
            source,
        };
        let (chain, head) = join_chain(&connection, node).map_err(failed)?;
        let Some(head) = head else {
            return Err(OpenSqliteError::Continue {
                path: path.to_owned(),
                node: node.to_owned(),
            });
        };
        let node: Arc<str> = node.into();
        let began = Began {
            behind: head.seq,
            beside: !serves,
        };
        let chores = SqliteChores::new(path, (chain, Arc::clone(&node)), key.clone(), began);
        let upkeep = Upkeep::start(Box::new(chores)).map_err(not_found)?;
        upkeep.appended(head.seq);
        Ok(Self {
            connection,
            place,
            chain,
            node,
            head,
            began,
            key,
            wrote: false,
            held: false,
            upkeep,
        })
    }

    fn error(&self, attempted: &'static str, source: rusqlite::Error) -> StoreError {
        self.place.error(attempted, io::Error::other(source))
    }

    /// Takes the lock and reads the head.
    fn take(&mut self) -> Result<Tail, rusqlite::Error> {
        if std::mem::take(&mut self.held) {
            self.connection.execute_batch("ROLLBACK")?;
        }
        self.connection
            .prepare_cached("BEGIN IMMEDIATE")?
            .execute([])?;
        self.held = true;
        let kept = self
            .connection
            .prepare_cached("SELECT seq, hash FROM chain WHERE chain = ?1")?
            .query_row([self.chain], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let found = kept.map_or(Head::START, |(seq, hash)| Head {
            seq,
            hash: ChainHash(hash),
        });
        let repaired = self.judge(found)?;
        if repaired.is_none() {
            self.head = found;
        }
        Ok(Tail {
            head: self.head,
            repaired,
        })
    }

    /// What is wrong with the head that was found. We continue our own chain then: a database that
    /// lost records or got a stranger's must not verify.
    fn judge(&self, found: Head) -> Result<Option<String>, rusqlite::Error> {
        let own = self.head.seq;
        if found == self.head || own == 0 {
            return Ok(None);
        }
        if found.seq < own {
            return Ok(Some(format!(
                "the database lost {} records that were written before",
                own - found.seq
            )));
        }
        // Others have written since; before that stands what we wrote.
        let line: Option<String> = self
            .connection
            .prepare_cached("SELECT line FROM record WHERE position = ?1")?
            .query_row([key_of(self.chain, own)], |row| row.get(0))
            .optional()?;
        if line.is_none() && found.seq > own && self.was_pruned(own)? {
            return Ok(None);
        }
        let record = line.and_then(|line| chain::open(format!("{line}\n").as_bytes()).ok());
        let ours = found.seq > own && record.is_some_and(|record| record.hash == self.head.hash);
        Ok((!ours).then(|| format!("record {own}, which was written before, is another now")))
    }

    /// Whether a checkpoint of ours lists a place as removed.
    fn was_pruned(&self, seq: u64) -> Result<bool, rusqlite::Error> {
        let Some(key) = &self.key else {
            return Ok(false);
        };
        let mut segments = Segments::new(&[key.public()]);
        let lines = seal::lines(&self.connection, self.chain)?;
        let sound = lines.iter().all(|line| segments.take(line).is_ok());
        Ok(sound && segments.has_pruned(seq))
    }

    /// A commit that leaves everything as it was. What is set to the value that it has is not written at all: there
    /// and back is.
    fn write_nothing(&self) -> Result<(), rusqlite::Error> {
        for step in [1, -1] {
            self.connection
                .prepare_cached("UPDATE chain SET seq = seq + ?2 WHERE chain = ?1")?
                .execute((self.chain, step))?;
        }
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn give_back(&mut self) {
        if std::mem::take(&mut self.held)
            && !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "cannot give the record's database back");
        }
    }

    fn write(&self, group: Group<'_>) -> Result<(), rusqlite::Error> {
        let Some(last) = group.records.last() else {
            return Ok(());
        };
        let mut insert = self
            .connection
            .prepare_cached("INSERT INTO record (position, line) VALUES (?1, ?2)")?;
        let lines = group.lines.split(|octet| *octet == b'\n');
        for (record, line) in group.records.iter().zip(lines) {
            // A line is ASCII.
            let line = ToSqlOutput::Borrowed(ValueRef::Text(line));
            insert.execute((key_of(self.chain, record.seq), line))?;
        }
        self.connection
            .prepare_cached("UPDATE chain SET seq = ?2, hash = ?3 WHERE chain = ?1")?
            .execute((self.chain, last.seq, last.hash.0))?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

/// The number of a machine's chain, which is begun if need be, and its head: none where its end is not
/// what it should be.
fn join_chain(connection: &Connection, node: &str) -> Result<(u32, Option<Head>), rusqlite::Error> {
    connection.execute(
        "INSERT INTO chain (chain, node, seq, hash)
         SELECT coalesce(max(chain), 0) + 1, ?1, 0, zeroblob(32) FROM chain
         WHERE true ON CONFLICT (node) DO NOTHING",
        [node],
    )?;
    // As of one moment: another process may be writing.
    let moment = connection.unchecked_transaction()?;
    let (chain, head) = moment.query_row(
        "SELECT chain, seq, hash FROM chain WHERE node = ?1",
        [node],
        |row| {
            let hash = ChainHash(row.get(2)?);
            let seq = row.get(1)?;
            Ok((row.get(0)?, Head { seq, hash }))
        },
    )?;
    let holds = check_end(&moment, chain, head)?;
    moment.finish()?;
    Ok((chain, holds.then_some(head)))
}

/// Whether the last record is the one that the chain names.
fn check_end(connection: &Connection, chain: u32, head: Head) -> Result<bool, rusqlite::Error> {
    let last: Option<(i64, String)> = connection
        .query_row(
            "SELECT position, line FROM record WHERE position BETWEEN ?1 AND ?2
             ORDER BY position DESC LIMIT 1",
            [key_of(chain, 0), key_of(chain, u64::MAX)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((position, line)) = last else {
        return Ok(head == Head::START);
    };
    let record = chain::open(format!("{line}\n").as_bytes());
    Ok(position == key_of(chain, head.seq)
        && record.is_ok_and(|record| record.seq == head.seq && record.hash == head.hash))
}

impl Store for SqliteStore {
    fn begin(&mut self) -> Result<Tail, StoreError> {
        self.place.check()?;
        self.connection
            .busy_handler(Some(wait_a_little))
            .map_err(|e| self.error("lock", e))?;
        self.take().map_err(|e| {
            self.give_back();
            self.error("lock", e)
        })
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn begin_at_once(&mut self) -> Result<Option<Tail>, StoreError> {
        self.place.check()?;
        self.connection
            .busy_handler(None::<fn(i32) -> bool>)
            .map_err(|e| self.error("lock", e))?;
        match self.take() {
            Ok(tail) if tail.repaired.is_none() => Ok(Some(tail)),
            // Somebody else writes, or there is something to tell of: the thread does that.
            Ok(_) => {
                self.give_back();
                Ok(None)
            }
            Err(error) if is_busy(&error) => {
                self.give_back();
                Ok(None)
            }
            Err(error) => {
                self.give_back();
                Err(self.error("lock", error))
            }
        }
    }

    fn append(&mut self, group: Group<'_>) -> Result<Appended, StoreError> {
        if group.records.is_empty() {
            // Somebody else wrote what this group was begun for.
            self.give_back();
            return Ok(Appended::Written);
        }
        let written = self.write(group);
        if let Err(error) = written {
            self.give_back();
            return Err(self.error("write", error));
        }
        self.held = false;
        if let Some(last) = group.records.last() {
            self.head = Head {
                seq: last.seq,
                hash: last.hash,
            };
            self.upkeep.wrote(self.head);
            self.wrote = true;
        }
        if self.key.is_some() {
            let ends = |record: &&Record| (record.seq + 1).is_multiple_of(u64::from(BLOCK));
            for record in group.records.iter().filter(ends) {
                self.upkeep.seal(Head {
                    seq: record.seq,
                    hash: record.hash,
                });
            }
        }
        Ok(Appended::Written)
    }

    fn try_out(&mut self) -> Option<Result<(), StoreError>> {
        let tried = self.begin().and_then(|_| {
            let written = self.write_nothing();
            written.map_err(|error| self.error("write", error))
        });
        if tried.is_err() {
            self.give_back();
        }
        self.held = false;
        Some(tried)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let mut syncer = SqliteSyncer {
            place: self.place.clone(),
            log: None,
        };
        syncer.sync()
    }

    fn close(&mut self) {
        let Some(key) = self.key.clone().filter(|_| self.wrote) else {
            return;
        };
        let mut ends = self.upkeep.end();
        ends.push(self.head);
        let (whose, began) = ((self.chain, &*self.node), self.began);
        let patient = self.connection.busy_handler(Some(wait_a_little));
        let signed = patient.and_then(|()| {
            ends.into_iter()
                .try_for_each(|end| seal::seal(&mut self.connection, whose, &key, (end, began)))
        });
        if let Err(error) = signed {
            tracing::warn!(%error, "the end of the record is not signed; the next checkpoint covers it");
        }
    }

    fn syncer(&self) -> Option<Box<dyn Syncer>> {
        Some(Box::new(SqliteSyncer {
            place: self.place.clone(),
            log: None,
        }))
    }
}

/// Brings the write-ahead log to the disk: what was committed is there then. What a checkpoint moves
/// into the database, SQLite itself brings to the disk first.
#[derive(Debug)]
struct SqliteSyncer {
    place: Place,
    log: Option<File>,
}

impl Syncer for SqliteSyncer {
    fn sync(&mut self) -> Result<(), StoreError> {
        let failed = |source| self.place.error("sync", source);
        let log = match self.log.take() {
            Some(log) => log,
            None => File::open(self.place.beside("-wal")).map_err(failed)?,
        };
        log.sync_data().map_err(failed)?;
        self.log = Some(log);
        Ok(())
    }
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: database::identity(path)?,
        })
    }

    /// A database that no longer stands under its name takes no more records: whoever looks there
    /// would not find them.
    fn check(&self) -> Result<(), StoreError> {
        if self.is_there().map_err(|e| self.error("find", e))? {
            return Ok(());
        }
        let why = "another file is in its place";
        Err(self.error("find", io::Error::new(io::ErrorKind::NotFound, why)))
    }

    /// Whether it is still this file that has the name.
    fn is_there(&self) -> io::Result<bool> {
        Ok(database::identity(&self.path)? == self.identity)
    }

    /// The file whose name is the database's with an ending.
    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }

    pub(crate) fn error(&self, attempted: &'static str, source: io::Error) -> StoreError {
        StoreError {
            attempted,
            place: self.path.display().to_string(),
            source,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    )
}

/// SQLite's own waiting sleeps for milliseconds; a group or a slice of the index takes less.
fn wait_a_little(tries: i32) -> bool {
    std::thread::sleep(WAIT);
    tries < MOST_TRIES
}

const WAIT: Duration = Duration::from_micros(100);
/// More than three seconds: the recorder's callers have given up soon after.
const MOST_TRIES: i32 = 20_000;

#[cfg(test)]
mod tests;
