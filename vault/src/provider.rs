//! Where a secret's value comes from: gig's own store, or one of these.
//!
//! A provider is asked for the value and says how long it stays good. Caching, renewal before the end
//! and single flight are the keeper's ([`crate::keeping`]).

use std::{fmt, future::Future, path::Path, pin::Pin, sync::Arc, time::Duration};

use gig_policy::SecretName;
use serde::{Deserialize, Serialize};

use crate::{clock::Clock, fetch::Fetch, secret_bytes::SecretBytes};

mod command;
mod environment;
mod file;
mod hashicorp;
mod reading;

pub use command::CommandOptions;
pub use environment::EnvironmentOptions;
pub use file::FileOptions;
pub use hashicorp::{Auth, Credential, HashicorpOptions};

/// A provider with its options, as a definition spells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderDefinition {
    /// gig's own store.
    #[default]
    Embedded,
    /// A variable of gig's own environment.
    Environment(EnvironmentOptions),
    /// A file.
    File(FileOptions),
    /// What a command prints.
    Command(CommandOptions),
    /// HashiCorp Vault or OpenBao, the key-value engine's second version.
    Hashicorp(Box<HashicorpOptions>),
}

/// A value, to come. Dropping it abandons the attempt.
pub type ProvideFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Provided, ProvideError>> + Send + 'a>>;

/// Gives one secret's value.
pub trait Provider: Send + Sync + fmt::Debug {
    /// As definitions and listings spell it.
    fn name(&self) -> &'static str;

    /// The value as it is now.
    ///
    /// # Errors
    /// When there is none, or it cannot be had now.
    fn provide<'a>(&'a self, request: ProvideRequest<'a>) -> ProvideFuture<'a>;
}

/// What a provider may use.
#[derive(Debug, Clone, Copy)]
pub struct ProvideRequest<'a> {
    /// Of the secret.
    pub name: &'a SecretName,
    /// The network.
    pub fetch: &'a Arc<dyn Fetch>,
    /// The time.
    pub clock: &'a dyn Clock,
}

/// A value.
#[derive(Debug)]
pub struct Provided {
    /// The octets.
    pub value: SecretBytes,
    /// The provider's own count, if it has one.
    pub version: Option<u64>,
    /// How long it stays good.
    pub lifetime: Duration,
}

/// No value. Shows nothing of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvideError {
    /// It is not there, or this gig may not have it: what was fetched before is no longer good.
    #[error("{0}")]
    Refused(String),
    /// It cannot be had now; asking later may help.
    #[error("{0}")]
    Unavailable(String),
}

impl ProviderDefinition {
    /// As listings spell it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Environment(_) => "environment",
            Self::File(_) => "file",
            Self::Command(_) => "command",
            Self::Hashicorp(_) => "hashicorp",
        }
    }

    /// The provider that does it; `None` for gig's own store.
    #[must_use]
    pub fn provider(&self) -> Option<Box<dyn Provider>> {
        match self {
            Self::Embedded => None,
            Self::Environment(options) => Some(Box::new(environment::Environment::new(options))),
            Self::File(options) => Some(Box::new(file::File::new(options))),
            Self::Command(options) => Some(Box::new(command::Command::new(options))),
            Self::Hashicorp(options) => Some(Box::new(hashicorp::Hashicorp::new(options))),
        }
    }

    /// What is wrong with the options; asked before they are stored.
    ///
    /// # Errors
    /// With a sentence for a person.
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Embedded | Self::Environment(_) => Ok(()),
            Self::File(options) => absolute(&options.path),
            Self::Command(options) => absolute(&options.program),
            Self::Hashicorp(options) => options.check(),
        }
    }
}

fn absolute(path: &Path) -> Result<(), &'static str> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(
        "has a provider whose path is not absolute: what it means must not depend on where gig runs",
    )
}

/// One line end after a value is how files and commands end, not part of it.
fn without_line_end(mut value: SecretBytes) -> SecretBytes {
    let kept = match value.expose() {
        [kept @ .., b'\r', b'\n'] | [kept @ .., b'\n'] => kept.len(),
        _ => return value,
    };
    value = value.shortened(kept);
    value
}

/// How long a value stays good where the definition does not say: a change elsewhere shows after a
/// minute.
fn lifetime(seconds: Option<u64>) -> Duration {
    Duration::from_secs(seconds.unwrap_or(60).max(1))
}

#[cfg(test)]
mod tests;
