//! Signing in and out.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts},
    response::{AppendHeaders, IntoResponse as _, Redirect, Response},
};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{Answer, Form, InAddress, back, shown, shown_as, to};
use crate::{
    api_error::Problem,
    app::App,
    auth::{
        self, Caller, cookie, known,
        oidc::{Refused, Returned, SingleSignOn},
        origin,
        sign_in::Typed as Proof,
    },
    connections::Peer,
    drafts::{self, Kept},
    store::Change,
};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    problem: &'a str,
    name: &'a str,
    next: &'a str,
    /// Where else people sign in, by its host.
    provider: Option<&'a str>,
}

impl SignInPage<'_> {
    fn next_in_query(&self) -> String {
        super::in_query(self.next)
    }
}

#[derive(Deserialize)]
pub(crate) struct Next {
    #[serde(default)]
    next: String,
    /// They sent a form when they had been signed out.
    #[serde(default)]
    undone: String,
}

/// To where somebody signs in who sent a form and was signed out: then to where it was kept, or back to its page, which is
/// told that nothing was done.
pub(crate) async fn instead(app: &Arc<App>, parts: Parts, body: Body) -> Response {
    // Who wanted to be out is.
    if parts.uri.path() == "/sign-out" {
        return to("/sign-in");
    }
    let back = back(&parts.headers, (&parts.method, &parts.uri));
    let (next, undone) = match drafts::kept(app, parts, body).await {
        Some(Kept { place, whole }) => (place, !whole),
        None => (back, true),
    };
    let next = super::in_query(&next);
    to(&match undone {
        false => format!("/sign-in?next={next}"),
        true => format!("/sign-in?undone=form&next={next}"),
    })
}

#[derive(Deserialize)]
pub(crate) struct Typed {
    name: String,
    #[serde(deserialize_with = "crate::password::typed")]
    password: Zeroizing<String>,
    #[serde(default, deserialize_with = "crate::password::typed")]
    code: Zeroizing<String>,
    #[serde(default)]
    next: String,
}

