//! Checkpoints in the database: signing what was written.

use std::ops::RangeInclusive;

use gig_postgres::{Link, LinkError};

use super::session::get;
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
    link: &Link,
    (chain, node): (u32, &str),
    key: &SigningKey,
    (head, began): (Head, Began),
) -> Result<(), LinkError> {
    alone(link, chain, || {
        let look = "SELECT coalesce(max(last), 0) FROM audit_checkpoint WHERE chain = $1";
        let row = link.asked(link.client().query_one(look, &[&chain.cast_signed()]))?;
        let covered: i64 = get(link, &row, 0)?;
        if let Some(statement) = Statement::of_all_behind(covered.cast_unsigned(), head, began) {
            add(link, (chain, node), key, &statement)?;
        }
        Ok(())
    })
}

/// Does `work` in a transaction beside which nobody else signs for this chain.
pub(super) fn alone<T>(
    link: &Link,
    chain: u32,
    work: impl FnOnce() -> Result<T, LinkError>,
) -> Result<T, LinkError> {
    // Until it has ended well nobody goes on with this connection.
    link.doubt();
    link.run("BEGIN")?;
    let take = "SELECT pg_advisory_xact_lock($1, $2)";
    let held = link.asked(link.client().execute(take, &[&SIGNS, &chain.cast_signed()]));
    let done = held.and_then(|_| work());
    let ended = link.run(if done.is_ok() { "COMMIT" } else { "ROLLBACK" });
    if ended.is_ok() {
        link.trust();
    }
    let done = done?;
    ended.map(|()| done)
}

/// Signs a statement as the chain's next checkpoint; within [`alone`].
pub(super) fn add(
    link: &Link,
    (chain, node): (u32, &str),
    key: &SigningKey,
    statement: &Statement,
) -> Result<(), LinkError> {
    let chain = chain.cast_signed();
    let look =
        "SELECT number, line FROM audit_checkpoint WHERE chain = $1 ORDER BY number DESC LIMIT 1";
    let last = link.asked(link.client().query_opt(look, &[&chain]))?;
    let (number, prev) = match &last {
        Some(row) => {
            let (number, line): (i64, &str) = (get(link, row, 0)?, get(link, row, 1)?);
            (number + 1, checkpoint::digest(line))
        }
        None => (1, ChainHash::NONE),
    };
    let sequel = (number.cast_unsigned(), prev);
    let line = checkpoint::sign(key, sequel, node, &now_text(), statement);
    let insert = "INSERT INTO audit_checkpoint (chain, number, last, line) VALUES ($1, $2, $3, $4)";
    let end = statement.last.cast_signed();
    let client = link.client();
    link.asked(client.execute(insert, &[&chain, &number, &end, &line]))
        .map(drop)
}

/// A chain's checkpoints, in order.
pub(super) fn lines(link: &Link, chain: u32) -> Result<Vec<String>, LinkError> {
    let look = "SELECT line FROM audit_checkpoint WHERE chain = $1 ORDER BY number";
    let rows = link.asked(link.client().query(look, &[&chain.cast_signed()]))?;
    rows.iter().map(|row| get(link, row, 0)).collect()
}

/// Of each segment that ends at a place of `ends` the newest checkpoint, in order; of `most` segments. What is older
/// of a segment is not read.
pub(super) fn newest(
    link: &Link,
    chain: u32,
    ends: &RangeInclusive<u64>,
    most: u32,
) -> Result<Vec<String>, LinkError> {
    let (from, to) = (bound(*ends.start()), bound(*ends.end()));
    let look = "
        SELECT c.line FROM
            (SELECT last, max(number) AS number FROM audit_checkpoint
             WHERE chain = $1 AND last BETWEEN $2 AND $3 GROUP BY last ORDER BY last LIMIT $4) n
        JOIN audit_checkpoint c ON c.chain = $1 AND c.number = n.number ORDER BY n.last";
    let (chain, most) = (chain.cast_signed(), i64::from(most));
    let rows = link.asked(link.client().query(look, &[&chain, &from, &to, &most]))?;
    rows.iter().map(|row| get(link, row, 0)).collect()
}

/// One checkpoint of a chain.
pub(super) fn line(link: &Link, chain: u32, number: u64) -> Result<Option<String>, LinkError> {
    let look = "SELECT line FROM audit_checkpoint WHERE chain = $1 AND number = $2";
    let (chain, number) = (chain.cast_signed(), bound(number));
    let row = link.asked(link.client().query_opt(look, &[&chain, &number]))?;
    row.map(|row| get(link, &row, 0)).transpose()
}

/// The last places of the segments that checkpoints behind number `known` speak of.
pub(super) fn since(link: &Link, chain: u32, known: u64) -> Result<Vec<u64>, LinkError> {
    let look = "SELECT last FROM audit_checkpoint WHERE chain = $1 AND number > $2";
    let (chain, known) = (chain.cast_signed(), known.cast_signed());
    let rows = link.asked(link.client().query(look, &[&chain, &known]))?;
    let last = |row| get::<i64>(link, row, 0).map(i64::cast_unsigned);
    rows.iter().map(last).collect()
}

/// Nothing stands behind it.
fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Of the locks with two numbers those of who signs: `gigc`.
const SIGNS: i32 = 0x6769_6763;
