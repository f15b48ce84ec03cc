//! What somebody typed into the editor when their session had ended meanwhile: theirs alone, a few of each person, for
//! a quarter of an hour, at whichever node they sign in again.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::{
    changes::Outcome,
    name::folded,
    tables::{DatabaseError, OptionalExtension as _, Transaction},
};

/// A document that is not saved, as its form sent it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Unsaved {
    /// That it is built on.
    pub version: u64,
    /// As it was typed.
    pub document: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// The server for which saving puts it in force.
    #[serde(default)]
    pub assign: String,
}

/// What becomes of what a person typed into a policy.
#[derive(Debug)]
pub enum DraftAct {
    /// It is kept in place of what they typed into it before.
    Keep(Unsaved),
    /// It is shown.
    Show,
    /// It is saved, or not wanted any more.
    Forget,
}

/// Does so; answers what is kept then.
pub(super) fn act(
    db: &Transaction<'_>,
    (person, policy): (&str, &str),
    act: &DraftAct,
    now: Timestamp,
) -> Outcome<Option<Unsaved>> {
    let person = folded(person);
    db.execute("DELETE FROM drafts WHERE until <= ?1", [now.as_second()])?;
    if !matches!(act, DraftAct::Show) {
        let sql = "DELETE FROM drafts WHERE person = ?1 AND policy = ?2";
        db.execute(sql, (&person, policy))?;
    }
    if let DraftAct::Keep(draft) = act {
        keep(db, (&person, policy), draft, now)?;
    }
    Ok(kept(db, (&person, policy), now)?)
}

fn keep(
    db: &Transaction<'_>,
    (person, policy): (&str, &str),
    draft: &Unsaved,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let count = |sql: &str, person: &str| db.query_row(sql, [person], |row| row.get::<i64>(0));
    let theirs = count("SELECT count(*) FROM drafts WHERE person = ?1", person)?;
    if theirs >= MOST_OF_ONE {
        let sql = "DELETE FROM drafts WHERE person = ?1 AND policy =
                   (SELECT policy FROM drafts WHERE person = ?1 ORDER BY until, policy LIMIT 1)";
        db.execute(sql, [person])?;
    }
    // Nobody's goes for another's.
    if count("SELECT count(*) FROM drafts WHERE person <> ?1", person)? >= MOST {
        tracing::warn!("no room to keep what was typed by somebody whose session had ended");
        return Ok(());
    }
    let until = now.checked_add(LASTS).unwrap_or(now).as_second();
    let sql = "INSERT INTO drafts (person, policy, until, version, document, reason, assign)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let Unsaved {
        version,
        document,
        reason,
        assign,
    } = draft;
    let typed = (*version, document, reason, assign);
    db.execute(
        sql,
        (person, policy, until, typed.0, typed.1, typed.2, typed.3),
    )?;
    Ok(())
}

/// What is kept of a person's.
pub(super) fn kept(
    db: &Transaction<'_>,
    (person, policy): (&str, &str),
    now: Timestamp,
) -> Result<Option<Unsaved>, DatabaseError> {
    let sql = "SELECT version, document, reason, assign FROM drafts
               WHERE person = ?1 AND policy = ?2 AND until > ?3";
    let whose = (folded(person), policy, now.as_second());
    let found = db.query_row(sql, whose, |row| {
        Ok(Unsaved {
            version: row.get(0)?,
            document: row.get(1)?,
            reason: row.get(2)?,
            assign: row.get(3)?,
        })
    });
    found.optional()
}

/// To find one's password, and a second factor.
const LASTS: SignedDuration = SignedDuration::from_mins(15);
const MOST_OF_ONE: i64 = 4;
/// Of all together; each is no longer than a form that is none of a document.
const MOST: i64 = 64;
