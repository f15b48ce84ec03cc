//! How much one person writes: so many octets of documents a day, so many policies in all.
//!
//! Versions are never removed, nor are proposals; the record is on the same disk, and without it nothing is let out. So
//! nobody but this machine's owner writes without end, and what nobody approved is not kept for ever.

use super::{
    Actor, Change, ChangeError, ProposalKind, Standing,
    changes::Outcome,
    tables::{Refused, Transaction},
};

/// Counts what a change writes, in its transaction: what is refused is not counted.
pub(super) fn charge(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome {
    let (Change::SavePolicy { name, document, .. } | Change::SaveFor { name, document, .. }) =
        change
    else {
        return Ok(());
    };
    let day = actor.at.as_second().div_euclid(DAY);
    room(db, name.as_str())?;
    forget(db, actor)?;
    if actor.owner {
        return Ok(());
    }
    let person = match (actor.person.as_deref(), &actor.standing) {
        // Of tokens that this machine's owner made each is somebody's own.
        (None | Some(Actor::OWNER), Standing::Token { id, .. }) => format!("token {id}"),
        (Some(person), _) => person.to_ascii_lowercase(),
        (None, _) => actor.name.to_ascii_lowercase(),
    };
    let octets = u64::try_from(document.len()).unwrap_or(u64::MAX);
    db.execute("DELETE FROM written WHERE day < ?1", [day])?;
    let sql = "INSERT INTO written (person, day, octets) VALUES (?1, ?2, ?3)
               ON CONFLICT (person, day) DO UPDATE SET octets = written.octets + ?3";
    db.execute(sql, (&person, day, octets))?;
    let sql = "SELECT octets FROM written WHERE person = ?1 AND day = ?2";
    let written: u64 = db.query_row(sql, (&person, day), |row| row.get(0))?;
    if written > MOST_A_DAY {
        let most = MOST_A_DAY / (1024 * 1024);
        let left = DAY - actor.at.as_second().rem_euclid(DAY);
        let left = u64::try_from(left).unwrap_or_default();
        return Err(Refused::Change(ChangeError::TooMuch { most, left }));
    }
    Ok(())
}

/// Forgets documents of proposals that became nothing long ago: whenever a policy is written or a proposal decided on,
/// by whomever.
pub(super) fn forget(db: &Transaction<'_>, actor: &Actor) -> Outcome {
    let sql =
        "UPDATE proposals SET value = '' WHERE state IN ('withdrawn', 'rejected') AND decided < ?1
               AND value <> '' AND kind IN (?2, ?3)";
    let kinds = (ProposalKind::SavePolicy, ProposalKind::SaveFor);
    let old = actor.at.as_second() - KEPT;
    db.execute(sql, (old, kinds.0.as_str(), kinds.1.as_str()))?;
    Ok(())
}

/// The same for a change that was counted when it was proposed: there may be as many policies by now.
pub(super) fn still_room(db: &Transaction<'_>, change: &Change) -> Outcome {
    match change {
        Change::SavePolicy { name, .. } | Change::SaveFor { name, .. } => room(db, name.as_str()),
        _ => Ok(()),
    }
}

/// Refuses one policy more than there may be; a version of one that is there is none more.
fn room(db: &Transaction<'_>, name: &str) -> Outcome {
    let sql = "SELECT count(*) > 0 FROM policies WHERE removed = 0 AND name = ?1";
    if db.query_row(sql, [name], |row| row.get(0))? {
        return Ok(());
    }
    let sql = "SELECT count(*) FROM policies WHERE removed = 0";
    let all: u32 = db.query_row(sql, (), |row| row.get(0))?;
    if all >= MOST_POLICIES {
        let (what, most) = ("policies", MOST_POLICIES);
        return Err(Refused::Change(ChangeError::Full { what, most }));
    }
    Ok(())
}

const DAY: i64 = 24 * 3600;
/// Thirty-two of the longest documents: more than anybody edits.
pub(super) const MOST_A_DAY: u64 = 256 * 1024 * 1024;
/// One for each person of a large company.
pub(super) const MOST_POLICIES: u32 = 2000;
/// Seconds that the document of a proposal is kept that was withdrawn or rejected.
const KEPT: i64 = 30 * DAY;

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::store::{
        PostgresStore, SqliteStore, Store, tables::Tables, tests::server::Database,
    };

    fn actor(name: &str, day: i64) -> Actor {
        Actor {
            request: None,
            once: None,
            name: format!("token of {name}").into(),
            person: Some(name.into()),
            owner: name == Actor::OWNER,
            standing: Standing::Itself,
            address: None,
            at: Timestamp::from_second(1_800_000_000 + day * DAY).unwrap(),
        }
    }

    fn saved(name: &str, octets: usize) -> Change {
        Change::SavePolicy {
            name: name.parse().unwrap(),
            expected: None,
            document: "x".repeat(octets),
            reason: String::new(),
            secrets: crate::store::Vouched::Freely,
        }
    }

    fn save(store: &impl Store, name: &str, actor: &Actor) -> Result<(), ChangeError> {
        let saved = store.apply(&saved(name, 1), actor, &|_| Ok(()));
        saved.map(drop)
    }

    fn nobody_writes_without_end(store: &(impl Tables + Store)) {
        let long = saved("p", 8 * 1024 * 1024);
        let charged = |actor: &Actor| store.change(false, |db| charge(db, &long, actor));
        for token in 0..32 {
            let mut ana = actor("Ana", 0);
            ana.name = format!("token {token}").into();
            charged(&ana).unwrap();
        }
        let too_much = |outcome| matches!(outcome, Err(ChangeError::TooMuch { most: 256, .. }));
        assert!(too_much(save(store, "p", &actor("ana", 0))));
        assert!(too_much(charged(&actor("ana", 0))));
        assert!(store.policies().unwrap().is_empty());
        for (who, day) in [("ben", 0), (Actor::OWNER, 0), ("ana", 1)] {
            save(store, "p", &actor(who, day)).unwrap();
        }
        let many = |db: &Transaction<'_>| {
            // More than may be: of before there was a bound.
            for number in 1..MOST_POLICIES + 5 {
                let sql = "INSERT INTO policies (name, version) VALUES (?1, 1)";
                db.execute(sql, [format!("n{number}")])?;
            }
            Ok(())
        };
        store.change(false, many).unwrap();
        let full = save(store, "q", &actor("ben", 0));
        assert!(matches!(full, Err(ChangeError::Full { .. })), "{full:?}");
        save(store, "p", &actor("ben", 0)).unwrap();
        let waits = |db: &Transaction<'_>| still_room(db, &saved("q", 1));
        let full = store.change(false, waits);
        assert!(matches!(full, Err(ChangeError::Full { .. })), "{full:?}");
        // Tokens that this machine's owner made do not share what one of them writes.
        let token = |id: &str| Actor {
            owner: false,
            standing: Standing::Token {
                id: id.into(),
                role: crate::role::Role::Editor,
            },
            ..actor(Actor::OWNER, 3)
        };
        for _ in 0..32 {
            charged(&token("one")).unwrap_or_else(|_| panic!("of one"));
        }
        assert!(too_much(charged(&token("one"))));
        charged(&token("two")).unwrap();
    }

    fn what_became_nothing_is_forgotten(store: &(impl Tables + Store)) {
        let kind = ProposalKind::SavePolicy.as_str();
        let put = |id: u64, state: &str, decided: Option<i64>| {
            store
                .change(false, |db| {
                    let sql = "INSERT INTO proposals (id, kind, subject, value, before, built_on, basis, reason,
                                      author, person, created, state, decided, decided_by)
                               VALUES (?1, ?2, 'p', 'document', '', 0, '', '', 'ana', 'ana', 0, ?3, ?4, 'cem')";
                    Ok(db.execute(sql, (id, kind, state, decided))?)
                })
                .unwrap_or_else(|error| panic!("{error}"));
        };
        let at = |day: i64| actor("ben", day).at.as_second();
        let forgotten = |id| store.proposal(id).unwrap().unwrap().is_forgotten();
        put(1, "withdrawn", Some(at(0)));
        save(store, "p", &actor(Actor::OWNER, 29)).unwrap();
        assert!(!forgotten(1));
        save(store, "p", &actor(Actor::OWNER, 31)).unwrap();
        assert!(forgotten(1));
        put(2, "rejected", Some(at(31)));
        put(3, "pending", None);
        let reject = Change::Decide {
            id: 3,
            decision: crate::store::Decision::Reject,
            why: String::new(),
        };
        let rejected = store.apply(&reject, &actor("ben", 62), &|_| Ok(()));
        assert!(rejected.is_ok() && forgotten(2) && !forgotten(3));
    }

    #[test]
    fn a_proposal_that_became_nothing_keeps_its_document_for_a_month() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gig.db");
        what_became_nothing_is_forgotten(&SqliteStore::open(&path).unwrap());
        let database = Database::fresh();
        what_became_nothing_is_forgotten(&PostgresStore::open(&database.url()).unwrap());
    }

    #[test]
    fn nobody_writes_documents_or_policies_without_end() {
        let folder = tempfile::tempdir().unwrap();
        nobody_writes_without_end(&SqliteStore::open(&folder.path().join("gig.db")).unwrap());
        let database = Database::fresh();
        nobody_writes_without_end(&PostgresStore::open(&database.url()).unwrap());
    }
}
