//! The editor: a document, what is wrong with it by line, what is hardly meant, what would change.
//!
//! Opened from a denied record it already holds the rule that allows it: the second click saves, and puts
//! a new policy in force where nothing was. With a script it is checked while it is typed. What is at once in force for
//! all servers is saved by who was shown what that changes.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
};
use gig_policy::Format;
use serde::Deserialize;

use super::{Answer, Done, Form, InAddress, Path, in_query, proposed, to, told};
use crate::{
    allow::{Lasting, Width, begin, propose},
    api::{
        audit,
        policies::{Saved, Written, policy_name, save_written},
    },
    api_error::{AnswerStatus, Problem},
    app::App,
    auth::{Caller, origin},
    document::moment,
    drafts::{self, Draft},
    remedy::NoRule,
    role::Permission,
};

mod sheet;

use sheet::EditPage;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Saving puts it in force for this server.
    #[serde(default)]
    assign: String,
    /// What was typed before somebody was signed out is not wanted.
    #[serde(default)]
    without: String,
}

#[derive(Deserialize)]
pub(crate) struct Edited {
    version: u64,
    #[serde(default)]
    document: String,
    /// Another tool's document, which is to be this one.
    #[serde(default)]
    pasted: String,
    #[serde(default = "hosts")]
    format: Format,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    act: String,
    #[serde(default)]
    days: String,
    #[serde(default)]
    server: String,
    #[serde(default)]
    assign: String,
    /// The document whose difference was shown, where it concerns all servers.
    #[serde(default)]
    seen: String,
}

/// Where nothing is imported, nobody says.
const fn hosts() -> Format {
    Format::Hosts
}

/// `GET /policies/{name}/edit`.
pub(crate) async fn form(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    InAddress(opened): InAddress<Opened>,
    headers: HeaderMap,
) -> Answer {
    caller.require(Permission::EditPolicies)?;
    let known = policy_name(&name)?;
    if origin::is_led_here(&headers)
        && let Some(instead) = opened.instead(&name)
    {
        return Ok(to(&instead));
    }
    let wanted = name.clone();
    let kept = app.ask(move |store| store.policy(&wanted, None)).await?;
    if caller.session.is_some() && opened.without == "draft" && !origin::is_led_here(&headers) {
        drafts::forget(&app, &caller.name, &name).await?;
        return Ok(to(&format!("/policies/{}/edit", in_query(&name))));
    }
    let draft = opened.draft(&app, &caller, &name).await?;
    let mut page = EditPage::of(&caller, known.as_str());
    let assign = draft.as_ref().map_or(&opened.assign, |draft| &draft.assign);
    match page.assigned(&app, &caller, assign.clone()).await {
        // What was typed is shown, whatever became of the server meanwhile.
        Err(_) if draft.is_some() => {}
        assigned => assigned?,
    }
    let old = match kept {
        Some(kept) => {
            page.version = kept.head.version;
            kept.document
        }
        None => String::new(),
    };
    page.document = match old.is_empty() {
        true => format!("{}egress:\n  - host: api.example.com\n", begin(&name)),
        false => old.clone(),
    };
    let own = page.own_proposal(&app, &caller).await?;
    if !opened.record.is_empty() {
        let found = audit::record(&app, &caller, &opened.record).await?;
        let until = opened.lasting.until(moment(app.now()));
        let base = match (own, old.is_empty()) {
            (Some(waits), _) => waits,
            // A new one allows this and nothing else.
            (None, true) => format!("{}egress: []\n", begin(&name)),
            (None, false) => old.clone(),
        };
        let proposal = propose(&name, &base, &found.row, (opened.width, until));
        let proposal = proposal.ok_or_else(|| Problem::invalid(NoRule::Unopenable.to_string()))?;
        page.reason = format!("allow what record {} was denied", opened.record);
        page.offer(base, proposal);
    }
    if !opened.suggest.is_empty() {
        page.suggest(&app, &caller, opened).await?;
    }
    if let Some(draft) = draft {
        page.resume(draft);
    }
    page.surroundings(&app).await?;
    page.look(&app, old).await?;
    Ok(page.shown(AnswerStatus::OK))
}

