//! What is in force and what the store says, while a policy is changed.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether what is in force is what the store says, while a policy is changed: unless it is dispelled, also
/// by a panic, whoever follows the store looks again.
pub(super) struct Doubt<'a> {
    undecided: &'a AtomicBool,
    stands: bool,
}

impl<'a> Doubt<'a> {
    pub(super) const fn of(undecided: &'a AtomicBool) -> Self {
        Self {
            undecided,
            stands: true,
        }
    }

    pub(super) fn dispelled(mut self) {
        self.stands = false;
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if self.stands {
            self.undecided.store(true, Ordering::Relaxed);
        }
    }
}
