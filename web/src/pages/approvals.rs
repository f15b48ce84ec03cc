//! Approvals: what waits for a second person, one proposal with what it would change, and the rule
//! itself.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, http::StatusCode, response::Response};
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    Answer, Done, Form, Frame, InAddress, Path, in_query,
    policies::{DiffLine, compared, in_force_for, reach},
    proposed, scripted, shown, shown_as, to, told,
};
use crate::{
    api::{
        held::{
            Allowed, Answered, Breadth, For, HeldView, allow_held, answer as answer_held, held,
        },
        policies::{Saved, checked},
        proposals::{ProposalView, decide as decide_on, proposal, turn},
        recorded::{simulated_draft, supposed},
    },
    api_error::{AnswerStatus, Problem},
    app::App,
    auth::Caller,
    in_force::{InForce, Stands, Supposed},
    profile::Sight,
    recorded::Simulation,
    role::Permission,
    store::{Applied, Decision, Draft, Place, Proposal, ProposalKind, ProposalState, StoreError},
};

#[derive(Template)]
#[template(path = "approvals.html")]
struct ApprovalsPage {
    frame: Frame,
    on: bool,
    problem: String,
    held: Vec<HeldView>,
    now: Timestamp,
    sight: Sight,
    pending: Vec<ProposalRow>,
    decided: Vec<ProposalRow>,
    /// Where the next page of what was decided begins.
    older: Option<u64>,
}

impl ApprovalsPage {
    /// Whether the page of its sandbox is there for who looks.
    fn sees(&self, one: &HeldView) -> bool {
        self.sight.takes_in(&one.profile)
    }

    /// Which requests wait: another text where others do, or one is lost.
    fn waits(&self) -> String {
        let each = self
            .held
            .iter()
            .map(|one| format!("{}{}", one.id, u8::from(one.lost)));
        each.collect::<Vec<_>>().join(" ")
    }

    /// Which proposals wait, the same way.
    fn proposals(&self) -> String {
        let each = self.pending.iter();
        let each = each.map(|row| format!("{}{}", row.one.id, u8::from(row.one.stale)));
        each.collect::<Vec<_>>().join(" ")
    }

    /// In words, for who sees nothing of it.
    fn told(&self) -> String {
        let waiting = self.held.iter().filter(|one| !one.lost).count();
        match waiting {
            0 => "No request waits.".to_owned(),
            1 => "One request waits for an answer.".to_owned(),
            _ => format!("{waiting} requests wait for an answer."),
        }
    }

    /// How long it waits still.
    fn left(&self, one: &HeldView) -> String {
        let until: Option<Timestamp> = one.until.parse().ok();
        let left = until.map_or(0, |until| until.duration_since(self.now).as_secs().max(0));
        match left {
            ..60 => format!("in {left} s"),
            _ => format!("in {} min {} s", left / 60, left % 60),
        }
    }
}

struct ProposalRow {
    words: String,
    one: ProposalView,
}

#[derive(Template)]
#[template(path = "approval.html")]
struct ApprovalPage {
    frame: Frame,
    words: String,
    one: ProposalView,
    problem: String,
    may_decide: bool,
    may_withdraw: bool,
    /// What it means, where it changes which documents are in force.
    meaning: String,
    lines: Vec<DiffLine>,
    findings: Vec<String>,
    policy: String,
    /// Where that is in force and what it bounds, while it waits.
    reach: Vec<String>,
    /// By which it is known whether that is still so when it is approved.
    mark: String,
    /// What it would do with a week of recorded traffic; where it waits.
    simulation: Option<Simulation>,
    /// Why that is not there.
    unread: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    before: Option<u64>,
}

#[derive(Deserialize)]
pub(crate) struct Decided {
    act: String,
    #[serde(default)]
    why: String,
    /// What was shown that it would change, or for whom.
    #[serde(default)]
    shown: String,
}

#[derive(Deserialize)]
pub(crate) struct Rule {
    rule: String,
}

impl From<Proposal> for ProposalRow {
    fn from(one: Proposal) -> Self {
        Self {
            words: words(&one.draft),
            one: one.into(),
        }
    }
}

