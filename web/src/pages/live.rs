//! Live traffic: the newest records, and with a script each further one as it is written.
//!
//! With a script of our own; the editor's is the other. Without it the page is read as it is and loaded again.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, http::HeaderMap, response::Response};
use gig_audit::search::Found;
use serde::Serialize;

use super::{
    Answer, Frame, InAddress, PageProblem,
    audit::query,
    records::{RecordRow, rows_of_all},
    scripted, shown_as,
};
use crate::{
    api::{
        Asked,
        audit::{self, AuditAsked},
        events,
    },
    api_error::{AnswerStatus, Problem},
    app::App,
    auth::Caller,
    role::Permission,
    visible::visible,
};

#[derive(Template)]
#[template(path = "live.html")]
struct LivePage {
    frame: Frame,
    asked: AuditAsked,
    verdicts: [(&'static str, &'static str); 4],
    problem: String,
    denials: Vec<RecordRow>,
    /// Where the script goes on: the query with its cursor.
    from: String,
}

impl LivePage {
    fn is(&self, asked: &str, value: &str) -> bool {
        asked == value
    }
}

/// A record as the script puts it into the table: text, never markup.
#[derive(Serialize)]
struct LiveRow<'a> {
    id: &'a str,
    time: &'a str,
    event: &'a str,
    verdict: &'a str,
    words: &'a str,
    place: String,
    lookalike: &'a str,
    why: String,
    rule: &'a str,
    who: String,
    sandbox: &'a str,
}

/// `GET /live`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    asked: Result<InAddress<AuditAsked>, PageProblem>,
) -> Answer {
    caller.require(Permission::ReadAudit)?;
    // Before the search: what comes between the two is told, and known by its id.
    let end = app.record_end().await?;
    // As of a search: what is wrong is told beside the form that mends it.
    let (asked, found) = match asked {
        Ok(InAddress(mut asked)) => {
            (asked.limit, asked.cursor) = (Some(SHOWN), String::new());
            let found = audit::find(&app, &caller, &asked).await;
            (asked, found)
        }
        Err(PageProblem(problem)) => (AuditAsked::default(), Err(problem)),
    };
    let (records, status, problem) = match found {
        Ok(page) => (page.records, AnswerStatus::OK, String::new()),
        Err(problem) if problem.status().is_client_error() => {
            (Vec::new(), problem.answer_status(), problem.detail)
        }
        Err(problem) => return Err(problem.into()),
    };
    let page = LivePage {
        frame: Frame::new(&caller, "/live"),
        verdicts: super::audit::VERDICTS,
        from: query(&asked, &end.to_string()),
        denials: rows_of_all(&app, &caller, &records).await?,
        problem,
        asked,
    };
    Ok(scripted(shown_as(status, &page)))
}

/// `GET /live/events`: for the script.
pub(crate) async fn follow(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Asked(asked): Asked<AuditAsked>,
) -> Result<Response, Problem> {
    let told = events::told(&app, &caller, (&headers, &asked)).await?;
    Ok(events::sent(told, move |found| line(&caller, found)))
}

fn line(caller: &Caller, found: &Found) -> String {
    let row = RecordRow::of(caller, found);
    let line = LiveRow {
        id: &row.id,
        time: &row.time,
        event: &row.event,
        verdict: &row.verdict,
        words: row.verdict_words,
        place: visible(row.place),
        lookalike: &row.lookalike,
        why: visible(row.why),
        rule: &row.rule,
        who: visible(row.who),
        sandbox: &row.sandbox,
    };
    // Texts alone: they serialise.
    serde_json::to_string(&line).unwrap_or_default()
}

/// `GET /live.js`.
pub(crate) async fn script() -> Response {
    super::script(include_str!("../../assets/live.js"))
}

/// As many as fit a screen or two.
const SHOWN: usize = 50;
