//! What servers printed, searched. The text is a program's own: a client that shows it escapes it.
#![expect(unused_qualifications, reason = "what utoipa makes of `params(…)`")]

use std::sync::Arc;

use axum::{Json, extract::State, http::HeaderMap};
use gig_audit::search::moment;
use gig_policy::SandboxId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Asked, Path, audit::at, time, within};
use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    control::{LogFrom, LogLine, LogPage, LogPlace, ParseLogPlaceError},
    profile::Sight,
    relay::{self, LinesWanted},
    role::Permission,
    store::Name,
};

/// What to find.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinesAsked {
    /// Not before: a time of RFC 3339, a day, or a span before now (`30m`, `12h`, `7d`); UTC.
    #[serde(default)]
    pub(crate) since: String,
    /// Before: the same; of a day its end.
    #[serde(default)]
    pub(crate) until: String,
    /// A sandbox, by its whole id.
    #[serde(default)]
    pub(crate) sandbox: String,
    /// What a line holds, up to 1000 characters, whatever the case of its ASCII letters.
    #[serde(default)]
    pub(crate) grep: String,
    /// What `next` said; without it from the oldest line.
    #[serde(default)]
    pub(crate) after: String,
    /// The node whose lines are read: each keeps what its own sandboxes print. Without it the one that answers.
    #[serde(default)]
    pub(crate) node: String,
    /// Most lines to answer: 200 unless said, 1000 at most.
    #[param(minimum = 1, maximum = 1000, default = 200)]
    #[serde(default)]
    pub(crate) limit: Option<usize>,
}

/// A page of lines, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lines {
    pub(crate) lines: Vec<Line>,
    /// For `after`: what comes next, also when it is not there yet.
    pub(crate) next: String,
    /// Whether more is there already.
    pub(crate) more: bool,
    /// The node whose lines these are: each keeps what its own sandboxes print.
    pub(crate) node: String,
    /// Other nodes, which may have run this server, too: each is asked by `node`.
    pub(crate) elsewhere: Vec<String>,
}

/// A line.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Line {
    pub(crate) time: String,
    pub(crate) sandbox: String,
    /// `stderr`, or `output` for both streams together.
    pub(crate) stream: &'static str,
    /// As it was printed; octets that are no UTF-8 are replaced.
    pub(crate) text: String,
}

impl Line {
    /// Its time as people read it, to the millisecond; which zone it is of a heading says.
    pub(crate) fn clock(&self) -> String {
        self.time.replace('T', " ").replace('Z', "")
    }

    /// Enough of its sandbox to tell it from others: the end of the id, the beginning is a time.
    pub(crate) fn short_sandbox(&self) -> &str {
        let from = self.sandbox.len().saturating_sub(8);
        self.sandbox.get(from..).unwrap_or_default()
    }
}

impl From<LogLine> for Line {
    fn from(line: LogLine) -> Self {
        Self {
            time: time(line.time),
            sandbox: line.sandbox.to_string(),
            stream: line.stream.as_str(),
            text: line.text,
        }
    }
}

impl Lines {
    fn of(page: LogPage, (node, elsewhere): (String, Vec<String>)) -> Self {
        Self {
            lines: page.lines.into_iter().map(Into::into).collect(),
            next: page.next.to_string(),
            more: page.more,
            node,
            elsewhere,
        }
    }
}

/// What a server's sandboxes printed, kept for some days: everybody's for who oversees, else the caller's own. Each node
/// keeps and searches what ran there: `elsewhere` names the others, and any node reads another's, named by `node`. A
/// cursor is good at the node that gave it alone.
#[utoipa::path(get, path = "/api/v1/servers/{name}/log", tag = "servers", params(LinesAsked,
    ("Gig-Profile" = Option<String>, Header, description = "only what ran for them, where a token acts for others: \
        its scopes name `profiles:act`")),
    responses((status = 200, body = Lines), (status = 400, body = Problem),
              (status = 404, description = "no such server or node", body = Problem),
              (status = 504, description = "the node does not answer", body = Problem)))]
pub(crate) async fn search(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    Asked(asked): Asked<LinesAsked>,
) -> Result<Json<Lines>, Problem> {
    let sight = Sight::of(&app, &caller, &headers).await?;
    let from = match asked.after.trim() {
        "" => LogFrom::Oldest,
        after => LogFrom::After(place(after)?),
    };
    let found = find(&app, &caller, (name, from), &asked, &sight).await?;
    Ok(Json(found))
}

/// Finds lines; the console does the same. A server that is forgotten may still have some.
pub(crate) async fn find(
    app: &Arc<App>,
    caller: &Caller,
    (name, from): (String, LogFrom),
    asked: &LinesAsked,
    sight: &Sight,
) -> Result<Lines, Problem> {
    caller.require(Permission::ReadAudit)?;
    // A name that is one leads nowhere else.
    let name: Name = name.parse()?;
    if !caller.reaches(name.as_str()) {
        app.tell_hidden(caller, "GET /api/v1/servers/{name}/log");
        return Err(Problem::missing("server", name.as_str()));
    }
    let wanted = LinesWanted {
        server: name.to_string(),
        sandbox: sandbox(&asked.sandbox)?,
        profile: sight.profile().map(ToOwned::to_owned),
        since: parsed(at(&asked.since, moment::since, app.now())?)?,
        until: parsed(at(&asked.until, moment::until, app.now())?)?,
        grep: words(&asked.grep)?,
        from,
        limit: within(asked.limit, (USUAL, MOST))?,
    };
    let node = match asked.node.trim() {
        "" => app.node.clone(),
        node => node.to_owned(),
    };
    let mut nodes = relay::others(app).await?;
    let page = relay::lines(app, (&node, &nodes), wanted).await?;
    nodes.push(app.node.clone());
    nodes.retain(|one| *one != node);
    nodes.sort();
    Ok(Lines::of(page, (node, nodes)))
}

fn place(text: &str) -> Result<LogPlace, Problem> {
    text.parse()
        .map_err(|error: ParseLogPlaceError| Problem::invalid(error.to_string()))
}

fn words(text: &str) -> Result<Option<String>, Problem> {
    if text.chars().count() > LONGEST_WORDS {
        let words = format!("what a line holds has at most {LONGEST_WORDS} characters");
        return Err(Problem::invalid(words));
    }
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

fn sandbox(text: &str) -> Result<Option<SandboxId>, Problem> {
    match text.trim() {
        "" => Ok(None),
        text => {
            let id = text.parse::<uuid::Uuid>();
            let id = id.map_err(|_| Problem::invalid(format!("{text:?} is no sandbox's id")))?;
            Ok(Some(SandboxId::new(id)))
        }
    }
}

fn parsed(spelt: Option<String>) -> Result<Option<Timestamp>, Problem> {
    let at = spelt.map(|spelt| spelt.parse());
    at.transpose()
        .map_err(|error: jiff::Error| Problem::internal(error))
}

const USUAL: usize = 200;
const MOST: usize = 1000;
/// Each line that is searched is compared with it.
const LONGEST_WORDS: usize = 1000;
