//! What nobody does alone under the two-person rule, because it would make two people of one or give a
//! policy another reach; and whom the rule takes for a person.
//!
//! A person is a user with a password of their own. One that somebody else chose or set may be used by
//! both; a token of this machine's owner by whoever has it.

use super::{
    Actor, Change, ChangeError, Network, ServerSpec, User,
    changes::{self, Outcome},
    factors, name, rows,
    tables::{DatabaseError, OptionalExtension as _, Refused, Transaction},
};
use crate::role::Permission;

/// Why one person alone may not make this change, nor two who do not see it; `None` for all others.
pub(super) fn forbidden(
    db: &Transaction<'_>,
    change: &Change,
    actor: &Actor,
) -> Outcome<Option<&'static str>> {
    let user = |name: &str| -> Result<_, DatabaseError> {
        let found = db.query_row(rows::ONE_USER, [name::folded(name)], rows::user);
        found.optional()
    };
    Ok(match change {
        Change::AddUser { role, .. } if role.takes_part() => Some(
            "nobody who changes or approves policies is added by one person: add them as viewer, let \
             them choose a password of their own, then change the role, which waits for approval",
        ),
        Change::SetPassword { name, .. } if !actor.is(name) => {
            let takes_part = user(name)?.is_some_and(|user| user.role.takes_part());
            takes_part.then_some(
                "who changes or approves policies has a password that nobody else chose: they change \
                 it themselves; where it is lost, this machine's owner sets another (`gig user \
                 password`), and they choose one of their own at once",
            )
        }
        Change::RemoveFactor { name, .. } if !actor.is(name) => {
            let takes_part = user(name)?.is_some_and(|user| user.role.takes_part());
            takes_part.then_some(
                "the second factor of who changes or approves policies is removed by nobody else: where a \
                 device is lost, they use a recovery code, or this machine's owner removes it (`gig user \
                 factor NAME --remove`)",
            )
        }
        Change::FactorRule { roles } => {
            let fewer = factors::rule(db)?.iter().any(|role| !roles.contains(role));
            fewer.then_some(
                "that a role asks for a second factor is ended by no one person; this machine's owner can \
                 (`gig user ask-factor`)",
            )
        }
        Change::SetRole { name, role } if role.takes_part() => {
            let anothers = user(name)?.is_some_and(|user| !user.own_password);
            anothers.then_some(
                "who is to change or approve policies chooses a password of their own first: somebody \
                 else set the one that they have",
            )
        }
        Change::SaveServer { name, spec, .. } => {
            let before = network_of(db, name.as_str())?;
            let other = match before {
                Some(before) => before != spec.network,
                None => spec.network == Network::Local,
            };
            other.then_some(
                "`network` decides what a server's policy reaches: nobody changes it alone, or \
                 registers a server with `local`; this machine's owner can (`gig server`)",
            )
        }
        _ => None,
    })
}

/// Of a server that is registered, or was removed under the rule.
fn network_of(db: &Transaction<'_>, name: &str) -> Result<Option<Network>, DatabaseError> {
    let server = db.query_row(rows::ONE_SERVER, [name], rows::server);
    if let Some(server) = server.optional()? {
        return Ok(Some(server.spec.network));
    }
    let sql = "SELECT value FROM settings WHERE name = ?1";
    let kept = db.query_row(sql, [network_kept(name)], |row| row.get::<String>(0));
    let of = |word: String| {
        let all = [Network::External, Network::Local, Network::Disconnected];
        all.into_iter().find(|one| one.as_str() == word)
    };
    Ok(kept.optional()?.and_then(of))
}

/// Keeps what a server reached that is about to be removed: registered again it reaches the same.
pub(super) fn remember_network(db: &Transaction<'_>, name: &str) -> Result<(), DatabaseError> {
    let Some(network) = network_of(db, name)? else {
        return Ok(());
    };
    forget_network(db, name)?;
    let sql = "INSERT INTO settings (name, value) VALUES (?1, ?2)";
    let values = (network_kept(name), network.as_str());
    db.execute(sql, values).map(drop)
}

/// It is registered again.
pub(super) fn forget_network(db: &Transaction<'_>, name: &str) -> Result<(), DatabaseError> {
    let sql = "DELETE FROM settings WHERE name = ?1";
    db.execute(sql, [network_kept(name)]).map(drop)
}

fn network_kept(server: &str) -> String {
    format!("network of {server}")
}