/// What it would do, in words.
fn words(draft: &Draft) -> String {
    let (subject, value) = (&draft.subject, &draft.value);
    let place = draft.place().unwrap_or(Place::All);
    let floored = place.to_string();
    let place = in_force_for(&place);
    match draft.kind {
        ProposalKind::SavePolicy => format!("A version of policy {subject}"),
        ProposalKind::SaveFor => {
            let policy = draft.policy().unwrap_or_default();
            format!("A version of policy {policy}, in force for {place}")
        }
        ProposalKind::RemovePolicy => format!("Remove policy {subject}"),
        ProposalKind::Assign if value.is_empty() => format!("No policy for {place}"),
        ProposalKind::Assign => format!("Policy {value} in force for {place}"),
        ProposalKind::SetFloor if value.is_empty() => format!("No floor for {floored}"),
        ProposalKind::SetFloor => format!("Policy {value} as the floor of {floored}"),
        ProposalKind::SaveTeam if value.is_empty() => format!("Nobody of team {subject}"),
        ProposalKind::SaveTeam => format!("Of team {subject}: {}", value.replace(' ', ", ")),
        ProposalKind::RemoveTeam => format!("Remove team {subject}"),
        ProposalKind::SetRole => format!("{subject} becomes {value}"),
        ProposalKind::EndRule => "One person alone changes policies again".to_owned(),
    }
}

/// `GET /approvals`.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    InAddress(asked): InAddress<Asked>,
) -> Answer {
    overview(&app, &caller, asked.before, None).await
}

/// `POST /approvals/rule`.
pub(crate) async fn set_rule(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(wanted): Form<Rule>,
) -> Answer {
    let on = match wanted.rule.as_str() {
        "on" => true,
        "off" => false,
        _ => return Err(Problem::invalid("the rule is on or off").into()),
    };
    match turn(&app, &caller, on).await {
        Ok(applied) => Ok(after(&applied, Done::AsAsked, "/approvals")),
        Err(problem) if problem.status() == StatusCode::CONFLICT => {
            overview(&app, &caller, None, Some(problem)).await
        }
        Err(problem) => Err(problem.into()),
    }
}

/// `POST /approvals/held/{id}`: says yes or no to a request that waits.
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    Form(decided): Form<Decided>,
) -> Answer {
    let allowed = |lasting, width| Allowed {
        lasting,
        width,
        reason: decided.why.trim().to_owned(),
        shown: Some(decided.shown.clone()).filter(|shown| !shown.is_empty()),
    };
    let wanted = match decided.act.as_str() {
        "deny" => None,
        "once" => Some(allowed(For::Once, None)),
        "hour-path" => Some(allowed(For::Hour, Some(Breadth::Path))),
        "hour-host" => Some(allowed(For::Hour, Some(Breadth::Host))),
        "ever-path" => Some(allowed(For::Ever, Some(Breadth::Path))),
        "ever-host" => Some(allowed(For::Ever, Some(Breadth::Host))),
        _ => return Err(Problem::invalid("once, deny, or hour or ever at path or host").into()),
    };
    if let Some(Allowed {
        lasting: For::Ever,
        width,
        shown: None,
        ..
    }) = &wanted
    {
        // What stands for ever is looked at before.
        let width = match width {
            Some(Breadth::Host) => "host",
            Some(Breadth::Path) | None => "path",
        };
        let page = format!("/approvals/held/{}/allow?width={width}", in_query(&id));
        return Ok(to(&page));
    }
    let sight = Sight::deciding(&caller);
    let answered = match wanted {
        Some(wanted) => allow_held(&app, &caller, (id, &sight), wanted).await,
        None => answer_held(&app, &caller, (id, &sight), false)
            .await
            .map(|()| Answered::Once),
    };
    match answered {
        Ok(Answered::Rule(saved)) => match *saved {
            Saved::Proposed(proposal, before) => Ok(proposed(proposal.id, before)),
            Saved::Version(_) => Ok(told(Done::Answered, "/approvals")),
        },
        Ok(Answered::Once) => Ok(told(Done::Answered, "/approvals")),
        // Its time was over, somebody else was faster, or nobody is there to hear it.
        Err(problem) if matches!(problem.status().as_u16(), 404 | 409 | 410 | 412) => {
            overview(&app, &caller, None, Some(problem)).await
        }
        Err(problem) => Err(problem.into()),
    }
}

