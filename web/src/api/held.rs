//! What waits for a person: held requests, allowed once, by a rule for an hour or for ever, or denied; and
//! denials of the last day that nobody has decided on.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use gig_audit::{Deed, Entry, Event, VerdictWord, row::Row};
use gig_policy::Lookalike;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    OptionalBody, Path,
    allowing::{Wanted, by_rule},
    audit,
    policies::{PolicyView, Saved},
    proposals::ProposalView,
    recorded_time, time,
};
use crate::{
    allow::{Lasting, Width, has_path},
    api_error::Problem,
    app::App,
    auth::Caller,
    profile::Sight,
    role::Permission,
    store::{Change, ChangeError, HeldFacts, HeldFate, HeldRow},
    waiting::{Waiting, waiting},
};

mod as_record;

use as_record::{asks, row};

/// A request that waits, as shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeldView {
    pub(crate) id: String,
    pub(crate) sandbox: String,
    pub(crate) server: String,
    /// For whom it runs.
    pub(crate) profile: String,
    /// `GET https://api.example.com:443/user`; of a connection `tcp db.example.com:5432`.
    pub(crate) asks: String,
    pub(crate) host: String,
    /// How the host may be taken for another one, in words.
    pub(crate) lookalike: Option<String>,
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
    /// The gig that had it does not say any more that it lives: an answer is refused, as nobody would hear it.
    pub(crate) lost: bool,
}

/// A destination that was denied, and of which nobody has decided.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct DeniedView {
    /// Its newest record.
    pub(crate) record: String,
    /// Where a rule is written that lets it pass.
    pub(crate) allow: String,
    pub(crate) server: Option<String>,
    /// For whom it ran.
    pub(crate) profile: Option<String>,
    /// `GET https://api.example.com:443/user`; of a connection `tcp db.example.com:5432`.
    pub(crate) asks: String,
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    /// A rule can be as narrow as this method and path.
    pub(crate) by_path: bool,
    /// That denies it now; empty where nothing is in force for the server.
    pub(crate) policy: String,
    pub(crate) reason: Option<String>,
    pub(crate) time: String,
    /// How often this host was denied on this port since yesterday, whatever was asked of it, and would be still.
    pub(crate) count: u64,
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
    /// Every request to the host on this port; where no rule can name the path, of this method.
    Host,
}

impl From<Breadth> for Width {
    fn from(breadth: Breadth) -> Self {
        match breadth {
            Breadth::Path => Self::Path,
            Breadth::Host => Self::Host,
        }
    }
}

impl From<Lasting> for For {
    fn from(lasting: Lasting) -> Self {
        match lasting {
            Lasting::Hour => Self::Hour,
            Lasting::Ever => Self::Ever,
        }
    }
}

/// What is allowed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allowed {
    #[serde(default, rename = "for")]
    pub(crate) lasting: For,
    /// How much the rule opens; `path` where it is left out. Refused with `once`, which writes no rule.
    pub(crate) width: Option<Breadth>,
    /// Stands in the history of the policy, where a rule is written.
    #[serde(default)]
    pub(crate) reason: String,
    /// What the console showed that it would change.
    #[serde(skip)]
    pub(crate) shown: Option<String>,
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
            profile,
            started_by: _,
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
            profile,
            asks,
            lookalike: Lookalike::of_host(&host).map(|found| found.to_string()),
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
            lost: row.lost,
        }
    }
}

impl From<Waiting> for DeniedView {
    fn from(one: Waiting) -> Self {
        let record = audit::id(&one.newest);
        let row = one.newest.row;
        Self {
            allow: format!("/api/v1/audit/{record}/allow"),
            asks: asks(&row),
            by_path: has_path(&row),
            record,
            server: row.server,
            profile: row.profile,
            host: row.host,
            port: row.port,
            method: row.method,
            path: row.path,
            policy: one.policy,
            reason: row.reason,
            time: recorded_time(&row.time),
            count: one.count,
        }
    }
}

