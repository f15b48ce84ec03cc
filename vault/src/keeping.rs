//! The keeper of secrets for the border: values at hand, fetched once, renewed in time, watched for.
//!
//! A name's value comes from what the run was given (gig's own environment), or else from the vault.
//! Every question first asks the store whether something changed, so that a revocation takes effect
//! with the next request. A value that a provider or a kind gave is kept until its end and renewed
//! before it, by whoever asks then; all others go on with the old one. One that cannot be renewed is
//! used until its end, and no longer; a refusal ends it at once. What was begun is brought to its end,
//! whoever leaves meanwhile: a service may have taken the old value out of use already. A failure is
//! remembered for some seconds, one a secret. A value that its host says is not good any more is renewed before its time,
//! once in a while: a program can have a host say so as often as it likes.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use gig_policy::SecretName;
use jiff::Timestamp;
use parking_lot::Mutex;

mod flight;
mod guard;
mod making;
mod slot;

use self::{
    flight::Flights,
    guard::{Asked, Guard, Seen},
    slot::{Slot, Stamp},
};
use crate::{
    clock::Clock,
    definition::Definition,
    fetch::Fetch,
    keeper::{Guarded, Keeper, SecretFuture, SecretUnavailable},
    memory,
    secret::Secret,
    secret_bytes::SecretBytes,
    store::{Alone, VersionRow},
    vault::{RootId, UseVaultError, Vault, View},
};

/// Keeps the secrets of one run.
#[derive(Debug)]
pub struct RunKeeper(Arc<Kept>);

/// What is kept; shared with what fetches.
#[derive(Debug)]
struct Kept {
    given: HashMap<SecretName, Arc<SecretBytes>>,
    vault: Option<Arc<Vault>>,
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    slots: Mutex<HashMap<SecretName, Arc<Slot>>>,
    guard: Guard,
    flights: Arc<Flights>,
    /// Of [`Guarded`].
    generation: AtomicU64,
}

/// What a keeper is made of.
#[derive(Debug)]
pub struct RunKeeperBuilder {
    given: HashMap<SecretName, Arc<SecretBytes>>,
    vault: Option<Arc<Vault>>,
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
}

impl RunKeeperBuilder {
    /// Takes a value for a name; it goes before the vault's.
    #[must_use]
    pub fn give(mut self, name: SecretName, value: SecretBytes) -> Self {
        self.given.insert(name, Arc::new(value));
        self
    }

    /// Looks up in this vault what was not given.
    #[must_use]
    pub fn vault(mut self, vault: Arc<Vault>) -> Self {
        self.vault = Some(vault);
        self
    }

    /// The keeper. Nothing is fetched yet.
    ///
    /// # Errors
    /// When memory cannot be locked, or the vault cannot be read.
    pub fn build(self) -> Result<RunKeeper, UseVaultError> {
        memory::locked()?;
        if let Some(vault) = &self.vault {
            vault.view()?;
        }
        Ok(RunKeeper(Arc::new(Kept {
            given: self.given,
            vault: self.vault,
            fetch: self.fetch,
            clock: self.clock,
            slots: Mutex::new(HashMap::new()),
            guard: Guard::default(),
            flights: Arc::default(),
            generation: AtomicU64::new(0),
        })))
    }
}

/// A secret as it is defined now, with what is stored of it.
#[derive(Debug)]
struct Defined {
    definition: Definition,
    stamp: Stamp,
    /// Of the stored value; 0 where a provider has it.
    version: u64,
    /// The stored value itself; `None` where a provider has it.
    own: Option<RootId>,
    value: Option<SecretBytes>,
    until: Option<Timestamp>,
}

impl RunKeeper {
    /// Begins to make one.
    #[must_use]
    pub fn builder(fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>) -> RunKeeperBuilder {
        RunKeeperBuilder {
            given: HashMap::new(),
            vault: None,
            fetch,
            clock,
        }
    }

