//! Sandboxes: what runs and ran, started, stopped, and what they printed.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use gig_audit::{Deed, Entry, Event, VerdictWord};
use gig_policy::SandboxId;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Asked, Items, Made, Order, Paging, Path,
    server_log::{self, LinesAsked},
    time,
};
use crate::{
    api_error::Problem,
    app::{App, Instance, Started, has_program},
    auth::Caller,
    control::{LogFrom, SandboxFacts, SandboxLog},
    one_sandbox::{self, ELSEWHERE, ENDED, OneSandbox, RUNNING},
    profile::{Sight, Whose},
    relay,
    role::Permission,
    store::{Change, Name, RunningFacts, RunningRow},
};

/// A sandbox, as shown.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct SandboxView {
    pub(crate) id: String,
    /// The machine that it runs or ran on.
    pub(crate) node: String,
    pub(crate) server: String,
    /// Whose it is.
    pub(crate) profile: String,
    /// Whether it lives as long as somebody is attached to it.
    pub(crate) attached: bool,
    /// `running` or `ended`; `elsewhere` where it runs on another node; of what only the record tells of also `lost`,
    /// where its gig ended before its end was recorded.
    pub(crate) state: &'static str,
    pub(crate) address: Option<String>,
    /// The network namespace that it is, where gig did not make it.
    pub(crate) namespace: Option<String>,
    pub(crate) policy: String,
    pub(crate) policy_version: u64,
    /// What put it in force: `profile ana`, `team data`, `server docs`, `all servers`.
    pub(crate) policy_by: String,
    pub(crate) started: String,
    pub(crate) ended: Option<String>,
    pub(crate) exit_status: Option<u8>,
    pub(crate) connections: u32,
    pub(crate) layers: Vec<String>,
}

