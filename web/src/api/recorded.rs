//! Recorded traffic for who writes and who approves policies: simulated, and made a draft of.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Body, OptionalBody, Path, assignments::AssignmentView, proposals::proposal};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    in_force::{InForce, Supposed, SupposedTeam},
    recorded::{self, Breadth, MOST_DAYS, Simulation, Span, Suggested},
    role::Permission,
    store::{Draft, Name, ProposalKind, members},
};

/// A draft, and the traffic that it is to decide.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToSimulate {
    document: String,
    /// Days until now, 1 to 90.
    #[serde(default = "week")]
    days: u16,
    /// Only this server's; absent: what this policy decided.
    #[serde(default)]
    server: Option<String>,
}

/// The traffic to make a draft for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToSuggest {
    /// Days until now, 1 to 90.
    #[serde(default = "week")]
    days: u16,
    /// What this server's sandboxes tried.
    #[serde(default)]
    server: Option<String>,
    /// What this sandbox tried; with neither: what this policy decided.
    #[serde(default)]
    sandbox: Option<String>,
    #[serde(default)]
    width: Breadth,
}

/// Decides recorded traffic again by a draft.
#[utoipa::path(post, path = "/api/v1/policies/{name}/simulate", tag = "policies",
    request_body = ToSimulate, responses((status = 200, body = Simulation),
    (status = 422, body = Problem), (status = 429, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn simulate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(asked): Body<ToSimulate>,
) -> Result<Json<Simulation>, Problem> {
    takes_part(&caller)?;
    let name: Name = name.parse()?;
    let name = name.to_string();
    let span = span(&name, asked.days, asked.server, None)?;
    let done = simulated(&app, &caller, name, asked.document, span).await?;
    Ok(Json(done))
}

/// Writes the narrowest policy for what was tried; keeps nothing.
#[utoipa::path(post, path = "/api/v1/policies/{name}/suggest", tag = "policies",
    request_body = ToSuggest, responses((status = 200, body = Suggested), (status = 429, body = Problem),
    (status = 503, body = Problem)))]
pub(crate) async fn suggest(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    OptionalBody(asked): OptionalBody<ToSuggest>,
) -> Result<Json<Suggested>, Problem> {
    let span = span(&name, asked.days, asked.server, asked.sandbox)?;
    Ok(Json(
        suggested(&app, &caller, name, (asked.width, span), None).await?,
    ))
}

/// Where another policy, or none, is to stand.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToSimulatePlace {
    /// A server, whoever it runs for.
    #[serde(default)]
    server: Option<String>,
    /// A team, whatever server runs for who is of it.
    #[serde(default)]
    team: Option<String>,
    /// A person, whatever server runs for them.
    #[serde(default)]
    profile: Option<String>,
    /// A policy; null takes out what is there.
    policy: Option<String>,
    /// Days until now, 1 to 90.
    #[serde(default = "week")]
    days: u16,
}

/// Who is to be of a team.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToSimulateTeam {
    /// Users, or those whom a gateway serves, by name; all others are of it no more.
    #[schema(value_type = Vec<String>)]
    members: Vec<Name>,
    /// Days until now, 1 to 90.
    #[serde(default = "week")]
    days: u16,
}

/// Decides recorded traffic again as if a policy were in force for a person, a team, a server, or for all, or none were;
/// keeps nothing.
#[utoipa::path(post, path = "/api/v1/assignments/simulate", tag = "policies", request_body = ToSimulatePlace,
    responses((status = 200, body = Simulation), (status = 404, body = Problem), (status = 429, body = Problem),
              (status = 503, body = Problem)))]
pub(crate) async fn of_assignment(
    State(app): State<Arc<App>>,
    caller: Caller,
    OptionalBody(asked): OptionalBody<ToSimulatePlace>,
) -> Result<Json<Simulation>, Problem> {
    elsewhere(&app, &caller, asked, false).await
}

/// Decides recorded traffic again as if a policy were the floor of a person, a team, a server, or of all, or none were;
/// keeps nothing.
#[utoipa::path(post, path = "/api/v1/floors/simulate", tag = "policies", request_body = ToSimulatePlace,
    responses((status = 200, body = Simulation), (status = 404, body = Problem), (status = 429, body = Problem),
              (status = 503, body = Problem)))]
pub(crate) async fn of_floor(
    State(app): State<Arc<App>>,
    caller: Caller,
    OptionalBody(asked): OptionalBody<ToSimulatePlace>,
) -> Result<Json<Simulation>, Problem> {
    elsewhere(&app, &caller, asked, true).await
}

/// Decides recorded traffic again as if these were of a team: that of who would come or go, where the team has a policy
/// or a floor; keeps nothing. A team that is not there has neither, so that nothing changes.
#[utoipa::path(post, path = "/api/v1/teams/{name}/simulate", tag = "teams", request_body = ToSimulateTeam,
    responses((status = 200, body = Simulation), (status = 422, body = Problem), (status = 429, body = Problem),
              (status = 503, body = Problem)))]
pub(crate) async fn of_team(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(asked): Body<ToSimulateTeam>,
) -> Result<Json<Simulation>, Problem> {
    takes_part(&caller)?;
    within_days(asked.days)?;
    let supposed = SupposedTeam {
        name: name.parse::<Name>()?.to_string(),
        members: members(&asked.members),
    };
    let done = recorded::simulate_team(&app, supposed, asked.days).await?;
    Ok(Json(done))
}

