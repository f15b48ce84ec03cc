//! Connections to origins, kept between requests: per thread, per sandbox, per origin.
//!
//! Nothing here is ever shared between two sandboxes: connections, TLS sessions and what was learnt
//! about an origin belong to one. An HTTP/1 connection serves one request at a time and is leased; an
//! HTTP/2 connection is shared by all requests of the sandbox on this thread. A connection has its
//! place in the sandbox's register, so that a policy change or the sandbox's end cuts it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use gig_policy::{Host, Port, SandboxId};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::task::TaskTracker;

use crate::{
    credential::sign::certificate::IdentityKey,
    subject::{Subject, places::Spare},
    tls::{downstream::Application, upstream::OriginTls},
    upstream::{dial::Reached, http2::Http2},
};

mod lease;

pub use lease::{Carrier, Fate, Lease, Line, Unsent};

/// All of one thread.
#[derive(Debug)]
pub struct Pool {
    tasks: TaskTracker,
    sandboxes: Mutex<HashMap<SandboxId, Arc<Origins>>>,
}

/// One sandbox's origins.
#[derive(Debug)]
pub struct Origins {
    subject: Weak<Subject>,
    tls: Mutex<Vec<(Option<IdentityKey>, Arc<OriginTls>)>>,
    known: Mutex<HashMap<Origin, Known>>,
}

/// Whom a connection is to, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The permitted host.
    pub host: Host,
    /// The permitted port.
    pub port: Port,
    /// In TLS.
    pub secure: bool,
    /// The client certificate it was opened with.
    pub identity: Option<IdentityKey>,
}

/// What is known of one origin.
#[derive(Debug)]
struct Known {
    idle: Vec<Idle>,
    /// More than one where an origin lets few requests run on each.
    shared: Vec<Http2>,
    speaks: Option<Application>,
    dialling: Arc<Dialling>,
    used: Instant,
}

/// Whose turn it is to dial an origin.
#[derive(Debug)]
pub struct Dialling {
    turn: Arc<Semaphore>,
    failed: AtomicUsize,
}

/// The right to dial while others wait; given up when dropped.
#[derive(Debug)]
pub struct Turn {
    #[expect(dead_code, reason = "works by being dropped")]
    turn: OwnedSemaphorePermit,
    dialling: Arc<Dialling>,
}

impl Dialling {
    fn new() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            failed: AtomicUsize::new(0),
        }
    }

    /// One caller's turn; none where a dial failed that this caller waited for: who waited dials at once then,
    /// so that an origin that is gone costs everybody one deadline, and not one after another.
    pub async fn turn(self: Arc<Self>) -> Option<Turn> {
        let before = self.failed.load(Ordering::Relaxed);
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        let same = self.failed.load(Ordering::Relaxed) == before;
        same.then_some(Turn {
            turn,
            dialling: self,
        })
    }
}

