//! What time it is: versions end, grants run out, grace times pass.

use std::{
    fmt,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use jiff::Timestamp;

/// Tells the time; handed to whoever needs it.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands until it is moved: what depends on time is shown with it, without waiting.
#[derive(Debug)]
pub struct StoppedClock(AtomicI64);

impl StoppedClock {
    /// Stands at `at`, to the second.
    #[must_use]
    pub fn at(at: Timestamp) -> Self {
        Self(AtomicI64::new(at.as_second()))
    }

    /// Moves it on, by whole seconds.
    pub fn advance(&self, by: Duration) {
        let seconds = i64::try_from(by.as_secs()).unwrap_or(i64::MAX);
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::SeqCst)).unwrap_or(Timestamp::MAX)
    }
}

/// `at` and `span` later; the end of time where that is past it.
#[must_use]
pub fn after(at: Timestamp, span: Duration) -> Timestamp {
    at.checked_add(span).unwrap_or(Timestamp::MAX)
}
