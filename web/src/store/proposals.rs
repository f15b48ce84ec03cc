//! The two-person rule as statements of the same transaction: which changes become proposals, and what
//! deciding on one makes.
//!
//! Every change comes through [`apply`], so that no door leads past the rule. What is proposed is tried
//! first and undone again: what could not be made is refused to its author, not to who approves.

use super::{
    Actor, Applied, Change, ChangeError, Decision, Draft, Proposal, ProposalKind, ProposalState,
    changes::{self, Outcome, make},
    rows,
    tables::{DatabaseError, OptionalExtension as _, Refused, Transaction},
};
use crate::role::Role;

/// Makes a change, or a proposal of it.
pub(super) fn apply(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome<Applied> {
    if let Change::Decide { id, decision, why } = change {
        return decide(db, *id, (*decision, why), actor);
    }
    if !rule_is_on(db)? {
        let applied = make(db, change, actor)?;
        if matches!(change, Change::TwoPersonRule { on: true }) {
            two_can_approve(db)?;
        }
        return Ok(applied);
    }
    let draft = Draft::of(change);
    let forbidden = forbidden(db, change, actor)?;
    let needs_two = draft.is_some() || forbidden.is_some();
    if actor.owner && needs_two {
        let applied = make(db, change, actor)?;
        let passed = true;
        return Ok(Applied { passed, ..applied });
    }
    match (draft, forbidden) {
        (_, Some(why)) => Err(Refused::Change(ChangeError::TwoPeople(why))),
        (Some(draft), None) => propose(db, draft, change, actor),
        (None, None) => {
            let applied = make(db, change, actor)?;
            if matches!(change, Change::SetRole { .. } | Change::RemoveUser { .. }) {
                two_can_approve(db)?;
            }
            Ok(applied)
        }
    }
}

pub(super) fn rule_is_on(db: &Transaction<'_>) -> Result<bool, DatabaseError> {
    let sql = "SELECT count(*) > 0 FROM settings WHERE name = 'two_person_rule' AND value = 'on'";
    db.query_row(sql, (), |row| row.get(0))
}

pub(super) fn set_rule(db: &Transaction<'_>, on: bool) -> Result<(), DatabaseError> {
    db.execute("DELETE FROM settings WHERE name = 'two_person_rule'", ())?;
    if on {
        let sql = "INSERT INTO settings (name, value) VALUES ('two_person_rule', 'on')";
        db.execute(sql, ())?;
    }
    Ok(())
}

/// What would make two people of one: an account with a part in changes that somebody else has the
/// password of.
fn forbidden(
    db: &Transaction<'_>,
    change: &Change,
    actor: &Actor,
) -> Outcome<Option<&'static str>> {
    Ok(match change {
        Change::AddUser { role, .. } if role.takes_part() => Some(
            "nobody who changes or approves policies is added by one person: add them as viewer, let \
             them choose a password of their own, then change the role, which waits for approval",
        ),
        Change::SetPassword { name, .. } if !actor.is(name) => {
            let sql = "SELECT role FROM users WHERE lower(name) = ?1";
            let role: Option<String> = db
                .query_row(sql, [rows::folded(name)], |row| row.get(0))
                .optional()?;
            let role: Option<Role> = role.and_then(|role| role.parse().ok());
            role.is_some_and(Role::takes_part).then_some(
                "who changes or approves policies has a password that nobody else chose: make them a \
                 viewer first, set it, then change the role back, which waits for approval",
            )
        }
        _ => None,
    })
}

/// Else nobody could ever approve, or end the rule.
fn two_can_approve(db: &Transaction<'_>) -> Outcome {
    let sql = "SELECT count(*) FROM users WHERE role IN ('approver', 'admin')";
    let count: i64 = db.query_row(sql, (), |row| row.get(0))?;
    if count >= 2 {
        return Ok(());
    }
    Err(Refused::Change(ChangeError::TwoPeople(
        "it needs at least two users who may approve, approvers or admins",
    )))
}

fn propose(db: &Transaction<'_>, draft: Draft, change: &Change, actor: &Actor) -> Outcome<Applied> {
    let person = known(actor)?;
    let (before, built_on) = basis(db, &draft)?;
    db.execute_batch("SAVEPOINT trial")?;
    make(db, change, actor)?;
    db.execute_batch("ROLLBACK TO trial; RELEASE trial")?;
    let (kind, now) = (draft.kind.as_str(), actor.at.as_second());
    let newest = "SELECT coalesce(max(id), 0) FROM proposals";
    let id: u64 = db.query_row(newest, (), |row| row.get(0))?;
    let id = id + 1;
    let sql = "UPDATE proposals SET state = 'withdrawn', decided_by = ?1, decided = ?2, why = ?3
               WHERE state = 'pending' AND kind = ?4 AND subject = ?5 AND lower(person) = lower(?6)";
    let why = format!("proposal {id} in its place");
    let values = (actor.words(), now, why, kind, &draft.subject, person);
    db.execute(sql, values)?;
    let waiting = "SELECT count(*) FROM proposals WHERE state = 'pending'";
    let waiting: u32 = db.query_row(waiting, (), |row| row.get(0))?;
    if waiting >= MOST_PENDING {
        return Err(Refused::Change(ChangeError::TwoPeople(
            "too many proposals wait: decide on some of them first",
        )));
    }
    let reason = match change {
        Change::SavePolicy { reason, .. } => reason.as_str(),
        _ => "",
    };
    let sql = "INSERT INTO proposals (id, kind, subject, value, before, built_on, reason, author,
               person, created, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'pending')";
    let (subject, value) = (&draft.subject, &draft.value);
    let author = &*actor.name;
    db.execute(
        sql,
        (
            id, kind, subject, value, before, built_on, reason, author, person, now,
        ),
    )?;
    let proposal = one(db, id)?;
    Ok(Applied {
        proposal,
        ..Applied::default()
    })
}