/// How many people may approve: fewer than two could never end the rule. Accounts that look like one person's count as
/// that one.
pub(super) fn approvers(db: &Transaction<'_>) -> Result<usize, DatabaseError> {
    let users = db.query_all(rows::USERS, (), rows::user)?;
    let (elsewhere, here): (Vec<_>, Vec<_>) = users
        .iter()
        .filter(|user| user.own_password && user.role.may(Permission::Approve))
        .partition(|user| user.account.is_some());
    let like = |one: &User| {
        elsewhere
            .iter()
            .filter(|other| look_alike(one, other))
            .count()
    };
    let alone = |other: &&&User| !here.iter().any(|one| look_alike(one, other));
    // Two of a provider are two, also where each looks like one who is here.
    let here: usize = here.iter().map(|one| like(one).max(1)).sum();
    Ok(here + elsewhere.iter().filter(alone).count())
}

/// Refuses a change that left fewer than two where there were `before`.
pub(super) fn keep_two(db: &Transaction<'_>, before: usize) -> Outcome {
    let after = approvers(db)?;
    if after >= 2 || after >= before {
        return Ok(());
    }
    Err(too_few())
}

pub(super) fn too_few() -> Refused {
    refused(
        "it needs at least two users who may approve (approvers or admins), each with a password that \
         they chose themselves, signed in, under People",
    )
}

pub(super) fn refused(why: &'static str) -> Refused {
    Refused::Change(ChangeError::TwoPeople(why))
}

/// Who answers for it: somebody whom nobody knows could be anybody, and so could who has a token of this
/// machine's owner.
pub(super) fn known(actor: &Actor) -> Outcome<&str> {
    let person = actor.person.as_deref();
    match person {
        None => Err(refused("nobody knows who made this token: make a new one")),
        Some(Actor::OWNER) if !actor.owner => Err(refused(
            "a token that this machine's owner made is nobody's: use one that a user made, signed in",
        )),
        Some(person) => Ok(person),
    }
}

/// As [`known`], and nobody else can sign in as them.
pub(super) fn themselves(db: &Transaction<'_>, actor: &Actor) -> Outcome<String> {
    let person = known(actor)?;
    if actor.owner {
        return Ok(person.to_owned());
    }
    let user = db.query_row(rows::ONE_USER, [name::folded(person)], rows::user);
    match user.optional()? {
        Some(user) if user.own_password => Ok(user.name),
        Some(_) => Err(refused(
            "somebody else set your password: choose one of your own first, under People",
        )),
        None => changes::missing("user", person),
    }
}

/// Whether two accounts look like one person's: one signs in by a password here and the other through a provider, which
/// has the name of the first, or that name and a number because it was taken, or the other way round; of an address of
/// mail the part before `@` is the name.
pub(super) fn are_alike(
    db: &Transaction<'_>,
    (one, other): (&str, &str),
) -> Result<bool, DatabaseError> {
    let user = |name: &str| {
        let user = db.query_row(rows::ONE_USER, [name::folded(name)], rows::user);
        user.optional()
    };
    let both = user(one)?.zip(user(other)?);
    Ok(both.is_some_and(|(one, other)| look_alike(&one, &other)))
}

fn look_alike(one: &User, other: &User) -> bool {
    let (here, there) = match (&one.account, &other.account) {
        (None, Some(_)) => (one, other),
        (Some(_), None) => (other, one),
        _ => return false,
    };
    // Providers call people by their mail as well.
    let plain = |user: &User| {
        let name = name::folded(&user.name);
        name.split('@').next().unwrap_or_default().to_owned()
    };
    let (here, there) = (plain(here), plain(there));
    // As many as `free_names` tries; a number that is no such one belongs to a name.
    let numbered = |end: &str| {
        let number = end
            .strip_prefix('-')
            .and_then(|number| number.parse::<u8>().ok());
        number.is_some_and(|number| (2..=20).contains(&number))
    };
    let is_of = |long: &str, short: &str| long.strip_prefix(short).is_some_and(numbered);
    here == there || is_of(&there, &here) || is_of(&here, &there)
}

/// What stands for a server's whole specification; nothing for one that is not there.
pub(super) fn spec_of(
    db: &Transaction<'_>,
    server: &str,
) -> Result<Option<ServerSpec>, DatabaseError> {
    let found = db.query_row(rows::ONE_SERVER, [server], rows::server);
    Ok(found.optional()?.map(|server| server.spec))
}
