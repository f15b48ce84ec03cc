//! One server: what it is, which policy is in force for whom, its sandboxes and its last records; and changed in
//! place, with what is assigned to it left where it is.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, response::Response};

use super::{
    Answer, Done, Form, Frame, PageProblem, Path, clock, in_query,
    records::{RecordRow, cut, rows_of_all},
    scripted,
    server_form::{Typed, octets, processors},
    servers::own_of,
    shown_as, told,
};
use crate::{
    api::{
        audit::{AuditAsked, find},
        sandboxes::{SandboxView, listed},
        servers::{BuiltOn, in_force, save_server, server_of, shown_to},
        time,
    },
    api_error::{AnswerStatus, Problem},
    app::App,
    auth::Caller,
    in_force::ForWhom,
    profile::Sight,
    role::Permission,
    store::{Network, Server, ServerKind, ServerSource},
};

#[derive(Template)]
#[template(path = "server.html")]
struct ServerPage {
    frame: Frame,
    name: String,
    foreign: bool,
    facts: Vec<(&'static str, String)>,
    secrets: Vec<String>,
    in_force: Vec<ForWhom>,
    sandboxes: Vec<SandboxView>,
    /// The caller's own, where it runs; empty where it does not.
    own: String,
    /// Where MCP clients find it, and what they are configured with; empty where gig starts no program of it.
    endpoint: String,
    client: String,
    denials: Vec<RecordRow>,
    problem: String,
    form: Typed,
    /// In the form of another server, who starts its programs is asked.
    new: bool,
}

impl ServerPage {
    /// Whether it shows how a client is configured.
    fn has_client(&self) -> bool {
        self.frame.may_run() && !self.endpoint.is_empty()
    }

    /// For whom a policy is in force, in words.
    fn people(&self, line: &ForWhom) -> String {
        match (line.people.is_empty(), self.in_force.len()) {
            (true, 1) => "everybody".to_owned(),
            (true, _) => "everybody else".to_owned(),
            (false, _) => cut(&line.people.join(", "), 400),
        }
    }
}

/// `GET /servers/{name}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer {
    let server = server_of(&app, &caller, &name).await?;
    page(&app, &caller, &server, Outcome::default()).await
}

/// `POST /servers/{name}`: changes it.
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Form(form): Form<Typed>,
) -> Answer {
    caller.require(Permission::ManageServers)?;
    let server = server_of(&app, &caller, &name).await?;
    let built_on = BuiltOn::Tag(form.on.clone());
    let saved = match form.spec(Some(&server.spec)) {
        Ok(spec) => save_server(&app, &caller, name.clone(), spec, built_on).await,
        Err(problem) => Err(problem),
    };
    match saved {
        Ok(()) => Ok(told(
            Done::AsAsked,
            &format!("/servers/{}", in_query(&name)),
        )),
        Err(problem) if problem.status().is_client_error() => {
            let outcome = Outcome {
                problem: Some(problem),
                form: Some(form),
            };
            page(&app, &caller, &server, outcome).await
        }
        Err(problem) => Err(problem.into()),
    }
}

/// What came of what was typed.
#[derive(Default)]
struct Outcome {
    problem: Option<Problem>,
    form: Option<Typed>,
}

async fn page(
    app: &Arc<App>,
    caller: &Caller,
    server: &Server,
    outcome: Outcome,
) -> Result<Response, PageProblem> {
    let denials = if caller.may(Permission::ReadAudit) {
        let asked = AuditAsked {
            server: server.name.clone(),
            limit: Some(LATEST),
            ..AuditAsked::default()
        };
        rows_of_all(app, caller, &find(app, caller, &asked).await?.records).await?
    } else {
        Vec::new()
    };
    let mut sandboxes = listed(app, caller, &Sight::plain(caller)).await?;
    sandboxes.retain(|one| one.server == server.name);
    let status = AnswerStatus::beside(outcome.problem.as_ref());
    let (endpoint, client) = match server.spec.kind {
        ServerKind::Program => endpoint(app, &server.name),
        ServerKind::Foreign => <(String, String)>::default(),
    };
    let page = ServerPage {
        endpoint,
        client,
        frame: Frame::new(caller, "/servers"),
        name: server.name.clone(),
        foreign: server.spec.kind == ServerKind::Foreign,
        facts: facts(&shown_to(caller, server.clone())),
        secrets: server.spec.secrets.clone(),
        in_force: in_force(app, caller, server.name.clone()).await?,
        own: own_of(&sandboxes, &server.name, &caller.profile()),
        sandboxes,
        denials,
        problem: outcome
            .problem
            .map(|problem| problem.detail)
            .unwrap_or_default(),
        form: outcome.form.unwrap_or_else(|| Typed::of(server)),
        new: false,
    };
    let shown = shown_as(status, &page);
    Ok(if page.has_client() {
        scripted(shown)
    } else {
        shown
    })
}

/// Where MCP clients find a server, and the configuration of one; its token is its user's own.
fn endpoint(app: &App, name: &str) -> (String, String) {
    let base = app.reached_at.trim_end_matches('/');
    let url = format!("{base}{}", crate::mcp::PATH.replace("{server}", name));
    let [name, at] = [name, &url].map(serde_json::Value::from);
    let client = format!(
        r#"{{"mcpServers": {{{name}: {{"type": "http", "url": {at},
  "headers": {{"Authorization": "Bearer ${{GIG_TOKEN}}"}}}}}}}}"#
    );
    (url, client)
}

/// What it is, and what bounds it; what its variables hold is nobody's to see here.
fn facts(server: &Server) -> Vec<(&'static str, String)> {
    let spec = &server.spec;
    let names: Vec<&str> = spec.env.keys().map(String::as_str).collect();
    let none = |what: Option<String>| what.unwrap_or_else(|| "no limit".to_owned());
    let of_program = |text: String| match spec.kind {
        ServerKind::Program => text,
        ServerKind::Foreign => String::new(),
    };
    let idle = match spec.idle_seconds {
        None => "after 300 seconds".to_owned(),
        Some(0) => "never".to_owned(),
        Some(seconds) => format!("after {seconds} seconds"),
    };
    let all = [
        (
            "Programs",
            match spec.kind {
                ServerKind::Program => "started by gig".to_owned(),
                ServerKind::Foreign => {
                    "somebody else’s: network namespaces are registered".to_owned()
                }
            },
        ),
        ("Command", cut(&spec.command.join(" "), 2000)),
        (
            "Comes with",
            spec.source
                .as_ref()
                .map(ServerSource::told)
                .unwrap_or_default(),
        ),
        (
            "Network",
            match spec.network {
                Network::External => {
                    "public addresses, and private ones where a rule says so".to_owned()
                }
                Network::Local => "private addresses alone".to_owned(),
                Network::Disconnected => "none at all".to_owned(),
            },
        ),
        ("Variables", names.join(", ")),
        ("Sees, read-only", spec.read_only.join(", ")),
        ("Memory", of_program(none(spec.memory.map(octets)))),
        (
            "Processes and threads",
            of_program(none(spec.pids.map(|most| most.to_string()))),
        ),
        (
            "Processors",
            of_program(none(spec.cpu_millis.map(processors))),
        ),
        ("Ends when idle", of_program(idle)),
        (
            "Registered",
            format!("{} UTC, by {}", clock(&time(server.changed)), server.author),
        ),
    ];
    all.into_iter()
        .filter(|(_, words)| !words.is_empty())
        .collect()
}

const LATEST: usize = 10;
