//! Requests that wait for a person, as all nodes see them.
//!
//! A row is there for as long as some node's proxy has the request. Whoever decides writes a word into it, in
//! one transaction with its record; the node reads it and takes the row away. While it waits the node says every
//! other second that it does: what a process left behind that was killed takes no word, which nobody would hear, and is
//! over when its time is.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    Actor, ChangeError, alone,
    changes::{Outcome, missing},
    name::folded,
    proposals, standing,
    tables::{DatabaseError, OptionalExtension as _, Refused, Row, Transaction},
};
use crate::role::Permission;

/// What is asked for. Its text comes from a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFacts {
    /// The sandbox's id.
    pub sandbox: String,
    /// The registered server it runs.
    pub server: String,
    /// Whose it is; empty of what waited before this was kept.
    #[serde(default)]
    pub profile: String,
    /// Who had it started or used, whoever it is for: people, by themselves or by their tokens.
    #[serde(default)]
    pub started_by: Vec<String>,
    /// Where to.
    pub host: String,
    /// At which port.
    pub port: u16,
    /// `https`, `http` or `tcp`.
    pub protocol: String,
    /// The method, of a request.
    pub method: Option<String>,
    /// The path, of a request.
    pub path: Option<String>,
    /// The policy that denied it.
    pub policy: String,
    /// Its version.
    pub policy_version: u64,
    /// Why.
    pub reason: String,
}

/// One request that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRow {
    /// Its id, as in the record.
    pub id: String,
    /// The process whose proxy has it.
    pub node: String,
    /// What is asked for.
    pub facts: HeldFacts,
    /// Since when.
    pub created: Timestamp,
    /// Until when.
    pub expires: Timestamp,
    /// Its process does not say any more that it has it: a word would be heard by nobody.
    pub lost: bool,
}

/// What somebody said of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldWord {
    /// Which.
    pub id: String,
    /// It may go.
    pub allow: bool,
    /// Who.
    pub by: String,
}

/// What became of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldFate {
    /// The node heard it, and what waited is off its desk.
    Heard,
    /// The node has not asked since.
    Unheard,
    /// Nobody will: the node does not say any more that it lives. The word is none any more.
    TakenBack,
}

impl HeldFacts {
    /// `GET https://api.example.com:443/user`, `tcp db.example.com:5432`. Method and path are cut where they are long;
    /// the host never is: its end says whose it is.
    #[must_use]
    pub fn words(&self) -> String {
        let (protocol, host, port) = (&self.protocol, &self.host, self.port);
        match (&self.method, &self.path) {
            // No method, however long, pushes the host off the line.
            (Some(method), Some(path)) => {
                let method = shortened(method, LONGEST_METHOD);
                let path = shortened(path, LONGEST_PATH);
                format!("{method} {protocol}://{host}:{port}{path}")
            }
            // A name that is looked up has none.
            _ if port == 0 => format!("{protocol} {host}"),
            _ => format!("{protocol} {host}:{port}"),
        }
    }
}

/// `text`, of which no more than so many characters are kept and a sign that there were more.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Those that nobody has decided on.
pub(super) fn waiting(db: &Transaction<'_>, now: Timestamp) -> Result<Vec<HeldRow>, DatabaseError> {
    let sql = format!("{ROWS} AND expires > ?1 ORDER BY created, id LIMIT 1000");
    db.query_all(&sql, (now.as_second(), LOST_AFTER), row)
}

/// Puts them there.
pub(super) fn put(db: &Transaction<'_>, held: &[HeldRow]) -> Result<(), DatabaseError> {
    for one in held {
        let old = one.created.as_second() - LONG_OVER.as_secs();
        db.execute("DELETE FROM held WHERE expires < ?1", [old])?;
        let facts = serde_json::to_string(&one.facts);
        let facts = facts.map_err(|error| DatabaseError::Failed(error.into()))?;
        // Asked a second time where a connection was lost over the answer.
        let sql = "INSERT INTO held (id, node, facts, created, expires, seen)
                   SELECT ?1, ?2, ?3, ?4, ?5, now FROM clock WHERE true ON CONFLICT DO NOTHING";
        let times = (one.created.as_second(), one.expires.as_second());
        db.execute(sql, (&one.id, &one.node, facts, times.0, times.1))?;
    }
    Ok(())
}

/// Takes them away.
pub(super) fn end(db: &Transaction<'_>, ids: &[String]) -> Result<(), DatabaseError> {
    for id in ids {
        db.execute("DELETE FROM held WHERE id = ?1", [id])?;
    }
    Ok(())
}

/// All that one start of a node had is gone with it.
pub(super) fn end_all(db: &Transaction<'_>, node: &str) -> Result<(), DatabaseError> {
    db.execute("DELETE FROM held WHERE node = ?1", [node])
        .map(drop)
}

