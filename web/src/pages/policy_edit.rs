//! The editor: a document, what is wrong with it by line, what is hardly meant, what would change.
//!
//! Opened from a denied record it already holds the rule that allows it: the second click saves.

use std::sync::Arc;

use askama::Template;
use axum::{
    Form,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde::Deserialize;

use super::{
    Answer, Frame, in_query,
    policies::{DiffLine, compared},
    records::cut,
    shown_as, to,
};
use crate::{
    allow::{Lasting, Width, propose},
    api::{
        audit,
        policies::{Saved, checked, save_version},
        recorded::{simulated, span, suggested, week},
    },
    api_error::Problem,
    app::App,
    auth::{Caller, origin},
    document::moment,
    recorded::{Breadth, Simulation},
    role::Permission,
    store::Name,
};

#[derive(Template)]
#[template(path = "policy_edit.html")]
struct EditPage {
    frame: Frame,
    name: String,
    version: u64,
    document: String,
    reason: String,
    note: String,
    note_class: &'static str,
    rule: String,
    problems: Vec<String>,
    findings: Vec<String>,
    lines: Vec<DiffLine>,
    /// The button stands above the document: nothing is left to write.
    save_first: bool,
    /// Policies are changed by two people: the button proposes.
    two: bool,
    /// What it would do with recorded traffic.
    simulation: Option<Simulation>,
    days: u16,
    server: String,
    servers: Vec<String>,
    /// What a suggestion left out.
    left_out: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct Opened {
    /// A record that is to be allowed.
    #[serde(default)]
    record: String,
    #[serde(default)]
    width: Width,
    #[serde(default, rename = "for")]
    lasting: Lasting,
    /// A draft is to be made of what was recorded.
    #[serde(default)]
    suggest: String,
    /// Of this server.
    #[serde(default)]
    server: String,
    /// Of this sandbox.
    #[serde(default)]
    sandbox: String,
    #[serde(default)]
    days: String,
}

#[derive(Deserialize)]
pub(crate) struct Edited {
    version: u64,
    document: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    act: String,
    #[serde(default)]
    days: String,
    #[serde(default)]
    server: String,
}

/// `GET /policies/{name}/edit`.
pub(crate) async fn form(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Query(opened): Query<Opened>,
    headers: HeaderMap,
) -> Answer {
    caller.require(Permission::EditPolicies)?;
    let known: Name = name.parse()?;
    if origin::is_led_here(&headers)
        && let Some(instead) = opened.instead(&name)
    {
        return Ok(to(&instead));
    }
    let wanted = name.clone();
    let kept = app.ask(move |store| store.policy(&wanted, None)).await?;
    let mut page = EditPage::of(&caller, known.as_str());
    let old = match kept {
        Some(kept) => {
            page.version = kept.head.version;
            kept.document
        }
        None => String::new(),
    };
    page.document = match old.is_empty() {
        true => {
            format!("version: 1\nname: {name}\nmode: enforce\negress:\n  - host: api.example.com\n")
        }
        false => old.clone(),
    };
    if !opened.record.is_empty() {
        let found = audit::record(&app, &caller, &opened.record).await?;
        let until = opened.lasting.until(moment(app.now()));
        let proposal = propose(&name, &old, &found.row, (opened.width, until));
        let proposal = proposal
            .ok_or_else(|| Problem::invalid("no rule would let this record's request pass"))?;
        page.reason = format!("allow what record {} was denied", opened.record);
        match proposal.document {
            Some(document) => {
                page.note =
                    "The rule that allows it is in the document: look at it, and save.".to_owned();
                page.note_class = "good";
                page.save_first = true;
                page.document = document;
            }
            None => {
                page.note =
                    "This document has no place where gig could put the rule with certainty. \
                             Put it under egress yourself:"
                        .to_owned();
                page.note_class = "warn";
                page.rule = proposal.rule;
            }
        }
    }
    if !opened.suggest.is_empty() {
        page.suggest(&app, &caller, opened).await?;
    }
    page.surroundings(&app).await?;
    page.look(&app, old).await?;
    Ok(page.shown(StatusCode::OK))
}

/// `POST /policies/{name}/edit`: checks, or saves.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Form(edited): Form<Edited>,
) -> Answer {
    caller.require(Permission::EditPolicies)?;
    // Forms send CRLF; the document's lines end as its author wrote them elsewhere.
    let document = edited.document.replace("\r\n", "\n");
    let mut page = EditPage::of(&caller, &name);
    page.version = edited.version;
    page.document.clone_from(&document);
    page.reason.clone_from(&edited.reason);
    let wanted = name.clone();
    let kept = app.ask(move |store| store.policy(&wanted, None)).await?;
    let old = kept.map(|kept| kept.document).unwrap_or_default();
    page.surroundings(&app).await?;
    page.look(&app, old).await?;
    page.server.clone_from(&edited.server);
    if edited.act == "simulate" && page.problems.is_empty() {
        page.simulate(&app, &caller, &edited.days).await?;
        return Ok(page.shown(StatusCode::OK));
    }
    if edited.act != "save" {
        if page.problems.is_empty() {
            page.note = "Valid. Nothing is saved yet.".to_owned();
            page.note_class = "good";
        }
        return Ok(page.shown(StatusCode::OK));
    }
    let reason = edited.reason.trim().to_owned();
    let back = format!("/policies/{}", in_query(&name));
    let saved = save_version(&app, &caller, name, Some(edited.version), document, reason).await;
    match saved {
        Ok(Saved::Version(_)) => Ok(to(&back)),
        Ok(Saved::Proposed(proposal)) => Ok(to(&format!("/approvals/{}", proposal.id))),
        Err(problem) if problem.status().is_client_error() => {
            if problem.problems.is_empty() {
                page.note.clone_from(&problem.detail);
                page.note_class = "bad";
            }
            Ok(page.shown(problem.status()))
        }
        Err(problem) => Err(problem.into()),
    }
}

impl Opened {
    /// Where another site may lead: not to a form that is filled in and one click from being saved.
    fn instead(&self, policy: &str) -> Option<String> {
        if !self.record.is_empty() {
            return Some(format!("/audit/{}", in_query(&self.record)));
        }
        (!self.suggest.is_empty()).then(|| format!("/policies/{}", in_query(policy)))
    }
}

fn days_of(text: &str) -> Result<u16, Problem> {
    match text.trim() {
        "" => Ok(week()),
        days => days
            .parse()
            .map_err(|_| Problem::invalid("days are a number")),
    }
}

impl EditPage {
    fn of(caller: &Caller, name: &str) -> Self {
        Self {
            frame: Frame::new(caller, "/policies"),
            name: name.to_owned(),
            version: 0,
            document: String::new(),
            reason: String::new(),
            note: String::new(),
            note_class: "good",
            rule: String::new(),
            problems: Vec::new(),
            findings: Vec::new(),
            lines: Vec::new(),
            save_first: false,
            two: false,
            simulation: None,
            days: week(),
            server: String::new(),
            servers: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// What the forms around the document offer.
    async fn surroundings(&mut self, app: &App) -> Result<(), Problem> {
        self.two = app.ask(|store| store.two_person_rule()).await?;
        let servers = app.ask(|store| store.servers()).await?;
        self.servers = servers.into_iter().map(|server| server.name).collect();
        Ok(())
    }

    /// Runs the document over recorded traffic.
    async fn simulate(
        &mut self,
        app: &Arc<App>,
        caller: &Caller,
        days: &str,
    ) -> Result<(), Problem> {
        self.days = days_of(days)?;
        let span = span(&self.name, self.days, Some(self.server.clone()), None)?;
        let (name, document) = (self.name.clone(), self.document.clone());
        match simulated(app, caller, name, document, span).await {
            Ok(simulation) => self.simulation = Some(simulation),
            Err(problem) => {
                self.note = problem.detail;
                self.note_class = "warn";
            }
        }
        Ok(())
    }

    /// Makes the document one for recorded traffic.
    async fn suggest(
        &mut self,
        app: &Arc<App>,
        caller: &Caller,
        opened: Opened,
    ) -> Result<(), Problem> {
        self.days = days_of(&opened.days)?;
        self.server.clone_from(&opened.server);
        let span = span(
            &self.name,
            self.days,
            Some(opened.server),
            Some(opened.sandbox),
        )?;
        let width = match opened.width {
            Width::Path => Breadth::Path,
            Width::Host => Breadth::Host,
        };
        let made = suggested(app, caller, self.name.clone(), width, span).await?;
        let part = match made.complete {
            true => "",
            false => ", the newest part of that time only",
        };
        self.note = format!(
            "The narrowest document for {} records{part} is in the editor, each rule with what it rests on. \
             Nothing is saved yet.",
            made.records
        );
        self.reason = "suggested from what was recorded".to_owned();
        self.document = made.document;
        self.left_out = made.notes;
        let uncovered = made.uncovered.iter();
        self.left_out
            .extend(uncovered.map(|asked| format!("not covered: {}", cut(asked, 160))));
        Ok(())
    }

    /// Whether an option is the one that was chosen.
    fn is(&self, server: &str) -> bool {
        self.server == server
    }

    /// Checks the document, and compares it with what is kept.
    async fn look(&mut self, app: &App, old: String) -> Result<(), Problem> {
        let found = checked(app, self.name.clone(), self.document.clone()).await?;
        let place = |problem: &gig_policy::Problem| {
            format!(
                "line {}, column {}: {}",
                problem.line, problem.column, problem.message
            )
        };
        self.problems = found.problems.iter().map(place).collect();
        self.findings = found.findings.iter().map(ToString::to_string).collect();
        if old != self.document && !old.is_empty() {
            let (_, lines) = compared(app, self.name.clone(), old, self.document.clone()).await?;
            self.lines = lines;
        }
        Ok(())
    }

    fn shown(&self, status: StatusCode) -> Response {
        shown_as(status, self)
    }
}
