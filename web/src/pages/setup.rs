//! The one-time set-up link: whoever started gig makes the first admin.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{Answer, Form, Path, shown, shown_as, sign_in::signed_in, to};
use crate::{
    api_error::Problem,
    app::App,
    auth::{self, limits::Tried, origin, sign_in::start_session},
    connections::Peer,
    credential::read_setup,
    store::{Actor, Change, ChangeError, Name, Standing},
};

#[derive(Template)]
#[template(path = "setup.html")]
struct SetupPage<'a> {
    problem: &'a str,
    name: &'a str,
}

#[derive(Deserialize)]
pub(crate) struct Typed {
    name: String,
    #[serde(deserialize_with = "crate::password::typed")]
    password: Zeroizing<String>,
    #[serde(deserialize_with = "crate::password::typed")]
    again: Zeroizing<String>,
}

/// `GET /setup/{link}`. Says nothing of whether the link is good: only using it does.
pub(crate) async fn form() -> Response {
    shown(&SetupPage {
        problem: "",
        name: "",
    })
}

/// `POST /setup/{link}`.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path(link): Path<String>,
    headers: HeaderMap,
    Form(typed): Form<Typed>,
) -> Answer {
    origin::check(&app, &headers)?;
    let name = typed.name.clone();
    match finish(&app, &peer, &link, typed).await {
        Ok(user) => {
            let agent = auth::agent(&headers);
            let session = start_session(&app, (user, None), peer.address(), agent).await?;
            let cookies = signed_in(&app, &name, &session).await?;
            Ok((cookies, to("/")).into_response())
        }
        Err(problem) => Ok(shown_as(
            problem.answer_status(),
            &SetupPage {
                problem: &problem.detail,
                name: &name,
            },
        )),
    }
}

async fn finish(
    app: &App,
    peer: &Peer,
    link: &str,
    typed: Typed,
) -> Result<(String, String), Problem> {
    // What is no link at all is no try: strangers could else use up those of whoever has the link.
    let presented = read_setup(link).ok_or(ChangeError::Setup)?;
    // Guessing 256 bits is hopeless; hashing passwords for guessers is not free.
    let (from, now) = (app.whereabouts(peer.address()), app.now());
    app.limits
        .attempt(Tried::SetUp, from, now)
        .map_err(Problem::too_many)?;
    let name: Name = typed.name.trim().parse()?;
    if typed.password != typed.again {
        return Err(Problem::invalid("the two passwords are not the same"));
    }
    let password = app.hasher.hash_aside(name.as_str(), typed.password).await?;
    let user = name.to_string();
    let actor = Actor {
        request: None,
        once: None,
        name: user.as_str().into(),
        person: Some(user.as_str().into()),
        owner: false,
        standing: Standing::Itself,
        address: peer.address(),
        at: now,
    };
    let change = Change::FinishSetup {
        digest: presented.digest,
        name,
        password: password.clone(),
    };
    app.change(actor, change).await?;
    app.limits.succeeded(Tried::SetUp, from);
    Ok((user, password))
}
