//! What holds for every answer: its security headers, its deadline, that it is counted and told as a span.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use crate::{
    api_error::Problem,
    app::App,
    auth::{cookie, doors, origin},
    connections::Peer,
    pages::Done,
    spans::AskedBy,
};

/// Bounds the time of a request, and dresses its answer.
pub(crate) async fn guard(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(peer) = forwarded(&app, &request) {
        request.extensions_mut().insert(peer);
    }
    let told = cookie::done(&app, request.headers()).is_some();
    let api = doors::is_api(request.uri().path());
    let span = api.then(|| app.spans.begin(&request, app.now())).flatten();
    let answered = match origin::misdirected(&app, &request) {
        Some(problem) => Ok(problem.into_response()),
        None => tokio::time::timeout(WITHIN, next.run(request)).await,
    };
    let mut response = answered
        .unwrap_or_else(|_| Problem::unavailable("it took too long; try again").into_response());
    if api {
        response = as_problem(response);
    }
    tell_once(&app, told, &mut response);
    app.figures.answered(response.status().as_u16());
    if let Some(span) = span {
        let who = response.extensions().get::<AskedBy>();
        app.spans.end(span, response.status().as_u16(), who);
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if response.extensions().get::<Scripted>().is_some() {
        let policy = HeaderValue::from_static(WITH_SCRIPT);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    let headers = response.headers_mut();
    // What somebody may see is for them alone; a handler may say otherwise (the stylesheet does).
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if app.is_tls() {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, year);
    }
    response
}

/// Has the browser keep what a form did until the next page, and forget it there.
fn tell_once(app: &App, told: bool, response: &mut Response) {
    let is_page = response.headers().get(header::CONTENT_TYPE);
    let is_page = is_page.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    let cookie = match response.extensions().get::<Done>() {
        Some(done) => cookie::set_done(app, *done),
        None if told && is_page => cookie::clear_done(app),
        None => return,
    };
    if let Ok(cookie) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

/// What the router itself refuses, in words of its own or in none, is told as all else of the API is.
fn as_problem(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_told = kind.is_some_and(|kind| kind == "application/problem+json")
        || response.extensions().get::<InOwnWords>().is_some();
    if is_told || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (word, detail) = match status {
        StatusCode::METHOD_NOT_ALLOWED => (
            "method_not_allowed",
            "this is asked by other methods: the field Allow lists them",
        ),
        StatusCode::PAYLOAD_TOO_LARGE => ("too_long", "the body is longer than this takes"),
        _ if status.is_client_error() => ("invalid", "the address or the body cannot be read"),
        _ => ("internal", "gig could not do this; its own log says why"),
    };
    let mut told = Problem::new(status, word, detail).into_response();
    if let Some(allow) = response.headers().get(header::ALLOW) {
        told.headers_mut().insert(header::ALLOW, allow.clone());
    }
    told
}

/// An answer that refuses something in the words of a protocol of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InOwnWords;

/// An answer whose page has a script: our own file, which talks to us alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scripted;

/// Whom something in front of gig speaks for: the last of `X-Forwarded-For`, which it added itself.
/// Believed of the addresses that were named as such and of no other: everybody can write it.
fn forwarded(app: &App, request: &Request) -> Option<Peer> {
    let peer = request.extensions().get::<Peer>()?.address()?;
    if !app.is_front(peer.ip()) {
        return None;
    }
    let last = request
        .headers()
        .get_all("x-forwarded-for")
        .iter()
        .next_back()?;
    let last = last.to_str().ok()?.rsplit(',').next()?.trim();
    let address: IpAddr = last.parse().ok()?;
    Some(Peer::Network((address, 0).into()))
}

/// No script at all (but for [`Scripted`]), no style but ours, nothing from elsewhere, in nobody's frame.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // A link may hold a host that somebody looks into: other sites do not learn it. Not `no-referrer`,
    // with which browsers hide the origin of our own forms, too (Fetch, 3.1).
    (header::REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];
/// The same, for a page with a script.
const WITH_SCRIPT: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; \
     img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// A search of ten million records and the start of a sandbox both take less.
const WITHIN: Duration = Duration::from_secs(60);
