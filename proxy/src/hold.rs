//! Where what is denied for want of a rule waits for a person: asked of whoever runs the proxy.
//!
//! The proxy waits, bounded in time, decides again with the word that comes, and records both. Who is asked,
//! how, and how many may wait, is the desk's.

use std::{fmt, sync::Arc, time::Duration};

use gig_policy::{DenyReason, SandboxId};
use tokio::sync::oneshot;

/// Puts what waits before people.
pub trait Desk: fmt::Debug + Send + Sync {
    /// Puts one thing up. `None` when as many wait as may. Does not block: called on a proxy's thread.
    fn put_up(&self, held: Held) -> Option<Ticket>;
}

/// One request or connection that waits. Text of it comes from the sandbox.
#[derive(Debug, Clone)]
pub struct Held {
    /// The request's id; one of its own for a connection.
    pub id: Arc<str>,
    /// Whose.
    pub sandbox: SandboxId,
    /// The registered server it runs.
    pub server: Option<Arc<str>>,
    /// Whose it is.
    pub profile: Option<Arc<str>>,
    /// Where to.
    pub host: Arc<str>,
    /// At which port.
    pub port: u16,
    /// `https`, `http` or `tcp`.
    pub protocol: &'static str,
    /// The method of a request.
    pub method: Option<Arc<str>>,
    /// The normalised path of a request.
    pub path: Option<Arc<str>>,
    /// The policy that denied it, and its version.
    pub policy: (Arc<str>, u64),
    /// Why.
    pub reason: DenyReason,
    /// For how long it waits.
    pub most: Duration,
}

/// A place among those that wait; dropping it takes the question back.
pub struct Ticket {
    /// What a person says. Closed without a word: nobody could be asked.
    pub word: oneshot::Receiver<Word>,
    /// Held for as long as it waits.
    pub place: Box<dyn Send + Sync>,
}

/// What a person says, and who.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// This one may go.
    Allow(Arc<str>),
    /// It may not.
    Deny(Arc<str>),
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}
