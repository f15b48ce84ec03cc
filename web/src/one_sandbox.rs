//! All that is told of one sandbox: what it is, what it may reach, what it tried.
//!
//! What runs here is asked of the machine. What the machine does not know any more, or never did because
//! another node has it, is told by its start and its end in the record; so a link to a sandbox stays good for
//! as long as its records are kept. Nothing here stops one or reads what it printed.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use gig_policy::SandboxId;
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    api::sandboxes::SandboxView, api_error::Problem, app::App, auth::Caller, control::Seen,
    profile::Sight, role::Permission, store::RunningRow,
};

mod reach;
mod recorded;
mod tried;

pub(crate) use reach::{ReachView, SecretReach};
pub(crate) use tried::{Destination, Tried};

/// One sandbox.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OneSandbox {
    #[serde(flatten)]
    pub(crate) sandbox: SandboxView,
    /// What brought its end about, where its program did not end by itself.
    pub(crate) ended_by: Option<String>,
    /// What it may reach, or might when it ended.
    pub(crate) reach: ReachView,
    /// The secrets that it was given stand-ins of, and where each may go; of one that another node has, as its server
    /// is registered now, and of one that has ended and only the record knows all that its policy names.
    pub(crate) secrets: Vec<SecretReach>,
    /// What it asked for; null for who may not read the record.
    pub(crate) tried: Option<Tried>,
}

/// What is known of a sandbox, by whomever.
pub(crate) struct Known {
    pub(crate) view: SandboxView,
    ended_by: Option<String>,
    /// What its server's registration named when it started; `None` where only the record knows it.
    given: Option<Given>,
}

/// As its server was registered.
struct Given {
    network: crate::store::Network,
    secrets: Vec<String>,
}

/// A sandbox, with what it may reach and what it tried.
///
/// # Errors
/// 404 where neither machine nor record knows it, or it is not there for the caller.
pub(crate) async fn of(
    app: &Arc<App>,
    caller: &Caller,
    id: &str,
    sight: &Sight,
) -> Result<OneSandbox, Problem> {
    let known = find(app, caller, id, sight).await?;
    let (reach, secrets) = reach::of(app, &known).await?;
    let tried = match caller.may(Permission::ReadAudit) {
        true => Some(tried::of(app, &known.view.id).await?),
        false => None,
    };
    Ok(OneSandbox {
        sandbox: known.view,
        ended_by: known.ended_by,
        reach,
        secrets,
        tried,
    })
}

/// A sandbox by the text of its id, of the machine or of the record.
///
/// # Errors
/// As [`of`].
pub(crate) async fn find(
    app: &Arc<App>,
    caller: &Caller,
    id: &str,
    sight: &Sight,
) -> Result<Known, Problem> {
    caller.require(Permission::Look)?;
    let missing = || Problem::missing("sandbox", id);
    let wanted = SandboxId::new(id.parse().map_err(|_| missing())?);
    let mut here = app.control.sandboxes().into_iter();
    let known = match here.find(|one| one.id == wanted) {
        Some(facts) => Some(Known {
            ended_by: None,
            given: Some(Given {
                network: facts.spec.network,
                secrets: facts.spec.secrets.clone(),
            }),
            view: SandboxView::here(facts, &app.node),
        }),
        None => match there(app, wanted).await? {
            Some(row) => Some(Known {
                ended_by: None,
                given: None,
                view: row.into(),
            }),
            None => recorded::read(app, wanted).await?,
        },
    };
    let known = known.filter(|known| caller.reaches(&known.view.server));
    let known = known.ok_or_else(missing)?;
    if sight.takes_in(&known.view.profile) {
        return Ok(known);
    }
    app.tell_hidden(caller, OTHERS);
    Err(missing())
}

/// What runs on other nodes, as they say.
///
/// # Errors
/// When the store does not tell.
pub(crate) async fn elsewhere(app: &App) -> Result<Vec<SandboxView>, Problem> {
    if !has_others(app) {
        return Ok(Vec::new());
    }
    let running = app.ask(|store| store.running()).await?;
    let others = running.into_iter().filter(|row| row.node != app.node);
    Ok(others.map(SandboxView::from).collect())
}

/// Those of them that there are or were, as machine or record tell: of the others somebody asked, and none began.
///
/// # Errors
/// When store or record do not tell.
pub(crate) async fn begun(
    app: &Arc<App>,
    ids: BTreeSet<String>,
) -> Result<BTreeSet<String>, Problem> {
    if ids.is_empty() {
        return Ok(ids);
    }
    let here = app.control.sandboxes().into_iter();
    let here = here.map(|one| one.id.to_string());
    let there = elsewhere(app).await?.into_iter().map(|one| one.id);
    let mut known: BTreeSet<String> = here.chain(there).collect();
    known.extend(recorded::begun(app, &ids).await?);
    known.retain(|id| ids.contains(id));
    Ok(known)
}

/// The sandbox, if another node runs it.
async fn there(app: &App, id: SandboxId) -> Result<Option<RunningRow>, Problem> {
    if !has_others(app) {
        return Ok(None);
    }
    let id = id.to_string();
    let found = app.ask(move |store| store.running_one(&id)).await?;
    Ok(found.filter(|row| row.node != app.node))
}

/// Whether other nodes are on the same store: what a record of before, or of another machine, tells of is not there.
pub(crate) fn has_others(app: &App) -> bool {
    app.store.news().is_some()
}

/// Whose lines are read with this sight. Each sandbox is looked up once. For who is beside the runtime.
pub(crate) fn seen(app: &Arc<App>, sight: &Sight) -> Seen {
    if *sight == Sight::All {
        return Seen::all();
    }
    let (app, sight) = (Arc::clone(app), sight.clone());
    let known: Mutex<HashMap<SandboxId, bool>> = Mutex::default();
    Seen::only(move |id| {
        let mut known = known.lock();
        *known.entry(id).or_insert_with(|| is_seen(&app, id, &sight))
    })
}

/// Whether what a sandbox prints may be read with this sight, as machine or record say whose it was; what nobody
/// knows may not.
fn is_seen(app: &App, id: SandboxId, sight: &Sight) -> bool {
    let mut here = app.control.sandboxes().into_iter();
    let whose = match here.find(|one| one.id == id) {
        Some(facts) => Some(facts.profile),
        None => recorded::profile(app, id),
    };
    whose.is_some_and(|profile| sight.takes_in(&profile))
}

impl Known {
    /// Whether it may reach something at this moment, as far as anybody knows.
    fn is_there(&self) -> bool {
        matches!(self.view.state, RUNNING | ELSEWHERE)
    }
}

/// What the record calls what is not there for somebody.
pub(crate) const OTHERS: &str = "a sandbox of another profile";
/// It runs here.
pub(crate) const RUNNING: &str = "running";
/// Another node started it, and nobody recorded its end.
pub(crate) const ELSEWHERE: &str = "elsewhere";
/// It has ended.
pub(crate) const ENDED: &str = "ended";
/// It does not run, and its end is not in the record: its gig ended before.
pub(crate) const LOST: &str = "lost";

#[cfg(test)]
mod tests;
