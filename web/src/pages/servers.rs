//! Servers: registered, started, removed.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, response::Response};

use super::{
    Answer, AnswerStatus, Done, Form, Frame, Path, records::cut, server_form::Typed, shown_as, told,
};
use crate::{
    api::{
        sandboxes::{SandboxView, listed, start_server},
        servers::{BuiltOn, remove_server, save_server, shown_to},
    },
    app::App,
    auth::Caller,
    in_force::InForce,
    one_sandbox::{ELSEWHERE, RUNNING},
    profile::{Sight, Whose},
    role::Permission,
    store::ServerKind,
};

#[derive(Template)]
#[template(path = "servers.html")]
struct ServersPage {
    frame: Frame,
    servers: Vec<ServerRow>,
    problem: String,
    form: Typed,
    /// The form is of a server that is not there yet.
    new: bool,
}

struct ServerRow {
    name: String,
    command: String,
    foreign: bool,
    source: String,
    /// What is in force in the caller's own sandbox of it; empty for nothing.
    policy: String,
    network: &'static str,
    secrets: String,
    /// How many of its sandboxes run that the caller may see, on whichever node.
    runs: usize,
    /// The caller's own, where it runs; empty where it does not.
    own: String,
}

/// `GET /servers`.
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    page(
        &app,
        &caller,
        AnswerStatus::OK,
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
    let name = typed.name.trim().to_owned();
    let saved = match typed.spec(None) {
        Ok(spec) => save_server(&app, &caller, name, spec, BuiltOn::Nothing).await,
        Err(problem) => Err(problem),
    };
    match saved {
        Ok(()) => Ok(told(Done::AsAsked, "/servers")),
        Err(problem) if problem.status().is_client_error() => {
            page(
                &app,
                &caller,
                problem.answer_status(),
                problem.detail,
                typed,
            )
            .await
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
    Ok(told(Done::Runs, &format!("/sandboxes/{}", started.id)))
}

/// `POST /servers/{name}/remove`.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer {
    remove_server(&app, &caller, name, None).await?;
    Ok(told(Done::Removed, "/servers"))
}

/// The one that runs for this profile; empty where none does.
pub(super) fn own_of(sandboxes: &[SandboxView], server: &str, profile: &str) -> String {
    let own = sandboxes
        .iter()
        .find(|one| one.server == server && one.profile == profile && runs(one));
    own.map(|one| one.id.clone()).unwrap_or_default()
}

/// Whether it runs, on whichever node.
pub(super) fn runs(one: &SandboxView) -> bool {
    matches!(one.state, RUNNING | ELSEWHERE)
}

async fn page(
    app: &Arc<App>,
    caller: &Caller,
    status: AnswerStatus,
    problem: String,
    form: Typed,
) -> Result<Response, super::PageProblem> {
    caller.require(Permission::Look)?;
    let servers = app.ask(|store| store.servers()).await?;
    let (names, own): (Vec<String>, _) = (
        servers.iter().map(|server| server.name.clone()).collect(),
        caller.profile(),
    );
    let policies = app.ask(move |store| {
        let in_force = InForce::read(store)?;
        let of = |server: &String| in_force.name_for(server, &own).unwrap_or_default();
        Ok(names.iter().map(of).collect::<Vec<_>>())
    });
    let mut running = listed(app, caller, &Sight::plain(caller)).await?;
    running.retain(runs);
    let profile = caller.profile();
    let both = servers.into_iter().zip(policies.await?);
    let shown = both.map(|(server, policy)| (shown_to(caller, server), policy));
    let rows = shown.map(|(server, policy)| ServerRow {
        policy,
        command: cut(&server.spec.command.join(" "), 200),
        foreign: server.spec.kind == ServerKind::Foreign,
        source: server
            .spec
            .source
            .map_or_else(String::new, |source| cut(&source.told(), 400)),
        network: server.spec.network.as_str(),
        secrets: server.spec.secrets.join(", "),
        runs: running
            .iter()
            .filter(|one| one.server == server.name)
            .count(),
        own: own_of(&running, &server.name, &profile),
        name: server.name,
    });
    let page = ServersPage {
        frame: Frame::new(caller, "/servers"),
        servers: rows.collect(),
        problem,
        form,
        new: true,
    };
    Ok(shown_as(status, &page))
}
