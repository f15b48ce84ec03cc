//! The two-person rule as statements of the same transaction: which changes become proposals, and what
//! deciding on one makes.
//!
//! Every change comes through [`apply`], so that no door leads past the rule. What is proposed is tried
//! first and undone again: what could not be made is refused to its author, not to who approves.

use super::{
    Actor, Applied, Assignment, Change, ChangeError, Decision, Draft, Place, Proposal,
    ProposalKind, ProposalState, alone,
    changes::{self, Outcome, make},
    name, rows, standing,
    tables::{DatabaseError, OptionalExtension as _, Refused, Transaction},
    teams, vouched, written,
};
use crate::{credential::Digest, role::Permission};

/// Makes a change, or a proposal of it.
pub(super) fn apply(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome<Applied> {
    standing::holds(db, actor)?;
    if let Change::Decide { id, decision, why } = change {
        written::forget(db, actor)?;
        return decide(db, *id, (*decision, why), actor);
    }
    written::charge(db, change, actor)?;
    if !rule_is_on(db)? {
        vouched::still(db, change)?;
        let applied = make(db, change, actor)?;
        if matches!(change, Change::TwoPersonRule { on: true }) && alone::approvers(db)? < 2 {
            return Err(alone::too_few());
        }
        return Ok(applied);
    }
    let draft = Draft::of(change);
    let forbidden = alone::forbidden(db, change, actor)?;
    let before = alone::approvers(db)?;
    let needs_two = draft.is_some() || forbidden.is_some();
    if actor.owner && needs_two {
        let applied = make(db, change, actor)?;
        if matches!(change, Change::SetRole { .. }) {
            alone::keep_two(db, before)?;
        }
        let passed = true;
        return Ok(Applied { passed, ..applied });
    }
    match (draft, forbidden) {
        (_, Some(why)) => Err(alone::refused(why)),
        (Some(draft), None) => propose(db, draft, change, actor),
        (None, None) => {
            let applied = make(db, change, actor)?;
            if matches!(change, Change::SetRole { .. } | Change::RemoveUser { .. }) {
                alone::keep_two(db, before)?;
            }
            Ok(applied)
        }
    }
}

pub(super) fn rule_is_on(db: &Transaction<'_>) -> Result<bool, DatabaseError> {
    let sql = "SELECT count(*) > 0 FROM settings WHERE name = 'two_person_rule' AND value = 'on'";
    db.query_row(sql, (), |row| row.get(0))
}

pub(super) fn set_rule(db: &Transaction<'_>, on: bool, actor: &Actor) -> Result<(), DatabaseError> {
    db.execute("DELETE FROM settings WHERE name = 'two_person_rule'", ())?;
    if on {
        let sql = "INSERT INTO settings (name, value) VALUES ('two_person_rule', 'on')";
        db.execute(sql, ())?;
        return Ok(());
    }
    // They have what they asked for; left, they would end a rule that is turned on later.
    let sql = "UPDATE proposals SET state = 'withdrawn', decided_by = ?1, decided = ?2,
               why = 'the rule has ended' WHERE state = 'pending' AND kind = ?3";
    let kind = ProposalKind::EndRule.as_str();
    let values = (actor.words(), actor.at.as_second(), kind);
    db.execute(sql, values)?;
    Ok(())
}

/// What somebody asked for who is removed waits no longer: whoever has the name next asked for nothing.
pub(super) fn withdraw_of(db: &Transaction<'_>, person: &str, actor: &Actor) -> Outcome {
    let sql = "UPDATE proposals SET state = 'withdrawn', decided_by = ?1, decided = ?2,
               why = 'its author was removed' WHERE state = 'pending' AND lower(person) = lower(?3)";
    db.execute(sql, (actor.words(), actor.at.as_second(), person))?;
    Ok(())
}

fn propose(db: &Transaction<'_>, draft: Draft, change: &Change, actor: &Actor) -> Outcome<Applied> {
    let person = alone::themselves(db, actor)?;
    let Basis {
        before,
        built_on,
        digest,
    } = basis(db, &draft)?;
    db.execute_batch("SAVEPOINT trial")?;
    make(db, change, actor)?;
    db.execute_batch("ROLLBACK TO trial; RELEASE trial")?;
    let (kind, now) = (draft.kind.as_str(), actor.at.as_second());
    let newest = "SELECT coalesce(max(id), 0) FROM proposals";
    let id: u64 = db.query_row(newest, (), |row| row.get(0))?;
    let id = id + 1;
    let sql = "SELECT id FROM proposals
               WHERE state = 'pending' AND kind = ?1 AND subject = ?2 AND lower(person) = lower(?3)
               ORDER BY id DESC LIMIT 1";
    let replaced = db.query_row(sql, (kind, &draft.subject, &person), |row| row.get(0));
    let replaced: Option<u64> = replaced.optional()?;
    let sql = "UPDATE proposals SET state = 'withdrawn', decided_by = ?1, decided = ?2, why = ?3
               WHERE state = 'pending' AND kind = ?4 AND subject = ?5 AND lower(person) = lower(?6)";
    let why = format!("proposal {id} in its place");
    let values = (actor.words(), now, why, kind, &draft.subject, &person);
    db.execute(sql, values)?;
    if draft.kind != ProposalKind::EndRule {
        room(db, &person)?;
    }
    let reason = match change {
        Change::SavePolicy { reason, .. } | Change::SaveFor { reason, .. } => reason.as_str(),
        _ => "",
    };
    let sql =
        "INSERT INTO proposals (id, kind, subject, value, before, built_on, basis, reason, author,
               person, created, state)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'pending')";
    let (subject, value) = (&draft.subject, &draft.value);
    let author = &*actor.name;
    db.execute(
        sql,
        (
            id, kind, subject, value, before, built_on, digest, reason, author, person, now,
        ),
    )?;
    let proposal = one(db, id)?;
    Ok(Applied {
        proposal,
        replaced,
        ..Applied::default()
    })
}

