//! All rows of one store to another: how what a fleet's PostgreSQL keeps comes into a file, and back.
//!
//! Rows go as they are: sealed, and with the ids of the keys that open them. Both sides are of one moment.

use super::{Change, CommitError, Snapshot, Store};

/// Puts everything that is in `from` into `to`. False, and nothing is changed, when something is there
/// that is not to be replaced.
///
/// # Errors
/// When one of them fails, or others change `to` without a pause.
pub fn fill(to: &dyn Store, from: &dyn Store, replace: bool) -> Result<bool, CommitError> {
    put(to, &from.snapshot()?, replace)
}

/// Removes everything: rows and the keys that they name.
///
/// # Errors
/// As [`fill`].
pub fn empty(store: &dyn Store) -> Result<(), CommitError> {
    put(store, &Snapshot::default(), true).map(drop)
}

/// Again where somebody else was first.
fn put(to: &dyn Store, from: &Snapshot, replace: bool) -> Result<bool, CommitError> {
    for _ in 1..TRIES {
        match put_once(to, from, replace) {
            Err(CommitError::Overtaken) => {}
            done => return done,
        }
    }
    put_once(to, from, replace)
}

fn put_once(to: &dyn Store, from: &Snapshot, replace: bool) -> Result<bool, CommitError> {
    let there = to.snapshot()?;
    if !there.is_empty() && !replace {
        return Ok(false);
    }
    let changes: Vec<Change> = removals(&there).chain(additions(from)).collect();
    if !changes.is_empty() {
        to.commit(there.generation, &changes)?;
    }
    Ok(true)
}

fn removals(there: &Snapshot) -> impl Iterator<Item = Change> + '_ {
    let secrets = there.secrets.iter().map(|row| Change::DeleteSecret {
        owner: row.owner.clone(),
        name: row.name.clone(),
    });
    // One whose secret is gone has nobody else to go with.
    let versions = there.versions.iter().map(|row| Change::DeleteVersion {
        owner: row.owner.clone(),
        name: row.name.clone(),
        version: row.version,
    });
    let custodies = there.custodies.iter().map(|row| Change::DeleteCustody {
        owner: row.owner.clone(),
    });
    let keys = there
        .keys
        .iter()
        .map(|row| Change::DeleteKey(row.id.clone()));
    secrets.chain(versions).chain(custodies).chain(keys)
}

fn additions(from: &Snapshot) -> impl Iterator<Item = Change> + '_ {
    let secrets = from.secrets.iter().cloned().map(Change::PutSecret);
    let versions = from.versions.iter().cloned().map(Change::PutVersion);
    let custodies = from.custodies.iter().cloned().map(Change::PutCustody);
    let keys = from.keys.iter().cloned().map(Change::PutKey);
    secrets.chain(versions).chain(custodies).chain(keys)
}

/// Commits of others that one's own may meet.
const TRIES: usize = 100;
