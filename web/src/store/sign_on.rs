//! Accounts that a sign-on provider vouches for: made at their first sign-in, found by what the provider
//! calls them and by nothing else, without a password, with a role that nobody here gives, and in
//! the teams that their groups there say.

use super::{
    Actor, Applied, Change, ChangeError,
    changes::{self, Outcome},
    name, rows,
    sessions::{self, NewSession},
    tables::{OptionalExtension as _, Refused, Transaction},
    teams,
};
use crate::role::Role;

/// Makes or finds the account, gives it its role and its teams, and starts a session. Teams that disagree about
/// what is in force for it refuse all of that.
pub(super) fn sign_on(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome<Applied> {
    let Change::SignOn {
        id,
        digest,
        name,
        account,
        role,
        teams,
        first,
        expires,
        agent,
    } = change
    else {
        return Ok(Applied::default());
    };
    let (name, now) = (name.as_str(), actor.at.as_second());
    let (issuer, subject) = (&account.issuer, &account.subject);
    let sql = if *first {
        // Nobody else knows how to be them: it counts as their own.
        "INSERT INTO users (name, role, password, created, own_password, issuer, subject)
         VALUES (?1, ?2, '', ?3, 1, ?4, ?5) ON CONFLICT DO NOTHING"
    } else {
        "UPDATE users SET role = ?2 WHERE name = ?1 AND issuer = ?4 AND subject = ?5 AND ?3 > 0"
    };
    if db.execute(sql, (name, role.as_str(), now, issuer, subject))? == 0 {
        return Err(Refused::Change(match *first {
            true => ChangeError::Exists {
                what: "user",
                name: name.to_owned(),
            },
            false => ChangeError::Lapsed,
        }));
    }
    if *role != Role::Admin {
        changes::end_tokens_of(db, name)?;
    }
    let session = NewSession {
        id,
        digest,
        user: name,
        expires: *expires,
        agent,
        began: "single sign-on",
    };
    sessions::insert_session(db, &session, actor)?;
    Ok(Applied {
        beside: teams::belong(db, name, teams)?,
        ..Applied::default()
    })
}

/// Ends what somebody has here who may sign in no more, takes them out of teams that their groups say no more, and
/// leaves them the least of all roles: the account stays, and who it is.
pub(super) fn lose(db: &Transaction<'_>, change: &Change) -> Outcome<Applied> {
    let Change::SignOnLost {
        name,
        account,
        out_of,
    } = change
    else {
        return Ok(Applied::default());
    };
    let (name, least) = (name.as_str(), Role::Viewer.as_str());
    let sql = "UPDATE users SET role = ?2 WHERE name = ?1 AND issuer = ?3 AND subject = ?4";
    if db.execute(sql, (name, least, &account.issuer, &account.subject))? == 0 {
        return Err(Refused::Change(ChangeError::Lapsed));
    }
    let sql = "DELETE FROM sessions WHERE lower(\"user\") = ?1";
    db.execute(sql, [name::folded(name)])?;
    changes::end_tokens_of(db, name)?;
    let out_of: Vec<_> = out_of.iter().map(|team| (team.clone(), false)).collect();
    Ok(Applied {
        beside: teams::belong(db, name, &out_of)?,
        ..Applied::default()
    })
}

/// Refuses to change what the provider decides.
pub(super) fn refuse_theirs(db: &Transaction<'_>, name: &str, what: &'static str) -> Outcome {
    let found = db.query_row(rows::ONE_USER, [name::folded(name)], rows::user);
    match found.optional()? {
        Some(user) if user.account.is_some() => Err(Refused::Change(ChangeError::SignOn {
            name: user.name,
            what,
        })),
        _ => Ok(()),
    }
}
