//! One question to a token endpoint, and its answer (RFC 6749 §5).

use serde::Deserialize;

use super::TokenEndpoint;
use crate::{
    fetch::{Fetch, FetchAnswer, FetchError, FetchMethod, FetchRequest},
    kind::{MintError, secret_text::SecretText},
    secret_bytes::SecretBytes,
};

/// What the endpoint gave.
#[derive(Debug)]
pub(in crate::kind) struct Granted {
    /// The access token.
    pub(in crate::kind) access_token: SecretBytes,
    /// How many seconds it lives, where the endpoint says so.
    pub(in crate::kind) expires_in: Option<u64>,
    /// A refresh token that replaces the one used (RFC 6749 §6).
    pub(in crate::kind) refresh_token: Option<SecretBytes>,
}

/// `access_token`, `expires_in`, `refresh_token`; what else an endpoint says is not used.
#[derive(Deserialize)]
struct Success {
    access_token: SecretText,
    #[serde(default)]
    expires_in: Option<Seconds>,
    #[serde(default)]
    refresh_token: Option<SecretText>,
}

/// Some endpoints write numbers as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(u64),
    Fraction(f64),
    Text(String),
}

#[derive(Deserialize)]
struct Failure {
    error: String,
}

/// Asks `endpoint` with a form of `fields`.
///
/// # Errors
/// When it refuses, or does not answer as RFC 6749 has it.
pub(in crate::kind) async fn ask(
    fetch: &dyn Fetch,
    endpoint: &TokenEndpoint,
    fields: &[(&str, &[u8])],
    authorization: Option<SecretBytes>,
) -> Result<Granted, MintError> {
    let mut request = FetchRequest::new(FetchMethod::Post, endpoint.token_url.as_str())
        .header("accept", "application/json")
        .body("application/x-www-form-urlencoded", form(fields));
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    request.roots = endpoint.roots();
    let answer = fetch.fetch(request).await.map_err(unreachable)?;
    granted(&answer, endpoint)
}

fn granted(answer: &FetchAnswer, endpoint: &TokenEndpoint) -> Result<Granted, MintError> {
    let service = || format!("the token endpoint {}", endpoint.token_url);
    if answer.status != 200 {
        return Err(refused(answer, service()));
    }
    let success: Success =
        serde_json::from_slice(answer.body.expose()).map_err(|_| MintError::Service {
            service: service(),
            why: "its answer holds no access_token".to_owned(),
        })?;
    Ok(Granted {
        access_token: success.access_token.0,
        expires_in: success.expires_in.and_then(Seconds::whole),
        refresh_token: success.refresh_token.map(|text| text.0),
    })
}

/// RFC 6749 §5.2: what the endpoint says of the credential is final, everything else may pass.
pub(in crate::kind) fn refused(answer: &FetchAnswer, service: String) -> MintError {
    let status = answer.status;
    let error = serde_json::from_slice::<Failure>(answer.body.expose()).ok();
    // Only words of the registry are shown: what else is in an answer may hold anything.
    let known = error.and_then(|failure| {
        let mut words = FINAL.iter().chain(&PASSING);
        words.find(|word| **word == failure.error).copied()
    });
    let why = known.map_or_else(
        || format!("status {status}"),
        |word| format!("{word} (status {status})"),
    );
    let is_final = match known {
        Some(word) => FINAL.contains(&word),
        None => matches!(status, 400 | 401 | 403 | 404),
    };
    if is_final {
        MintError::Refused { service, why }
    } else {
        MintError::Service { service, why }
    }
}

pub(in crate::kind) fn unreachable(error: FetchError) -> MintError {
    let (FetchError::Request { host, .. }
    | FetchError::Connect { host, .. }
    | FetchError::Exchange { host, .. }
    | FetchError::Slow { host, .. }
    | FetchError::Large { host, .. }) = &error;
    MintError::Service {
        service: host.clone(),
        why: error.to_string(),
    }
}

impl Seconds {
    fn whole(self) -> Option<u64> {
        match self {
            Self::Number(seconds) => Some(seconds),
            Self::Fraction(seconds) => format!("{:.0}", seconds.max(0.0).floor()).parse().ok(),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// A form body (WHATWG URL §5.2).
pub(super) fn form(fields: &[(&str, &[u8])]) -> SecretBytes {
    // Room for all of it escaped: what grows leaves copies behind.
    let lengths = fields.iter().map(|(name, value)| name.len() + value.len());
    let mut body = Vec::with_capacity(lengths.map(|length| 3 * length + 2).sum());
    for (name, value) in fields {
        if !body.is_empty() {
            body.push(b'&');
        }
        escape(name.as_bytes(), &mut body);
        body.push(b'=');
        escape(value, &mut body);
    }
    SecretBytes::new(body)
}

/// What stands in a form: letters, digits and `-._*`, everything else escaped.
pub(super) fn escape(octets: &[u8], out: &mut Vec<u8>) {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
    for octet in octets {
        match octet {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'*' => {
                out.push(*octet);
            }
            b' ' => out.push(b'+'),
            _ => out.extend([b'%', digit(octet >> 4), digit(octet & 15)]),
        }
    }
}

/// RFC 6749 §5.2: the same question gets the same answer.
const FINAL: [&str; 7] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "access_denied",
];
/// RFC 6749 §4.1.2.1, RFC 8628 §3.5: another time, perhaps.
const PASSING: [&str; 4] = [
    "server_error",
    "temporarily_unavailable",
    "slow_down",
    "authorization_pending",
];
