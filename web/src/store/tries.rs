//! How often somebody failed to sign in lately, as all nodes see it: several nodes give nobody several times the tries,
//! and a restart forgets none.
//!
//! Each is some statements by themselves, beside changes and not among them: whoever guesses holds no change up. Which
//! tries are counted as what is said by who asks (`auth::limits`), which also bounds what comes here by what it has in
//! memory.

use jiff::{SignedDuration, Timestamp};

use super::tables::{DatabaseError, OptionalExtension as _, Transaction};
use crate::credential::Digest;

/// A counter of tries.
#[derive(Debug, Clone)]
pub struct Counter {
    /// Of what it counts.
    pub what: Digest,
    /// How many may be within a quarter of an hour.
    pub most: u32,
    /// One that succeeds forgets all that failed before it, and not itself alone.
    pub forgets: bool,
}

/// Takes one of each of these, or none and says how many seconds are to be waited.
pub(super) fn take(
    db: &Transaction<'_>,
    counters: &[Counter],
    now: Timestamp,
) -> Result<Option<u64>, DatabaseError> {
    let now = now.as_second();
    let over = now - WINDOW.as_secs();
    db.execute("DELETE FROM tries WHERE since <= ?1", [over])?;
    for one in counters {
        let sql = "SELECT since, count FROM tries WHERE what = ?1";
        let kept = db.query_row(sql, [one.what.octets()], |row| {
            Ok((row.get::<i64>(0)?, row.get::<i64>(1)?))
        });
        let full = kept.optional()?;
        if let Some((since, _)) = full.filter(|(_, count)| *count >= i64::from(one.most)) {
            return Ok(Some(left(since, now)));
        }
    }
    for (at, one) in counters.iter().enumerate() {
        let sql = "INSERT INTO tries (what, since, count) VALUES (?1, ?2, 1)
                   ON CONFLICT (what) DO UPDATE SET
                       count = CASE WHEN tries.since <= ?3 THEN 1 ELSE tries.count + 1 END,
                       since = CASE WHEN tries.since <= ?3 THEN ?2 ELSE tries.since END
                   RETURNING since, count";
        let values = (one.what.octets(), now, over);
        let (since, count): (i64, i64) =
            db.query_row(sql, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
        // Another try took the last one since.
        if count > i64::from(one.most) {
            for taken in counters.iter().take(at + 1) {
                db.execute(TAKE_BACK, [taken.what.octets()])?;
            }
            return Ok(Some(left(since, now)));
        }
    }
    Ok(None)
}

/// Takes one back: it was none of a guesser.
pub(super) fn give_back(db: &Transaction<'_>, counters: &[Counter]) -> Result<(), DatabaseError> {
    for one in counters {
        let sql = match one.forgets {
            true => "DELETE FROM tries WHERE what = ?1",
            false => TAKE_BACK,
        };
        db.execute(sql, [one.what.octets()])?;
    }
    Ok(())
}

/// Seconds.
fn left(since: i64, now: i64) -> u64 {
    let left = since + WINDOW.as_secs() - now;
    u64::try_from(left).unwrap_or_default().max(1)
}

const TAKE_BACK: &str = "UPDATE tries SET count = count - 1 WHERE what = ?1 AND count > 0";
/// For as long as a failure counts.
pub(crate) const WINDOW: SignedDuration = SignedDuration::from_mins(15);
