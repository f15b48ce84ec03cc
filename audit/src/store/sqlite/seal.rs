//! Checkpoints in the database: signing what was written.

use std::ops::RangeInclusive;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use crate::{
    chain::Head,
    checkpoint::{self, Began, Statement},
    clock::now_text,
    record::ChainHash,
    signing::SigningKey,
};

/// Signs everything up to `head`, which the caller wrote itself, or found before it began behind `began`: that is said,
/// since what stands in the database is not believed. Nothing to do where somebody signed as far already, nor for who
/// writes beside an appliance that will sign what it wrote itself.
pub(super) fn seal(
    connection: &mut Connection,
    (chain, node): (u32, &str),
    key: &SigningKey,
    (head, began): (Head, Began),
) -> Result<(), rusqlite::Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let covered: Option<u64> = transaction
        .prepare_cached("SELECT max(last) FROM checkpoint WHERE chain = ?1")?
        .query_row([chain], |row| row.get(0))?;
    if let Some(statement) = Statement::of_all_behind(covered.unwrap_or_default(), head, began) {
        add(&transaction, (chain, node), key, &statement)?;
    }
    transaction.commit()
}

/// Signs a statement as the chain's next checkpoint; within a transaction that writes.
pub(super) fn add(
    connection: &Connection,
    (chain, node): (u32, &str),
    key: &SigningKey,
    statement: &Statement,
) -> Result<(), rusqlite::Error> {
    let last: Option<(u64, String)> = connection
        .prepare_cached(
            "SELECT number, line FROM checkpoint WHERE chain = ?1 ORDER BY number DESC LIMIT 1",
        )?
        .query_row([chain], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (number, prev) = match last {
        Some((number, line)) => (number + 1, checkpoint::digest(&line)),
        None => (1, ChainHash::NONE),
    };
    let line = checkpoint::sign(key, (number, prev), node, &now_text(), statement);
    connection
        .prepare_cached(
            "INSERT INTO checkpoint (chain, number, last, line) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((chain, number, statement.last, line))?;
    Ok(())
}

/// A chain's checkpoints, in order; none in a database that is older than they are.
pub(super) fn lines(connection: &Connection, chain: u32) -> Result<Vec<String>, rusqlite::Error> {
    if !has_table(connection)? {
        return Ok(Vec::new());
    }
    connection
        .prepare_cached("SELECT line FROM checkpoint WHERE chain = ?1 ORDER BY number")?
        .query_map([chain], |row| row.get(0))?
        .collect()
}

/// Of each segment that ends at a place of `ends` the newest checkpoint, in order; of `most` segments. What is older
/// of a segment is not read.
pub(super) fn newest(
    connection: &Connection,
    chain: u32,
    ends: RangeInclusive<u64>,
    most: u32,
) -> Result<Vec<String>, rusqlite::Error> {
    if !has_table(connection)? {
        return Ok(Vec::new());
    }
    connection
        .prepare_cached(
            "SELECT c.line FROM
                 (SELECT last, max(number) AS number FROM checkpoint
                  WHERE chain = ?1 AND last BETWEEN ?2 AND ?3 GROUP BY last ORDER BY last LIMIT ?4) n
             JOIN checkpoint c ON c.chain = ?1 AND c.number = n.number ORDER BY n.last",
        )?
        .query_map((chain, bound(*ends.start()), bound(*ends.end()), most), |row| row.get(0))?
        .collect()
}

/// One checkpoint of a chain.
pub(super) fn line(
    connection: &Connection,
    chain: u32,
    number: u64,
) -> Result<Option<String>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT line FROM checkpoint WHERE chain = ?1 AND number = ?2")?
        .query_row((chain, bound(number)), |row| row.get(0))
        .optional()
}

/// The last places of the segments that checkpoints behind number `known` speak of.
pub(super) fn since(
    connection: &Connection,
    chain: u32,
    known: u64,
) -> Result<Vec<u64>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT last FROM checkpoint WHERE chain = ?1 AND number > ?2")?
        .query_map((chain, known), |row| row.get(0))?
        .collect()
}

/// Chains that have checkpoints and nothing else: somebody took the rest away.
pub(super) fn without_chain(connection: &Connection) -> Result<Vec<u32>, rusqlite::Error> {
    if !has_table(connection)? {
        return Ok(Vec::new());
    }
    connection
        .prepare_cached(
            "SELECT DISTINCT chain FROM checkpoint WHERE chain NOT IN (SELECT chain FROM chain)",
        )?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// Nothing stands behind it.
fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn has_table(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached("SELECT count(*) FROM sqlite_schema WHERE name = 'checkpoint'")?
        .query_row([], |row| row.get(0))
}
