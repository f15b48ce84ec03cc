//! What the appliance asks of the machine: start a registered server's sandbox, attach to one, list,
//! stop, read a log.
//!
//! The trait is implemented by the composition root, which alone knows the hub, the proxy and the
//! vault. Tests implement it with a fake.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use futures_util::future::{BoxFuture, Shared};
use gig_policy::{Policy, SandboxId};
use jiff::Timestamp;
use serde::Serialize;
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use utoipa::ToSchema;

pub use self::foreign::{Named, Registered, Registration};
pub use self::lines::{
    LogAsked, LogFrom, LogLine, LogPage, LogPlace, LogStream, ParseLogPlaceError, Seen,
};
use crate::store::{Server, ServerSpec};

#[cfg(test)]
pub(crate) mod fake;
mod foreign;
mod lines;

/// Starts and stops sandboxes.
pub trait Control: Send + Sync + 'static {
    /// The parts of the machine, and whether each works.
    fn health(&self) -> Vec<Health>;

    /// What stands between a sandbox and everything else, layer by layer, as far as gig knows it without
    /// trying: told to people, while readiness is [`Control::health`]'s.
    fn layers(&self) -> Vec<Health>;

    /// Tries what this host gives gig, as `gig doctor` does. Blocks for some seconds.
    ///
    /// # Errors
    /// When it cannot be tried; says why.
    fn examine(&self) -> Result<Vec<Examined>, ControlError>;

    /// What runs, and what ran lately, newest first.
    fn sandboxes(&self) -> Vec<SandboxFacts>;

    /// Starts a sandbox. What may take long, as a secret that is fetched, is done before `decide` is asked
    /// under which policy. Answers when its program runs. Dropping the future before it was decided starts
    /// nothing, after that it leaves the sandbox starting or started. It ends when it was idle for as long
    /// as its server says.
    fn start(
        &self,
        wanted: Wanted,
        decide: Decide,
    ) -> BoxFuture<'_, Result<SandboxFacts, ControlError>>;

    /// The same, with the program's standard streams in the caller's hands. Such a sandbox ends when what
    /// is answered is dropped, also when nobody takes the answer.
    fn attach(
        &self,
        wanted: Wanted,
        decide: Decide,
    ) -> BoxFuture<'_, Result<Attached, ControlError>>;

    /// Notes that somebody asked for a sandbox again: it is not idle. `false` when it ends or has ended.
    fn used(&self, id: SandboxId) -> bool;

    /// Takes a network namespace that gig did not make as a sandbox. It ends with what was named, and when
    /// somebody adds a way out to it. Dropping the future before it was decided does nothing.
    fn register(
        &self,
        wanted: Wanted,
        registration: Registration,
        decide: Decide,
    ) -> BoxFuture<'_, Result<Registered, ControlError>>;

    /// Ends a sandbox: SIGTERM, ten seconds later SIGKILL. Answers when it is asked to end, not when it
    /// has.
    ///
    /// # Errors
    /// When no such sandbox runs.
    fn stop(&self, id: SandboxId) -> Result<(), ControlError>;

    /// Ends a sandbox that other nodes took for lost, if it runs still.
    fn lose(&self, id: SandboxId);

    /// Closes these places, where other nodes listen, to every sandbox here, and no others any more.
    fn close_to_sandboxes(&self, places: Vec<SocketAddr>);

    /// The last of what a sandbox printed.
    fn log(&self, id: SandboxId) -> Option<SandboxLog>;

    /// What servers printed, kept for some days. Blocks.
    ///
    /// # Errors
    /// When it cannot be read.
    fn lines(&self, asked: &LogAsked) -> Result<LogPage, ControlError>;

    /// Puts another policy in force for the sandboxes of a server that are of a profile, and cuts what it no
    /// longer allows.
    fn set_policy(&self, server: &str, profile: &str, ruling: Ruling);
}

/// A sandbox that is to be.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// What it runs.
    pub server: Server,
    /// Its id.
    pub id: SandboxId,
    /// Whose it is, as the record names them.
    pub profile: Arc<str>,
}

