//! Requests that are made once, as statements: who asked for what under which key, how far it came, and what
//! was answered.
//!
//! A change marks its row in its own transaction: there is one of it, whoever asks again, on whichever node,
//! and whoever was killed over it. What is not a change of the store is marked before it is begun; where its
//! end is not known, nobody begins it again.

use jiff::{SignedDuration, Timestamp};

use super::{
    Actor, ChangeError, StoreError,
    changes::Outcome,
    tables::{DatabaseError, OptionalExtension as _, Refused, Row, Transaction},
};
use crate::credential::Digest;

/// One try of a request that is made once.
#[derive(Debug, Clone)]
pub struct Once {
    /// Whose key it is.
    pub caller: String,
    /// Of the key.
    pub key: Digest,
    /// Which try this is.
    pub attempt: String,
}

/// A request that somebody wants made once.
#[derive(Debug)]
pub struct Asked {
    /// The try.
    pub once: Once,
    /// Of all that it asks for: another request under the same key is refused.
    pub fingerprint: Digest,
    /// What the caller may: an answer is repeated to who may the same.
    pub may: String,
    /// What it does is not, or not only, a change of the store.
    pub acts: bool,
}

/// What an answer was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// HTTP's.
    pub status: u16,
    /// Those that belong to the answer, as a JSON object.
    pub headers: String,
    /// All of it.
    pub body: Vec<u8>,
}

/// What became of an answer.
#[derive(Debug)]
pub enum Finish {
    /// It is repeated to who asks again.
    Kept(KeptAnswer),
    /// It held what is shown one time.
    Shown(u16),
    /// It was refused or failed: repeated only if something was done; begun again only if nothing was.
    Refused(KeptAnswer),
}

/// Whether a request is made.
#[derive(Debug, PartialEq, Eq)]
pub enum Begun {
    /// By this try.
    Now,
    /// It was; this was answered.
    Before(KeptAnswer),
    /// It was, and the answer held what is shown one time.
    Shown,
    /// Another try is under way.
    Running,
    /// A try ended in the midst of it: a change that was made, or something of which nobody knows.
    Lost {
        /// It was made.
        made: bool,
    },
    /// Something else was asked under this key.
    Other,
    /// What the caller may has changed since.
    Lapsed,
    /// The caller has used as many keys as are kept.
    Full,
}

/// Takes a request down, or says what became of it.
pub(super) fn begin(db: &Transaction<'_>, asked: &Asked, now: Timestamp) -> Outcome<Begun> {
    let second = now.as_second();
    let sql = "DELETE FROM answers WHERE created <= ?1";
    db.execute(sql, [second - KEPT.as_secs()])?;
    let Once {
        caller,
        key,
        attempt,
    } = &asked.once;
    let sql = "SELECT fingerprint, state, may, created, status, headers, body FROM answers
               WHERE caller = ?1 AND key_digest = ?2";
    let kept = db.query_row(sql, (caller, key.octets()), Kept::of);
    if let Some(kept) = kept.optional()? {
        return kept.begin(db, asked, second);
    }
    let sql = "SELECT count(*) FROM answers WHERE caller = ?1";
    let keys: i64 = db.query_row(sql, [caller], |row| row.get(0))?;
    if keys >= MOST {
        return Ok(Begun::Full);
    }
    let sql = "INSERT INTO answers
               (caller, key_digest, attempt, fingerprint, state, may, created)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let state = if asked.acts { ACTING } else { RUNNING };
    let fingerprint = asked.fingerprint.octets();
    let values = (
        caller,
        key.octets(),
        attempt,
        fingerprint,
        state,
        &asked.may,
        second,
    );
    db.execute(sql, values)?;
    Ok(Begun::Now)
}

/// What there is of a request.
struct Kept {
    fingerprint: Digest,
    state: String,
    may: String,
    created: i64,
    answer: Option<KeptAnswer>,
}

impl Kept {
    fn of(row: &Row) -> Result<Self, DatabaseError> {
        let status: Option<u32> = row.get(4)?;
        let status = status.and_then(|status| status.try_into().ok());
        let (headers, body): (Option<String>, Option<Vec<u8>>) = (row.get(5)?, row.get(6)?);
        let answer = status.zip(body).map(|(status, body)| KeptAnswer {
            status,
            headers: headers.unwrap_or_default(),
            body,
        });
        Ok(Self {
            fingerprint: Digest::from_octets(row.get(0)?),
            state: row.get(1)?,
            may: row.get(2)?,
            created: row.get(3)?,
            answer,
        })
    }

