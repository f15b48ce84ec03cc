//! What webhooks were told, as all nodes see it: one row for each webhook and each thing that it was told of.
//!
//! Whoever tells takes the row first, so that of several nodes one tells, and says afterwards how it ended: what was
//! not delivered is told again, a bounded number of times; of one denial that was taken no webhook is told twice. A
//! webhook is answered by such a row alone, within a day, and once: who answers takes the row before anything is
//! decided. A row outlasts the day of its denial, so that its button does.

use jiff::{SignedDuration, Timestamp};

use super::{
    changes::Outcome,
    tables::{DatabaseError, OptionalExtension as _, Row, Transaction},
};

/// Something that a webhook is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telling {
    /// Which webhook.
    pub webhook: String,
    /// What it is answered by: the id of a request that waits, or `record:` and that of a denial.
    pub about: String,
    /// Which destination of which policy was denied; empty of what waits.
    pub what: String,
}

/// How far something was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldRow {
    /// What.
    pub telling: Telling,
    /// How far.
    pub state: ToldState,
    /// How often that was begun.
    pub tries: u32,
    /// Since when.
    pub since: Timestamp,
}

/// How far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToldState {
    /// A node is at it.
    Telling,
    /// It was taken.
    Told,
    /// It was not.
    Failed,
    /// It went out, and no answer came: it may stand there with its buttons.
    Unsure,
    /// Somebody decides on it from there.
    Answering,
    /// Somebody decided on it from there.
    Answered,
}

/// Whether a webhook may answer something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answerable {
    /// It was told of it and nobody answered from there.
    Yes,
    /// It was not told of it.
    Never,
    /// It was answered from there.
    Answered,
    /// It was told of it too long ago.
    Late,
}

impl ToldState {
    const ALL: [Self; 6] = [
        Self::Telling,
        Self::Told,
        Self::Failed,
        Self::Unsure,
        Self::Answering,
        Self::Answered,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Telling => "telling",
            Self::Told => "told",
            Self::Failed => "failed",
            Self::Unsure => "unsure",
            Self::Answering => "answering",
            Self::Answered => "answered",
        }
    }
}

impl ToldRow {
    /// When the same destination is told again at `now`, or after; `None`: not today, as far as is known now. What was
    /// decided from there and denied anew (by another record) is news, and so is what was denied anew on another day.
    #[must_use]
    pub fn again(&self, about: &str, now: Timestamp) -> Option<Timestamp> {
        let (same, old) = (self.telling.about == about, self.is_of_before(now));
        let after = match self.state {
            ToldState::Told => return (old && !same).then_some(self.since),
            ToldState::Answering | ToldState::Answered => return (!same).then_some(self.since),
            ToldState::Telling | ToldState::Failed | ToldState::Unsure if old => GIVEN_UP,
            // The node that was at it has gone.
            ToldState::Telling => GIVEN_UP,
            ToldState::Failed | ToldState::Unsure => usize::try_from(self.tries)
                .ok()
                .and_then(|tries| AGAIN.get(tries.checked_sub(1)?))
                .copied()?,
        };
        let within = old || usize::try_from(self.tries).is_ok_and(|tries| tries <= AGAIN.len());
        self.since.checked_add(after).ok().filter(|_| within)
    }

    /// Whether it is of another day (UTC): a destination is told once a day.
    fn is_of_before(&self, now: Timestamp) -> bool {
        self.since.as_second() < midnight(now)
    }

    /// Whether it stands there, or did, with its buttons.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        matches!(
            self.state,
            ToldState::Told | ToldState::Answering | ToldState::Answered
        )
    }
}

/// What of the last days is known, the newest of each webhook and denied destination last.
pub(super) fn denials(db: &Transaction<'_>, now: Timestamp) -> Result<Vec<ToldRow>, DatabaseError> {
    let sql = "SELECT webhook, about, what, state, tries, since FROM told
               WHERE since >= ?1 AND what <> '' ORDER BY since";
    db.query_all(sql, [now.as_second() - KEPT.as_secs()], row)
}

