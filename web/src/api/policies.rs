//! Policies: versions that are compiled before they are kept, and what is in force where.
//!
//! A version's number is its ETag. `If-Match` says on which version a change is built, `If-None-Match:
//! *` that the policy is new; one of both must be there where something is there already, so that nobody overwrites what
//! they have not seen; `If-Match: *` says that it is whatever there is.
#![expect(unused_qualifications, reason = "what utoipa makes of `params(…)`")]

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use gig_policy::{Finding, Problem as Mistake};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

mod binding;
pub(crate) mod importing;
mod saving;

pub(crate) use binding::Ways;
pub(crate) use importing::imported;
pub(crate) use saving::{
    Saved, Written, checked, judged, policy_name, remove_policy, roll_back_to, save_written,
};

use super::{
    Asked, Body, Items, Order, Paging, Path, counted,
    precondition::{has, holds},
    proposals::{self, ProposalView},
    put, time,
};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::Permission,
    store::{ChangeError, PolicyHead, PolicyVersion},
};

/// A version, as listed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PolicyView {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) author: String,
    pub(crate) reason: String,
    pub(crate) created: String,
    /// As it was written; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) document: Option<String>,
}

/// A version to write.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewVersion {
    /// YAML or JSON.
    document: String,
    /// Why; stands in the history and the record.
    #[serde(default)]
    reason: String,
    /// Puts it in force for this server by the same change.
    #[serde(default)]
    server: Option<String>,
}

/// A version to go back to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RollBack {
    version: u64,
    #[serde(default)]
    reason: String,
}

/// A document to check.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Draft {
    /// What it is to be called; absent: whatever it calls itself.
    #[serde(default)]
    name: Option<String>,
    document: String,
}

/// What a document comes to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DraftAnswer {
    valid: bool,
    /// Mistakes, each with its line and column.
    #[schema(value_type = Vec<Object>)]
    problems: Vec<Mistake>,
    /// What is legal and hardly meant.
    #[schema(value_type = Vec<Object>)]
    findings: Vec<Finding>,
}

/// Which versions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionsAsked {
    /// Where the page before ended.
    #[serde(default, deserialize_with = "super::paging::given_number")]
    cursor: Option<u64>,
    /// Most to answer: 50 unless said, 200 at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

/// A page of versions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionsPage {
    items: Vec<PolicyView>,
    /// For the next page; null at the end.
    next: Option<u64>,
}

impl From<PolicyHead> for PolicyView {
    fn from(head: PolicyHead) -> Self {
        Self {
            name: head.name,
            version: head.version,
            author: head.author,
            reason: head.reason,
            created: time(head.created),
            document: None,
        }
    }
}

impl From<PolicyVersion> for PolicyView {
    fn from(kept: PolicyVersion) -> Self {
        Self {
            document: Some(kept.document),
            ..kept.head.into()
        }
    }
}

/// The newest version of each policy.
#[utoipa::path(get, path = "/api/v1/policies", tag = "policies",
    params(Paging), responses((status = 200, body = Items<PolicyView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Items<PolicyView>>, Problem> {
    caller.require(Permission::Look)?;
    let heads = app.ask(|store| store.policies()).await?;
    let items: Vec<PolicyView> = heads.into_iter().map(Into::into).collect();
    let page = paging.page(items, Order::Rising, |one| one.name.clone())?;
    Ok(Json(page))
}

/// The newest version of a policy; its ETag is its number.
#[utoipa::path(get, path = "/api/v1/policies/{name}", tag = "policies",
    params(("If-None-Match" = Option<String>, Header, description = "the ETag of what is known")),
    responses((status = 200, body = PolicyView), (status = 304, description = "it is as known"),
              (status = 404, body = Problem)))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let kept = version_of(&app, &caller, name, None).await?;
    let is_had = has(&headers, &kept.head.version.to_string());
    let tag = [(header::ETAG, tag(kept.head.version))];
    if is_had {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    Ok((tag, Json(PolicyView::from(kept))).into_response())
}

/// Writes a policy's next version.
#[utoipa::path(put, path = "/api/v1/policies/{name}", tag = "policies", request_body = NewVersion,
    params(("If-Match" = Option<String>, Header, description = "the ETag that this is built on"),
           ("If-None-Match" = Option<String>, Header, description = "`*`: the policy is new")),
    responses((status = 200, body = PolicyView), (status = 201, body = PolicyView, description = "its first version"),
              (status = 202, body = ProposalView), (status = 403, body = Problem), (status = 409, body = Problem),
              (status = 412, body = Problem), (status = 422, body = Problem), (status = 428, body = Problem)))]
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(new): Body<NewVersion>,
) -> Result<Response, Problem> {
    caller.require(Permission::EditPolicies)?;
    let expected = built_on(&app, &name, &headers).await?;
    let written = Written {
        document: new.document,
        reason: new.reason,
        server: new.server,
    };
    let Some(expected) = expected else {
        let judged = judged(&app, &caller, &name, &written).await;
        return Err(Problem::unseen("policy").beside(judged));
    };
    let place = format!("/api/v1/policies/{name}");
    let saved = save_written(&app, &caller, name, Some(expected), written).await?;
    Ok(saved.answer(put(expected == 0, place, StatusCode::OK)))
}

/// Removes a policy that nothing uses; its versions can be read on, and gone back to. The version that
/// `If-Match` names; `*` is whichever there is.
#[utoipa::path(delete, path = "/api/v1/policies/{name}", tag = "policies",
    params(("If-Match" = String, Header, description = "the ETag of what is removed; or `*`")),
    responses((status = 204), (status = 202, body = ProposalView), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 412, body = Problem), (status = 428, body = Problem)))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.require(Permission::EditPolicies)?;
    let expected = seen(&app, &name, &headers).await?;
    let applied = remove_policy(&app, &caller, name, expected).await?;
    Ok(proposals::done(applied))
}

