//! The store as tables of an SQLite database: `gig.db` in the data directory, beside the vault's.
//!
//! The file is its owner's alone (0600) and written ahead (WAL); every commit waits for the disk, so
//! that what was acknowledged survives `kill -9` and a power cut. Several processes may use it at once:
//! the appliance, and commands beside it. A file that has lost its name, or has given it to another, is read and written no
//! more: whoever starts next would not find what was written.

use std::{
    fs::OpenOptions,
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{
    Connection, OpenFlags, ToSql, TransactionBehavior, params_from_iter,
    types::{ToSqlOutput, ValueRef},
};
use thiserror::Error;

use super::{
    ChangeError, News, StoreError,
    tables::{DatabaseError, Refused, Row, Statements, Tables, Transaction, Value},
    trial,
};

mod embedded {
    //! The tables, and how they came to be.
    refinery::embed_migrations!("src/store/sqlite/migrations");
}

/// An open database.
#[derive(Debug)]
pub struct SqliteStore {
    place: Arc<str>,
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    connection: Mutex<Connection>,
}

/// The database cannot be used.
#[derive(Debug, Error)]
pub enum OpenStoreError {
    /// The file cannot be opened or made.
    #[error("cannot open {}", path.display())]
    File {
        /// As given.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Others can read or write it.
    #[error("others can open {path} (mode {mode:04o}): chmod 600 {path}", path = path.display())]
    Shared {
        /// As given.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is no database, or a damaged one.
    #[error("cannot use {} as gig's database", path.display())]
    Database {
        /// As given.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// The tables cannot be made or brought up to date.
    #[error("cannot bring the tables of {} up to date", path.display())]
    Tables {
        /// As given.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: Box<refinery::Error>,
    },
    /// A later gig made the tables.
    #[error("{} was made by a later gig: use that one", path.display())]
    Later {
        /// As given.
        path: PathBuf,
    },
}

impl SqliteStore {
    /// Opens the database at `path`; makes it and its tables if need be.
    ///
    /// # Errors
    /// [`OpenStoreError`].
    pub fn open(path: &Path) -> Result<Self, OpenStoreError> {
        own_file(path)?;
        let failed = |source| OpenStoreError::Database {
            path: path.to_owned(),
            source,
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        set_up(&connection).map_err(failed)?;
        migrate(&mut connection, path)?;
        let identity = Self::identity_of(path).map_err(|source| OpenStoreError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            place: path.display().to_string().into(),
            path: path.to_owned(),
            identity,
            connection: Mutex::new(connection),
        })
    }

    /// Device and inode of the file that it has open.
    #[must_use]
    pub const fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// The connection, while the file that it has open is the one of that name.
    fn connection(&self) -> Result<MutexGuard<'_, Connection>, StoreError> {
        let found = Self::identity_of(&self.path).and_then(|found| match found == self.identity {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "another file is in its place: stop gig, put back the one that it began with, and start it",
            )),
        });
        let gone = |error: io::Error| self.error("find", DatabaseError::Failed(error.into()));
        found.map_err(gone)?;
        Ok(self.connection.lock())
    }

    /// Device and inode of what has this name now.
    ///
    /// # Errors
    /// When nothing has it, or nobody may look.
    pub fn identity_of(path: &Path) -> io::Result<(u64, u64)> {
        let found = path.symlink_metadata()?;
        Ok((found.dev(), found.ino()))
    }

    fn error(&self, attempted: &'static str, source: DatabaseError) -> StoreError {
        StoreError {
            attempted,
            place: Arc::clone(&self.place),
            source: Box::new(source),
        }
    }
}

/// Makes the file, 0600; refuses one that others can open.
///
/// One that is there is looked at and not opened: the vault has it open in this process, too, and closing a
/// descriptor of it would drop the locks of both.
fn own_file(path: &Path) -> Result<(), OpenStoreError> {
    let failed = |source| OpenStoreError::File {
        path: path.to_owned(),
        source,
    };
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made.map(drop) {
        Err(there) if there.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(failed)?,
    }
    let mode = path.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(OpenStoreError::Shared {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(())
}

fn set_up(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // An acknowledged change is on the disk.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "secure_delete", "ON")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.pragma_update(None, "trusted_schema", "OFF")
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenStoreError> {
    let failed = |source| OpenStoreError::Database {
        path: path.to_owned(),
        source,
    };
    let mut runner = embedded::migrations::runner().set_grouped(true);
    let versions = runner.get_migrations().iter();
    let newest = versions.map(|one| i64::from(one.version())).max();
    let applied = applied(connection).map_err(failed)?;
    if applied > newest {
        return Err(OpenStoreError::Later {
            path: path.to_owned(),
        });
    }
    if applied == newest {
        return Ok(());
    }
    runner.set_migration_table_name(HISTORY);
    runner
        .run(connection)
        .map(drop)
        .map_err(|source| OpenStoreError::Tables {
            path: path.to_owned(),
            source: Box::new(source),
        })
}

fn applied(connection: &Connection) -> Result<Option<i64>, rusqlite::Error> {
    let known: bool = connection.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name = ?1",
        [HISTORY],
        |row| row.get(0),
    )?;
    if !known {
        return Ok(None);
    }
    connection.query_row(&format!("SELECT max(version) FROM {HISTORY}"), [], |row| {
        row.get(0)
    })
}

impl Tables for SqliteStore {
    fn read<R>(
        &self,
        ask: impl Fn(&Transaction<'_>) -> Result<R, DatabaseError>,
    ) -> Result<R, StoreError> {
        let connection = self.connection()?;
        ask(&Transaction(&*connection)).map_err(|source| self.error("read", source))
    }

    fn hastily(&self, now: Timestamp) -> Result<(), StoreError> {
        let connection = self.connection()?;
        let waits = |patience| {
            let set = connection.busy_timeout(patience);
            set.map_err(|source| self.error("set up", source.into()))
        };
        waits(HASTE)?;
        let tried = trial::try_out(&Transaction(&*connection), now);
        waits(PATIENCE)?;
        tried.map_err(|source| self.error("write", source))
    }

    fn snapshot<R>(
        &self,
        ask: impl Fn(&Transaction<'_>) -> Result<R, DatabaseError>,
    ) -> Result<R, StoreError> {
        let mut connection = self.connection()?;
        let failed = |source| self.error("read", source);
        // The owner's commands write beside it.
        let transaction = connection
            .transaction()
            .map_err(|source| failed(source.into()))?;
        ask(&Transaction(&*transaction)).map_err(failed)
    }

    fn change<R>(
        &self,
        _policies: bool,
        make: impl FnOnce(&Transaction<'_>) -> Result<R, Refused>,
    ) -> Result<R, ChangeError> {
        let mut connection = self.connection().map_err(ChangeError::Store)?;
        let failed = |source| ChangeError::Store(self.error("write", source));
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|source| failed(source.into()))?;
        let made = make(&Transaction(&*transaction)).map_err(|refused| match refused {
            Refused::Change(error) => error,
            Refused::Database(source) => failed(source),
        })?;
        transaction
            .commit()
            .map_err(|source| failed(source.into()))?;
        Ok(made)
    }

    fn follow(&self) -> Option<Box<dyn News>> {
        // One appliance has it, and makes every change to policies itself.
        None
    }
}

impl Statements for Connection {
    fn execute(&self, sql: &str, values: Vec<Value>) -> Result<u64, DatabaseError> {
        let changed = self
            .prepare_cached(sql)?
            .execute(params_from_iter(values))?;
        Ok(changed.try_into().unwrap_or(u64::MAX))
    }

    fn batch(&self, sql: &str) -> Result<(), DatabaseError> {
        Ok(self.execute_batch(sql)?)
    }

    fn rows(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, DatabaseError> {
        let mut statement = self.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut found = statement.query(params_from_iter(values))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let cells = (0..columns).map(|column| cell(row.get_ref(column)?, column));
            rows.push(Row(cells.collect::<Result<_, _>>()?));
        }
        Ok(rows)
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Octets(octets) => ValueRef::Blob(octets),
        }))
    }
}

fn cell(value: ValueRef<'_>, column: usize) -> Result<Value, DatabaseError> {
    let unreadable = |why: String| DatabaseError::Unreadable { column, why };
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Text(octets) => {
            let text = str::from_utf8(octets).map_err(|error| unreadable(error.to_string()))?;
            Value::Text(text.to_owned())
        }
        ValueRef::Blob(octets) => Value::Octets(octets.to_vec()),
        ValueRef::Real(_) => return Err(unreadable("it is a fraction".to_owned())),
    })
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// Not refinery's own name: the vault's tables live in the same file with a history of their own.
const HISTORY: &str = "appliance_schema_history";
/// Another process holds the lock for a commit, not for longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A commit on a slow disk takes less.
const HASTE: Duration = Duration::from_millis(500);
