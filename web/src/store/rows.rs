//! What is asked of the tables, and how a row becomes what is kept.

use jiff::{SignedDuration, Timestamp};

use super::{
    Account, Assignment, Decided, Draft, Place, PolicyHead, PolicyVersion, Proposal, SavedSearch,
    Server, Session, Token, User,
    tables::{DatabaseError, Row},
};
use crate::{credential::Digest, narrowing::Narrowing};

/// Of people, and whether they have a second factor.
macro_rules! users {
    ($of:literal) => {
        concat!(
            "SELECT name, role, password, created, own_password, issuer, subject,
            EXISTS (SELECT 1 FROM second_factors f WHERE f.person = users.name) FROM users ",
            $of
        )
    };
}

/// Of sessions that are alive, and whether their role asks for a second factor that they lack.
macro_rules! sessions {
    ($of:literal) => {
        concat!(
            r#"SELECT s.id, s.digest, u.name, u.role, s.created, s.seen, s.expires, s.address, s.agent, s.began,
            u.subject = '' AND NOT EXISTS (SELECT 1 FROM second_factors f WHERE f.person = u.name)
                AND EXISTS (SELECT 1 FROM settings t WHERE t.name = 'second_factor'
                    AND t.value LIKE '% ' || u.role || ' %')
            FROM sessions s JOIN users u ON u.name = s."user" WHERE s.expires > ?1 AND s.seen > ?2 "#,
            $of
        )
    };
}

pub(super) const USERS: &str = users!("ORDER BY lower(name)");
pub(super) const ONE_USER: &str = users!("WHERE lower(name) = ?1");
/// Of who has no account there is no such row.
pub(super) const USER_OF: &str = users!("WHERE issuer = ?1 AND subject = ?2 AND subject <> ''");
pub(super) const SESSIONS: &str = sessions!("ORDER BY s.created DESC, s.id");
pub(super) const SESSIONS_OF: &str =
    sessions!("AND lower(u.name) = ?3 ORDER BY s.created DESC, s.id");
pub(super) const ONE_SESSION: &str = sessions!("AND s.id = ?3");
pub(super) const TOKENS: &str = "SELECT id, digest, name, role, author, created, expires, used,
    person, scopes, servers
    FROM tokens ORDER BY created DESC, id";
pub(super) const ONE_TOKEN: &str =
    "SELECT id, digest, name, role, author, created, expires, used, person, scopes, servers
    FROM tokens WHERE id = ?1 AND (expires IS NULL OR expires > ?2)
    AND (person IN ('', 'owner of this machine') OR EXISTS (SELECT 1 FROM users u
        WHERE lower(u.name) = lower(tokens.person) AND u.role = 'admin'))";
pub(super) const ROLE_OF_SESSION: &str = r#"SELECT u.role FROM sessions s
    JOIN users u ON u.name = s."user" WHERE s.id = ?1 AND s.expires > ?2"#;
pub(super) const POLICIES: &str = "SELECT v.name, v.version, v.author, v.reason, v.created
    FROM policies p JOIN policy_versions v ON v.name = p.name AND v.version = p.version
    WHERE p.removed = 0 ORDER BY v.name";
/// The newest of one that is there; one that is named also of one that was removed.
pub(super) const ONE_POLICY: &str = "SELECT v.name, v.version, v.author, v.reason, v.created, v.document
    FROM policies p JOIN policy_versions v ON v.name = p.name AND v.version = coalesce(?2, p.version)
    WHERE p.name = ?1 AND (p.removed = 0 OR ?2 IS NOT NULL)";
/// Also of one that was removed: what it allowed is to be found.
pub(super) const VERSIONS: &str = "SELECT v.name, v.version, v.author, v.reason, v.created
    FROM policies p JOIN policy_versions v ON v.name = p.name
    WHERE p.name = ?1 AND v.version < ?2 ORDER BY v.version DESC LIMIT ?3";
pub(super) const ASSIGNMENTS: &str =
    "SELECT scope, subject, policy FROM assignments ORDER BY scope, subject";
pub(super) const FLOORS: &str = "SELECT scope, subject, policy FROM floors ORDER BY scope, subject";
pub(super) const SERVERS: &str = "SELECT name, spec, author, changed FROM servers ORDER BY name";
pub(super) const ONE_SERVER: &str =
    "SELECT name, spec, author, changed FROM servers WHERE name = ?1";
pub(super) const SEARCHES: &str =
    "SELECT id, title, query, author, created FROM searches ORDER BY lower(title), id";
pub(super) const ONE_PROPOSAL: &str = "SELECT id, kind, subject, value, before, built_on, reason,
    author, person, created, state, decided_by, decided, why, version, basis
    FROM proposals WHERE id = ?1";
pub(super) const PENDING: &str = "SELECT id, kind, subject,
    CASE WHEN kind IN ('policy.save', 'policy.save_for') THEN '' ELSE value END, before, built_on, reason,
    author, person, created, state, decided_by, decided, why, version, basis FROM proposals
    WHERE state = 'pending' AND id < ?1 ORDER BY id DESC LIMIT ?2";
/// Those that wait are few: they are stepped over.
pub(super) const DECIDED: &str = "SELECT id, kind, subject,
    CASE WHEN kind IN ('policy.save', 'policy.save_for') THEN '' ELSE value END, before, built_on, reason,
    author, person, created, state, decided_by, decided, why, version, basis FROM proposals
    WHERE state <> 'pending' AND id < ?1 ORDER BY id DESC LIMIT ?2";

