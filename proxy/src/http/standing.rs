//! Whether a running exchange may go on: the policy in force allows its request, and something moves.
//!
//! Each piece of a body asks before it goes, which costs a look at a number while the policy is the
//! same. Who waits is woken by the register, where a waiting request has a place of its own, and by a
//! clock. Most requests are over before either is needed: they take neither.

use std::{
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use gig_policy::DenyReason;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::session::Route;
use crate::{
    caller::Caller,
    enforce::request::{Asked, Granted},
    subject::{ConnectionFacts, ConnectionGuard},
};

/// How one exchange stands. Shared by both of its bodies.
#[derive(Debug)]
pub struct Standing {
    caller: Arc<Caller>,
    facts: ConnectionFacts,
    /// The address that only `allow_private` opened, where it went to one. Held while the place is taken.
    private: Mutex<Option<IpAddr>>,
    /// How often the policy had been replaced when it was decided.
    changes: u64,
    place: OnceLock<Result<ConnectionGuard, DenyReason>>,
    moved: AtomicU64,
}

/// Why an exchange is over before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The policy no longer allows it, or the sandbox is closed.
    Revoked(DenyReason),
    /// Nothing moved for long.
    Stalled,
}

/// Waits until an exchange is over; takes its place in the register when it is polled first.
pub struct Watch(Pin<Box<dyn Future<Output = Over> + Send>>);

impl Standing {
    /// Of a request that was allowed.
    #[must_use]
    pub fn new(caller: &Arc<Caller>, route: &Route, asked: &Asked, granted: &Granted) -> Arc<Self> {
        let facts = ConnectionFacts::new(&route.permit, Some(asked.protocol))
            .with_request(Arc::clone(&asked.method), Arc::clone(&asked.path))
            .with_secrets(granted.secrets())
            .with_word(asked.word());
        Arc::new(Self {
            caller: Arc::clone(caller),
            facts,
            private: Mutex::new(None),
            changes: asked.changes,
            place: OnceLock::new(),
            moved: AtomicU64::new(0),
        })
    }

    /// It goes over a connection to this address, where only `allow_private` opened that: once it is closed, so is what
    /// runs.
    ///
    /// # Errors
    /// Why it may not go there, where the policy was replaced since it was decided or dialled.
    pub fn reached(&self, private: Option<IpAddr>) -> Result<(), DenyReason> {
        let is_decided_now = self.changes == self.caller.subject().changes();
        {
            let mut known = self.private.lock();
            let is_new = *known != private;
            *known = private;
            match self.place.get() {
                Some(Ok(place)) if is_new => {
                    return place.permit(self.facts.clone().to_private(private));
                }
                // Of a connection that was there before the policy was replaced it may not be known yet that it is over.
                None if is_decided_now && (!is_new || self.changes == 0) => return Ok(()),
                _ => {}
            }
        }
        self.cut_in_place().map_or(Ok(()), Err)
    }

    /// Something moved, in either direction.
    pub fn touch(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    /// Why it may not go on, if it may not.
    #[must_use]
    pub fn cut_for(&self) -> Option<DenyReason> {
        if self.place.get().is_none() && self.changes == self.caller.subject().changes() {
            return self.caller.guard.cut_for();
        }
        self.cut_in_place()
    }

    /// The same of its place in the register, taken now if it has none.
    fn cut_in_place(&self) -> Option<DenyReason> {
        match self.place() {
            Ok(place) => place.cut_for(),
            Err(reason) => Some(*reason),
        }
    }

    /// Waits until it may not go on, or nothing moved for `idle`; for ever, where there is none.
    #[must_use]
    pub fn watch(self: &Arc<Self>, idle: Option<Duration>) -> Watch {
        let standing = Arc::clone(self);
        Watch(Box::pin(async move {
            let place = match standing.place() {
                Ok(place) => place,
                Err(reason) => return Over::Revoked(*reason),
            };
            tokio::select! {
                biased;
                reason = place.revoked() => Over::Revoked(reason),
                () = standing.stalled(idle) => Over::Stalled,
            }
        }))
    }

    /// Its place in the register, taken now if it has none: it is decided again then.
    fn place(&self) -> &Result<ConnectionGuard, DenyReason> {
        if let Some(place) = self.place.get() {
            return place;
        }
        let private = self.private.lock();
        let facts = || self.facts.clone().to_private(*private);
        self.place.get_or_init(|| self.caller.guard.open(facts()))
    }

    async fn stalled(&self, idle: Option<Duration>) {
        let Some(idle) = idle else {
            return std::future::pending().await;
        };
        let mut seen = self.moved.load(Ordering::Relaxed);
        let mut since = Instant::now();
        // Looked at now and then, so that what moves need not set a clock.
        let every = LOOK_EVERY.min(idle / 2);
        loop {
            sleep_until((since + idle).min(Instant::now() + every)).await;
            let now = self.moved.load(Ordering::Relaxed);
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() >= idle {
                return;
            }
        }
    }
}

impl Future for Watch {
    type Output = Over;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Over> {
        self.0.as_mut().poll(cx)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// How often it is looked whether something moved: deadlines are met within this.
const LOOK_EVERY: Duration = Duration::from_secs(15);
