//! One secret's place: what is at hand, until when, who fetches, what failed.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use gig_policy::SecretName;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{Defined, RunKeeper, unavailable};
use crate::{
    clock::after,
    keeper::SecretUnavailable,
    kind::{MintError, MintRequest},
    provider::{ProvideError, ProvideRequest, Provided, Provider},
    secret::Secret,
    secret_bytes::SecretBytes,
};

/// What a value was made of: the same stamp, the same value, as far as the store knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Of the definition's row; empty for a value that was given.
    tag: Vec<u8>,
    /// Of the stored version; 0 where a provider has the value.
    version: u64,
}

/// The place of one secret.
#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Mutex<State>,
    /// Who holds it fetches; the others wait for it. The provider keeps its session here.
    turn: tokio::sync::Mutex<Option<Source>>,
}

/// The provider of a definition.
#[derive(Debug)]
struct Source {
    tag: Vec<u8>,
    provider: Box<dyn Provider>,
}

#[derive(Debug, Default)]
struct State {
    ready: Option<Ready>,
    failure: Option<Failure>,
    /// Values that were handed out, newest first.
    known: VecDeque<Known>,
    /// Counts the values of a provider that does not.
    versions: u64,
    /// When a value was last renewed because a host refused it.
    heeded: Option<Timestamp>,
}

#[derive(Debug)]
struct Ready {
    stamp: Stamp,
    secret: Arc<Secret>,
    /// From then on it is renewed.
    due: Option<Timestamp>,
    until: Option<Timestamp>,
    /// Somebody gives another when asked.
    renews: bool,
}

#[derive(Debug)]
struct Failure {
    stamp: Stamp,
    until: Timestamp,
    why: SecretUnavailable,
}

/// A value that was fetched or minted.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) version: u64,
    pub(super) value: Arc<SecretBytes>,
    pub(super) current: bool,
}

/// Why nothing was made, and whether what is at hand may be used on.
struct Failed {
    why: SecretUnavailable,
    refused: bool,
}

impl Stamp {
    pub(super) const fn given() -> Self {
        Self {
            tag: Vec::new(),
            version: 1,
        }
    }

    pub(super) const fn provided(tag: Vec<u8>) -> Self {
        Self { tag, version: 0 }
    }

    pub(super) const fn stored(tag: Vec<u8>, version: u64) -> Self {
        Self { tag, version }
    }
}

impl Slot {
    /// What is at hand, if nobody has to do anything for it. A value that is due for renewal is at hand
    /// for everybody but the one who comes first.
    pub(super) fn at_hand(&self, stamp: &Stamp, now: Timestamp) -> Option<Arc<Secret>> {
        let (secret, due) = self.state.lock().usable(stamp, now)?;
        (!due || self.turn.try_lock().is_err()).then_some(secret)
    }

    /// A host does not take it any more: whoever comes next renews it.
    pub(super) fn refused(&self, now: Timestamp) {
        let mut state = self.state.lock();
        let recent = state.heeded.is_some_and(|at| now < after(at, HEED));
        let Some(ready) = state.ready.as_mut().filter(|ready| ready.renews && !recent) else {
            return;
        };
        tracing::info!(secret = %ready.secret.name, "refused by a host: renewed with its next use");
        ready.due = Some(now);
        state.heeded = Some(now);
    }

    /// Values to watch for, and when the newest ends. None may be used unless it was made of `stamp`.
    pub(super) fn known(
        &self,
        stamp: Option<&Stamp>,
        now: Timestamp,
    ) -> (Vec<Known>, Option<Timestamp>) {
        let state = self.state.lock();
        let usable = stamp.is_some_and(|stamp| state.usable(stamp, now).is_some());
        let known = state.known.iter().cloned().map(|known| Known {
            current: known.current && usable,
            ..known
        });
        let until = state.ready.as_ref().and_then(|ready| ready.until);
        (known.collect(), until.filter(|_| usable))
    }

