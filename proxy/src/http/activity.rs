//! Deadlines that span requests and bodies: does anything still move on a connection?

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Whether anything moves on a connection: coarse, for deadlines that span requests and bodies.
#[derive(Debug, Default)]
pub struct Activity {
    moved: AtomicU64,
    busy: AtomicUsize,
    held: AtomicUsize,
    /// All of the last request came.
    whole: AtomicBool,
    /// When all of the last request was handed to its origin's connection.
    handed: Mutex<Option<Instant>>,
}

impl Activity {
    /// Something moved.
    pub fn touch(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    /// A request begins, of a connection that has one at a time. `whole`: no body follows.
    pub fn begin(&self, whole: bool) {
        self.whole.store(whole, Ordering::Relaxed);
        *self.handed.lock() = None;
    }

    /// All of a request was handed to its origin's connection.
    pub fn hand(&self) {
        self.whole.store(true, Ordering::Relaxed);
        *self.handed.lock() = Some(Instant::now());
    }

    /// Completes when the last request was handed over and has had `time` since then.
    pub async fn gone(&self, time: Duration) {
        loop {
            let handed = *self.handed.lock();
            if let Some(handed) = handed {
                return tokio::time::sleep_until(handed + time).await;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
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

    /// Whether a request runs of which nothing more comes; of a connection that has one at a time.
    #[must_use]
    pub fn is_answering(&self) -> bool {
        self.is_busy() && self.whole.load(Ordering::Relaxed)
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
/// While a program that has gone is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
