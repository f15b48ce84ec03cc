//! A sandbox as its start and its end in the record tell of it.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

use gig_audit::{
    Deed, Event,
    row::Row,
    search::{Filter, Query},
};
use gig_policy::SandboxId;

use super::{ELSEWHERE, ENDED, Known, LOST, has_others};
use crate::{
    api::{recorded_time, sandboxes::SandboxView},
    api_error::Problem,
    app::App,
};

/// The sandbox, if the record has its start or its end.
pub(super) async fn read(app: &Arc<App>, id: SandboxId) -> Result<Option<Known>, Problem> {
    let page = app.search(of(id)).await?;
    let rows: Vec<Row> = page.records.into_iter().map(|found| found.row).collect();
    let mut known = told(&rows, &app.node);
    if let Some(known) = &mut known
        && known.view.state == ELSEWHERE
        && let Some(start) = rows.iter().find(|row| row.event == START)
    {
        let page = app.search(begun_since(start)).await?;
        let mut rows = page.records.iter().map(|found| &found.row);
        let begun_since = rows.any(|row| has_begun_since(row, start));
        if begun_since || (has_others(app) && !lives(app, &known.view.node).await?) {
            known.view.state = LOST;
        }
    }
    Ok(known)
}

/// Whether a node has said lately that it lives.
async fn lives(app: &App, node: &str) -> Result<bool, Problem> {
    let nodes = app.ask(|store| store.nodes()).await?;
    Ok(nodes.iter().any(|one| one.name == node && !one.gone))
}

/// The gig that recorded `start` began to serve again: what it ran before is no more.
fn begun_since(start: &Row) -> Query {
    Query {
        filter: Filter {
            node: vec![start.node.clone()],
            event: vec![Event::Admin.to_string()],
            text: vec!["begins".to_owned(), "serve".to_owned()],
            ..Filter::default()
        },
        before: None,
        limit: FEW,
    }
}

/// In the same chain, whatever the clocks said.
fn has_begun_since(row: &Row, start: &Row) -> bool {
    row.node == start.node
        && row.seq > start.seq
        && row.deed.as_deref() == Some(Deed::ServeStart.as_str())
}

/// Those of them whose start or end is recorded.
pub(super) async fn begun(
    app: &Arc<App>,
    ids: &BTreeSet<String>,
) -> Result<BTreeSet<String>, Problem> {
    let query = Query {
        filter: Filter {
            sandbox: ids.iter().cloned().collect(),
            event: vec![START.to_owned(), EXIT.to_owned()],
            ..Filter::default()
        },
        before: None,
        limit: ids.len().saturating_mul(2),
    };
    let found = app.search(query).await?.records.into_iter();
    Ok(found.filter_map(|one| one.row.sandbox).collect())
}

/// Whose it was, as far as its start or its end tell; for who is beside the runtime.
pub(super) fn profile(app: &App, id: SandboxId) -> Option<Arc<str>> {
    let page = app.page(&of(id)).ok()?;
    let mut rows = page.records.into_iter().map(|found| found.row);
    rows.find_map(|row| row.profile).map(Into::into)
}

/// Its start and its end.
fn of(id: SandboxId) -> Query {
    Query {
        filter: Filter {
            sandbox: vec![id.to_string()],
            event: vec![START.to_owned(), EXIT.to_owned()],
            ..Filter::default()
        },
        before: None,
        limit: 2,
    }
}

/// What its rows tell on the node `here`.
pub(super) fn told(rows: &[Row], here: &str) -> Option<Known> {
    let of = |event: &str| rows.iter().find(|row| row.event == event);
    let (start, exit) = (of(START), of(EXIT));
    // The start may be too old to be kept.
    let first = start.or(exit)?;
    // The policy of its end: it may have got another one meanwhile.
    let last = exit.unwrap_or(first);
    let layers = start.map(|row| row.findings.as_slice()).unwrap_or_default();
    let by = layers.iter().find_map(|one| one.strip_prefix(BY));
    let ended_by = exit.map(|row| {
        let said = row.findings.iter();
        said.cloned().collect::<Vec<_>>().join("; ")
    });
    let address = first.src.as_deref().and_then(|src| src.parse().ok());
    Some(Known {
        view: SandboxView {
            id: first.sandbox.clone()?,
            node: first.node.clone(),
            server: first.server.clone().unwrap_or_default(),
            profile: first.profile.clone().unwrap_or_default(),
            attached: false,
            state: match exit {
                Some(_) => ENDED,
                None if first.node == here => LOST,
                None => ELSEWHERE,
            },
            address: address.map(|address: SocketAddr| address.ip().to_string()),
            namespace: None,
            policy: last.policy.clone().unwrap_or_default(),
            policy_version: last.policy_version.unwrap_or_default(),
            // Only the start says so, of the policy that was in force then.
            policy_by: by
                .filter(|_| {
                    (&first.policy, first.policy_version) == (&last.policy, last.policy_version)
                })
                .unwrap_or_default()
                .to_owned(),
            started: start
                .map(|row| recorded_time(&row.time))
                .unwrap_or_default(),
            ended: exit.map(|row| recorded_time(&row.time)),
            exit_status: exit.and_then(|row| u8::try_from(row.status?).ok()),
            connections: 0,
            layers: layers
                .iter()
                .filter(|one| !one.starts_with(BY))
                .cloned()
                .collect(),
        },
        ended_by: ended_by.filter(|said| !said.is_empty()),
        given: None,
    })
}

/// Other records may say that somebody begins to serve.
const FEW: usize = 20;
const START: &str = "sandbox.start";
const EXIT: &str = "sandbox.exit";
/// Before what put the policy in force.
const BY: &str = "policy put in force by: ";
