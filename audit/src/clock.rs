//! The one home of the clock in this crate: wall time as it stands in a record.

use std::time::Duration;

use jiff::Timestamp;

/// RFC 3339 in UTC with microseconds: `2026-11-21T09:30:00.000001Z`.
pub(crate) fn now_text() -> String {
    format!("{:.6}", Timestamp::now())
}

/// A moment on the monotonic clock, to measure how long something took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(std::time::Instant);

impl Moment {
    #[expect(clippy::disallowed_methods, reason = "this file is the clock's home")]
    pub(crate) fn now() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        Self::now().0.saturating_duration_since(self.0)
    }
}
