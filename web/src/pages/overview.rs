//! The first page: what was decided, what was denied last, whether every part works.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use askama::Template;
use axum::extract::State;

use super::{
    Answer, Frame,
    records::{RecordRow, rows},
    shown,
};
use crate::{
    api::audit::{AuditAsked, find},
    app::App,
    auth::Caller,
    control::Health,
    role::Permission,
};

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    allowed: u64,
    denied: u64,
    would_deny: u64,
    running: usize,
    policies: usize,
    waiting: usize,
    denials: Vec<RecordRow>,
    health: Vec<Health>,
}

/// `GET /`.
pub(crate) async fn show(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    caller.require(Permission::Look)?;
    let denials = if caller.may(Permission::ReadAudit) {
        let asked = AuditAsked {
            verdict: "deny".to_owned(),
            limit: Some(LATEST),
            ..AuditAsked::default()
        };
        rows(&find(&app, &caller, &asked).await?.records)
    } else {
        Vec::new()
    };
    let sandboxes = app.control.sandboxes();
    let page = OverviewPage {
        frame: Frame::new(&caller, "/"),
        allowed: app.traffic.allowed.load(Relaxed),
        denied: app.traffic.denied.load(Relaxed),
        would_deny: app.traffic.would_deny.load(Relaxed),
        running: sandboxes.iter().filter(|one| one.ended.is_none()).count(),
        policies: app.ask(|store| store.policies()).await?.len(),
        waiting: super::approvals::waiting(&app, &caller).await?,
        denials,
        health: app.control.health(),
    };
    Ok(shown(&page))
}

const LATEST: usize = 10;