/// Now, and when a session that is idle now was last used.
pub(super) fn alive(now: Timestamp) -> (i64, i64) {
    (now.as_second(), (now - IDLE).as_second())
}

pub(super) fn user(row: &Row) -> Result<User, DatabaseError> {
    Ok(User {
        name: row.get(0)?,
        role: word(row, 1)?,
        password: row.get(2)?,
        created: time(row, 3)?,
        own_password: row.get(4)?,
        account: account(row)?,
        second_factor: row.get(7)?,
    })
}

fn account(row: &Row) -> Result<Option<Account>, DatabaseError> {
    let account = Account {
        issuer: row.get(5)?,
        subject: row.get(6)?,
    };
    Ok(Some(account).filter(|account| !account.subject.is_empty()))
}

pub(super) fn session(row: &Row) -> Result<Session, DatabaseError> {
    Ok(Session {
        id: row.get(0)?,
        digest: Digest::from_octets(row.get(1)?),
        user: row.get(2)?,
        role: word(row, 3)?,
        created: time(row, 4)?,
        seen: time(row, 5)?,
        expires: time(row, 6)?,
        address: row.get(7)?,
        agent: row.get(8)?,
        began: row.get(9)?,
        lacks_factor: row.get(10)?,
    })
}

pub(super) fn token(row: &Row) -> Result<Token, DatabaseError> {
    Ok(Token {
        id: row.get(0)?,
        digest: Digest::from_octets(row.get(1)?),
        name: row.get(2)?,
        role: word(row, 3)?,
        author: row.get(4)?,
        created: time(row, 5)?,
        expires: maybe_time(row, 6)?,
        used: maybe_time(row, 7)?,
        person: row.get(8)?,
        narrowing: narrowing(row)?,
    })
}

/// One that cannot be read narrows to nothing: the token is not there.
fn narrowing(row: &Row) -> Result<Narrowing, DatabaseError> {
    let (scopes, servers): (String, String) = (row.get(9)?, row.get(10)?);
    Narrowing::kept(&scopes, &servers).map_err(|error| unreadable(9, error))
}

pub(super) fn head(row: &Row) -> Result<PolicyHead, DatabaseError> {
    Ok(PolicyHead {
        name: row.get(0)?,
        version: row.get(1)?,
        author: row.get(2)?,
        reason: row.get(3)?,
        created: time(row, 4)?,
    })
}

pub(super) fn version(row: &Row) -> Result<PolicyVersion, DatabaseError> {
    Ok(PolicyVersion {
        head: head(row)?,
        document: row.get(5)?,
    })
}

pub(super) fn assignment(row: &Row) -> Result<Assignment, DatabaseError> {
    let (scope, subject): (String, String) = (row.get(0)?, row.get(1)?);
    Ok(Assignment {
        place: Place::of(&scope, subject).map_err(|error| unreadable(0, error))?,
        policy: row.get(2)?,
    })
}

pub(super) fn search(row: &Row) -> Result<SavedSearch, DatabaseError> {
    Ok(SavedSearch {
        id: row.get(0)?,
        title: row.get(1)?,
        query: row.get(2)?,
        author: row.get(3)?,
        created: time(row, 4)?,
    })
}

pub(super) fn server(row: &Row) -> Result<Server, DatabaseError> {
    let spec: String = row.get(1)?;
    Ok(Server {
        name: row.get(0)?,
        spec: serde_json::from_str(&spec).map_err(|error| unreadable(1, error))?,
        author: row.get(2)?,
        changed: time(row, 3)?,
    })
}

/// Not yet compared with what is there now.
pub(super) fn proposal(row: &Row) -> Result<Proposal, DatabaseError> {
    let decided = match maybe_time(row, 12)? {
        Some(at) => Some(Decided {
            by: row.get(11)?,
            at,
            why: row.get::<Option<String>>(13)?.unwrap_or_default(),
        }),
        None => None,
    };
    Ok(Proposal {
        id: row.get(0)?,
        draft: Draft {
            kind: word(row, 1)?,
            subject: row.get(2)?,
            value: row.get(3)?,
        },
        before: row.get(4)?,
        built_on: row.get(5)?,
        reason: row.get(6)?,
        author: row.get(7)?,
        person: row.get(8)?,
        created: time(row, 9)?,
        state: word(row, 10)?,
        stale: false,
        decided,
        version: row.get(14)?,
        basis: row.get(15)?,
    })
}

fn word<T: std::str::FromStr<Err = String>>(row: &Row, at: usize) -> Result<T, DatabaseError> {
    let text: String = row.get(at)?;
    text.parse().map_err(|error: String| unreadable(at, error))
}

pub(super) fn time(row: &Row, at: usize) -> Result<Timestamp, DatabaseError> {
    Timestamp::from_second(row.get(at)?).map_err(|error| unreadable(at, error))
}

fn maybe_time(row: &Row, at: usize) -> Result<Option<Timestamp>, DatabaseError> {
    match row.get::<Option<i64>>(at)? {
        Some(_) => time(row, at).map(Some),
        None => Ok(None),
    }
}

fn unreadable(column: usize, why: impl std::fmt::Display) -> DatabaseError {
    let why = why.to_string();
    DatabaseError::Unreadable { column, why }
}

/// A desk that was left for longer is left.
const IDLE: SignedDuration = SignedDuration::from_hours(2);
