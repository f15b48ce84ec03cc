//! Policies: all of them, one with its history, one version against the one before.

use std::sync::Arc;

use askama::Template;
use axum::{
    Form,
    extract::{Path, State},
};
use serde::Deserialize;

use super::{Answer, Frame, approvals::after, in_query, shown, to};
use crate::{
    api::{
        floors,
        policies::{PolicyView, Saved, checked, roll_back_to, version_of},
    },
    api_error::Problem,
    app::App,
    auth::Caller,
    document::{self, Line},
    role::Permission,
    store::{Assignment, Change, Name},
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
    places: Vec<String>,
    /// What it bounds.
    floors: Vec<String>,
    servers: Vec<String>,
    versions: Vec<PolicyView>,
}

#[derive(Template)]
#[template(path = "policy_version.html")]
struct VersionPage {
    frame: Frame,
    policy: PolicyView,
    /// Its number, and whether this is it.
    on: u64,
    newest: bool,
    meaning: String,
    lines: Vec<DiffLine>,
}

/// A line of a difference, as shown.
pub(super) struct DiffLine {
    pub(super) class: &'static str,
    pub(super) sign: &'static str,
    pub(super) text: String,
}

#[derive(Deserialize)]
pub(crate) struct NewPolicy {
    name: String,
}

#[derive(Deserialize)]
pub(crate) struct FloorPlace {
    server: String,
    act: String,
}

#[derive(Deserialize)]
pub(crate) struct Place {
    #[serde(default)]
    server: String,
}

/// `GET /policies`.
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    caller.require(Permission::Look)?;
    let heads = app.ask(|store| store.policies()).await?;
    let assignments = app.ask(|store| store.assignments()).await?;
    let rows = heads.into_iter().map(|head| PolicyRow {
        places: places(&assignments, &head.name).join(", "),
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
    let name: Name = new.name.trim().parse()?;
    Ok(to(&format!("/policies/{}/edit", in_query(name.as_str()))))
}

/// `GET /policies/{name}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer {
    let kept = version_of(&app, &caller, name.clone(), None).await?;
    let found = checked(&app, name.clone(), kept.document.clone()).await?;
    let assignments = app.ask(|store| store.assignments()).await?;
    let floors = app.ask(|store| store.floors()).await?;
    let servers = app.ask(|store| store.servers()).await?;
    let wanted = name.clone();
    let versions = app
        .ask(move |store| store.versions(&wanted, None, HISTORY))
        .await?;
    let page = PolicyPage {
        frame: Frame::new(&caller, "/policies"),
        findings: found.findings.iter().map(ToString::to_string).collect(),
        places: places(&assignments, &name),
        floors: bounded(&floors, &name),
        servers: servers.into_iter().map(|server| server.name).collect(),
        versions: versions.into_iter().map(Into::into).collect(),
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
    Form(place): Form<Place>,
) -> Answer {
    caller.require(Permission::AssignPolicies)?;
    let back = format!("/policies/{}", in_query(&name));
    let change = Change::Assign {
        server: Some(place.server).filter(|server| !server.is_empty()),
        policy: Some(name),
    };
    let applied = app.change(caller.actor(&app), change).await?;
    Ok(after(&applied, &back))
}

/// `POST /policies/{name}/floor`: makes it the floor of a server or of all, or no longer.
pub(crate) async fn set_floor(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Form(place): Form<FloorPlace>,
) -> Answer {
    let back = format!("/policies/{}", in_query(&name));
    let policy = match place.act.as_str() {
        "set" => Some(name),
        "take" => None,
        _ => return Err(Problem::invalid("set or take").into()),
    };
    let server = Some(place.server).filter(|server| !server.is_empty());
    let applied = floors::set_floor(&app, &caller, server, policy).await?;
    Ok(after(&applied, &back))
}

/// `GET /policies/{name}/versions/{version}`.
pub(crate) async fn version(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((name, number)): Path<(String, u64)>,
) -> Answer {
    let kept = version_of(&app, &caller, name.clone(), Some(number)).await?;
    let newest = version_of(&app, &caller, name.clone(), None).await?;
    let before = match number {
        0 | 1 => None,
        later => version_of(&app, &caller, name.clone(), Some(later - 1))
            .await
            .ok(),
    };
    let old = before.map(|before| before.document).unwrap_or_default();
    let new = kept.document.clone();
    let (meaning, lines) = compared(&app, name, old, new).await?;
    let page = VersionPage {
        frame: Frame::new(&caller, "/policies"),
        on: newest.head.version,
        newest: newest.head.version == kept.head.version,
        meaning,
        lines,
        policy: kept.head.into(),
    };
    Ok(shown(&page))
}

/// What somebody looked at when they went back.
#[derive(Deserialize)]
pub(crate) struct Back {
    on: u64,
}

/// `POST /policies/{name}/versions/{version}`: back to it.
pub(crate) async fn roll_back(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((name, version)): Path<(String, u64)>,
    Form(seen): Form<Back>,
) -> Answer {
    let back = format!("/policies/{}", in_query(&name));
    match roll_back_to(&app, &caller, name, (version, Some(seen.on)), String::new()).await? {
        Saved::Version(_) => Ok(to(&back)),
        Saved::Proposed(proposal) => Ok(to(&format!("/approvals/{}", proposal.id))),
    }
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
                Line::Skipped(count) => ("skipped", " ", format!("… {count} lines that stay")),
                Line::Left(count) => ("skipped", " ", format!("… {count} more lines, not shown")),
            };
            DiffLine { class, sign, text }
        })
        .collect()
}

fn bounded(floors: &[Assignment], policy: &str) -> Vec<String> {
    let mine = floors.iter().filter(|one| one.policy == policy);
    mine.map(|one| match &one.server {
        Some(server) => format!("server {server}"),
        None => "all servers".to_owned(),
    })
    .collect()
}

fn places(assignments: &[Assignment], policy: &str) -> Vec<String> {
    let mine = assignments.iter().filter(|one| one.policy == policy);
    mine.map(|one| match &one.server {
        Some(server) => format!("server {server}"),
        None => "all servers that have none of their own".to_owned(),
    })
    .collect()
}

const HISTORY: u32 = 50;
