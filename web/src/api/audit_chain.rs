//! One record in its chain: what it hashes to, what stands before and behind it, and what was signed of it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use gig_audit::{
    chain::ChainFault,
    log::in_chain::{InChain, Neighbour, Sealed},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::audit::{id, place};
use crate::{api_error::Problem, app::App, auth::Caller, role::Permission};

/// A record in its chain, computed anew from the lines that are there.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChainView {
    pub(crate) id: String,
    /// The machine whose chain it is.
    pub(crate) node: String,
    /// Its own hash.
    pub(crate) hash: String,
    /// Whether its line hashes to that and stands where it says.
    pub(crate) holds: bool,
    /// How it does not.
    pub(crate) fault: Option<String>,
    /// The record before; null where there is none any more.
    pub(crate) before: Option<NeighbourView>,
    /// The record behind; null where this is the last.
    pub(crate) behind: Option<NeighbourView>,
    /// The signed checkpoint that covers it; null where it is not signed yet.
    pub(crate) checkpoint: Option<CheckpointView>,
    /// How the checkpoints of its chain do not hold.
    pub(crate) checkpoint_fault: Option<String>,
}

/// The next record on one side.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NeighbourView {
    pub(crate) id: String,
    pub(crate) time: String,
    pub(crate) event: String,
    pub(crate) hash: String,
    /// Places between both that are empty.
    pub(crate) between: u64,
    /// Whether the later one names the earlier one's hash; where places between them are empty, whether
    /// checkpoints list them as removed.
    pub(crate) holds: bool,
    pub(crate) fault: Option<String>,
}

/// A signed checkpoint, and whether what it speaks of is so.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckpointView {
    pub(crate) number: u64,
    pub(crate) signed: String,
    /// The first and last place that it speaks of.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The key whose signature holds: `gig audit key` prints a machine's own.
    pub(crate) key: String,
    /// Records of it that were removed since, as it says itself.
    pub(crate) removed: u64,
    /// Whether what is there is, record for record, what was signed.
    pub(crate) holds: bool,
    pub(crate) fault: Option<String>,
}

/// One record in its chain: whether it, its neighbours and the signed checkpoint hold.
#[utoipa::path(get, path = "/api/v1/audit/{id}/chain", tag = "audit",
    responses((status = 200, body = ChainView), (status = 404, body = Problem)))]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ChainView>, Problem> {
    Ok(Json(of(&app, &caller, &id).await?))
}

/// The same for the console.
pub(crate) async fn of(app: &Arc<App>, caller: &Caller, id: &str) -> Result<ChainView, Problem> {
    caller.require(Permission::ReadAudit)?;
    let missing = || Problem::missing("record", id);
    let found = app.in_chain(place(id).ok_or_else(missing)?).await?;
    found.map(Into::into).ok_or_else(missing)
}

fn fault(outcome: &Result<(), ChainFault>) -> Option<String> {
    outcome.as_ref().err().map(ToString::to_string)
}

impl From<InChain> for ChainView {
    fn from(one: InChain) -> Self {
        let (checkpoint, checkpoint_fault) = match one.sealed {
            Ok(sealed) => (sealed.map(Into::into), None),
            Err(why) => (None, Some(why.to_string())),
        };
        Self {
            id: id(&one.found),
            node: one.found.row.node.clone(),
            hash: one.found.row.hash.clone(),
            holds: one.own.is_ok(),
            fault: fault(&one.own),
            before: one.before.map(Into::into),
            behind: one.behind.map(Into::into),
            checkpoint,
            checkpoint_fault,
        }
    }
}

impl From<Neighbour> for NeighbourView {
    fn from(one: Neighbour) -> Self {
        Self {
            id: id(&one.found),
            holds: one.link.is_ok(),
            fault: fault(&one.link),
            between: one.between,
            time: one.found.row.time,
            event: one.found.row.event,
            hash: one.found.row.hash,
        }
    }
}

impl From<Sealed> for CheckpointView {
    fn from(sealed: Sealed) -> Self {
        Self {
            number: sealed.checkpoint.number,
            signed: sealed.checkpoint.time,
            first: sealed.checkpoint.first,
            last: sealed.checkpoint.last,
            key: sealed.checkpoint.key.to_string(),
            removed: sealed.removed,
            holds: sealed.whole.is_ok(),
            fault: fault(&sealed.whole),
        }
    }
}
