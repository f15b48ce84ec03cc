//! Figures for Prometheus: the text format (version 0.0.4), written by hand for some families.
//!
//! Names, labels and their values are gig's own words, of closed vocabularies: nothing that a sandbox chooses is in
//! there, and nothing needs to be escaped. What cannot be read in time is left out.

use std::{
    fmt::{Display, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use crate::{api::nodes, api_error::Problem, app::App, auth::Caller, role::Permission};

/// What the appliance itself counts.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    answers: [AtomicU64; 6],
    refused: AtomicU64,
}

impl Figures {
    /// An answer was given.
    pub(crate) fn answered(&self, status: u16) {
        if let Some(class) = self.answers.get(usize::from(status / 100)) {
            class.fetch_add(1, Relaxed);
        }
    }

    /// A password or token was wrong.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }
}

/// `GET /metrics`.
pub(crate) async fn show(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, Problem> {
    caller.require(Permission::Look)?;
    let plain = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    let unindexed = tokio::time::timeout(PATIENCE, app.unindexed()).await;
    let unindexed = unindexed.ok().and_then(Result::ok);
    let mut text = Exposition::default();
    decisions(&app, &mut text);
    record(&app, &mut text);
    if let Some((records, _)) = unindexed {
        let help = "Records that a search reads line by line still.";
        text.one(("gig_record_unindexed", "gauge"), help, records);
    }
    doors(&app, &mut text);
    nodes(&app, &caller, &mut text).await;
    machine(&app, &mut text).await;
    Ok((plain, text.0).into_response())
}

/// The text, family by family.
#[derive(Debug, Default)]
struct Exposition(String);

impl Exposition {
    /// A family whose values have a label each.
    fn family<V: Display>(
        &mut self,
        (name, kind): (&str, &str),
        help: &str,
        values: impl IntoIterator<Item = (String, V)>,
    ) {
        // Writing to a string does not fail.
        let _infallible = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in values {
            let _infallible = writeln!(self.0, "{name}{labels} {value}");
        }
    }

    /// A family of one value.
    fn one(&mut self, family: (&str, &str), help: &str, value: impl Display) {
        self.family(family, help, [(String::new(), value)]);
    }
}

fn label(name: &str, value: &str) -> String {
    format!("{{{name}=\"{value}\"}}")
}

/// What sandboxes asked for.
fn decisions(app: &App, text: &mut Exposition) {
    let traffic = &app.traffic;
    let verdict = |word: &str, count: &AtomicU64| (label("verdict", word), count.load(Relaxed));
    text.family(
        ("gig_decisions_total", "counter"),
        "Decisions on names, connections and requests since the start, and what was refused after it was let.",
        [
            verdict("allow", &traffic.allowed),
            verdict("deny", &traffic.denied),
            verdict("would_deny", &traffic.would_deny),
        ],
    );
    let reasons = traffic.denials();
    text.family(
        ("gig_denials_total", "counter"),
        "Denials recorded since the start, by reason.",
        reasons.map(|(reason, count)| (label("reason", reason.as_str()), count)),
    );
    let help = "Requests that wait for a person at this node.";
    text.one(("gig_held_requests", "gauge"), help, app.held.waiting());
}

/// How the record is written.
fn record(app: &App, text: &mut Exposition) {
    let records = app.traffic.records.load(Relaxed);
    let help = "Audit records written since the start.";
    text.one(("gig_records_total", "counter"), help, records);
    let recorder = app.recorder.figures();
    let help = "Entries that could not be recorded: what they would have told of did not happen.";
    text.one(
        ("gig_record_refused_total", "counter"),
        help,
        recorder.refused,
    );
    let help = "Entries that wait to be recorded.";
    text.one(("gig_record_queue", "gauge"), help, recorder.queued);
    let name = "gig_record_commit_seconds";
    let help = "How long groups of records took to be handed to the kernel or, where it is strict, the disk.";
    let none: [(String, u64); 0] = [];
    text.family((name, "summary"), help, none);
    let took = recorder.writing.as_secs_f64();
    let _infallible = write!(
        text.0,
        "{name}_sum {took}\n{name}_count {}\n",
        recorder.groups
    );
}

/// Console and API.
fn doors(app: &App, text: &mut Exposition) {
    let classes = app.figures.answers.iter().enumerate().skip(1);
    text.family(
        ("gig_http_answers_total", "counter"),
        "Answers of console and API.",
        classes.map(|(class, count)| (label("class", &format!("{class}xx")), count.load(Relaxed))),
    );
    let refused = app.figures.refused.load(Relaxed);
    let help = "Wrong passwords and tokens.";
    text.one(("gig_sign_in_refused_total", "counter"), help, refused);
    if let Some(dropped) = app.spans.dropped() {
        let help = "Requests to the API that no span tells of: the collector did not take them, or not in time.";
        text.one(("gig_spans_dropped_total", "counter"), help, dropped);
    }
}

/// Who else serves from the same database.
async fn nodes(app: &App, caller: &Caller, text: &mut Exposition) {
    let nodes = tokio::time::timeout(PATIENCE, nodes::nodes(app, caller)).await;
    let Ok(Ok(nodes)) = nodes else { return };
    if nodes.is_empty() {
        return;
    }
    let states = ["lives", "silent", "gone"].map(|state| {
        let count = nodes.iter().filter(|node| node.state == state).count();
        (label("state", state), count)
    });
    let help = "Nodes on the same database, as they last said that they live.";
    text.family(("gig_nodes", "gauge"), help, states);
}

/// What runs, and whether it works.
async fn machine(app: &App, text: &mut Exposition) {
    let sandboxes = app.control.sandboxes();
    let running = sandboxes.iter().filter(|one| one.ended.is_none());
    let connections: u64 = running.clone().map(|one| u64::from(one.connections)).sum();
    let help = "Sandboxes that run.";
    text.one(("gig_sandboxes", "gauge"), help, running.count());
    let help = "Connections that sandboxes have open.";
    text.one(("gig_connections", "gauge"), help, connections);
    text.family(
        ("gig_up", "gauge"),
        "Whether a part works.",
        up(app)
            .await
            .iter()
            .map(|(part, works)| (label("part", part), u64::from(*works))),
    );
    let version = label("version", env!("CARGO_PKG_VERSION"));
    let help = "The gig that runs.";
    text.family(("gig_build_info", "gauge"), help, [(version, 1)]);
}

/// Each part, as `/readyz` has it. Of store and record those that do not say so in time do not work.
async fn up(app: &App) -> Arc<[(Arc<str>, bool)]> {
    let parts = tokio::time::timeout(PATIENCE, app.parts()).await;
    parts.unwrap_or_else(|_| {
        let known = app.control.health().into_iter();
        let silent = ["store", "record"].map(|part| (part.into(), false));
        known
            .map(|part| (part.part, part.works))
            .chain(silent)
            .collect()
    })
}

/// Whoever asks has a deadline of some seconds; on a busy machine the rest is worth more than this figure.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
