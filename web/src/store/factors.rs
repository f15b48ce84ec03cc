//! Second factors as statements: set up and removed, each code spent once over all nodes, and whose role
//! asks for one.
//!
//! What is kept of a device is sealed elsewhere; here it is octets. A code is spent in the transaction of what
//! it is for, so that no second one is let in by it.

use jiff::Timestamp;

use super::{
    Actor, Change, ChangeError, SecondFactor,
    changes::{self, Outcome, one},
    name, rows, sign_on,
    standing::{self, Standing},
    tables::{DatabaseError, OptionalExtension as _, Refused, Row, Transaction},
};
use crate::{credential::Digest, role::Role};

/// A code that somebody typed: it is right, and is to be used once.
#[derive(Debug, Clone)]
pub enum UsedCode {
    /// Of a device.
    Device {
        /// To which step of time it belongs.
        step: i64,
        /// Since when there is the factor that it was compared with.
        since: Timestamp,
    },
    /// One that was written down; the store knows whether there is such a one.
    WrittenDown(Digest),
}

impl UsedCode {
    /// How somebody signed in who used it.
    pub(super) const fn began(code: Option<&Self>) -> &'static str {
        match code {
            None => "password",
            Some(Self::Device { .. }) => "password and code",
            Some(Self::WrittenDown(_)) => "password and recovery code",
        }
    }

    /// The same for the record.
    pub(super) const fn words(code: Option<&Self>) -> &'static str {
        match code {
            None => "",
            Some(Self::Device { .. }) => " with a code",
            Some(Self::WrittenDown(_)) => " with a recovery code",
        }
    }
}

/// How a change stands in the record.
pub(super) fn words(change: &Change) -> String {
    match change {
        Change::SetFactor { name, codes, .. } => {
            let codes = codes.len();
            format!("user {name} enrolled a second factor, {codes} recovery codes")
        }
        Change::RemoveFactor { name, .. } => format!("user {name} has no second factor any more"),
        Change::FactorRule { roles } if !roles.is_empty() => {
            let roles: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
            format!("a second factor is asked for of {}", roles.join(", "))
        }
        _ => "no role asks for a second factor".to_owned(),
    }
}

/// Sets a factor up, removes one, or says who needs one.
pub(super) fn change(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome {
    match change {
        Change::SetFactor { .. } => set(db, change, actor),
        Change::RemoveFactor { name, code } => {
            if standing::is_themselves(actor, name) || code.is_some() {
                spend(db, name, code.as_ref(), actor)?;
            }
            let sql = "DELETE FROM second_factors WHERE lower(person) = ?1";
            one(db, sql, [name::folded(name)], ("second factor of", name))
        }
        Change::FactorRule { roles } => {
            db.execute("DELETE FROM settings WHERE name = 'second_factor'", ())?;
            let words: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
            if !words.is_empty() {
                let sql = "INSERT INTO settings (name, value) VALUES ('second_factor', ?1)";
                // Parted and bounded by blanks: each is found by its own.
                db.execute(sql, [format!(" {} ", words.join(" "))])?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn set(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome {
    let Change::SetFactor {
        name,
        password,
        sealed,
        since,
        step,
        codes,
    } = change
    else {
        return Ok(());
    };
    sign_on::refuse_theirs(db, name, "their second factor is asked for there")?;
    let known = "SELECT name FROM users WHERE lower(name) = ?1 AND password = ?2";
    let known = db.query_row(known, (name::folded(name), password), |row| row.get(0));
    let known: Option<String> = known.optional()?;
    let Some(person) = known.filter(|_| standing::is_themselves(actor, name)) else {
        return changes::missing("user", name);
    };
    let sql = "INSERT INTO second_factors (person, sealed, created, last_step)
               VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    let values = (&person, sealed.as_slice(), since.as_second(), *step);
    if db.execute(sql, values)? == 0 {
        return Err(Refused::Change(ChangeError::Exists {
            what: "second factor of",
            name: person,
        }));
    }
    for code in codes {
        let sql = "INSERT INTO recovery_codes (person, digest) VALUES (?1, ?2)";
        db.execute(sql, (&person, code.octets()))?;
    }
    // Who came by the password alone before may be anybody who knows it.
    let own = match &actor.standing {
        Standing::Session { id, .. } => &**id,
        _ => "",
    };
    let sql = "DELETE FROM sessions WHERE lower(\"user\") = ?1 AND id <> ?2";
    db.execute(sql, (name::folded(name), own))?;
    Ok(())
}

/// Refuses who has a factor and no code that is new; what is no code of theirs is used up by nobody.
pub(super) fn spend(
    db: &Transaction<'_>,
    user: &str,
    code: Option<&UsedCode>,
    actor: &Actor,
) -> Outcome {
    let folded = name::folded(user);
    let sql = "SELECT created FROM second_factors WHERE lower(person) = ?1";
    let kept = db.query_row(sql, [&folded], |row| row.get(0));
    let kept: Option<i64> = kept.optional()?;
    let spent = match (kept, code) {
        (None, None) => return Ok(()),
        // It came or went since somebody was asked for it.
        (None, Some(_)) | (Some(_), None) => return Err(Refused::Change(ChangeError::Lapsed)),
        (Some(_), Some(UsedCode::Device { step, since })) => {
            let sql = "UPDATE second_factors SET last_step = ?2
                       WHERE lower(person) = ?1 AND last_step < ?2 AND created = ?3";
            db.execute(sql, (folded, *step, since.as_second()))?
        }
        (Some(_), Some(UsedCode::WrittenDown(digest))) => {
            let sql = "UPDATE recovery_codes SET used = ?3
                       WHERE lower(person) = ?1 AND digest = ?2 AND used IS NULL";
            db.execute(sql, (folded, digest.octets(), actor.at.as_second()))?
        }
    };
    match spent {
        0 => Err(Refused::Change(ChangeError::Code)),
        _ => Ok(()),
    }
}

pub(super) const ONE_FACTOR: &str =
    "SELECT f.sealed, f.created, (SELECT count(*) FROM recovery_codes c
        WHERE c.person = f.person AND c.used IS NULL)
    FROM second_factors f WHERE lower(f.person) = ?1";

pub(super) fn factor(row: &Row) -> Result<SecondFactor, DatabaseError> {
    Ok(SecondFactor {
        sealed: row.get(0)?,
        since: rows::time(row, 1)?,
        codes: row.get(2)?,
    })
}

/// Whose role asks for one.
pub(super) fn rule(db: &Transaction<'_>) -> Result<Vec<Role>, DatabaseError> {
    let sql = "SELECT value FROM settings WHERE name = 'second_factor'";
    let kept = db.query_row(sql, (), |row| row.get::<String>(0));
    let kept = kept.optional()?.unwrap_or_default();
    let words = kept.split(' ').filter(|word| !word.is_empty());
    let roles = words.map(|word| word.parse::<Role>());
    let roles: Result<_, String> = roles.collect();
    roles.map_err(|why| DatabaseError::Unreadable { column: 0, why })
}
