//! Signing in and out.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension, Form,
    extract::{Query, State},
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{Answer, shown, shown_as, to};
use crate::{
    app::App,
    auth::{self, Caller, cookie, origin, sign_in::SignIn},
    connections::Peer,
    store::Change,
};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    problem: &'a str,
    name: &'a str,
    next: &'a str,
}

#[derive(Deserialize)]
pub(crate) struct Next {
    #[serde(default)]
    next: String,
}

#[derive(Deserialize)]
pub(crate) struct Typed {
    name: String,
    #[serde(deserialize_with = "crate::password::typed")]
    password: Zeroizing<String>,
    #[serde(default)]
    next: String,
}

/// `GET /sign-in`.
pub(crate) async fn form(Query(asked): Query<Next>) -> Response {
    shown(&SignInPage {
        problem: "",
        name: "",
        next: own_path(&asked.next),
    })
}

/// `POST /sign-in`.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Form(typed): Form<Typed>,
) -> Answer {
    // Another site must not sign a browser in as somebody of its own.
    origin::check(&app, &headers)?;
    let next = own_path(&typed.next).to_owned();
    let asked = SignIn {
        name: typed.name.clone(),
        password: typed.password,
        address: peer.address(),
        agent: auth::agent(&headers),
    };
    match auth::sign_in::sign_in(&app, asked).await {
        Ok(session) => {
            let cookie = [(header::SET_COOKIE, cookie::set(&app, &session)?)];
            Ok((cookie, to(&next)).into_response())
        }
        Err(problem) => Ok(shown_as(
            problem.status(),
            &SignInPage {
                problem: &problem.detail,
                name: &typed.name,
                next: &next,
            },
        )),
    }
}

/// `POST /sign-out`.
pub(crate) async fn sign_out(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    if let Some(session) = &caller.session {
        let id = session.to_string();
        app.change(caller.actor(&app), Change::EndSession { id })
            .await?;
    }
    let cookie = [(header::SET_COOKIE, cookie::clear(&app)?)];
    Ok((cookie, to("/sign-in")).into_response())
}

/// A path of our own to go on to; everything else is the overview. `//host` and `/\host` leave the site.
fn own_path(next: &str) -> &str {
    let plain = |octet: u8| octet.is_ascii_graphic() && octet != b'\\';
    let own = next.starts_with('/') && !next.starts_with("//") && next.bytes().all(plain);
    if own { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_our_own_are_gone_on_to() {
        assert_eq!(own_path("/audit?verdict=deny"), "/audit?verdict=deny");
        for next in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/a\nb",
            "a",
        ] {
            assert_eq!(own_path(next), "/", "{next}");
        }
    }
}
