//! Sandboxes that somebody asked to end where another node has them: that node reads of it with its next news.

use gig_policy::SandboxId;
use jiff::SignedDuration;

use super::{
    changes::Outcome,
    tables::{DatabaseError, Transaction},
};

/// Asks for its end, whichever node has it.
pub(super) fn ask(db: &Transaction<'_>, sandbox: SandboxId, now: i64) -> Outcome {
    let old = now.saturating_sub(LONG_DONE.as_secs());
    db.execute("DELETE FROM stops WHERE asked < ?1", [old])?;
    let sql = "INSERT INTO stops (sandbox, asked) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    db.execute(sql, (sandbox.to_string(), now))?;
    Ok(())
}

/// All that were asked for lately.
pub(super) fn asked(db: &Transaction<'_>) -> Result<Vec<String>, DatabaseError> {
    db.query_all("SELECT sandbox FROM stops", (), |row| row.get(0))
}

/// A node that heard of none of it for so long has lost its database, and allows nothing.
const LONG_DONE: SignedDuration = SignedDuration::from_mins(10);
