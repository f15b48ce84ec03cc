//! The record, searched: the filters of `gig audit search`, a page at a time, newest first.
#![expect(unused_qualifications, reason = "what utoipa makes of `params(…)`")]

use std::sync::Arc;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use gig_audit::{
    Event,
    search::{
        Filter, Found, Marks, Page, Position, Query,
        moment::{self, ParseMomentError},
    },
};
use gig_policy::DenyReason;
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::{
    IntoParams,
    openapi::schema::{Object, ObjectBuilder, Type},
};

use super::{Asked, Path, within};
use crate::{api_error::Problem, app::App, auth::Caller, role::Permission};

/// In place of an event: what programs asked for.
pub(crate) const TRAFFIC: &str = "traffic";
const OF_TRAFFIC: [Event; 3] = [Event::Dns, Event::Connect, Event::Request];

/// What to find.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditAsked {
    /// Not before: a time of RFC 3339, a day, or a span before now (`30m`, `12h`, `7d`); UTC.
    #[serde(default)]
    pub(crate) since: String,
    /// Before: the same; of a day its end.
    #[serde(default)]
    pub(crate) until: String,
    /// `connect`, `request`, `policy.change` …; `traffic` is what programs asked for: names, connections and requests, and
    /// of `verdict=deny` what was let and refused behind that.
    #[serde(default)]
    #[param(schema_with = events)]
    pub(crate) event: String,
    /// `allow`, `deny`, `would_deny`.
    #[serde(default)]
    #[param(schema_with = verdicts)]
    pub(crate) verdict: String,
    /// `host_not_allowed` …
    #[serde(default)]
    #[param(schema_with = reasons)]
    pub(crate) reason: String,
    /// The rule that matched or came nearest.
    #[serde(default)]
    pub(crate) rule: String,
    /// A sandbox, by its whole id.
    #[serde(default)]
    pub(crate) sandbox: String,
    /// A registered server.
    #[serde(default)]
    pub(crate) server: String,
    /// A user or profile.
    #[serde(default)]
    pub(crate) profile: String,
    /// A node, by its name.
    #[serde(default)]
    pub(crate) node: String,
    /// A policy.
    #[serde(default)]
    pub(crate) policy: String,
    /// A host, or `*.example.com` for all below.
    #[serde(default)]
    pub(crate) host: String,
    /// A method.
    #[serde(default)]
    pub(crate) method: String,
    /// `true`: alarms alone, which people are called for: a misused secret, a changed namespace, a gap in the record.
    #[serde(default)]
    #[param(schema_with = yes)]
    pub(crate) alarm: String,
    /// `403`, `4xx`.
    #[serde(default)]
    #[param(
        pattern = "^([1-5]xx|[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]|0)?$"
    )]
    pub(crate) status: String,
    /// A secret's name.
    #[serde(default)]
    pub(crate) secret: String,
    /// A request.
    #[serde(default)]
    pub(crate) request: String,
    /// A connection: a number, of one sandbox.
    #[serde(default)]
    pub(crate) conn: String,
    /// An address that something came from, without its port.
    #[serde(default)]
    pub(crate) src: String,
    /// Words that must all be there: of texts, ids of requests and sandboxes, addresses that something came from.
    #[serde(default)]
    pub(crate) text: String,
    /// Where the page before ended.
    #[serde(default, deserialize_with = "super::paging::given")]
    #[param(min_length = 1)]
    pub(crate) cursor: String,
    /// Most to answer: 50 unless said, 500 at most.
    #[param(minimum = 1, maximum = 500, default = 50)]
    #[serde(default)]
    pub(crate) limit: Option<usize>,
}

