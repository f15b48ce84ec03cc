//! Getting a token and keeping it.

use serde::Serialize;

use super::{
    Auth, Hashicorp, Session, TOKEN,
    answer::{self, Granted},
};
use crate::{
    fetch::{FetchAnswer, FetchMethod},
    provider::{ProvideError, ProvideRequest},
    secret_bytes::SecretBytes,
};

#[derive(Serialize)]
struct AppRole<'a> {
    role_id: &'a str,
    secret_id: &'a str,
}

#[derive(Serialize)]
struct Kubernetes<'a> {
    role: &'a str,
    jwt: &'a str,
}

impl Hashicorp {
    pub(super) async fn log_in(
        &self,
        request: ProvideRequest<'_>,
    ) -> Result<Session, ProvideError> {
        let (mount, body) = match &self.options.auth {
            Auth::Token(credential) => {
                let token = credential.read(&self.reader).await?;
                // A token of one's own: how long it is good is its owner's business.
                return Ok(Session::new(token, 0, false, request.clock.now()));
            }
            Auth::Approle {
                role_id,
                secret_id,
                mount,
            } => {
                let secret_id = secret_id.read(&self.reader).await?;
                let secret_id = text(&secret_id)?;
                (mount, json(&AppRole { role_id, secret_id })?)
            }
            Auth::Kubernetes {
                role,
                token_file,
                mount,
            } => {
                // The kubelet replaces the file: it is read each time.
                let file = super::Credential::File(token_file.clone());
                let jwt = file.read(&self.reader).await?;
                let jwt = text(&jwt)?;
                (mount, json(&Kubernetes { role, jwt })?)
            }
        };
        let path = format!("auth/{mount}/login");
        let fetch = self.request(FetchMethod::Post, &path).await?;
        let answer = self.send(request, fetch.body(JSON, body)).await?;
        self.granted(request, &answer, &path)
    }

    pub(super) async fn renew(
        &self,
        request: ProvideRequest<'_>,
        token: &SecretBytes,
    ) -> Result<Session, ProvideError> {
        let path = "auth/token/renew-self";
        let fetch = self.request(FetchMethod::Post, path).await?;
        let fetch = fetch.header(TOKEN, token.duplicate()).body(JSON, "{}");
        let answer = self.send(request, fetch).await?;
        self.granted(request, &answer, path)
    }

    fn granted(
        &self,
        request: ProvideRequest<'_>,
        answer: &FetchAnswer,
        place: &str,
    ) -> Result<Session, ProvideError> {
        if answer.status != 200 {
            return Err(answer::refusal(answer, place));
        }
        let Granted { auth } = answer::parse(answer)?;
        let token = auth.client_token.0;
        let now = request.clock.now();
        Ok(Session::new(
            token,
            auth.lease_duration,
            auth.renewable,
            now,
        ))
    }
}

fn text(value: &SecretBytes) -> Result<&str, ProvideError> {
    std::str::from_utf8(value.expose()).map_err(|_| {
        ProvideError::Unavailable("the credential for the key store is no text".to_owned())
    })
}

fn json(body: &impl Serialize) -> Result<SecretBytes, ProvideError> {
    serde_json::to_vec(body)
        .map(SecretBytes::new)
        .map_err(|_| ProvideError::Unavailable("the credential cannot be sent".to_owned()))
}

const JSON: &str = "application/json";
