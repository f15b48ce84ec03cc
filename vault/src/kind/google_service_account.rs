//! `google_service_account`: an access token for a Google service account (RFC 7523 §2.1).
//!
//! The stored value is the account's JSON key file. `NAME` holds a sentinel for the access token.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Kind, MintFuture, MintRequest, Minted, UnusableValueError,
    jwt::SigningKey,
    oauth2::{TokenEndpoint, ask, ends, no_random, token_part},
    secret_text::SecretText,
};
use crate::{secret::Treatment, secret_bytes::SecretBytes};

/// Its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoogleServiceAccountDefinition {
    /// Scopes, such as `https://www.googleapis.com/auth/devstorage.read_only`.
    pub scopes: Vec<String>,
    /// The user to act for, where the domain's administrator delegated that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// PEM roots to trust for the token endpoint, instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

/// The kind.
#[derive(Debug, Clone)]
pub struct GoogleServiceAccount(pub GoogleServiceAccountDefinition);

/// The part of a key file that matters here.
#[derive(Deserialize)]
struct KeyFile {
    client_email: String,
    private_key: SecretText,
    #[serde(default)]
    private_key_id: Option<String>,
    #[serde(default = "google")]
    token_uri: String,
}

impl GoogleServiceAccount {
    fn read(&self, value: &SecretBytes) -> Result<(KeyFile, SigningKey), UnusableValueError> {
        let unusable = |expected: String| UnusableValueError {
            kind: self.name(),
            expected,
        };
        let file: KeyFile = serde_json::from_slice(value.expose()).map_err(|_| {
            unusable("it has to be the JSON key file, with client_email and private_key".to_owned())
        })?;
        let key = SigningKey::from_pem(&file.private_key.0);
        let key = key.map_err(|error| unusable(error.to_string()))?;
        Ok((file, key))
    }
}

impl Kind for GoogleServiceAccount {
    fn name(&self) -> &'static str {
        "google_service_account"
    }

    fn check(&self, value: &SecretBytes) -> Result<(), UnusableValueError> {
        self.read(value).map(drop)
    }

    fn may_be_entrusted(&self) -> bool {
        false
    }

    fn is_minted(&self) -> bool {
        true
    }

    fn watched_parts(&self, value: &SecretBytes) -> Vec<(Option<usize>, SecretBytes)> {
        match serde_json::from_slice::<KeyFile>(value.expose()) {
            Ok(file) => {
                let key = file.private_key.0;
                vec![(None, SecretBytes::copy_of(key.expose().trim_ascii()))]
            }
            Err(_) => vec![(None, value.duplicate())],
        }
    }

    fn mint<'a>(&'a self, request: MintRequest<'a>) -> MintFuture<'a> {
        Box::pin(async move {
            let (file, key) = self.read(request.value)?;
            let now = request.clock.now();
            let mut claims = json!({
                "iss": file.client_email,
                "scope": self.0.scopes.join(" "),
                "aud": file.token_uri,
                "iat": now.as_second(),
                "exp": now.as_second().saturating_add(LIVES),
            });
            if let (Some(subject), Some(fields)) = (&self.0.subject, claims.as_object_mut()) {
                fields.insert("sub".to_owned(), subject.as_str().into());
            }
            let assertion = key
                .sign(&claims, file.private_key_id.as_deref())
                .ok_or_else(no_random)?;
            let endpoint = TokenEndpoint {
                token_url: file.token_uri,
                ca: self.0.ca.clone(),
            };
            let fields: [(&str, &[u8]); 2] = [
                ("grant_type", JWT_BEARER.as_bytes()),
                ("assertion", assertion.expose()),
            ];
            let granted = ask(request.fetch.as_ref(), &endpoint, &fields, None).await?;
            Ok(Minted {
                expires: ends(now, granted.expires_in),
                parts: vec![token_part(&request, granted.access_token)],
                treatment: Treatment::Bearer,
                replacement: None,
            })
        })
    }
}

fn google() -> String {
    "https://oauth2.googleapis.com/token".to_owned()
}

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// As long as Google lets an assertion live.
const LIVES: i64 = 3600;

#[cfg(test)]
mod tests;