/// The standard streams of a program that runs. Dropping it ends the sandbox: SIGTERM, ten seconds later
/// SIGKILL.
#[expect(missing_debug_implementations, reason = "its parts are traits")]
pub struct Attached {
    /// The sandbox.
    pub facts: SandboxFacts,
    /// Closed by dropping it.
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Ends with the last process that can write to it.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// The same for standard error, which is kept in the server's log, too: who reads nothing holds the
    /// program up.
    pub stderr: mpsc::Receiver<Vec<u8>>,
    /// How it ended, once all of it has.
    pub ended: Shared<BoxFuture<'static, Ended>>,
    /// Ends the sandbox when it is dropped.
    pub hold: Box<dyn Send>,
}

/// How a sandbox ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its program's exit status, as a shell says it.
    pub status: u8,
    /// What brought it about.
    pub cause: EndCause,
    /// It wanted more memory than its server allows, and was killed for that.
    pub starved: bool,
}

impl Ended {
    /// In words, for record and people. They fit into a WebSocket's close, which holds 123 octets.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self.cause {
            EndCause::Program if self.starved => {
                "its program wanted more memory than its server allows (memory), and was killed"
            }
            cause => cause.words(),
        }
    }
}

/// What brought a sandbox's end about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    /// Its program ended by itself.
    Program,
    /// Somebody stopped it.
    Stopped,
    /// Nobody used it for as long as its server says.
    Idle,
    /// Whoever was attached to it went away.
    Detached,
    /// Somebody added something to the network namespace that it is.
    Changed,
    /// What is covered in its mounts came into sight, or what is read-only is not any more.
    Uncovered,
    /// It was recorded and could not begin.
    NotBegun,
    /// This node was cut off, and another told it as lost.
    Lost,
    /// gig goes down.
    Shutdown,
}

impl EndCause {
    /// In words, for record and people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Program => "its program ended",
            Self::Stopped => "it was stopped",
            Self::Idle => "it was idle",
            Self::Detached => "whoever was attached went away",
            Self::Changed => "its network namespace was changed",
            Self::Uncovered => {
                "something changed a place where a credential is covered, or what is shown read-only"
            }
            Self::NotBegun => "it could not begin",
            Self::Lost => "its node was not seen for a minute, and it was told as lost",
            Self::Shutdown => "gig goes down",
        }
    }
}

/// Says under which policy a sandbox starts; asked once, when all else is at hand.
pub type Decide = Box<dyn FnOnce() -> BoxFuture<'static, Result<Decided, ControlError>> + Send>;

/// A policy, and what put it in force.
#[derive(Debug, Clone)]
pub struct Ruling {
    /// With the floors that bound it.
    pub policy: Policy,
    /// `profile ana`, `team data`, `server docs`, `all servers`; where nothing did, why.
    pub by: Arc<str>,
}

impl Ruling {
    /// One that denies everything, for this reason.
    #[must_use]
    pub fn denying(why: &str) -> Self {
        Self {
            policy: Policy::deny_all(why),
            by: why.into(),
        }
    }
}

/// What a sandbox starts under.
#[expect(missing_debug_implementations, reason = "what is held can be anything")]
pub struct Decided {
    /// The policy in force.
    pub ruling: Ruling,
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
#[derive(Debug, Clone, Serialize, ToSchema)]
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
    /// As it was registered then.
    pub spec: Arc<ServerSpec>,
    /// Whose it is, as the record names them.
    pub profile: Arc<str>,
    /// Whether it lives as long as somebody is attached to it.
    pub attached: bool,
    /// Its address, unless it is disconnected or a namespace that gig did not make.
    pub address: Option<Ipv4Addr>,
    /// The namespace that it is, where gig did not make it.
    pub namespace: Option<Arc<str>>,
    /// The policy in force.
    pub policy: Arc<str>,
    /// Its version.
    pub policy_version: u64,
    /// What put it in force.
    pub policy_by: Arc<str>,
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
    /// As many are being started as may.
    #[error("as many sandboxes as may be are being started: try again in a moment")]
    Busy,
    /// As many run as may.
    #[error("{0}")]
    Crowded(Arc<str>),
    /// The namespace is somebody else's already.
    #[error("{0}")]
    Taken(Arc<str>),
    /// What was printed cannot be read.
    #[error("what the server printed cannot be read: gig's own log says why")]
    Log,
    /// The sandbox did not start.
    #[error("the sandbox of {server} did not start: {why}")]
    Start {
        /// Which server.
        server: Arc<str>,
        /// Why, cause by cause.
        why: String,
    },
}
