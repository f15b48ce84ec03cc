//! What was heard of webhooks, as all nodes see it: a signature that was found right is good for one answer, at
//! whichever node, and also after each of them was started anew.

use jiff::Timestamp;

use super::{changes::Outcome, tables::Transaction};
use crate::credential::Digest;

/// Whether something is heard for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearing {
    /// It is, and is noted.
    First,
    /// It was heard before.
    Again,
    /// Too much was heard of late to tell.
    Crowded,
}

/// Notes a signature that holds until then, in the change of its own that no other runs beside.
pub(super) fn note(
    db: &Transaction<'_>,
    digest: &Digest,
    (until, now): (Timestamp, Timestamp),
) -> Outcome<Hearing> {
    db.execute("DELETE FROM heard WHERE until < ?1", [now.as_second()])?;
    let heard: u64 = db.query_row("SELECT count(*) FROM heard", (), |row| row.get(0))?;
    if heard >= MOST {
        return Ok(Hearing::Crowded);
    }
    let sql = "INSERT INTO heard (digest, until) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    Ok(
        match db.execute(sql, (digest.octets(), until.as_second()))? {
            0 => Hearing::Again,
            _ => Hearing::First,
        },
    )
}

/// People press buttons one by one: seven a second, all nodes together.
const MOST: u64 = 4096;
