//! Kinds of secrets: what is made of a stored value before the border uses it.
//!
//! A kind takes the current stored value and mints what the border places: for most it is the value
//! itself, for others a token that a service gives for it. Caching, renewal before expiry and single
//! flight are the keeper's; a kind is asked only when something new is needed.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use gig_policy::SecretName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

mod aws;
mod basic;
mod client_certificate;
#[cfg(test)]
mod examples;
#[cfg(test)]
pub(crate) mod fake_fetch;
mod github_app;
mod google_service_account;
mod hmac;
mod jwt;
mod oauth2;
mod plain;
mod secret_text;
mod service;

pub use aws::{Aws, AwsDefinition};
pub use basic::Basic;
pub use client_certificate::ClientCertificate;
pub use github_app::{GithubApp, GithubAppDefinition};
pub use google_service_account::{GoogleServiceAccount, GoogleServiceAccountDefinition};
pub use hmac::{
    FieldDefinition, Hmac, HmacAlgorithm, HmacDefinition, KeyEncoding, Piece, SignatureEncoding,
    Template, TemplateError, may_be_signed_into,
};
pub use oauth2::{
    Authentication, ClientDefinition, Oauth2ClientCredentials, Oauth2ClientCredentialsDefinition,
    Oauth2RefreshToken, Oauth2RefreshTokenDefinition, TokenEndpoint,
};
pub use plain::Plain;
pub(crate) use secret_text::SecretText;

use crate::{
    clock::Clock,
    fetch::Fetch,
    secret::{Part, Shape, Treatment},
    secret_bytes::SecretBytes,
};

/// A kind with its options, as a definition spells it: `static`, or `{name: {options}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KindDefinition {
    /// One value, replaced wherever its sentinel stands.
    #[default]
    Static,
    /// `user:password` (RFC 7617); each half has a sentinel of its own.
    Basic,
    /// An AWS access key; requests are signed again at the border.
    Aws(AwsDefinition),
    /// A TLS client certificate, presented to origins by the border.
    ClientCertificate,
    /// A shared key that the border signs requests with.
    Hmac(Box<HmacDefinition>),
    /// An access token for a client's own credentials (RFC 6749 §4.4).
    Oauth2ClientCredentials(Box<Oauth2ClientCredentialsDefinition>),
    /// An access token for a login that somebody made (RFC 6749 §6).
    Oauth2RefreshToken(Box<Oauth2RefreshTokenDefinition>),
    /// A GitHub App's installation token.
    GithubApp(Box<GithubAppDefinition>),
    /// An access token for a Google service account (RFC 7523).
    GoogleServiceAccount(GoogleServiceAccountDefinition),
}

/// What is minted, to come. Dropping it abandons the attempt.
pub type MintFuture<'a> = Pin<Box<dyn Future<Output = Result<Minted, MintError>> + Send + 'a>>;

/// Makes what the border uses of what is stored.
pub trait Kind: Send + Sync + fmt::Debug {
    /// As definitions and listings spell it.
    fn name(&self) -> &'static str;

    /// Whether `value` can be of this kind; asked before it is stored.
    ///
    /// # Errors
    /// When it cannot; says what was expected and shows nothing of the value.
    fn check(&self, value: &SecretBytes) -> Result<(), UnusableValueError>;

    /// When the value ends by its own word; what is made of it ends no later.
    fn ends(&self, _value: &SecretBytes) -> Option<Timestamp> {
        None
    }

    /// Whether a program may get credentials with it that work: shown as a warning everywhere.
    fn hands_out(&self) -> bool {
        false
    }

    /// Whether handing the value to a program makes sense. It does not for what is minted for a short
    /// time, nor for what only the border can present.
    fn may_be_entrusted(&self) -> bool {
        true
    }

    /// Whether a service gives what goes in the sentinel's place, and gives another when asked.
    fn is_minted(&self) -> bool {
        false
    }

    /// Whether the service may give something new in place of the stored value with each answer, and take
    /// the old one no more: one process at a time may ask, and what is new has to be stored.
    fn rotates(&self) -> bool {
        false
    }

    /// Whether the value of a part may leave towards no host that it is not bound to. A user's name or
    /// an account's id is no secret by itself.
    fn guards(&self, _part: usize) -> bool {
        true
    }

    /// The parts of a stored value that sandboxes may use towards the hosts it is bound to; `None` for
    /// one that only gig itself uses, such as a client's secret.
    fn stored_parts(&self, _value: &SecretBytes) -> Option<Vec<SecretBytes>> {
        None
    }

    /// What of a stored value may leave towards no host, because gig alone uses it: a client's secret, a
    /// private key. Asked where [`Kind::stored_parts`] has nothing. With which part of the secret it is, where
    /// hosts may be told that: an AWS session token goes beside what was signed.
    fn watched_parts(&self, value: &SecretBytes) -> Vec<(Option<usize>, SecretBytes)> {
        vec![(None, SecretBytes::copy_of(value.expose().trim_ascii()))]
    }

