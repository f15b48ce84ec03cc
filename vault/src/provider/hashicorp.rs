//! `hashicorp`: HashiCorp Vault and OpenBao, key-value engine version 2.
//!
//! Logs in by token, `AppRole` or Kubernetes, renews its token when half of its time is over, logs in
//! again when the server no longer takes it, and reads one field of one path. A token that it was given
//! is its owner's to renew or to exchange: it is read again when the server no longer takes it. Follows the HTTP API as
//! documented (`auth/approle`, `auth/kubernetes`, `auth/token`, `secret/kv/kv-v2`).

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::{
    ProvideError, ProvideFuture, ProvideRequest, Provided, Provider, lifetime, reading::Reader,
    without_line_end,
};
use crate::{
    clock::after,
    fetch::{FetchAnswer, FetchMethod, FetchRequest},
    secret_bytes::SecretBytes,
    vault::LARGEST,
};

mod answer;
mod login;

/// Options of `hashicorp`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashicorpOptions {
    /// Such as `https://vault.example:8200`.
    pub address: String,
    /// Where the key-value engine is mounted; `secret` when left out.
    #[serde(default = "secret_mount")]
    pub mount: String,
    /// Of the secret below the mount.
    pub path: String,
    /// Of its fields, which one; `value` when left out.
    #[serde(default = "value_field")]
    pub field: String,
    /// Namespace, where the server has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// PEM file of the roots that the server's certificate may come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// How gig shows who it is.
    pub auth: Auth,
    /// Seconds after which it is read again; 60 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
    /// The line end after the value belongs to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_newline: bool,
}

/// How gig shows who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Auth {
    /// By a token that is there.
    Token(Credential),
    /// By role and secret id.
    Approle {
        /// The role's id.
        role_id: String,
        /// Where the secret id is.
        secret_id: Credential,
        /// Where the method is mounted; `approle` when left out.
        #[serde(default = "approle_mount")]
        mount: String,
    },
    /// By the service account of the pod.
    Kubernetes {
        /// The role.
        role: String,
        /// Where the service account's token is; the usual place when left out.
        #[serde(default = "service_account")]
        token_file: PathBuf,
        /// Where the method is mounted; `kubernetes` when left out.
        #[serde(default = "kubernetes_mount")]
        mount: String,
    },
}

/// Where a credential for the server is. It is read when it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Credential {
    /// In a file.
    File(PathBuf),
    /// In a variable of gig's own environment.
    Env(String),
}

/// The provider; holds the token of its session.
#[derive(Debug)]
pub(super) struct Hashicorp {
    options: HashicorpOptions,
    session: Mutex<Option<Session>>,
    reader: Reader,
}

/// A token and how long it is good.
#[derive(Debug)]
struct Session {
    token: Arc<SecretBytes>,
    renewable: bool,
    /// Half of its time; `None` when it does not end.
    renew_at: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl HashicorpOptions {
    /// What is wrong with them.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let plain = |text: &str| {
            !text.is_empty()
                && text.split('/').all(|part| !matches!(part, "" | "." | ".."))
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b))
        };
        let http = ["https://", "http://"];
        if !http.iter().any(|scheme| self.address.starts_with(scheme)) {
            return Err("has a hashicorp address that is no https:// (or http://) URL");
        }
        let mount = match &self.auth {
            Auth::Token(_) => "token",
            Auth::Approle { mount, .. } | Auth::Kubernetes { mount, .. } => mount,
        };
        if [self.mount.as_str(), self.path.as_str(), mount]
            .into_iter()
            .all(plain)
        {
            return Ok(());
        }
        Err("has a hashicorp mount or path with other characters than letters, digits, - _ . and /")
    }
}

impl Hashicorp {
    pub(super) fn new(options: &HashicorpOptions) -> Self {
        Self {
            options: options.clone(),
            session: Mutex::new(None),
            reader: Reader::default(),
        }
    }

    /// Reads the secret; logs in again once if the server no longer takes the token.
    async fn read(&self, request: ProvideRequest<'_>) -> Result<Provided, ProvideError> {
        let token = self.token(request).await?;
        let answer = self.get(request, &token).await?;
        if answer.status != 403 {
            return answer::secret(&self.options, &answer);
        }
        self.forget(&token).await;
        let another = self.token(request).await?;
        if another == token {
            // The file still holds it: it may have become good again, or another, when this is next asked.
            self.forget(&another).await;
            return answer::secret(&self.options, &answer);
        }
        let answer = self.get(request, &another).await?;
        answer::secret(&self.options, &answer)
    }

    async fn get(
        &self,
        request: ProvideRequest<'_>,
        token: &SecretBytes,
    ) -> Result<FetchAnswer, ProvideError> {
        let (mount, path) = (&self.options.mount, &self.options.path);
        let path = format!("{mount}/data/{path}");
        let fetch = self.request(FetchMethod::Get, &path).await?;
        self.send(request, fetch.header(TOKEN, token.duplicate()))
            .await
    }

