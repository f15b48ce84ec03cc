//! Requests that change something come from our own pages: what carries a cookie must say so.
//!
//! Browsers say where a request comes from by `Sec-Fetch-Site` and `Origin`, which no page can set. A
//! request that carries a session and neither of them is no browser's: it is refused, too. And a name that
//! is not ours is answered nothing: a page may have its own name lead here (DNS rebinding). Which paths are
//! programs' doors is [`super::doors`]'s.

use std::net::IpAddr;

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header, uri::Authority},
};

use super::doors;
use crate::{api_error::Problem, app::App, connections::Peer};

/// Refuses what another site sent.
pub(crate) fn check(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let refused = || {
        Err(Problem::from_elsewhere(
            "this request came from another site, or from a program: programs use a token",
        ))
    };
    let origin = text(header::ORIGIN.as_str());
    match text("sec-fetch-site") {
        Some("same-origin") => {}
        Some("none") if origin.is_none() => {}
        None if origin.is_some() => {}
        _ => return refused(),
    }
    let Some(origin) = origin else {
        return Ok(());
    };
    match is_own(app, origin, headers) {
        true => Ok(()),
        false => refused(),
    }
}

/// Whether this is the origin of our own pages: our public one, or without that the one that was asked for.
pub(crate) fn is_own(app: &App, origin: &str, headers: &HeaderMap) -> bool {
    if let Some(url) = &app.public_url {
        return origin == url.trim_end_matches('/');
    }
    let origin = origin.parse::<Uri>().ok().map(Uri::into_parts);
    let authority = origin.and_then(|parts| parts.authority.filter(|_| parts.scheme.is_some()));
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    authority.is_some() && authority.as_ref().map(|own| own.as_str()) == host
}

/// Whether another site led a browser here. What says nothing is no browser of today.
pub(crate) fn is_led_here(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// Why a request under a name that is not ours is refused. Addresses are nobody's to rebind; programs that
/// have a token may come by any name to what is for programs, and so may the owner's socket and probes. A
/// page whose name leads here can send a header `Authorization`, too: it opens nothing that a browser shows.
pub(crate) fn misdirected(app: &App, request: &Request) -> Option<Problem> {
    let headers = request.headers();
    let probe = matches!(request.uri().path(), "/healthz" | "/readyz");
    let owner = matches!(request.extensions().get(), Some(Peer::Owner(_)));
    let program =
        headers.contains_key(header::AUTHORIZATION) && doors::is_for_programs(request.uri().path());
    if probe || owner || program {
        return None;
    }
    (!is_by_our_name(app, headers)).then(|| {
        Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "host",
            "the console is not known by this name: start it with this name as its public URL"
                .to_owned(),
        )
    })
}

/// Whether we were asked by a name of ours, or by an address.
pub(crate) fn is_by_our_name(app: &App, headers: &HeaderMap) -> bool {
    let own = app
        .public_url
        .as_deref()
        .and_then(|url| url.parse::<Uri>().ok());
    let is_known = |host: &HeaderValue| {
        let host = host
            .to_str()
            .ok()
            .and_then(|host| host.parse::<Authority>().ok());
        host.is_some_and(|host| {
            let name = host.host();
            let bare = name.trim_start_matches('[').trim_end_matches(']');
            bare.parse::<IpAddr>().is_ok()
                || name.eq_ignore_ascii_case("localhost")
                || own.as_ref().and_then(Uri::host) == Some(name)
        })
    };
    headers.get_all(header::HOST).iter().all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tests::Lab;

    #[test]
    fn a_name_that_is_not_ours_is_answered_programs_alone() {
        let lab = Lab::new();
        let refused = |path: &str, token: bool| {
            let request = http::Request::builder()
                .uri(path)
                .header("host", "rebound.example");
            let request = match token {
                true => request.header("authorization", "Bearer nothing"),
                false => request,
            };
            let request = request.body(axum::body::Body::empty()).unwrap();
            misdirected(&lab.app, &request).is_some()
        };
        for path in ["/", "/sign-in", "/audit", "/setup/x", "/api"] {
            assert!(refused(path, false) && refused(path, true), "{path}");
        }
        assert!(refused("/api/v1/me", false) && !refused("/api/v1/me", true));
        let mcp = "/sandbox/docs/mcp";
        assert!(refused(mcp, false) && !refused(mcp, true));
        assert!(refused("/sandboxes", false) && refused("/sandboxes", true));
        assert!(refused("/metrics", false) && !refused("/metrics", true));
        assert!(!refused("/healthz", false));
    }

    #[test]
    fn another_site_is_told_from_a_person_and_from_our_own_pages() {
        let led = |site: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(site) = site {
                headers.insert("sec-fetch-site", HeaderValue::from_static(site));
            }
            is_led_here(&headers)
        };
        assert!(led(Some("cross-site")) && led(Some("same-site")) && led(Some("")));
        assert!(!led(Some("same-origin")) && !led(Some("none")) && !led(None));
    }
}
