//! `github_app`: a GitHub App's installation token, for an hour at a time.
//!
//! The stored value is the App's private key in PEM, as GitHub hands it out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Kind, MintError, MintFuture, MintRequest, Minted, UnusableValueError,
    jwt::SigningKey,
    oauth2::{no_random, refused, token_part, unreachable},
    secret_text::SecretText,
};
use crate::{
    fetch::{FetchMethod, FetchRequest},
    secret::Treatment,
    secret_bytes::SecretBytes,
};

/// Its options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GithubAppDefinition {
    /// The App's client id or numeric id.
    pub app_id: String,
    /// Whose repositories: the number in the installation's URL.
    pub installation_id: u64,
    /// The API; for GitHub Enterprise Server `https://HOST/api/v3`.
    #[serde(default = "github")]
    pub api_url: String,
    /// Only these repositories of the installation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<String>,
    /// Only these permissions, such as `contents: read`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub permissions: BTreeMap<String, String>,
    /// PEM roots to trust for it, instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

/// The kind.
#[derive(Debug, Clone)]
pub struct GithubApp(pub GithubAppDefinition);

#[derive(Deserialize)]
struct Answer {
    token: SecretText,
    expires_at: Timestamp,
}

impl GithubApp {
    fn key(&self, value: &SecretBytes) -> Result<SigningKey, UnusableValueError> {
        match SigningKey::from_pem(value) {
            Ok(key @ SigningKey::Rsa(_)) => Ok(key),
            Ok(SigningKey::P256(_)) => Err(self.unusable("GitHub takes RSA keys alone")),
            Err(error) => Err(self.unusable(&error.to_string())),
        }
    }

    fn unusable(&self, expected: &str) -> UnusableValueError {
        UnusableValueError {
            kind: self.name(),
            expected: expected.to_owned(),
        }
    }

    fn question(&self, request: &MintRequest<'_>) -> Result<FetchRequest, MintError> {
        let options = &self.0;
        let now = request.clock.now().as_second();
        let claims = json!({
            "iss": options.app_id,
            "iat": now.saturating_sub(SKEW),
            "exp": now.saturating_add(LIVES),
        });
        let key = self.key(request.value)?;
        let assertion = key.sign(&claims, None).ok_or_else(no_random)?;
        let bearer = [b"Bearer ", assertion.expose()].concat();
        let base = options.api_url.trim_end_matches('/');
        let number = options.installation_id;
        let url = format!("{base}/app/installations/{number}/access_tokens");
        let mut question = FetchRequest::new(FetchMethod::Post, url)
            .header("authorization", bearer)
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28")
            .body("application/json", self.narrowed().to_string().into_bytes());
        question.roots = options.ca.as_ref().map(|pem| pem.as_bytes().into());
        Ok(question)
    }

    fn narrowed(&self) -> Value {
        let mut body = serde_json::Map::new();
        if !self.0.repositories.is_empty() {
            body.insert("repositories".to_owned(), json!(self.0.repositories));
        }
        if !self.0.permissions.is_empty() {
            body.insert("permissions".to_owned(), json!(self.0.permissions));
        }
        body.into()
    }
}

impl Kind for GithubApp {
    fn name(&self) -> &'static str {
        "github_app"
    }

    fn check(&self, value: &SecretBytes) -> Result<(), UnusableValueError> {
        self.key(value).map(drop)
    }

    fn may_be_entrusted(&self) -> bool {
        false
    }

    fn is_minted(&self) -> bool {
        true
    }

    fn mint<'a>(&'a self, request: MintRequest<'a>) -> MintFuture<'a> {
        Box::pin(async move {
            let question = self.question(&request)?;
            let service = || format!("GitHub at {}", self.0.api_url);
            let answer = request.fetch.fetch(question).await.map_err(unreachable)?;
            if answer.status != 201 {
                return Err(refused(&answer, service()));
            }
            let minted: Answer =
                serde_json::from_slice(answer.body.expose()).map_err(|_| MintError::Service {
                    service: service(),
                    why: "its answer holds no token with an end".to_owned(),
                })?;
            Ok(Minted {
                parts: vec![token_part(&request, minted.token.0)],
                treatment: Treatment::Bearer,
                expires: Some(minted.expires_at),
                replacement: None,
            })
        })
    }
}

fn github() -> String {
    "https://api.github.com".to_owned()
}

/// GitHub advises to date the assertion back, for clocks that differ.
const SKEW: i64 = 60;
/// GitHub takes ten minutes at most.
const LIVES: i64 = 540;

#[cfg(test)]
mod tests;