    /// A token that the server takes: the one there is, renewed at half of its time, or a new one. Who
    /// comes meanwhile waits for the same one.
    async fn token(&self, request: ProvideRequest<'_>) -> Result<Arc<SecretBytes>, ProvideError> {
        let mut session = self.session.lock().await;
        let now = request.clock.now();
        let past = |at: Option<Timestamp>| at.is_some_and(|at| now >= at);
        if let Some(there) = session.take_if(|there| past(there.until)) {
            drop(there);
        }
        if let Some(there) = session.as_ref() {
            if !past(there.renew_at) {
                return Ok(Arc::clone(&there.token));
            }
            let renewed = if there.renewable {
                self.renew(request, &there.token).await
            } else {
                self.log_in(request).await
            };
            match renewed {
                Ok(renewed) => *session = Some(renewed),
                // It is good for as long as it has; the next read tries again.
                Err(error) => tracing::warn!(%error, "the token of the key store is not renewed"),
            }
        }
        if let Some(there) = session.as_ref() {
            return Ok(Arc::clone(&there.token));
        }
        let fresh = self.log_in(request).await?;
        let token = Arc::clone(&fresh.token);
        *session = Some(fresh);
        Ok(token)
    }

    async fn forget(&self, token: &Arc<SecretBytes>) {
        let mut session = self.session.lock().await;
        // Another waiter may have logged in anew already.
        drop(session.take_if(|there| Arc::ptr_eq(&there.token, token)));
    }

    async fn request(&self, method: FetchMethod, path: &str) -> Result<FetchRequest, ProvideError> {
        let address = self.options.address.trim_end_matches('/');
        let mut request = FetchRequest::new(method, format!("{address}/v1/{path}"))
            // Vault's own protection of its API against forged requests by redirect.
            .header("x-vault-request", "true");
        if let Some(namespace) = &self.options.namespace {
            request = request.header("x-vault-namespace", namespace.as_str());
        }
        if let Some(file) = &self.options.ca_file {
            let pem = self.reader.read(file, LARGEST_BUNDLE).await;
            let pem = pem.map_err(ProvideError::Unavailable)?;
            request.roots = Some(pem.to_vec().into());
        }
        Ok(request)
    }

    async fn send(
        &self,
        request: ProvideRequest<'_>,
        fetch: FetchRequest,
    ) -> Result<FetchAnswer, ProvideError> {
        let answer = request.fetch.fetch(fetch).await;
        answer.map_err(|error| ProvideError::Unavailable(error.to_string()))
    }
}

impl Provider for Hashicorp {
    fn name(&self) -> &'static str {
        "hashicorp"
    }

    fn provide<'a>(&'a self, request: ProvideRequest<'a>) -> ProvideFuture<'a> {
        Box::pin(self.read(request))
    }
}

impl Credential {
    async fn read(&self, reader: &Reader) -> Result<SecretBytes, ProvideError> {
        let octets = match self {
            Self::Env(name) => crate::environment::var_os(name)
                .map(|value| SecretBytes::new(value.into_encoded_bytes()))
                .ok_or_else(|| format!("gig's own environment has no {name}")),
            Self::File(path) => {
                let octets = reader.read(path, LARGEST).await;
                octets.map(|octets| SecretBytes::copy_of(&octets))
            }
        };
        let value = without_line_end(octets.map_err(ProvideError::Unavailable)?);
        if value.is_empty() {
            return Err(ProvideError::Unavailable(
                "the credential for the key store is empty".to_owned(),
            ));
        }
        Ok(value)
    }
}

impl Session {
    /// From a token's time as the server says it; zero means no end.
    fn new(token: SecretBytes, seconds: u64, renewable: bool, now: Timestamp) -> Self {
        let whole = Duration::from_secs(seconds);
        let ends = (seconds > 0).then_some(whole);
        Self {
            token: Arc::new(token),
            renewable,
            renew_at: ends.map(|whole| after(now, whole / 2)),
            until: ends.map(|whole| after(now, whole)),
        }
    }
}

fn secret_mount() -> String {
    "secret".to_owned()
}

fn value_field() -> String {
    "value".to_owned()
}

fn approle_mount() -> String {
    "approle".to_owned()
}

fn kubernetes_mount() -> String {
    "kubernetes".to_owned()
}

fn service_account() -> PathBuf {
    "/var/run/secrets/kubernetes.io/serviceaccount/token".into()
}

const TOKEN: &str = "x-vault-token";
/// The roots of a system are a quarter of it.
const LARGEST_BUNDLE: usize = 1 << 20;

#[cfg(test)]
mod tests;