impl SandboxView {
    /// Of this gig, whose node is called so.
    pub(crate) fn here(facts: SandboxFacts, node: &str) -> Self {
        let ended = facts.ended;
        Self {
            id: facts.id.to_string(),
            node: node.to_owned(),
            server: facts.server.to_string(),
            profile: facts.profile.to_string(),
            attached: facts.attached,
            state: if ended.is_some() { ENDED } else { RUNNING },
            address: facts.address.map(|address| address.to_string()),
            namespace: facts.namespace.map(|namespace| namespace.to_string()),
            policy: facts.policy.to_string(),
            policy_version: facts.policy_version,
            policy_by: facts.policy_by.to_string(),
            started: time(facts.started),
            ended: ended.map(|(at, _)| time(at)),
            exit_status: ended.map(|(_, status)| status),
            connections: facts.connections,
            layers: facts.layers.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Started {
    /// As shown by the gig whose node is called so.
    fn shown(self, node: &str) -> SandboxView {
        match self {
            Self::Here(facts) => SandboxView::here(facts, node),
            Self::There(row) => (*row).into(),
        }
    }
}

impl From<RunningRow> for SandboxView {
    fn from(row: RunningRow) -> Self {
        let RunningFacts {
            attached,
            address,
            namespace,
            policy,
            policy_version,
            policy_by,
            started,
            layers,
        } = row.facts;
        Self {
            id: row.sandbox,
            node: row.node,
            server: row.server,
            profile: row.profile,
            attached,
            state: ELSEWHERE,
            address,
            namespace,
            policy,
            policy_version,
            policy_by,
            started,
            ended: None,
            exit_status: None,
            connections: 0,
            layers,
        }
    }
}

/// What runs on any node, and what ran lately on this one, newest first: everybody's for who oversees, else the
/// caller's own. What runs on other nodes is what they said within the last second or so; a node that has not said for
/// a minute that it lives is gone, and what ran there is lost.
#[utoipa::path(get, path = "/api/v1/sandboxes", tag = "sandboxes",
    params(Paging, ("Gig-Profile" = Option<String>, Header, description = "only what runs for them, where a token acts for \
        others: its scopes name `profiles:act`")),
    responses((status = 200, body = Items<SandboxView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Items<SandboxView>>, Problem> {
    let sight = Sight::of(&app, &caller, &headers).await?;
    let items = listed(&app, &caller, &sight).await?;
    // An id begins with the time.
    let page = paging.page(items, Order::Falling, |one| one.id.clone())?;
    Ok(Json(page))
}

/// One sandbox: what it is, what it may reach, and, for who reads the record, what it tried. One that this gig
/// does not know any more, or that another node has, is told by the record. What runs for others is not there for
/// who does not oversee them.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}", tag = "sandboxes",
    params(("Gig-Profile" = Option<String>, Header, description = "whose it is, where a token acts for others: \
        its scopes name `profiles:act`")),
    responses((status = 200, body = OneSandbox), (status = 404, body = Problem)))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<OneSandbox>, Problem> {
    let sight = Sight::of(&app, &caller, &headers).await?;
    Ok(Json(one_sandbox::of(&app, &caller, &id, &sight).await?))
}

/// The caller's sandbox of a server: the one that runs (200), or one that is started (201). Whoever asks while
/// it is being started waits for that start, and two profiles never share one. In a fleet one node at a time has it:
/// asked of another, the one that runs there is answered, with state `elsewhere`. A server that clients speak
/// with by its standard streams has a process for each of them instead: `attach`.
#[utoipa::path(post, path = "/api/v1/servers/{name}/start", tag = "sandboxes",
    params(("Gig-Profile" = Option<String>, Header, description = "whose it is, where a token acts for others: \
        its scopes name `profiles:act`")),
    responses((status = 200, description = "it runs already, or was being started", body = SandboxView),
              (status = 201, body = SandboxView), (status = 404, body = Problem),
              (status = 422, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.require(Permission::RunSandboxes)?;
    let whose = Whose::of(&app, &caller, &headers).await?;
    let (new, view) = start_server(&app, &caller, name, whose).await?;
    if !new {
        return Ok(Json(view).into_response());
    }
    let place = format!("/api/v1/sandboxes/{}", view.id);
    Ok(Made { place, view }.into_response())
}

/// Asks a sandbox to end: SIGTERM, ten seconds later SIGKILL. Others' only for who oversees them.
#[utoipa::path(delete, path = "/api/v1/sandboxes/{id}", tag = "sandboxes",
    params(("Gig-Profile" = Option<String>, Header, description = "whose it is, where a token acts for others: \
        its scopes name `profiles:act`")),
    responses((status = 202), (status = 404, body = Problem)))]
pub(crate) async fn stop(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let sight = Sight::of(&app, &caller, &headers).await?;
    stop_sandbox(&app, &caller, &id, &sight).await?;
    Ok(StatusCode::ACCEPTED)
}

/// The last of what a sandbox printed; of one that this gig does not know any more, or another node has, the lines that
/// are kept, wherever that is.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/log", tag = "sandboxes",
    params(("Gig-Profile" = Option<String>, Header, description = "whose it is, where a token acts for others: \
        its scopes name `profiles:act`")),
    responses((status = 200, description = "both streams, as they came", content_type = "application/octet-stream"),
              (status = 404, body = Problem), (status = 409, description = "a node keeps it that is none of these any more", body = Problem),
              (status = 504, description = "another node keeps it and does not answer", body = Problem)))]
pub(crate) async fn log(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let sight = Sight::of(&app, &caller, &headers).await?;
    let printed = log_of(&app, &caller, &id, &sight).await?;
    // Nothing is not what it printed, where another node knows that.
    if let Some(problem) = printed.unread {
        return Err(problem);
    }
    // Whatever a program printed, no browser may take it for a page.
    let plain = [(header::CONTENT_TYPE, "application/octet-stream")];
    Ok((plain, printed.log.octets).into_response())
}

/// Those that are there for the caller; the console shows the same.
pub(crate) async fn listed(
    app: &Arc<App>,
    caller: &Caller,
    sight: &Sight,
) -> Result<Vec<SandboxView>, Problem> {
    caller.require(Permission::Look)?;
    let here = |facts| SandboxView::here(facts, &app.node);
    let known = app.control.sandboxes().into_iter().map(here);
    let mut all: Vec<SandboxView> = known.chain(one_sandbox::elsewhere(app).await?).collect();
    all.retain(|one| caller.reaches(&one.server) && sight.takes_in(&one.profile));
    // An id begins with the time.
    all.sort_by(|one, other| other.id.cmp(&one.id));
    Ok(all)
}

/// A sandbox by the text of its id.
pub(crate) fn find(
    app: &App,
    caller: &Caller,
    id: &str,
    sight: &Sight,
) -> Result<SandboxFacts, Problem> {
    let mut known = app.control.sandboxes().into_iter();
    let found =
        known.find(|sandbox| sandbox.id.to_string() == id && caller.reaches(&sandbox.server));
    let found = found.ok_or_else(|| Problem::missing("sandbox", id))?;
    if sight.takes_in(&found.profile) {
        return Ok(found);
    }
    app.tell_hidden(caller, one_sandbox::OTHERS);
    Err(Problem::missing("sandbox", id))
}

/// What a sandbox printed, as far as it can be read.
#[derive(Default)]
pub(crate) struct Printed {
    pub(crate) log: SandboxLog,
    /// The other node that keeps it, where that can be asked.
    pub(crate) asked: Option<String>,
    /// Why it cannot be read, where another node keeps it.
    pub(crate) unread: Option<Problem>,
}

/// What it printed; the console shows the same.
pub(crate) async fn log_of(
    app: &Arc<App>,
    caller: &Caller,
    id: &str,
    sight: &Sight,
) -> Result<Printed, Problem> {
    caller.require(Permission::ReadAudit)?;
    if let Ok(found) = find(app, caller, id, sight) {
        let log = app.control.log(found.id).unwrap_or_default();
        return Ok(Printed {
            log,
            ..Printed::default()
        });
    }
    let known = one_sandbox::find(app, caller, id, sight).await?;
    let keeper = known.view.node;
    let others = relay::others(app).await?;
    let keeper_asked = others.into_iter().find(|one| *one == keeper);
    let asked = LinesAsked {
        sandbox: known.view.id,
        node: keeper_asked.clone().unwrap_or_default(),
        limit: Some(LINES),
        ..LinesAsked::default()
    };
    let place = (known.view.server, LogFrom::Newest);
    let (lines, mut unread) = match server_log::find(app, caller, place, &asked, sight).await {
        Ok(page) => (page.lines, None),
        Err(problem) if keeper_asked.is_some() => (Vec::new(), Some(problem)),
        Err(problem) => return Err(problem),
    };
    let lines = lines.into_iter().map(|line| line.text + "\n");
    let octets = lines.collect::<String>().into_bytes();
    // A record that came with a backup tells of a node that is none of these, but whose lines may be here.
    if octets.is_empty() && keeper_asked.is_none() && keeper != app.node {
        let words = format!("the gig on {keeper} keeps what this sandbox printed: ask that one");
        unread = Some(Problem::new(StatusCode::CONFLICT, "elsewhere", words));
    }
    Ok(Printed {
        log: SandboxLog { octets, dropped: 0 },
        asked: keeper_asked,
        unread,
    })
}

/// The sandbox of a server for somebody, and whether it was started for this; the console does the same.
pub(crate) async fn start_server(
    app: &Arc<App>,
    caller: &Caller,
    server: String,
    whose: Whose,
) -> Result<(bool, SandboxView), Problem> {
    caller.require(Permission::RunSandboxes)?;
    // What is no server's name is not for the record, whoever sends it.
    let name: Name = server.parse()?;
    let wanted = name.to_string();
    let known = app.ask(move |store| store.server(&wanted)).await?;
    if !caller.reaches(name.as_str()) {
        app.tell_hidden(caller, "POST /api/v1/servers/{name}/start");
        return Err(Problem::missing("server", name.as_str()));
    }
    let known = known.ok_or_else(|| Problem::missing("server", name.as_str()))?;
    has_program(&known)?;
    let profile = Arc::clone(&whose.profile);
    let tell = {
        let (app, caller) = (Arc::clone(app), caller.clone());
        move |id, words: &str| {
            app.starts(id, &caller);
            let mut entry = act(&app, &caller, name.as_str(), Some(id), words);
            entry.findings.extend(whose.words());
            entry
        }
    };
    match app.instance(&known, &profile, tell.clone()) {
        Instance::Runs(facts) => {
            app.record(tell(facts.id, "sandbox start asked for: it runs"))
                .await?;
            Ok((false, SandboxView::here(facts, &app.node)))
        }
        Instance::UnderWay(id, start) => {
            let words = "sandbox start asked for: it is being started";
            app.record(tell(id, words)).await?;
            Ok((false, start.await?.shown(&app.node)))
        }
        Instance::New(start) => {
            let started = start.await?;
            Ok((
                matches!(started, Started::Here(_)),
                started.shown(&app.node),
            ))
        }
    }
}

/// Stops a sandbox, whichever node has it; the console does the same.
pub(crate) async fn stop_sandbox(
    app: &Arc<App>,
    caller: &Caller,
    id: &str,
    sight: &Sight,
) -> Result<(), Problem> {
    let found = match stoppable(app, caller, id, sight).await? {
        Stoppable::Here(found) => found,
        Stoppable::Elsewhere(view) => {
            let sandbox = view.id.parse().map(SandboxId::new);
            let sandbox = sandbox.map_err(|_| Problem::missing("sandbox", id))?;
            let server = view.server;
            let change = Change::StopSandbox { sandbox, server };
            return app.change(caller.actor(app), change).await.map(drop);
        }
    };
    let entry = act(
        app,
        caller,
        &found.server,
        Some(found.id),
        "sandbox stop asked for",
    );
    app.record(entry).await?;
    Ok(app.control.stop(found.id)?)
}

/// A sandbox that may be asked to end.
pub(crate) enum Stoppable {
    /// By this gig.
    Here(SandboxFacts),
    /// By another node.
    Elsewhere(SandboxView),
}

/// Where it runs, for who may stop it.
pub(crate) async fn stoppable(
    app: &Arc<App>,
    caller: &Caller,
    id: &str,
    sight: &Sight,
) -> Result<Stoppable, Problem> {
    caller.require(Permission::RunSandboxes)?;
    let mut here = app.control.sandboxes().into_iter();
    if here.any(|one| one.id.to_string() == id) {
        return find(app, caller, id, sight).map(Stoppable::Here);
    }
    let known = one_sandbox::find(app, caller, id, sight).await?;
    match known.view.state {
        ELSEWHERE if one_sandbox::has_others(app) => Ok(Stoppable::Elsewhere(known.view)),
        _ => Err(Problem::missing("sandbox", id)),
    }
}

/// What somebody does to a sandbox, for the record.
pub(crate) fn act(
    app: &App,
    caller: &Caller,
    server: &str,
    sandbox: Option<SandboxId>,
    words: &str,
) -> Entry {
    let actor = caller.actor(app);
    let mut entry = Entry::new(Event::Admin);
    entry.profile = Some(actor.name);
    entry.src = actor.address;
    entry.server = Some(server.into());
    entry.sandbox = sandbox;
    (entry.deed, entry.subject) = (Some(Deed::ServerUse), Some(server.into()));
    entry.verdict = Some(VerdictWord::Allow);
    entry.findings = vec![words.into()];
    entry
}

/// Of a sandbox that only the record knows.
const LINES: usize = 1000;
