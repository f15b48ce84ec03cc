//! The editor's page: what it holds, and what it asks of store, record and compiler for that.

use std::sync::Arc;

use askama::Template;
use axum::response::Response;
use gig_policy::Format;

use super::Opened;
use crate::{
    allow::{Proposal, Width},
    api::{
        policies::{checked, imported},
        recorded::{simulated, span, suggested, week},
    },
    api_error::{AnswerStatus, Problem},
    app::App,
    auth::Caller,
    credential::Digest,
    drafts::Draft,
    guard::Scripted,
    in_force::InForce,
    pages::{
        Frame,
        policies::{DiffLine, compared},
        records::cut,
        shown_as,
    },
    recorded::{Breadth, Simulation},
    role::Permission,
};

#[derive(Template)]
#[template(path = "policy_edit.html")]
pub(super) struct EditPage {
    frame: Frame,
    name: String,
    pub(super) version: u64,
    pub(super) document: String,
    pub(super) reason: String,
    pub(super) note: String,
    pub(super) note_class: &'static str,
    rule: String,
    pub(super) problems: Vec<String>,
    findings: Vec<String>,
    lines: Vec<DiffLine>,
    /// The button stands above the document: nothing is left to write.
    save_first: bool,
    saving: Saving,
    /// What it would do with recorded traffic.
    simulation: Option<Simulation>,
    days: u16,
    pub(super) server: String,
    servers: Vec<String>,
    /// The server for which saving puts it in force; empty for none.
    pub(super) assign: String,
    /// Which servers it concerns, in words.
    reach: String,
    /// The proposal of who edits that waits.
    waits: Option<u64>,
    /// What a suggestion left out.
    left_out: Vec<String>,
    /// What was pasted, where it is to be pasted again.
    pasted: String,
    format: Format,
    /// What an import says more widely or more narrowly.
    kept_otherwise: Vec<String>,
    /// It was typed before its author was signed out, and is not saved.
    resumed: bool,
    /// Somebody typed what is shown, and it is not saved: the script asks before they leave it.
    pub(super) typed: bool,
}

