//! Sessions as statements: begun by who has proved who they are, ended by themselves or an admin.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};

use super::{
    Actor, Change, UsedCode,
    changes::{Outcome, missing, one},
    factors, name, rows,
    tables::{DatabaseError, OptionalExtension as _, Row, Transaction},
};
use crate::credential::Digest;

/// Starts or ends one.
pub(super) fn session(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome {
    match change {
        Change::StartSession {
            id,
            digest,
            user,
            password,
            code,
            expires,
            agent,
        } => {
            // Who has an account elsewhere has no password that could be known.
            let known = "SELECT name FROM users
                         WHERE lower(name) = ?1 AND password = ?2 AND subject = ''";
            let known: Option<String> = db
                .query_row(known, (name::folded(user), password), |row| row.get(0))
                .optional()?;
            let Some(user) = known else {
                return missing("user", user);
            };
            factors::spend(db, &user, code.as_ref(), actor)?;
            let session = NewSession {
                id,
                digest,
                user: &user,
                expires: *expires,
                agent,
                began: UsedCode::began(code.as_ref()),
            };
            insert_session(db, &session, actor)?;
        }
        Change::EndSession { id } => {
            let sql = "DELETE FROM sessions WHERE id = ?1";
            one(db, sql, [id], ("session", id))?;
        }
        _ => {}
    }
    Ok(())
}

/// A session of somebody who has proved who they are.
pub(super) struct NewSession<'a> {
    pub(super) id: &'a str,
    pub(super) digest: &'a Digest,
    /// As the table has the name.
    pub(super) user: &'a str,
    pub(super) expires: Timestamp,
    pub(super) agent: &'a str,
    /// How, in words.
    pub(super) began: &'a str,
}

pub(super) fn insert_session(
    db: &Transaction<'_>,
    session: &NewSession<'_>,
    actor: &Actor,
) -> Outcome {
    let now = actor.at.as_second();
    // What ended a while ago is of no use to anybody.
    let over = now - LAPSED.as_secs();
    db.execute("DELETE FROM sessions WHERE expires <= ?1", [over])?;
    let sql = "DELETE FROM sessions WHERE \"user\" = ?1 AND id NOT IN (SELECT id FROM sessions
               WHERE \"user\" = ?1 ORDER BY created DESC, id LIMIT ?2)";
    db.execute(sql, (session.user, OTHER_SESSIONS))?;
    let address = actor.address.map(|at| at.ip().to_string());
    let address = address.unwrap_or_else(|| "this machine".to_owned());
    let sql = "INSERT INTO sessions
               (id, digest, \"user\", created, seen, expires, address, agent, began)
               VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8)";
    let values = (
        session.id,
        session.digest.octets(),
        session.user,
        now,
        session.expires.as_second(),
        address,
        session.agent,
        session.began,
    );
    db.execute(sql, values)?;
    Ok(())
}

/// Whose one was that ended by itself, within a day.
pub(super) fn lapsed(
    db: &Transaction<'_>,
    id: &str,
    now: Timestamp,
) -> Result<Option<(Digest, String)>, DatabaseError> {
    let sql = r#"SELECT s.digest, u.name FROM sessions s JOIN users u ON u.name = s."user"
                 WHERE s.id = ?1 AND s.seen > ?4 AND (s.expires <= ?2 OR s.seen <= ?3)"#;
    let (second, idle) = rows::alive(now);
    let values = (id, second, idle, second - LAPSED.as_secs());
    let read = |row: &Row| Ok((Digest::from_octets(row.get(0)?), row.get(1)?));
    db.query_row(sql, values, read).optional()
}

/// What signs that a browser was here before; nothing that cannot be used.
pub(super) fn device_key(db: &Transaction<'_>) -> Result<Option<[u8; 32]>, DatabaseError> {
    let sql = "SELECT value FROM settings WHERE name = 'device_key'";
    let kept = db.query_row(sql, (), |row| row.get::<String>(0));
    let octets = kept
        .optional()?
        .and_then(|text| BASE64_URL_SAFE_NO_PAD.decode(text).ok());
    Ok(octets.and_then(|octets| octets.try_into().ok()))
}

/// The same, made where there is none: another may have been quicker.
pub(super) fn make_device_key(db: &Transaction<'_>, fresh: &[u8; 32]) -> Outcome<[u8; 32]> {
    if let Some(kept) = device_key(db)? {
        return Ok(kept);
    }
    db.execute("DELETE FROM settings WHERE name = 'device_key'", ())?;
    let sql = "INSERT INTO settings (name, value) VALUES ('device_key', ?1)";
    db.execute(sql, [BASE64_URL_SAFE_NO_PAD.encode(fresh)])?;
    Ok(*fresh)
}

/// Somebody comes back from lunch, and signs in again.
const LAPSED: SignedDuration = SignedDuration::from_hours(24);
/// Of one person beside a new one: a few browsers, and programs that forget to sign out.
const OTHER_SESSIONS: u32 = 19;