    /// Waits until nothing is being fetched or minted any more, `within` at most: what a service gave in
    /// a stored value's place is stored by then. Tells whether all came to its end. Blocks. From now on nobody
    /// is asked for a value; what replaces nothing that is stored is given up, and who waits to ask too.
    pub fn settle(&self, within: Duration) -> bool {
        self.0.flights.end();
        self.landed(within)
    }

    /// Waits until nothing is being fetched or minted, `within` at most, and goes on as before. Tells whether it
    /// came to that. Blocks.
    pub fn landed(&self, within: Duration) -> bool {
        self.0.flights.landed(within)
    }
}

impl Kept {
    /// The secret's definition and stored value as they are now.
    fn defined(&self, name: &SecretName) -> Result<Defined, SecretUnavailable> {
        if let Some(value) = self.given.get(name) {
            return Ok(Defined {
                definition: Definition {
                    shape: crate::ShapeDefinition::guessed(value.expose()),
                    ..Definition::default()
                },
                stamp: Stamp::given(),
                version: 1,
                own: None,
                value: Some(value.duplicate()),
                until: None,
            });
        }
        let unknown = || SecretUnavailable::Unknown { name: name.clone() };
        let vault = self.vault.as_ref().ok_or_else(unknown)?;
        let failed = |error: UseVaultError| unavailable(name, "the vault", &error.to_string());
        let view = vault.view().map_err(failed)?;
        let secret = view.secret(name.as_str()).map_err(failed)?;
        let (row, definition) = secret.ok_or_else(unknown)?;
        if let Some(at) = row.removed {
            return Err(SecretUnavailable::Removed {
                name: name.clone(),
                at: Timestamp::from_second(at).unwrap_or(Timestamp::MAX),
            });
        }
        let tag = row.tag.clone();
        if definition.provider.provider().is_some() {
            return Ok(Defined {
                definition,
                stamp: Stamp::provided(tag),
                version: 0,
                own: None,
                value: None,
                until: None,
            });
        }
        let now = self.clock.now();
        let version = view
            .current(name.as_str(), now)
            .ok_or_else(|| ended(name, view.versions(name.as_str()).next_back()))?;
        Ok(Defined {
            definition,
            stamp: Stamp::stored(tag, view.root_id(version)),
            version: version.version,
            own: Some(RootId::of(version)),
            value: Some(vault.open_version(&view, version).map_err(failed)?),
            until: version
                .ends()
                .and_then(|end| Timestamp::from_second(end).ok()),
        })
    }

    /// What a value at hand must have been made of; `None` when the secret is gone or the store silent.
    fn stamp(&self, name: &SecretName, now: Timestamp) -> Option<Stamp> {
        if self.given.contains_key(name) {
            return Some(Stamp::given());
        }
        let view = self.vault.as_ref()?.view().ok()?;
        let (row, definition) = view.secret(name.as_str()).ok()??;
        if row.removed.is_some() {
            return None;
        }
        if definition.provider.name() != EMBEDDED {
            return Some(Stamp::provided(row.tag.clone()));
        }
        let root = view.root_id(view.current(name.as_str(), now)?);
        Some(Stamp::stored(row.tag.clone(), root))
    }

    /// Leave to be the one process that mints from the stored value.
    async fn alone(&self, name: &SecretName) -> Result<Option<Alone>, SecretUnavailable> {
        let Some(vault) = &self.vault else {
            return Ok(None);
        };
        let alone = vault.alone(name).await;
        alone
            .map(Some)
            .map_err(|error| unavailable(name, "the vault", &error.to_string()))
    }

    fn slot(&self, name: &SecretName) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        Arc::clone(slots.entry(name.clone()).or_default())
    }

    fn asked_now(&self) -> Asked {
        Asked {
            now: self.clock.now(),
            changes: self.vault.as_ref().map_or(0, |vault| vault.changes()),
        }
    }

    fn seen_now(&self) -> (Seen, Option<Arc<View>>) {
        let view = self.vault.as_ref().and_then(|vault| vault.view().ok());
        let seen = Seen {
            generation: view.as_ref().map(|view| view.generation()),
        };
        (seen, view)
    }
}

