//! Secrets: what the vault has, where each may go and was used; values are typed in and never shown.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, http::StatusCode, response::Response};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{
    Answer, Done, Form, Frame, PageProblem, Path, in_query,
    records::{RecordRow, rows_of_all},
    shown_as, told,
};
use crate::{
    api::{
        audit::{AuditAsked, find},
        secrets::{SecretView, change, days, described, hours, view, views},
    },
    api_error::{AnswerStatus, Problem},
    app::App,
    auth::Caller,
    role::Permission,
    secrets::{SecretDoing, in_clear_text},
};

#[derive(Template)]
#[template(path = "secrets.html")]
struct SecretsPage {
    frame: Frame,
    problem: String,
    /// What was typed into the form, where it was refused.
    kept: Kept,
    secrets: Vec<SecretView>,
}

#[derive(Template)]
#[template(path = "secret.html")]
struct SecretPage {
    frame: Frame,
    problem: String,
    /// What was typed into the form, where it was refused.
    kept: Kept,
    one: SecretView,
    /// Whom gig asks for it in clear text, in sentences.
    open: Vec<String>,
    /// Requests that carried it, and alarms about it.
    denials: Vec<RecordRow>,
    query: String,
}

/// What was typed into a form that was refused, without any value: it is there again.
#[derive(Debug, Default)]
struct Kept {
    name: String,
    kind: String,
    definition: String,
    days: String,
    grace: String,
    /// Whether there was a value of several lines.
    lines: bool,
}

impl Kept {
    /// Whether it was that kind.
    fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }
}

#[derive(Deserialize)]
pub(crate) struct Added {
    name: String,
    kind: String,
    /// Says more than a kind, where it is not empty.
    #[serde(default)]
    definition: String,
    #[serde(deserialize_with = "crate::password::typed")]
    value: Zeroizing<String>,
    /// The value, where it has several lines.
    #[serde(default, deserialize_with = "crate::password::typed")]
    lines: Zeroizing<String>,
    #[serde(default)]
    days: String,
}

#[derive(Deserialize)]
pub(crate) struct Changed {
    act: String,
    #[serde(default, deserialize_with = "crate::password::typed")]
    value: Zeroizing<String>,
    /// The value, where it has several lines.
    #[serde(default, deserialize_with = "crate::password::typed")]
    lines: Zeroizing<String>,
    #[serde(default)]
    days: String,
    #[serde(default)]
    grace: String,
    #[serde(default)]
    version: Option<u64>,
}

/// `GET /secrets`.
pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    all(&app, &caller, None, Kept::default()).await
}

/// `POST /secrets`.
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(added): Form<Added>,
) -> Answer {
    let name = added.name.trim().to_owned();
    let kept = Kept {
        name: name.clone(),
        kind: added.kind.clone(),
        definition: added.definition.clone(),
        days: added.days.clone(),
        grace: String::new(),
        lines: !added.lines.is_empty(),
    };
    let made = match adding(added) {
        Ok(doing) => change(&app, &caller, name.clone(), doing).await,
        Err(problem) => Err(problem),
    };
    match made {
        Ok(_) => Ok(told(
            Done::SecretKept,
            &format!("/secrets/{}", in_query(&name)),
        )),
        Err(problem) if problem.status().is_client_error() => {
            all(&app, &caller, Some(problem), kept).await
        }
        Err(problem) => Err(problem.into()),
    }
}

/// `GET /secrets/{name}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer {
    page(&app, &caller, &name, None, Kept::default()).await
}

/// `POST /secrets/{name}`: another value, or an end.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    Form(changed): Form<Changed>,
) -> Answer {
    let kept = Kept {
        days: changed.days.clone(),
        grace: changed.grace.clone(),
        ..Kept::default()
    };
    let made = match doing(changed) {
        Ok(doing) => change(&app, &caller, name.clone(), doing).await,
        Err(problem) => Err(problem),
    };
    match made {
        Ok(_) => Ok(told(
            Done::AsAsked,
            &format!("/secrets/{}", in_query(&name)),
        )),
        Err(problem) if problem.status().is_client_error() => {
            page(&app, &caller, &name, Some(problem), kept).await
        }
        Err(problem) => Err(problem.into()),
    }
}

fn adding(added: Added) -> Result<SecretDoing, Problem> {
    let expires = number("days", &added.days)?.map(days);
    let (kind, definition) = match (added.kind.as_str(), added.definition.trim()) {
        (DEFINED, _) => (None, Some(added.definition)),
        (_, "") => (Some(added.kind), None),
        (kind, _) => return Err(twofold(&format!("a definition and the kind {kind}"))),
    };
    let value = one_of(added.value, added.lines)?;
    Ok(SecretDoing::Add {
        value,
        described: described(kind, definition)?,
        expires,
    })
}

/// The value that was typed, on one line or on several.
fn one_of(
    value: Zeroizing<String>,
    lines: Zeroizing<String>,
) -> Result<Zeroizing<String>, Problem> {
    // A line end alone was typed by mistake.
    match (value.is_empty(), lines.trim().is_empty()) {
        (false, false) => Err(twofold("a value and one of several lines")),
        (_, true) => Ok(value),
        // Forms send the line ends of the network; keys and certificates have those of files.
        (true, false) => Ok(Zeroizing::new(lines.replace("\r\n", "\n"))),
    }
}

fn twofold(what: &str) -> Problem {
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "secret",
        format!("{what} are given: leave one of them out"),
    )
}

fn doing(changed: Changed) -> Result<SecretDoing, Problem> {
    match changed.act.as_str() {
        "rotate" => Ok(SecretDoing::Rotate {
            value: one_of(changed.value, changed.lines)?,
            expires: number("days", &changed.days)?.map(days),
            grace: number("hours", &changed.grace)?
                .map(hours)
                .unwrap_or_default(),
        }),
        "remove" => Ok(SecretDoing::Remove {
            version: changed.version,
        }),
        _ => Err(Problem::invalid("rotate or remove")),
    }
}

fn number(what: &str, text: &str) -> Result<Option<u16>, Problem> {
    match text.trim() {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| Problem::invalid(format!("{what} are a number"))),
    }
}

async fn all(app: &App, caller: &Caller, problem: Option<Problem>, kept: Kept) -> Answer {
    let status = AnswerStatus::beside(problem.as_ref());
    let page = SecretsPage {
        frame: Frame::new(caller, "/secrets"),
        problem: problem.map(|problem| problem.detail).unwrap_or_default(),
        kept,
        secrets: views(app, caller).await?,
    };
    Ok(shown_as(status, &page))
}

async fn page(
    app: &Arc<App>,
    caller: &Caller,
    name: &str,
    problem: Option<Problem>,
    kept: Kept,
) -> Result<Response, PageProblem> {
    let one = view(app, caller, name).await?;
    let denials = match caller.may(Permission::ReadAudit) {
        true => {
            let asked = AuditAsked {
                secret: name.to_owned(),
                limit: Some(USES),
                ..AuditAsked::default()
            };
            rows_of_all(app, caller, &find(app, caller, &asked).await?.records).await?
        }
        false => Vec::new(),
    };
    let status = AnswerStatus::beside(problem.as_ref());
    let page = SecretPage {
        open: in_clear_text(&one.services),
        frame: Frame::new(caller, "/secrets"),
        problem: problem.map(|problem| problem.detail).unwrap_or_default(),
        kept,
        query: format!("secret={}", in_query(name)),
        one,
        denials,
    };
    Ok(shown_as(status, &page))
}

/// What the form says instead of a kind.
const DEFINED: &str = "defined";
/// As many as are read at a glance.
const USES: usize = 20;