/// Takes what is to be told; `None` where it was told already, or another node is at it. What it was first told by, in
/// rounds of which it may have taken one: by that it is the same message.
pub(super) fn begin(
    db: &Transaction<'_>,
    telling: &Telling,
    now: Timestamp,
) -> Outcome<Option<String>> {
    let second = now.as_second();
    db.execute(
        "DELETE FROM told WHERE since < ?1",
        [second - KEPT.as_secs()],
    )?;
    let Telling {
        webhook,
        about,
        what,
    } = telling;
    // Also where another policy denies it now, by which it would be another destination.
    let same = one(db, (webhook, about))?;
    if same.is_some_and(|same| same.is_there()) {
        return Ok(None);
    }
    let sql = "SELECT webhook, about, what, state, tries, since FROM told
               WHERE webhook = ?1 AND what = ?2 AND (what <> '' OR about = ?3)
               ORDER BY since DESC LIMIT 1";
    let last = db.query_row(sql, (webhook, what, about), row).optional()?;
    let tries = match last {
        None => 1,
        Some(last) if last.again(about, now).is_none_or(|at| at > now) => return Ok(None),
        Some(last) if last.is_there() || last.is_of_before(now) => 1,
        Some(last) => last.tries + 1,
    };
    // What failed with an older record is told with the newest.
    let sql = "DELETE FROM told WHERE webhook = ?1 AND what = ?2 AND what <> '' AND state IN ('failed', 'telling')";
    db.execute(sql, (webhook, what))?;
    let sql = "INSERT INTO told (webhook, about, what, state, tries, since)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)
               ON CONFLICT (webhook, about) DO UPDATE
               SET what = ?3, state = ?4, tries = ?5, since = ?6";
    let state = ToldState::Telling.as_str();
    let first = first(db, telling, now)?;
    db.execute(sql, (webhook, about, what, state, tries, second))?;
    Ok(Some(first))
}

/// The record by which this destination went out first of what nobody knows whether it was taken: of this day, and
/// since the webhook was told of it for sure.
fn first(db: &Transaction<'_>, telling: &Telling, now: Timestamp) -> Result<String, DatabaseError> {
    let (webhook, what) = (&telling.webhook, &telling.what);
    let sql = "SELECT about FROM told AS this WHERE webhook = ?1 AND what = ?2 AND what <> '' AND state = 'unsure'
               AND since >= ?3 AND NOT EXISTS (SELECT 1 FROM told AS sure
                   WHERE sure.webhook = ?1 AND sure.what = ?2 AND sure.since >= this.since
                   AND sure.state IN ('told', 'answering', 'answered'))
               ORDER BY since, about LIMIT 1";
    let found = db.query_row(sql, (webhook, what, midnight(now)), |row| row.get(0));
    Ok(found.optional()?.unwrap_or_else(|| telling.about.clone()))
}

/// Says how the telling ended. Who answered while it was being told has answered, or is at it.
pub(super) fn end(
    db: &Transaction<'_>,
    telling: &Telling,
    (state, now): (ToldState, Timestamp),
) -> Result<(), DatabaseError> {
    let sql = "UPDATE told SET state = ?3, since = ?4
               WHERE webhook = ?1 AND about = ?2 AND state NOT IN ('answering', 'answered')";
    let values = (
        &telling.webhook,
        &telling.about,
        state.as_str(),
        now.as_second(),
    );
    db.execute(sql, values).map(drop)
}

/// Takes what a webhook may answer, for one who answers from there: nobody else does meanwhile, nor where it is not
/// said how that ended, for some minutes.
pub(super) fn begin_answer(
    db: &Transaction<'_>,
    (webhook, about): (&str, &str),
    now: Timestamp,
) -> Outcome<Answerable> {
    let found = one(db, (webhook, about))?;
    let sql = "SELECT begun FROM told WHERE webhook = ?1 AND about = ?2";
    let begun = db.query_row(sql, [webhook, about], |row| row.get::<Option<i64>>(0));
    let over = now.as_second() - GIVEN_UP.as_secs();
    let is_left = begun
        .optional()?
        .flatten()
        .is_some_and(|begun| begun < over);
    let answerable = match found {
        None => Answerable::Never,
        Some(one) => match one.state {
            ToldState::Failed => Answerable::Never,
            ToldState::Answered => Answerable::Answered,
            ToldState::Answering if !is_left => Answerable::Answered,
            // The node that was at it has gone.
            ToldState::Answering | ToldState::Telling | ToldState::Told | ToldState::Unsure => {
                match now.duration_since(one.since) > WITHIN {
                    true => Answerable::Late,
                    false => Answerable::Yes,
                }
            }
        },
    };
    if answerable == Answerable::Yes {
        let sql =
            "UPDATE told SET state = 'answering', begun = ?3 WHERE webhook = ?1 AND about = ?2";
        db.execute(sql, (webhook, about, now.as_second()))?;
    }
    Ok(answerable)
}