/// Refuses more than people look through; one who fills the places leaves some to others.
fn room(db: &Transaction<'_>, person: &str) -> Outcome {
    let waiting = "SELECT count(*) FROM proposals WHERE state = 'pending'";
    let waiting: u32 = db.query_row(waiting, (), |row| row.get(0))?;
    let own =
        "SELECT count(*) FROM proposals WHERE state = 'pending' AND lower(person) = lower(?1)";
    let own: u32 = db.query_row(own, [person], |row| row.get(0))?;
    if waiting < MOST_PENDING && own < MOST_OF_ONE {
        return Ok(());
    }
    Err(alone::refused(
        "too many proposals wait: withdraw some of yours, or let somebody decide on some of them",
    ))
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
    alone::known(actor)?;
    let refused = match (decision, actor.is(&proposal.person)) {
        (Decision::Approve | Decision::Reject, true) => {
            Some("somebody else than the author decides on a proposal; the author can withdraw it")
        }
        (Decision::Withdraw, false) => Some("a proposal is withdrawn by its author: reject it"),
        _ => None,
    };
    if let Some(refused) = refused {
        return Err(alone::refused(refused));
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
    let person = alone::themselves(db, actor)?;
    if alone::are_alike(db, (&person, &proposal.person))? {
        return Err(alone::refused(
            "your account and its author's look like one person's, who signs in in two ways: somebody else approves, \
             or an admin removes one of both accounts",
        ));
    }
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
    written::still_room(db, &change)?;
    let before = alone::approvers(db)?;
    if let Some(why) = alone::forbidden(db, &change, actor)?.filter(|_| !actor.owner) {
        return Err(alone::refused(why));
    }
    let applied = make(db, &change, &both)?;
    if matches!(change, Change::SetRole { .. }) {
        alone::keep_two(db, before)?;
    }
    // Whoever is this machine's owner could be the author as well.
    let passed = actor.owner;
    Ok(Applied { passed, ..applied })
}

/// What a draft is built on.
#[derive(PartialEq, Eq)]
struct Basis {
    before: String,
    built_on: u64,
    digest: String,
}

/// As it is now.
fn basis(db: &Transaction<'_>, draft: &Draft) -> Result<Basis, DatabaseError> {
    let text = |sql: &str, name: &str| -> Result<String, DatabaseError> {
        let found: Option<String> = db.query_row(sql, [name], |row| row.get(0)).optional()?;
        Ok(found.unwrap_or_default())
    };
    let place = draft.place().unwrap_or(Place::All);
    let of_place = |table: &str| -> Result<String, DatabaseError> {
        let sql = format!("SELECT policy FROM {table} WHERE scope = ?1 AND subject = ?2");
        let found = db.query_row(&sql, [place.scope(), place.subject()], |row| row.get(0));
        Ok(found.optional()?.unwrap_or_default())
    };
    let before = match draft.kind {
        ProposalKind::SavePolicy | ProposalKind::RemovePolicy => String::new(),
        ProposalKind::Assign | ProposalKind::SaveFor => of_place("assignments")?,
        ProposalKind::SetFloor => of_place("floors")?,
        ProposalKind::SaveTeam | ProposalKind::RemoveTeam => members(db, &draft.subject)?,
        ProposalKind::SetRole => text(
            "SELECT role FROM users WHERE lower(name) = ?1",
            &name::folded(&draft.subject),
        )?,
        ProposalKind::EndRule => match rule_is_on(db)? {
            true => "on".to_owned(),
            false => "off".to_owned(),
        },
    };
    let digest = match draft.kind {
        ProposalKind::SetRole => {
            // Another account of that name, or one that somebody else can sign in to, is not the same.
            let user = db.query_row(rows::ONE_USER, [name::folded(&draft.subject)], rows::user);
            let user = user.optional()?;
            user.map(|user| format!("{} {}", user.created.as_second(), user.password))
        }
        ProposalKind::Assign | ProposalKind::SaveFor => of_whom(db, &place)?,
        // What they come to have by it, or are no longer bound by.
        ProposalKind::SaveTeam | ProposalKind::RemoveTeam => {
            let team = Place::Team(draft.subject.clone());
            let mut all = String::new();
            for table in ["assignments", "floors"] {
                let sql = format!(
                    "SELECT scope, subject, policy FROM {table} WHERE scope = ?1 AND subject = ?2"
                );
                let values = [team.scope(), team.subject()];
                let found = db.query_all(&sql, values, rows::assignment)?;
                all += &format!("{table} {}\n", Assignment::tag(&found));
            }
            let named: Vec<&str> = draft.value.split_whitespace().collect();
            Some(all + &accounts(db, &named)?)
        }
        ProposalKind::SetFloor => match &place {
            Place::Team(name) => Some(members(db, name)?),
            Place::Profile(name) => Some(accounts(db, &[name])?),
            Place::Server(_) | Place::All => None,
        },
        ProposalKind::SavePolicy | ProposalKind::RemovePolicy | ProposalKind::EndRule => None,
    };
    let digest = digest.map(|text| Digest::of(&text).words());
    let built_on = match draft.policy() {
        Some(policy) => {
            let sql = "SELECT version FROM policies WHERE name = ?1 AND removed = 0";
            let found: Option<u64> = db.query_row(sql, [policy], |row| row.get(0)).optional()?;
            found.unwrap_or(0)
        }
        None => 0,
    };
    Ok(Basis {
        before,
        built_on,
        digest: digest.unwrap_or_default(),
    })
}

/// Whom it concerns that something is assigned to a place: the server, whole, or the team's members.
fn of_whom(db: &Transaction<'_>, place: &Place) -> Result<Option<String>, DatabaseError> {
    Ok(match place {
        Place::Server(name) => match alone::spec_of(db, name)? {
            Some(spec) => Some(
                serde_json::to_string(&spec)
                    .map_err(|error| DatabaseError::Failed(error.into()))?,
            ),
            None => None,
        },
        Place::Team(name) => Some(members(db, name)?),
        Place::Profile(name) => Some(accounts(db, &[name])?),
        Place::All => None,
    })
}

/// Which account each of these names is: another one of the same name is somebody else. A name without one is
/// that of somebody whom a gateway knows.
fn accounts(db: &Transaction<'_>, named: &[&str]) -> Result<String, DatabaseError> {
    let all = "SELECT name, created FROM users ORDER BY lower(name)";
    let all = db.query_all(all, (), |row| {
        Ok((row.get::<String>(0)?, row.get::<i64>(1)?))
    })?;
    let of = |(name, created): (String, i64)| {
        let name = name::folded(&name);
        named
            .contains(&name.as_str())
            .then(|| format!("{name} since {created}\n"))
    };
    Ok(all.into_iter().filter_map(of).collect())
}

/// Of a team, in words; empty where it is not there, too.
fn members(db: &Transaction<'_>, team: &str) -> Result<String, DatabaseError> {
    let team = teams::one(db, team)?;
    Ok(team.map(|team| team.members.join(" ")).unwrap_or_default())
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

/// What this person proposed for a policy (and a server) that waits and could be approved still: what they propose next takes
/// its place. Of a token's, or of theirs beside a token's, nothing goes on under the other name.
pub(super) fn own(
    db: &Transaction<'_>,
    actor: &Actor,
    (policy, server): (&str, Option<&str>),
) -> Result<Option<Proposal>, DatabaseError> {
    if !rule_is_on(db)? {
        return Ok(None);
    }
    let person = match alone::themselves(db, actor) {
        Ok(person) => person,
        // Who may propose nothing is told so when they do.
        Err(Refused::Change(_)) => return Ok(None),
        Err(Refused::Database(error)) => return Err(error),
    };
    let (kind, subject) = Draft::written(policy, server);
    let sql = "SELECT id FROM proposals
               WHERE state = 'pending' AND kind = ?1 AND subject = ?2 AND lower(person) = lower(?3) AND author = ?4
               ORDER BY id DESC LIMIT 1";
    let whose = (kind.as_str(), &subject, &person, &*actor.name);
    let id = db.query_row(sql, whose, |row| row.get(0));
    let Some(id) = id.optional()? else {
        return Ok(None);
    };
    Ok(one(db, id)?.filter(|found| !found.stale))
}

pub(super) fn some(
    db: &Transaction<'_>,
    pending: bool,
    before: u64,
    most: u32,
) -> Result<Vec<Proposal>, DatabaseError> {
    let sql = match pending {
        true => rows::PENDING,
        false => rows::DECIDED,
    };
    let found = db.query_all(sql, (before, most), rows::proposal)?;
    let dated = found.into_iter().map(|found| dated(db, found));
    dated.collect()
}

fn dated(db: &Transaction<'_>, mut found: Proposal) -> Result<Proposal, DatabaseError> {
    if found.state == ProposalState::Pending {
        let built = Basis {
            before: found.before.clone(),
            built_on: found.built_on,
            digest: found.basis.clone(),
        };
        let right = needed(db, &found.draft)?;
        found.stale =
            basis(db, &found.draft)? != built || !standing::may(db, &found.person, right)?;
    }
    Ok(found)
}

/// What its author must still be allowed.
fn needed(db: &Transaction<'_>, draft: &Draft) -> Result<Permission, DatabaseError> {
    Ok(match draft.kind {
        // It may have become a floor since.
        ProposalKind::SavePolicy | ProposalKind::SaveFor | ProposalKind::RemovePolicy => {
            let sql = "SELECT count(*) > 0 FROM floors WHERE policy = ?1";
            let policy = draft.policy().unwrap_or_default();
            match db.query_row(sql, [policy], |row| row.get(0))? {
                true => Permission::SetFloors,
                false => Permission::EditPolicies,
            }
        }
        ProposalKind::Assign => Permission::AssignPolicies,
        ProposalKind::SetFloor => Permission::SetFloors,
        ProposalKind::SaveTeam | ProposalKind::RemoveTeam => Permission::ManageTeams,
        ProposalKind::SetRole => Permission::ManageUsers,
        ProposalKind::EndRule => Permission::RuleChanges,
    })
}

/// More than people look through; a bound on what a program with a token can pile up.
const MOST_PENDING: u32 = 200;
/// Of one person.
const MOST_OF_ONE: u32 = 50;
