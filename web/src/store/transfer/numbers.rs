//! A number of a policy's version is used once, also where a backup is put in place of what went on after it.
//!
//! Records tell which version of a policy decided. What a backup brings back begins with numbers that were given
//! away since, to other documents; so its newest document is saved again, behind the last number that there was.
//! What waits for approval and is built on the number that the backup had is to be proposed again.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags};

use super::super::{
    ChangeError, SqliteStore,
    tables::{DatabaseError, OptionalExtension as _, Tables as _, Transaction},
};

/// Who puts a backup in place, and when.
#[derive(Debug, Clone)]
pub struct Restorer {
    /// A name.
    pub name: String,
    /// The moment.
    pub at: Timestamp,
}

/// A policy whose newest version was saved again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renumbered {
    /// Which.
    pub name: String,
    /// Its number in the backup.
    pub was: u64,
    /// Its number now.
    pub now: u64,
}

/// Names of policies with the last number of each.
pub type Numbers = Vec<(String, u64)>;

/// The last number that each policy was given, also those that were removed.
pub(super) fn given(db: &Transaction<'_>) -> Result<Numbers, DatabaseError> {
    let sql = "SELECT name, version FROM policies ORDER BY name";
    db.query_all(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Sees to it that no number of `before` is given again.
pub(super) fn go_on(
    db: &Transaction<'_>,
    before: &Numbers,
    by: &Restorer,
) -> Result<Vec<Renumbered>, DatabaseError> {
    let mut all = Vec::new();
    for (name, last) in before {
        let name = name.as_str();
        let sql = "SELECT version, removed FROM policies WHERE name = ?1";
        let kept = db.query_row(sql, [name], |row| {
            Ok((row.get::<u64>(0)?, row.get::<bool>(1)?))
        });
        match kept.optional()? {
            // Nobody has it now; whoever makes one of that name again goes on.
            None => {
                let sql = "INSERT INTO policies (name, version, removed) VALUES (?1, ?2, 1)";
                db.execute(sql, (name, *last))?;
            }
            Some((version, _)) if version >= *last => {}
            Some((_, true)) => {
                let sql = "UPDATE policies SET version = ?2 WHERE name = ?1";
                db.execute(sql, (name, *last))?;
            }
            Some((version, false)) => {
                let now = last + 1;
                let reason = format!("restored: version {version} of the backup");
                let sql = "SELECT document FROM policy_versions WHERE name = ?1 AND version = ?2";
                let document: String = db.query_row(sql, (name, version), |row| row.get(0))?;
                let sql =
                    "INSERT INTO policy_versions (name, version, document, author, reason, created)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                let (who, second) = (by.name.as_str(), by.at.as_second());
                db.execute(sql, (name, now, document, who, reason, second))?;
                let sql = "UPDATE policies SET version = ?2 WHERE name = ?1";
                db.execute(sql, (name, now))?;
                all.push(Renumbered {
                    name: name.to_owned(),
                    was: version,
                    now,
                });
            }
        }
    }
    Ok(all)
}

/// The last number of each policy in a store's file, which may be of an earlier or a later gig: it is only looked at,
/// and stays what it is.
///
/// # Errors
/// In words, when it cannot be read.
pub fn given_in(file: &Path) -> Result<Numbers, String> {
    let read = || {
        let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut look = database.prepare("SELECT name, version FROM policies ORDER BY name")?;
        let rows = look.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<Result<Numbers, rusqlite::Error>>()
    };
    read().map_err(|error| error.to_string())
}

impl SqliteStore {
    /// Goes on behind these numbers: those of the store that this one, from a backup, takes the place of.
    ///
    /// # Errors
    /// [`ChangeError::Store`]; this one is as it was.
    pub fn go_on_behind(
        &self,
        before: &Numbers,
        by: &Restorer,
    ) -> Result<Vec<Renumbered>, ChangeError> {
        self.change(false, |db| Ok(go_on(db, before, by)?))
    }
}
