//! The two-person rule: whether it is on, what waits for a second person, and deciding on it.
//!
//! A change that became a proposal is answered 202 with the proposal and its place, wherever it was
//! asked for. Who may decide is the store's to say; here stands who may look and try.
#![expect(unused_qualifications, reason = "what utoipa makes of `params(…)`")]

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Asked, Body, OptionalBody, Path, counted, time};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    role::Permission,
    store::{Applied, Change, Decision, Proposal},
};

/// A proposal, as shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProposalView {
    pub(crate) id: u64,
    /// `policy.save`, `policy.save_for`, `policy.remove`, `policy.assign`, `policy.floor`, `team.save`,
    /// `team.remove`, `user.role`, `rule.off`.
    pub(crate) kind: &'static str,
    /// The policy, the user, the team, or the place (a server's name, `team NAME`, `profile NAME`, empty for all
    /// servers); of `policy.save_for` `POLICY for SERVER`.
    pub(crate) subject: String,
    /// The document (not in lists), the role, the members, or the policy (empty for none).
    pub(crate) value: String,
    /// The role, the members or the policy that were there when it was proposed.
    pub(crate) before: String,
    /// The version of the policy that it is built on; 0 for none.
    pub(crate) built_on: u64,
    pub(crate) reason: String,
    pub(crate) author: String,
    pub(crate) created: String,
    /// `pending`, `approved`, `rejected`, `withdrawn`.
    pub(crate) state: &'static str,
    /// It waits, and cannot be approved any more: what it was built on has changed.
    pub(crate) stale: bool,
    pub(crate) decided_by: Option<String>,
    pub(crate) decided: Option<String>,
    pub(crate) why: Option<String>,
    /// The version that was made of the policy.
    pub(crate) version: Option<u64>,
    /// In the answer that it waits: what the same person had proposed for this before, which is withdrawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_place_of: Option<u64>,
}

/// Which proposals.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProposalsAsked {
    /// `pending` (as if nothing is said) or `decided`.
    #[serde(default)]
    state: Wanted,
    /// Where the page before ended.
    #[serde(default, deserialize_with = "super::paging::given_number")]
    cursor: Option<u64>,
    /// Most to answer: 50 unless said, 200 at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

/// Waiting, or over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wanted {
    /// Nobody has decided.
    #[default]
    Pending,
    /// Somebody has.
    Decided,
}

/// A page of proposals.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProposalsPage {
    items: Vec<ProposalView>,
    /// For the next page; null at the end.
    next: Option<u64>,
}

/// Why somebody decides so.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Why {
    /// Stands in the history and the record; a rejection has one.
    #[serde(default)]
    why: String,
}

/// Whether policies are changed by two people.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TwoPersonRule {
    pub(crate) on: bool,
}

impl From<Proposal> for ProposalView {
    fn from(one: Proposal) -> Self {
        let (decided_by, decided, why) = match one.decided {
            Some(decided) => (Some(decided.by), Some(time(decided.at)), Some(decided.why)),
            None => (None, None, None),
        };
        Self {
            id: one.id,
            kind: one.draft.kind.as_str(),
            subject: one.draft.subject,
            value: one.draft.value,
            before: one.before,
            built_on: one.built_on,
            reason: one.reason,
            author: one.author,
            created: time(one.created),
            state: one.state.as_str(),
            stale: one.stale,
            decided_by,
            decided,
            why,
            version: one.version,
            in_place_of: None,
        }
    }
}

/// What waits for a second person, or was decided; newest first.
#[utoipa::path(get, path = "/api/v1/proposals", tag = "proposals", params(ProposalsAsked),
    responses((status = 200, body = ProposalsPage)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(asked): Asked<ProposalsAsked>,
) -> Result<Json<ProposalsPage>, Problem> {
    caller.require(Permission::ReadAudit)?;
    let limit = counted(asked.limit)?;
    let pending = asked.state == Wanted::Pending;
    let found = app
        .ask(move |store| store.proposals(pending, asked.cursor, limit))
        .await?;
    let full = found.len() == usize::try_from(limit).unwrap_or_default();
    let next = found.last().map(|last| last.id).filter(|_| full);
    let items = found.into_iter().map(Into::into).collect();
    Ok(Json(ProposalsPage { items, next }))
}

/// One proposal, with its document.
#[utoipa::path(get, path = "/api/v1/proposals/{id}", tag = "proposals",
    responses((status = 200, body = ProposalView), (status = 404, body = Problem)))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<u64>,
) -> Result<Json<ProposalView>, Problem> {
    Ok(Json(proposal(&app, &caller, id).await?.into()))
}

/// Approves what somebody else proposed: it is made, in both names.
#[utoipa::path(post, path = "/api/v1/proposals/{id}/approve", tag = "proposals", request_body = Why,
    responses((status = 200, body = ProposalView), (status = 404, body = Problem),
              (status = 409, body = Problem)))]
pub(crate) async fn approve(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<u64>,
    OptionalBody(body): OptionalBody<Why>,
) -> Result<Json<ProposalView>, Problem> {
    decided(&app, &caller, id, Decision::Approve, body.why).await
}

