//! The record, searched.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, http::StatusCode};
use gig_policy::DenyReason;

use super::{
    Answer, Done, Form, Frame, InAddress, PageProblem, Path, in_query,
    records::{RecordRow, rows_of_all},
    shown_as, told,
};
use crate::{
    api::{
        audit::{self, AuditAsked},
        searches::{self, NewSearch, SearchView},
    },
    api_error::AnswerStatus,
    app::App,
    auth::Caller,
    role::Permission,
};

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    asked: AuditAsked,
    verdicts: [(&'static str, &'static str); 4],
    events: Vec<&'static str>,
    reasons: Vec<&'static str>,
    problem: String,
    denials: Vec<RecordRow>,
    /// The query of the next page.
    older: String,
    /// The same without a place to begin, for what is exported.
    these: String,
    /// The same without when it begins and ends.
    whenever: String,
    spans: [(&'static str, &'static str); 3],
    /// Which there are, for who types.
    servers: Vec<String>,
    policies: Vec<String>,
    exports: [(&'static str, &'static str); 3],
    /// Searches that are kept.
    saved: Vec<SearchView>,
}

impl AuditPage {
    /// Whether this caller may remove it.
    fn is_theirs(&self, saved: &SearchView) -> bool {
        saved.author == *self.frame.name || self.frame.may_people()
    }

    /// Whether something is asked that stands behind the first fields.
    fn asks_more(&self) -> bool {
        let asked = &self.asked;
        let all = [
            &asked.alarm,
            &asked.reason,
            &asked.profile,
            &asked.node,
            &asked.policy,
            &asked.rule,
            &asked.sandbox,
            &asked.secret,
            &asked.method,
            &asked.status,
            &asked.request,
            &asked.conn,
            &asked.src,
            &asked.until,
        ];
        all.iter().any(|one| !one.is_empty())
    }

    /// Whether an option is the one that was asked for.
    fn is(&self, asked: &str, value: &str) -> bool {
        asked == value
    }
}

/// `GET /audit`.
pub(crate) async fn search(
    State(app): State<Arc<App>>,
    caller: Caller,
    asked: Result<InAddress<AuditAsked>, PageProblem>,
) -> Answer {
    caller.require(Permission::ReadAudit)?;
    // What is wrong with a search is told beside the form that mends it.
    let (asked, found) = match asked {
        Ok(InAddress(asked)) => {
            let found = audit::find(&app, &caller, &asked).await;
            (asked, found)
        }
        Err(PageProblem(problem)) => (AuditAsked::default(), Err(problem)),
    };
    let (records, next, status, problem) = match found {
        Ok(page) => (page.records, page.next, AnswerStatus::OK, String::new()),
        Err(problem) if problem.status() == StatusCode::BAD_REQUEST => {
            (Vec::new(), None, problem.answer_status(), problem.detail)
        }
        Err(problem) => return Err(problem.into()),
    };
    let these = query(&asked, "");
    let whenever = AuditAsked {
        since: String::new(),
        until: String::new(),
        ..asked.clone()
    };
    let known = app.ask(|store| Ok((store.servers()?, store.policies()?)));
    let (servers, policies) = known.await?;
    let servers = servers.into_iter().map(|one| one.name);
    let older = next.map(|next| query(&asked, &next.to_string()));
    let reasons = DenyReason::ALL.iter().map(|reason| reason.as_str());
    let page = AuditPage {
        frame: Frame::new(&caller, "/audit"),
        asked,
        verdicts: VERDICTS,
        events: std::iter::once("").chain(audit::asked_events()).collect(),
        reasons: std::iter::once("").chain(reasons).collect(),
        problem,
        denials: rows_of_all(&app, &caller, &records).await?,
        older: older.unwrap_or_default(),
        these,
        whenever: query(&whenever, ""),
        spans: SPANS,
        servers: servers.filter(|name| caller.reaches(name)).collect(),
        policies: policies.into_iter().map(|one| one.name).collect(),
        exports: EXPORTS,
        saved: searches::kept(&app).await?,
    };
    Ok(shown_as(status, &page))
}

/// `POST /searches`: then what was kept is shown.
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(new): Form<NewSearch>,
) -> Answer {
    let made = searches::save(&app, &caller, &new).await?;
    Ok(told(Done::SearchKept, &format!("/audit?{}", made.query)))
}

/// `POST /searches/{id}/remove`.
pub(crate) async fn forget(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    searches::forget(&app, &caller, id).await?;
    Ok(told(Done::Removed, "/audit"))
}

/// What was asked, from another place on.
pub(crate) fn query(asked: &AuditAsked, cursor: &str) -> String {
    let fields = [
        ("since", asked.since.as_str()),
        ("until", &asked.until),
        ("event", &asked.event),
        ("verdict", &asked.verdict),
        ("reason", &asked.reason),
        ("rule", &asked.rule),
        ("sandbox", &asked.sandbox),
        ("server", &asked.server),
        ("profile", &asked.profile),
        ("node", &asked.node),
        ("policy", &asked.policy),
        ("host", &asked.host),
        ("method", &asked.method),
        ("status", &asked.status),
        ("alarm", &asked.alarm),
        ("secret", &asked.secret),
        ("request", &asked.request),
        ("conn", &asked.conn),
        ("src", &asked.src),
        ("text", &asked.text),
        ("cursor", cursor),
    ];
    let set = fields.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs = set.map(|(name, value)| format!("{name}={}", in_query(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// What is asked for, and the words.
pub(super) const VERDICTS: [(&str, &str); 4] = [
    ("", "any"),
    ("allow", "allowed"),
    ("deny", "denied"),
    ("would_deny", "would be denied"),
];
/// Since when, and the words.
const SPANS: [(&str, &str); 3] = [("1h", "Last hour"), ("24h", "24 hours"), ("7d", "7 days")];
const EXPORTS: [(&str, &str); 3] = [("jsonl", "JSON lines"), ("csv", "CSV"), ("ocsf", "OCSF")];