impl Turn {
    /// There is nothing to share.
    pub fn failed(self) {
        self.dialling.failed.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Idle {
    carrier: Carrier,
    reached: Reached,
    since: Instant,
}

impl Pool {
    /// An empty pool; `tasks` owns what drives its connections.
    #[must_use]
    pub fn new(tasks: TaskTracker) -> Self {
        Self {
            tasks,
            sandboxes: Mutex::new(HashMap::new()),
        }
    }

    /// Owns what drives connections.
    #[must_use]
    pub const fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// The origins of one sandbox.
    #[must_use]
    pub fn of(&self, subject: &Arc<Subject>) -> Arc<Origins> {
        let mut sandboxes = self.sandboxes.lock();
        let origins = sandboxes.entry(subject.id()).or_insert_with(|| {
            let origins = Arc::new(Origins::new(subject));
            let spare: Weak<dyn Spare> = Arc::downgrade(&origins) as Weak<dyn Spare>;
            subject.places().add_spare(spare);
            origins
        });
        Arc::clone(origins)
    }

    /// Keeps the connection of a lease whose request and answer were whole.
    pub fn give_back(&self, lease: Lease) {
        let Line::Http1 { carrier, reached } = lease.line else {
            return;
        };
        if lease.last || !carrier.is_reusable() {
            return;
        }
        let mut known = lease.origins.known.lock();
        let Some(known) = known.get_mut(&lease.origin) else {
            return;
        };
        if known.idle.len() < MAX_IDLE {
            known.idle.push(Idle {
                carrier,
                reached,
                since: Instant::now(),
            });
        }
        if let Some(subject) = lease.origins.subject.upgrade() {
            subject.places().spared();
        }
    }

    /// Closes every connection that carries no request.
    pub fn clear(&self) {
        self.sandboxes.lock().clear();
    }

    /// Closes what was idle for too long and forgets sandboxes that are gone. Called now and then.
    pub fn sweep(&self) {
        let now = Instant::now();
        self.sandboxes.lock().retain(|_, origins| {
            origins.sweep(now);
            origins.subject.strong_count() > 0
        });
    }
}

impl Origins {
    fn new(subject: &Arc<Subject>) -> Self {
        Self {
            subject: Arc::downgrade(subject),
            tls: Mutex::default(),
            known: Mutex::new(HashMap::new()),
        }
    }

    /// The sandbox's TLS client side for one client certificate or none, made by `make` the first time.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn tls<E>(
        &self,
        identity: Option<IdentityKey>,
        make: impl FnOnce() -> Result<OriginTls, E>,
    ) -> Result<Arc<OriginTls>, E> {
        let mut known = self.tls.lock();
        if let Some((_, tls)) = known.iter().find(|(of, _)| *of == identity) {
            return Ok(Arc::clone(tls));
        }
        let made = Arc::new(make()?);
        if known.len() >= MAX_IDENTITIES {
            known.remove(0);
        }
        known.push((identity, Arc::clone(&made)));
        Ok(made)
    }

    /// An open connection that can take a request now. `only_http1` for upgrades.
    #[must_use]
    pub fn take(self: &Arc<Self>, origin: &Origin, only_http1: bool) -> Option<Lease> {
        let mut known = self.known.lock();
        let known = known.get_mut(origin)?;
        known.used = Instant::now();
        let line = match known.live_shared() {
            Some(shared) if !only_http1 => Line::Http2(shared),
            _ => known.live_idle()?,
        };
        Some(Lease {
            origins: Arc::clone(self),
            origin: origin.clone(),
            line,
            reused: true,
            last: false,
        })
    }

    /// What the origin spoke when last connected to.
    #[must_use]
    pub fn speaks(&self, origin: &Origin) -> Option<Application> {
        self.known.lock().get(origin)?.speaks
    }

    /// Lets one caller at a time dial an origin whose connection others could then share.
    #[must_use]
    pub fn dialling(&self, origin: &Origin) -> Arc<Dialling> {
        let mut known = self.known.lock();
        Arc::clone(
            &known
                .entry(origin.clone())
                .or_insert_with(Known::new)
                .dialling,
        )
    }

    /// Remembers what an origin speaks, and shares its connection where that is possible.
    pub fn learn(&self, origin: &Origin, line: &Line) {
        let mut known = self.known.lock();
        if known.len() >= MAX_ORIGINS && !known.contains_key(origin) {
            let oldest = known
                .iter()
                .min_by_key(|(_, k)| k.used)
                .map(|(o, _)| o.clone());
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        let entry = known.entry(origin.clone()).or_insert_with(Known::new);
        match line {
            Line::Http1 { .. } => entry.speaks = Some(Application::Http1),
            Line::Http2(shared) => {
                entry.speaks = Some(Application::Http2);
                if entry.shared.len() < MAX_SHARED {
                    entry.shared.push(shared.clone());
                }
            }
        }
    }

    fn sweep(&self, now: Instant) {
        let mut known = self.known.lock();
        known.retain(|_, known| {
            known.idle.retain(|idle| {
                idle.carrier.is_free() && now.duration_since(idle.since) < IDLE_HTTP1
            });
            if now.duration_since(known.used) >= IDLE_HTTP2 {
                known.shared.clear();
            }
            // The first is enough for an origin without many requests at once.
            let mut first = true;
            known
                .shared
                .retain(|shared| std::mem::take(&mut first) || !shared.is_unused());
            let forgotten = now.duration_since(known.used) >= FORGET_AFTER;
            !(forgotten && known.idle.is_empty() && known.shared.is_empty())
        });
    }
}

impl Spare for Origins {
    fn give_up_one(&self) -> bool {
        let mut known = self.known.lock();
        let idle = known.values_mut().filter(|known| !known.idle.is_empty());
        let oldest = idle.min_by_key(|known| known.idle.first().map(|idle| idle.since));
        if let Some(known) = oldest {
            known.idle.remove(0);
            return true;
        }
        let unused = known
            .values_mut()
            .filter(|known| known.shared.iter().any(Http2::is_unused))
            .min_by_key(|known| known.used);
        let Some(known) = unused else {
            return false;
        };
        let at = known.shared.iter().position(Http2::is_unused);
        at.map(|at| known.shared.remove(at)).is_some()
    }
}

impl Known {
    fn new() -> Self {
        Self {
            idle: Vec::new(),
            shared: Vec::new(),
            speaks: None,
            dialling: Arc::new(Dialling::new()),
            used: Instant::now(),
        }
    }

    fn live_shared(&mut self) -> Option<Http2> {
        self.shared.retain(Http2::is_live);
        self.shared.iter().find(|shared| shared.has_room()).cloned()
    }

    /// The one used last: the others may then grow old and be closed.
    fn live_idle(&mut self) -> Option<Line> {
        while let Some(idle) = self.idle.pop() {
            if idle.carrier.is_free() {
                return Some(Line::Http1 {
                    carrier: idle.carrier,
                    reached: idle.reached,
                });
            }
        }
        None
    }
}

/// As many as a sandbox may have open towards us by default, per origin and thread.
const MAX_IDLE: usize = 64;
/// As many requests at once as a program may have, where an origin lets one run on each.
const MAX_SHARED: usize = 64;
/// A sandbox has hardly more client certificates, versions of them included.
const MAX_IDENTITIES: usize = 16;
/// What is remembered per sandbox and thread; a sandbox that visits more forgets its oldest.
const MAX_ORIGINS: usize = 256;
/// Below the 60 to 75 s after which common servers close, so that few are found dead.
const IDLE_HTTP1: Duration = Duration::from_secs(50);
/// A shared connection costs little and saves a handshake.
const IDLE_HTTP2: Duration = Duration::from_secs(300);
/// What was learnt may change with the origin's next deployment.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// How often [`Pool::sweep`] is called.
pub const SWEEP_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_dial_that_failed_is_waited_for_once() {
        let dialling = Arc::new(Dialling::new());
        let turn = || Arc::clone(&dialling).turn();
        let first = turn().await.unwrap();
        let mut waiting: Vec<_> = (0..8).map(|_| Box::pin(turn())).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        first.failed();
        // They hold up nobody.
        let turns = futures_util::future::join_all(waiting).await;
        assert!(turns.iter().all(Option::is_none));
        // Who comes later waits again for one that dials.
        let next = turn().await.unwrap();
        let mut waiting = Box::pin(turn());
        assert!((&mut waiting).now_or_never().is_none());
        drop(next);
        assert!(waiting.await.is_some());
    }
}
