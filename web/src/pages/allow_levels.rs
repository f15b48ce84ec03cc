//! One sheet for what several documents deny at once, the assigned policy and floors that bound it: each with what would
//! change, and one button that saves all.
//!
//! Who is shown it may change them all. Each is saved on the version that was shown; where one changed meanwhile nothing
//! is, and the sheet is shown anew. The floors come last: until then nothing passes that did not.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, http::HeaderMap};
use gig_audit::row::Row;
use serde::Deserialize;

use super::{
    Answer, Done, Form, Frame, InAddress, Path, in_query,
    policies::{DiffLine, compared},
    shown, shown_as, to, told,
};
use crate::{
    allow::{Lasting, Width, propose},
    api::{
        audit,
        policies::{Saved, Written, save_written},
    },
    api_error::Problem,
    app::App,
    auth::{Caller, origin},
    document::moment,
    remedy::{NoRule, Remedies, asked},
    role::Permission,
    store::StoreError,
};

#[derive(Template)]
#[template(path = "allow_levels.html")]
struct LevelsPage {
    frame: Frame,
    id: String,
    /// What it asked for.
    asks: String,
    opened: Opened,
    sheets: Vec<Sheet>,
    reason: String,
    /// Policies are changed by two people: each waits for the second.
    two: bool,
    note: String,
}

/// What would become of one document.
struct Sheet {
    policy: String,
    version: u64,
    /// It bounds others.
    is_floor: bool,
    /// With the rule; `None` where it is to be put in by hand.
    document: Option<String>,
    rule: String,
    meaning: String,
    lines: Vec<DiffLine>,
}

/// What is to be opened.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Opened {
    #[serde(default)]
    width: Width,
    #[serde(default, rename = "for")]
    lasting: Lasting,
}

#[derive(Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    width: Width,
    #[serde(default, rename = "for")]
    lasting: Lasting,
    /// The versions that were shown.
    on: String,
    #[serde(default)]
    reason: String,
}

impl LevelsPage {
    /// The versions that are shown, by which it is known whether they are still the newest.
    fn on(&self) -> String {
        let all = self.sheets.iter();
        let all = all.map(|sheet| format!("{}:{}", sheet.policy, sheet.version));
        all.collect::<Vec<_>>().join(" ")
    }

    /// Whether the button can save all of them.
    fn is_whole(&self) -> bool {
        self.sheets.iter().all(|sheet| sheet.document.is_some())
    }

    fn width(&self) -> &'static str {
        match self.opened.width {
            Width::Path => "path",
            Width::Host => "host",
        }
    }

    fn lasting(&self) -> &'static str {
        match self.opened.lasting {
            Lasting::Ever => "ever",
            Lasting::Hour => "hour",
        }
    }
}

/// Whether somebody may change every document that can stand in the way.
pub(super) fn may(caller: &Caller) -> bool {
    caller.may(Permission::EditPolicies) && caller.may(Permission::SetFloors)
}

/// `GET /audit/{id}/allow`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    InAddress(opened): InAddress<Opened>,
    headers: HeaderMap,
) -> Answer {
    let page = sheet(&app, &caller, id, opened).await?;
    // Another site leads to no form that is one click from being saved; one document has an editor.
    if origin::is_led_here(&headers) || page.sheets.len() < 2 {
        return Ok(to(&format!("/audit/{}", in_query(&page.id))));
    }
    Ok(shown(&page))
}

/// `POST /audit/{id}/allow`: saves all of them.
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    Form(wanted): Form<Wanted>,
) -> Answer {
    let opened = Opened {
        width: wanted.width,
        lasting: wanted.lasting,
    };
    let mut page = sheet(&app, &caller, id, opened).await?;
    wanted.reason.trim().clone_into(&mut page.reason);
    if page.on() != wanted.on || !page.is_whole() {
        let words = "What denies it changed meanwhile, and nothing is saved: look again.";
        page.note = words.to_owned();
        let changed = Problem::meanwhile(words);
        return Ok(shown_as(changed.answer_status(), &page));
    }
    let mut done: Vec<String> = Vec::new();
    let mut proposed = false;
    for sheet in &page.sheets {
        let written = Written {
            document: sheet.document.clone().unwrap_or_default(),
            reason: page.reason.clone(),
            server: None,
        };
        let (name, on) = (sheet.policy.clone(), Some(sheet.version));
        match save_written(&app, &caller, name, on, written).await {
            Ok(Saved::Version(_)) => {}
            Ok(Saved::Proposed(..)) => proposed = true,
            Err(problem) if problem.status().is_client_error() => {
                let before = match done.is_empty() {
                    true => "Nothing is saved".to_owned(),
                    false => format!("{} is saved", done.join(" and ")),
                };
                page.note = format!("{before}, {} is not: {}", sheet.policy, problem.detail);
                return Ok(shown_as(problem.answer_status(), &page));
            }
            Err(problem) => return Err(problem.into()),
        }
        done.push(sheet.policy.clone());
    }
    Ok(match proposed {
        true => told(Done::Proposed, "/approvals"),
        false => told(Done::NewVersion, &format!("/audit/{}", in_query(&page.id))),
    })
}

/// What each document that denies a record would become.
async fn sheet(
    app: &Arc<App>,
    caller: &Caller,
    id: String,
    opened: Opened,
) -> Result<LevelsPage, Problem> {
    caller.require(Permission::EditPolicies)?;
    caller.require(Permission::SetFloors)?;
    let row = audit::record(app, caller, &id).await?.row;
    let mut sheets = Vec::new();
    for (kept, is_floor) in levels(app, row.clone()).await? {
        let (policy, version, old) = kept;
        let until = opened.lasting.until(moment(app.now()));
        let proposal = propose(&policy, &old, &row, (opened.width, until));
        let proposal = proposal.ok_or_else(|| Problem::invalid(NoRule::Unopenable.to_string()))?;
        let (meaning, lines) = match &proposal.document {
            Some(new) => compared(app, policy.clone(), old, new.clone()).await?,
            None => (String::new(), Vec::new()),
        };
        sheets.push(Sheet {
            policy,
            version,
            is_floor,
            document: proposal.document,
            rule: proposal.rule,
            meaning,
            lines,
        });
    }
    Ok(LevelsPage {
        frame: Frame::new(caller, "/audit"),
        asks: asked(&row)
            .map(|asked| asked.to_string())
            .unwrap_or_default(),
        opened,
        sheets,
        reason: format!("allow what record {id} was denied"),
        two: app.ask(|store| store.two_person_rule()).await?,
        note: String::new(),
        id,
    })
}

/// A name, its newest version and the document of that.
type Kept = (String, u64, String);

/// The documents that deny it now, and whether each is a floor.
async fn levels(app: &Arc<App>, row: Row) -> Result<Vec<(Kept, bool)>, Problem> {
    let theirs = Arc::clone(app);
    let read = app.aside(move || {
        let store = theirs.store.as_ref();
        let now = moment(theirs.now());
        let names = Remedies::read(store, now)?.levels(&row)?;
        let floors = store.floors()?;
        let mut found = Vec::new();
        for name in names {
            let kept = store.policy(&name, None)?;
            let is_floor = floors.iter().any(|floor| floor.policy == name);
            found.extend(kept.map(|kept| ((name, kept.head.version, kept.document), is_floor)));
        }
        Ok::<_, StoreError>(found)
    });
    read.await?.map_err(Problem::store)
}