/// `GET /approvals/{id}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<u64>,
) -> Answer {
    one(&app, &caller, id, None).await
}

/// `POST /approvals/{id}`.
pub(crate) async fn decide(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<u64>,
    Form(decided): Form<Decided>,
) -> Answer {
    let decision = match decided.act.as_str() {
        "approve" => Decision::Approve,
        "reject" => Decision::Reject,
        "withdraw" => Decision::Withdraw,
        _ => return Err(Problem::invalid("approve, reject or withdraw").into()),
    };
    let did = match decision {
        Decision::Approve => Done::Approved,
        Decision::Reject => Done::Rejected,
        Decision::Withdraw => Done::Withdrawn,
    };
    if decision == Decision::Approve && !decided.shown.is_empty() {
        let policy = proposal(&app, &caller, id)
            .await?
            .draft
            .policy()
            .map(str::to_owned);
        let stands = stands_now(&app, policy.unwrap_or_default()).await?;
        if stands.mark() != decided.shown {
            let words =
                "for whom this is in force is another by now, and nothing is approved: look again";
            return one(&app, &caller, id, Some(Problem::meanwhile(words))).await;
        }
    }
    match decide_on(&app, &caller, id, decision, decided.why).await {
        Ok(_) => Ok(told(did, "/approvals")),
        Err(problem) if matches!(problem.status().as_u16(), 400 | 409 | 412) => {
            one(&app, &caller, id, Some(problem)).await
        }
        Err(problem) => Err(problem.into()),
    }
}

/// After a form: to the proposal that it became, or back.
pub(super) fn after(applied: &Applied, did: Done, back: &str) -> Response {
    match &applied.proposal {
        Some(proposal) => told(Done::Proposed, &format!("/approvals/{}", proposal.id)),
        None => told(did, back),
    }
}

/// How many wait, for who may see them.
pub(super) async fn waiting(app: &App, caller: &Caller) -> Result<usize, Problem> {
    if !caller.may(Permission::ReadAudit) {
        return Ok(0);
    }
    let found = app.ask(|store| store.proposals(true, None, MOST)).await?;
    let held = held(app, caller, &Sight::deciding(caller)).await?;
    let held = held.iter().filter(|one| !one.lost).count();
    Ok(found.len() + held)
}

async fn overview(
    app: &App,
    caller: &Caller,
    before: Option<u64>,
    problem: Option<Problem>,
) -> Answer {
    caller.require(Permission::ReadAudit)?;
    let on = app.ask(|store| store.two_person_rule()).await?;
    let held = held(app, caller, &Sight::deciding(caller)).await?;
    let pending = app.ask(|store| store.proposals(true, None, MOST)).await?;
    let decided = app.ask(move |store| store.proposals(false, before, PAGE));
    let decided = decided.await?;
    let full = decided.len() == usize::try_from(PAGE).unwrap_or_default();
    let status = AnswerStatus::beside(problem.as_ref());
    let page = ApprovalsPage {
        frame: Frame::new(caller, "/approvals"),
        on,
        held,
        now: app.now(),
        sight: Sight::plain(caller),
        problem: problem.map(|problem| problem.detail).unwrap_or_default(),
        older: decided.last().map(|last| last.id).filter(|_| full),
        pending: pending.into_iter().map(Into::into).collect(),
        decided: decided.into_iter().map(Into::into).collect(),
    };
    Ok(scripted(shown_as(status, &page)))
}