async fn elsewhere(
    app: &Arc<App>,
    caller: &Caller,
    asked: ToSimulatePlace,
    is_floor: bool,
) -> Result<Json<Simulation>, Problem> {
    takes_part(caller)?;
    within_days(asked.days)?;
    let wanted = AssignmentView {
        server: asked.server,
        team: asked.team,
        profile: asked.profile,
        policy: asked.policy,
    };
    // A policy that is not there would deny everything, which nobody means.
    let place = wanted.known(app).await?;
    let supposed = Supposed {
        place,
        policy: wanted.policy,
        is_floor,
    };
    let done = recorded::simulate_place(app, supposed, asked.days).await?;
    Ok(Json(done))
}

/// Decides a week's recorded traffic again as a proposal would have it: by the document that it would save, by the policy
/// that it would put in force somewhere or take out, or have as a floor, or by who would be of a team.
#[utoipa::path(get, path = "/api/v1/proposals/{id}/simulation", tag = "proposals",
    responses((status = 200, body = Simulation), (status = 404, body = Problem),
              (status = 429, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn of_proposal(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<u64>,
) -> Result<Json<Simulation>, Problem> {
    let found = proposal(&app, &caller, id).await?;
    if found.is_forgotten() {
        return Err(Problem::missing(
            "document any more of proposal",
            &id.to_string(),
        ));
    }
    let done = simulated_draft(&app, &caller, found.draft).await?;
    let nothing =
        || Problem::invalid("this proposal changes no policy that traffic could be held against");
    Ok(Json(done.ok_or_else(nothing)?))
}

/// Simulates what is proposed; `None` where traffic says nothing of it. The console does the same.
pub(crate) async fn simulated_draft(
    app: &Arc<App>,
    caller: &Caller,
    draft: Draft,
) -> Result<Option<Simulation>, Problem> {
    if let Some(supposed) = supposed(&draft) {
        takes_part(caller)?;
        let done = recorded::simulate_place(app, supposed, week()).await?;
        return Ok(Some(done));
    }
    if draft.kind == ProposalKind::SaveTeam {
        takes_part(caller)?;
        let supposed = SupposedTeam {
            members: draft.value.split_whitespace().map(str::to_owned).collect(),
            name: draft.subject,
        };
        let done = recorded::simulate_team(app, supposed, week()).await?;
        return Ok(Some(done));
    }
    let name = draft.policy().filter(|_| draft.holds_document());
    let Some(name) = name.map(str::to_owned) else {
        return Ok(None);
    };
    let span = span(&name, week(), draft.server(), None)?;
    let done = simulated(app, caller, name, draft.value, span).await?;
    Ok(Some(done))
}

/// What would stand where, of a proposal that writes no document.
pub(crate) fn supposed(draft: &Draft) -> Option<Supposed> {
    let is_floor = match draft.kind {
        ProposalKind::Assign => false,
        ProposalKind::SetFloor => true,
        _ => return None,
    };
    Some(Supposed {
        place: draft.place()?,
        policy: draft.policy().map(str::to_owned),
        is_floor,
    })
}

/// Simulates; the console does the same.
pub(crate) async fn simulated(
    app: &Arc<App>,
    caller: &Caller,
    name: String,
    document: String,
    span: Span,
) -> Result<Simulation, Problem> {
    takes_part(caller)?;
    recorded::simulate(app, name, document, span).await
}

/// Suggests, for a policy that `assign` names the server of, where it is a new one; the console does the same.
pub(crate) async fn suggested(
    app: &Arc<App>,
    caller: &Caller,
    name: String,
    (width, span): (Breadth, Span),
    assign: Option<String>,
) -> Result<Suggested, Problem> {
    takes_part(caller)?;
    let name: Name = name.parse()?;
    // A new one stands in the place of what that server has.
    let instead = match assign {
        Some(server) => {
            app.ask(move |store| Ok(InForce::read(store)?.name_for(&server, "")))
                .await?
        }
        None => None,
    };
    recorded::suggestion(app, name.to_string(), width, span, instead).await
}

/// One reading runs at a time: it is for who writes or approves, not for who only looks.
fn takes_part(caller: &Caller) -> Result<(), Problem> {
    if !caller.may(Permission::Approve) {
        caller.require(Permission::EditPolicies)?;
    }
    // What comes of it is read from the record.
    caller.require(Permission::ReadAudit)
}

/// A server's or a sandbox's traffic; with neither what the policy decided.
pub(crate) fn span(
    policy: &str,
    days: u16,
    server: Option<String>,
    sandbox: Option<String>,
) -> Result<Span, Problem> {
    within_days(days)?;
    let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let (server, sandbox) = (given(server), given(sandbox));
    let neither = server.is_none() && sandbox.is_none();
    Ok(Span {
        days,
        policy: neither.then(|| policy.to_owned()),
        server,
        sandbox,
    })
}

fn within_days(days: u16) -> Result<(), Problem> {
    match (1..=MOST_DAYS).contains(&days) {
        true => Ok(()),
        false => Err(Problem::invalid(format!("days are 1 to {MOST_DAYS}"))),
    }
}

/// Long enough for what happens weekly.
pub(crate) const fn week() -> u16 {
    7
}
