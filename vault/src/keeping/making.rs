//! Making what the border uses: the provider's value, or the stored one, and what its kind mints of it.

use std::{sync::Arc, time::Duration};

use gig_policy::SecretName;
use jiff::Timestamp;

use super::{
    Defined, Kept,
    flight::HERE,
    slot::{Ready, Stamp},
    unavailable,
};
use crate::{
    clock::after,
    definition::Definition,
    keeper::SecretUnavailable,
    kind::{MintError, MintRequest},
    memory,
    provider::{ProvideError, ProvideRequest, Provided, Provider},
    secret::{Part, Secret},
};

/// The provider of a definition.
#[derive(Debug)]
pub(super) struct Source {
    tag: Vec<u8>,
    provider: Box<dyn Provider>,
}

/// Gives the version of a value whose provider counts none.
pub(super) type Counted<'a> = &'a (dyn Fn(&Provided) -> u64 + Sync);

/// Why nothing was made, and whether what is at hand may be used on.
pub(super) struct Failed {
    pub(super) why: SecretUnavailable,
    pub(super) refused: bool,
}

impl Defined {
    /// Whether making what is used may take what is stored out of use.
    pub(super) fn rotates(&self) -> bool {
        self.value.is_some() && self.definition.kind.kind().rotates()
    }

    /// Whether what is used is made here, of what is here.
    pub(super) fn asks_nobody(&self) -> bool {
        self.value.is_some() && !self.definition.kind.kind().is_minted()
    }
}

/// Fetches where need be, and mints.
pub(super) async fn make(
    keeper: &Kept,
    name: &SecretName,
    defined: Defined,
    (source, counted): (&mut Option<Source>, Counted<'_>),
) -> Result<Ready, Failed> {
    let Defined {
        definition,
        stamp,
        version: stored,
        own,
        value,
        until,
    } = defined;
    let kind = definition.kind.kind();
    let mut behind = Vec::new();
    let (value, version, lifetime) = match value {
        Some(value) => (value, stored, None),
        None => {
            let provided = provide(keeper, name, &definition, &stamp, source).await?;
            let version = counted(&provided);
            if kind.stored_parts(&provided.value).is_none() {
                let parts = kind.watched_parts(&provided.value).into_iter();
                behind = parts.map(|(_, part)| part).collect();
            }
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
        .map_err(|error| {
            let provider = source.as_ref().filter(|_| lifetime.is_some());
            let provider = provider.map(|source| source.provider.name());
            not_minted(name, (kind.name(), provider), &error)
        })?;
    if let (Some(_), 0) = (&minted.replacement, stored) {
        // Refused when it is set; one that an earlier gig took goes on until its service takes it no more.
        tracing::error!(secret = %name, "the service gave a new value, which its provider cannot store: set the secret anew, with its value here");
    }
    if let (Some(replacement), Some(vault), Some(own)) = (&minted.replacement, &keeper.vault, own) {
        // Before anything is used: what the service has replaced it takes no more. Where a person gave
        // another value meanwhile that one stays.
        let stored = vault.supersede(name, (stored, own), replacement);
        stored.map_err(|error| refused(name, "the vault", &error))?;
    }
    check_locked(name, &minted.parts)?;
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
        awaited: None,
        behind,
        lives: minted.expires,
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
    keeper: &Kept,
    name: &SecretName,
    definition: &Definition,
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

/// Nothing is handed out that could be written to the disk.
fn check_locked(name: &SecretName, parts: &[Part]) -> Result<(), Failed> {
    let octets = parts.iter().map(|part| &part.value);
    let locked = memory::all_locked(octets, memory::swappable_allowed());
    locked.map_err(|error| Failed {
        refused: false,
        why: unavailable(name, HERE, &error.to_string()),
    })
}

/// Why nothing was made of a value. What a provider gave and is not good is to be looked at there.
fn not_minted(
    name: &SecretName,
    (kind, provider): (&str, Option<&str>),
    error: &MintError,
) -> Failed {
    let service = matches!(error, MintError::Service { .. });
    let from = provider.filter(|_| !service).unwrap_or(kind);
    Failed {
        refused: !service,
        why: unavailable(name, from, &error.to_string()),
    }
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

/// How many of its times a provided value is used when its provider is silent.
const STALE: u32 = 5;
