//! What somebody typed into the editor when their session had ended meanwhile: kept for who signs in again.
//!
//! It is theirs alone, by the session that their browser still shows: a few of each person, for a quarter of an hour, in
//! the store and so at every node. Nothing of it is in an address. Who never had a session here, whom an admin signed
//! out, or whose request another site sent, keeps nothing.

use std::sync::Arc;

use axum::{
    Form,
    body::Body,
    extract::{FromRequest as _, Request},
    http::{Method, request::Parts},
};

use crate::{
    api_error::Problem,
    app::App,
    auth::{cookie, is_long, origin},
    credential::read_session,
    pages::in_query,
    store::DraftAct,
};

pub(crate) use crate::store::Unsaved as Draft;

/// What this person typed into this policy, if it is kept still.
pub(crate) async fn of(app: &App, person: &str, policy: &str) -> Result<Option<Draft>, Problem> {
    act(app, (person, policy), DraftAct::Show).await
}

/// It is saved, or not wanted any more.
pub(crate) async fn forget(app: &App, person: &str, policy: &str) -> Result<(), Problem> {
    act(app, (person, policy), DraftAct::Forget).await.map(drop)
}

async fn act(
    app: &App,
    (person, policy): (&str, &str),
    act: DraftAct,
) -> Result<Option<Draft>, Problem> {
    let (person, policy, now) = (person.to_owned(), policy.to_owned(), app.now());
    app.ask(move |store| store.draft((&person, &policy), &act, now))
        .await
}

/// What became of what was sent to an editor.
pub(crate) struct Kept {
    /// Where that editor is.
    pub(crate) place: String,
    /// It is there again when its author signs in.
    pub(crate) whole: bool,
}

/// Keeps what a request without a session sent to an editor, where it may be kept; `None` where it was sent to none.
pub(crate) async fn kept(app: &Arc<App>, parts: Parts, body: Body) -> Option<Kept> {
    let policy = parts.uri.path().strip_prefix("/policies/")?;
    let policy = policy.strip_suffix("/edit")?.to_owned();
    if parts.method != Method::POST || policy.contains('/') || policy.contains('%') {
        return None;
    }
    let place = format!("/policies/{}/edit", in_query(&policy));
    // Before anything of it is read.
    let Some(person) = was(app, &parts).await.filter(|_| !is_long(&parts.headers)) else {
        let whole = false;
        return Some(Kept { place, whole });
    };
    let mut whole = false;
    let request = Request::from_parts(parts, body);
    if let Ok(Form(draft)) = Form::<Draft>::from_request(request, &()).await {
        let kept = act(app, (&person, &policy), DraftAct::Keep(draft)).await;
        whole = kept.is_ok();
        if let Err(problem) = kept {
            tracing::warn!(
                why = problem.detail,
                "what was typed by somebody whose session had ended is not kept"
            );
        }
    }
    Some(Kept { place, whole })
}

/// Who this browser was signed in as until a while ago.
async fn was(app: &App, parts: &Parts) -> Option<String> {
    origin::check(app, &parts.headers).ok()?;
    let presented = cookie::read(app, &parts.headers);
    let presented = presented.as_deref().and_then(read_session)?;
    let (id, now) = (presented.id, app.now());
    let lapsed = app.ask(move |store| store.lapsed_session(&id, now)).await;
    let (digest, person) = lapsed.ok()??;
    digest.is(&presented.digest).then_some(person)
}
