//! The first page: what was decided, what was denied last, whether every part works.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use askama::Template;
use axum::extract::State;

use super::{
    Answer, Frame,
    audit::offers,
    records::{RecordRow, rows},
    shown,
};
use crate::{
    api::audit::{AuditAsked, find, id},
    api_error::Problem,
    app::App,
    auth::Caller,
    control::Health,
    role::Permission,
    waiting::{Waiting, waiting},
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
    /// What was denied in the last day and still would be.
    wanted: Vec<Wanted>,
    health: Vec<Health>,
}

/// A destination that waits for somebody.
struct Wanted {
    record: RecordRow,
    policy: String,
    count: u64,
    /// Rules that would let it pass: where to click, and the words.
    offers: Vec<(String, &'static str)>,
}

impl Wanted {
    fn of(caller: &Caller, one: &Waiting) -> Self {
        Self {
            record: RecordRow::of(&one.newest),
            policy: one.policy.clone(),
            count: one.count,
            offers: offers(caller, &one.newest, &id(&one.newest)),
        }
    }
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
    let wanted = wanted(&app, &caller).await?;
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
        wanted,
        health: app.control.health(),
    };
    Ok(shown(&page))
}

async fn wanted(app: &Arc<App>, caller: &Caller) -> Result<Vec<Wanted>, Problem> {
    if !caller.may(Permission::ReadAudit) {
        return Ok(Vec::new());
    }
    let theirs = Arc::clone(app);
    let found = app.aside(move || waiting(&theirs)).await??;
    Ok(found.iter().map(|one| Wanted::of(caller, one)).collect())
}

const LATEST: usize = 10;
