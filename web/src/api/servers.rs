//! Registered servers: what gig runs in sandboxes, and how.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Asked, Body, Items, Order, Paging, Path, precondition::holds, put, time};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    in_force::{ForWhom, InForce},
    role::Permission,
    store::{Change, ChangeError, Name, Network, Server, ServerKind, ServerSpec},
};

/// A server, as shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServerView {
    pub(crate) name: String,
    pub(crate) author: String,
    pub(crate) changed: String,
    pub(crate) spec: ServerSpec,
}

/// A server, and what is in force where it runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OneServer {
    #[serde(flatten)]
    server: ServerView,
    /// Everybody else comes last.
    in_force: Vec<ForWhom>,
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

/// What its variables hold, and what its program is given to read, is for those alone who may write it: a key may
/// stand there. The console shows the same.
pub(crate) fn shown_to(caller: &Caller, mut server: Server) -> Server {
    if caller.require(Permission::ManageServers).is_err() {
        let values = server.spec.env.values_mut();
        values.for_each(|value| WITHHELD.clone_into(value));
        if server.spec.command.len() > 1 {
            server.spec.command.truncate(1);
            server.spec.command.push(WITHHELD.to_owned());
        }
    }
    server
}

fn shown(server: Server, caller: &Caller) -> ServerView {
    shown_to(caller, server).into()
}

/// The registered servers.
#[utoipa::path(get, path = "/api/v1/servers", tag = "servers",
    params(Paging), responses((status = 200, body = Items<ServerView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Items<ServerView>>, Problem> {
    caller.require(Permission::Look)?;
    let servers = app.ask(|store| store.servers()).await?;
    let theirs = |server: &Server| caller.reaches(&server.name);
    let servers = servers.into_iter().filter(theirs);
    let items = servers.map(|server| shown(server, &caller));
    let items = items.collect::<Vec<_>>();
    let page = paging.page(items, Order::Rising, |one| one.name.clone())?;
    Ok(Json(page))
}

/// One server, and which policy is in force for whom who runs it. For who may change it, its ETag is of what is
/// registered.
#[utoipa::path(get, path = "/api/v1/servers/{name}", tag = "servers",
    responses((status = 200, body = OneServer), (status = 404, body = Problem)))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let server = server_of(&app, &caller, &name).await?;
    let in_force = in_force(&app, &caller, name).await?;
    let tag = server.tag();
    let body = Json(OneServer {
        server: shown(server, &caller),
        in_force,
    });
    if caller.require(Permission::ManageServers).is_err() {
        return Ok(body.into_response());
    }
    Ok(([(header::ETAG, format!("\"{tag}\""))], body).into_response())
}

/// Registers a server, or changes one; what is assigned to it stays. Sandboxes that run stay as they are, but
/// what their policy reaches follows `network` at once. Under the two-person rule one person changes no
/// `network`.
#[utoipa::path(put, path = "/api/v1/servers/{name}", tag = "servers", request_body = ServerSpec,
    params(("If-Match" = Option<String>, Header, description = "the ETag that this is built on"),
           ("If-None-Match" = Option<String>, Header, description = "`*`: the server is new")),
    responses((status = 201, description = "the server is new"), (status = 204), (status = 409, body = Problem),
              (status = 412, body = Problem), (status = 422, body = Problem), (status = 428, body = Problem)))]
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(spec): Body<ServerSpec>,
) -> Result<Response, Problem> {
    caller.require(Permission::ManageServers)?;
    let wanted = name.clone();
    let there = app.ask(move |store| store.server(&wanted)).await?;
    let tag = there.map(|server| server.tag());
    let what = format!("server {name}");
    let changed = || ChangeError::Meanwhile { what }.into();
    let said = holds(&headers, tag.as_deref(), changed)?;
    if !(said.on_this || said.new) {
        let named = name.parse::<Name>().map_err(Problem::from);
        return Err(Problem::unseen("server").beside(named.and_then(|_| check(&spec))));
    }
    let place = format!("/api/v1/servers/{name}");
    let (status, place) = put(tag.is_none(), place, StatusCode::NO_CONTENT);
    let built_on = BuiltOn::Tag(tag.unwrap_or_default());
    save_server(&app, &caller, name, spec, built_on).await?;
    Ok((status, place, ()).into_response())
}

