//! Teams: people to whom a policy is assigned together. A team's ETag is of its members: whoever changes it
//! says what they have seen.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Asked, Begun, Body, Items, Order, Paging, Path,
    precondition::holds,
    proposals::{ProposalView, done, waits},
    put, time,
};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::Permission,
    store::{Applied, Change, ChangeError, Name, Team, members},
};

/// A team, as shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TeamView {
    pub(crate) name: String,
    /// Profiles, in small letters.
    pub(crate) members: Vec<String>,
    pub(crate) author: String,
    pub(crate) changed: String,
}

/// Who is to be of it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Members {
    /// Users, or those whom a gateway serves, by name; all others are of it no more.
    #[schema(value_type = Vec<String>)]
    members: Vec<Name>,
}

impl From<Team> for TeamView {
    fn from(team: Team) -> Self {
        Self {
            name: team.name,
            members: team.members,
            author: team.author,
            changed: time(team.changed),
        }
    }
}

/// All teams.
#[utoipa::path(get, path = "/api/v1/teams", tag = "teams",
    params(Paging), responses((status = 200, body = Items<TeamView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Items<TeamView>>, Problem> {
    caller.require(Permission::Look)?;
    let teams = app.ask(|store| store.teams()).await?;
    let items = teams.into_iter().map(Into::into).collect();
    let page = paging.page(items, Order::Rising, |one: &TeamView| one.name.clone())?;
    Ok(Json(page))
}

/// One team; its ETag is of its members.
#[utoipa::path(get, path = "/api/v1/teams/{name}", tag = "teams",
    responses((status = 200, body = TeamView), (status = 404, body = Problem)))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    caller.require(Permission::Look)?;
    let team = kept(&app, &name).await?;
    let team = team.ok_or_else(|| Problem::missing("team", &name))?;
    Ok(shown((StatusCode::OK, None), team))
}

/// Makes a team, or gives it other members. Refused where somebody were of two teams of different policies.
#[utoipa::path(put, path = "/api/v1/teams/{name}", tag = "teams", request_body = Members,
    params(("If-Match" = Option<String>, Header, description = "the ETag that this is built on"),
           ("If-None-Match" = Option<String>, Header, description = "`*`: the team is new")),
    responses((status = 200, body = TeamView), (status = 201, body = TeamView, description = "the team is new"),
              (status = 202, body = ProposalView),
              (status = 409, body = Problem), (status = 412, body = Problem), (status = 422, body = Problem),
              (status = 428, body = Problem)))]
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(wanted): Body<Members>,
) -> Result<Response, Problem> {
    caller.require(Permission::ManageTeams)?;
    let expected = built_on(&app, &name, &headers).await?;
    let expected = expected.ok_or_else(|| {
        let named = name.parse::<Name>().map_err(Problem::from);
        Problem::unseen("team").beside(named)
    })?;
    let place = format!("/api/v1/teams/{name}");
    let begun = put(expected.is_empty(), place, StatusCode::OK);
    let applied = save_team(&app, &caller, &name, &wanted.members, Some(expected)).await?;
    if let Some(proposal) = applied.proposal {
        return Ok(waits(proposal));
    }
    let team = kept(&app, &name).await?;
    // Whoever removed it meanwhile did so after it was made.
    team.map(|team| shown(begun, team))
        .ok_or_else(|| Problem::missing("team", &name))
}

/// Removes a team to which nothing is assigned. With `If-Match` only with the members that it names.
#[utoipa::path(delete, path = "/api/v1/teams/{name}", tag = "teams",
    params(("If-Match" = Option<String>, Header, description = "the ETag of what is removed")),
    responses((status = 204), (status = 202, body = ProposalView), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 412, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.require(Permission::ManageTeams)?;
    let expected = built_on(&app, &name, &headers).await?;
    Ok(done(remove_team(&app, &caller, name, expected).await?))
}

/// Gives a team these members; the console does the same.
pub(crate) async fn save_team(
    app: &App,
    caller: &Caller,
    name: &str,
    wanted: &[Name],
    expected: Option<String>,
) -> Result<Applied, Problem> {
    caller.require(Permission::ManageTeams)?;
    let change = Change::SaveTeam {
        name: name.parse()?,
        members: members(wanted),
        expected,
    };
    app.change(caller.actor(app), change).await
}

/// Removes one; the console does the same.
pub(crate) async fn remove_team(
    app: &App,
    caller: &Caller,
    name: String,
    expected: Option<String>,
) -> Result<Applied, Problem> {
    caller.require(Permission::ManageTeams)?;
    let change = Change::RemoveTeam { name, expected };
    app.change(caller.actor(app), change).await
}

fn shown((status, place): Begun, team: Team) -> Response {
    let tag = format!("\"{}\"", team.tag());
    (
        status,
        place,
        [(header::ETAG, tag)],
        Json(TeamView::from(team)),
    )
        .into_response()
}

async fn kept(app: &App, name: &str) -> Result<Option<Team>, Problem> {
    let teams = app.ask(|store| store.teams()).await?;
    Ok(teams.into_iter().find(|team| team.name == name))
}

/// The tag that a change is built on, empty for a new team, `None` where nothing is said; refuses what is not
/// so now.
async fn built_on(app: &App, name: &str, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let tag = kept(app, name).await?.map(|team| team.tag());
    let what = format!("team {name}");
    let changed = || ChangeError::Meanwhile { what }.into();
    let said = holds(headers, tag.as_deref(), changed)?;
    Ok((said.on_this || said.new).then(|| tag.unwrap_or_default()))
}

#[cfg(test)]
mod tests;
