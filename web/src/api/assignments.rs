//! What is in force where, and how that is changed: a list of places with one tag for all of it.

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
    Asked, Body, Items, Order, Paging,
    precondition::{has, holds, is_any},
    proposals::{self, ProposalView},
};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::Permission,
    store::{Assignment, Change, ChangeError, Name, Place},
};

/// What is in force where: for one person, a team, a server, or, where none of them is named, all.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AssignmentView {
    /// A server, whoever it runs for.
    #[serde(default)]
    pub(crate) server: Option<String>,
    /// A team, whatever server runs for who is of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) team: Option<String>,
    /// A person, whatever server runs for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<String>,
    /// A policy; null takes the assignment away.
    pub(crate) policy: Option<String>,
}

impl AssignmentView {
    /// Where it stands in a list: of all first, then by whom it is for.
    fn key(&self) -> String {
        let named = [
            ("profile", &self.profile),
            ("server", &self.server),
            ("team", &self.team),
        ];
        let mut named = named.into_iter();
        let found = named.find_map(|(scope, name)| Some((scope, name.as_ref()?)));
        found.map_or_else(
            || "all".to_owned(),
            |(scope, name)| format!("{scope} {name}"),
        )
    }

    /// For whom it is.
    pub(crate) fn place(&self) -> Result<Place, Problem> {
        match (&self.profile, &self.team, &self.server) {
            (Some(name), None, None) => Ok(Place::profile(name.parse::<Name>()?.as_str())),
            (None, Some(name), None) => Ok(Place::Team(name.clone())),
            (None, None, server) => Ok(server.clone().into()),
            _ => Err(Problem::invalid(
                "name a server, a team or a profile, or none of them for all: not two",
            )),
        }
    }
}

impl AssignmentView {
    /// What is said of a request that does not say what it is built on: with what else is wrong with it.
    pub(super) async fn judged_beside(&self, app: &App, unseen: Problem) -> Problem {
        if unseen.status() != StatusCode::PRECONDITION_REQUIRED {
            return unseen;
        }
        unseen.beside(self.known(app).await)
    }

    /// For whom it is, where the policy is one that is kept and the server or team is there.
    pub(super) async fn known(&self, app: &App) -> Result<Place, Problem> {
        let place = self.place()?;
        if let Some(name) = self.policy.clone() {
            let wanted = name.clone();
            let kept = app.ask(move |store| store.policy(&wanted, None)).await?;
            if kept.is_none() {
                return Err(Problem::missing("policy", &name));
            }
            let placed = app.ask(|store| store.placed()).await?;
            let missing = match &place {
                Place::Server(name) => !placed.servers.iter().any(|server| server.name == *name),
                Place::Team(name) => !placed.teams.iter().any(|team| team.name == *name),
                Place::Profile(_) | Place::All => false,
            };
            if missing {
                return Err(Problem::missing(place.scope(), place.subject()));
            }
        }
        Ok(place)
    }
}

impl From<Assignment> for AssignmentView {
    fn from(one: Assignment) -> Self {
        let (mut server, mut team, mut profile) = (None, None, None);
        match one.place {
            Place::Server(name) => server = Some(name),
            Place::Team(name) => team = Some(name),
            Place::Profile(name) => profile = Some(name),
            Place::All => {}
        }
        Self {
            server,
            team,
            profile,
            policy: Some(one.policy),
        }
    }
}

/// What is in force where. The most specific is: a person's own, else their teams', else the server's, else that
/// of all; every floor bounds it. The ETag is of the whole list.
#[utoipa::path(get, path = "/api/v1/assignments", tag = "policies",
    params(Paging, ("If-None-Match" = Option<String>, Header, description = "the ETag of what is known")),
    responses((status = 200, body = Items<AssignmentView>), (status = 304, description = "it is as known")))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Asked(paging): Asked<Paging>,
) -> Result<Response, Problem> {
    caller.require(Permission::Look)?;
    let found = app.ask(|store| store.assignments()).await?;
    assigned(found, (&headers, &paging))
}

/// Puts a policy in force for a person, a team, a server, or for all that have none more specific, where the list is
/// still the one that `If-Match` names; `*` is whatever there is. Refused where a person were of two teams of
/// different policies.
#[utoipa::path(put, path = "/api/v1/assignments", tag = "policies", request_body = AssignmentView,
    params(("If-Match" = String, Header, description = "the ETag of the list that this is built on; or `*`")),
    responses((status = 204), (status = 202, body = ProposalView), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 412, body = Problem), (status = 428, body = Problem)))]
pub(crate) async fn assign(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Body(wanted): Body<AssignmentView>,
) -> Result<Response, Problem> {
    caller.require(Permission::AssignPolicies)?;
    let there = app.ask(|store| store.assignments()).await?;
    let expected = match seen(&headers, &there, "assignments") {
        Ok(expected) => expected,
        Err(unseen) => return Err(wanted.judged_beside(&app, unseen).await),
    };
    let change = Change::Assign {
        place: wanted.place()?,
        policy: wanted.policy,
        expected,
    };
    let applied = app.change(caller.actor(&app), change).await?;
    Ok(proposals::done(applied))
}

/// A page of a list of places, with the tag of all of it.
pub(crate) fn assigned(
    found: Vec<Assignment>,
    (headers, paging): (&HeaderMap, &Paging),
) -> Result<Response, Problem> {
    let tag = Assignment::tag(&found);
    let is_had = has(headers, &tag);
    let tag = format!("\"{tag}\"");
    // What would be refused is refused, whatever is known (RFC 9110 §13.2.1).
    let items: Vec<AssignmentView> = found.into_iter().map(Into::into).collect();
    let page = paging.page(items, Order::Rising, AssignmentView::key)?;
    if is_had {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    Ok(([(header::ETAG, tag)], Json(page)).into_response())
}

/// The tag of the list that a change is built on, `None` for whatever there is; refuses what is not so now, and who does
/// not say.
pub(crate) fn seen(
    headers: &HeaderMap,
    there: &[Assignment],
    what: &'static str,
) -> Result<Option<String>, Problem> {
    let tag = Assignment::tag(there);
    let changed = || {
        let what = what.to_owned();
        ChangeError::Meanwhile { what }.into()
    };
    let said = holds(headers, Some(&tag), changed)?;
    match said.on_this {
        true => Ok(Some(tag).filter(|_| !is_any(headers))),
        false => Err(Problem::unmatched(&format!("list of {what}"))),
    }
}
