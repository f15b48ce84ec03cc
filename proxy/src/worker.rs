//! What connections share: with all others, and with those of their own thread.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use gig_audit::Recorder;
use rustls::crypto::CryptoProvider;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    deadlines::Deadlines,
    identity::Identity,
    tls::{downstream::Terminator, roots::LazyVerifier},
    upstream::{dial::Dialer, pool::Pool},
};

/// Shared by all threads.
#[derive(Debug)]
pub struct Shared {
    /// How long things may take.
    pub deadlines: Deadlines,
    /// The record.
    pub recorder: Recorder,
    /// The only way to an origin.
    pub dialer: Dialer,
    /// TLS with sandboxes.
    pub terminator: Terminator,
    /// Whom origins' certificates may come from.
    pub verifier: LazyVerifier,
    /// Cryptography for both sides.
    pub provider: Arc<CryptoProvider>,
    /// Numbers requests.
    pub ids: RequestIds,
}

/// One thread's own.
#[derive(Debug)]
pub struct Worker {
    /// What is shared by all.
    pub shared: Arc<Shared>,
    /// Connections to origins that wait for their next request.
    pub pool: Pool,
    /// Owns every task of this thread.
    pub tasks: TaskTracker,
    /// No new connections, and no further requests on open ones.
    pub drain: CancellationToken,
    /// Connections that this thread serves now.
    pub load: AtomicUsize,
    /// Refused clients that are being told why at once.
    pub refusing: Arc<Semaphore>,
}

impl Worker {
    /// A thread's own things; everything that it spawns ends up in `tasks`.
    #[must_use]
    pub fn new(shared: Arc<Shared>, drain: CancellationToken) -> Arc<Self> {
        let tasks = TaskTracker::new();
        Arc::new(Self {
            pool: Pool::new(tasks.clone()),
            shared,
            tasks,
            drain,
            load: AtomicUsize::new(0),
            refusing: Arc::new(Semaphore::new(TELLING)),
        })
    }

    /// Shorthand.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// Shorthand.
    #[must_use]
    pub fn deadlines(&self) -> &Deadlines {
        &self.shared.deadlines
    }
}

/// Telling holds a descriptor for up to a second; beyond this many, refusal is a reset.
const TELLING: usize = 32;

/// Finds who calls; shared by the accept loops.
pub type Identities = Arc<dyn Identity>;

/// Gives each request an id that no other request has, in this process or another.
#[derive(Debug)]
pub struct RequestIds {
    process: u64,
    next: AtomicU64,
}

impl RequestIds {
    /// Ids that begin with a random number of this process.
    #[must_use]
    pub fn new() -> Self {
        let mut octets = [0; 8];
        // Without random numbers ids are unique in this process only; they prove nothing either way.
        if aws_lc_rs::rand::fill(&mut octets).is_err() {
            tracing::error!("the system gave no random numbers for request ids");
        }
        Self {
            process: u64::from_be_bytes(octets),
            next: AtomicU64::new(1),
        }
    }

    /// The next one: 16 hexadecimal digits of the process, a dash, a count.
    #[must_use]
    pub fn next(&self) -> Arc<str> {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{count:x}", self.process).into()
    }
}

impl Default for RequestIds {
    fn default() -> Self {
        Self::new()
    }
}
