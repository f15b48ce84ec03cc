//! What the console asks of the vault: names, places and moments come out, values only go in.
//!
//! The trait is implemented by the composition root, which alone knows the vault.

use std::{sync::Arc, time::Duration};

use gig_audit::Deed;
use jiff::Timestamp;
use thiserror::Error;
use zeroize::Zeroizing;

#[cfg(test)]
pub(crate) mod fake;

/// The vault of this machine.
pub trait Secrets: Send + Sync + 'static {
    /// Every secret, by name; removed ones too. Blocks.
    ///
    /// # Errors
    /// When the vault cannot be read.
    fn list(&self) -> Result<Vec<SecretFacts>, SecretError>;

    /// Makes a change, after `announce` has recorded it. Blocks.
    ///
    /// # Errors
    /// When it is refused, cannot be recorded, or the vault cannot be written: nothing is changed.
    fn change(&self, change: &SecretChange, announce: Announce) -> Result<SecretMade, SecretError>;
}

/// What came of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretMade {
    /// The version that was made; 0 for none.
    pub version: u64,
    /// What a person should know of it: a value, or a part of one, that is too short to be looked for or that ordinary text
    /// holds; whom gig asks for it in clear text.
    pub warnings: Vec<String>,
}

/// Records, in these words, what is about to be done; or says why it cannot.
pub type Announce = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// One secret, without its value.
#[derive(Debug, Clone)]
pub struct SecretFacts {
    /// What policies and servers call it.
    pub name: String,
    /// What is made of the value: `static`, `basic` …
    pub kind: &'static str,
    /// Where the value comes from: `embedded` is the vault itself.
    pub provider: &'static str,
    /// URLs that gig itself asks, for the value or for what is minted from it.
    pub services: Vec<String>,
    /// Programs may be handed the real value.
    pub entrusted: bool,
    /// Programs may get credentials with it that work.
    pub hands_out: bool,
    /// Opening it takes its owner's passphrase.
    pub custody: bool,
    /// Since when it is known.
    pub created: Timestamp,
    /// When it was removed.
    pub removed: Option<Timestamp>,
    /// Oldest first.
    pub versions: Vec<SecretVersion>,
}

impl SecretFacts {
    /// Whether a server can be given it: it was not removed, and some version is neither revoked nor over.
    #[must_use]
    pub fn is_set(&self) -> bool {
        let usable = |one: &SecretVersion| matches!(one.state, "current" | "grace");
        let versions = &self.versions;
        self.removed.is_none() && (versions.is_empty() || versions.iter().any(usable))
    }
}

/// Said of each of these services that gig sends credentials of its own where others can read them.
#[must_use]
pub fn in_clear_text(services: &[String]) -> Vec<String> {
    let open = services.iter().filter(|one| is_read_on_its_way(one));
    let told = open.map(|service| {
        format!(
            "gig asks {service} in clear text: whoever is on the way there reads what it sends; use https"
        )
    });
    told.collect()
}

/// Whether this is a URL without TLS that leaves this machine.
fn is_read_on_its_way(service: &str) -> bool {
    let Some(rest) = service.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, _)) => host,
        None => authority.split(':').next().unwrap_or_default(),
    };
    let address = host.parse::<std::net::IpAddr>();
    let is_own = host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.is_loopback());
    !is_own
}

/// One version of a secret.
#[derive(Debug, Clone)]
pub struct SecretVersion {
    /// From 1.
    pub version: u64,
    /// `current`, `grace`, `expired`, `revoked`.
    pub state: &'static str,
    /// When it was set.
    pub created: Timestamp,
    /// When its use ends or ended.
    pub until: Option<Timestamp>,
}

/// What somebody wants done to a secret.
#[derive(Debug)]
pub struct SecretChange {
    /// Which.
    pub name: String,
    /// What.
    pub doing: SecretDoing,
}

/// The change itself.
pub enum SecretDoing {
    /// A secret that is not there yet.
    Add {
        /// The value.
        value: Zeroizing<String>,
        /// What is made of it.
        described: Described,
        /// For how long it may be used.
        expires: Option<Duration>,
    },
    /// Another value for one that is.
    Rotate {
        /// The value.
        value: Zeroizing<String>,
        /// For how long it may be used.
        expires: Option<Duration>,
        /// For how long the one before stays known.
        grace: Duration,
    },
    /// It ends; all of it, or one version.
    Remove {
        /// Which version.
        version: Option<u64>,
    },
}

/// What a new secret is, beside its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Described {
    /// By a kind that has no options: `static` or `basic`.
    Kind(String),
    /// By the document that `gig secret set --definition` takes, YAML or JSON.
    Definition(String),
}

impl SecretDoing {
    /// What it is in the record's list.
    pub(crate) const fn deed(&self) -> Deed {
        match self {
            Self::Add { .. } => Deed::SecretSet,
            Self::Rotate { .. } => Deed::SecretRotate,
            Self::Remove { .. } => Deed::SecretRemove,
        }
    }
}

impl std::fmt::Debug for SecretDoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Add { .. } => "Add",
            Self::Rotate { .. } => "Rotate",
            Self::Remove { .. } => "Remove",
        })
    }
}

/// The vault does not do it.
#[derive(Debug, Error)]
pub enum SecretError {
    /// No such secret, or no such version of it.
    #[error("{0}")]
    Missing(String),
    /// There is one already.
    #[error("there is a secret {0} already: give it another value")]
    Exists(String),
    /// It cannot be done so; says why.
    #[error("{0}")]
    Refused(String),
    /// It could not be recorded, and was not done.
    #[error("{0}")]
    NotRecorded(String),
    /// The vault cannot be used.
    #[error("the vault cannot be used: {0}")]
    Unavailable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_this_machine_without_tls_is_read_on_its_way() {
        for (service, read) in [
            ("http://vault.example:8200", true),
            ("http://10.0.0.7/token", true),
            ("http://localhost.example/token", true),
            ("HTTP://never.stored", false),
            ("https://vault.example:8200", false),
            ("http://127.0.0.1:8200/v1", false),
            ("http://[::1]:8200/v1", false),
            ("http://localhost/token", false),
        ] {
            assert_eq!(is_read_on_its_way(service), read, "{service}");
        }
    }
}
