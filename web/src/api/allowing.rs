//! From what was denied to the rule that lets the next one pass: what the console does in two clicks, as one
//! operation.
//!
//! The rule goes into the policy that is in force now for whoever asked, built on its newest version; nobody who saves
//! meanwhile is overwritten, and under the two-person rule it becomes a proposal.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use gig_audit::row::Row;
use gig_policy::Moment;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    Body, Path,
    audit::found,
    policies::{PolicyView, Saved, Written, save_written},
    proposals::{ProposalView, brief},
};
use crate::{
    allow::{Lasting, Width, address, begin, ended::without_ended, has_path, lets_pass, propose},
    api_error::Problem,
    app::App,
    auth::Caller,
    document::{compile, moment},
    in_force::Stands,
    profile::Sight,
    remedy::{NoRule, Remedies, Remedy, profile_of},
    role::Permission,
    store::Proposal,
};

/// What is allowed of what was denied.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allowance {
    /// `hour`, or `ever`.
    #[serde(rename = "for")]
    lasting: Lasting,
    /// This method and path, or all of the host on this port.
    #[serde(default)]
    width: Width,
    /// Stands in the history of the policy.
    #[serde(default)]
    reason: String,
}

/// The rule that is wanted.
pub(crate) struct Wanted {
    pub(crate) width: Width,
    pub(crate) lasting: Lasting,
    /// Why; stands in the history.
    pub(crate) reason: String,
    /// What somebody was shown that it would change: where that is another by now, nothing is saved.
    pub(crate) shown: Option<String>,
}

/// A rule as it would be written now.
pub(crate) struct Planned {
    pub(crate) policy: String,
    /// On which version it is built; 0: on none.
    pub(crate) version: u64,
    /// That version's document, or how a new one begins.
    pub(crate) base: String,
    /// The same with the rule.
    pub(crate) document: String,
    /// Whose it was that proposed this document for the version, where it waits: the new one takes its place.
    pub(crate) beside: Option<u64>,
    /// The server for which the policy is put in force with it.
    pub(crate) server: Option<String>,
    /// Where that policy is in force now, and what it bounds.
    pub(crate) stands: Stands,
}

impl Planned {
    /// By which it is known whether what was shown is what would be written.
    pub(crate) fn mark(&self) -> String {
        let server = self.server.as_deref().unwrap_or_default();
        let stands = self.stands.mark();
        let beside = self.beside.map(|id| format!(":{id}")).unwrap_or_default();
        format!("{}:{}:{server}:{stands}{beside}", self.policy, self.version)
    }
}

/// Writes the rule that lets what a record was denied pass: into the policy that is in force for its server and
/// profile now, or into a new one for that server where none is. Under the two-person rule it is a proposal.
#[utoipa::path(post, path = "/api/v1/audit/{id}/allow", tag = "approvals", request_body = Allowance,
    params(("Gig-Profile" = Option<String>, Header, description = "of whom, where a token acts for others: its scopes \
        name `profiles:act`")),
    responses((status = 200, body = PolicyView), (status = 202, body = ProposalView),
              (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem),
              (status = 412, body = Problem)))]
pub(crate) async fn allow(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(wanted): Body<Allowance>,
) -> Result<Response, Problem> {
    caller.require(Permission::ReadAudit)?;
    let sight = Sight::of_deciding(&app, &caller, &headers).await?;
    let wanted = Wanted {
        width: wanted.width,
        lasting: wanted.lasting,
        reason: wanted.reason,
        shown: None,
    };
    let saved = allow_record(&app, &caller, (id, &sight), wanted).await?;
    Ok(saved.answer((StatusCode::OK, None)))
}

/// The same for who was told of it elsewhere, and answers from there.
pub(crate) async fn allow_record(
    app: &Arc<App>,
    caller: &Caller,
    (id, sight): (String, &Sight),
    wanted: Wanted,
) -> Result<Saved, Problem> {
    let row = found(app, &id).await?.row;
    let reaches = caller.reaches(row.server.as_deref().unwrap_or_default());
    if !(reaches && sight.takes_in(profile_of(&row))) {
        app.tell_hidden(caller, "POST /api/v1/audit/{id}/allow");
        return Err(Problem::missing("record", &id));
    }
    by_rule(
        app,
        caller,
        row,
        (wanted, format!("what record {id} was denied")),
    )
    .await
}

