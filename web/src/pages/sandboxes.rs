//! Sandboxes: what runs and ran, and one of them with what it tried and printed.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};

use super::{
    Answer, Frame,
    records::{RecordRow, rows},
    shown, to,
};
use crate::{
    api::{
        audit::{AuditAsked, find},
        sandboxes::{self, SandboxView, stop_sandbox},
    },
    app::App,
    auth::Caller,
    control::SandboxLog,
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
    let page = SandboxPage {
        frame: Frame::new(&caller, "/sandboxes"),
        one: facts.into(),
        denials,
        log: String::from_utf8_lossy(&log.octets).into_owned(),
        dropped: log.dropped,
    };
    Ok(shown(&page))
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
