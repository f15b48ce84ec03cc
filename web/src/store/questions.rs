//! What one node asks of another, and what that answers: a row that is there for as long as somebody waits for it, and a
//! minute at most, by the database's clock.
//!
//! Nodes know no addresses of each other and listen for nobody: all that they have in common is their database, and
//! whoever writes to that is trusted by all of them. An answer may be what a program printed: PostgreSQL keeps the
//! table out of its log (`UNLOGGED`), and so out of standbys and of what is restored from them.

use std::time::Duration;

use super::tables::{DatabaseError, OptionalExtension as _, Transaction};

/// What a node is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// By which it is answered.
    pub id: String,
    /// In words of who asks and who answers.
    pub text: String,
}

/// Asks.
pub(super) fn put(
    db: &Transaction<'_>,
    node: &str,
    question: &Question,
) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO questions (id, node, question, asked)
               SELECT ?1, ?2, ?3, now FROM clock WHERE true ON CONFLICT (id) DO NOTHING";
    db.execute(sql, (&question.id, node, &question.text))
        .map(drop)
}

/// Those of a node that somebody may still wait for.
pub(super) fn of(db: &Transaction<'_>, node: &str) -> Result<Vec<Question>, DatabaseError> {
    let sql = "SELECT id, question FROM questions, clock
               WHERE node = ?1 AND answer IS NULL AND asked >= now - ?2 ORDER BY asked, id LIMIT 100";
    db.query_all(sql, (node, seconds(WAITED_FOR)), |row| {
        Ok(Question {
            id: row.get(0)?,
            text: row.get(1)?,
        })
    })
}

/// Answers; what nobody waits for any more is not kept.
pub(super) fn answer(db: &Transaction<'_>, id: &str, answer: &str) -> Result<(), DatabaseError> {
    let sql = "UPDATE questions SET answer = ?2 WHERE id = ?1 AND answer IS NULL";
    db.execute(sql, (id, answer)).map(drop)
}

/// The answer, if it is there.
pub(super) fn reply(db: &Transaction<'_>, id: &str) -> Result<Option<String>, DatabaseError> {
    let sql = "SELECT answer FROM questions WHERE id = ?1";
    let found = db.query_row(sql, [id], |row| row.get(0)).optional()?;
    Ok(found.flatten())
}

/// Forgets both.
pub(super) fn forget(db: &Transaction<'_>, id: &str) -> Result<(), DatabaseError> {
    db.execute("DELETE FROM questions WHERE id = ?1", [id])
        .map(drop)
}

/// Forgets those that somebody went away from.
pub(super) fn sweep(db: &Transaction<'_>) -> Result<(), DatabaseError> {
    let sql = "DELETE FROM questions WHERE asked < (SELECT now FROM clock) - ?1";
    db.execute(sql, [seconds(KEPT)]).map(drop)
}

fn seconds(of: Duration) -> i64 {
    of.as_secs().try_into().unwrap_or(i64::MAX)
}

/// Whoever asks waits no longer.
pub(crate) const WAITED_FOR: Duration = Duration::from_secs(10);
/// Of what nobody took: nodes look every ten seconds.
const KEPT: Duration = Duration::from_secs(50);