impl Keeper for RunKeeper {
    fn at_hand(&self, name: &SecretName) -> Option<Arc<Secret>> {
        let slot = self.0.slots.lock().get(name).cloned()?;
        let now = self.0.clock.now();
        slot.at_hand(&self.0.stamp(name, now)?, now)
    }

    fn usable(&self, name: &SecretName) -> Option<Arc<Secret>> {
        let slot = self.0.slots.lock().get(name).cloned()?;
        let now = self.0.clock.now();
        slot.usable(&self.0.stamp(name, now)?, now)
    }

    fn stands(&self, secret: &Secret) -> bool {
        let slot = self.0.slots.lock().get(&secret.name).cloned();
        let now = self.0.clock.now();
        let stamp = self.0.stamp(&secret.name, now);
        let made = slot.zip(stamp);
        made.is_some_and(|(slot, stamp)| slot.stands(&stamp, secret, now))
            || self.lately_guarded().stands(secret)
    }

    fn renew(&self, name: &SecretName) {
        if self.at_hand(name).is_some() {
            return;
        }
        let slot = self.0.slots.lock().get(name).cloned();
        if let Some(Err(error)) = slot.map(|slot| slot.flight(&self.0, name)) {
            tracing::warn!(secret = %name, %error, "not renewed");
        }
    }

    fn current<'a>(&'a self, name: &'a SecretName) -> SecretFuture<'a> {
        Box::pin(async move {
            // A name that nothing is known of leaves no place behind.
            self.0.defined(name)?;
            self.0.slot(name).get(&self.0, name).await
        })
    }

    fn refused(&self, name: &SecretName) {
        let slot = self.0.slots.lock().get(name).cloned();
        if let Some(slot) = slot {
            slot.refused(self.0.clock.now());
        }
    }

    fn lately_guarded(&self) -> Arc<Guarded> {
        let recent = self.0.guard.recent(self.0.asked_now());
        recent.unwrap_or_else(|| self.guarded())
    }

    fn guarded(&self) -> Arc<Guarded> {
        let kept = &self.0;
        // Read first: what is read meanwhile is asked for once more.
        let asked = kept.asked_now();
        let (seen, view) = kept.seen_now();
        if let Some(guarded) = kept.guard.unchanged(seen, asked) {
            return guarded;
        }
        let fetched = kept.guard.fetched();
        let slots: Vec<(SecretName, Arc<Slot>)> = {
            let slots = kept.slots.lock();
            slots
                .iter()
                .map(|(name, slot)| (name.clone(), Arc::clone(slot)))
                .collect()
        };
        let list = guard::list(kept, view.as_deref(), &slots, asked.now);
        kept.guard.renew((seen, asked), (list, fetched), || {
            kept.generation.fetch_add(1, Ordering::Relaxed) + 1
        })
    }
}

/// Why no version of a secret is current, by the newest there is.
fn ended(name: &SecretName, newest: Option<&VersionRow>) -> SecretUnavailable {
    let name = name.clone();
    let moment = |second| Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
    match newest.map(|row| (row.revoked, row.ends())) {
        Some((Some(at), _)) => SecretUnavailable::Revoked {
            name,
            at: moment(at),
        },
        Some((None, Some(at))) => SecretUnavailable::Expired {
            name,
            at: moment(at),
        },
        // Each version that there was is forgotten.
        Some((None, None)) | None => SecretUnavailable::Unknown { name },
    }
}

fn unavailable(name: &SecretName, provider: &str, why: &str) -> SecretUnavailable {
    SecretUnavailable::Provider {
        name: name.clone(),
        provider: provider.into(),
        why: why.into(),
    }
}

const EMBEDDED: &str = "embedded";

#[cfg(test)]
mod tests;
