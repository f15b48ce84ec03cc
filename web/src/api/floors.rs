//! Floors: policies that bound what is allowed to all, or to one server, team or person, whatever is assigned
//! there.

use std::sync::Arc;

use axum::{extract::State, http::HeaderMap, response::Response};

use super::{
    Asked, Body, Items, Paging,
    assignments::{AssignmentView, assigned, seen},
    proposals::{ProposalView, done},
};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::{Permission, Role},
    store::{Applied, Change, Place},
};

/// Which policies bound others, and where.
#[utoipa::path(get, path = "/api/v1/floors", tag = "policies",
    params(Paging, ("If-None-Match" = Option<String>, Header, description = "the ETag of what is known")),
    responses((status = 200, body = Items<AssignmentView>), (status = 304, description = "it is as known")))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Asked(paging): Asked<Paging>,
) -> Result<Response, Problem> {
    caller.require(Permission::Look)?;
    let found = app.ask(|store| store.floors()).await?;
    assigned(found, (&headers, &paging))
}

/// Makes a policy the floor of a person, a team, a server, or of all, where the list is still the one that `If-Match`
/// names; `*` is whatever there is.
#[utoipa::path(put, path = "/api/v1/floors", tag = "policies", request_body = AssignmentView,
    params(("If-Match" = String, Header, description = "the ETag of the list that this is built on; or `*`")),
    responses((status = 204), (status = 202, body = ProposalView), (status = 404, body = Problem),
              (status = 412, body = Problem), (status = 428, body = Problem)))]
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Body(wanted): Body<AssignmentView>,
) -> Result<Response, Problem> {
    caller.require(Permission::SetFloors)?;
    let there = app.ask(|store| store.floors()).await?;
    let expected = match seen(&headers, &there, "floors") {
        Ok(expected) => expected,
        Err(unseen) => return Err(wanted.judged_beside(&app, unseen).await),
    };
    let place = wanted.place()?;
    let applied = set_floor(&app, &caller, (place, wanted.policy), expected).await?;
    Ok(done(applied))
}

/// Sets a floor; the console does the same.
pub(crate) async fn set_floor(
    app: &App,
    caller: &Caller,
    (place, policy): (Place, Option<String>),
    expected: Option<String>,
) -> Result<Applied, Problem> {
    caller.require(Permission::SetFloors)?;
    let change = Change::SetFloor {
        place,
        policy,
        expected,
    };
    app.change(caller.actor(app), change).await
}

/// Refuses to let who may not set floors change a policy that is one.
pub(crate) async fn guard(app: &App, caller: &Caller, policy: &str) -> Result<(), Problem> {
    if caller.may(Permission::SetFloors) {
        return Ok(());
    }
    let floors = app.ask(|store| store.floors()).await?;
    let least = Role::least(Permission::SetFloors);
    match floors.iter().any(|one| one.policy == policy) {
        true => Err(Problem::forbidden(format!(
            "{policy} is a floor, which bounds what others allow: to {} takes the role {least}",
            Permission::SetFloors.words()
        ))
        .taking(least)),
        false => Ok(()),
    }
}
