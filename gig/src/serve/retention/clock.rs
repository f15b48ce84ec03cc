//! Whether the clock is to be believed, where records are removed by it.
//!
//! What is ahead of the time that went by, since it was believed last or anything was recorded, is doubted for a
//! day of running: time for somebody to look, or for the clock to be set right. Then it is believed. A clock that
//! goes back removes less, and is believed at once.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

/// What the clocks say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Of the day, which anybody may set.
    pub(super) wall: Timestamp,
    /// Since the machine was started, also while it slept, which nobody sets.
    pub(super) running: Duration,
}

impl Reading {
    /// Now; a machine that does not say how long it runs is taken to stand still.
    pub(super) fn now() -> Self {
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let seconds = uptime.split('.').next();
        let seconds = seconds.and_then(|text| text.parse().ok());
        Self {
            wall: Timestamp::now(),
            running: Duration::from_secs(seconds.unwrap_or_default()),
        }
    }
}

/// The clock is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the clock is {hours} hours ahead of the time that went by since it was believed last: nothing is removed \
     until it goes back or a day has passed"
)]
pub(super) struct Ahead {
    hours: i64,
}

/// When it was believed last.
#[derive(Debug)]
pub(super) struct Belief {
    last: Reading,
    /// How much ahead it may be.
    allowed: SignedDuration,
    /// Since when it is doubted.
    doubted: Option<Duration>,
}

impl Belief {
    /// At a start: `last` is when it was believed, or anything recorded, before.
    pub(super) fn at_start(last: Option<Timestamp>, now: Reading) -> Self {
        Self {
            last: Reading {
                wall: last.unwrap_or(now.wall),
                running: now.running,
            },
            allowed: WHILE_OFF,
            doubted: None,
        }
    }

    /// Whether what the clocks say now is believed.
    ///
    /// # Errors
    /// When it is not, for now.
    pub(super) fn look(&mut self, now: Reading) -> Result<(), Ahead> {
        let went_by = now.running.saturating_sub(self.last.running);
        let went_by = SignedDuration::try_from(went_by).unwrap_or(SignedDuration::MAX);
        let ahead = now.wall.duration_since(self.last.wall) - went_by;
        if ahead > self.allowed {
            let since = *self.doubted.get_or_insert(now.running);
            if now.running.saturating_sub(since) < GRACE {
                let hours = ahead.as_hours();
                return Err(Ahead { hours });
            }
        }
        *self = Self {
            last: now,
            allowed: BETWEEN_LOOKS,
            doubted: None,
        };
        Ok(())
    }
}

/// Where it is kept when the clock was believed last, so that a start does not begin with what nobody believed.
#[derive(Debug)]
pub(super) struct Kept(PathBuf);

impl Kept {
    pub(super) fn of(dir: &Path) -> Self {
        Self(dir.join(FILE))
    }

    pub(super) fn read(&self) -> Option<Timestamp> {
        fs::read_to_string(&self.0).ok()?.trim().parse().ok()
    }

    /// One that cannot be written leaves the clock doubted after the next start: nothing goes too early.
    pub(super) fn write(&self, wall: Timestamp) {
        let beside = self.0.with_extension("new");
        let written = fs::write(&beside, format!("{wall}\n"));
        if let Err(error) = written.and_then(|()| fs::rename(&beside, &self.0)) {
            tracing::warn!(%error, "cannot note that the clock was believed");
        }
    }
}

/// In the data directory.
const FILE: &str = "retention.clock";
/// A clock that is set right after a start, and one that keeps bad time, are off by less.
const BETWEEN_LOOKS: SignedDuration = SignedDuration::from_hours(1);
/// An appliance that was off for a night. One that was off for longer removes nothing on its first day.
const WHILE_OFF: SignedDuration = SignedDuration::from_hours(24);
/// In a day somebody looks at health, or a machine has found a time server.
const GRACE: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock, after the machine has run for `running` hours.
    fn reading(wall: &str, running: u64) -> Reading {
        Reading {
            wall: wall.parse().unwrap(),
            running: Duration::from_hours(running),
        }
    }

    #[test]
    fn a_clock_that_jumps_ahead_removes_nothing_for_a_day_and_one_that_goes_back_is_believed() {
        let mut belief = Belief::at_start(None, reading("2026-11-01T00:00:00Z", 5));
        assert_eq!(belief.look(reading("2026-11-01T00:00:00Z", 5)), Ok(()));
        assert_eq!(belief.look(reading("2026-11-01T01:40:00Z", 6)), Ok(()));
        let ahead = belief.look(reading("2096-11-01T02:40:00Z", 7)).unwrap_err();
        assert_eq!(ahead.hours, 613_632);
        assert!(belief.look(reading("2096-11-01T03:40:00Z", 8)).is_err());
        assert_eq!(belief.look(reading("2026-11-01T03:40:00Z", 8)), Ok(()));
        // A day is counted from the first doubt.
        assert!(belief.look(reading("2026-12-01T00:00:00Z", 9)).is_err());
        assert!(belief.look(reading("2026-12-01T23:00:00Z", 32)).is_err());
        assert_eq!(belief.look(reading("2026-12-02T00:00:00Z", 33)), Ok(()));
        assert_eq!(belief.look(reading("2026-12-02T01:00:00Z", 34)), Ok(()));
        // A machine that slept was not set ahead.
        assert_eq!(belief.look(reading("2026-12-09T01:00:00Z", 202)), Ok(()));
        assert_eq!(belief.look(reading("1970-01-01T00:00:00Z", 203)), Ok(()));
    }

    #[test]
    fn a_start_far_behind_what_was_recorded_last_is_doubted_and_a_night_is_not() {
        let last = Some("2026-11-01T18:00:00Z".parse().unwrap());
        let morning = reading("2026-11-02T08:00:00Z", 1);
        assert_eq!(Belief::at_start(last, morning).look(morning), Ok(()));
        let later = reading("2026-11-20T08:00:00Z", 1);
        let mut belief = Belief::at_start(last, later);
        assert!(belief.look(later).is_err());
        assert_eq!(belief.look(reading("2026-11-21T08:00:00Z", 25)), Ok(()));
    }

    #[test]
    fn what_was_believed_last_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::of(folder.path());
        assert_eq!(kept.read(), None);
        let wall = "2026-11-01T18:00:00Z".parse().unwrap();
        kept.write(wall);
        assert_eq!(kept.read(), Some(wall));
        assert!(Reading::now().running > Duration::ZERO);
    }
}
