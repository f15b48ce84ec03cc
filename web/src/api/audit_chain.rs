//! One record in its chain: what it hashes to, what stands before and behind it, and what was signed of it.

use std::sync::Arc;

use axum::{Json, extract::State};
use gig_audit::{
    chain::ChainFault,
    log::in_chain::{Gap, InChain, Neighbour, Sealed},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::audit::{id, place, written};
use crate::{api::Path, api_error::Problem, app::App, auth::Caller, role::Permission};

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
    /// What was removed before it, where no record is there any more.
    pub(crate) begins: GapView,
    /// The record before; null where there is none any more.
    pub(crate) before: Option<NeighbourView>,
    /// The record behind; null where this is the last.
    pub(crate) behind: Option<NeighbourView>,
    /// The signed checkpoint that covers it; null where it is not signed yet.
    pub(crate) checkpoint: Option<CheckpointView>,
    /// How the checkpoint that covers it does not hold.
    pub(crate) checkpoint_fault: Option<String>,
}

/// The next record on one side.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NeighbourView {
    pub(crate) id: String,
    /// Empty, as event and hash are, where what stands there is no record any more.
    pub(crate) time: String,
    pub(crate) event: String,
    pub(crate) hash: String,
    /// What is between both.
    #[serde(flatten)]
    pub(crate) gap: GapView,
    /// Whether the later one names the earlier one's hash; where places between them are empty, whether
    /// checkpoints by keys that are known list all of them as removed.
    pub(crate) holds: bool,
    /// It is shown to be what was written, by what names it or by the checkpoint here; false where only its own page
    /// shows that, as of what follows and is not signed with this record.
    pub(crate) proved: bool,
    pub(crate) fault: Option<String>,
}

/// Places that are empty.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GapView {
    /// How many.
    pub(crate) between: u64,
    /// They are more than were looked at: those in the middle are `gig audit verify`'s to prove.
    pub(crate) unread: bool,
    /// A key that this gig does not know, where one signed that they were removed.
    pub(crate) stranger: Option<String>,
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
    /// Whether that is this machine's key, or one that `--audit-key` names; anybody can sign with another.
    pub(crate) known: bool,
    /// Records of it that were removed since, as it says itself.
    pub(crate) removed: u64,
    /// Whether what is there is, record for record, what was signed.
    pub(crate) holds: bool,
    /// It speaks of more records than are read for one: they are `gig audit verify`'s to prove.
    pub(crate) unread: bool,
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

impl GapView {
    /// What is to be said beside "removed as signed".
    pub(crate) fn words(&self) -> String {
        let far = match self.unread {
            true => ", as far as it was looked at here",
            false => "",
        };
        let key = self
            .stranger
            .as_deref()
            .map(|key| format!(", by key {key}, which this gig does not know"));
        format!("{}{far}", key.unwrap_or_default())
    }
}

/// Whether all that is missing was looked at, and signed by who is known.
const fn is_shown(gap: &Gap) -> bool {
    !gap.is_long && gap.stranger.is_none()
}

/// How something is shown, in a class and a word.
type Tag = (&'static str, &'static str);

/// Of what is missing: only what was looked at, and signed by a key that is known, holds.
const fn tag(fault: Option<&String>, gap: &GapView) -> Tag {
    match (fault, &gap.stranger, gap.unread) {
        (Some(_), ..) => ("broken", "does not hold"),
        (None, Some(_), _) => ("unknown", "unknown key"),
        (None, None, true) => ("unknown", "not read whole"),
        (None, None, false) => ("works", "holds"),
    }
}

impl ChainView {
    /// The record itself.
    pub(crate) const fn tag(&self) -> Tag {
        tag(self.fault.as_ref(), &self.begins)
    }
}

impl NeighbourView {
    /// One beside it.
    pub(crate) const fn tag(&self) -> Tag {
        let one = tag(self.fault.as_ref(), &self.gap);
        match (self.holds && !self.proved, self.gap.between) {
            (true, 0) => ("unknown", "follows"),
            (true, _) => ("unknown", "not compared"),
            (false, _) => one,
        }
    }
}

impl CheckpointView {
    /// How it is shown, in a class and a word.
    pub(crate) const fn tag(&self) -> Tag {
        match (self.unread, self.holds, self.known) {
            (true, ..) => ("unknown", "not read"),
            (_, false, _) => ("broken", "does not hold"),
            (_, true, false) => ("unknown", "unknown key"),
            (_, true, true) => ("works", "holds"),
        }
    }
}

fn fault(outcome: &Result<(), ChainFault>) -> Option<String> {
    outcome.as_ref().err().map(words)
}

fn words(fault: &ChainFault) -> String {
    match fault.foreign_key() {
        Some(key) => format!(
            "it is signed by key {key}, which is not this machine's: if it is a former one of this record, start gig \
             with --audit-key {key}"
        ),
        None => fault.to_string(),
    }
}

impl From<InChain> for ChainView {
    fn from(one: InChain) -> Self {
        let (checkpoint, checkpoint_fault) = match one.sealed {
            Ok(sealed) => (sealed.map(Into::into), None),
            Err(why) => (None, Some(words(&why))),
        };
        Self {
            id: id(&one.found),
            node: one.found.row.node.clone(),
            hash: one.found.row.hash.clone(),
            holds: one.own.is_ok() && is_shown(&one.begins),
            fault: fault(&one.own),
            begins: one.begins.into(),
            before: one.before.map(Into::into),
            behind: one.behind.map(Into::into),
            checkpoint,
            checkpoint_fault,
        }
    }
}

impl From<Neighbour> for NeighbourView {
    fn from(one: Neighbour) -> Self {
        let row = one.found.map(|found| found.row);
        let (time, event, hash) =
            row.map_or_else(Default::default, |row| (row.time, row.event, row.hash));
        Self {
            id: written(one.at),
            holds: one.link.is_ok() && is_shown(&one.gap),
            proved: one.is_proved,
            fault: fault(&one.link),
            gap: one.gap.into(),
            time,
            event,
            hash,
        }
    }
}

impl From<Gap> for GapView {
    fn from(gap: Gap) -> Self {
        Self {
            between: gap.places,
            unread: gap.is_long,
            stranger: gap.stranger.map(|key| key.to_string()),
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
            known: sealed.is_known,
            removed: sealed.removed,
            holds: matches!(sealed.whole, Some(Ok(()))),
            unread: sealed.whole.is_none(),
            fault: sealed.whole.and_then(|whole| fault(&whole)),
        }
    }
}