impl AuditAsked {
    /// As the record is searched; spans are before `now`.
    pub(crate) fn query(&self, now: Timestamp) -> Result<Query, Problem> {
        let one = |text: &String| match text.trim() {
            "" => Vec::new(),
            text => vec![text.to_owned()],
        };
        let before: Option<Marks> = match self.cursor.trim() {
            "" => None,
            cursor => Some(cursor.parse().map_err(
                |error: gig_audit::search::ParseMarksError| Problem::invalid(error.to_string()),
            )?),
        };
        let since = at(&self.since, moment::since, now)?;
        let until = at(&self.until, moment::until, now)?;
        if since
            .as_ref()
            .zip(until.as_ref())
            .is_some_and(|(since, until)| since >= until)
        {
            return Err(Problem::invalid(
                "`since` is not before `until`: no time is between them",
            ));
        }
        let verdict = chosen("verdict", &self.verdict, &VERDICTS)?;
        Ok(Query {
            filter: Filter {
                since,
                until,
                event: match self.event.trim() {
                    TRAFFIC => traffic(&verdict),
                    event => chosen("event", event, &all_events())?,
                },
                verdict,
                reason: chosen("reason", &self.reason, &all_reasons())?,
                rule: one(&self.rule),
                sandbox: one(&self.sandbox),
                server: one(&self.server),
                profile: one(&self.profile),
                node: one(&self.node),
                policy: one(&self.policy),
                host: host(&self.host)?,
                method: one(&self.method.to_ascii_uppercase()),
                status: status(&self.status)?,
                alarm: !chosen("alarm", &self.alarm, &YES)?.is_empty(),
                secret: one(&self.secret),
                request: one(&self.request),
                conn: one(&self.conn),
                src: source(&self.src)?,
                text: words(&self.text)?,
            },
            before,
            limit: within(self.limit, (USUAL, MOST))?,
        })
    }
}

/// The events of traffic: decisions. What was let and refused behind that, as for its address, is in its outcome alone,
/// and what is denied would lack it; other outcomes say a decision's word again.
fn traffic(verdict: &[String]) -> Vec<String> {
    let outcomes = (verdict == ["deny"]).then_some(Event::Response);
    let events = OF_TRAFFIC.into_iter().chain(outcomes);
    events.map(|event| event.to_string()).collect()
}

/// One of a closed list, or nothing: a word that no record can have would find nothing, as if there were nothing.
fn chosen(what: &str, text: &str, all: &[&'static str]) -> Result<Vec<String>, Problem> {
    let text = text.trim();
    if text.is_empty() || all.contains(&text) {
        return Ok(Some(text.to_owned())
            .filter(|text| !text.is_empty())
            .into_iter()
            .collect());
    }
    Err(Problem::invalid(format!(
        "there is no {what} of this name: it is one of {}",
        all.join(", ")
    )))
}

fn host(text: &str) -> Result<Vec<String>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let host = gig_audit::search::filter::host(text).map_err(Problem::invalid)?;
    Ok(vec![host])
}

fn source(text: &str) -> Result<Vec<String>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let source = gig_audit::search::filter::source(text).map_err(Problem::invalid)?;
    Ok(vec![source])
}

/// Signs alone would find everything.
fn words(text: &str) -> Result<Vec<String>, Problem> {
    let text = text.trim();
    if !text.is_empty() && !text.chars().any(char::is_alphanumeric) {
        return Err(Problem::invalid("words have letters or digits"));
    }
    let given = Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok(given.into_iter().collect())
}

fn status(text: &str) -> Result<Vec<String>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let found = gig_audit::search::filter::status(text);
    let found = found.ok_or_else(|| Problem::invalid(NO_STATUS))?;
    Ok(vec![found])
}

fn one_of(all: &[&'static str]) -> Object {
    // An empty field is none, as forms send it.
    let all = all.iter().copied().chain([""]);
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(all))
        .build()
}

fn events() -> Object {
    one_of(&asked_events())
}

fn verdicts() -> Object {
    one_of(&VERDICTS)
}

fn reasons() -> Object {
    one_of(&all_reasons())
}

fn yes() -> Object {
    one_of(&YES)
}

/// What an event may be asked for by: all of traffic first.
pub(crate) fn asked_events() -> Vec<&'static str> {
    std::iter::once(TRAFFIC).chain(all_events()).collect()
}

/// As the record has them.
pub(crate) fn all_events() -> Vec<&'static str> {
    Event::ALL.iter().map(|one| one.as_str()).collect()
}

fn all_reasons() -> Vec<&'static str> {
    DenyReason::ALL.iter().map(|one| one.as_str()).collect()
}

