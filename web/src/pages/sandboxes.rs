//! Sandboxes: what runs and ran, and one of them with what it tried and printed.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};

use super::{
    Answer, Frame, in_query,
    records::{RecordRow, rows},
    shown, to,
};
use crate::{
    api::{
        audit::{AuditAsked, find},
        sandboxes::{self, SandboxView, stop_sandbox},
    },
    api_error::Problem,
    app::App,
    auth::Caller,
    control::{SandboxFacts, SandboxLog},
    document,
    remedy::Remedies,
    role::Permission,
};

#[derive(Template)]
#[template(path = "sandboxes.html")]
struct SandboxesPage {
    frame: Frame,
    sandboxes: Vec<SandboxView>,
}

#[derive(Template)]
#[template(path = "sandbox.html")]
struct SandboxPage {
    frame: Frame,
    one: SandboxView,
    denials: Vec<RecordRow>,
    log: String,
    dropped: u64,
    /// Where a policy is suggested for what it tried; empty for who may not write one.
    suggest: String,
}

/// `GET /sandboxes`.
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    caller.require(Permission::Look)?;
    let page = SandboxesPage {
        frame: Frame::new(&caller, "/sandboxes"),
        sandboxes: app
            .control
            .sandboxes()
            .into_iter()
            .map(Into::into)
            .collect(),
    };
    Ok(shown(&page))
}

/// `GET /sandboxes/{id}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    caller.require(Permission::Look)?;
    let facts = sandboxes::find(&app, &caller, &id)?;
    let (denials, log) = if caller.may(Permission::ReadAudit) {
        let asked = AuditAsked {
            sandbox: id.clone(),
            limit: Some(TRIED),
            ..AuditAsked::default()
        };
        let tried = find(&app, &caller, &asked).await?;
        (rows(&tried.records), sandboxes::log_of(&app, &caller, &id)?)
    } else {
        (Vec::new(), SandboxLog::default())
    };
    let suggest = suggest(&app, &caller, &facts).await?;
    let page = SandboxPage {
        suggest,
        frame: Frame::new(&caller, "/sandboxes"),
        one: facts.into(),
        denials,
        log: String::from_utf8_lossy(&log.octets).into_owned(),
        dropped: log.dropped,
    };
    Ok(shown(&page))
}

/// The editor of the policy that is in force for its server and profile now, or of a new one for it.
async fn suggest(app: &App, caller: &Caller, facts: &SandboxFacts) -> Result<String, Problem> {
    if !caller.may(Permission::EditPolicies) {
        return Ok(String::new());
    }
    let now = document::moment(app.now());
    let (server, profile) = (Arc::clone(&facts.server), Arc::clone(&facts.profile));
    let remedy = app.ask(move |store| Remedies::read(store, now)?.place(&server, &profile));
    let Some(remedy) = remedy.await? else {
        return Ok(String::new());
    };
    let assign = remedy
        .assign
        .map(|server| format!("&assign={}", in_query(&server)));
    Ok(format!(
        "/policies/{}/edit?suggest=1&sandbox={}{}",
        in_query(&remedy.policy),
        in_query(&facts.id.to_string()),
        assign.unwrap_or_default()
    ))
}

/// `POST /sandboxes/{id}/stop`.
pub(crate) async fn stop(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    stop_sandbox(&app, &caller, &id).await?;
    Ok(to("/sandboxes"))
}

const TRIED: usize = 20;