/// What waits for somebody. A narrowed token that runs sandboxes is told of its own profile's; what was denied, of which
/// the record tells, is for who may read that.
#[utoipa::path(get, path = "/api/v1/held", tag = "approvals",
    params(("Gig-Profile" = Option<String>, Header, description = "of whom, where a token acts for others: its scopes \
        name `profiles:act`")),
    responses((status = 200, body = HeldPage)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Json<HeldPage>, Problem> {
    let sight = Sight::of_deciding(&app, &caller, &headers).await?;
    let items = held(&app, &caller, &sight).await?;
    if !caller.may(Permission::ReadAudit) {
        return Ok(Json(HeldPage {
            items,
            denied: Vec::new(),
            denied_beyond: 0,
            denied_complete: false,
        }));
    }
    let (theirs, who) = (Arc::clone(&app), caller.clone());
    let found = app.aside(move || {
        let sees = |server: &str, profile: &str| who.reaches(server) && sight.takes_in(profile);
        waiting(&theirs, sees)
    });
    let found = found.await??;
    let beyond = found.beyond.iter();
    let beyond = beyond.filter(|(server, _)| caller.reaches(server));
    let beyond = found.behind + beyond.map(|(_, count)| count).sum::<u64>();
    let is_complete = beyond == 0 && found.more == 0 && !found.cut;
    let denied = found.waiting.into_iter();
    let denied = denied.map(DeniedView::from);
    Ok(Json(HeldPage {
        items,
        denied: denied.collect(),
        denied_beyond: beyond,
        denied_complete: is_complete,
    }))
}

/// Lets a request that waits go: this one, or by a rule all that are like it.
#[utoipa::path(post, path = "/api/v1/held/{id}/allow", tag = "approvals", request_body = Allowed,
    params(("Gig-Profile" = Option<String>, Header, description = "of whom, where a token acts for others: its scopes \
        name `profiles:act`")),
    responses((status = 200, body = PolicyView), (status = 202, body = ProposalView), (status = 204),
              (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem),
              (status = 410, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn allow(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    OptionalBody(allowed): OptionalBody<Allowed>,
) -> Result<Response, Problem> {
    let sight = Sight::of_deciding(&app, &caller, &headers).await?;
    Ok(
        match allow_held(&app, &caller, (id, &sight), allowed).await? {
            Answered::Once => StatusCode::NO_CONTENT.into_response(),
            Answered::Rule(saved) => saved.answer((StatusCode::OK, None)),
        },
    )
}

/// Denies a request that waits.
#[utoipa::path(post, path = "/api/v1/held/{id}/deny", tag = "approvals",
    params(("Gig-Profile" = Option<String>, Header, description = "of whom, where a token acts for others: its scopes \
        name `profiles:act`")),
    responses((status = 204), (status = 404, body = Problem), (status = 410, body = Problem)))]
pub(crate) async fn deny(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let sight = Sight::of_deciding(&app, &caller, &headers).await?;
    answer(&app, &caller, (id, &sight), false).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Those that wait, for who answers them or reads the record.
pub(crate) async fn held(
    app: &App,
    caller: &Caller,
    sight: &Sight,
) -> Result<Vec<HeldView>, Problem> {
    if !caller.may(Permission::AnswerHeld) {
        caller.require(Permission::ReadAudit)?;
    }
    let now = app.now();
    let held = app.ask(move |store| store.held(now)).await?;
    let theirs = held
        .into_iter()
        .filter(|one| is_there(caller, sight, &one.facts));
    Ok(theirs.map(Into::into).collect())
}

/// Lets one go; the console does the same.
pub(crate) async fn allow_held(
    app: &Arc<App>,
    caller: &Caller,
    (id, sight): (String, &Sight),
    allowed: Allowed,
) -> Result<Answered, Problem> {
    let lasting = match allowed.lasting {
        For::Once => {
            if allowed.width.is_some() {
                return Err(Problem::new(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "invalid",
                    ONCE_HAS_NO_WIDTH,
                ));
            }
            answer(app, caller, (id, sight), true).await?;
            return Ok(Answered::Once);
        }
        For::Hour => Lasting::Hour,
        For::Ever => Lasting::Ever,
    };
    let wanted = Wanted {
        lasting,
        width: allowed.width.unwrap_or_default().into(),
        reason: allowed.reason,
        shown: allowed.shown,
    };
    let what = format!("what request {id} waits for");
    let (waits, _) = waiting_as_denied(app, caller, (&id, sight)).await?;
    let saved = by_rule(app, caller, waits, (wanted, what)).await?;
    Ok(Answered::Rule(Box::new(saved)))
}

/// One that waits, for whoever may write the rule that lets it go: as a record of its denial would be, and as it is shown.
pub(crate) async fn waiting_as_denied(
    app: &App,
    caller: &Caller,
    (id, sight): (&str, &Sight),
) -> Result<(Row, HeldView), Problem> {
    caller.require(Permission::EditPolicies)?;
    let found = one(app, caller, (id, sight)).await?;
    let waits = Row {
        request: Some(id.to_owned()),
        ..row(&found.facts)
    };
    Ok((waits, found.into()))
}

/// Says yes or no to one.
pub(crate) async fn answer(
    app: &Arc<App>,
    caller: &Caller,
    (id, sight): (String, &Sight),
    allow: bool,
) -> Result<(), Problem> {
    caller.require(Permission::AnswerHeld)?;
    if allow && app.ask(|store| store.two_person_rule()).await? {
        // One person alone lets nothing pass that the policy does not: who approves does, what others run (the
        // store looks at whose it is).
        caller.require(Permission::Approve)?;
    }
    let found = one(app, caller, (&id, sight)).await?;
    let what = found.facts.words();
    let change = Change::AnswerHeld { id, allow, what };
    app.change(caller.actor(app), change).await?;
    app.held.ring();
    match app.held.has(&found) {
        true => Ok(()),
        false => {
            // Whoever asked may go away meanwhile, and what becomes of the answer is recorded all the same.
            let (theirs, caller) = (Arc::clone(app), caller.clone());
            let heard = async move { heard(&theirs, &caller, found, allow).await };
            let heard = app.attachments.spawn(heard);
            heard.await.map_err(Problem::internal)?
        }
    }
}

/// Waits until the node that has the request hears what was said of it. One that was killed just now hears nothing: then
/// the record, which says that it was allowed or denied, is told that it was not, and so is who said it.
async fn heard(app: &App, caller: &Caller, row: HeldRow, allow: bool) -> Result<(), Problem> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let id = row.id.clone();
        match app.ask(move |store| store.take_back_word(&id)).await? {
            HeldFate::Heard => return Ok(()),
            HeldFate::TakenBack => break,
            // A database that answers and a node that neither hears nor is lost: its own clock ends what waits.
            HeldFate::Unheard if tokio::time::Instant::now() > deadline => {
                return Err(Problem::unavailable(
                    "the node that has the request has not taken the answer yet: the record of the request says what \
                     becomes of it",
                ));
            }
            HeldFate::Unheard => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
    let mut entry = Entry::new(Event::Admin);
    let actor = caller.actor(app);
    entry.profile = Some(actor.words().into());
    entry.src = actor.address;
    entry.verdict = Some(VerdictWord::Deny);
    entry.deed = Some(if allow {
        Deed::HeldAllow
    } else {
        Deed::HeldDeny
    });
    entry.subject = Some(row.id.as_str().into());
    entry.request = Some(row.id.as_str().into());
    let words = "nobody heard the answer that was recorded before this: the gig whose proxy had the request is gone";
    entry.findings = vec![words.into()];
    app.record(entry).await?;
    Err(ChangeError::Unheard { id: row.id }.into())
}

async fn one(app: &App, caller: &Caller, (id, sight): (&str, &Sight)) -> Result<HeldRow, Problem> {
    let now = app.now();
    let held = app.ask(move |store| store.held(now)).await?;
    let found = held.into_iter().find(|one| one.id == id);
    if let Some(found) = &found
        && !is_there(caller, sight, &found.facts)
    {
        app.tell_hidden(caller, "POST /api/v1/held/{id}");
        return Err(Problem::missing("waiting request", id));
    }
    found.ok_or_else(|| {
        let mut missing = Problem::missing("waiting request", id);
        missing.detail +=
            ": it was answered, or its time is over; the record says which, by `request`";
        missing
    })
}

/// Whether it is there for the caller.
fn is_there(caller: &Caller, sight: &Sight, facts: &HeldFacts) -> bool {
    caller.reaches(&facts.server) && sight.takes_in(&facts.profile)
}

/// What is allowed once opens nothing.
pub(crate) const ONCE_HAS_NO_WIDTH: &str = "`width` says how much a rule opens, and an answer for one request \
    writes none: leave it out, or answer for an hour or for ever";
/// A node says every other second that it lives, and is lost after ten without a word: longer than both.
const PATIENCE: Duration = Duration::from_secs(15);
/// A node looks four times a second.
const LOOK_EVERY: Duration = Duration::from_millis(100);
