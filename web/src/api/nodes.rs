//! The nodes of a fleet, as they say of themselves to the database that they share.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::Whole;
use crate::{
    api_error::Problem, app::App, auth::Caller, one_sandbox::has_others, role::Permission,
    store::NodeRow,
};

/// A node.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct NodeView {
    /// As the record calls it.
    pub(crate) name: String,
    /// Whether it is the one that answers.
    pub(crate) here: bool,
    /// `lives`; `silent` for some seconds longer than nodes are; `gone` for a minute, and what ran there told as lost.
    pub(crate) state: &'static str,
    /// Seconds since it last said that it lives, by the database's clock.
    pub(crate) silent_seconds: u64,
    /// Sandboxes that run there.
    pub(crate) sandboxes: u64,
    /// Which gig it is.
    pub(crate) version: String,
}

/// Every node on the same database, and for a week those that are gone. Empty where gig is the only one: nobody else can
/// be on its store.
#[utoipa::path(get, path = "/api/v1/nodes", tag = "health",
    responses((status = 200, body = Whole<NodeView>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Whole<NodeView>>, Problem> {
    let items = nodes(&app, &caller).await?;
    Ok(Json(Whole { items }))
}

/// The same for the console.
pub(crate) async fn nodes(app: &App, caller: &Caller) -> Result<Vec<NodeView>, Problem> {
    caller.require(Permission::Look)?;
    if !has_others(app) {
        return Ok(Vec::new());
    }
    let nodes = app.ask(|store| store.nodes()).await?;
    Ok(nodes
        .into_iter()
        .map(|node| view(node, &app.node))
        .collect())
}

fn view(node: NodeRow, here: &str) -> NodeView {
    NodeView {
        here: node.name == here,
        state: match (node.gone, node.silent > LATE) {
            (true, _) => "gone",
            (false, true) => "silent",
            (false, false) => "lives",
        },
        silent_seconds: node.silent.as_secs(),
        sandboxes: node.sandboxes,
        version: node.version,
        name: node.name,
    }
}

/// Two of its words are missing.
const LATE: std::time::Duration = crate::store::nodes::BEAT.saturating_mul(2);
