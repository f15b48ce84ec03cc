//! What was heard of webhooks, as all nodes see it: a signature that was found right is good for one answer, at
//! whichever node, and also after each of them was started anew. Of each so much is heard: one that says much keeps no
//! other from being heard.

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
    (webhook, digest): (&str, &Digest),
    (until, now): (Timestamp, Timestamp),
) -> Outcome<Hearing> {
    db.execute("DELETE FROM heard WHERE until < ?1", [now.as_second()])?;
    let sql = "SELECT count(*) FROM heard WHERE webhook = ?1";
    let heard: u64 = db.query_row(sql, [webhook], |row| row.get(0))?;
    if heard >= MOST {
        return Ok(Hearing::Crowded);
    }
    let sql =
        "INSERT INTO heard (digest, until, webhook) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    let values = (digest.octets(), until.as_second(), webhook);
    Ok(match db.execute(sql, values)? {
        0 => Hearing::Again,
        _ => Hearing::First,
    })
}

/// Of one webhook, all nodes together: people press buttons one by one.
pub(super) const MOST: u64 = 1024;
