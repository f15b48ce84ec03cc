//! Policies: all of them, one with its history, where it is in force, what a change of it means.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde::Deserialize;

use super::{
    Answer, Done, Form, Frame, Path,
    approvals::after,
    confirm::policies::{is_there, settled},
    in_query, shown, to,
};
use crate::{
    api::{
        Asked, floors,
        policies::{PolicyView, checked, policy_name, remove_policy},
    },
    api_error::Problem,
    app::App,
    auth::Caller,
    document::{self, Line},
    role::Permission,
    store::{Assignment, Change, Name, Place},
};

#[derive(Template)]
#[template(path = "policies.html")]
struct PoliciesPage {
    frame: Frame,
    policies: Vec<PolicyRow>,
}

struct PolicyRow {
    policy: PolicyView,
    places: String,
}

#[derive(Template)]
#[template(path = "policy.html")]
struct PolicyPage {
    frame: Frame,
    policy: PolicyView,
    document: String,
    findings: Vec<String>,
    /// Where it is in force: as a query says it, and the words.
    places: Vec<(String, String)>,
    /// It was removed: what is shown was its last version.
    removed: bool,
    /// What it bounds, in the same way.
    floors: Vec<(String, String)>,
    servers: Vec<String>,
    teams: Vec<String>,
    versions: Vec<PolicyView>,
    /// Before which version the page of older ones begins.
    older: Option<u64>,
    /// Whether this is such a page.
    paged: bool,
}

/// A line of a difference, as shown.
pub(super) struct DiffLine {
    pub(super) class: &'static str,
    pub(super) sign: &'static str,
    pub(super) text: String,
}

/// Which part of a history.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryAsked {
    #[serde(default)]
    before: Option<u64>,
}

#[derive(Deserialize)]
pub(crate) struct NewPolicy {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FloorPlace {
    #[serde(flatten)]
    pub(super) place: Somewhere,
    pub(super) act: String,
}

/// Where a policy is put in force, and what was in force when that was looked at.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Assigned {
    #[serde(flatten)]
    place: Somewhere,
    on: Option<String>,
}

/// What somebody looked at when they removed it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Seen {
    on: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Somewhere {
    /// A server's name, `team NAME`, `profile NAME`, or an empty text for all; left out it is nowhere.
    #[serde(default = "unchosen")]
    server: String,
    /// A person's name, in place of that.
    #[serde(default)]
    profile: String,
}

/// What the list of places says before anything is chosen.
fn unchosen() -> String {
    "-".to_owned()
}

impl Somewhere {
    pub(super) fn place(&self) -> Result<Place, Problem> {
        match (self.profile.trim(), self.server.as_str()) {
            // What nothing was chosen of is not all servers.
            ("", "-") => Err(Problem::invalid(
                "say for whom: choose a server or team, or type a person",
            )),
            ("", _) => Ok(Place::from_words(&self.server)),
            (name, "" | "-") => Ok(Place::profile(name.parse::<Name>()?.as_str())),
            _ => Err(Problem::invalid(
                "choose a server or team, or type a person: not both",
            )),
        }
    }
}

/// `GET /policies`.
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    caller.require(Permission::Look)?;
    let heads = app.ask(|store| store.policies()).await?;
    let assignments = app.ask(|store| store.assignments()).await?;
    let floors = app.ask(|store| store.floors()).await?;
    let rows = heads.into_iter().map(|head| PolicyRow {
        places: reach(&assignments, &floors, &head.name).join(", "),
        policy: head.into(),
    });
    let page = PoliciesPage {
        frame: Frame::new(&caller, "/policies"),
        policies: rows.collect(),
    };
    Ok(shown(&page))
}

/// `POST /policies`: on to the editor.
pub(crate) async fn new(caller: Caller, Form(new): Form<NewPolicy>) -> Answer {
    caller.require(Permission::EditPolicies)?;
    let name = policy_name(new.name.trim())?;
    Ok(to(&format!("/policies/{}/edit", in_query(name.as_str()))))
}

/// `GET /policies/{name}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Asked(history): Asked<HistoryAsked>,
) -> Answer {
    caller.require(Permission::Look)?;
    let wanted = name.clone();
    let (kept, removed) = app
        .ask(move |store| {
            if let Some(kept) = store.policy(&wanted, None)? {
                return Ok((Some(kept), false));
            }
            let last = store.versions(&wanted, None, 1)?.into_iter().next();
            let last = last.map(|last| store.policy(&wanted, Some(last.version)));
            Ok((last.transpose()?.flatten(), true))
        })
        .await?;
    let kept = kept.ok_or_else(|| Problem::missing("policy", &name))?;
    let found = checked(&app, Some(name.clone()), kept.document.clone()).await?;
    let assignments = app.ask(|store| store.assignments()).await?;
    let floors = app.ask(|store| store.floors()).await?;
    let servers = app.ask(|store| store.servers()).await?;
    let teams = app.ask(|store| store.teams()).await?;
    let wanted = name.clone();
    let before = history.before;
    let mut versions = app
        .ask(move |store| store.versions(&wanted, before, HISTORY + 1))
        .await?;
    // One more than is shown says whether there are older ones.
    let shown_here = usize::try_from(HISTORY).unwrap_or(usize::MAX);
    let more = versions.len() > shown_here;
    versions.truncate(shown_here);
    let last = versions.last().map(|last| last.version);
    let page = PolicyPage {
        frame: Frame::new(&caller, "/policies"),
        findings: found.findings.iter().map(ToString::to_string).collect(),
        places: places(&assignments, &name),
        removed,
        floors: bounded(&floors, &name),
        servers: servers.into_iter().map(|server| server.name).collect(),
        teams: teams.into_iter().map(|team| team.name).collect(),
        versions: versions.into_iter().map(Into::into).collect(),
        older: last.filter(|_| more),
        paged: before.is_some(),
        document: kept.document,
        policy: kept.head.into(),
    };
    Ok(shown(&page))
}

