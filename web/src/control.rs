//! What the appliance asks of the machine: start a registered server's sandbox, list, stop, read a log.
//!
//! The trait is implemented by the composition root, which alone knows the hub, the proxy and the
//! vault. Tests implement it with a fake.

use std::{net::Ipv4Addr, sync::Arc};

use futures_util::future::BoxFuture;
use gig_policy::{Policy, SandboxId};
use jiff::Timestamp;
use serde::Serialize;
use thiserror::Error;
use utoipa::ToSchema;

use crate::store::Server;

#[cfg(test)]
pub(crate) mod fake;

/// Starts and stops sandboxes.
pub trait Control: Send + Sync + 'static {
    /// The parts of the machine, and whether each works.
    fn health(&self) -> Vec<Health>;

    /// Tries what this host gives gig, as `gig doctor` does. Blocks for some seconds.
    ///
    /// # Errors
    /// When it cannot be tried; says why.
    fn examine(&self) -> Result<Vec<Examined>, ControlError>;

    /// What runs, and what ran lately, newest first.
    fn sandboxes(&self) -> Vec<SandboxFacts>;

    /// Starts a sandbox for `server`. What may take long, as a secret that is fetched, is done before
    /// `decide` is asked under which policy. Answers when its program runs. Dropping the future before it
    /// was decided starts nothing, after that it leaves the sandbox starting or started.
    fn start(
        &self,
        server: Server,
        decide: Decide,
    ) -> BoxFuture<'_, Result<SandboxFacts, ControlError>>;

    /// Ends a sandbox: SIGTERM, ten seconds later SIGKILL. Answers when it is asked to end, not when it
    /// has.
    ///
    /// # Errors
    /// When no such sandbox runs.
    fn stop(&self, id: SandboxId) -> Result<(), ControlError>;

    /// The last of what a sandbox printed.
    fn log(&self, id: SandboxId) -> Option<SandboxLog>;

    /// Puts another policy in force for the sandboxes of a server and cuts what it no longer allows.
    fn set_policy(&self, server: &str, policy: Policy);
}

/// Says under which policy a sandbox starts; asked once, when all else is at hand.
pub type Decide = Box<dyn FnOnce() -> BoxFuture<'static, Result<Decided, ControlError>> + Send>;

/// What a sandbox starts under.
#[expect(missing_debug_implementations, reason = "what is held can be anything")]
pub struct Decided {
    /// The policy in force.
    pub policy: Policy,
    /// Held until the sandbox is among [`Control::sandboxes`], or did not start: as long as it is held no
    /// policy changes.
    pub hold: Box<dyn Send>,
}

/// One part of the machine.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Health {
    /// `hub`, `record` …
    #[schema(value_type = String)]
    pub part: Arc<str>,
    /// Whether it works.
    pub works: bool,
    /// What it does, or what is wrong.
    #[schema(value_type = String)]
    pub words: Arc<str>,
}

/// One mechanism of the host, and what was found.
#[derive(Debug, Clone)]
pub struct Examined {
    /// The mechanism.
    pub name: String,
    /// `works`, `limited`, `missing`, `not_tried`.
    pub state: String,
    /// What was seen.
    pub found: String,
    /// What its lack costs; empty when it works.
    pub costs: String,
    /// What cures it; empty when it works.
    pub cure: String,
}

/// One sandbox.
#[derive(Debug, Clone)]
pub struct SandboxFacts {
    /// Its id, as in the record.
    pub id: SandboxId,
    /// The server it runs.
    pub server: Arc<str>,
    /// Its address, unless it is disconnected.
    pub address: Option<Ipv4Addr>,
    /// The policy in force.
    pub policy: Arc<str>,
    /// Its version.
    pub policy_version: u64,
    /// Since when.
    pub started: Timestamp,
    /// When it ended, and with which status.
    pub ended: Option<(Timestamp, u8)>,
    /// Connections that are open.
    pub connections: u32,
    /// What confines it, layer by layer.
    pub layers: Vec<Arc<str>>,
}

/// The last of what a sandbox printed.
#[derive(Debug, Clone, Default)]
pub struct SandboxLog {
    /// Both streams, as they came.
    pub octets: Vec<u8>,
    /// How many octets before these are no longer kept.
    pub dropped: u64,
}

/// The machine refuses.
#[derive(Debug, Error)]
pub enum ControlError {
    /// No such sandbox runs.
    #[error("no sandbox {0} runs: `gig ps` lists those that do")]
    Missing(SandboxId),
    /// This host cannot have sandboxes.
    #[error("this host cannot have sandboxes: {0}")]
    Unable(Arc<str>),
    /// What was to be started is not what is registered any more.
    #[error(
        "server {0} was changed or removed while its sandbox was being started: start it again"
    )]
    Changed(Arc<str>),
    /// The store does not say which policy is in force.
    #[error(
        "the policy of server {0} cannot be read, so nothing was started: gig's own log says why"
    )]
    Undecided(Arc<str>),
    /// The host could not be examined.
    #[error("this host could not be examined: {0}")]
    Examine(String),
    /// The sandbox did not start.
    #[error("the sandbox of {server} did not start: {why}")]
    Start {
        /// Which server.
        server: Arc<str>,
        /// Why, cause by cause.
        why: String,
    },
}
