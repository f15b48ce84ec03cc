//! `aws`: an AWS access key; the border signs in the program's place.
//!
//! The stored value is JSON as `aws configure export-credentials` and every `credential_process` print
//! it (`AccessKeyId`, `SecretAccessKey`, `SessionToken`, `Expiration`), or
//! `AKIA…:secret` with `:session-token` after it where there is one. The program holds sentinels for
//! all of them and signs with those; what it signed is checked and signed again at the border.
//!
//! A secret named `AWS_ACCESS_KEY_ID` gives every SDK what it looks for: `X_ACCESS_KEY_ID` comes with
//! `X_SECRET_ACCESS_KEY` and `X_SESSION_TOKEN`. Any other `NAME` comes with `NAME_SECRET_ACCESS_KEY` and
//! `NAME_SESSION_TOKEN`.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Kind, MintFuture, MintRequest, Minted, UnusableValueError, secret_text::SecretText};
use crate::{
    secret::{AwsScope, Part, Shape, Treatment},
    secret_bytes::SecretBytes,
    shape::Alphabet,
};

/// Its options; none are needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AwsDefinition {
    /// Regions that requests are signed for; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<String>,
    /// Services that requests are signed for, such as `s3`; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// Requests are signed for whose answers are credentials that work (STS, sessions of S3 Express):
    /// the program holds those. Shown as a warning everywhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hands_out: bool,
}

/// The kind.
#[derive(Debug, Clone)]
pub struct Aws(pub AwsDefinition);

struct Keys {
    id: SecretBytes,
    secret: SecretBytes,
    token: Option<SecretBytes>,
    expires: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Exported {
    access_key_id: SecretText,
    secret_access_key: SecretText,
    #[serde(default)]
    session_token: Option<SecretText>,
    #[serde(default)]
    expiration: Option<Timestamp>,
}

impl Aws {
    fn keys(&self, value: &SecretBytes) -> Result<Keys, UnusableValueError> {
        let octets = value.expose().trim_ascii();
        let keys = if octets.starts_with(b"{") {
            exported(octets)
        } else {
            joined(octets)
        };
        keys.filter(|keys| is_key_id(keys.id.expose()) && !keys.secret.is_empty())
            .ok_or_else(|| UnusableValueError {
                kind: self.name(),
                expected: "it has to be KEYID:SECRET, KEYID:SECRET:TOKEN, or the JSON that `aws \
                           configure export-credentials` prints"
                    .to_owned(),
            })
    }
}

fn exported(octets: &[u8]) -> Option<Keys> {
    let exported: Exported = serde_json::from_slice(octets).ok()?;
    Some(Keys {
        id: exported.access_key_id.0,
        secret: exported.secret_access_key.0,
        token: exported.session_token.map(|text| text.0),
        expires: exported.expiration,
    })
}

fn joined(octets: &[u8]) -> Option<Keys> {
    let mut fields = octets.splitn(3, |octet| *octet == b':');
    let (id, secret, token) = (fields.next()?, fields.next()?, fields.next());
    Some(Keys {
        id: SecretBytes::copy_of(id),
        secret: SecretBytes::copy_of(secret),
        token: token
            .filter(|token| !token.is_empty())
            .map(SecretBytes::copy_of),
        expires: None,
    })
}

/// IAM: 16 to 128 characters; in use are upper-case letters and digits, 20 in all.
fn is_key_id(id: &[u8]) -> bool {
    (16..=128).contains(&id.len()) && id.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_')
}

impl Kind for Aws {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn check(&self, value: &SecretBytes) -> Result<(), UnusableValueError> {
        self.keys(value).map(drop)
    }

    fn ends(&self, value: &SecretBytes) -> Option<Timestamp> {
        self.keys(value).ok()?.expires
    }

    fn hands_out(&self) -> bool {
        self.0.hands_out
    }

    fn guards(&self, part: usize) -> bool {
        part > 0
    }

    fn watched_parts(&self, value: &SecretBytes) -> Vec<(Option<usize>, SecretBytes)> {
        let Ok(keys) = self.keys(value) else {
            return vec![(None, value.duplicate())];
        };
        // As they are minted below.
        let parts = std::iter::once(keys.secret).chain(keys.token);
        (1..).map(Some).zip(parts).collect()
    }

    fn mint<'a>(&'a self, request: MintRequest<'a>) -> MintFuture<'a> {
        Box::pin(async move {
            let keys = self.keys(request.value)?;
            let name = request.name.as_str();
            let base = name.strip_suffix("_ACCESS_KEY_ID").unwrap_or(name);
            // Clients look at the first four letters: AKIA lasts, ASIA comes with a session token.
            let prefix = if keys.token.is_some() { "ASIA" } else { "AKIA" };
            let mut parts = vec![
                Part {
                    variable: Arc::clone(request.name.shared()),
                    value: keys.id,
                    shape: like(prefix, 16, Alphabet::Base32),
                },
                Part {
                    variable: format!("{base}_SECRET_ACCESS_KEY").into(),
                    value: keys.secret,
                    shape: like("", 40, Alphabet::Alphanumeric),
                },
            ];
            parts.extend(keys.token.map(|token| Part {
                variable: format!("{base}_SESSION_TOKEN").into(),
                value: token,
                shape: Shape::Plain,
            }));
            Ok(Minted {
                parts,
                treatment: Treatment::Aws(Arc::new(AwsScope {
                    regions: self.0.regions.clone(),
                    services: self.0.services.clone(),
                    hands_out: self.0.hands_out,
                })),
                expires: keys.expires,
                replacement: None,
            })
        })
    }
}

fn like(prefix: &str, length: usize, alphabet: Alphabet) -> Shape {
    Shape::Like {
        prefix: prefix.to_owned(),
        length,
        alphabet: alphabet.characters().to_owned(),
    }
}

#[cfg(test)]
mod tests;