/// What was said of those of one node, which says by asking that it has them.
pub(super) fn words(db: &Transaction<'_>, node: &str) -> Result<Vec<HeldWord>, DatabaseError> {
    let sql = "SELECT count(*) FROM held WHERE node = ?1 AND seen < (SELECT now FROM clock) - ?2";
    let unsaid: i64 = db.query_row(sql, (node, SAID_EVERY), |row| row.get(0))?;
    if unsaid > 0 {
        let sql = "UPDATE held SET seen = (SELECT now FROM clock) WHERE node = ?1";
        db.execute(sql, [node])?;
    }
    let sql = "SELECT id, word, word_by FROM held WHERE node = ?1 AND word IS NOT NULL";
    db.query_all(sql, [node], |row| {
        let word: String = row.get(1)?;
        Ok(HeldWord {
            id: row.get(0)?,
            allow: word == ALLOW,
            by: row.get(2)?,
        })
    })
}

/// Says something of one that waits; nobody says twice, and nobody of what no node has any more. Under the two-person rule nobody lets pass whom it
/// does not take for a person who may approve, and nobody what they run or had started themselves.
pub(super) fn answer(db: &Transaction<'_>, id: &str, allow: bool, actor: &Actor) -> Outcome {
    if allow && proposals::rule_is_on(db)? {
        let person = alone::themselves(db, actor)?;
        // The rule may have been turned on since somebody was asked what they may.
        if !actor.owner && !standing::may(db, &person, Permission::Approve)? {
            return Err(Refused::Change(ChangeError::Lapsed));
        }
        if !actor.owner && is_for(db, id, &person)? {
            return Err(alone::refused(
                "it waits for a program that runs for you, or that you or a token of yours had started: somebody else \
                 lets it pass, or a rule that a second person approves",
            ));
        }
    }
    if one(db, id)?.is_some_and(|found| found.lost && found.expires > actor.at) {
        return Err(Refused::Change(ChangeError::Unheard { id: id.to_owned() }));
    }
    let sql = "UPDATE held SET word = ?2, word_by = ?3
               WHERE id = ?1 AND word IS NULL AND expires > ?4";
    let word = if allow { ALLOW } else { "deny" };
    match db.execute(sql, (id, word, actor.words(), actor.at.as_second()))? {
        0 => missing("waiting request", id),
        _ => Ok(()),
    }
}

/// What became of a word. A node that reads words says so in the same transaction, so that one which is taken back here
/// was read by nobody, and is by nobody later.
pub(super) fn take_back(db: &Transaction<'_>, id: &str) -> Result<HeldFate, DatabaseError> {
    let sql = "UPDATE held SET word = NULL, word_by = NULL WHERE id = ?1 AND word IS NOT NULL
               AND seen < (SELECT now FROM clock) - ?2";
    if db.execute(sql, (id, LOST_AFTER))? > 0 {
        return Ok(HeldFate::TakenBack);
    }
    let sql = "SELECT count(*) FROM held WHERE id = ?1 AND word IS NOT NULL";
    let unheard: i64 = db.query_row(sql, [id], |row| row.get(0))?;
    Ok(match unheard {
        0 => HeldFate::Heard,
        _ => HeldFate::Unheard,
    })
}

fn one(db: &Transaction<'_>, id: &str) -> Result<Option<HeldRow>, DatabaseError> {
    let sql = format!("{ROWS} AND id = ?1");
    db.query_row(&sql, (id, LOST_AFTER), row).optional()
}

/// Whether what waits runs for this person, or was started by them, by whichever of their accounts.
fn is_for(db: &Transaction<'_>, id: &str, person: &str) -> Result<bool, DatabaseError> {
    let Some(found) = one(db, id)? else {
        return Ok(false);
    };
    let HeldFacts {
        profile,
        started_by,
        ..
    } = found.facts;
    for one in std::iter::once(profile).chain(started_by) {
        if folded(&one) == folded(person) || alone::are_alike(db, (&one, person))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn row(row: &Row) -> Result<HeldRow, DatabaseError> {
    let unreadable = |column: usize, why: String| DatabaseError::Unreadable { column, why };
    let facts: String = row.get(2)?;
    let facts = serde_json::from_str(&facts);
    let time = |column| {
        let time = Timestamp::from_second(row.get(column)?);
        time.map_err(|error| unreadable(column, error.to_string()))
    };
    Ok(HeldRow {
        id: row.get(0)?,
        node: row.get(1)?,
        facts: facts.map_err(|error| unreadable(2, error.to_string()))?,
        created: time(3)?,
        expires: time(4)?,
        // A gig of before says nothing of it.
        lost: row.get::<Option<bool>>(5)?.unwrap_or_default(),
    })
}

/// Of those that nobody has decided on, as [`row`] reads them; the second parameter is [`LOST_AFTER`].
const ROWS: &str = "SELECT id, node, facts, created, expires, seen < (SELECT now FROM clock) - ?2 FROM held WHERE word IS NULL";
const ALLOW: &str = "allow";
/// For a record and some lines on a page, beside a host of at most 253 characters.
const LONGEST_PATH: usize = 120;
/// Longer than any that is registered (RFC 9110 §16.1).
const LONGEST_METHOD: usize = 24;
/// How often a process says that it has them, in seconds.
const SAID_EVERY: i64 = 1;
/// One that has not said so for longer has them no more: five words are missing.
const LOST_AFTER: i64 = 10;
/// Whoever waited that long ago waits no more, whatever two clocks say.
const LONG_OVER: SignedDuration = SignedDuration::from_mins(10);