    /// Mints from the current stored value.
    ///
    /// # Errors
    /// When the value is unusable or a service refuses or does not answer.
    fn mint<'a>(&'a self, request: MintRequest<'a>) -> MintFuture<'a>;
}

/// What a kind may use.
#[derive(Debug, Clone, Copy)]
pub struct MintRequest<'a> {
    /// Of the secret.
    pub name: &'a SecretName,
    /// The current stored value.
    pub value: &'a SecretBytes,
    /// The sentinel's look for the first part, when the definition gives one.
    pub shape: Option<&'a Shape>,
    /// The network.
    pub fetch: &'a Arc<dyn Fetch>,
    /// The time.
    pub clock: &'a dyn Clock,
}

/// What the border uses.
#[derive(Debug)]
pub struct Minted {
    /// Never empty; the first part's variable is the secret's name.
    pub parts: Vec<Part>,
    /// What is done with them.
    pub treatment: Treatment,
    /// When the service that minted it stops taking it. `None`: as long as the stored version lives.
    pub expires: Option<Timestamp>,
    /// What has to be stored instead of the value from now on, such as a refresh token that the
    /// service rotated. The keeper stores it before anything is used.
    pub replacement: Option<SecretBytes>,
}

impl Minted {
    /// Parts that are replaced and stay as long as the stored version.
    #[must_use]
    pub const fn replaced(parts: Vec<Part>) -> Self {
        Self {
            parts,
            treatment: Treatment::Replace,
            expires: None,
            replacement: None,
        }
    }
}

/// A value is not of its kind. Shows nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value is not usable as {kind}: {expected}")]
pub struct UnusableValueError {
    /// The kind.
    pub kind: &'static str,
    /// What was expected.
    pub expected: String,
}

/// Nothing could be minted. Shows nothing of a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// The stored value is not of its kind.
    #[error(transparent)]
    Value(#[from] UnusableValueError),
    /// The service said no: asking again with the same value is useless.
    #[error("{service} refused: {why}")]
    Refused {
        /// Which.
        service: String,
        /// Its reason, as far as it may be shown.
        why: String,
    },
    /// The service does not answer, or not as it should: asking later may help.
    #[error("{service} does not answer as it should: {why}")]
    Service {
        /// Which.
        service: String,
        /// What went wrong.
        why: String,
    },
}

impl KindDefinition {
    /// The kind of this name, when it has no options.
    #[must_use]
    pub fn without_options(name: &str) -> Option<Self> {
        [Self::Static, Self::Basic]
            .into_iter()
            .find(|kind| kind.kind().name() == name)
    }

    /// What is wrong with the options; asked before they are stored.
    ///
    /// # Errors
    /// With a sentence for a person.
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Static | Self::Basic | Self::Aws(_) | Self::ClientCertificate => Ok(()),
            Self::Hmac(options) => options.check(),
            Self::Oauth2ClientCredentials(options) => options.endpoint.check(),
            Self::Oauth2RefreshToken(options) => options.endpoint.check(),
            Self::GithubApp(options) => {
                service::check_url(&options.api_url)?;
                service::check_roots(options.ca.as_deref())
            }
            Self::GoogleServiceAccount(options) => service::check_roots(options.ca.as_deref()),
        }
    }

    /// The URL that gig itself asks for what is minted, where the options name one; a Google key file names its own.
    #[must_use]
    pub fn service(&self) -> Option<&str> {
        match self {
            Self::Oauth2ClientCredentials(options) => Some(&options.endpoint.token_url),
            Self::Oauth2RefreshToken(options) => Some(&options.endpoint.token_url),
            Self::GithubApp(options) => Some(&options.api_url),
            Self::Static
            | Self::Basic
            | Self::Aws(_)
            | Self::ClientCertificate
            | Self::Hmac(_)
            | Self::GoogleServiceAccount(_) => None,
        }
    }

    /// The kind that does it.
    #[must_use]
    pub fn kind(&self) -> Box<dyn Kind> {
        match self {
            Self::Static => Box::new(Plain),
            Self::Basic => Box::new(Basic),
            Self::Aws(options) => Box::new(Aws(options.clone())),
            Self::ClientCertificate => Box::new(ClientCertificate),
            Self::Hmac(options) => Box::new(Hmac(HmacDefinition::clone(options))),
            Self::Oauth2ClientCredentials(options) => {
                Box::new(Oauth2ClientCredentials((**options).clone()))
            }
            Self::Oauth2RefreshToken(options) => Box::new(Oauth2RefreshToken((**options).clone())),
            Self::GithubApp(options) => Box::new(GithubApp((**options).clone())),
            Self::GoogleServiceAccount(options) => Box::new(GoogleServiceAccount(options.clone())),
        }
    }
}
