//! One round to the provider and back, bound to the browser that began it.
//!
//! What must come back the same is kept in a cookie of that browser alone: `state`, which no other site
//! can make it present, `nonce`, which ties the token to this round, and the PKCE verifier, without which
//! a code that somebody saw is worth nothing. No node remembers it: any of a fleet may finish what another
//! began. It ends after ten minutes and with its first use; another round, or an answer to none, ends it not.

use axum::http::{HeaderMap, HeaderValue};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::{api_error::Problem, app::App, auth::cookie, credential::NoRandomness};

/// What the browser keeps meanwhile.
#[derive(Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) state: String,
    pub(super) nonce: String,
    pub(super) verifier: String,
    /// Where to go on to: a path of our own.
    pub(super) next: String,
    begun: i64,
}

impl Round {
    pub(super) fn begin(next: &str, now: Timestamp) -> Result<Self, NoRandomness> {
        Ok(Self {
            state: random()?,
            nonce: random()?,
            verifier: random()?,
            // A longer one would not fit a cookie; quotation marks are two octets there.
            next: if next.len() + next.matches('"').count() <= LONGEST_PATH {
                next
            } else {
                "/"
            }
            .to_owned(),
            begun: now.as_second(),
        })
    }

    /// RFC 7636 §4.2.
    pub(super) fn challenge(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }

    /// The header that has the browser keep it.
    pub(super) fn kept(&self, app: &App) -> Result<HeaderValue, Problem> {
        let text = Zeroizing::new(serde_json::to_vec(self).map_err(Problem::internal)?);
        let text = Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(&*text));
        cookie::set_round(app, (&self.state, &text), LASTS.as_secs())
    }

    /// The one that this browser began and that has this state, if it is not over.
    pub(super) fn of(app: &App, headers: &HeaderMap, state: &str, now: Timestamp) -> Option<Self> {
        let text = BASE64_URL_SAFE_NO_PAD.decode(cookie::round(app, headers, state)?);
        let round: Self = serde_json::from_slice(&Zeroizing::new(text.ok()?)).ok()?;
        let same = bool::from(round.state.as_bytes().ct_eq(state.as_bytes()));
        let age = now.as_second().checked_sub(round.begun)?;
        let in_time = (0..=LASTS.as_secs()).contains(&age);
        (same && in_time).then_some(round)
    }
}

/// 256 bits.
fn random() -> Result<String, NoRandomness> {
    let mut octets = Zeroizing::new([0_u8; 32]);
    aws_lc_rs::rand::fill(octets.as_mut()).map_err(|_| NoRandomness)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(*octets))
}

/// Somebody may have to find their second factor.
const LASTS: SignedDuration = SignedDuration::from_mins(10);
/// With those of other rounds it fits a line of what stands in front, 8 KiB as a rule.
const LONGEST_PATH: usize = 600;
