//! Servers: registered, started, removed.

use std::{collections::BTreeMap, sync::Arc};

use askama::Template;
use axum::{
    Form,
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use serde::Deserialize;

use super::{Answer, Frame, records::cut, shown_as, to};
use crate::{
    api::{
        sandboxes::start_server,
        servers::{remove_server, save_server},
    },
    api_error::Problem,
    app::App,
    auth::Caller,
    profile::Whose,
    role::Permission,
    store::{Network, Place, ServerKind, ServerSpec},
};

#[derive(Template)]
#[template(path = "servers.html")]
struct ServersPage {
    frame: Frame,
    servers: Vec<ServerRow>,
    problem: String,
    form: Typed,
}

struct ServerRow {
    name: String,
    command: String,
    foreign: bool,
    source: String,
    policy: String,
    network: &'static str,
    secrets: String,
}

/// As it was typed.
#[derive(Default, Deserialize)]
pub(crate) struct Typed {
    name: String,
    #[serde(default)]
    kind: ServerKind,
    #[serde(default)]
    command: String,
    #[serde(default)]
    env: String,
    #[serde(default)]
    read_only: String,
    #[serde(default)]
    secrets: String,
    #[serde(default)]
    network: Network,
    #[serde(default)]
    idle: String,
}

/// `GET /servers`.
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    page(
        &app,
        &caller,
        StatusCode::OK,
        String::new(),
        Typed::default(),
    )
    .await
}

/// `POST /servers`.
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(typed): Form<Typed>,
) -> Answer {
    let saved = match spec(&typed) {
        Ok(spec) => save_server(&app, &caller, typed.name.trim().to_owned(), spec, true).await,
        Err(problem) => Err(problem),
    };
    match saved {
        Ok(()) => Ok(to("/servers")),
        Err(problem) if problem.status().is_client_error() => {
            page(&app, &caller, problem.status(), problem.detail, typed).await
        }
        Err(problem) => Err(problem.into()),
    }
}

/// `POST /servers/{name}/start`.
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer {
    let own = Whose::own(&caller);
    let (_, started) = start_server(&app, &caller, name, own).await?;
    Ok(to(&format!("/sandboxes/{}", started.id)))
}

/// `POST /servers/{name}/remove`.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer {
    remove_server(&app, &caller, name).await?;
    Ok(to("/servers"))
}

async fn page(
    app: &App,
    caller: &Caller,
    status: StatusCode,
    problem: String,
    form: Typed,
) -> Result<Response, super::PageProblem> {
    caller.require(Permission::Look)?;
    let servers = app.ask(|store| store.servers()).await?;
    let assignments = app.ask(|store| store.assignments()).await?;
    let policy = |server: &str| {
        let at = |place: &Place| assignments.iter().find(|one| one.place == *place);
        let found = at(&Place::Server(server.to_owned())).or_else(|| at(&Place::All));
        found.map(|one| one.policy.clone()).unwrap_or_default()
    };
    let rows = servers.into_iter().map(|server| ServerRow {
        policy: policy(&server.name),
        command: cut(&server.spec.command.join(" "), 200),
        foreign: server.spec.kind == ServerKind::Foreign,
        source: server
            .spec
            .source
            .map_or_else(String::new, |source| cut(&source.told(), 400)),
        network: server.spec.network.as_str(),
        secrets: server.spec.secrets.join(", "),
        name: server.name,
    });
    let page = ServersPage {
        frame: Frame::new(caller, "/servers"),
        servers: rows.collect(),
        problem,
        form,
    };
    Ok(shown_as(status, &page))
}

fn spec(typed: &Typed) -> Result<ServerSpec, Problem> {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::to_owned);
        lines.filter(|line| !line.is_empty()).collect()
    };
    let mut env = BTreeMap::new();
    for line in lines(&typed.env) {
        let Some((name, value)) = line.split_once('=') else {
            return Err(Problem::invalid(format!("{line:?} is no NAME=VALUE")));
        };
        env.insert(name.trim().to_owned(), value.to_owned());
    }
    let idle = typed.idle.trim();
    let idle_seconds = match idle {
        "" => None,
        said => Some(said.parse().map_err(|_| {
            Problem::invalid(format!("{said:?} is no number of seconds to be idle for"))
        })?),
    };
    Ok(ServerSpec {
        kind: typed.kind,
        idle_seconds,
        command: lines(&typed.command),
        env,
        secrets: typed
            .secrets
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        read_only: lines(&typed.read_only),
        network: typed.network,
        ..ServerSpec::default()
    })
}