async fn one(app: &Arc<App>, caller: &Caller, id: u64, problem: Option<Problem>) -> Answer {
    let found = proposal(app, caller, id).await?;
    let pending = found.state == ProposalState::Pending;
    let own = caller.is(&found.person);
    let status = AnswerStatus::beside(problem.as_ref());
    let mut page = ApprovalPage {
        frame: Frame::new(caller, "/approvals"),
        words: words(&found.draft),
        problem: problem.map(|problem| problem.detail).unwrap_or_default(),
        may_decide: pending && !own && caller.may(Permission::Approve),
        may_withdraw: pending && own,
        meaning: String::new(),
        lines: Vec::new(),
        findings: Vec::new(),
        policy: found.draft.policy().unwrap_or_default().to_owned(),
        reach: Vec::new(),
        mark: String::new(),
        simulation: None,
        unread: String::new(),
        one: found.clone().into(),
    };
    if found.is_forgotten() {
        page.meaning =
            "Its document is kept no longer: it became nothing more than 30 days ago.".to_owned();
    } else if found.draft.holds_document() {
        let (name, on) = (page.policy.clone(), found.built_on);
        let document = found.draft.value.clone();
        let wanted = name.clone();
        let old = app
            .ask(move |store| store.policy(&wanted, Some(on)))
            .await?;
        let old = old.map(|old| old.document).unwrap_or_default();
        let checked = checked(app, Some(name.clone()), document.clone()).await?;
        page.findings = checked.findings.iter().map(ToString::to_string).collect();
        if pending {
            let stands = stands_now(app, name.clone()).await?;
            page.reach = reach(&stands.assigned, &stands.floors, &name);
            page.mark = stands.mark();
        }
        (page.meaning, page.lines) = compared(app, name, old, document).await?;
    } else if let Some(supposed) = supposed(&found.draft) {
        (page.meaning, page.lines) = instead(app, supposed).await?;
    }
    if pending && (caller.may(Permission::Approve) || caller.may(Permission::EditPolicies)) {
        match simulated_draft(app, caller, found.draft).await {
            Ok(simulation) => page.simulation = simulation,
            Err(problem) => page.unread = problem.detail,
        }
    }
    if status == AnswerStatus::OK {
        return Ok(shown(&page));
    }
    Ok(shown_as(status, &page))
}

async fn stands_now(app: &App, policy: String) -> Result<Stands, Problem> {
    app.ask(move |store| Stands::of(store, &policy)).await
}

/// What it means that another policy stands somewhere, or none, and the lines of both documents.
async fn instead(app: &App, supposed: Supposed) -> Result<(String, Vec<DiffLine>), Problem> {
    let wanted = supposed.clone();
    let documents = app.ask(move |store| {
        let mut known = InForce::read(store)?;
        let before = stands(&known, &wanted);
        known.suppose(&wanted);
        let after = stands(&known, &wanted);
        let text = |name: &Option<String>| -> Result<String, StoreError> {
            let Some(name) = name else {
                return Ok(nothing_of(&wanted).to_owned());
            };
            let kept = store.policy(name, None)?;
            Ok(kept.map(|kept| kept.document).unwrap_or_default())
        };
        Ok(((text(&before)?, before), (text(&after)?, after)))
    });
    let ((old, before), (new, after)) = documents.await?;
    let said = |name: &Option<String>| match (name, supposed.is_floor, &supposed.place) {
        (Some(name), ..) => format!("policy {name}"),
        (None, true, _) => "no floor".to_owned(),
        (None, false, Place::Team(_) | Place::Profile(_)) => {
            "what each server has by itself".to_owned()
        }
        (None, false, Place::Server(_) | Place::All) => "nothing, so that all is denied".to_owned(),
    };
    let words = format!("{} in place of {}\n", said(&after), said(&before));
    let name = after.or(before).unwrap_or_default();
    let (meaning, lines) = compared(app, name, old, new).await?;
    Ok((format!("{words}{meaning}"), lines))
}

/// What holds where nothing stands: all is denied where something would be assigned, unless each server has its own.
const fn nothing_of(supposed: &Supposed) -> &'static str {
    match (supposed.is_floor, &supposed.place) {
        (false, Place::Server(_) | Place::All) => "version: 1\negress: []\n",
        _ => "",
    }
}

/// What stands in a place; of servers without their own, what all have.
fn stands(known: &InForce<'_>, supposed: &Supposed) -> Option<String> {
    let Supposed {
        place, is_floor, ..
    } = supposed;
    let own = known.at(place, *is_floor);
    let falls_back = !is_floor && place.server().is_some();
    own.or_else(|| known.at(&Place::All, false).filter(|_| falls_back))
}

/// As many as can wait.
const MOST: u32 = 1000;
/// Of what was decided, on one page.
const PAGE: u32 = 50;