/// The versions of a policy, newest first.
#[utoipa::path(get, path = "/api/v1/policies/{name}/versions", tag = "policies",
    params(VersionsAsked), responses((status = 200, body = VersionsPage), (status = 404, body = Problem)))]
pub(crate) async fn versions(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Asked(asked): Asked<VersionsAsked>,
) -> Result<Json<VersionsPage>, Problem> {
    caller.require(Permission::Look)?;
    let limit = counted(asked.limit)?;
    let wanted = name.clone();
    let heads = app.ask(move |store| {
        let heads = store.versions(&wanted, asked.cursor, limit)?;
        // Behind the last one there are none, of a policy that there is.
        let is_there = !heads.is_empty() || !store.versions(&wanted, None, 1)?.is_empty();
        Ok(is_there.then_some(heads))
    });
    let heads = heads.await?;
    let heads = heads.ok_or_else(|| Problem::missing("policy", &name))?;
    let full = heads.len() == usize::try_from(limit).unwrap_or_default();
    let last = heads.last().map(|head| head.version);
    let next = last.filter(|version| full && *version > 1);
    let items = heads.into_iter().map(Into::into).collect();
    Ok(Json(VersionsPage { items, next }))
}

/// One version.
#[utoipa::path(get, path = "/api/v1/policies/{name}/versions/{version}", tag = "policies",
    responses((status = 200, body = PolicyView), (status = 404, body = Problem)))]
pub(crate) async fn version(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((name, version)): Path<(String, u64)>,
) -> Result<Json<PolicyView>, Problem> {
    let kept = version_of(&app, &caller, name, Some(version)).await?;
    Ok(Json(kept.into()))
}

/// Writes an old version again, as the next one, on the version that `If-Match` names; `*` is whichever there is. A policy
/// that was removed has none.
#[utoipa::path(post, path = "/api/v1/policies/{name}/rollback", tag = "policies", request_body = RollBack,
    params(("If-Match" = Option<String>, Header, description = "the ETag of the newest version; or `*`")),
    responses((status = 200, body = PolicyView), (status = 202, body = ProposalView),
              (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem),
              (status = 412, body = Problem), (status = 428, body = Problem)))]
pub(crate) async fn roll_back(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(back): Body<RollBack>,
) -> Result<Response, Problem> {
    caller.require(Permission::EditPolicies)?;
    let on = match seen(&app, &name, &headers).await {
        Err(unseen) if unseen.status() == StatusCode::PRECONDITION_REQUIRED => {
            let old = version_of(&app, &caller, name, Some(back.version)).await;
            return Err(unseen.beside(old));
        }
        said => said?,
    };
    let saved = roll_back_to(&app, &caller, name, (back.version, on), back.reason).await?;
    Ok(saved.answer((StatusCode::OK, None)))
}

/// Checks a document without keeping it.
#[utoipa::path(post, path = "/api/v1/policies/check", tag = "policies", request_body = Draft,
    responses((status = 200, body = DraftAnswer)))]
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(draft): Body<Draft>,
) -> Result<Json<DraftAnswer>, Problem> {
    caller.require(Permission::EditPolicies)?;
    let named = draft.name.filter(|name| !name.trim().is_empty());
    let checked = checked(&app, named, draft.document).await?;
    Ok(Json(DraftAnswer {
        valid: checked.problems.is_empty(),
        problems: checked.problems,
        findings: checked.findings,
    }))
}

/// A version of a policy; the newest for `None`.
pub(crate) async fn version_of(
    app: &App,
    caller: &Caller,
    name: String,
    version: Option<u64>,
) -> Result<PolicyVersion, Problem> {
    caller.require(Permission::Look)?;
    // Not one beyond what the store counts to.
    let counted = version.is_none_or(|version| i64::try_from(version).is_ok());
    if counted {
        let wanted = name.clone();
        let kept = app.ask(move |store| store.policy(&wanted, version)).await?;
        if let Some(kept) = kept {
            return Ok(kept);
        }
    }
    let wanted = name.clone();
    let any = app
        .ask(move |store| store.versions(&wanted, None, 1))
        .await?;
    Err(match version.filter(|_| !any.is_empty()) {
        Some(version) => Problem::missing("version", &format!("{version} of policy {name}")),
        None => Problem::missing("policy", &name),
    })
}

/// Which version a change is built on, 0 for a new policy, `None` where nothing is said; refuses what is
/// not so now.
async fn built_on(app: &App, name: &str, headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let current = current(app, name).await?;
    let there = Some(current.to_string()).filter(|_| current > 0);
    let name = name.to_owned();
    let changed = || ChangeError::Stale { name, current }.into();
    let said = holds(headers, there.as_deref(), changed)?;
    Ok((said.on_this || said.new).then_some(current))
}

/// The same where something is written over or goes: refuses who does not say, unless nothing is there.
async fn seen(app: &App, name: &str, headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let on = built_on(app, name, headers).await?;
    if on.is_none() && current(app, name).await? > 0 {
        return Err(Problem::unmatched("policy"));
    }
    Ok(on)
}

/// The newest version, 0 where there is none.
async fn current(app: &App, name: &str) -> Result<u64, Problem> {
    let wanted = name.to_owned();
    let kept = app.ask(move |store| store.policy(&wanted, None)).await?;
    Ok(kept.map_or(0, |kept| kept.head.version))
}

fn tag(version: u64) -> String {
    format!("\"{version}\"")
}
