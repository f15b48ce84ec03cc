//! What somebody's right to a change rests on, looked up again where the change is made.
//!
//! A request is judged by its head; its body may come much later, when its sender was removed or is
//! something else. So the same transaction that makes a change asks whether its session or token is
//! still there and still of the same role.

use std::sync::Arc;

use super::{
    Actor, ChangeError,
    changes::Outcome,
    name, rows,
    tables::{DatabaseError, OptionalExtension as _, Refused, Transaction},
    webhooks,
};
use crate::role::{Permission, Role};

/// What it rests on that somebody may make a change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Standing {
    /// On the change itself (a password, a set-up link), or on owning this machine.
    Itself,
    /// On a session.
    Session {
        /// Its id.
        id: Arc<str>,
        /// What its user was when that was looked at.
        role: Role,
    },
    /// On a webhook that vouches for its users.
    Webhook {
        /// Its name.
        name: Arc<str>,
        /// Which of them.
        user: Arc<str>,
        /// They write a rule that only a user here writes, who may.
        rules: bool,
    },
    /// On a token.
    Token {
        /// Its id.
        id: Arc<str>,
        /// What it may.
        role: Role,
    },
}

/// Refuses who may no more what they might when they asked.
pub(super) fn holds(db: &Transaction<'_>, actor: &Actor) -> Outcome {
    let now = actor.at.as_second();
    let (kept, role) = match &actor.standing {
        Standing::Itself => return Ok(()),
        Standing::Webhook { name, user, rules } => {
            return match webhooks::lets(db, name, (user, *rules))? {
                true => Ok(()),
                false => Err(Refused::Change(ChangeError::Lapsed)),
            };
        }
        Standing::Session { id, role } => {
            let found = db.query_row(rows::ROLE_OF_SESSION, (&**id, now), |row| row.get(0));
            (found.optional()?, role)
        }
        Standing::Token { id, role } => {
            let found = db.query_row(rows::ONE_TOKEN, (&**id, now), rows::token);
            let found = found.optional()?;
            (found.map(|token| token.role.as_str().to_owned()), role)
        }
    };
    match kept.as_deref() == Some(role.as_str()) {
        true => Ok(()),
        false => Err(Refused::Change(ChangeError::Lapsed)),
    }
}

/// Whether this is that user in a session, not by a token of theirs: what they type, they alone know.
pub(super) fn is_themselves(actor: &Actor, name: &str) -> bool {
    !actor.owner && actor.is(name) && actor.name.eq_ignore_ascii_case(name)
}

/// Whether a user of this name is there and may.
pub(super) fn may(
    db: &Transaction<'_>,
    name: &str,
    permission: Permission,
) -> Result<bool, DatabaseError> {
    let user = db.query_row(rows::ONE_USER, [name::folded(name)], rows::user);
    Ok(user
        .optional()?
        .is_some_and(|user| user.role.may(permission)))
}
