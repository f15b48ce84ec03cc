//! Opening the file: its rights, its settings, its tables.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use thiserror::Error;

mod embedded {
    //! The tables, and how they came to be.
    refinery::embed_migrations!("src/store/sqlite/migrations");
}

/// A database cannot be used for audit records.
#[derive(Debug, Error)]
pub enum OpenSqliteError {
    /// The file cannot be opened or made.
    #[error("cannot open the audit database {path}")]
    File {
        /// As given.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is no database, or a damaged one.
    #[error("cannot use the audit database {path}")]
    Database {
        /// As given.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// It holds something else.
    #[error("{path} holds something other than audit records: name another file")]
    NotOurs {
        /// As given.
        path: PathBuf,
    },
    /// The tables cannot be made or brought up to date.
    #[error("cannot make the tables of the audit database {path}")]
    Tables {
        /// As given.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: Box<refinery::Error>,
    },
    /// A later gig made the tables.
    #[error("the audit database {path} was made by a later gig: use that one")]
    Later {
        /// As given.
        path: PathBuf,
    },
    /// The last record is not the one that the chain ended with.
    #[error(
        "cannot continue the record of {node} in {path}: its end was changed or cut off; move the \
         file away or name another"
    )]
    Continue {
        /// As given.
        path: PathBuf,
        /// Whose chain.
        node: String,
    },
}

/// The path without links, so that a journal is looked for where SQLite keeps it, and what is guarded
/// is what is opened. A database that is not there yet will stand in its folder.
///
/// # Errors
/// When the folder is not there or cannot be looked into.
pub fn without_links(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(folder.canonicalize()?.join(name))
}

/// A connection that writes; makes the file (0600) and its tables if need be. `path` has no links.
///
/// An existing file is opened by SQLite alone: closing another descriptor of it, at whatever time, would drop
/// the locks that this process holds, and without them another process takes the log away.
pub(crate) fn open_to_write(path: &Path) -> Result<Connection, OpenSqliteError> {
    make(path).map_err(|source| OpenSqliteError::File {
        path: path.to_owned(),
        source,
    })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection =
        Connection::open_with_flags(path, flags).map_err(|source| refused(path, source))?;
    patiently(|| prepare(&mut connection, path))?;
    Ok(connection)
}

/// An empty file where there is none; it is closed before SQLite locks it.
fn make(path: &Path) -> io::Result<()> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made.map(drop) {
        Err(there) if there.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// A file that is no database holds something else.
fn refused(path: &Path, source: rusqlite::Error) -> OpenSqliteError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => OpenSqliteError::NotOurs { path },
        _ => OpenSqliteError::Database { path, source },
    }
}

/// A connection that reads; the file must be there.
pub(crate) fn open_to_read(path: &Path) -> Result<Connection, OpenSqliteError> {
    let failed = |source| refused(path, source);
    let connection = open_as_may_be(path, OpenFlags::empty()).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    connection
        .pragma_update(None, "query_only", "ON")
        .map_err(failed)?;
    connection
        .pragma_update(None, "trusted_schema", "OFF")
        .map_err(failed)?;
    connection
        .pragma_update(None, "cache_size", READ_CACHE)
        .map_err(failed)?;
    if !is_ours(&connection).map_err(failed)? {
        return Err(OpenSqliteError::NotOurs {
            path: path.to_owned(),
        });
    }
    Ok(connection)
}

/// To write, because reading needs the shared memory file, and after a crash somebody has to go through the
/// write-ahead log: where the folder cannot be written, SQLite reads what it can.
pub(super) fn open_as_may_be(path: &Path, flags: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let common = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = |flags| Connection::open_with_flags(path, flags | common);
    open(OpenFlags::SQLITE_OPEN_READ_WRITE).or_else(|_| open(OpenFlags::SQLITE_OPEN_READ_ONLY))
}

/// Whether the file begins as an SQLite database does. Not to be asked of a database that this process
/// has open.
#[must_use]
pub fn is_sqlite(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *MAGIC
}

/// Device and inode.
pub(crate) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    path.metadata().map(|found| (found.dev(), found.ino()))
}

fn prepare(connection: &mut Connection, path: &Path) -> Result<(), OpenSqliteError> {
    let failed = |source| refused(path, source);
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    let empty: bool = connection
        .query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| {
            row.get(0)
        })
        .map_err(failed)?;
    if !empty && !is_ours(connection).map_err(failed)? {
        return Err(OpenSqliteError::NotOurs {
            path: path.to_owned(),
        });
    }
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .map_err(failed)?;
    // A commit hands its pages to the kernel; the recorder's thread waits for the disk.
    connection
        .pragma_update(None, "synchronous", "NORMAL")
        .map_err(failed)?;
    // Checkpoints wait for the disk: upkeep makes them, beside the writer.
    connection
        .pragma_update(None, "wal_autocheckpoint", 0)
        .map_err(failed)?;
    connection
        .pragma_update(None, "trusted_schema", "OFF")
        .map_err(failed)?;
    let newest = embedded::migrations::runner()
        .get_migrations()
        .iter()
        .map(refinery::Migration::version)
        .max()
        .map(i64::from);
    let applied = applied(connection).map_err(failed)?;
    if applied > newest {
        return Err(OpenSqliteError::Later {
            path: path.to_owned(),
        });
    }
    if applied == newest {
        return Ok(());
    }
    connection
        .pragma_update(None, "application_id", APPLICATION)
        .map_err(failed)?;
    let mut runner = embedded::migrations::runner().set_grouped(true);
    runner.set_migration_table_name(HISTORY);
    runner
        .run(connection)
        .map(drop)
        .map_err(|source| OpenSqliteError::Tables {
            path: path.to_owned(),
            source: Box::new(source),
        })
}

fn is_ours(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let id: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok(id == APPLICATION)
}

/// The newest migration that the database has.
fn applied(connection: &Connection) -> Result<Option<i64>, rusqlite::Error> {
    let there: bool = connection.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE name = ?1",
        [HISTORY],
        |row| row.get(0),
    )?;
    if !there {
        return Ok(None);
    }
    connection.query_row(&format!("SELECT max(version) FROM {HISTORY}"), [], |row| {
        row.get(0)
    })
}

/// Two processes may make the tables at once: who comes second finds them made. SQLite itself does
/// not wait for another process that turns the log on.
fn patiently(
    mut prepare: impl FnMut() -> Result<(), OpenSqliteError>,
) -> Result<(), OpenSqliteError> {
    for _ in 1..TRIES {
        match prepare() {
            Ok(()) => return Ok(()),
            Err(error @ (OpenSqliteError::NotOurs { .. } | OpenSqliteError::Later { .. })) => {
                return Err(error);
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
    prepare()
}

/// What every SQLite database begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// `giga`, so that a database of something else is never taken for ours.
const APPLICATION: i32 = 0x6769_6761;
/// Not refinery's own name: other tables of gig may come to live in one database with these.
const HISTORY: &str = "audit_schema_history";
const PATIENCE: Duration = Duration::from_secs(5);
/// 64 MiB, as SQLite counts it: a search that comes again finds its pages.
const READ_CACHE: i32 = -65_536;
/// Three seconds of another process that makes the same tables.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(50);