/// `POST /policies/{name}/assign`.
pub(crate) async fn assign(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Form(wanted): Form<Assigned>,
) -> Answer {
    caller.require(Permission::AssignPolicies)?;
    let back = format!("/policies/{}", in_query(&name));
    let change = Change::Assign {
        place: wanted.place.place()?,
        policy: Some(name),
        expected: wanted.on,
    };
    let applied = app.change(caller.actor(&app), change).await?;
    Ok(after(&applied, Done::Assigned, &back))
}

/// `POST /policies/{name}/floor`: makes it the floor of a server or of all, or no longer.
pub(crate) async fn set_floor(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Form(wanted): Form<FloorPlace>,
) -> Answer {
    let back = format!("/policies/{}", in_query(&name));
    let policy = match wanted.act.as_str() {
        "set" => Some(name.clone()),
        "take" => None,
        _ => return Err(Problem::invalid("set or take").into()),
    };
    caller.require(Permission::SetFloors)?;
    let place = wanted.place.place()?;
    let set = app.ask(|store| store.floors()).await?;
    if policy.is_none() && !is_there(&set, &place, &name) {
        return Err(settled("it is not the floor there any more: look again").into());
    }
    // What is taken away was looked at by this very request.
    let seen = policy.is_none().then(|| Assignment::tag(&set));
    let applied = floors::set_floor(&app, &caller, (place, policy), seen).await?;
    Ok(after(&applied, Done::Assigned, &back))
}

/// `POST /policies/{name}/unassign`: takes it out of force where it is.
pub(crate) async fn unassign(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Form(place): Form<Somewhere>,
) -> Answer {
    caller.require(Permission::AssignPolicies)?;
    let back = format!("/policies/{}", in_query(&name));
    let place = place.place()?;
    let assigned = app.ask(|store| store.assignments()).await?;
    if !is_there(&assigned, &place, &name) {
        return Err(settled("it is not in force there any more: look again").into());
    }
    let change = Change::Assign {
        place,
        policy: None,
        // Looked at by this very request.
        expected: Some(Assignment::tag(&assigned)),
    };
    let applied = app.change(caller.actor(&app), change).await?;
    Ok(after(&applied, Done::Assigned, &back))
}

/// `POST /policies/{name}/remove`.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Form(seen): Form<Seen>,
) -> Answer {
    let applied = remove_policy(&app, &caller, name, Some(seen.on)).await?;
    Ok(after(&applied, Done::Removed, "/policies"))
}

/// What a change means, and its lines.
pub(super) async fn compared(
    app: &App,
    name: String,
    old: String,
    new: String,
) -> Result<(String, Vec<DiffLine>), Problem> {
    let compared = app.aside(move || {
        let compile = |text: &str| document::compile(&name, 0, text, None);
        let meaning = match (compile(&old), compile(&new)) {
            (Ok(old), Ok(new)) => old.difference(&new).to_string(),
            _ => String::new(),
        };
        (meaning, lines(&old, &new))
    });
    compared.await
}

fn lines(old: &str, new: &str) -> Vec<DiffLine> {
    let lines = document::difference(old, new).into_iter();
    lines
        .map(|line| {
            let (class, sign, text) = match line {
                Line::Same(text) => ("same", " ", text),
                Line::Added(text) => ("added", "+", text),
                Line::Removed(text) => ("removed", "-", text),
                Line::Skipped(1) => ("skipped", " ", "… 1 line that stays".to_owned()),
                Line::Skipped(count) => ("skipped", " ", format!("… {count} lines that stay")),
                Line::Left(1) => ("skipped", " ", "… 1 more line, not shown".to_owned()),
                Line::Left(count) => ("skipped", " ", format!("… {count} more lines, not shown")),
            };
            DiffLine { class, sign, text }
        })
        .collect()
}

fn bounded(floors: &[Assignment], policy: &str) -> Vec<(String, String)> {
    let mine = floors.iter().filter(|one| one.policy == policy);
    mine.map(|one| (in_query(&one.place.in_words()), one.place.to_string()))
        .collect()
}

fn places(assignments: &[Assignment], policy: &str) -> Vec<(String, String)> {
    let mine = assignments.iter().filter(|one| one.policy == policy);
    mine.map(|one| (in_query(&one.place.in_words()), in_force_for(&one.place)))
        .collect()
}

/// For whom something is in force, in words.
pub(super) fn in_force_for(place: &Place) -> String {
    match place {
        Place::All => "all servers that have none of their own".to_owned(),
        one => one.to_string(),
    }
}

/// Where it is in force and what it bounds, in words.
pub(super) fn reach(
    assignments: &[Assignment],
    floors: &[Assignment],
    policy: &str,
) -> Vec<String> {
    let places = places(assignments, policy).into_iter();
    let floors = bounded(floors, policy).into_iter();
    let floors = floors.map(|(_, words)| format!("floor of {words}"));
    places.map(|(_, words)| words).chain(floors).collect()
}

const HISTORY: u32 = 50;