fn decide(
    db: &Transaction<'_>,
    id: u64,
    (decision, why): (Decision, &str),
    actor: &Actor,
) -> Outcome<Applied> {
    let Some(proposal) = one(db, id)? else {
        return changes::missing("proposal", &id.to_string());
    };
    let state = proposal.state;
    if state != ProposalState::Pending {
        return Err(Refused::Change(ChangeError::Decided { id, state }));
    }
    known(actor)?;
    let refused = match (decision, actor.is(&proposal.person)) {
        (Decision::Approve | Decision::Reject, true) => {
            Some("somebody else than the author decides on a proposal; the author can withdraw it")
        }
        (Decision::Withdraw, false) => Some("a proposal is withdrawn by its author: reject it"),
        _ => None,
    };
    if let Some(refused) = refused {
        return Err(Refused::Change(ChangeError::TwoPeople(refused)));
    }
    let applied = match decision {
        Decision::Approve => approve(db, &proposal, actor)?,
        Decision::Reject | Decision::Withdraw => Applied::default(),
    };
    let sql =
        "UPDATE proposals SET state = ?2, decided_by = ?3, decided = ?4, why = ?5, version = ?6
               WHERE id = ?1";
    let (state, now) = (decision.state().as_str(), actor.at.as_second());
    db.execute(sql, (id, state, actor.words(), now, why, applied.version))?;
    let proposal = one(db, id)?;
    Ok(Applied {
        proposal,
        ..applied
    })
}

/// The change itself, in its author's name and in the approver's.
fn approve(db: &Transaction<'_>, proposal: &Proposal, actor: &Actor) -> Outcome<Applied> {
    if proposal.stale {
        let id = proposal.id;
        return Err(Refused::Change(ChangeError::Outdated { id }));
    }
    let change = proposal
        .change()
        .map_err(|error| DatabaseError::Failed(error.into()))?;
    let both = Actor {
        name: format!("{}, approved by {}", proposal.author, actor.words()).into(),
        ..actor.clone()
    };
    let applied = make(db, &change, &both)?;
    if matches!(change, Change::SetRole { .. }) {
        two_can_approve(db)?;
    }
    Ok(applied)
}

/// Who answers for it; somebody whom nobody knows could be anybody.
fn known(actor: &Actor) -> Outcome<&str> {
    let person = actor.person.as_deref();
    person.ok_or(Refused::Change(ChangeError::TwoPeople(
        "nobody knows who made this token: make a new one",
    )))
}

/// What a draft is built on, as it is now.
fn basis(db: &Transaction<'_>, draft: &Draft) -> Result<(String, u64), DatabaseError> {
    let text = |sql: &str, name: &str| -> Result<String, DatabaseError> {
        let found: Option<String> = db.query_row(sql, [name], |row| row.get(0)).optional()?;
        Ok(found.unwrap_or_default())
    };
    let before = match draft.kind {
        ProposalKind::SavePolicy | ProposalKind::RemovePolicy => String::new(),
        ProposalKind::Assign => text(
            "SELECT policy FROM assignments WHERE server = ?1",
            &draft.subject,
        )?,
        ProposalKind::SetRole => text(
            "SELECT role FROM users WHERE lower(name) = ?1",
            &rows::folded(&draft.subject),
        )?,
        ProposalKind::EndRule => match rule_is_on(db)? {
            true => "on".to_owned(),
            false => "off".to_owned(),
        },
    };
    let version = match draft.policy() {
        Some(policy) => {
            let sql = "SELECT version FROM policies WHERE name = ?1 AND removed = 0";
            let found: Option<u64> = db.query_row(sql, [policy], |row| row.get(0)).optional()?;
            found.unwrap_or(0)
        }
        None => 0,
    };
    Ok((before, version))
}

pub(super) fn one(db: &Transaction<'_>, id: u64) -> Result<Option<Proposal>, DatabaseError> {
    let Ok(id) = i64::try_from(id) else {
        return Ok(None);
    };
    let found = db
        .query_row(rows::ONE_PROPOSAL, [id], rows::proposal)
        .optional()?;
    found.map(|found| dated(db, found)).transpose()
}

pub(super) fn some(
    db: &Transaction<'_>,
    pending: bool,
    before: u64,
    most: u32,
) -> Result<Vec<Proposal>, DatabaseError> {
    let found = db.query_all(rows::PROPOSALS, (pending, before, most), rows::proposal)?;
    let dated = found.into_iter().map(|found| dated(db, found));
    dated.collect()
}

fn dated(db: &Transaction<'_>, mut found: Proposal) -> Result<Proposal, DatabaseError> {
    if found.state == ProposalState::Pending {
        let (before, version) = basis(db, &found.draft)?;
        found.stale = before != found.before || version != found.built_on;
    }
    Ok(found)
}

/// More than people look through; a bound on what a program with a token can pile up.
const MOST_PENDING: u32 = 200;
