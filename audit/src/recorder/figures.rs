//! What a recorder counts of its own work.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

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

/// Shared by all who refuse and by who writes.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Refused since the last `audit.gap`.
    untold: AtomicU64,
    refused: AtomicU64,
    groups: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Tally {
    /// So many were refused.
    pub(super) fn refuse(&self, count: u64) {
        self.untold.fetch_add(count, Relaxed);
        self.refused.fetch_add(count, Relaxed);
    }

    /// How many were refused of which no record tells yet.
    pub(super) fn untold(&self) -> u64 {
        self.untold.load(Relaxed)
    }

    /// The same, about to be told.
    pub(super) fn take_untold(&self) -> u64 {
        self.untold.swap(0, Relaxed)
    }

    /// It could not be told after all.
    pub(super) fn put_back(&self, count: u64) {
        self.untold.fetch_add(count, Relaxed);
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