/// What becomes of a document that is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Saving {
    /// Policies are changed by two people: it waits for the second.
    Proposes,
    /// It is in force where its policy is.
    AtOnce,
    /// That is nowhere yet.
    Nowhere,
    /// That is all servers: nobody else looks at what changes.
    ForAll,
    /// It bounds all servers: nobody else looks at what changes there.
    BoundsAll,
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
    pub(super) fn of(caller: &Caller, name: &str) -> Self {
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
            saving: Saving::AtOnce,
            simulation: None,
            days: week(),
            server: String::new(),
            servers: Vec::new(),
            assign: String::new(),
            reach: String::new(),
            waits: None,
            left_out: Vec::new(),
            pasted: String::new(),
            format: Format::Hosts,
            kept_otherwise: Vec::new(),
            resumed: false,
            typed: false,
        }
    }

    /// Goes on with what was typed.
    pub(super) fn resume(&mut self, draft: Draft) {
        self.version = draft.version;
        self.document = draft.document.replace("\r\n", "\n");
        self.reason = draft.reason;
        (self.resumed, self.typed) = (true, true);
    }

    /// What who edits has proposed for it and waits, whose place a new one takes: noted, and its document.
    pub(super) async fn own_proposal(
        &mut self,
        app: &App,
        caller: &Caller,
    ) -> Result<Option<String>, Problem> {
        let (actor, name) = (caller.actor(app), self.name.clone());
        let server = Some(self.assign.clone()).filter(|server| !server.is_empty());
        let own = app.ask(move |store| store.own_proposal(&actor, &name, server.as_deref()));
        let own = own.await?;
        self.waits = own.as_ref().map(|own| own.id);
        Ok(own.map(|own| own.draft.value))
    }

    /// What the forms around the document offer.
    pub(super) async fn surroundings(&mut self, app: &App) -> Result<(), Problem> {
        let two = app.ask(|store| store.two_person_rule()).await?;
        let servers = app.ask(|store| store.servers()).await?;
        self.servers = servers.into_iter().map(|server| server.name).collect();
        let (servers, name) = (self.servers.clone(), self.name.clone());
        let in_force = app.ask(move |store| {
            let known = InForce::read(store)?;
            // As for who has none of their own, nor by a team.
            let of = |server: String| (known.name_for(&server, ""), server);
            let servers: Vec<_> = servers.into_iter().map(of).collect();
            let bounds = known.bounded_by(&name);
            let all = (known.is_for_all(&name), known.bounds_all(&name));
            Ok((servers, known.people_of(&name), bounds, all))
        });
        let (servers, people, bounds, (for_all, bounds_all)) = in_force.await?;
        self.reach = self.reach_of(&servers);
        let has_it = |one: &(Option<String>, String)| one.0.as_ref() == Some(&self.name);
        let nowhere = self.assign.is_empty()
            && people.is_empty()
            && bounds.is_empty()
            && !servers.iter().any(has_it);
        self.saving = match (two, for_all, bounds_all) {
            (true, ..) => Saving::Proposes,
            (false, false, false) if nowhere => Saving::Nowhere,
            (false, true, _) => Saving::ForAll,
            (false, false, true) => Saving::BoundsAll,
            (false, false, false) => Saving::AtOnce,
        };
        if !people.is_empty() {
            let people = people.join(", ");
            self.reach += &format!(" It is in force for {people}, whatever server runs for them.");
        }
        if for_all {
            self.reach += " It is in force for all servers that have none of their own, those of tomorrow among them.";
        }
        if !bounds.is_empty() {
            let bounds = bounds.join(", ");
            self.reach += &format!(
                " It is the floor of {bounds}: what it does not allow is denied there, whatever is assigned."
            );
        }
        Ok(())
    }

    /// Which servers it concerns, of all that there are with what is in force for each.
    fn reach_of(&self, in_force: &[(Option<String>, String)]) -> String {
        if !self.assign.is_empty() {
            let before = in_force.iter().find(|(_, server)| *server == self.assign);
            let before = before.and_then(|(policy, _)| policy.as_deref());
            let instead = before.filter(|policy| *policy != self.name);
            let instead = instead.map(|policy| format!(", in place of policy {policy}"));
            return format!(
                "Saving puts it in force for server {}{}.",
                self.assign,
                instead.unwrap_or_default()
            );
        }
        let mine = in_force.iter();
        let mine = mine.filter(|(policy, _)| policy.as_deref() == Some(self.name.as_str()));
        let mine: Vec<&str> = mine.map(|(_, server)| server.as_str()).collect();
        match mine.as_slice() {
            [] => "It is in force for no server.".to_owned(),
            [one] => format!("It is in force for server {one}."),
            all => {
                let named: Vec<&str> = all.iter().take(MOST_NAMED).copied().collect();
                let more = all.len() - named.len();
                let more = match more {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!(
                    "It is in force for {} servers: {}{more}. What is allowed here is allowed to each of them.",
                    all.len(),
                    named.join(", ")
                )
            }
        }
    }

    /// Saving is to put it in force for this server, if it names one.
    pub(super) async fn assigned(
        &mut self,
        app: &App,
        caller: &Caller,
        server: String,
    ) -> Result<(), Problem> {
        if server.is_empty() {
            return Ok(());
        }
        caller.require(Permission::AssignPolicies)?;
        let wanted = server.clone();
        let kept = app.ask(move |store| store.server(&wanted)).await?;
        if kept.is_none() {
            return Err(Problem::missing("server", &server));
        }
        self.assign = server;
        Ok(())
    }

    /// Puts the document with the rule into the editor, or the rule beside the one that is there.
    pub(super) fn offer(&mut self, base: String, proposal: Proposal) {
        match proposal.document {
            Some(document) => {
                self.note =
                    "The rule that allows it is in the document: look at it, and save.".to_owned();
                self.note_class = "good";
                self.save_first = true;
                self.document = document;
            }
            None => {
                self.note =
                    "This document has no place where gig could put the rule with certainty. \
                             Put it under egress yourself:"
                        .to_owned();
                self.note_class = "warn";
                self.rule = proposal.rule;
                self.document = base;
            }
        }
    }

    /// Runs the document over recorded traffic.
    pub(super) async fn simulate(
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
    pub(super) async fn suggest(
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
        let assign = Some(self.assign.clone()).filter(|server| !server.is_empty());
        let made = suggested(app, caller, self.name.clone(), (width, span), assign).await?;
        self.note = format!(
            "The narrowest document for {} records is in the editor, each rule with what it rests on. {} \
             Nothing is saved yet.",
            made.records, made.covered
        );
        if made.records == 0 {
            self.note_class = "warn";
        }
        if made.denied > 0 {
            self.note += &format!(
                " It opens what was denied {} when it was asked for: look at each entry that says so.",
                match made.denied {
                    1 => "once".to_owned(),
                    count => format!("{count} times"),
                }
            );
            self.note_class = "warn";
        }
        self.reason = "suggested from what was recorded".to_owned();
        self.document = made.document;
        self.left_out = made.notes;
        let uncovered = made.uncovered.iter();
        self.left_out
            .extend(uncovered.map(|asked| format!("not covered: {}", cut(asked, 160))));
        Ok(())
    }

    /// What the button that saves it says.
    fn save(&self) -> &'static str {
        match self.saving {
            Saving::Proposes => "Propose",
            Saving::Nowhere => "Save",
            Saving::AtOnce | Saving::ForAll | Saving::BoundsAll => "Save and put in force",
        }
    }

    /// Makes the document one of another tool's, and says what could not be kept.
    pub(super) async fn import(
        &mut self,
        app: &App,
        format: Format,
        pasted: String,
        before: String,
    ) -> Result<AnswerStatus, Problem> {
        self.pasted.clone_from(&pasted);
        self.format = format;
        match imported(app, format, pasted, self.name.clone()).await {
            Ok(made) => {
                self.note =
                    "What was pasted is in the editor as a document of gig. Nothing is saved yet."
                        .to_owned();
                self.reason = "imported".to_owned();
                self.document = made.document;
                let wide = made.widened.iter().map(|remark| format!("wider: {remark}"));
                let narrow = made.narrowed.iter();
                let narrow = narrow.map(|remark| format!("narrower: {remark}"));
                self.kept_otherwise = wide.chain(narrow).take(MOST_REMARKS).collect();
                let all = made.widened.len() + made.narrowed.len();
                if all > MOST_REMARKS {
                    let more = all - MOST_REMARKS;
                    let words = format!("and {more} more, above the document's first line");
                    self.kept_otherwise.push(words);
                }
                Ok(AnswerStatus::OK)
            }
            Err(problem) if problem.status().is_client_error() => {
                self.note.clone_from(&problem.detail);
                for one in &problem.problems {
                    self.note += &format!("; line {}: {}", one.line, one.message);
                }
                self.note_class = "bad";
                self.document = before;
                Ok(problem.answer_status())
            }
            Err(problem) => Err(problem),
        }
    }

    /// What an import can be made of: whether it is the one that was chosen, its word, and in words.
    fn formats(&self) -> [(bool, &'static str, &'static str); Format::ALL.len()] {
        Format::ALL.map(|one| (self.format == one, one.as_str(), one.words()))
    }

    /// Whether an option is the one that was chosen.
    fn is(&self, server: &str) -> bool {
        self.server == server
    }

    /// Checks the document, and compares it with what is kept.
    pub(super) async fn look(&mut self, app: &App, old: String) -> Result<(), Problem> {
        let found = checked(app, Some(self.name.clone()), self.document.clone()).await?;
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

    /// What is shown of a change that concerns all servers: who saves it names it. Empty where nobody is asked.
    fn seen(&self) -> String {
        let all = matches!(self.saving, Saving::ForAll | Saving::BoundsAll);
        match all && !self.lines.is_empty() {
            true => Digest::of(&self.document).words(),
            false => String::new(),
        }
    }

    /// Whether what changes has to be shown before it is saved; then it says so.
    pub(super) fn asks_first(&mut self, seen: &str) -> bool {
        let shown = self.seen();
        let asks = !shown.is_empty() && shown != seen;
        if asks {
            let what = match self.saving {
                Saving::BoundsAll => "It bounds all servers, whatever is assigned there,",
                _ => "It is in force for all servers that have none of their own",
            };
            self.note = format!(
                "{what} as soon as it is saved, and nothing is saved yet: look at what would change, and save it then."
            );
            self.note_class = "warn";
        }
        asks
    }

    pub(super) fn shown(&self, status: AnswerStatus) -> Response {
        let mut response = shown_as(status, self);
        response.extensions_mut().insert(Scripted);
        response
    }
}

/// More than anybody reads; the document has all of them as comments.
const MOST_REMARKS: usize = 200;
/// As many as fit a line or two.
const MOST_NAMED: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_editor_says_whom_a_rule_concerns() {
        let caller = Caller::itself("ana");
        let mut page = EditPage::of(&caller, "web");
        let all = |policies: &[&str]| -> Vec<(Option<String>, String)> {
            let named = policies.iter().enumerate();
            named
                .map(|(at, policy)| (Some((*policy).to_owned()), format!("s{at}")))
                .collect()
        };
        assert_eq!(page.reach_of(&all(&["x"])), "It is in force for no server.");
        let one = page.reach_of(&all(&["x", "web"]));
        assert_eq!(one, "It is in force for server s1.");
        let many = page.reach_of(&all(&["web"; 14]));
        assert!(many.contains("14 servers: s0, s1") && many.contains("s11 and 2 more."));
        page.assign = "s0".to_owned();
        let new = page.reach_of(&[(None, "s0".to_owned())]);
        assert_eq!(new, "Saving puts it in force for server s0.");
        let other = page.reach_of(&all(&["x"]));
        let want = "Saving puts it in force for server s0, in place of policy x.";
        assert_eq!(other, want);
    }
}
