//! The store as tables of an SQLite database: `gig.db` in the data directory, beside the vault's.
//!
//! The file is its owner's alone (0600) and written ahead (WAL); every commit waits for the disk, so
//! that what was acknowledged survives `kill -9` and a power cut. Several processes may use it at once:
//! the appliance, and commands beside it.

use std::{
    fs::OpenOptions,
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};
use thiserror::Error;

mod changes;
mod proposals;
mod rows;

use super::{
    Actor, Applied, Assignment, Change, ChangeError, PolicyHead, PolicyVersion, Proposal, Server,
    Session, Store, StoreError, Token, User, Witness,
};

mod embedded {
    //! The tables, and how they came to be.
    refinery::embed_migrations!("src/store/sqlite/migrations");
}

/// An open database.
#[derive(Debug)]
pub struct SqliteStore {
    place: Arc<str>,
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
        Ok(Self {
            place: path.display().to_string().into(),
            connection: Mutex::new(connection),
        })
    }

    fn read<T>(
        &self,
        ask: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        ask(&self.connection.lock()).map_err(|source| self.error("read", source))
    }

    fn error(&self, attempted: &'static str, source: rusqlite::Error) -> StoreError {
        StoreError {
            attempted,
            place: Arc::clone(&self.place),
            source: Box::new(source),
        }
    }
}

/// Makes the file, 0600; refuses one that others can open.
fn own_file(path: &Path) -> Result<(), OpenStoreError> {
    let failed = |source| OpenStoreError::File {
        path: path.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
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

impl Store for SqliteStore {
    fn apply(
        &self,
        change: &Change,
        actor: &Actor,
        witness: Witness<'_>,
    ) -> Result<Applied, ChangeError> {
        let mut connection = self.connection.lock();
        let failed = |source| ChangeError::Store(self.error("write", source));
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let applied =
            proposals::apply(&transaction, change, actor).map_err(|refused| match refused {
                changes::Refused::Change(error) => error,
                changes::Refused::Database(source) => failed(source),
            })?;
        witness(change.entry(actor, &applied)).map_err(ChangeError::NotRecorded)?;
        transaction.commit().map_err(failed)?;
        Ok(applied)
    }

    fn users(&self) -> Result<Vec<User>, StoreError> {
        self.read(|db| rows::all(db, rows::USERS, [], rows::user))
    }

    fn user(&self, name: &str) -> Result<Option<User>, StoreError> {
        self.read(|db| db.query_row(rows::ONE_USER, [name], rows::user).optional())
    }

    fn sessions(&self, now: Timestamp) -> Result<Vec<Session>, StoreError> {
        self.read(|db| rows::all(db, rows::SESSIONS, rows::alive(now), rows::session))
    }

    fn session(&self, id: &str, now: Timestamp) -> Result<Option<Session>, StoreError> {
        let (now, idle) = rows::alive(now);
        self.read(|db| {
            db.query_row(rows::ONE_SESSION, (now, idle, id), rows::session)
                .optional()
        })
    }

    fn touch_session(&self, id: &str, now: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE sessions SET seen = ?2 WHERE id = ?1";
        self.read(|db| db.execute(sql, (id, now.as_second())).map(drop))
    }

    fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.read(|db| rows::all(db, rows::TOKENS, [], rows::token))
    }

    fn token(&self, id: &str, now: Timestamp) -> Result<Option<Token>, StoreError> {
        self.read(|db| {
            db.query_row(rows::ONE_TOKEN, (id, now.as_second()), rows::token)
                .optional()
        })
    }

    fn touch_token(&self, id: &str, now: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE tokens SET used = ?2 WHERE id = ?1";
        self.read(|db| db.execute(sql, (id, now.as_second())).map(drop))
    }

    fn policies(&self) -> Result<Vec<PolicyHead>, StoreError> {
        self.read(|db| rows::all(db, rows::POLICIES, [], rows::head))
    }

    fn policy(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<PolicyVersion>, StoreError> {
        self.read(|db| {
            db.query_row(rows::ONE_POLICY, (name, version), rows::version)
                .optional()
        })
    }

    fn versions(
        &self,
        name: &str,
        before: Option<u64>,
        most: u32,
    ) -> Result<Vec<PolicyHead>, StoreError> {
        let before = before.and_then(|before| i64::try_from(before).ok());
        let before = before.unwrap_or(i64::MAX);
        self.read(|db| rows::all(db, rows::VERSIONS, (name, before, most), rows::head))
    }

    fn assignments(&self) -> Result<Vec<Assignment>, StoreError> {
        self.read(|db| rows::all(db, rows::ASSIGNMENTS, [], rows::assignment))
    }

    fn servers(&self) -> Result<Vec<Server>, StoreError> {
        self.read(|db| rows::all(db, rows::SERVERS, [], rows::server))
    }

    fn server(&self, name: &str) -> Result<Option<Server>, StoreError> {
        self.read(|db| {
            db.query_row(rows::ONE_SERVER, [name], rows::server)
                .optional()
        })
    }

    fn two_person_rule(&self) -> Result<bool, StoreError> {
        self.read(proposals::rule_is_on)
    }

    fn proposals(
        &self,
        pending: bool,
        before: Option<u64>,
        most: u32,
    ) -> Result<Vec<Proposal>, StoreError> {
        let before = before.and_then(|before| i64::try_from(before).ok());
        self.read(|db| proposals::some(db, pending, before.unwrap_or(i64::MAX), most))
    }

    fn proposal(&self, id: u64) -> Result<Option<Proposal>, StoreError> {
        self.read(|db| proposals::one(db, id))
    }
}

/// Not refinery's own name: the vault's tables live in the same file with a history of their own.
const HISTORY: &str = "appliance_schema_history";
/// Another process holds the lock for a commit, not for longer.
const PATIENCE: Duration = Duration::from_secs(10);
