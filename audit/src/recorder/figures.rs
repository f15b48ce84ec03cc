//! What a recorder counts of its own work.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use crate::entry::Entry;

/// What a recorder has done since it began, and what waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderFigures {
    /// Entries that wait to be written now.
    pub queued: usize,
    /// Entries that were refused: whoever asked let nothing leave.
    pub refused: u64,
    /// Groups that were handed over.
    pub groups: u64,
    /// How long that took, all together: to the kernel, or to the disk where the record is strict.
    pub writing: Duration,
}

/// What the first group of a run begins with.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    /// That the run begins.
    pub(super) entry: Entry,
    /// What the run before refused and did not come to tell.
    pub(super) before: u64,
}

/// Shared by all who refuse and by who writes.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Refused since the last `audit.gap`, by this run.
    untold: AtomicU64,
    refused: AtomicU64,
    groups: AtomicU64,
    nanoseconds: AtomicU64,
    /// Until it is written.
    opening: Mutex<Option<Opening>>,
    is_opening: AtomicBool,
    /// Nobody counts any more.
    closed: Mutex<bool>,
    /// Wakes who keeps the count elsewhere.
    changed: Condvar,
}

impl Tally {
    /// So many were refused.
    pub(super) fn refuse(&self, count: u64) {
        self.untold.fetch_add(count, Relaxed);
        self.refused.fetch_add(count, Relaxed);
        self.tell_change();
    }

    /// How many were refused of which no record tells yet; of the run before, too.
    pub(super) fn untold(&self) -> u64 {
        let before = self.opening.lock().as_ref().map_or(0, |one| one.before);
        self.untold.load(Relaxed).saturating_add(before)
    }

    /// Whether something has to be told that nobody hands in.
    pub(super) fn owes(&self) -> bool {
        self.untold.load(Relaxed) > 0 || self.is_opening.load(Relaxed)
    }

    /// What this run refused and the next group tells; it counts until that is written.
    pub(super) fn to_tell(&self) -> u64 {
        self.untold.load(Relaxed)
    }

    /// What the next group shall begin with.
    pub(super) fn open(&self, opening: Opening) {
        *self.opening.lock() = Some(opening);
        self.is_opening.store(true, Relaxed);
        self.tell_change();
    }

    /// What the next group has to begin with.
    pub(super) fn opening(&self) -> Option<Opening> {
        self.is_opening
            .load(Relaxed)
            .then(|| self.opening.lock().clone())?
    }

    /// It is written: it began so, or not, and told of so many.
    pub(super) fn told(&self, opened: bool, count: u64) {
        self.untold.fetch_sub(count, Relaxed);
        if opened {
            *self.opening.lock() = None;
            self.is_opening.store(false, Relaxed);
        }
        if opened || count > 0 {
            self.tell_change();
        }
    }

    /// Waits until what is not told is another count than `known`; `None` when nobody counts any more.
    pub(super) fn wait_untold(&self, known: u64) -> Option<u64> {
        let mut closed = self.closed.lock();
        loop {
            let now = self.untold();
            if now != known {
                return Some(now);
            }
            if *closed {
                return None;
            }
            self.changed.wait(&mut closed);
        }
    }

    pub(super) fn close(&self) {
        *self.closed.lock() = true;
        self.changed.notify_all();
    }

    fn tell_change(&self) {
        // Whoever looks and finds nothing new waits before this has the lock.
        drop(self.closed.lock());
        self.changed.notify_all();
    }

    /// A group was handed over, in this time.
    pub(super) fn wrote(&self, took: Duration) {
        self.groups.fetch_add(1, Relaxed);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(took, Relaxed);
    }

    pub(super) fn figures(&self, queued: usize) -> RecorderFigures {
        RecorderFigures {
            queued,
            refused: self.refused.load(Relaxed),
            groups: self.groups.load(Relaxed),
            writing: Duration::from_nanos(self.nanoseconds.load(Relaxed)),
        }
    }
}
