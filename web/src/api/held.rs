//! What waits for a person: held requests, allowed once, by a rule for an hour or for ever, or denied; and
//! denials of the last day that nobody has decided on.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use gig_audit::row::Row;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Body, audit,
    policies::{PolicyView, Saved, save_version},
    proposals::{ProposalView, brief},
    time,
};
use crate::{
    allow::{Lasting, Width, has_path, propose},
    api_error::Problem,
    app::App,
    auth::Caller,
    document::moment,
    role::Permission,
    store::{Change, HeldFacts, HeldRow},
    waiting::{Waiting, waiting},
};

/// A request that waits, as shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeldView {
    pub(crate) id: String,
    pub(crate) sandbox: String,
    pub(crate) server: String,
    /// `GET https://api.example.com:443/user`; of a connection `tcp db.example.com:5432`.
    pub(crate) asks: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) protocol: String,
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    /// A rule can be as narrow as this method and path.
    pub(crate) by_path: bool,
    pub(crate) policy: String,
    pub(crate) policy_version: u64,
    pub(crate) reason: String,
    pub(crate) since: String,
    /// Then it is denied.
    pub(crate) until: String,
}

/// A destination that was denied, and of which nobody has decided.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeniedView {
    /// Its newest record.
    record: String,
    server: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    /// That denies it now; empty where nothing is in force for the server.
    policy: String,
    reason: Option<String>,
    time: String,
    /// How often, since yesterday.
    count: u64,
}

/// What waits.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeldPage {
    /// Requests that wait now, oldest first.
    items: Vec<HeldView>,
    /// What was denied at once in the last day, newest first.
    denied: Vec<DeniedView>,
    /// Denials that are in none of these counts: of attempts beyond those that are kept one by one, or not
    /// counted yet. Their destinations may be missing from `denied`.
    denied_beyond: u64,
    /// Whether `denied` lists all there are.
    denied_complete: bool,
}

/// For how long a request is allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum For {
    /// This one and no other.
    #[default]
    Once,
    /// By a rule that ends in an hour.
    Hour,
    /// By a rule.
    Ever,
}

/// How much a rule opens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Breadth {
    /// This method and path.
    #[default]
    Path,
    /// Every request to the host on this port.
    Host,
}

/// What is allowed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allowed {
    #[serde(default, rename = "for")]
    pub(crate) lasting: For,
    #[serde(default)]
    pub(crate) width: Breadth,
    /// Stands in the history of the policy, where a rule is written.
    #[serde(default)]
    pub(crate) reason: String,
}

/// What came of it.
pub(crate) enum Answered {
    /// It goes.
    Once,
    /// A rule was written, or waits for a second person.
    Rule(Box<Saved>),
}

impl From<HeldRow> for HeldView {
    fn from(row: HeldRow) -> Self {
        let (asks, by_path) = (row.facts.words(), has_path(&self::row(&row.facts)));
        let HeldFacts {
            sandbox,
            server,
            host,
            port,
            protocol,
            method,
            path,
            policy,
            policy_version,
            reason,
        } = row.facts;
        Self {
            id: row.id,
            sandbox,
            server,
            asks,
            host,
            port,
            protocol,
            method,
            path,
            by_path,
            policy,
            policy_version,
            reason,
            since: time(row.created),
            until: time(row.expires),
        }
    }
}

impl From<Waiting> for DeniedView {
    fn from(one: Waiting) -> Self {
        let record = audit::id(&one.newest);
        let row = one.newest.row;
        Self {
            record,
            server: row.server,
            host: row.host,
            port: row.port,
            policy: one.policy,
            reason: row.reason,
            time: row.time,
            count: one.count,
        }
    }
}

/// What waits for somebody.
#[utoipa::path(get, path = "/api/v1/held", tag = "approvals", responses((status = 200, body = HeldPage)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<HeldPage>, Problem> {
    let items = held(&app, &caller).await?;
    let theirs = Arc::clone(&app);
    let found = app.aside(move || waiting(&theirs)).await??;
    let beyond = found.beyond.iter();
    let beyond = beyond.filter(|(server, _)| caller.reaches(server));
    let beyond = found.behind + beyond.map(|(_, count)| count).sum::<u64>();
    let is_complete = beyond == 0 && found.more == 0 && !found.cut;
    let denied = found.waiting.into_iter().map(DeniedView::from);
    let theirs = |one: &DeniedView| caller.reaches(one.server.as_deref().unwrap_or_default());
    Ok(Json(HeldPage {
        items,
        denied: denied.filter(theirs).collect(),
        denied_beyond: beyond,
        denied_complete: is_complete,
    }))
}