    /// What is at hand, or what is fetched now. Who waits shares one fetch; dropping the future that
    /// fetches lets the next one who waits do it.
    pub(super) async fn get(
        &self,
        keeper: &RunKeeper,
        name: &SecretName,
    ) -> Result<Arc<Secret>, SecretUnavailable> {
        let defined = keeper.defined(name)?;
        if let Some(answer) = self.settled(&defined.stamp, keeper.clock.now()) {
            return answer;
        }
        let mut source = self.turn.lock().await;
        // Looked at again: the one before may have fetched, or the secret be another by now.
        let defined = keeper.defined(name)?;
        let now = keeper.clock.now();
        if let Some(answer) = self.state.lock().settled(&defined.stamp, now) {
            return answer;
        }
        let stamp = defined.stamp.clone();
        match make(keeper, name, defined, &mut source, &self.state).await {
            Ok(ready) => {
                let secret = Arc::clone(&ready.secret);
                let mut state = self.state.lock();
                state.learn(keeper, &ready);
                state.failure = None;
                state.ready = Some(ready);
                drop(state);
                keeper.guard.forget();
                Ok(secret)
            }
            Err(failed) => self.state.lock().fail(failed, stamp, keeper.clock.now()),
        }
    }

    /// The answer that needs no fetch; what is due for renewal is one while somebody renews it.
    fn settled(
        &self,
        stamp: &Stamp,
        now: Timestamp,
    ) -> Option<Result<Arc<Secret>, SecretUnavailable>> {
        self.at_hand(stamp, now)
            .map(Ok)
            .or_else(|| self.state.lock().settled(stamp, now))
    }
}

impl State {
    fn usable(&self, stamp: &Stamp, now: Timestamp) -> Option<(Arc<Secret>, bool)> {
        let ready = self.ready.as_ref()?;
        let good = ready.stamp == *stamp && ready.until.is_none_or(|until| now < until);
        let due = ready.due.is_some_and(|due| now >= due);
        good.then(|| (Arc::clone(&ready.secret), due))
    }

    fn settled(
        &self,
        stamp: &Stamp,
        now: Timestamp,
    ) -> Option<Result<Arc<Secret>, SecretUnavailable>> {
        match self.usable(stamp, now) {
            Some((secret, false)) => Some(Ok(secret)),
            Some((_, true)) => None,
            None => {
                let failure = self.failure.as_ref()?;
                let recent = failure.stamp == *stamp && now < failure.until;
                recent.then(|| Err(failure.why.clone()))
            }
        }
    }

    /// Remembers a failure; what is at hand is used on, unless it was refused.
    fn fail(
        &mut self,
        failed: Failed,
        stamp: Stamp,
        now: Timestamp,
    ) -> Result<Arc<Secret>, SecretUnavailable> {
        if failed.refused {
            self.ready = None;
        }
        if let Some((secret, _)) = self.usable(&stamp, now) {
            tracing::warn!(secret = %secret.name, error = %failed.why, "not renewed: the old value is used on");
            if let Some(ready) = &mut self.ready {
                ready.due = Some(after(now, RETRY));
            }
            return Ok(secret);
        }
        self.failure = Some(Failure {
            stamp,
            until: after(now, NEGATIVE),
            why: failed.why.clone(),
        });
        Err(failed.why)
    }

    /// Adds the values of `ready` to those that are watched for.
    fn learn(&mut self, keeper: &RunKeeper, ready: &Ready) {
        for known in &mut self.known {
            known.current = false;
        }
        let kind = keeper.defined(&ready.secret.name).ok();
        let kind = kind.map(|defined| defined.definition.kind.kind());
        for (index, part) in ready.secret.parts.iter().enumerate() {
            if kind.as_ref().is_some_and(|kind| !kind.guards(index)) {
                continue;
            }
            self.known.retain(|known| *known.value != part.value);
            self.known.push_front(Known {
                version: ready.secret.version,
                value: Arc::new(part.value.duplicate()),
                current: true,
            });
        }
        self.known.truncate(REMEMBERED);
    }

    /// The version of a value: the provider's own count, or one more for every other value.
    fn version(&mut self, provided: &Provided) -> u64 {
        let same = self
            .known
            .iter()
            .find(|known| *known.value == provided.value);
        match (provided.version, same) {
            (Some(version), _) => version,
            (None, Some(known)) => known.version,
            (None, None) => {
                self.versions += 1;
                self.versions
            }
        }
    }
}

