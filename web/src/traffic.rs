//! What is recorded, counted since the start: for `/metrics`, and for the overview of who does not read the record.
//!
//! One atomic addition or two for each record, on the thread that writes it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gig_audit::{Entry, Event, VerdictWord, is_alarm};
use gig_policy::DenyReason;

use crate::lately::Hour;

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
    /// Counts what was written. Decisions are what the record's own counts take: names, connections and requests, each
    /// once. What became of them is none, and no more is the alarm that tells of one beside it; only what was refused
    /// after it was let, as an address that turned out to be private, is a denial of its own.
    pub fn count(&self, entry: &Entry) {
        self.records.fetch_add(1, Relaxed);
        if is_alarm(
            entry.event.as_str(),
            entry.verdict == Some(VerdictWord::Deny),
        ) {
            self.alarms.fetch_add(1, Relaxed);
        }
        let stands_for = gig_audit::counted(&entry.findings);
        match (entry.event, entry.verdict) {
            (Event::Dns | Event::Connect | Event::Request, _)
            | (Event::Response, Some(VerdictWord::Deny)) => {}
            _ => return,
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

    /// All of them since the start.
    pub(crate) fn decisions(&self) -> Hour {
        Hour {
            begins: String::new(),
            allowed: self.allowed.load(Relaxed),
            denied: self.denied.load(Relaxed),
            would_deny: self.would_deny.load(Relaxed),
        }
    }

    /// How often each reason denied something: all of the closed vocabulary.
    pub(crate) fn denials(&self) -> impl Iterator<Item = (DenyReason, u64)> + '_ {
        let known = DenyReason::ALL.iter().zip(&self.reasons);
        known.map(|(reason, counter)| (*reason, counter.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_request_and_its_alarm_are_no_further_decisions() {
        let traffic = Traffic::default();
        let record = |event, verdict| {
            let mut entry = Entry::new(event);
            (entry.host, entry.verdict) = (Some("api.example".into()), Some(verdict));
            traffic.count(&entry);
        };
        for event in [Event::Connect, Event::Request, Event::Response] {
            record(event, VerdictWord::Allow);
            record(event, VerdictWord::WouldDeny);
        }
        record(Event::Request, VerdictWord::Deny);
        record(Event::SecretMisuse, VerdictWord::Deny);
        let counted = || {
            let all = [&traffic.allowed, &traffic.would_deny, &traffic.denied];
            all.map(|count| count.load(Relaxed))
        };
        assert_eq!(counted(), [2, 2, 1]);
        assert_eq!(traffic.alarms.load(Relaxed), 1);
        // Its address was refused when it was dialled: allowed before, and denied after all.
        record(Event::Response, VerdictWord::Deny);
        assert_eq!(counted(), [2, 2, 2]);
    }
}
