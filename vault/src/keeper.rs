//! What the border asks: the current version of a secret, and what must never leave.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use gig_policy::SecretName;
use jiff::Timestamp;

use crate::{
    secret::{Part, Secret},
    secret_bytes::SecretBytes,
};

/// A look-up that may have to ask somebody. Dropping it is safe.
pub type SecretFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Arc<Secret>, SecretUnavailable>> + Send + 'a>>;

/// Keeps secrets for the border.
pub trait Keeper: Send + Sync + fmt::Debug {
    /// The current version, if it is at hand: no waiting. Revoked and expired versions are not.
    fn at_hand(&self, name: &SecretName) -> Option<Arc<Secret>>;

    /// The same, where it is due for renewal too: only its end takes it away, or a revocation. For what
    /// cannot wait.
    fn usable(&self, name: &SecretName) -> Option<Arc<Secret>> {
        self.at_hand(name)
    }

    /// Whether what was fetched earlier may still be used: it was neither revoked nor replaced without a grace
    /// time, nor did it end. What was only renewed meanwhile may. For what is open for long and places a value
    /// late: cheap, and told of what others changed as [`Keeper::lately_guarded`] is.
    fn stands(&self, secret: &Secret) -> bool {
        let same = |now: Arc<Secret>| now.version == secret.version;
        self.usable(&secret.name).is_some_and(same) || self.lately_guarded().stands(secret)
    }

    /// Begins to renew what is due, and does not wait for it.
    fn renew(&self, _name: &SecretName) {}

    /// The current version, fetched or minted if need be; many who wait share one fetch.
    ///
    /// # Errors
    /// When there is none, or it cannot be had now: the request that wants it is refused.
    fn current<'a>(&'a self, name: &'a SecretName) -> SecretFuture<'a>;

    /// A host that the value went to says that it is not good any more. One that can be had anew is, by
    /// whoever asks next; a keeper that has values from nobody does nothing.
    fn refused(&self, _name: &SecretName) {}

    /// Every real value that the keeper knows, current and revoked, which may only go where its
    /// secret is bound. The same `Arc` until something changes.
    fn guarded(&self) -> Arc<Guarded>;

    /// The same for who asks again and again while something is open: cheap, and with all that anybody was
    /// given here. What others changed in a store that this keeper shares with them may be missing for
    /// fifty milliseconds.
    fn lately_guarded(&self) -> Arc<Guarded> {
        self.guarded()
    }
}

/// The real values to watch for.
#[derive(Debug, Default)]
pub struct Guarded {
    /// Counts up with every change.
    pub generation: u64,
    /// The values.
    pub values: Vec<GuardedValue>,
}

impl Guarded {
    /// Whether some version with such a value may still be used.
    #[must_use]
    pub fn stands(&self, secret: &Secret) -> bool {
        self.values.iter().any(|known| {
            let same = |part: &Part| part.value == *known.value;
            known.current && known.name == secret.name && secret.parts.iter().any(same)
        })
    }
}

/// One real value.
#[derive(Debug)]
pub struct GuardedValue {
    /// Whose.
    pub name: SecretName,
    /// Of which version.
    pub version: u64,
    /// Which of the secret's parts it is or was; `None` for what gig alone uses, or where nobody knows.
    pub part: Option<usize>,
    /// The octets.
    pub value: Arc<SecretBytes>,
    /// Whether this version may still be used; a revoked value may go nowhere, and neither may one that the vault
    /// has under a name that was given another.
    pub current: bool,
}

/// A secret cannot be used now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretUnavailable {
    /// No such secret.
    #[error("there is no secret named {name}")]
    Unknown {
        /// The name that was asked for.
        name: SecretName,
    },
    /// Somebody removed it.
    #[error("secret {name} was removed at {at}; set it anew with gig secret set {name}")]
    Removed {
        /// Whose.
        name: SecretName,
        /// When.
        at: Timestamp,
    },
    /// The time of its newest version is over.
    #[error("secret {name} expired at {at}; set a new value with gig secret rotate {name}")]
    Expired {
        /// Whose.
        name: SecretName,
        /// When.
        at: Timestamp,
    },
    /// Somebody revoked it.
    #[error("secret {name} was revoked at {at}; set a new value with gig secret rotate {name}")]
    Revoked {
        /// Whose.
        name: SecretName,
        /// When.
        at: Timestamp,
    },
    /// It ended after a request was given it, by whatever end; the next request is told which.
    #[error(
        "the version of secret {name} that this request carries ended meanwhile; send the request again"
    )]
    Ended {
        /// Whose.
        name: SecretName,
    },
    /// Its provider does not answer, or not as it should.
    #[error("secret {name} cannot be had from {provider} now: {why}")]
    Provider {
        /// Whose.
        name: SecretName,
        /// Which provider, in a word.
        provider: Arc<str>,
        /// What went wrong; holds no value.
        why: Arc<str>,
    },
}