/// `POST /policies/{name}/edit`: checks, imports, or saves.
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
    page.assigned(&app, &caller, edited.assign).await?;
    page.version = edited.version;
    page.document.clone_from(&document);
    page.reason.clone_from(&edited.reason);
    let wanted = name.clone();
    let kept = app.ask(move |store| store.policy(&wanted, None)).await?;
    page.own_proposal(&app, &caller).await?;
    let newest = kept.as_ref().map_or(0, |kept| kept.head.version);
    let old = kept.map(|kept| kept.document).unwrap_or_default();
    page.surroundings(&app).await?;
    page.typed = old != page.document;
    if edited.act == "import" {
        let before = match old.is_empty() {
            true => format!("{}egress: []\n", begin(&name)),
            false => old.clone(),
        };
        let status = page
            .import(&app, edited.format, edited.pasted, before)
            .await?;
        page.typed = old != page.document;
        page.look(&app, old).await?;
        return Ok(page.shown(status));
    }
    page.look(&app, old.clone()).await?;
    page.server.clone_from(&edited.server);
    if edited.act == "simulate" && page.problems.is_empty() {
        page.simulate(&app, &caller, &edited.days).await?;
        return Ok(page.shown(AnswerStatus::OK));
    }
    if edited.act != "save" {
        if page.problems.is_empty() {
            page.note = "Valid. Nothing is saved yet.".to_owned();
            page.note_class = "good";
        }
        return Ok(page.shown(AnswerStatus::OK));
    }
    if !old.is_empty() && old == page.document && page.assign.is_empty() {
        page.note = "Nothing is changed: there is no new version.".to_owned();
        page.note_class = "good";
        return Ok(page.shown(AnswerStatus::OK));
    }
    if page.asks_first(&edited.seen) {
        return Ok(page.shown(AnswerStatus::OK));
    }
    let back = format!("/policies/{}", in_query(&name));
    let written = Written {
        document,
        reason: edited.reason.trim().to_owned(),
        server: Some(page.assign.clone()).filter(|server| !server.is_empty()),
    };
    let person = Arc::clone(&caller.name);
    let saved = save_written(&app, &caller, name.clone(), Some(edited.version), written).await;
    if saved.is_ok() {
        // It goes by itself in a while.
        let _late = drafts::forget(&app, &person, &name).await;
    }
    match saved {
        Ok(Saved::Version(_)) => Ok(told(Done::NewVersion, &back)),
        Ok(Saved::Proposed(proposal, before)) => Ok(proposed(proposal.id, before)),
        Err(problem) if problem.status().is_client_error() => {
            if problem.problems.is_empty() {
                page.note.clone_from(&problem.detail);
                if problem.status() == StatusCode::PRECONDITION_FAILED && newest != edited.version {
                    // What is shown is compared with that one, so that whoever saves again knows what they undo.
                    page.version = newest;
                    page.note += &format!(
                        ". Nothing is saved: what is shown as changed is against version {newest}, and saving \
                         again puts this in its place"
                    );
                }
                page.note_class = "bad";
            }
            Ok(page.shown(problem.answer_status()))
        }
        Err(problem) => Err(problem.into()),
    }
}

impl Opened {
    /// What this person typed before they were signed out: where nothing else is asked for.
    async fn draft(
        &self,
        app: &App,
        caller: &Caller,
        policy: &str,
    ) -> Result<Option<Draft>, Problem> {
        let plain = self.record.is_empty() && self.suggest.is_empty() && self.assign.is_empty();
        // A token types nothing.
        if !plain || caller.session.is_none() {
            return Ok(None);
        }
        drafts::of(app, &caller.name, policy).await
    }

    /// Where another site may lead: not to a form that is filled in and one click from being saved.
    fn instead(&self, policy: &str) -> Option<String> {
        if !self.record.is_empty() {
            return Some(format!("/audit/{}", in_query(&self.record)));
        }
        if !self.assign.is_empty() {
            return Some("/servers".to_owned());
        }
        (!self.suggest.is_empty()).then(|| format!("/policies/{}", in_query(policy)))
    }
}
