//! Requests that change something come from our own pages: what carries a cookie must say so.
//!
//! Browsers say where a request comes from by `Sec-Fetch-Site` and `Origin`, which no page can set. A
//! request that carries a session and neither of them is no browser's: it is refused, too.

use axum::http::{HeaderMap, Uri, header};

use crate::{api_error::Problem, app::App};

/// Refuses what another site sent.
pub(crate) fn check(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let refused = || {
        Err(Problem::forbidden(
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
    let own = match &app.public_url {
        Some(url) => origin == url.trim_end_matches('/'),
        None => {
            let authority = origin
                .parse::<Uri>()
                .ok()
                .and_then(|uri| uri.into_parts().authority);
            let host = text(header::HOST.as_str());
            authority.is_some() && authority.as_ref().map(|own| own.as_str()) == host
        }
    };
    if own { Ok(()) } else { refused() }
}
