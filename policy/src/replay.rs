//! What a policy would have done with what was recorded: newly allowed, newly denied, the same.
//!
//! The questions go to the code that enforces. What passed, passed by a rule or because a policy only observed, then as
//! under the draft: what the draft lets pass by observing alone is listed beside. What was denied for a reason that no
//! rule decides (a limit, a misused secret, an origin's fault, an address that is not known) is counted and left out, and
//! so is what depends on a path of which only a part is recorded; what passed and carried a secret must be allowed to.
//! Limits take no part.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use crate::{
    attempt::{Asked, Attempt, Decided, Outcome},
    deny_reason::DenyReason,
    policy::Policy,
    verdict::{Denial, RuleRef},
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
    /// Passes because the policy only observes, and would be denied if it enforced; in the lists above, too, where it
    /// was denied. Most frequent first.
    pub only_observed: Vec<Change>,
    /// Attempts that were denied, or would have been, for a reason that no rule decides.
    pub not_of_rules: u64,
    /// Attempts of which the answer depends on a path that was cut when it was recorded.
    pub path_unknown: u64,
    /// Attempts that passed then and that others deny now, by policy: whatever the draft says of them.
    pub by_others: BTreeMap<Denier, u64>,
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
    /// The rule that lets it pass, or came nearest; `None`, too, where it passes by observing alone.
    pub rule: Option<RuleRef>,
    /// Why it was denied before, is denied now, or would be if the policy enforced.
    pub reason: DenyReason,
}

/// Another policy than the draft.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denier {
    /// Its name.
    pub policy: Arc<str>,
    /// It bounds what the policy beneath it allows.
    pub floor: bool,
}

impl Policy {
    /// Decides on attempts again and compares. This policy is the draft, whatever bounds it.
    #[must_use]
    pub fn replay<'a>(&self, attempts: impl IntoIterator<Item = &'a Attempt>) -> Replay {
        // A floor that refuses is named, whatever the policy says.
        let of_others = |_: &Attempt, denial: &Denial| denial.floor.then(|| denial.into());
        self.compared(attempts, of_others)
    }

    /// The same where the draft is a change of what bounds this policy or stands in its place; `without` is what decides
    /// without that change, as this policy without the floor that is the draft.
    #[must_use]
    pub fn replay_beneath<'a>(
        &self,
        without: &Self,
        attempts: impl IntoIterator<Item = &'a Attempt>,
    ) -> Replay {
        let of_others = |attempt: &Attempt, _: &Denial| match without.decided(attempt) {
            Decided::Denied(denial) => Some((&*denial).into()),
            Decided::Passes(_) | Decided::PathUnknown(_) => None,
        };
        self.compared(attempts, of_others)
    }

    /// `of_others`: who denies an attempt, where it is not the draft.
    fn compared<'a>(
        &self,
        attempts: impl IntoIterator<Item = &'a Attempt>,
        of_others: impl Fn(&Attempt, &Denial) -> Option<Denier>,
    ) -> Replay {
        let mut replay = Replay::default();
        let (mut allowed, mut denied) = (BTreeMap::new(), BTreeMap::new());
        let mut observed = BTreeMap::new();
        for attempt in attempts {
            let (count, outcome) = (attempt.count, attempt.outcome);
            let of_rules = attempt.is_of_rules();
            if !outcome.passed() && !of_rules {
                replay.not_of_rules += count;
                continue;
            }
            let passage = match self.decided(attempt) {
                Decided::PathUnknown(_) => {
                    replay.path_unknown += count;
                    continue;
                }
                Decided::Denied(_) if !outcome.passed() => {
                    replay.still_denied += count;
                    continue;
                }
                Decided::Denied(denial) => {
                    match of_others(attempt, &denial) {
                        Some(other) => *replay.by_others.entry(other).or_default() += count,
                        None => add(&mut denied, attempt, denial.rule, denial.reason),
                    }
                    continue;
                }
                Decided::Passes(passage) => passage,
            };
            let rule = match passage.would_deny {
                // It passes, and whether by a rule is not known.
                Some(denial) if is_unknown(attempt, &denial) => None,
                Some(denial) => {
                    add(&mut observed, attempt, denial.rule, denial.reason);
                    None
                }
                // A rule lets it go, and what would have been denied of it was no rule's.
                None if !of_rules => {
                    replay.not_of_rules += count;
                    continue;
                }
                None => passage.rule,
            };
            match outcome {
                Outcome::Allowed | Outcome::Observed(_) => replay.still_allowed += count,
                Outcome::Denied(reason) => add(&mut allowed, attempt, rule, reason),
            }
        }
        replay.newly_allowed = by_frequency(allowed);
        replay.newly_denied = by_frequency(denied);
        replay.only_observed = by_frequency(observed);
        replay
    }
}

impl Replay {
    /// One comparison of two; what both tell of is told once.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.newly_allowed = together(self.newly_allowed, other.newly_allowed);
        self.newly_denied = together(self.newly_denied, other.newly_denied);
        self.only_observed = together(self.only_observed, other.only_observed);
        self.still_allowed += other.still_allowed;
        self.still_denied += other.still_denied;
        self.not_of_rules += other.not_of_rules;
        self.path_unknown += other.path_unknown;
        for (denier, count) in other.by_others {
            *self.by_others.entry(denier).or_default() += count;
        }
        self
    }
}

impl From<&Denial> for Denier {
    fn from(denial: &Denial) -> Self {
        Self {
            policy: Arc::clone(&denial.policy.name),
            floor: denial.floor,
        }
    }
}

/// Whether it would be denied only where no rule speaks of the path that was cut.
fn is_unknown(attempt: &Attempt, denial: &Denial) -> bool {
    denial.reason == DenyReason::PathNotAllowed && attempt.asked.is_cut()
}

fn together(one: Vec<Change>, other: Vec<Change>) -> Vec<Change> {
    if one.is_empty() || other.is_empty() {
        return [one, other].concat();
    }
    let mut changes: BTreeMap<Asked, Change> = BTreeMap::new();
    for change in one.into_iter().chain(other) {
        match changes.entry(change.asked.clone()) {
            Entry::Vacant(place) => {
                place.insert(change);
            }
            Entry::Occupied(known) => known.into_mut().take(change),
        }
    }
    by_frequency(changes)
}

impl Change {
    /// Takes in another change of the same: what was last says why.
    fn take(&mut self, other: Self) {
        self.count += other.count;
        if self.first > other.first {
            self.first = other.first;
        }
        if self.last <= other.last {
            self.last = other.last;
            self.rule = other.rule;
            self.reason = other.reason;
        }
    }
}

fn add<'a>(
    changes: &mut BTreeMap<&'a Asked, Change>,
    attempt: &'a Attempt,
    rule: Option<RuleRef>,
    reason: DenyReason,
) {
    let change = Change {
        asked: attempt.asked.clone(),
        count: attempt.count,
        first: Arc::clone(&attempt.first),
        last: Arc::clone(&attempt.time),
        rule,
        reason,
    };
    match changes.entry(&attempt.asked) {
        Entry::Vacant(place) => {
            place.insert(change);
        }
        Entry::Occupied(known) => known.into_mut().take(change),
    }
}

fn by_frequency<K>(changes: BTreeMap<K, Change>) -> Vec<Change> {
    let mut changes: Vec<_> = changes.into_values().collect();
    // Stable, so that equals stay in the order of what was asked for.
    changes.sort_by_key(|change| std::cmp::Reverse(change.count));
    changes
}

#[cfg(test)]
mod tests;