/// Fetches where need be, and mints.
async fn make(
    keeper: &RunKeeper,
    name: &SecretName,
    defined: Defined,
    source: &mut Option<Source>,
    state: &Mutex<State>,
) -> Result<Ready, Failed> {
    let Defined {
        definition,
        mut stamp,
        value,
        until,
    } = defined;
    let kind = definition.kind.kind();
    let (value, version, lifetime) = match value {
        Some(value) => (value, stamp.version, None),
        None => {
            let provided = provide(keeper, name, &definition, &stamp, source).await?;
            let version = state.lock().version(&provided);
            (provided.value, version, Some(provided.lifetime))
        }
    };
    let shape = match &definition.shape {
        Some(shape) => Some(
            shape
                .shape()
                .map_err(|error| refused(name, kind.name(), &error))?,
        ),
        None => None,
    };
    let minted = kind
        .mint(MintRequest {
            name,
            value: &value,
            shape: shape.as_ref(),
            fetch: &keeper.fetch,
            clock: &*keeper.clock,
        })
        .await
        .map_err(|error| Failed {
            refused: !matches!(error, MintError::Service { .. }),
            why: unavailable(name, kind.name(), &error.to_string()),
        })?;
    if let (Some(replacement), Some(vault)) = (&minted.replacement, &keeper.vault)
        && stamp.version > 0
    {
        // Before anything is used: what the service has replaced it takes no more.
        let stored = vault.supersede(name, stamp.version, replacement);
        if let Some(version) = stored.map_err(|error| refused(name, "the vault", &error))? {
            stamp.version = version;
        }
    }
    let now = keeper.clock.now();
    let fetched = lifetime.map(|lifetime| after(now, lifetime));
    let renewable = [fetched, minted.expires].into_iter().flatten().min();
    Ok(Ready {
        secret: Arc::new(Secret {
            name: name.clone(),
            version,
            parts: minted.parts,
            treatment: minted.treatment,
            entrusted: definition.entrusted,
        }),
        due: renewable.map(|end| due(now, end)),
        renews: lifetime.is_some() || kind.is_minted(),
        // What a provider gave outlives its time a little when the provider is silent; what a service
        // minted does not.
        until: [
            until,
            minted.expires,
            lifetime.map(|span| after(now, span.saturating_mul(STALE))),
        ]
        .into_iter()
        .flatten()
        .min(),
        stamp,
    })
}

/// The provider's value.
async fn provide(
    keeper: &RunKeeper,
    name: &SecretName,
    definition: &crate::Definition,
    stamp: &Stamp,
    source: &mut Option<Source>,
) -> Result<Provided, Failed> {
    drop(source.take_if(|source| source.tag != stamp.tag));
    if source.is_none() {
        *source = definition.provider.provider().map(|provider| Source {
            tag: stamp.tag.clone(),
            provider,
        });
    }
    let Some(source) = source else {
        return Err(refused(name, "the vault", &"it has no value"));
    };
    let provided = source.provider.provide(ProvideRequest {
        name,
        fetch: &keeper.fetch,
        clock: &*keeper.clock,
    });
    provided.await.map_err(|error| Failed {
        refused: matches!(error, ProvideError::Refused(_)),
        why: unavailable(name, source.provider.name(), &error.to_string()),
    })
}

fn refused(name: &SecretName, provider: &str, why: &impl std::fmt::Display) -> Failed {
    Failed {
        why: unavailable(name, provider, &why.to_string()),
        refused: true,
    }
}

/// A fifth before the end, and a minute at most: the old value still works while the new one is
/// fetched.
fn due(now: Timestamp, end: Timestamp) -> Timestamp {
    let left = u64::try_from(end.as_second() - now.as_second()).unwrap_or(0);
    let early = (left / 5).min(60);
    after(now, Duration::from_secs(left - early))
}

/// A provider that is silent is asked again by whoever comes after this time.
const RETRY: Duration = Duration::from_secs(10);
/// What a host says of a value is heeded once in this time: it may say so of the new one, too.
const HEED: Duration = Duration::from_secs(30);
/// A failure is answered again for this time, so that a program that tries all the time does not make
/// gig do so.
const NEGATIVE: Duration = Duration::from_secs(5);
/// How many of its times a provided value is used when its provider is silent.
const STALE: u32 = 5;
/// Values of one secret that were handed out in this run and may leave nowhere else.
const REMEMBERED: usize = 16;
