//! What a policy would have done with what was recorded: newly allowed, newly denied, the same.
//!
//! The questions go to the code that enforces. What was denied for a reason that no rule decides (a
//! limit, a misused secret, an origin's fault, an address that is not known) is counted and left out; what
//! passed and carried a secret must be allowed to. Limits take no part.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    attempt::{Asked, Attempt, Outcome},
    deny_reason::DenyReason,
    policy::Policy,
    verdict::RuleRef,
};

/// A comparison of what was with what a policy says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replay {
    /// Was denied; the policy lets it pass. Most frequent first.
    pub newly_allowed: Vec<Change>,
    /// Passed; the policy denies it. Most frequent first.
    pub newly_denied: Vec<Change>,
    /// Attempts that passed and would pass.
    pub still_allowed: u64,
    /// Attempts that were denied and would be.
    pub still_denied: u64,
    /// Attempts that were denied for a reason that no rule decides.
    pub not_of_rules: u64,
    /// Attempts that passed then and that a floor denies now, by floor: whatever the policy says of them.
    pub by_floor: BTreeMap<Arc<str>, u64>,
}

/// One thing that the policy decides otherwise than it was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What was asked for.
    pub asked: Asked,
    /// How often.
    pub count: u64,
    /// When first.
    pub first: Arc<str>,
    /// When last.
    pub last: Arc<str>,
    /// The rule that lets it pass, or came nearest.
    pub rule: Option<RuleRef>,
    /// Why it was denied before, or is denied now.
    pub reason: DenyReason,
}

impl Policy {
    /// Decides on attempts again and compares.
    #[must_use]
    pub fn replay<'a>(&self, attempts: impl IntoIterator<Item = &'a Attempt>) -> Replay {
        let mut replay = Replay::default();
        let mut allowed = BTreeMap::new();
        let mut denied = BTreeMap::new();
        for attempt in attempts {
            if !attempt.is_of_rules() {
                replay.not_of_rules += attempt.count;
                continue;
            }
            match (attempt.outcome, self.covers_attempt(attempt)) {
                (Outcome::Allowed, Ok(_)) => replay.still_allowed += attempt.count,
                (Outcome::Denied(_), Err(_)) => replay.still_denied += attempt.count,
                (Outcome::Denied(reason), Ok(rule)) => {
                    count(&mut allowed, attempt, rule, reason);
                }
                (Outcome::Allowed, Err(denial)) if denial.floor => {
                    let floor = replay.by_floor.entry(denial.policy.name).or_default();
                    *floor += attempt.count;
                }
                (Outcome::Allowed, Err(denial)) => {
                    count(&mut denied, attempt, denial.rule, denial.reason);
                }
            }
        }
        replay.newly_allowed = by_frequency(allowed);
        replay.newly_denied = by_frequency(denied);
        replay
    }
}

fn count<'a>(
    changes: &mut BTreeMap<&'a Asked, Change>,
    attempt: &'a Attempt,
    rule: Option<RuleRef>,
    reason: DenyReason,
) {
    let time = &attempt.time;
    let change = changes.entry(&attempt.asked).or_insert_with(|| Change {
        asked: attempt.asked.clone(),
        count: 0,
        first: Arc::clone(&attempt.first),
        last: Arc::clone(time),
        rule: None,
        reason,
    });
    change.count += attempt.count;
    if change.first > attempt.first {
        change.first = Arc::clone(&attempt.first);
    }
    if change.last <= *time {
        change.last = Arc::clone(time);
        change.rule = rule;
        change.reason = reason;
    }
}

fn by_frequency(changes: BTreeMap<&Asked, Change>) -> Vec<Change> {
    let mut changes: Vec<_> = changes.into_values().collect();
    // Stable, so that equals stay in the order of what was asked for.
    changes.sort_by_key(|change| std::cmp::Reverse(change.count));
    changes
}

#[cfg(test)]
mod tests;