    fn begin(self, db: &Transaction<'_>, asked: &Asked, now: i64) -> Outcome<Begun> {
        if !self.fingerprint.is(&asked.fingerprint) {
            return Ok(Begun::Other);
        }
        if self.may != asked.may {
            return Ok(Begun::Lapsed);
        }
        let is_stale = now - self.created >= GIVEN_UP.as_secs();
        Ok(match self.state.as_str() {
            DONE => self
                .answer
                .map_or(Begun::Lost { made: true }, Begun::Before),
            SHOWN => Begun::Shown,
            // It has changed nothing, and cannot any more: its row will be another try's.
            RUNNING if is_stale => {
                let sql = "UPDATE answers SET attempt = ?3, created = ?4
                           WHERE caller = ?1 AND key_digest = ?2";
                let Once {
                    caller,
                    key,
                    attempt,
                } = &asked.once;
                db.execute(sql, (caller, key.octets(), attempt, now))?;
                Begun::Now
            }
            state if is_stale => Begun::Lost {
                made: state == MADE,
            },
            _ => Begun::Running,
        })
    }
}

/// In the transaction of a change: it is made, by this try and by no other.
pub(super) fn hold(db: &Transaction<'_>, actor: &Actor) -> Outcome {
    let Some(once) = &actor.once else {
        return Ok(());
    };
    // What acts beside the store is acting on: it is not done when its change is.
    let sql = "UPDATE answers SET state = CASE state WHEN 'acting' THEN 'acting' ELSE 'made' END
               WHERE caller = ?1 AND key_digest = ?2 AND attempt = ?3
               AND state IN ('running', 'acting', 'made')";
    match db.execute(sql, (&once.caller, once.key.octets(), &once.attempt))? {
        0 => Err(Refused::Change(ChangeError::Overtaken)),
        _ => Ok(()),
    }
}

/// Takes down what was answered.
pub(super) fn finish(db: &Transaction<'_>, once: &Once, finish: &Finish) -> Outcome {
    let (caller, key, attempt) = (&once.caller, once.key.octets(), &once.attempt);
    let this = "WHERE caller = ?1 AND key_digest = ?2 AND attempt = ?3";
    let (state, status, answer) = match finish {
        Finish::Kept(answer) | Finish::Refused(answer) => (DONE, answer.status, Some(answer)),
        Finish::Shown(status) => (SHOWN, *status, None),
    };
    let mut of = "";
    if let Finish::Refused(_) = finish {
        // Nothing was made: who asks again is answered again, and what an answer may quote is not kept. What
        // acts and breaks off in the midst of it has done nobody knows what: that is left as it is.
        let refused = if status < 500 { ACTING } else { RUNNING };
        let sql = format!("DELETE FROM answers {this} AND state IN ('running', ?4)");
        db.execute(&sql, (caller, key, attempt, refused))?;
        of = "AND state = 'made'";
    }
    let sql =
        format!("UPDATE answers SET state = ?4, status = ?5, headers = ?6, body = ?7 {this} {of}");
    let headers = answer.map(|answer| answer.headers.as_str());
    let body = answer.map(|answer| answer.body.as_slice());
    let status = u32::from(status);
    let values = (caller, key, attempt, state, status, headers, body);
    db.execute(&sql, values)?;
    Ok(())
}

/// There is nothing to refuse in a note.
pub(super) fn failed(error: ChangeError) -> StoreError {
    match error {
        ChangeError::Store(error) => error,
        other => StoreError {
            attempted: "write",
            place: "a note of a request".into(),
            source: Box::new(other),
        },
    }
}

/// It was begun, and changes the store alone.
const RUNNING: &str = "running";
/// It was begun, and does more than that.
const ACTING: &str = "acting";
/// Its change is there.
const MADE: &str = "made";
/// It was answered.
const DONE: &str = "done";
/// The same, and the answer is not repeated.
const SHOWN: &str = "shown";
/// Whoever asks again does so within minutes; the day is for those who look into a queue in the morning.
const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// Twice as long as any request runs.
const GIVEN_UP: SignedDuration = SignedDuration::from_secs(120);
/// Of one caller: one every ten seconds of the day.
pub(super) const MOST: i64 = 10_000;
