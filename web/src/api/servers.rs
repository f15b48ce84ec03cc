//! Registered servers: what gig runs in sandboxes, and how.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Body, Items, time};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::Permission,
    store::{Change, Name, Network, Server, ServerKind, ServerSpec},
};

/// A server, as shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServerView {
    pub(crate) name: String,
    pub(crate) author: String,
    pub(crate) changed: String,
    pub(crate) spec: ServerSpec,
}

impl From<Server> for ServerView {
    fn from(server: Server) -> Self {
        Self {
            name: server.name,
            author: server.author,
            changed: time(server.changed),
            spec: server.spec,
        }
    }
}

/// What its variables hold is for those alone who may write it: a key may stand there.
fn shown(mut server: Server, caller: &Caller) -> ServerView {
    if caller.require(Permission::ManageServers).is_err() {
        let values = server.spec.env.values_mut();
        values.for_each(|value| WITHHELD.clone_into(value));
    }
    server.into()
}

/// The registered servers.
#[utoipa::path(get, path = "/api/v1/servers", tag = "servers",
    responses((status = 200, body = Items<ServerView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Items<ServerView>>, Problem> {
    caller.require(Permission::Look)?;
    let servers = app.ask(|store| store.servers()).await?;
    let theirs = |server: &Server| caller.reaches(&server.name);
    let servers = servers.into_iter().filter(theirs);
    let items = servers.map(|server| shown(server, &caller));
    let items = items.collect();
    Ok(Json(Items { items }))
}

/// One server.
#[utoipa::path(get, path = "/api/v1/servers/{name}", tag = "servers",
    responses((status = 200, body = ServerView), (status = 404, body = Problem)))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<ServerView>, Problem> {
    caller.require(Permission::Look)?;
    let wanted = name.clone();
    let server = app.ask(move |store| store.server(&wanted)).await?;
    let server = server.filter(|server| caller.reaches(&server.name));
    let server = server.ok_or_else(|| Problem::missing("server", &name))?;
    Ok(Json(shown(server, &caller)))
}

/// Registers a server, or changes one. Sandboxes that run stay as they are, but what their policy reaches
/// follows `network` at once. Under the two-person rule one person changes no `network`.
#[utoipa::path(put, path = "/api/v1/servers/{name}", tag = "servers", request_body = ServerSpec,
    responses((status = 204), (status = 422, body = Problem)))]
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(spec): Body<ServerSpec>,
) -> Result<StatusCode, Problem> {
    save_server(&app, &caller, name, spec, false).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Forgets a server; its sandboxes end.
#[utoipa::path(delete, path = "/api/v1/servers/{name}", tag = "servers",
    responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    remove_server(&app, &caller, name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Registers a server; the console does the same.
pub(crate) async fn save_server(
    app: &App,
    caller: &Caller,
    name: String,
    spec: ServerSpec,
    new: bool,
) -> Result<(), Problem> {
    caller.require(Permission::ManageServers)?;
    let name: Name = name.parse()?;
    check(&spec)?;
    let change = Change::SaveServer { name, spec, new };
    app.change(caller.actor(app), change).await.map(drop)
}

/// Forgets a server and ends its sandboxes.
pub(crate) async fn remove_server(app: &App, caller: &Caller, name: String) -> Result<(), Problem> {
    caller.require(Permission::ManageServers)?;
    let change = Change::RemoveServer { name };
    app.change(caller.actor(app), change).await.map(drop)
}

fn check(spec: &ServerSpec) -> Result<(), Problem> {
    let refused = |words: String| {
        Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "server",
            words,
        ))
    };
    if spec.kind == ServerKind::Foreign {
        if let Some(words) = not_of_a_foreign_one(spec) {
            return refused(words.to_owned());
        }
    } else if let Some(words) = no_program(spec) {
        return refused(words.to_owned());
    }
    let texts = spec
        .command
        .iter()
        .chain(spec.env.values())
        .chain(&spec.read_only);
    if texts.clone().any(|text| text.contains('\0')) {
        return refused("no text may hold a NUL".to_owned());
    }
    if texts.map(String::len).sum::<usize>() > LONGEST {
        return refused(format!("all texts together have at most {LONGEST} octets"));
    }
    let named = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
    if let Some(name) = spec.env.keys().find(|name| !named(name)) {
        return refused(format!("{name:?} is no variable's name"));
    }
    if let Some(path) = spec.read_only.iter().find(|path| !path.starts_with('/')) {
        return refused(format!("{path:?} is no absolute path"));
    }
    if spec
        .source
        .as_ref()
        .is_some_and(|source| !source.is_plain())
    {
        return refused(
            "a source has the digest of its content, an image's name its digest too; `gig server \
             add` makes both"
                .to_owned(),
        );
    }
    for name in &spec.secrets {
        if let Err(error) = name.parse::<gig_policy::SecretName>() {
            return refused(format!("secret {name:?}: {error}"));
        }
    }
    if spec.pids == Some(0) || spec.cpu_millis == Some(0) || spec.memory == Some(0) {
        return refused("a limit of nothing lets nothing run".to_owned());
    }
    Ok(())
}

/// What is wrong with a command.
fn no_program(spec: &ServerSpec) -> Option<&'static str> {
    match spec.command.first() {
        None => Some("a server has a command"),
        Some(program) if program.is_empty() => Some("the program is empty"),
        Some(_) => None,
    }
}

/// What only means something where gig starts the program.
fn not_of_a_foreign_one(spec: &ServerSpec) -> Option<&'static str> {
    let has_program = !spec.command.is_empty()
        || spec.source.is_some()
        || !spec.env.is_empty()
        || !spec.read_only.is_empty()
        || spec.memory.is_some()
        || spec.pids.is_some()
        || spec.cpu_millis.is_some()
        || spec.idle_seconds.is_some();
    if has_program {
        return Some(
            "gig starts no program of a foreign server: it has no command, variables, files, limits or \
             idle time",
        );
    }
    (spec.network == Network::Disconnected).then_some(
        "a foreign server that reaches nothing is one that is not registered: external or local",
    )
}

/// Fits a command line of Linux.
const LONGEST: usize = 128 * 1024;

/// In place of a variable's value.
const WITHHELD: &str = "(withheld)";
