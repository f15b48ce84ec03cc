//! The cookies of sessions, of browsers that were here before, of rounds to a sign-on provider and of what a form did: host-only, unreadable by scripts, sent by our own pages and links to them.

use std::io;

use axum::http::{HeaderMap, HeaderValue, header};

use crate::{api_error::Problem, app::App, pages::Done};

/// The session that the request carries, if it carries exactly one.
pub(crate) fn read(app: &App, headers: &HeaderMap) -> Option<String> {
    read_one(name(app), headers)
}

/// What this browser keeps of the round to the sign-on provider that has this state.
pub(crate) fn round(app: &App, headers: &HeaderMap, state: &str) -> Option<String> {
    read_one(&round_name(app, state)?, headers)
}

/// The headers that end all rounds of this browser, where it began more than anybody needs.
pub(crate) fn clear_rounds(app: &App, headers: &HeaderMap) -> Result<Vec<HeaderValue>, Problem> {
    let all = pairs(headers).map(|(name, _)| name);
    let rounds = all.filter(|name| name.starts_with(rounds_name(app)));
    let rounds: Vec<&str> = rounds.collect();
    if rounds.len() < MOST_ROUNDS {
        return Ok(Vec::new());
    }
    let over = rounds.into_iter();
    over.map(|name| header(app, name, "", OVER)).collect()
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
    header(app, done_name(app), "", OVER)
}

fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(header::COOKIE).iter();
    let lines = lines.filter_map(|value| value.to_str().ok());
    let pairs = lines.flat_map(|value| value.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('='))
}

fn read_one(name: &str, headers: &HeaderMap) -> Option<String> {
    let found = pairs(headers).filter(|(key, _)| *key == name);
    let mut found = found.map(|(_, value)| value.to_owned());
    let first = found.next();
    // Two of them: somebody planted one.
    first.filter(|_| found.next().is_none())
}

/// The header that gives a browser its session.
pub(crate) fn set(app: &App, text: &str) -> Result<HeaderValue, Problem> {
    header(app, name(app), text, "")
}

/// The header that has a browser keep the round of this state to the sign-on provider for so many seconds.
pub(crate) fn set_round(
    app: &App,
    (state, text): (&str, &str),
    seconds: i64,
) -> Result<HeaderValue, Problem> {
    let none = || Problem::internal(io::Error::other("a round whose state names no cookie"));
    let name = round_name(app, state).ok_or_else(none)?;
    header(app, &name, text, &format!("; Max-Age={seconds}"))
}

/// The header that ends it: it is of use once. `None` of a state that is none of ours.
pub(crate) fn clear_round(app: &App, state: &str) -> Option<Result<HeaderValue, Problem>> {
    round_name(app, state).map(|name| header(app, &name, "", OVER))
}

/// The header that takes it away.
pub(crate) fn clear(app: &App) -> Result<HeaderValue, Problem> {
    header(app, name(app), "", OVER)
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

fn rounds_name(app: &App) -> &'static str {
    if app.is_tls() {
        "__Host-gig-sso-"
    } else {
        "gig-sso-"
    }
}

/// Each round has its own, so that two that a person begins in two tabs end neither: by the beginning of its state,
/// which who does not know it cannot name.
fn round_name(app: &App, state: &str) -> Option<String> {
    let begin = state.get(..NAMED_BY)?;
    let own = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    begin
        .bytes()
        .all(own)
        .then(|| format!("{}{begin}", rounds_name(app)))
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

const OVER: &str = "; Max-Age=0";
/// Characters of a state.
const NAMED_BY: usize = 8;
/// At once, of one browser; each is of up to 1,200 octets, and all of a line that servers bound.
const MOST_ROUNDS: usize = 4;
