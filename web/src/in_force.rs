//! Which policy is in force for which server, as the store says it, and putting it so in what runs.
//!
//! A server's own assignment, else that of all servers, else one that denies everything; under the floors of
//! all and of the server, of which one that is gone or cannot be read allows nothing. A document that
//! this gig cannot read denies everything, too, and so does a server that was removed: its sandboxes get
//! nothing of what is meant for all others while they end. What is asked for many servers at once is read
//! once, and where the store fails nothing more is asked of it: each question could wait as long again.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    sync::Arc,
};

use gig_policy::{Policy, Reach};

use crate::{
    control::Control,
    document::compile,
    store::{Assignment, Network, PolicyVersion, Store, StoreError},
};

/// What the store says, read as it is asked for.
pub(crate) struct InForce<'a> {
    store: &'a dyn Store,
    servers: HashMap<String, Network>,
    assignments: Vec<Assignment>,
    floors: Vec<Assignment>,
    kept: HashMap<String, Option<PolicyVersion>>,
    compiled: HashMap<(String, Reach), Policy>,
}

impl<'a> InForce<'a> {
    /// Reads who is registered and what is assigned.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn read(store: &'a dyn Store) -> Result<Self, StoreError> {
        let servers = store.servers()?.into_iter();
        Ok(Self {
            servers: servers
                .map(|server| (server.name, server.spec.network))
                .collect(),
            assignments: store.assignments()?,
            floors: store.floors()?,
            store,
            kept: HashMap::new(),
            compiled: HashMap::new(),
        })
    }

    /// Whether a server is registered.
    pub(crate) fn knows(&self, server: &str) -> bool {
        self.servers.contains_key(server)
    }

    /// What is assigned to a server, by itself or with all others.
    pub(crate) fn name_for(&self, server: &str) -> Option<String> {
        assigned(&self.assignments, server)
    }

    /// The policy in force for `server`; each version is read and compiled once.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn of(&mut self, server: &str) -> Result<Policy, StoreError> {
        let Some(network) = self.servers.get(server) else {
            return Ok(Policy::deny_all("no longer registered"));
        };
        let reach = match network {
            Network::Local => Reach::Local,
            Network::External | Network::Disconnected => Reach::External,
        };
        let Some(name) = assigned(&self.assignments, server) else {
            return Ok(Policy::deny_all("nothing assigned"));
        };
        let policy = self.read_policy(name, reach)?;
        let floors = self.floors.iter();
        let above = floors.filter(|one| one.server.as_deref().is_none_or(|of| of == server));
        let above: Vec<String> = above.map(|one| one.policy.clone()).collect();
        let above = above.into_iter().map(|name| self.read_policy(name, reach));
        Ok(policy.under(above.collect::<Result<_, _>>()?))
    }

    /// One policy by itself.
    fn read_policy(&mut self, name: String, reach: Reach) -> Result<Policy, StoreError> {
        let key = (name.clone(), reach);
        if let Some(policy) = self.compiled.get(&key) {
            return Ok(policy.clone());
        }
        let kept = match self.kept.entry(name.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(self.store.policy(&name, None)?),
        };
        let policy = read_as(&name, kept.as_ref(), reach);
        self.compiled.insert(key, policy.clone());
        Ok(policy)
    }
}

/// The policy in force for `server`.
///
/// # Errors
/// When the store cannot be read.
pub fn effective(store: &dyn Store, server: &str) -> Result<Policy, StoreError> {
    InForce::read(store)?.of(server)
}

/// Its own, else that of all servers.
fn assigned(assignments: &[Assignment], server: &str) -> Option<String> {
    let of = |wanted: Option<&str>| {
        let found = assignments
            .iter()
            .find(|one| one.server.as_deref() == wanted);
        found.map(|one| one.policy.clone())
    };
    of(Some(server)).or_else(|| of(None))
}

fn read_as(name: &str, kept: Option<&PolicyVersion>, reach: Reach) -> Policy {
    let Some(kept) = kept else {
        return Policy::deny_all(name);
    };
    let compiled = compile(name, kept.head.version, &kept.document, Some(reach));
    compiled.unwrap_or_else(|problems| {
        let problem = problems.first().map(|problem| problem.message.as_str());
        tracing::error!(
            policy = name,
            problem,
            "a stored policy is not valid: it denies all"
        );
        Policy::deny_all(name)
    })
}

/// Puts what the store says in force in every sandbox that runs. Where the store cannot say, nothing is
/// allowed any more: what was before is what the change may have been made against. `None` when it could
/// not say for all of them, else what it said.
pub(crate) fn decide_again<'a>(store: &'a dyn Store, control: &dyn Control) -> Option<InForce<'a>> {
    let running = control.sandboxes().into_iter();
    let running = running.filter(|sandbox| sandbox.ended.is_none());
    let servers: BTreeSet<Arc<str>> = running.map(|sandbox| sandbox.server).collect();
    let mut said = InForce::read(store);
    for server in servers {
        let policy = match &mut said {
            Ok(known) => known.of(&server),
            Err(_) => Ok(Policy::deny_all(UNREADABLE)),
        };
        let policy = policy.unwrap_or_else(|error| {
            said = Err(error);
            Policy::deny_all(UNREADABLE)
        });
        control.set_policy(&server, policy);
    }
    match said {
        Ok(known) => Some(known),
        Err(error) => {
            tracing::error!(%error, "policies cannot be read: what asks for them is denied everything");
            None
        }
    }
}

/// Ends what runs of servers that are no longer registered.
pub(crate) fn end_unknown(said: &InForce<'_>, control: &dyn Control) {
    for sandbox in control.sandboxes() {
        if sandbox.ended.is_none() && !said.knows(&sandbox.server) {
            // One that ends by itself at this moment is what was wanted.
            let _ended = control.stop(sandbox.id);
        }
    }
}

/// What the record and the answer to a denied request name as the policy.
const UNREADABLE: &str = "policy not readable";

#[cfg(test)]
mod tests;
