//! Removing old records of an SQLite database.

use std::{io, path::Path, time::Duration};

use rusqlite::{Connection, TransactionBehavior};

use super::{OpenSqliteError, Place, SqliteLog, database, seal, without_links};
use crate::{
    checkpoint::Statement,
    search::{
        posting::{BLOCK, Places, encode},
        walk::key_of,
    },
    signing::SigningKey,
    store::{
        StoreError,
        prune::{self, Goes, Prune, PruneError, PrunedChain, Shears},
    },
};

/// Removes old records of the database at `path`, chain by chain.
///
/// # Errors
/// When the database cannot be used. A chain that does not hold is an answer, and keeps its records.
pub fn prune(path: &Path, what: &Prune<'_>) -> Result<Vec<PrunedChain>, PruneError> {
    let not_found = |source| OpenSqliteError::File {
        path: path.to_owned(),
        source,
    };
    let path = &without_links(path).map_err(not_found)?;
    // It must be there: a database is not made to be pruned.
    let place = Place::of(path).map_err(not_found)?;
    let connection = database::open_to_write(path)?;
    let failed = |e: rusqlite::Error| place.error("prune", io::Error::other(e));
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    // What goes is overwritten, not only forgotten.
    connection
        .pragma_update(None, "secure_delete", "ON")
        .map_err(failed)?;
    let mut log = SqliteLog::over(connection, place.clone());
    let pruned = prune::prune(&mut log, what)?;
    if !what.dry_run {
        // The log still holds what went. Others may read: then the next checkpoint does it.
        let connection = &log.connection;
        connection.busy_timeout(SHORT_PATIENCE).map_err(failed)?;
        let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        emptied.map_err(failed)?;
    }
    Ok(pruned)
}

impl Shears for SqliteLog {
    fn hold_moment(&mut self) -> Result<(), StoreError> {
        Self::hold_moment(self)
    }

    fn end_moment(&mut self) -> Result<(), StoreError> {
        let ended = self.connection.execute_batch("COMMIT");
        self.told("prune", ended)
    }

    fn since(&mut self, chain: u32, known: u64) -> Result<Vec<u64>, StoreError> {
        let found = seal::since(&self.connection, chain, known);
        self.told("prune", found)
    }

    fn cut(
        &mut self,
        whose: (u32, &str),
        known: u64,
        key: &SigningKey,
        going: (&Statement, &Goes),
    ) -> Result<bool, StoreError> {
        let done = cut(&mut self.connection, whose, known, key, going);
        self.told("prune", done)
    }

    fn untidy(&mut self) -> Result<Vec<i64>, StoreError> {
        let read = || {
            let mut look = self
                .connection
                .prepare_cached("SELECT block FROM untidy ORDER BY block")?;
            look.query_map([], |row| row.get(0))?.collect()
        };
        let read = read();
        self.told("prune", read)
    }

    fn forget(&mut self, block: i64) -> Result<(), StoreError> {
        let done = forget(&mut self.connection, block);
        self.told("prune", done)
    }
}

fn cut(
    connection: &mut Connection,
    (chain, node): (u32, &str),
    known: u64,
    key: &SigningKey,
    (statement, goes): (&Statement, &Goes),
) -> Result<bool, rusqlite::Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if seal::since(&transaction, chain, known)?.contains(&statement.last) {
        return Ok(false);
    }
    seal::add(&transaction, (chain, node), key, statement)?;
    for (first, last) in &statement.pruned {
        let (first, last) = (key_of(chain, *first), key_of(chain, *last));
        transaction
            .prepare_cached("DELETE FROM record WHERE position BETWEEN ?1 AND ?2")?
            .execute([first, last])?;
    }
    for block in prune::blocks(chain, statement) {
        transaction
            .prepare_cached("INSERT OR IGNORE INTO untidy (block) VALUES (?1)")?
            .execute([block])?;
    }
    for (class, going) in goes {
        let keep = "INSERT INTO removed (chain, class, newest) VALUES (?1, ?2, ?3)
                    ON CONFLICT (chain, class) DO UPDATE SET newest = max(newest, excluded.newest)";
        let mut keep = transaction.prepare_cached(keep)?;
        keep.execute((chain, class.as_str(), &going.newest))?;
    }
    transaction.commit()?;
    Ok(true)
}

fn forget(connection: &mut Connection, block: i64) -> Result<(), rusqlite::Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut there = Places::NONE;
    let first = block * i64::from(BLOCK);
    let mut look = transaction
        .prepare_cached("SELECT position - ?1 FROM record WHERE position BETWEEN ?1 AND ?2")?;
    for place in look.query_map([first, first + i64::from(BLOCK) - 1], |row| row.get(0))? {
        there.add(place?);
    }
    drop(look);
    let mut look =
        transaction.prepare_cached("SELECT term, places FROM posting WHERE block = ?1")?;
    let terms = look.query_map([block], |row| {
        Ok((row.get(0)?, Places::decode(row.get_ref(1)?.as_blob()?)))
    })?;
    let terms: Vec<(i64, Places)> = terms.collect::<Result<_, _>>()?;
    drop(look);
    for (term, mut places) in terms {
        let before = places;
        places.meet(&there);
        if places.is_empty() {
            transaction
                .prepare_cached("DELETE FROM posting WHERE block = ?1 AND term = ?2")?
                .execute((block, term))?;
        } else if places != before {
            let mut left: Vec<u16> = places.newest_first().collect();
            left.reverse();
            transaction
                .prepare_cached("UPDATE posting SET places = ?3 WHERE block = ?1 AND term = ?2")?
                .execute((block, term, encode(&left)))?;
        }
    }
    transaction
        .prepare_cached("DELETE FROM untidy WHERE block = ?1")?
        .execute([block])?;
    transaction.commit()
}

/// Nobody waits for this: others go first.
const PATIENCE: Duration = Duration::from_secs(60);
const SHORT_PATIENCE: Duration = Duration::from_secs(2);
