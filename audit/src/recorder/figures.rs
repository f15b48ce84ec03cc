//! What a recorder counts of its own work.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use crate::{clock::now_text, entry::Entry};

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

/// From when to when something was refused, as records have times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: String,
    pub(super) last: String,
}

/// Shared by all who refuse and by who writes.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Refused since the last `audit.gap`, by this run.
    untold: AtomicU64,
    /// When the first and the last of those was refused.
    span: Mutex<Option<Span>>,
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
        let now = now_text();
        match &mut *self.span.lock() {
            Some(span) => span.last = now,
            none => {
                let first = now.clone();
                *none = Some(Span { first, last: now });
            }
        }
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

    /// What this run refused and the next group tells, and when that was; it counts until that is written.
    pub(super) fn to_tell(&self) -> (u64, Option<Span>) {
        let count = self.untold.load(Relaxed);
        (count, self.span.lock().clone().filter(|_| count > 0))
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
        let before = self.untold.fetch_sub(count, Relaxed);
        if count > 0 {
            let mut span = self.span.lock();
            // What was refused meanwhile was refused lately.
            *span = span.take().filter(|_| before > count).map(|span| Span {
                first: span.last.clone(),
                ..span
            });
        }
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
