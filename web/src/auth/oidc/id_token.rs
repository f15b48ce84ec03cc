//! An ID token (OpenID Connect Core 1.0, 3.1.3.7), checked before anything in it is believed.
//!
//! Pure: keys, expectations and the moment are handed in.

use std::collections::HashSet;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;
use thiserror::Error;

use super::keys::{Algorithm, Keys};

/// A token that nobody has checked yet.
#[derive(Debug)]
pub(super) struct Unchecked {
    algorithm: Algorithm,
    key: Option<String>,
    signed: String,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

/// What it must say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client: &'a str,
    pub(super) nonce: &'a str,
    pub(super) now: Timestamp,
}

/// What a checked token says.
#[derive(Debug)]
pub(super) struct Claims {
    /// Who it is, to this issuer.
    pub(super) subject: String,
    all: Map<String, Value>,
}

/// A token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum TokenRefused {
    /// It is no token.
    #[error("the ID token is malformed")]
    Malformed,
    /// Not one of those that are taken.
    #[error(
        "the ID token is signed by an algorithm that is not taken (RS256, ES256 and EdDSA are)"
    )]
    Algorithm,
    /// By no key of the provider.
    #[error("the ID token is not signed by the provider")]
    Signature,
    /// A claim is missing or says something else than it must.
    #[error("claim {0} of the ID token is missing or wrong")]
    Claim(&'static str),
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl Unchecked {
    /// Reads the form of a token.
    ///
    /// # Errors
    /// [`TokenRefused`].
    pub(super) fn read(token: &str) -> Result<Self, TokenRefused> {
        let malformed = TokenRefused::Malformed;
        let mut parts = token.split('.');
        let (header, payload, signature) = match (parts.next(), parts.next(), parts.next()) {
            (Some(header), Some(payload), Some(signature)) if parts.next().is_none() => {
                (header, payload, signature)
            }
            _ => return Err(malformed),
        };
        let octets = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed);
        let said: Header = serde_json::from_slice(&octets(header)?).map_err(|_| malformed)?;
        let algorithm = Algorithm::named(&said.alg).ok_or(TokenRefused::Algorithm)?;
        // What it calls critical is not understood (RFC 7515 §4.1.11).
        if said.crit.is_some() {
            return Err(malformed);
        }
        Ok(Self {
            algorithm,
            key: said.kid,
            signed: format!("{header}.{payload}"),
            payload: octets(payload)?,
            signature: octets(signature)?,
        })
    }

    /// Whether these keys could tell.
    pub(super) fn is_of(&self, keys: &Keys) -> bool {
        keys.knows(self.key.as_deref(), self.algorithm)
    }

    /// Checks signature and claims.
    ///
    /// # Errors
    /// [`TokenRefused`].
    pub(super) fn check(
        &self,
        keys: &Keys,
        expected: &Expected<'_>,
    ) -> Result<Claims, TokenRefused> {
        let by = (self.key.as_deref(), self.algorithm);
        if !keys.signed(by, self.signed.as_bytes(), &self.signature) {
            return Err(TokenRefused::Signature);
        }
        let all: Map<String, Value> =
            serde_json::from_slice(&self.payload).map_err(|_| TokenRefused::Malformed)?;
        let text = |name: &'static str| {
            let found = all.get(name).and_then(Value::as_str);
            found.ok_or(TokenRefused::Claim(name))
        };
        if text("iss")? != expected.issuer {
            return Err(TokenRefused::Claim("iss"));
        }
        audience(&all, expected.client)?;
        times(&all, expected.now)?;
        let nonce = text("nonce")?.as_bytes();
        if !bool::from(nonce.ct_eq(expected.nonce.as_bytes())) {
            return Err(TokenRefused::Claim("nonce"));
        }
        // OpenID Connect Core, 2: at most 255 characters of ASCII.
        let subject = text("sub")?.to_owned();
        let plain = subject
            .bytes()
            .all(|octet| octet.is_ascii_graphic() || octet == b' ');
        if subject.is_empty() || subject.len() > 255 || !plain {
            return Err(TokenRefused::Claim("sub"));
        }
        Ok(Claims { subject, all })
    }
}

/// For this client; if for others too, or if it says for whom, then issued to this one.
fn audience(all: &Map<String, Value>, client: &str) -> Result<(), TokenRefused> {
    let (ours, others) = match all.get("aud") {
        Some(Value::String(one)) => (one == client, false),
        Some(Value::Array(several)) => (
            several.iter().any(|one| one.as_str() == Some(client)),
            several.len() > 1,
        ),
        _ => (false, false),
    };
    if !ours {
        return Err(TokenRefused::Claim("aud"));
    }
    match all.get("azp") {
        Some(party) if party.as_str() == Some(client) => Ok(()),
        None if !others => Ok(()),
        _ => Err(TokenRefused::Claim("azp")),
    }
}

fn times(all: &Map<String, Value>, now: Timestamp) -> Result<(), TokenRefused> {
    let time = |name: &'static str| {
        // RFC 7519 §2: a number, which may have a fraction.
        let seconds = all.get(name).and_then(|value| {
            let whole = value.as_i64();
            whole.or_else(|| value.as_f64().and_then(whole_seconds))
        });
        let at = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        at.ok_or(TokenRefused::Claim(name))
    };
    if now.duration_since(time("exp")?) >= SKEW {
        return Err(TokenRefused::Claim("exp"));
    }
    let age = now.duration_since(time("iat")?);
    if age < -SKEW || age > OLDEST {
        return Err(TokenRefused::Claim("iat"));
    }
    if all.contains_key("nbf") && now.duration_since(time("nbf")?) < -SKEW {
        return Err(TokenRefused::Claim("nbf"));
    }
    Ok(())
}

fn whole_seconds(seconds: f64) -> Option<i64> {
    let text = format!("{:.0}", seconds.trunc());
    text.parse().ok()
}

impl Claims {
    /// A claim that is a text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.all.get(name).and_then(Value::as_str)
    }

    /// The groups that a claim names: one text or a list of them; `None` where there is no such claim, as when it
    /// is too long for a token (`_claim_names`), or it is of another shape. Its name is taken as it is first, then
    /// as a path through objects: `realm_access.roles`.
    pub(super) fn groups(&self, claim: &str) -> Option<HashSet<&str>> {
        let by_path = || {
            let mut steps = claim.split('.');
            let first = self.all.get(steps.next()?)?;
            steps.try_fold(first, |value, step| value.get(step))
        };
        match self.all.get(claim).or_else(by_path) {
            Some(Value::String(one)) => Some(HashSet::from([one.as_str()])),
            Some(Value::Array(several)) => Some(several.iter().filter_map(Value::as_str).collect()),
            _ => None,
        }
    }
}

/// Clocks of two machines that both keep time differ by less.
const SKEW: SignedDuration = SignedDuration::from_secs(60);
/// It is fetched right after it was made.
const OLDEST: SignedDuration = SignedDuration::from_mins(10);

#[cfg(test)]
mod tests;
