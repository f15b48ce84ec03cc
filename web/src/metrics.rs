//! Figures for Prometheus: the text format, written by hand for a dozen lines.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use crate::{api_error::Problem, app::App, auth::Caller, role::Permission};

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
    Ok((plain, text(&app)).into_response())
}

fn text(app: &App) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
        // Writing to a string does not fail.
        let _infallible = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in values {
            let _infallible = writeln!(text, "{name}{labels} {value}");
        }
    };
    let traffic = &app.traffic;
    let verdict =
        |word: &str, count: &AtomicU64| (format!("{{verdict=\"{word}\"}}"), count.load(Relaxed));
    let decisions = [
        verdict("allow", &traffic.allowed),
        verdict("deny", &traffic.denied),
        verdict("would_deny", &traffic.would_deny),
    ];
    family(
        "gig_decisions_total",
        "counter",
        "Decisions recorded since the start.",
        &decisions,
    );
    let records = [(String::new(), traffic.records.load(Relaxed))];
    family(
        "gig_records_total",
        "counter",
        "Audit records written since the start.",
        &records,
    );
    let classes = app.figures.answers.iter().enumerate().skip(1);
    let answers: Vec<_> = classes
        .map(|(class, count)| (format!("{{class=\"{class}xx\"}}"), count.load(Relaxed)))
        .collect();
    family(
        "gig_http_answers_total",
        "counter",
        "Answers of console and API.",
        &answers,
    );
    let refused = [(String::new(), app.figures.refused.load(Relaxed))];
    family(
        "gig_sign_in_refused_total",
        "counter",
        "Wrong passwords and tokens.",
        &refused,
    );
    let sandboxes = app.control.sandboxes();
    let running = sandboxes.iter().filter(|one| one.ended.is_none());
    let connections = running.clone().map(|one| u64::from(one.connections)).sum();
    let count = u64::try_from(running.count()).unwrap_or_default();
    family(
        "gig_sandboxes",
        "gauge",
        "Sandboxes that run.",
        &[(String::new(), count)],
    );
    let connections = [(String::new(), connections)];
    family(
        "gig_connections",
        "gauge",
        "Connections that sandboxes have open.",
        &connections,
    );
    let health = app.control.health();
    let parts: Vec<_> = health
        .iter()
        .map(|part| (format!("{{part=\"{}\"}}", part.part), u64::from(part.works)))
        .collect();
    family("gig_up", "gauge", "Whether a part works.", &parts);
    text
}
