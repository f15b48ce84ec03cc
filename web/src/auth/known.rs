//! Browsers that somebody signed in with before: each has tries of its own, so that no stranger who guesses
//! at a name keeps its owner out (OWASP, device cookies).
//!
//! What a browser keeps is signed and bound to the name: it proves nothing but that somebody signed in here
//! under that name, gives nobody a session, and has no more tries than a stranger has.

use aws_lc_rs::hmac;
use axum::http::HeaderMap;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::SignedDuration;

use super::cookie;
use crate::{api_error::Problem, app::App};

/// The browser's id, where it was here before under this name.
pub(crate) async fn device(app: &App, headers: &HeaderMap, name: &str) -> Option<String> {
    let text = cookie::device(app, headers)?;
    let (plain, tag) = text.split_once('.')?;
    let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).ok()?;
    let key = key(app).await.ok()?;
    hmac::verify(&key, &bound(plain, name), &tag).ok()?;
    let octets = BASE64_URL_SAFE_NO_PAD.decode(plain).ok()?;
    let (until, _id) = octets.split_first_chunk::<8>()?;
    (app.now().as_second() < i64::from_be_bytes(*until)).then(|| plain.to_owned())
}

/// What this browser is to keep.
pub(crate) async fn remembered(app: &App, name: &str) -> Result<(String, i64), Problem> {
    let mut octets = app
        .now()
        .checked_add(REMEMBERED)
        .map_err(Problem::internal)?
        .as_second()
        .to_be_bytes()
        .to_vec();
    let mut id = [0; 16];
    aws_lc_rs::rand::fill(&mut id).map_err(Problem::internal)?;
    octets.extend_from_slice(&id);
    let plain = BASE64_URL_SAFE_NO_PAD.encode(octets);
    let tag = hmac::sign(&key(app).await?, &bound(&plain, name));
    let tag = BASE64_URL_SAFE_NO_PAD.encode(tag.as_ref());
    Ok((format!("{plain}.{tag}"), REMEMBERED.as_secs()))
}

/// The same on every node.
async fn key(app: &App) -> Result<hmac::Key, Problem> {
    let mut fresh = [0; 32];
    aws_lc_rs::rand::fill(&mut fresh).map_err(Problem::internal)?;
    let kept = app.ask(move |store| store.device_key(&fresh)).await?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &kept))
}

/// The first part has no zero octet.
fn bound(plain: &str, name: &str) -> Vec<u8> {
    let name = name.to_ascii_lowercase();
    ["gig device", plain, &name].join("\0").into_bytes()
}

/// Who was away for longer has the tries of a stranger.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(180 * 24);
