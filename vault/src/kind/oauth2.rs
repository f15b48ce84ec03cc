//! OAuth 2.0 (RFC 6749): a token endpoint gives an access token for what is stored.
//!
//! The access token is what the border places; the credential that earns it never leaves gig but
//! towards that endpoint. Renewal before expiry and single flight are the keeper's.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

mod client;
mod client_credentials;
mod refresh_token;
mod token_endpoint;

pub(super) use client::no_random;
pub use client::{Authentication, ClientDefinition};
pub use client_credentials::{Oauth2ClientCredentials, Oauth2ClientCredentialsDefinition};
pub use refresh_token::{Oauth2RefreshToken, Oauth2RefreshTokenDefinition};
pub(super) use token_endpoint::{ask, refused, unreachable};

use super::{
    MintRequest,
    service::{check_roots, check_url},
};
use crate::{
    clock::after,
    secret::{Part, Shape},
    secret_bytes::SecretBytes,
    shape::ShapeDefinition,
};

/// Where tokens are given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEndpoint {
    /// Its URL.
    pub token_url: String,
    /// PEM roots to trust for it, instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

impl TokenEndpoint {
    /// What is wrong with it.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        check_url(&self.token_url)?;
        check_roots(self.ca.as_deref())
    }

    pub(super) fn roots(&self) -> Option<Arc<[u8]>> {
        self.ca.as_ref().map(|pem| pem.as_bytes().into())
    }
}

/// The part that a minted token becomes.
pub(super) fn token_part(request: &MintRequest<'_>, token: SecretBytes) -> Part {
    Part {
        variable: Arc::clone(request.name.shared()),
        shape: request.shape.cloned().unwrap_or_else(|| shape_of(&token)),
        value: token,
    }
}

/// A sentinel looks like what it stands for, where that is known.
pub(super) fn shape_of(token: &SecretBytes) -> Shape {
    ShapeDefinition::guessed(token.expose())
        .and_then(|guessed| guessed.shape().ok())
        .unwrap_or_default()
}

/// When something that lives for `seconds` ends.
pub(super) fn ends(now: Timestamp, seconds: Option<u64>) -> Option<Timestamp> {
    // 0 is said of what does not end.
    let seconds = seconds.filter(|seconds| *seconds > 0);
    seconds.map(|seconds| after(now, Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests;
