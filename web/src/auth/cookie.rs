//! The cookies of sessions, of browsers that were here before, of rounds to a sign-on provider and of what a form did: host-only, unreadable by scripts, sent by our own pages and links to them.

use axum::http::{HeaderMap, HeaderValue, header};

use crate::{api_error::Problem, app::App, pages::Done};

/// The session that the request carries, if it carries exactly one.
pub(crate) fn read(app: &App, headers: &HeaderMap) -> Option<String> {
    read_one(name(app), headers)
}

/// What this browser keeps of a round to the sign-on provider.
pub(crate) fn round(app: &App, headers: &HeaderMap) -> Option<String> {
    read_one(round_name(app), headers)
}

/// What this browser keeps of having been here before.
pub(crate) fn device(app: &App, headers: &HeaderMap) -> Option<String> {
    read_one(device_name(app), headers)
}

/// The header that has a browser keep that for so many seconds.
pub(crate) fn set_device(app: &App, text: &str, seconds: i64) -> Result<HeaderValue, Problem> {
    header(app, device_name(app), text, &format!("; Max-Age={seconds}"))
}

/// What a form did, which the next page tells.
pub(crate) fn done(app: &App, headers: &HeaderMap) -> Option<Done> {
    Done::of_word(&read_one(done_name(app), headers)?)
}

/// The header that has a browser keep it until then.
pub(crate) fn set_done(app: &App, done: Done) -> Result<HeaderValue, Problem> {
    header(app, done_name(app), done.word(), "; Max-Age=60")
}

/// The header that has it told once.
pub(crate) fn clear_done(app: &App) -> Result<HeaderValue, Problem> {
    header(app, done_name(app), "", "; Max-Age=0")
}

fn read_one(name: &str, headers: &HeaderMap) -> Option<String> {
    let mut found = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned());
    let first = found.next();
    // Two of them: somebody planted one.
    first.filter(|_| found.next().is_none())
}

/// The header that gives a browser its session.
pub(crate) fn set(app: &App, text: &str) -> Result<HeaderValue, Problem> {
    header(app, name(app), text, "")
}

/// The header that has a browser keep a round to the sign-on provider for so many seconds.
pub(crate) fn set_round(app: &App, text: &str, seconds: i64) -> Result<HeaderValue, Problem> {
    header(app, round_name(app), text, &format!("; Max-Age={seconds}"))
}

/// The header that ends it: it is of use once.
pub(crate) fn clear_round(app: &App) -> Result<HeaderValue, Problem> {
    header(app, round_name(app), "", "; Max-Age=0")
}

/// The header that takes it away.
pub(crate) fn clear(app: &App) -> Result<HeaderValue, Problem> {
    header(app, name(app), "", "; Max-Age=0")
}

fn header(app: &App, name: &str, value: &str, end: &str) -> Result<HeaderValue, Problem> {
    let secure = if app.is_tls() { "; Secure" } else { "" };
    // Lax, so that a link in a message opens signed in; requests that change something are checked by
    // their origin (`origin`).
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{end}");
    HeaderValue::try_from(text).map_err(Problem::internal)
}

/// `__Host-` binds it to this host and TLS (RFC 6265bis); browsers refuse it without.
fn name(app: &App) -> &'static str {
    if app.is_tls() { "__Host-gig" } else { "gig" }
}

fn round_name(app: &App) -> &'static str {
    if app.is_tls() {
        "__Host-gig-sso"
    } else {
        "gig-sso"
    }
}

fn device_name(app: &App) -> &'static str {
    if app.is_tls() {
        "__Host-gig-known"
    } else {
        "gig-known"
    }
}

fn done_name(app: &App) -> &'static str {
    if app.is_tls() {
        "__Host-gig-done"
    } else {
        "gig-done"
    }
}
