//! How a client shows a token endpoint who it is (RFC 6749 §2.3, RFC 7523 §2.2).

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{TokenEndpoint, token_endpoint::escape};
use crate::{
    kind::{MintError, MintRequest, UnusableValueError, jwt::SigningKey},
    secret_bytes::SecretBytes,
};

/// Who the client is, and how it shows so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientDefinition {
    /// Its identifier; no secret.
    pub client_id: String,
    /// How it authenticates.
    #[serde(default)]
    pub authentication: Authentication,
    /// `kid` of the assertions, for `private_key_jwt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// `aud` of the assertions, for `private_key_jwt`; the token endpoint's URL when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assertion_audience: Option<String>,
}

/// RFC 6749 §2.3.1, RFC 7523, OpenID Connect Core §9.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// In an `Authorization` field: what RFC 6749 recommends.
    #[default]
    ClientSecretBasic,
    /// In the form.
    ClientSecretPost,
    /// An assertion signed with a private key; the stored value is that key in PEM.
    PrivateKeyJwt,
    /// Not at all: a public client.
    None,
}

/// What a client adds to its question.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) fields: Vec<(&'static str, SecretBytes)>,
    pub(super) authorization: Option<SecretBytes>,
}

impl ClientDefinition {
    /// Whether `secret` can be its secret.
    pub(super) fn check(
        &self,
        secret: &SecretBytes,
        kind: &'static str,
    ) -> Result<(), UnusableValueError> {
        let expected = match self.authentication {
            Authentication::PrivateKeyJwt => match SigningKey::from_pem(secret) {
                Ok(_) => return Ok(()),
                Err(error) => error.to_string(),
            },
            Authentication::None => return Ok(()),
            Authentication::ClientSecretBasic | Authentication::ClientSecretPost => {
                if !secret.is_empty() {
                    return Ok(());
                }
                "it has to be the client's secret".to_owned()
            }
        };
        Err(UnusableValueError { kind, expected })
    }

    /// Shows who it is.
    pub(super) fn show(
        &self,
        secret: &SecretBytes,
        endpoint: &TokenEndpoint,
        request: &MintRequest<'_>,
    ) -> Result<Shown, MintError> {
        let mut shown = Shown::default();
        match self.authentication {
            Authentication::ClientSecretBasic => {
                shown.authorization = Some(basic(self.client_id.as_bytes(), secret));
            }
            Authentication::ClientSecretPost => {
                shown
                    .fields
                    .push(("client_id", self.client_id.as_str().into()));
                shown.fields.push(("client_secret", secret.duplicate()));
            }
            Authentication::None => {
                shown
                    .fields
                    .push(("client_id", self.client_id.as_str().into()));
            }
            Authentication::PrivateKeyJwt => {
                shown
                    .fields
                    .push(("client_id", self.client_id.as_str().into()));
                shown
                    .fields
                    .push(("client_assertion_type", JWT_BEARER.into()));
                let assertion = self.assertion(secret, endpoint, request)?;
                shown.fields.push(("client_assertion", assertion));
            }
        }
        Ok(shown)
    }

    fn assertion(
        &self,
        key: &SecretBytes,
        endpoint: &TokenEndpoint,
        request: &MintRequest<'_>,
    ) -> Result<SecretBytes, MintError> {
        let key = SigningKey::from_pem(key).map_err(|error| UnusableValueError {
            kind: "private_key_jwt",
            expected: error.to_string(),
        })?;
        let now = request.clock.now().as_second();
        let audience = self.assertion_audience.as_ref();
        let claims = json!({
            "iss": self.client_id, "sub": self.client_id,
            "aud": audience.unwrap_or(&endpoint.token_url),
            "iat": now, "exp": now.saturating_add(ASSERTION_LIVES), "jti": identifier()?,
        });
        key.sign(&claims, self.key_id.as_deref())
            .ok_or_else(no_random)
    }
}

/// RFC 6749 §2.3.1: both halves are escaped as in a form before they are joined.
fn basic(id: &[u8], secret: &SecretBytes) -> SecretBytes {
    let length = 3 * (id.len() + secret.len()) + 1;
    let mut pair = zeroize::Zeroizing::new(Vec::with_capacity(length));
    escape(id, &mut pair);
    pair.push(b':');
    escape(secret.expose(), &mut pair);
    let mut field = String::with_capacity(BASIC.len() + pair.len().div_ceil(3) * 4);
    field.push_str(BASIC);
    STANDARD.encode_string(&*pair, &mut field);
    SecretBytes::new(field.into_bytes())
}

/// An identifier that no assertion had before (RFC 7519 §4.1.7).
fn identifier() -> Result<String, MintError> {
    let mut octets = [0; 16];
    aws_lc_rs::rand::fill(&mut octets).map_err(|_| no_random())?;
    Ok(octets.iter().map(|octet| format!("{octet:02x}")).collect())
}

pub(in crate::kind) fn no_random() -> MintError {
    MintError::Service {
        service: "this machine".to_owned(),
        why: "it gives no random numbers".to_owned(),
    }
}

const BASIC: &str = "Basic ";
const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// Used at once; a clock that is a minute off still takes it.
const ASSERTION_LIVES: i64 = 300;
