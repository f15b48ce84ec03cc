//! Each change as statements of one transaction, with the conditions under which it is refused.

use super::{
    Actor, Applied, Assignment, Change, ChangeError, Place, Server, alone, factors, held, name,
    proposals, rows, sessions, setup, sign_on, standing, stops,
    tables::{DatabaseError, OptionalExtension as _, Params, Refused, Transaction},
    teams, webhooks,
};
use crate::role::Role;

pub(super) type Outcome<T = ()> = Result<T, Refused>;

/// Makes a change, whoever must agree to it.
pub(super) fn make(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome<Applied> {
    let now = actor.at.as_second();
    match change {
        Change::OpenSetup {
            digest,
            expires,
            beside,
        } => setup::open(db, (digest, expires.as_second()), *beside, now)?,
        Change::FinishSetup {
            digest,
            name,
            password,
        } => {
            setup::finish(db, digest, now)?;
            add_user(db, (name.as_str(), Role::Admin, password, true), now)?;
        }
        Change::AddUser {
            name,
            role,
            password,
        } => add_user(db, (name.as_str(), *role, password, false), now)?,
        Change::SetPassword { .. } => set_password(db, change, actor)?,
        Change::SetRole { name, role } => {
            sign_on::refuse_theirs(db, name, "their role follows their groups there")?;
            if *role != Role::Admin {
                keep_an_admin(db, name)?;
            }
            let sql = "UPDATE users SET role = ?2 WHERE lower(name) = ?1";
            one(db, sql, (name::folded(name), role.as_str()), ("user", name))?;
            if *role != Role::Admin {
                end_tokens_of(db, name)?;
            }
        }
        Change::RemoveUser { name } => {
            keep_an_admin(db, name)?;
            end_tokens_of(db, name)?;
            proposals::withdraw_of(db, name, actor)?;
            let sql = "DELETE FROM users WHERE lower(name) = ?1";
            one(db, sql, [name::folded(name)], ("user", name))?;
        }
        Change::StartSession { .. } | Change::EndSession { .. } => {
            sessions::session(db, change, actor)?
        }
        Change::SetFactor { .. } | Change::RemoveFactor { .. } | Change::FactorRule { .. } => {
            factors::change(db, change, actor)?;
        }
        Change::SignOn { .. } => return sign_on::sign_on(db, change, actor),
        Change::SignOnLost { .. } => return sign_on::lose(db, change),
        Change::AddToken { .. } | Change::RemoveToken { .. } => token(db, change, actor)?,
        Change::SavePolicy { .. }
        | Change::SaveFor { .. }
        | Change::RemovePolicy { .. }
        | Change::Assign { .. }
        | Change::SetFloor { .. }
        | Change::SaveTeam { .. }
        | Change::RemoveTeam { .. } => return policies(db, change, actor),
        Change::AnswerHeld { id, allow, .. } => held::answer(db, id, *allow, actor)?,
        Change::SaveWebhook { .. } => webhooks::save(db, change, actor)?,
        Change::RemoveWebhook { name } => webhooks::remove(db, name)?,
        Change::SaveServer { .. } => return save_server(db, change, actor),
        Change::RemoveServer { name, expected } => remove_server(db, name, expected.as_deref())?,
        Change::StopSandbox { sandbox, .. } => stops::ask(db, *sandbox, now)?,
        Change::SaveSearch { .. } => save_search(db, change, actor)?,
        Change::RemoveSearch { id } => {
            let sql = "DELETE FROM searches WHERE id = ?1";
            one(db, sql, [id], ("saved search", id))?;
        }
        Change::TwoPersonRule { on } => proposals::set_rule(db, *on, actor)?,
        Change::Decide { .. } => {}
    }
    Ok(Applied::default())
}

/// Policies, and for whom they are in force.
fn policies(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome<Applied> {
    match change {
        Change::SavePolicy { .. } => return save_policy(db, change, actor),
        Change::SaveFor { name, server, .. } => {
            let applied = save_policy(db, change, actor)?;
            let place = Place::Server(server.clone());
            assign(db, "assignments", (&place, Some(name.as_str())), None)?;
            return Ok(applied);
        }
        Change::RemovePolicy { name, expected } => remove_policy(db, name, *expected)?,
        Change::Assign {
            place,
            policy,
            expected,
        } => {
            let expected = expected.as_deref();
            assign(db, "assignments", (place, policy.as_deref()), expected)?;
            teams::unambiguous(db)?;
        }
        Change::SetFloor {
            place,
            policy,
            expected,
        } => assign(
            db,
            "floors",
            (place, policy.as_deref()),
            expected.as_deref(),
        )?,
        Change::SaveTeam { .. } | Change::RemoveTeam { .. } => {
            return teams::change(db, change, actor);
        }
        _ => {}
    }
    Ok(Applied::default())
}

fn set_password(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome {
    let Change::SetPassword {
        name,
        password,
        end_tokens,
        code,
    } = change
    else {
        return Ok(());
    };
    sign_on::refuse_theirs(db, name, "they have no password here")?;
    let folded = name::folded(name);
    let own = standing::is_themselves(actor, name);
    if own {
        factors::spend(db, name, code.as_ref(), actor)?;
    }
    let sql = "UPDATE users SET password = ?2, own_password = ?3 WHERE lower(name) = ?1";
    one(db, sql, (&folded, password, own), ("user", name))?;
    let sql = "DELETE FROM sessions WHERE lower(\"user\") = ?1";
    db.execute(sql, [folded])?;
    if *end_tokens {
        end_tokens_of(db, name)?;
    }
    Ok(())
}

fn remove_server(db: &Transaction<'_>, name: &str, expected: Option<&str>) -> Outcome {
    if let Some(expected) = expected {
        let there = db.query_row(rows::ONE_SERVER, [name], rows::server);
        if there
            .optional()?
            .is_none_or(|server| server.tag() != expected)
        {
            let what = format!("server {name}");
            return Err(Refused::Change(ChangeError::Meanwhile { what }));
        }
    }
    // Else who registers it again would put it under another policy or give it another reach, alone.
    if proposals::rule_is_on(db)? {
        alone::remember_network(db, name)?;
    } else {
        for table in ["assignments", "floors"] {
            let sql = format!("DELETE FROM {table} WHERE scope = 'server' AND subject = ?1");
            db.execute(&sql, [name])?;
        }
    }
    let sql = "DELETE FROM servers WHERE name = ?1";
    one(db, sql, [name], ("server", name))
}

fn add_user(
    db: &Transaction<'_>,
    (name, role, password, own): (&str, Role, &str, bool),
    now: i64,
) -> Outcome {
    let sql = "INSERT INTO users (name, role, password, created, own_password)
               VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
    let values = (name, role.as_str(), password, now, own);
    new(db, sql, values, ("user", name))
}

fn keep_an_admin(db: &Transaction<'_>, name: &str) -> Outcome {
    let folded = name::folded(name);
    let sql = "SELECT count(*) FROM users WHERE role = 'admin' AND lower(name) <> ?1";
    let others: i64 = db.query_row(sql, [&folded], |row| row.get(0))?;
    let sql = "SELECT count(*) FROM users WHERE role = 'admin' AND lower(name) = ?1";
    let is_one: i64 = db.query_row(sql, [&folded], |row| row.get(0))?;
    if others == 0 && is_one > 0 {
        let name = name.to_owned();
        return Err(Refused::Change(ChangeError::LastAdmin { name }));
    }
    Ok(())
}

/// Who may make no tokens has none that go on.
pub(super) fn end_tokens_of(db: &Transaction<'_>, name: &str) -> Outcome {
    let sql = "DELETE FROM tokens WHERE lower(person) = lower(?1)";
    db.execute(sql, [name])?;
    Ok(())
}

fn token(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome {
    match change {
        Change::AddToken {
            id,
            digest,
            name,
            role,
            expires,
            narrowing,
        } => {
            for server in narrowing.servers() {
                let sql = "SELECT count(*) > 0 FROM servers WHERE name = ?1";
                if !db.query_row(sql, [server], |row| row.get(0))? {
                    let server = server.clone();
                    return Err(Refused::Change(ChangeError::NoServer { server }));
                }
            }
            let sql =
                "INSERT INTO tokens (id, digest, name, role, author, person, created, expires,
                       scopes, servers)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING";
            let person = actor.person.as_deref().unwrap_or_default();
            let (now, expires) = (actor.at.as_second(), expires.map(|at| at.as_second()));
            let (digest, role, author) = (digest.octets(), role.as_str(), &*actor.name);
            let values = (
                id,
                digest,
                name.as_str(),
                role,
                author,
                person,
                now,
                expires,
                narrowing.scopes().join(" "),
                narrowing.servers().join(" "),
            );
            new(db, sql, values, ("token", name.as_str()))
        }
        Change::RemoveToken { id } => {
            one(db, "DELETE FROM tokens WHERE id = ?1", [id], ("token", id))
        }
        _ => Ok(()),
    }
}

fn save_policy(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome<Applied> {
    let (Change::SavePolicy {
        name,
        expected,
        document,
        reason,
        ..
    }
    | Change::SaveFor {
        name,
        expected,
        document,
        reason,
        ..
    }) = change
    else {
        return Ok(Applied::default());
    };
    let name = name.as_str();
    let last = built_on(db, name, *expected)?;
    let version = last + 1;
    let sql = "INSERT INTO policies (name, version) VALUES (?1, ?2)
               ON CONFLICT (name) DO UPDATE SET version = ?2, removed = 0";
    db.execute(sql, (name, version))?;
    let sql = "INSERT INTO policy_versions (name, version, document, author, reason, created)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let now = actor.at.as_second();
    db.execute(sql, (name, version, document, &*actor.name, reason, now))?;
    Ok(Applied {
        version: Some(version),
        ..Applied::default()
    })
}

/// The last version that there ever was; refuses what is built on another than is there now.
fn built_on(db: &Transaction<'_>, name: &str, expected: Option<u64>) -> Outcome<u64> {
    let sql = "SELECT version, removed FROM policies WHERE name = ?1";
    let found: Option<(u64, bool)> = db
        .query_row(sql, [name], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (last, removed) = found.unwrap_or((0, true));
    let current = if removed { 0 } else { last };
    if expected.is_some_and(|expected| expected != current) {
        let name = name.to_owned();
        return Err(Refused::Change(ChangeError::Stale { name, current }));
    }
    Ok(last)
}

fn remove_policy(db: &Transaction<'_>, name: &str, expected: Option<u64>) -> Outcome {
    built_on(db, name, expected)?;
    // That of a server that was removed waits for it to come back, and then denies it everything.
    let sql = "SELECT scope, subject, policy, what
               FROM (SELECT scope, subject, policy, '' AS what FROM assignments
                   UNION ALL SELECT scope, subject, policy, 'the floor of ' FROM floors) AS used
               WHERE policy = ?1 AND (scope <> 'server' OR subject IN (SELECT name FROM servers))
               ORDER BY scope, subject, what LIMIT 20";
    let places = db.query_all(sql, [name], |row| {
        let what: String = row.get(3)?;
        Ok(format!("{what}{}", rows::assignment(row)?.place))
    })?;
    if !places.is_empty() {
        return Err(Refused::Change(ChangeError::InUse {
            what: "policy",
            name: name.to_owned(),
            user: places.join(", "),
        }));
    }
    let sql = "UPDATE policies SET removed = 1 WHERE name = ?1 AND removed = 0";
    one(db, sql, [name], ("policy", name))
}

/// In which of two tables: what is in force, or what bounds it.
fn assign(
    db: &Transaction<'_>,
    table: &'static str,
    (place, policy): (&Place, Option<&str>),
    expected: Option<&str>,
) -> Outcome {
    if let Some(expected) = expected {
        let sql = if table == "floors" {
            rows::FLOORS
        } else {
            rows::ASSIGNMENTS
        };
        if Assignment::tag(&db.query_all(sql, (), rows::assignment)?) != expected {
            let what = table.to_owned();
            return Err(Refused::Change(ChangeError::Meanwhile { what }));
        }
    }
    let (scope, subject) = (place.scope(), place.subject());
    let Some(policy) = policy else {
        // Also from a server that went before.
        let sql = format!("DELETE FROM {table} WHERE scope = ?1 AND subject = ?2");
        let what = if table == "floors" {
            "floor of"
        } else {
            "assignment of"
        };
        return one(db, &sql, [scope, subject], (what, &place.to_string()));
    };
    teams::is_there(db, place)?;
    let sql = "SELECT 1 FROM policies WHERE name = ?1 AND removed = 0";
    there(db, sql, "policy", policy)?;
    let sql = format!(
        "INSERT INTO {table} (scope, subject, policy) VALUES (?1, ?2, ?3)
         ON CONFLICT (scope, subject) DO UPDATE SET policy = ?3"
    );
    db.execute(&sql, (scope, subject, policy))?;
    Ok(())
}

fn save_server(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome<Applied> {
    let Change::SaveServer {
        name,
        spec,
        new,
        expected,
    } = change
    else {
        return Ok(Applied::default());
    };
    let name = name.as_str();
    let before = db.query_row(rows::ONE_SERVER, [name], rows::server);
    let before = before.optional()?;
    let tag = before.as_ref().map(Server::tag).unwrap_or_default();
    if expected.as_ref().is_some_and(|expected| *expected != tag) {
        let what = format!("server {name}");
        return Err(Refused::Change(ChangeError::Meanwhile { what }));
    }
    let before = before.map(|server| Box::new(server.spec));
    let spec = serde_json::to_string(spec).map_err(|error| DatabaseError::Failed(error.into()))?;
    let values = (name, spec, &*actor.name, actor.at.as_second());
    let sql = "INSERT INTO servers (name, spec, author, changed) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT (name)";
    alone::forget_network(db, name)?;
    if *new {
        self::new(db, &format!("{sql} DO NOTHING"), values, ("server", name))?;
        return Ok(Applied::default());
    }
    let sql = format!("{sql} DO UPDATE SET spec = ?2, author = ?3, changed = ?4");
    db.execute(&sql, values)?;
    Ok(Applied {
        before,
        ..Applied::default()
    })
}

fn save_search(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome {
    let Change::SaveSearch { id, title, query } = change else {
        return Ok(());
    };
    let sql = "SELECT count(*) FROM searches";
    let kept: i64 = db.query_row(sql, (), |row| row.get(0))?;
    if kept >= i64::from(MOST_SEARCHES) {
        let (what, most) = ("saved searches", MOST_SEARCHES);
        return Err(Refused::Change(ChangeError::Full { what, most }));
    }
    let sql = "SELECT count(*) FROM searches WHERE author = ?1";
    let own: i64 = db.query_row(sql, [&*actor.name], |row| row.get(0))?;
    if own >= i64::from(MOST_OF_ONE) {
        let (what, most) = ("saved searches of yours", MOST_OF_ONE);
        return Err(Refused::Change(ChangeError::Full { what, most }));
    }
    let sql = "SELECT count(*) FROM searches WHERE title = ?1";
    let same: i64 = db.query_row(sql, [title], |row| row.get(0))?;
    if same > 0 {
        let (what, name) = ("saved search", title.clone());
        return Err(Refused::Change(ChangeError::Exists { what, name }));
    }
    let sql = "INSERT INTO searches (id, title, query, author, created) VALUES (?1, ?2, ?3, ?4, ?5)
               ON CONFLICT DO NOTHING";
    let values = (id, title, query, &*actor.name, actor.at.as_second());
    new(db, sql, values, ("saved search", id))
}

/// A statement that changes one row, which must be there.
pub(super) fn one(
    db: &Transaction<'_>,
    sql: &str,
    params: impl Params,
    (what, name): (&'static str, &str),
) -> Outcome {
    match db.execute(sql, params)? {
        0 => missing(what, name),
        _ => Ok(()),
    }
}

/// A statement that makes one row, which must not be there.
fn new(
    db: &Transaction<'_>,
    sql: &str,
    params: impl Params,
    (what, name): (&'static str, &str),
) -> Outcome {
    match db.execute(sql, params)? {
        0 => Err(Refused::Change(ChangeError::Exists {
            what,
            name: name.to_owned(),
        })),
        _ => Ok(()),
    }
}

pub(super) fn there(db: &Transaction<'_>, sql: &str, what: &'static str, name: &str) -> Outcome {
    let found: Option<i64> = db.query_row(sql, [name], |row| row.get(0)).optional()?;
    match found {
        Some(_) => Ok(()),
        None => missing(what, name),
    }
}

pub(super) fn missing<T>(what: &'static str, name: &str) -> Outcome<T> {
    let name = name.to_owned();
    Err(Refused::Change(ChangeError::Missing { what, name }))
}

/// As many as a page lists.
const MOST_SEARCHES: u32 = 100;
/// One person leaves some to others.
const MOST_OF_ONE: u32 = 20;