/// Writes the rule that lets this pass; `what` it is stands in the history where no reason is given.
pub(crate) async fn by_rule(
    app: &App,
    caller: &Caller,
    row: Row,
    (wanted, what): (Wanted, String),
) -> Result<Saved, Problem> {
    brief(&wanted.reason)?;
    // Opaque bytes have no path: host and port are all that there is. Elsewhere a page or a message says what is opened.
    let is_narrow = has_path(&row) || row.path.is_some() || row.protocol.as_deref() == Some("tcp");
    let is_told = wanted.shown.is_some() || caller.is_vouched_for();
    if wanted.width == Width::Path && !is_narrow && !is_told {
        let words = "it was denied before it named a path, and a rule would open all of its host: ask for that by the width \
                     `host`";
        return Err(conflict("path", words.to_owned()));
    }
    // One after the other: what waits of the same person is built upon, and nothing of it is lost.
    let _one = app.allowing.lock().await;
    let planned = planned(app, caller, &row, (wanted.width, wanted.lasting)).await?;
    if wanted.shown.is_some_and(|shown| shown != planned.mark()) {
        return Err(Problem::meanwhile(
            "what this would change is another by now, and nothing is saved: look again",
        ));
    }
    let mut reason = match wanted.reason.trim() {
        "" => format!("allow {what}"),
        reason => reason.to_owned(),
    };
    if let Some(id) = planned.beside {
        reason += &format!(", beside what proposal {id} asked for");
    }
    let written = Written {
        document: planned.document,
        reason,
        server: planned.server,
    };
    // So that whoever reads what became of the request finds who allowed it.
    let caller = caller.clone().answering(row.request.as_deref());
    let on = Some(planned.version);
    save_written(app, &caller, planned.policy, on, written).await
}

/// The rule that lets this pass, and where it goes.
pub(crate) async fn planned(
    app: &App,
    caller: &Caller,
    row: &Row,
    (width, lasting): (Width, Lasting),
) -> Result<Planned, Problem> {
    caller.require(Permission::EditPolicies)?;
    // What has no path, as a name that is looked up or a connection, is of a whole host however it is asked for.
    if !caller.opens_hosts() && (width == Width::Host || !has_path(row)) {
        return Err(Problem::forbidden(
            "this would open all of a host: that takes a webhook that is set up for it, a user here who writes \
             policies, and the width `host`",
        ));
    }
    if caller.is_vouched_for() && address(row).is_some() {
        let words = "its address is not public, and the rule would open that: who signs in sees which it is";
        return Err(Problem::forbidden(words));
    }
    if width == Width::Path && address(row).is_some() {
        let words = "its address would be open for whatever is allowed of this host: ask for that by the width `host`";
        return Err(conflict("path", words.to_owned()));
    }
    if width == Width::Path && row.path.is_some() && !has_path(row) {
        // What is offered as narrow must not open the whole host.
        let words = "no rule can name this path as it is: allow all of the host, or a request that waits once";
        return Err(conflict("path", words.to_owned()));
    }
    let now = moment(app.now());
    let (denied, actor) = (row.clone(), caller.actor(app));
    let found = app.ask(move |store| {
        let mut remedies = Remedies::read(store, now)?;
        let remedy = match lasting {
            Lasting::Ever => remedies.for_ever(&denied)?,
            Lasting::Hour => remedies.of(&denied)?,
        };
        let Some(remedy) = remedy else {
            return Ok(Err(remedies.why_none(&denied)?));
        };
        let kept = store.policy(&remedy.policy, None)?;
        let stands = Stands::of(store, &remedy.policy)?;
        let own = store.own_proposal(&actor, &remedy.policy, remedy.assign.as_deref())?;
        Ok(Ok((remedy, kept, stands, own)))
    });
    let no_rule = |why: NoRule| conflict("no_rule", why.to_string());
    let (remedy, kept, stands, own) = found.await?.map_err(no_rule)?;
    let Remedy { policy, assign } = remedy;
    let (version, base) = match kept {
        Some(kept) => (kept.head.version, kept.document),
        // A new one allows this and nothing else.
        None => (0, format!("{}egress: []\n", begin(&policy))),
    };
    let until = lasting.until(now);
    let beside = own.as_ref().map(|own| own.id);
    if let Some(id) = own.as_ref().and_then(|own| allows(own, row, until)) {
        let words = format!("proposal {id} of yours would allow it, and waits for a second person");
        return Err(conflict("no_rule", words));
    }
    let base = own.map_or(base, |own| own.draft.value);
    let cleared = without_ended(&policy, &base, now);
    let proposed = propose(&policy, &cleared, row, (width, until));
    let proposed = proposed.ok_or_else(|| no_rule(NoRule::Unopenable))?;
    let Some(document) = proposed.document else {
        let words = format!(
            "the document of {policy} has no place where gig could put the rule with certainty: put it under \
             egress yourself: {}",
            proposed.rule
        );
        return Err(conflict("by_hand", words));
    };
    Ok(Planned {
        policy,
        version,
        base,
        document,
        beside,
        server: assign,
        stands,
    })
}

/// The proposal, where what waits would let this pass for as long.
fn allows(own: &Proposal, row: &Row, until: Option<Moment>) -> Option<u64> {
    let policy = compile(own.draft.policy()?, 0, &own.draft.value, None).ok()?;
    lets_pass(&policy, row, until).then_some(own.id)
}

fn conflict(kind: &'static str, words: String) -> Problem {
    Problem::new(StatusCode::CONFLICT, kind, words)
}