/// A moment as records spell it; none where nothing is said.
pub(super) fn at(
    text: &str,
    read: fn(&str, Timestamp) -> Result<String, ParseMomentError>,
    now: Timestamp,
) -> Result<Option<String>, Problem> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let spelt = read(text, now).map_err(|error| Problem::invalid(error.to_string()))?;
    Ok(Some(spelt))
}

/// Records, newest first.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(AuditAsked),
    responses((status = 200, description = "`records` as they were written, and `next` for the next page",
               body = serde_json::Value),
              (status = 400, body = Problem)))]
pub(crate) async fn search(
    State(app): State<Arc<App>>,
    caller: Caller,
    Asked(asked): Asked<AuditAsked>,
) -> Result<Response, Problem> {
    let page = find(&app, &caller, &asked).await?;
    let records: Vec<String> = page.records.iter().map(with_id).collect();
    let next = page.next.map(|next| next.to_string());
    let next = serde_json::to_string(&next).map_err(Problem::internal)?;
    let text = format!("{{\"records\":[{}],\"next\":{next}}}", records.join(","));
    Ok(json(text))
}

/// One record, as it was written.
#[utoipa::path(get, path = "/api/v1/audit/{id}", tag = "audit",
    responses((status = 200, description = "the record", body = serde_json::Value), (status = 404, body = Problem)))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let found = record(&app, &caller, &id).await?;
    Ok(json(with_id(&found)))
}

/// A page; the console asks the same.
pub(crate) async fn find(
    app: &Arc<App>,
    caller: &Caller,
    asked: &AuditAsked,
) -> Result<Page, Problem> {
    caller.require(Permission::ReadAudit)?;
    app.search(asked.query(app.now())?).await
}

/// Where the record `CHAIN-SEQ` stands.
pub(crate) fn place(id: &str) -> Option<Position> {
    let (chain, seq) = id.split_once('-')?;
    Some(Position {
        chain: chain.parse().ok()?,
        seq: seq.parse().ok()?,
    })
}

/// The record `CHAIN-SEQ`.
pub(crate) async fn record(app: &Arc<App>, caller: &Caller, id: &str) -> Result<Found, Problem> {
    caller.require(Permission::ReadAudit)?;
    found(app, id).await
}

/// The same for who was told of this one, and reads no other.
pub(crate) async fn found(app: &Arc<App>, id: &str) -> Result<Found, Problem> {
    let missing = || Problem::missing("record", id);
    let parsed = place(id).and_then(|at| Some((at.chain, at.seq.checked_add(1)?)));
    let (chain, after) = parsed.ok_or_else(missing)?;
    let newest_before = async |end: u64| {
        let before: Marks = format!("{chain}:{end}").parse().map_err(|_| missing())?;
        let query = Query {
            filter: Filter::default(),
            before: Some(before),
            limit: 1,
        };
        let found = app.search(query).await?.records.into_iter().next();
        Ok::<_, Problem>(found.filter(|found| found.at.chain == chain))
    };
    let found = newest_before(after).await?;
    if let Some(found) = found.filter(|found| found.at.seq + 1 == after) {
        return Ok(found);
    }
    // A chain has every number up to its end: one that is not there was taken away.
    let newest = newest_before(BEHIND_ALL).await?;
    Err(match newest.is_some_and(|newest| newest.at.seq >= after) {
        true => Problem::removed(id),
        false => missing(),
    })
}

/// By which a record is asked for.
pub(crate) fn id(found: &Found) -> String {
    written(found.at)
}

/// A place as people write it.
pub(crate) fn written(at: Position) -> String {
    format!("{}-{}", at.chain, at.seq)
}

/// The line as it was written, with its id put first.
pub(crate) fn with_id(found: &Found) -> String {
    let rest = found.line.strip_prefix('{').unwrap_or_default();
    format!("{{\"id\":\"{}\",{rest}", id(found))
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// No chain is as long.
const BEHIND_ALL: u64 = (1 << 40) - 1;
/// Records of one page.
pub(crate) const MOST: usize = 500;
const USUAL: usize = 50;
const YES: [&str; 1] = ["true"];
const VERDICTS: [&str; 3] = ["allow", "deny", "would_deny"];
const NO_STATUS: &str = "a status is a number or a class: 403, 4xx";