/// Lets a request that waits go: this one, or by a rule all that are like it.
#[utoipa::path(post, path = "/api/v1/held/{id}/allow", tag = "approvals", request_body = Allowed,
    responses((status = 200, body = PolicyView), (status = 202, body = ProposalView), (status = 204),
              (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn allow(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    Body(allowed): Body<Allowed>,
) -> Result<Response, Problem> {
    Ok(match allow_held(&app, &caller, id, allowed).await? {
        Answered::Once => StatusCode::NO_CONTENT.into_response(),
        Answered::Rule(saved) => saved.answer(),
    })
}

/// Denies a request that waits.
#[utoipa::path(post, path = "/api/v1/held/{id}/deny", tag = "approvals",
    responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn deny(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    answer(&app, &caller, id, false).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Those that wait.
pub(crate) async fn held(app: &App, caller: &Caller) -> Result<Vec<HeldView>, Problem> {
    caller.require(Permission::ReadAudit)?;
    let now = app.now();
    let held = app.ask(move |store| store.held(now)).await?;
    let theirs = held
        .into_iter()
        .filter(|one| caller.reaches(&one.facts.server));
    Ok(theirs.map(Into::into).collect())
}

/// Lets one go; the console does the same.
pub(crate) async fn allow_held(
    app: &App,
    caller: &Caller,
    id: String,
    allowed: Allowed,
) -> Result<Answered, Problem> {
    let lasting = match allowed.lasting {
        For::Once => {
            answer(app, caller, id, true).await?;
            return Ok(Answered::Once);
        }
        For::Hour => Lasting::Hour,
        For::Ever => Lasting::Ever,
    };
    caller.require(Permission::EditPolicies)?;
    brief(&allowed.reason)?;
    let facts = one(app, caller, &id).await?.facts;
    let wanted = facts.policy.clone();
    let kept = app.ask(move |store| store.policy(&wanted, None)).await?;
    let kept = kept.ok_or_else(|| Problem::missing("policy", &facts.policy))?;
    let width = match allowed.width {
        Breadth::Path => Width::Path,
        Breadth::Host => Width::Host,
    };
    let asked = row(&facts);
    if width == Width::Path && facts.path.is_some() && !has_path(&asked) {
        // What is offered as narrow must not open the whole host.
        let words = "no rule can name this path as it is: allow it once, or all of the host";
        return Err(Problem::new(StatusCode::CONFLICT, "path", words));
    }
    let until = lasting.until(moment(app.now()));
    let proposed = propose(&facts.policy, &kept.document, &asked, (width, until));
    let proposed = proposed.ok_or_else(|| Problem::invalid("no rule would let it pass"))?;
    let Some(document) = proposed.document else {
        let words = format!(
            "the document of {} has no place where gig could put the rule with certainty: put it under \
             egress yourself: {}",
            facts.policy, proposed.rule
        );
        return Err(Problem::new(StatusCode::CONFLICT, "by_hand", words));
    };
    let reason = match allowed.reason.trim() {
        "" => format!("allow what request {id} waits for"),
        reason => reason.to_owned(),
    };
    let version = Some(kept.head.version);
    let saved = save_version(app, caller, facts.policy, version, document, reason).await?;
    Ok(Answered::Rule(Box::new(saved)))
}

/// Says yes or no to one.
pub(crate) async fn answer(
    app: &App,
    caller: &Caller,
    id: String,
    allow: bool,
) -> Result<(), Problem> {
    caller.require(Permission::AnswerHeld)?;
    if allow && app.ask(|store| store.two_person_rule()).await? {
        // One person alone lets nothing pass that the policy does not.
        caller.require(Permission::Approve)?;
    }
    let what = one(app, caller, &id).await?.facts.words();
    let change = Change::AnswerHeld { id, allow, what };
    app.change(caller.actor(app), change).await?;
    app.held.ring();
    Ok(())
}

async fn one(app: &App, caller: &Caller, id: &str) -> Result<HeldRow, Problem> {
    let now = app.now();
    let held = app.ask(move |store| store.held(now)).await?;
    let found = held.into_iter().find(|one| one.id == id);
    if let Some(found) = &found
        && !caller.reaches(&found.facts.server)
    {
        app.tell_hidden(caller, "POST /api/v1/held/{id}");
        return Err(Problem::missing("waiting request", id));
    }
    found.ok_or_else(|| Problem::missing("waiting request", id))
}

/// As a record of its denial.
fn row(facts: &HeldFacts) -> Row {
    Row {
        verdict: Some("deny".to_owned()),
        reason: Some(facts.reason.clone()),
        host: Some(facts.host.clone()),
        port: Some(facts.port),
        protocol: Some(facts.protocol.clone()),
        method: facts.method.clone(),
        path: facts.path.clone(),
        ..Row::default()
    }
}
