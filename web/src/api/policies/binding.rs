//! Who lets a secret go where it did not go before: whoever manages secrets, or two people.
//!
//! A version that names a secret at a target sends its value there, to whoever runs that host. Who writes policies
//! changes what else is allowed, also beside a secret; where the secret goes is as it was in some policy, be it in
//! force anywhere or not. Promises that a version which cannot be compared is not written. What vouches for a version
//! is looked at again in the change that writes it.

use std::{collections::HashMap, sync::Arc};

use gig_policy::SecretWay;
use parking_lot::Mutex;

use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    document,
    role::{Permission, Role},
    store::{PolicyHead, PolicyVersion, Vouched},
};

/// Refuses a version of policy `name` by which a secret goes on a way on which no policy lets it go now, from who manages
/// none; where policies are changed by two people, the second one sees it.
pub(super) async fn guard(
    app: &App,
    caller: &Caller,
    (name, text): (&str, &str),
) -> Result<Vouched, Problem> {
    if caller.may(Permission::ManageSecrets) {
        return Ok(Vouched::Freely);
    }
    if app.ask(|store| store.two_person_rule()).await? {
        return Ok(Vouched::ByTwo);
    }
    let (store, ways) = (Arc::clone(&app.store), Arc::clone(&app.ways));
    let (name, text) = (name.to_owned(), text.to_owned());
    let judged = app.aside(move || {
        let written = document::compile(&name, 0, &text, None).map_err(Problem::document)?;
        let (mut fresh, mut by) = (written.secret_ways(), Vec::new());
        if fresh.is_empty() {
            return Ok((fresh, by));
        }
        let mut heads = store.policies().map_err(Problem::store)?;
        ways.keep(&heads);
        // The policy itself most often; then one after the other: a document may be long.
        heads.sort_by_key(|head| head.name != name);
        for head in heads {
            let read = || store.policy(&head.name, Some(head.version));
            let known = ways.of(&head, || read().map_err(Problem::store))?;
            let before = fresh.len();
            fresh.retain(|way| !known.iter().any(|known| way.is_within(known)));
            if fresh.len() < before {
                by.push((head.name, head.version));
            }
            if fresh.is_empty() {
                break;
            }
        }
        Ok::<_, Problem>((fresh, by))
    });
    let (fresh, by) = judged.await??;
    let least = Role::least(Permission::ManageSecrets);
    match fresh.first() {
        None => Ok(Vouched::By(by)),
        Some(way) => Err(Problem::forbidden(format!(
            "this lets {way} where no policy lets it go, or not so openly, or not for so long: somebody who manages \
             secrets (the role {least}) writes that; or turn the two-person rule on, and propose it"
        ))
        .taking(least)),
    }
}

/// Where the newest versions of policies let secrets go: a version does not change, so that whoever asks again and again
/// has nothing compiled anew.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    known: Mutex<HashMap<Version, Known>>,
}

/// Of which policy.
type Version = (String, u64);
type Known = Arc<[SecretWay]>;

impl Ways {
    /// Forgets all but those of these.
    fn keep(&self, heads: &[PolicyHead]) {
        let newest: HashMap<&str, u64> = heads
            .iter()
            .map(|head| (head.name.as_str(), head.version))
            .collect();
        let mut known = self.known.lock();
        known.retain(|(name, version), _| newest.get(name.as_str()) == Some(version));
    }

    /// Those of one; what ended has its end, and what cannot be compiled any more lets nothing go.
    fn of(
        &self,
        head: &PolicyHead,
        read: impl FnOnce() -> Result<Option<PolicyVersion>, Problem>,
    ) -> Result<Known, Problem> {
        let key = (head.name.clone(), head.version);
        if let Some(known) = self.known.lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let compiled = read()?.and_then(|kept| {
            let compiled = document::compile(&head.name, 0, &kept.document, None);
            compiled.ok().map(|policy| policy.secret_ways())
        });
        let ways: Known = compiled.unwrap_or_default().into();
        let mut known = self.known.lock();
        if known.values().map(|ways| ways.len()).sum::<usize>() + ways.len() <= MOST_KEPT {
            known.insert(key, Arc::clone(&ways));
        }
        Ok(ways)
    }
}

/// Of all policies together: some ten megabytes.
const MOST_KEPT: usize = 50_000;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{
        app::tests::{Lab, saved},
        store::Store as _,
    };

    #[test]
    fn a_version_is_compiled_once_however_often_it_is_compared_with() {
        let lab = Lab::new();
        lab.make(&saved("p"));
        let (ways, read) = (Ways::default(), Cell::new(0));
        let head = |at: usize| lab.store.policies().unwrap().remove(at);
        let of = |head: &PolicyHead| {
            let kept = || {
                read.set(read.get() + 1);
                lab.store
                    .policy(&head.name, Some(head.version))
                    .map_err(Problem::store)
            };
            ways.of(head, kept).unwrap();
        };
        for _ in 0..3 {
            ways.keep(&[head(0)]);
            of(&head(0));
        }
        assert_eq!(read.get(), 1);
        lab.make(&saved("p"));
        ways.keep(&[head(0)]);
        assert!(ways.known.lock().is_empty(), "another version");
        of(&head(0));
        assert_eq!(read.get(), 2);
    }
}
