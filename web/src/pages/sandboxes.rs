//! Sandboxes: what runs and ran, and one of them with what it tried and printed.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use super::{
    Answer, Done, Frame, Path, in_query,
    records::{LONGEST_HOST, RecordRow, cut_host, rows},
    servers::runs,
    shown, told,
};
use crate::{
    api::{
        audit::{AuditAsked, find},
        sandboxes::{self, Printed, SandboxView, listed, stop_sandbox},
    },
    api_error::Problem,
    app::App,
    auth::Caller,
    document,
    one_sandbox::{self, Destination, ELSEWHERE, LOST, OneSandbox, RUNNING},
    profile::Sight,
    remedy::Remedies,
    role::Permission,
    store::{Server, ServerKind},
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
    all: OneSandbox,
    /// Its server is registered still.
    has_server: bool,
    /// It ended, and who looks may start its server for themselves as it ran for them.
    starts: bool,
    denials: Vec<RecordRow>,
    log: String,
    /// Why what it printed cannot be read here.
    unread: String,
    /// The other node that keeps it; empty where that is this one.
    log_at: String,
    dropped: u64,
    /// Where a policy is suggested for what it tried; empty for who may not write one.
    suggest: String,
}

impl SandboxPage {
    /// What its state means, in words.
    fn state(&self) -> String {
        let node = &self.all.sandbox.node;
        match self.one.state {
            ELSEWHERE => format!("on {node}"),
            LOST => format!("with the gig on {node} that ran it, before its end was recorded"),
            _ => String::new(),
        }
    }

    /// The class of its state's colour.
    fn class(&self) -> &'static str {
        match self.one.state {
            RUNNING | ELSEWHERE => "running",
            _ => "ended",
        }
    }

    /// Where the record of one of its destinations is searched.
    fn query(&self, one: &Destination) -> String {
        let (id, host) = (in_query(&self.one.id), in_query(&one.host));
        format!("sandbox={id}&host={host}")
    }

    /// Cut: hosts are the sandbox's own words.
    fn short(&self, one: &Destination) -> String {
        let port = one.port.map(|port| format!(":{port}"));
        let host = cut_host(&one.host, LONGEST_HOST);
        format!("{host}{}", port.unwrap_or_default())
    }
}

/// `GET /sandboxes`.
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    let page = SandboxesPage {
        frame: Frame::new(&caller, "/sandboxes"),
        sandboxes: listed(&app, &caller, &Sight::plain(&caller)).await?,
    };
    Ok(shown(&page))
}

/// `GET /sandboxes/{id}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    let sight = Sight::plain(&caller);
    let all = one_sandbox::of(&app, &caller, &id, &sight).await?;
    let one = all.sandbox.clone();
    let (denials, printed) = if caller.may(Permission::ReadAudit) {
        let asked = AuditAsked {
            sandbox: one.id.clone(),
            limit: Some(TRIED),
            ..AuditAsked::default()
        };
        let tried = find(&app, &caller, &asked).await?;
        let printed = sandboxes::log_of(&app, &caller, &id, &sight).await?;
        (rows(&caller, &tried.records), printed)
    } else {
        (Vec::new(), Printed::default())
    };
    let server = one.server.clone();
    let server = app.ask(move |store| store.server(&server)).await?;
    let theirs =
        !runs(&one) && *one.profile == *caller.profile() && caller.may(Permission::RunSandboxes);
    let by_gig = |server: &Server| server.spec.kind != ServerKind::Foreign;
    let page = SandboxPage {
        has_server: server.is_some(),
        starts: theirs && server.as_ref().is_some_and(by_gig),
        suggest: suggest(&app, &caller, &one).await?,
        frame: Frame::new(&caller, "/sandboxes"),
        unread: printed
            .unread
            .map(|problem| problem.detail)
            .unwrap_or_default(),
        log_at: printed.asked.unwrap_or_default(),
        all,
        one,
        denials,
        log: String::from_utf8_lossy(&printed.log.octets).into_owned(),
        dropped: printed.log.dropped,
    };
    Ok(shown(&page))
}

/// The editor of the policy that is in force for its server alone, or of a new one for it: what one run asked for is not
/// what all others do.
async fn suggest(app: &App, caller: &Caller, one: &SandboxView) -> Result<String, Problem> {
    if !caller.may(Permission::EditPolicies) {
        return Ok(String::new());
    }
    let now = document::moment(app.now());
    let (server, profile) = (one.server.clone(), one.profile.clone());
    let remedy = app.ask(move |store| Remedies::read(store, now)?.alone(&server, &profile));
    let Some(remedy) = remedy.await? else {
        return Ok(String::new());
    };
    let assign = remedy
        .assign
        .map(|server| format!("&assign={}", in_query(&server)));
    Ok(format!(
        "/policies/{}/edit?suggest=1&sandbox={}{}",
        in_query(&remedy.policy),
        in_query(&one.id),
        assign.unwrap_or_default()
    ))
}

/// `POST /sandboxes/{id}/stop`.
pub(crate) async fn stop(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    stop_sandbox(&app, &caller, &id, &Sight::plain(&caller)).await?;
    Ok(told(Done::Ends, "/sandboxes"))
}

const TRIED: usize = 20;