/// Forgets a server; its sandboxes end.
#[utoipa::path(delete, path = "/api/v1/servers/{name}", tag = "servers",
    params(("If-Match" = Option<String>, Header, description = "the ETag of what is removed")),
    responses((status = 204), (status = 404, body = Problem), (status = 412, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    caller.require(Permission::ManageServers)?;
    let wanted = name.clone();
    let there = app.ask(move |store| store.server(&wanted)).await?;
    let there = there.ok_or_else(|| Problem::missing("server", &name))?;
    let what = format!("server {name}");
    let changed = || ChangeError::Meanwhile { what }.into();
    let tag = there.tag();
    let said = holds(&headers, Some(&tag), changed)?;
    let seen = Some(tag).filter(|_| said.on_this);
    remove_server(&app, &caller, name, seen).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A server that the caller reaches.
pub(crate) async fn server_of(app: &App, caller: &Caller, name: &str) -> Result<Server, Problem> {
    caller.require(Permission::Look)?;
    let wanted = name.to_owned();
    let server = app.ask(move |store| store.server(&wanted)).await?;
    let server = server.filter(|server| caller.reaches(&server.name));
    server.ok_or_else(|| Problem::missing("server", name))
}

/// Which policy is in force for whom who runs a server.
pub(crate) async fn in_force(
    app: &Arc<App>,
    caller: &Caller,
    name: String,
) -> Result<Vec<ForWhom>, Problem> {
    let theirs = Arc::clone(app);
    // Who may reach some servers alone is not told who else works here.
    let alone = caller.is_narrow().then(|| caller.profile());
    let read = app.aside(move || {
        let store = theirs.store.as_ref();
        let mut in_force = InForce::read(store)?;
        match alone {
            Some(person) => in_force.for_one(&name, &person),
            None => in_force.by_person(&name),
        }
    });
    read.await?.map_err(Problem::internal)
}

/// What a registration is built on.
pub(crate) enum BuiltOn {
    /// There is none yet.
    Nothing,
    /// What had this tag; empty for what is not there.
    Tag(String),
}

/// Registers a server; the console does the same.
pub(crate) async fn save_server(
    app: &App,
    caller: &Caller,
    name: String,
    spec: ServerSpec,
    built_on: BuiltOn,
) -> Result<(), Problem> {
    caller.require(Permission::ManageServers)?;
    let name: Name = name.parse()?;
    check(&spec)?;
    hands_nothing_in(app, &spec).await?;
    let (new, expected) = match built_on {
        BuiltOn::Nothing => (true, None),
        BuiltOn::Tag(tag) => (false, Some(tag)),
    };
    let change = Change::SaveServer {
        name,
        spec,
        new,
        expected,
    };
    app.change(caller.actor(app), change).await.map(drop)
}

/// Forgets a server and ends its sandboxes; `seen` is the tag of what is removed.
pub(crate) async fn remove_server(
    app: &App,
    caller: &Caller,
    name: String,
    seen: Option<String>,
) -> Result<(), Problem> {
    caller.require(Permission::ManageServers)?;
    let expected = seen;
    let change = Change::RemoveServer { name, expected };
    app.change(caller.actor(app), change).await.map(drop)
}

/// Refuses a secret that is marked as one whose value programs hold: no server's does, and each start would say so. Where
/// the vault cannot be asked the start does.
async fn hands_nothing_in(app: &App, spec: &ServerSpec) -> Result<(), Problem> {
    if spec.secrets.is_empty() {
        return Ok(());
    }
    let known = app.secrets().await.unwrap_or_default();
    let mut marked = known
        .iter()
        .filter(|secret| secret.entrusted && secret.is_set());
    let Some(secret) = marked.find(|secret| spec.secrets.contains(&secret.name)) else {
        return Ok(());
    };
    let words = format!(
        "secret {} is marked entrusted: a program of `gig run` may hold its value, and no server's; set one that is not \
         marked, for which the server gets a sentinel",
        secret.name
    );
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    Err(Problem::new(status, "server", words))
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
    let placed = |path: &&String| {
        path.rsplit_once(':')
            .is_none_or(|(_, dest)| dest.starts_with('/'))
    };
    if let Some(path) = spec.read_only.iter().find(|path| !placed(path)) {
        return refused(format!(
            "{path:?} is no PATH or PATH:DEST: what is behind the last colon is where it is inside, an absolute path"
        ));
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
        let wrong = match name.parse::<gig_policy::SecretName>() {
            Err(error) => Some(format!("secret {name:?}: {error}")),
            Ok(name) => name.taken(),
        };
        if let Some(words) = wrong {
            return refused(words);
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

/// In place of a variable's value, and of all arguments.
const WITHHELD: &str = "(withheld)";