/// Rejects what somebody else proposed.
#[utoipa::path(post, path = "/api/v1/proposals/{id}/reject", tag = "proposals", request_body = Why,
    responses((status = 200, body = ProposalView), (status = 404, body = Problem),
              (status = 409, body = Problem)))]
pub(crate) async fn reject(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<u64>,
    OptionalBody(body): OptionalBody<Why>,
) -> Result<Json<ProposalView>, Problem> {
    decided(&app, &caller, id, Decision::Reject, body.why).await
}

/// Takes back what one proposed oneself.
#[utoipa::path(post, path = "/api/v1/proposals/{id}/withdraw", tag = "proposals", request_body = Why,
    responses((status = 200, body = ProposalView), (status = 404, body = Problem),
              (status = 409, body = Problem)))]
pub(crate) async fn withdraw(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<u64>,
    OptionalBody(body): OptionalBody<Why>,
) -> Result<Json<ProposalView>, Problem> {
    decided(&app, &caller, id, Decision::Withdraw, body.why).await
}

/// Whether policies are changed by two people.
#[utoipa::path(get, path = "/api/v1/two-person-rule", tag = "proposals",
    responses((status = 200, body = TwoPersonRule)))]
pub(crate) async fn rule(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<TwoPersonRule>, Problem> {
    caller.require(Permission::Look)?;
    let on = app.ask(|store| store.two_person_rule()).await?;
    Ok(Json(TwoPersonRule { on }))
}

/// Turns the rule on; proposes to turn it off.
#[utoipa::path(put, path = "/api/v1/two-person-rule", tag = "proposals", request_body = TwoPersonRule,
    responses((status = 204), (status = 202, body = ProposalView), (status = 409, body = Problem)))]
pub(crate) async fn set_rule(
    State(app): State<Arc<App>>,
    caller: Caller,
    Body(wanted): Body<TwoPersonRule>,
) -> Result<Response, Problem> {
    Ok(done(turn(&app, &caller, wanted.on).await?))
}

/// Turns the rule on or off; the console does the same.
pub(crate) async fn turn(app: &App, caller: &Caller, on: bool) -> Result<Applied, Problem> {
    caller.require(Permission::RuleChanges)?;
    app.change(caller.actor(app), Change::TwoPersonRule { on })
        .await
}

/// One proposal, whole.
pub(crate) async fn proposal(app: &App, caller: &Caller, id: u64) -> Result<Proposal, Problem> {
    caller.require(Permission::ReadAudit)?;
    let found = app.ask(move |store| store.proposal(id)).await?;
    found.ok_or_else(|| Problem::missing("proposal", &id.to_string()))
}

/// Decides on a proposal; the console does the same.
pub(crate) async fn decide(
    app: &App,
    caller: &Caller,
    id: u64,
    decision: Decision,
    why: String,
) -> Result<Applied, Problem> {
    caller.require(match decision {
        Decision::Approve | Decision::Reject => Permission::Approve,
        Decision::Withdraw => Permission::ReadAudit,
    })?;
    let why = why.trim().to_owned();
    brief(&why)?;
    if decision == Decision::Reject && why.is_empty() {
        return Err(Problem::invalid("say why it is rejected"));
    }
    let change = Change::Decide { id, decision, why };
    app.change(caller.actor(app), change).await
}

async fn decided(
    app: &App,
    caller: &Caller,
    id: u64,
    decision: Decision,
    why: String,
) -> Result<Json<ProposalView>, Problem> {
    decide(app, caller, id, decision, why).await?;
    Ok(Json(proposal(app, caller, id).await?.into()))
}

/// 204 for what is done, 202 for what waits.
pub(crate) fn done(applied: Applied) -> Response {
    match applied.proposal {
        Some(proposal) => waits(proposal),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

/// 202, and where the proposal is.
pub(crate) fn waits(proposal: Proposal) -> Response {
    waits_in_place(proposal, None)
}

/// The same, of one that took another's place.
pub(crate) fn waits_in_place(proposal: Proposal, before: Option<u64>) -> Response {
    let place = format!("/api/v1/proposals/{}", proposal.id);
    let mut view = ProposalView::from(proposal);
    view.in_place_of = before;
    (
        StatusCode::ACCEPTED,
        [(header::LOCATION, place)],
        Json(view),
    )
        .into_response()
}

/// Refuses a reason that nobody would read.
pub(crate) fn brief(reason: &str) -> Result<(), Problem> {
    if reason.chars().count() > LONGEST_REASON {
        let words = format!("a reason has at most {LONGEST_REASON} characters");
        return Err(Problem::invalid(words));
    }
    // Of what no eye sees a reason may have the ends of its lines: PostgreSQL keeps no NUL, and a terminal obeys others.
    let is_unseen = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if reason.chars().any(is_unseen) {
        let words = "a reason is text: it has no control characters but the ends of its lines";
        return Err(Problem::invalid(words));
    }
    Ok(())
}

/// A few sentences.
const LONGEST_REASON: usize = 1000;