/// `GET /sign-in`.
pub(crate) async fn form(
    State(app): State<Arc<App>>,
    InAddress(asked): InAddress<Next>,
) -> Response {
    shown(&SignInPage {
        problem: match asked.undone.as_str() {
            "" => "",
            _ => UNDONE,
        },
        name: "",
        next: own_path(&asked.next),
        provider: provider(&app),
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
    let proof = Proof {
        name: typed.name.clone(),
        password: typed.password,
        code: typed.code,
        known: known::device(&app, &headers, &typed.name).await,
        address: peer.address(),
    };
    match auth::sign_in::sign_in(&app, proof, auth::agent(&headers)).await {
        Ok(session) => {
            let cookies = signed_in(&app, &typed.name, &session).await?;
            Ok((cookies, to(&next)).into_response())
        }
        Err(problem) => Ok(shown_as(
            problem.answer_status(),
            &SignInPage {
                problem: &problem.detail,
                name: &typed.name,
                next: &next,
                provider: provider(&app),
            },
        )),
    }
}

/// The session for the browser, and that it was here.
pub(super) async fn signed_in(
    app: &App,
    name: &str,
    session: &str,
) -> Result<AppendHeaders<Vec<(HeaderName, HeaderValue)>>, Problem> {
    let mut cookies = vec![(header::SET_COOKIE, cookie::set(app, session)?)];
    // Who is not known again has the tries of a stranger: no reason to keep somebody out.
    if let Ok((text, seconds)) = known::remembered(app, name).await {
        cookies.push((header::SET_COOKIE, cookie::set_device(app, &text, seconds)?));
    }
    Ok(AppendHeaders(cookies))
}

/// `POST /sign-out`.
pub(crate) async fn sign_out(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    if let Some(session) = &caller.session {
        let id = session.to_string();
        app.change(caller.actor(&app), Change::EndSession { id })
            .await?;
    }
    let cookie = [(header::SET_COOKIE, cookie::clear(&app)?)];
    // Pages that a browser holds to go back to (`no-store` does not keep all from it) are nobody's any more.
    let held = [(CLEAR_SITE_DATA, "\"cache\", \"storage\"")];
    Ok((cookie, held, to("/sign-in")).into_response())
}

/// `GET /sign-in/oidc`: to the sign-on provider. A link and no form: a form may lead nowhere else.
pub(crate) async fn sign_on(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    InAddress(asked): InAddress<Next>,
) -> Answer {
    let Some(sign_on) = &app.sign_on else {
        return Err(Problem::missing("page", "/sign-in/oidc").into());
    };
    let next = own_path(&asked.next);
    match sign_on.begin(&app, next).await {
        Ok((url, cookie)) => {
            let over = cookie::clear_rounds(&app, &headers)?.into_iter();
            let cookies = over.chain([cookie]);
            let cookies = cookies.map(|cookie| (header::SET_COOKIE, cookie));
            let cookies = AppendHeaders(cookies.collect::<Vec<_>>());
            Ok((cookies, Redirect::to(&url)).into_response())
        }
        Err(refused) => {
            if matches!(refused, Refused::Provider(_)) {
                tracing::warn!(%refused, "nobody can sign in by single sign-on");
            }
            Ok(refused_page(&app, refused, next))
        }
    }
}

/// What the provider has a browser bring back. More of it is not ours to read.
#[derive(Deserialize)]
pub(crate) struct Brought {
    #[serde(default)]
    state: String,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

/// `GET /sign-in/oidc/callback`: from it.
pub(crate) async fn signed_on(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    InAddress(brought): InAddress<Brought>,
) -> Answer {
    let Some(sign_on) = &app.sign_on else {
        return Err(Problem::missing("page", "/sign-in/oidc/callback").into());
    };
    let back = Returned {
        headers: &headers,
        state: &brought.state,
        code: brought.code.as_deref(),
        issuer: brought.iss.as_deref(),
        error: brought.error.as_deref(),
        address: peer.address(),
        agent: auth::agent(&headers),
    };
    let over = cookie::clear_round(&app, &brought.state);
    let next = SingleSignOn::next(&app, &back).unwrap_or_default();
    let done = Box::pin(sign_on.finish(&app, back)).await;
    let mut answer = match done {
        Ok(done) => {
            let cookie = [(header::SET_COOKIE, cookie::set(&app, &done.session)?)];
            (cookie, to(own_path(&done.next))).into_response()
        }
        Err(refused) => {
            if matches!(refused, Refused::NotBegun | Refused::TooMany(_)) {
                app.tell_refusal(None, peer.address(), "GET /sign-in/oidc/callback");
            }
            refused_page(&app, refused, own_path(&next))
        }
    };
    if let Some(over) = over {
        answer.headers_mut().append(header::SET_COOKIE, over?);
    }
    Ok(answer)
}

fn refused_page(app: &App, refused: Refused, next: &str) -> Response {
    let problem = refused.problem();
    let page = SignInPage {
        problem: &problem.detail,
        name: "",
        next,
        provider: provider(app),
    };
    shown_as(problem.answer_status(), &page)
}

fn provider(app: &App) -> Option<&str> {
    app.sign_on.as_ref().map(SingleSignOn::host)
}

/// A path of our own to go on to; everything else is the overview. `//host` and `/\host` leave the site.
pub(super) fn own_path(next: &str) -> &str {
    let plain = |octet: u8| octet.is_ascii_graphic() && octet != b'\\';
    let own = next.starts_with('/') && !next.starts_with("//") && next.bytes().all(plain);
    if own { next } else { "/" }
}

const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
/// To who was signed out when they sent a form.
const UNDONE: &str =
    "You had been signed out: what you sent was not done. Sign in, and send it again.";

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