/// Says how that ended: it was decided on, at that moment, or may be answered again. What is answered has arrived.
pub(super) fn end_answer(
    db: &Transaction<'_>,
    (webhook, about): (&str, &str),
    decided: Option<Timestamp>,
) -> Result<(), DatabaseError> {
    match decided {
        Some(at) => {
            let sql = "UPDATE told SET state = 'answered', since = ?3
                       WHERE webhook = ?1 AND about = ?2 AND state = 'answering'";
            db.execute(sql, (webhook, about, at.as_second()))
        }
        None => {
            let sql = "UPDATE told SET state = 'told'
                       WHERE webhook = ?1 AND about = ?2 AND state = 'answering'";
            db.execute(sql, [webhook, about])
        }
    }
    .map(drop)
}

fn one(
    db: &Transaction<'_>,
    (webhook, about): (&str, &str),
) -> Result<Option<ToldRow>, DatabaseError> {
    let sql = "SELECT webhook, about, what, state, tries, since FROM told
               WHERE webhook = ?1 AND about = ?2";
    db.query_row(sql, (webhook, about), row).optional()
}

fn row(row: &Row) -> Result<ToldRow, DatabaseError> {
    let unreadable = |column: usize, why: String| DatabaseError::Unreadable { column, why };
    let state: String = row.get(3)?;
    let state = ToldState::ALL.into_iter().find(|one| one.as_str() == state);
    let since = Timestamp::from_second(row.get(5)?);
    Ok(ToldRow {
        telling: Telling {
            webhook: row.get(0)?,
            about: row.get(1)?,
            what: row.get(2)?,
        },
        state: state.ok_or_else(|| unreadable(3, "no such state".to_owned()))?,
        tries: row.get(4)?,
        since: since.map_err(|error| unreadable(5, error.to_string()))?,
    })
}

/// When this day began (UTC): a destination is told once a day.
fn midnight(now: Timestamp) -> i64 {
    now.as_second().div_euclid(DAY.as_secs()) * DAY.as_secs()
}

const DAY: SignedDuration = SignedDuration::from_hours(24);
/// What was denied stands in the console for as long.
const WITHIN: SignedDuration = DAY;
/// Longer than any answer is heard.
const KEPT: SignedDuration = SignedDuration::from_hours(48);
/// After each time that all tries of a message failed: who mends a webhook within the hour misses nothing.
const AGAIN: [SignedDuration; 4] = [
    SignedDuration::from_mins(1),
    SignedDuration::from_mins(5),
    SignedDuration::from_mins(15),
    SignedDuration::from_mins(45),
];
/// Longer than all tries of one message take.
const GIVEN_UP: SignedDuration = SignedDuration::from_mins(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_delivered_is_due_again_a_bounded_number_of_times() {
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let of = |state, tries| ToldRow {
            telling: Telling {
                webhook: "ops".to_owned(),
                about: "record:1-1".to_owned(),
                what: "x".to_owned(),
            },
            state,
            tries,
            since: at(0),
        };
        let now = at(0);
        let again = |state, tries| of(state, tries).again("record:1-2", now);
        assert_eq!(again(ToldState::Failed, 1), Some(at(60)));
        assert_eq!(again(ToldState::Failed, 4), Some(at(2700)));
        assert_eq!(again(ToldState::Failed, 5), None, "it was tried enough");
        assert_eq!(again(ToldState::Told, 1), None);
        assert_eq!(again(ToldState::Telling, 1), Some(at(300)), "its node died");
        assert_eq!(again(ToldState::Telling, 5), None);
        assert_eq!(again(ToldState::Answered, 1), Some(at(0)), "denied anew");
        assert_eq!(again(ToldState::Answering, 1), Some(at(0)), "denied anew");
        assert_eq!(of(ToldState::Answered, 1).again("record:1-1", now), None);
        let tomorrow = at(24 * 3600);
        let told = of(ToldState::Told, 1);
        assert_eq!(told.again("record:1-2", tomorrow), Some(at(0)));
        assert_eq!(told.again("record:1-1", tomorrow), None, "the same record");
    }
}
