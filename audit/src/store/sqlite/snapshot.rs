//! A copy of a database as of one moment, made while others write to it.
//!
//! Works for any database of gig's. The copy is its owner's alone and on the disk when it is there;
//! writers wait for nothing, since what they write meanwhile goes to the log beside the database.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use thiserror::Error;

use super::database;

/// There is no copy.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The database cannot be read, or the copy not be written.
    #[error("cannot copy the database {from} to {to}", from = from.display(), to = to.display())]
    Copy {
        /// Of what.
        from: PathBuf,
        /// Where it would have been.
        to: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// The file of the copy cannot be made, or did not come to the disk.
    #[error("cannot write {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What was copied is damaged.
    #[error("the database {} is damaged: {found}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What SQLite found first.
        found: String,
    },
}

/// Copies the database at `from`, which must be there, to a new file at `to` (0600).
///
/// # Errors
/// [`SnapshotError`]; a copy that is not whole is taken away again.
pub fn snapshot(from: &Path, to: &Path) -> Result<(), SnapshotError> {
    let file = |source| SnapshotError::File {
        path: to.to_owned(),
        source,
    };
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)
        .map_err(file)?;
    let copied = copy(from, to).map_err(|source| SnapshotError::Copy {
        from: from.to_owned(),
        to: to.to_owned(),
        source,
    });
    // SQLite does not wait for the disk while it makes a copy.
    let copied = copied.and_then(|()| File::open(to).and_then(|to| to.sync_all()).map_err(file));
    if copied.is_err() {
        // What cannot be removed is empty or useless, and its error is the smaller one.
        let _left = std::fs::remove_file(to);
    }
    copied
}

fn copy(from: &Path, to: &Path) -> Result<(), rusqlite::Error> {
    let connection = open(from)?;
    let to = to
        .to_str()
        .ok_or(rusqlite::Error::InvalidPath(to.to_owned()))?;
    connection.execute("VACUUM INTO ?1", [to]).map(drop)
}

/// Looks through all pages of the database at `path`.
///
/// # Errors
/// [`SnapshotError::Damaged`], or when it cannot be read.
pub fn check_pages(path: &Path) -> Result<(), SnapshotError> {
    let found = open(path).and_then(|connection| {
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    });
    let damaged = |found| SnapshotError::Damaged {
        path: path.to_owned(),
        found,
    };
    match found {
        Ok(found) if found == "ok" => Ok(()),
        Ok(found) => Err(damaged(found)),
        Err(error) => Err(damaged(error.to_string())),
    }
}

fn open(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = database::open_as_may_be(path, OpenFlags::SQLITE_OPEN_NOFOLLOW)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "trusted_schema", "OFF")?;
    Ok(connection)
}

const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_copy_is_of_one_moment_and_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a.db"), folder.path().join("b.db"));
        let writer = Connection::open(&from).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer
            .execute_batch("CREATE TABLE t (a INTEGER) STRICT")
            .unwrap();
        writer.execute("INSERT INTO t VALUES (1)", []).unwrap();
        // Begun, and not committed: no part of the moment.
        writer
            .execute_batch("BEGIN; INSERT INTO t VALUES (2)")
            .unwrap();
        snapshot(&from, &to).unwrap();
        writer.execute_batch("COMMIT").unwrap();
        check_pages(&to).unwrap();
        let copy = Connection::open(&to).unwrap();
        let rows: i64 = copy
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 1);
        assert_eq!(to.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn nothing_is_written_over_and_nothing_half_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a.db"), folder.path().join("b.db"));
        std::fs::write(&to, "mine").unwrap();
        assert!(matches!(
            snapshot(&from, &to),
            Err(SnapshotError::File { .. })
        ));
        assert_eq!(std::fs::read(&to).unwrap(), b"mine");
        std::fs::remove_file(&to).unwrap();
        assert!(matches!(
            snapshot(&from, &to),
            Err(SnapshotError::Copy { .. })
        ));
        assert!(!from.exists() && !to.exists());
        std::fs::write(&from, vec![7; 8192]).unwrap();
        assert!(snapshot(&from, &to).is_err());
        assert!(!to.exists());
        let damaged = check_pages(&from).unwrap_err();
        assert!(matches!(damaged, SnapshotError::Damaged { .. }));
    }
}
