//! Floors: policies that bound what is allowed to all servers, or to one, whatever is assigned there.

use std::sync::Arc;

use axum::{Json, extract::State, response::Response};

use super::{
    Body, Items,
    policies::AssignmentView,
    proposals::{ProposalView, done},
};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::Permission,
    store::{Applied, Change},
};

/// Which policies bound others, and where.
#[utoipa::path(get, path = "/api/v1/floors", tag = "policies",
    responses((status = 200, body = Items<AssignmentView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Items<AssignmentView>>, Problem> {
    caller.require(Permission::Look)?;
    let found = app.ask(|store| store.floors()).await?;
    let items = found.into_iter().map(|one| AssignmentView {
        server: one.server,
        policy: Some(one.policy),
    });
    Ok(Json(Items {
        items: items.collect(),
    }))
}

/// Makes a policy the floor of a server, or of all servers.
#[utoipa::path(put, path = "/api/v1/floors", tag = "policies", request_body = AssignmentView,
    responses((status = 204), (status = 202, body = ProposalView), (status = 404, body = Problem)))]
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(wanted): Body<AssignmentView>,
) -> Result<Response, Problem> {
    let applied = set_floor(&app, &caller, wanted.server, wanted.policy).await?;
    Ok(done(applied))
}

/// Sets a floor; the console does the same.
pub(crate) async fn set_floor(
    app: &App,
    caller: &Caller,
    server: Option<String>,
    policy: Option<String>,
) -> Result<Applied, Problem> {
    caller.require(Permission::SetFloors)?;
    let change = Change::SetFloor { server, policy };
    app.change(caller.actor(app), change).await
}

/// Refuses to let who may not set floors change a policy that is one.
pub(crate) async fn guard(app: &App, caller: &Caller, policy: &str) -> Result<(), Problem> {
    if caller.may(Permission::SetFloors) {
        return Ok(());
    }
    let floors = app.ask(|store| store.floors()).await?;
    match floors.iter().any(|one| one.policy == policy) {
        true => Err(Problem::forbidden(format!(
            "{policy} is a floor, which bounds what others allow: an admin changes it"
        ))),
        false => Ok(()),
    }
}
