//! `oauth2_refresh_token`: a login that somebody made keeps giving access tokens (RFC 6749 §6).
//!
//! The stored value is the refresh token; for a client with a secret, JSON with `refresh_token` and
//! `client_secret` (for `private_key_jwt` the PEM key). A server that rotates refresh tokens gives a new
//! one with each answer: it is stored in the old one's place before anything is used.

use serde::{Deserialize, Serialize};

use super::{Authentication, ClientDefinition, TokenEndpoint, ask, ends, token_part};
use crate::{
    kind::{Kind, MintFuture, MintRequest, Minted, UnusableValueError, secret_text::SecretText},
    secret::Treatment,
    secret_bytes::SecretBytes,
};

/// Its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oauth2RefreshTokenDefinition {
    /// Where tokens are given.
    pub endpoint: TokenEndpoint,
    /// Who asks.
    pub client: ClientDefinition,
    /// Fewer scopes than were granted, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// The kind.
#[derive(Debug, Clone)]
pub struct Oauth2RefreshToken(pub Oauth2RefreshTokenDefinition);

/// What is stored, taken apart.
struct Stored {
    refresh_token: SecretBytes,
    client_secret: Option<SecretBytes>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredJson {
    refresh_token: SecretText,
    client_secret: Option<SecretText>,
}

/// The same, as it is stored.
#[derive(Serialize)]
struct StoredText<'a> {
    refresh_token: &'a str,
    client_secret: &'a str,
}

impl Oauth2RefreshToken {
    fn stored(&self, value: &SecretBytes) -> Result<Stored, UnusableValueError> {
        let stored = if value.expose().trim_ascii_start().starts_with(b"{") {
            let json: StoredJson = serde_json::from_slice(value.expose()).map_err(|_| {
                self.unusable("JSON has to hold refresh_token and client_secret, and nothing else")
            })?;
            Stored {
                refresh_token: json.refresh_token.0,
                client_secret: json.client_secret.map(|text| text.0),
            }
        } else {
            Stored {
                refresh_token: SecretBytes::copy_of(value.expose().trim_ascii()),
                client_secret: None,
            }
        };
        if stored.refresh_token.is_empty() {
            return Err(self.unusable("it has to be the refresh token"));
        }
        let secret = stored.client_secret.as_ref();
        match (self.0.client.authentication, secret) {
            (Authentication::None, _) => {}
            (_, Some(secret)) => self.0.client.check(secret, self.name())?,
            (_, None) => {
                return Err(self.unusable(
                    "this client has a secret, so it has to be \
                     {\"refresh_token\": …, \"client_secret\": …}; for a client without one, \
                     say `authentication: none`",
                ));
            }
        }
        Ok(stored)
    }

    fn unusable(&self, expected: &str) -> UnusableValueError {
        UnusableValueError {
            kind: self.name(),
            expected: expected.to_owned(),
        }
    }
}

impl Stored {
    /// What is stored from now on.
    fn with(&self, refresh_token: &SecretBytes) -> SecretBytes {
        let Some(client_secret) = &self.client_secret else {
            return refresh_token.duplicate();
        };
        // Room for all of it escaped: what grows leaves copies behind.
        let length = 6 * (refresh_token.len() + client_secret.len()) + 64;
        let mut json = Vec::with_capacity(length);
        let text = |secret| String::from_utf8_lossy(secret);
        let written = StoredText {
            refresh_token: &text(refresh_token.expose()),
            client_secret: &text(client_secret.expose()),
        };
        // Two texts always serialise, and memory takes them.
        serde_json::to_writer(&mut json, &written).unwrap_or_default();
        SecretBytes::new(json)
    }
}

impl Kind for Oauth2RefreshToken {
    fn name(&self) -> &'static str {
        "oauth2_refresh_token"
    }

    fn check(&self, value: &SecretBytes) -> Result<(), UnusableValueError> {
        self.stored(value).map(drop)
    }

    fn may_be_entrusted(&self) -> bool {
        false
    }

    fn is_minted(&self) -> bool {
        true
    }

    fn rotates(&self) -> bool {
        true
    }

    fn watched_parts(&self, value: &SecretBytes) -> Vec<(Option<usize>, SecretBytes)> {
        match self.stored(value) {
            Ok(stored) => {
                let token = std::iter::once(stored.refresh_token);
                let all = token.chain(stored.client_secret);
                all.map(|part| (None, part)).collect()
            }
            Err(_) => vec![(None, value.duplicate())],
        }
    }

    fn mint<'a>(&'a self, request: MintRequest<'a>) -> MintFuture<'a> {
        Box::pin(async move {
            let stored = self.stored(request.value)?;
            let options = &self.0;
            let none = SecretBytes::default();
            let secret = stored.client_secret.as_ref().unwrap_or(&none);
            let shown = options.client.show(secret, &options.endpoint, &request)?;
            let mut fields: Vec<(&str, &[u8])> = vec![
                ("grant_type", b"refresh_token"),
                ("refresh_token", stored.refresh_token.expose()),
            ];
            if let Some(scope) = &options.scope {
                fields.push(("scope", scope.as_bytes()));
            }
            fields.extend(
                shown
                    .fields
                    .iter()
                    .map(|(name, value)| (*name, value.expose())),
            );
            let fetch = request.fetch.as_ref();
            let granted = ask(fetch, &options.endpoint, &fields, shown.authorization).await?;
            let rotated = granted.refresh_token.as_ref();
            let rotated = rotated.filter(|new| new.expose() != stored.refresh_token.expose());
            Ok(Minted {
                expires: ends(request.clock.now(), granted.expires_in),
                replacement: rotated.map(|new| stored.with(new)),
                parts: vec![token_part(&request, granted.access_token)],
                treatment: Treatment::Bearer,
            })
        })
    }
}
