//! Deadlines that span requests and bodies: does anything still move on a connection?

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// Whether anything moves on a connection: coarse, for deadlines that span requests and bodies.
#[derive(Debug, Default)]
pub struct Activity {
    moved: AtomicU64,
    busy: AtomicUsize,
    held: AtomicUsize,
}

impl Activity {
    /// Something moved.
    pub fn touch(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    /// A request runs until the value is dropped.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.touch();
        Busy {
            activity: Arc::clone(self),
            holds: false,
        }
    }

    /// Whether a request runs.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    /// Completes when nothing moved for `running` while a request runs, or for `waiting` (with some
    /// grace) while none does.
    pub async fn stalled(&self, running: Duration, waiting: Duration) {
        let mut seen = self.moved.load(Ordering::Relaxed);
        let mut since = Instant::now();
        loop {
            tokio::time::sleep(LOOK_EVERY.min(running / 2).min(waiting / 2)).await;
            let now = self.moved.load(Ordering::Relaxed);
            if now != seen || self.held.load(Ordering::Relaxed) > 0 {
                (seen, since) = (now, Instant::now());
                continue;
            }
            let most = if self.busy.load(Ordering::Relaxed) > 0 {
                running
            } else {
                waiting
            };
            if since.elapsed() >= most {
                return;
            }
        }
    }
}

/// A running request.
#[derive(Debug)]
pub struct Busy {
    activity: Arc<Activity>,
    holds: bool,
}

impl Busy {
    /// Its bytes no longer count here: who passes them minds their deadline.
    pub fn hold(&mut self) {
        if !std::mem::replace(&mut self.holds, true) {
            self.activity.held.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.holds {
            self.activity.held.fetch_sub(1, Ordering::Relaxed);
        }
        self.activity.busy.fetch_sub(1, Ordering::Relaxed);
        self.activity.touch();
    }
}

/// How often it is looked whether something moved: deadlines are met within this.
const LOOK_EVERY: Duration = Duration::from_secs(15);
