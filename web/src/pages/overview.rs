//! The first page: what was decided, what was denied last, whether every part works.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use askama::Template;
use axum::extract::State;

use super::{
    Answer, Frame,
    chart::Chart,
    in_query,
    record::offers,
    records::{LONGEST_HOST, RecordRow, cut_host, rows},
    scripted, shown,
};
use crate::{
    api::audit::{AuditAsked, TRAFFIC, id},
    api_error::Problem,
    app::App,
    auth::Caller,
    control::Health,
    lately::{Destination, Hour, Lately, lately},
    profile::Sight,
    role::Permission,
    waiting::{Waiting, waiting},
};

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    decisions: Hour,
    /// Of when those are.
    span: &'static str,
    /// The same for a search; empty: from the beginning.
    since: String,
    alarms: u64,
    running: usize,
    servers: usize,
    /// Whether any policy is in force for anybody.
    assigned: bool,
    policies: usize,
    waiting: usize,
    denials: Vec<RecordRow>,
    /// What was denied in the last day and still would be.
    wanted: Vec<Wanted>,
    /// Further ones, which are not listed.
    more_wanted: usize,
    /// What of it may be missing.
    wanted_notes: Vec<String>,
    health: Vec<Health>,
    /// Of the last day; for who reads the record.
    chart: Option<Chart>,
    lately: Arc<Lately>,
}

impl OverviewPage {
    fn query(&self, one: &Destination) -> String {
        in_query(&one.host)
    }

    /// Cut: hosts are the sandbox's own words.
    fn short(&self, one: &Destination) -> String {
        cut_host(&one.host, LONGEST_HOST)
    }
}

/// A destination that waits for somebody.
struct Wanted {
    record: RecordRow,
    policy: String,
    /// As a value of a query.
    host: String,
    count: u64,
    /// Rules that would let it pass: where to click, and the words.
    offers: Vec<(String, &'static str)>,
}

impl Wanted {
    fn of(caller: &Caller, one: &Waiting) -> Self {
        Self {
            record: RecordRow::of(caller, &one.newest),
            policy: one.policy.clone(),
            host: in_query(one.newest.row.host.as_deref().unwrap_or_default()),
            count: one.count,
            offers: offers(caller, &one.newest.row, (&id(&one.newest), &one.remedy)),
        }
    }
}

/// `GET /`.
pub(crate) async fn show(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    caller.require(Permission::Look)?;
    let denials = if caller.may(Permission::ReadAudit) {
        let asked = AuditAsked {
            verdict: "deny".to_owned(),
            // What the console refused to somebody, they could fill this with.
            event: TRAFFIC.to_owned(),
            limit: Some(LATEST),
            ..AuditAsked::default()
        };
        rows(&caller, &app.search(asked.query(app.now())?).await?.records)
    } else {
        Vec::new()
    };
    let (wanted, more_wanted, wanted_notes) = wanted(&app, &caller).await?;
    let lately = read_lately(&app, &caller).await?;
    // The chart's own numbers where there is one: what is shown twice is counted once.
    let (decisions, span) = match &lately {
        Some(lately) => (lately.decisions(), "in the last 24 hours"),
        None => (app.traffic.decisions(), "since start"),
    };
    let health = app.health().await;
    let sandboxes = app.control.sandboxes();
    let (servers, assigned, policies) = app
        .ask(|store| {
            let assigned = !store.assignments()?.is_empty();
            Ok((store.servers()?.len(), assigned, store.policies()?.len()))
        })
        .await?;
    let page = OverviewPage {
        frame: Frame::new(&caller, "/"),
        decisions,
        span,
        // From the first hour that is counted, which began before this time yesterday or behind it.
        since: lately
            .as_ref()
            .and_then(|lately| lately.hours.first())
            .map(|first| format!("&since={}:00Z", first.begins.replace(' ', "T")))
            .unwrap_or_default(),
        alarms: app.traffic.alarms.load(Relaxed),
        running: sandboxes.iter().filter(|one| one.ended.is_none()).count(),
        servers,
        assigned,
        policies,
        waiting: super::approvals::waiting(&app, &caller).await?,
        denials,
        wanted,
        more_wanted,
        wanted_notes,
        health,
        chart: lately.as_deref().map(Chart::of),
        lately: lately.unwrap_or_default(),
    };
    Ok(scripted(shown(&page)))
}

async fn read_lately(app: &Arc<App>, caller: &Caller) -> Result<Option<Arc<Lately>>, Problem> {
    if !caller.may(Permission::ReadAudit) {
        return Ok(None);
    }
    let theirs = Arc::clone(app);
    let read = tokio::task::spawn_blocking(move || lately(&theirs)).await;
    read.map_err(Problem::internal)?.map(Some)
}

/// What waits, how much more of it there is, and what may be missing.
async fn wanted(
    app: &Arc<App>,
    caller: &Caller,
) -> Result<(Vec<Wanted>, usize, Vec<String>), Problem> {
    if !caller.may(Permission::ReadAudit) {
        return Ok((Vec::new(), 0, Vec::new()));
    }
    let theirs = Arc::clone(app);
    let (who, sight) = (caller.clone(), Sight::deciding(caller));
    let found = app.aside(move || {
        let sees = |server: &str, profile: &str| who.reaches(server) && sight.takes_in(profile);
        waiting(&theirs, sees)
    });
    let found = found.await??;
    let listed = found.waiting.iter();
    let listed = listed.map(|one| Wanted::of(caller, one)).collect();
    Ok((listed, found.more, found.notes()))
}

const LATEST: usize = 10;
