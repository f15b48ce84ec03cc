//! What is recorded, counted since the start: for the overview's first line and for `/metrics`.
//!
//! One atomic addition or two for each record, on the thread that writes it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gig_audit::{Entry, VerdictWord, is_alarm};
use gig_policy::DenyReason;

/// Decisions since the start, counted as they are recorded.
#[derive(Debug)]
pub struct Traffic {
    /// It went.
    pub allowed: AtomicU64,
    /// It did not.
    pub denied: AtomicU64,
    /// It went under a policy that only observes.
    pub would_deny: AtomicU64,
    /// Of any kind.
    pub records: AtomicU64,
    /// That somebody should look at.
    pub alarms: AtomicU64,
    /// Of what did not go, each reason in the order of the vocabulary.
    reasons: Box<[AtomicU64]>,
}

impl Default for Traffic {
    fn default() -> Self {
        let count = || AtomicU64::new(0);
        Self {
            allowed: count(),
            denied: count(),
            would_deny: count(),
            records: count(),
            alarms: count(),
            reasons: DenyReason::ALL.iter().map(|_| count()).collect(),
        }
    }
}

impl Traffic {
    /// Counts what was written. Decisions about a sandbox's way out are told apart from what people did.
    pub fn count(&self, entry: &Entry) {
        self.records.fetch_add(1, Relaxed);
        if is_alarm(
            entry.event.as_str(),
            entry.verdict == Some(VerdictWord::Deny),
        ) {
            self.alarms.fetch_add(1, Relaxed);
        }
        let stands_for = gig_audit::counted(&entry.findings);
        if entry.host.is_none() && stands_for.is_none() {
            return;
        }
        let one = |counter: &AtomicU64| {
            counter.fetch_add(stands_for.unwrap_or(1), Relaxed);
        };
        match entry.verdict {
            Some(VerdictWord::Allow) => one(&self.allowed),
            Some(VerdictWord::Deny) => {
                one(&self.denied);
                let known = DenyReason::ALL.iter().zip(&self.reasons);
                let theirs = known.filter(|(reason, _)| Some(**reason) == entry.reason);
                theirs.for_each(|(_, counter)| one(counter));
            }
            Some(VerdictWord::WouldDeny) => one(&self.would_deny),
            None => {}
        }
    }

    /// How often each reason denied something: all of the closed vocabulary.
    pub(crate) fn denials(&self) -> impl Iterator<Item = (DenyReason, u64)> + '_ {
        let known = DenyReason::ALL.iter().zip(&self.reasons);
        known.map(|(reason, counter)| (*reason, counter.load(Relaxed)))
    }
}
