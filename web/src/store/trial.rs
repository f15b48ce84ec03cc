//! Whether anything can be written: a row that means nothing, another each time, in a commit of its own.

use jiff::Timestamp;

use super::tables::{DatabaseError, Transaction};

/// Writes it.
pub(super) fn try_out(db: &Transaction<'_>, now: Timestamp) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO settings (name, value) VALUES ('tried_out', ?1)
               ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    let value = now.as_millisecond().to_string();
    db.execute(sql, [value]).map(drop)
}
