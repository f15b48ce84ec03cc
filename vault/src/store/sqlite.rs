//! The store as tables of an SQLite database: `gig.db` in the data directory.
//!
//! The file is its owner's alone (0600), written ahead (WAL) so that readers never wait for a writer,
//! waits for the disk on every commit, and overwrites what it deletes. Several processes may use it
//! at once.

use std::{
    fs::{OpenOptions, TryLockError},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use gig_policy::SecretName;
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

mod rows;

use super::{Alone, Change, CommitError, Snapshot, Store, StoreError};

mod embedded {
    //! The tables, and how they came to be.
    refinery::embed_migrations!("src/store/sqlite/migrations");
}

/// An open database.
#[derive(Debug)]
pub struct SqliteStore {
    place: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    connection: Connection,
    /// SQLite's own count of other connections' commits, and the generation that went with it.
    seen: Option<(i64, u64)>,
}

impl SqliteStore {
    /// Opens the database at `path`; makes it and its tables if need be.
    ///
    /// # Errors
    /// When it cannot be opened, belongs to a later gig, or others could write it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |why: String| StoreError {
            action: "open",
            place: path.display().to_string(),
            why,
        };
        // One that is there is looked at and not opened: the appliance's tables are in it, and closing a descriptor
        // of it would drop the locks of all that this process has open.
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        match made.map(drop) {
            Err(there) if there.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|error| failed(error.to_string()))?,
        }
        let mode = path.metadata().map(|facts| facts.permissions().mode());
        let mode = mode.map_err(|error| failed(error.to_string()))? & 0o777;
        if mode & 0o077 != 0 {
            return Err(failed(format!(
                "others can open it (mode {mode:04o}): chmod 600 it"
            )));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection =
            Connection::open_with_flags(path, flags).map_err(|error| failed(error.to_string()))?;
        patiently(|| prepare(&mut connection)).map_err(failed)?;
        Ok(Self {
            place: path.to_owned(),
            inner: Mutex::new(Inner {
                connection,
                seen: None,
            }),
        })
    }

    fn failed(&self, action: &'static str, error: &rusqlite::Error) -> StoreError {
        StoreError {
            action,
            place: self.place.display().to_string(),
            why: error.to_string(),
        }
    }
}

/// Sets the connection up and brings the tables up to date.
fn prepare(connection: &mut Connection) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    connection.busy_timeout(PATIENCE).map_err(text)?;
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .map_err(text)?;
    // A commit has to be on the disk: a rotated token that is lost is lost for good.
    connection
        .pragma_update(None, "synchronous", "FULL")
        .map_err(text)?;
    connection
        .pragma_update(None, "secure_delete", "ON")
        .map_err(text)?;
    connection
        .pragma_update(None, "trusted_schema", "OFF")
        .map_err(text)?;
    let newest = embedded::migrations::runner()
        .get_migrations()
        .iter()
        .map(refinery::Migration::version)
        .max();
    if applied(connection).map_err(text)? == newest.map(i64::from) {
        return Ok(());
    }
    let runner = embedded::migrations::runner().set_grouped(true);
    runner
        .run(connection)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// The newest migration that the database has; `None` when it has none.
fn applied(connection: &Connection) -> Result<Option<i64>, rusqlite::Error> {
    let there: bool = connection.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name = 'refinery_schema_history'",
        [],
        |row| row.get(0),
    )?;
    if !there {
        return Ok(None);
    }
    connection.query_row(
        "SELECT max(version) FROM refinery_schema_history",
        [],
        |row| row.get(0),
    )
}

/// Two processes may make the tables at once: who comes second finds them made. SQLite itself does not
/// wait for another process that turns the log on.
fn patiently(mut prepare: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    for _ in 1..TRIES {
        if prepare().is_ok() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    prepare()
}

impl Store for SqliteStore {
    fn generation(&self) -> Result<u64, StoreError> {
        let mut inner = self.inner.lock();
        inner
            .generation()
            .map_err(|error| self.failed("read", &error))
    }

    fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let mut inner = self.inner.lock();
        rows::snapshot(&mut inner.connection).map_err(|error| self.failed("read", &error))
    }

    fn commit(&self, generation: u64, changes: &[Change]) -> Result<(), CommitError> {
        let mut inner = self.inner.lock();
        inner.seen = None;
        let committed = inner.commit(generation, changes);
        match committed {
            Ok(true) => {
                let emptied = inner.empty_log();
                if !matches!(emptied, Ok(false)) {
                    let place = self.place.display();
                    tracing::warn!(
                        ?emptied,
                        "{place}-wal holds what was before until it can be emptied"
                    );
                }
                Ok(())
            }
            Ok(false) => Err(CommitError::Overtaken),
            Err(error) => Err(self.failed("write", &error).into()),
        }
    }

    fn alone(&self, name: &SecretName) -> Result<Option<Alone>, StoreError> {
        // Beside the database, whose own locks would keep everybody out. The file stays: whoever deletes
        // one that another waits for lets two in.
        let mut place = self.place.clone().into_os_string();
        place.push(format!(".lock-{name}"));
        let place = PathBuf::from(place);
        let failed = |error: io::Error| StoreError {
            action: "lock a secret in",
            place: place.display().to_string(),
            why: error.to_string(),
        };
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(&place)
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Alone::by_file(lock))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

impl Inner {
    /// Asks the shared memory of the log first, and the table only when something changed.
    fn generation(&mut self) -> Result<u64, rusqlite::Error> {
        let count: i64 = self
            .connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        match self.seen {
            Some((seen, generation)) if seen == count => Ok(generation),
            _ => {
                let generation = rows::generation(&self.connection)?;
                // A commit between the two questions shows as another count the next time.
                self.seen = Some((count, generation));
                Ok(generation)
            }
        }
    }

    /// Has the log hold nothing any more that is not in the database: what was removed, or sealed with another key, is
    /// in it for as long as any process has the database open otherwise. True while others read.
    fn empty_log(&mut self) -> Result<bool, rusqlite::Error> {
        self.connection.busy_timeout(SHORT_PATIENCE)?;
        let emptied = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        self.connection.busy_timeout(PATIENCE)?;
        emptied
    }

    /// False when something changed since `generation`.
    fn commit(&mut self, generation: u64, changes: &[Change]) -> Result<bool, rusqlite::Error> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        if rows::generation(&transaction)? != generation {
            return Ok(false);
        }
        for change in changes {
            rows::apply(&transaction, change)?;
        }
        transaction.execute(
            "UPDATE secret_generation SET generation = generation + 1",
            [],
        )?;
        transaction.commit()?;
        Ok(true)
    }
}

/// A writer holds the database for milliseconds; a slow disk for longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Nobody's reading takes that long.
const SHORT_PATIENCE: Duration = Duration::from_secs(2);
/// Three seconds of another process that makes the same tables.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
