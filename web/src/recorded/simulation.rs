//! What a simulation tells: lists, counts, and the same in words.

use std::collections::HashSet;

use gig_policy::{Change, Replay};
use serde::Serialize;
use utoipa::ToSchema;

use super::{LONGEST, LONGEST_PLACE, MOST_LISTED, NO_PART, cut, reading::Recorded};

/// What is listed, how many there are, those, and what is said of the rule and of none.
pub(crate) type Part<'a> = (
    &'static str,
    usize,
    &'a [Differs],
    (&'static str, &'static str),
);

/// What a draft would do with recorded traffic. Limits take no part, nor does where in a request a secret stood.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Simulation {
    /// Records that were taken into account.
    pub(crate) records: u64,
    /// Records that this gig cannot read: a later one wrote them.
    pub(crate) unreadable: u64,
    /// Requests whose path was cut when it was recorded, and of which the answer depends on it.
    pub(crate) path_not_known: u64,
    /// Whether everything of the time that was asked for was taken into account.
    pub(crate) complete: bool,
    /// What was, in a sentence.
    pub(crate) covered: String,
    /// Was denied and would pass, by a rule or because the draft observes; most frequent first.
    pub(crate) newly_allowed: Vec<Differs>,
    /// Passed, by a rule or because a policy observed, and would be denied; most frequent first.
    pub(crate) newly_denied: Vec<Differs>,
    /// Would pass only because the draft, or what bounds it, observes, and would be denied under `mode: enforce`.
    pub(crate) only_observed: Vec<Differs>,
    /// How many different ones there are; the lists end after 200.
    pub(crate) newly_allowed_total: usize,
    pub(crate) newly_denied_total: usize,
    pub(crate) only_observed_total: usize,
    pub(crate) still_allowed: u64,
    pub(crate) still_denied: u64,
    /// Denied, or let pass by observing, for a reason that no rule decides.
    pub(crate) not_decided_by_rules: u64,
    /// Passed then and is denied now by a floor, whatever the draft says.
    pub(crate) denied_by_floors: Vec<ByPolicy>,
    /// Passed then and is denied now by the policy beneath, whatever a draft of a floor says.
    pub(crate) denied_by_policies: Vec<ByPolicy>,
}

/// What another policy that is in force denies of what passed once.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ByPolicy {
    /// Its name.
    pub(crate) policy: String,
    pub(crate) count: u64,
}

/// One thing that a draft decides otherwise.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Differs {
    /// `GET https://api.example.com:443/user`.
    pub(crate) asked: String,
    pub(crate) count: u64,
    pub(crate) first: String,
    pub(crate) last: String,
    /// The rule that lets it pass, or came nearest; null, too, where it passes by observing alone.
    pub(crate) rule: Option<String>,
    /// Why it was denied before, would be now, or would be under `mode: enforce`.
    pub(crate) reason: String,
    /// The policy's newest version decides so already: it is no change of the draft's.
    pub(crate) already: bool,
}

impl From<Change> for Differs {
    fn from(change: Change) -> Self {
        Self {
            asked: change.asked.to_string(),
            count: change.count,
            first: change.first.to_string(),
            last: change.last.to_string(),
            rule: change.rule.map(|rule| rule.to_string()),
            reason: change.reason.to_string(),
            already: false,
        }
    }
}

impl Differs {
    /// Cut: hosts and paths are the sandbox's own words. A host is whole: its end says whose it is.
    pub(crate) fn short(&self) -> String {
        let from = self.asked.find("://").map_or(0, |at| at + 3);
        let path = self.asked.get(from..).and_then(|rest| rest.find('/'));
        match path.and_then(|at| self.asked.split_at_checked(from + at)) {
            Some((place, path)) => {
                let room = LONGEST.saturating_sub(place.chars().count());
                format!("{place}{}", cut(path, room))
            }
            None => cut(&self.asked, LONGEST_PLACE),
        }
    }

    /// To the second.
    pub(crate) fn moment(&self) -> String {
        let seconds = self.last.chars().take(19);
        seconds.map(|c| if c == 'T' { ' ' } else { c }).collect()
    }
}

impl Simulation {
    /// The lists, as shown: what they are, how many there are, and what the rule did, or what none means.
    pub(crate) fn parts(&self) -> Vec<Part<'_>> {
        let mut parts = vec![
            (
                "It would newly allow",
                self.newly_allowed_total,
                self.newly_allowed.as_slice(),
                ("Rule that allows it", "observing alone"),
            ),
            (
                "It would newly deny",
                self.newly_denied_total,
                self.newly_denied.as_slice(),
                ("Nearest rule", "none"),
            ),
        ];
        if self.only_observed_total > 0 {
            parts.push((
                "It passes by observing alone, and would be denied under mode: enforce",
                self.only_observed_total,
                self.only_observed.as_slice(),
                ("Nearest rule", "none"),
            ));
        }
        parts
    }

    pub(super) fn of(replay: Replay, read: &Recorded) -> Self {
        let listed = |changes: Vec<Change>| -> Vec<Differs> {
            let changes = changes.into_iter().take(MOST_LISTED);
            changes.map(Into::into).collect()
        };
        let others = |floor: bool| -> Vec<ByPolicy> {
            let others = replay.by_others.iter();
            let others = others.filter(|(denier, _)| denier.floor == floor);
            others
                .map(|(denier, count)| ByPolicy {
                    policy: denier.policy.to_string(),
                    count: *count,
                })
                .collect()
        };
        Self {
            records: read.records(),
            unreadable: read.unreadable,
            path_not_known: replay.path_unknown,
            complete: read.extent.is_complete(),
            covered: read.extent.words(),
            newly_allowed_total: replay.newly_allowed.len(),
            newly_denied_total: replay.newly_denied.len(),
            only_observed_total: replay.only_observed.len(),
            still_allowed: replay.still_allowed,
            still_denied: replay.still_denied,
            not_decided_by_rules: replay.not_of_rules,
            denied_by_floors: others(true),
            denied_by_policies: others(false),
            newly_allowed: listed(replay.newly_allowed),
            newly_denied: listed(replay.newly_denied),
            only_observed: listed(replay.only_observed),
        }
    }

    /// Marks what the policy's newest version, of whose decisions `newest` tells, does already.
    pub(super) fn beside(mut self, newest: &Replay) -> Self {
        let mark = |listed: &mut [Differs], known: &[Change]| {
            let known: HashSet<String> = known.iter().map(|one| one.asked.to_string()).collect();
            for one in listed {
                one.already = known.contains(&one.asked);
            }
        };
        mark(&mut self.newly_allowed, &newest.newly_allowed);
        mark(&mut self.newly_denied, &newest.newly_denied);
        mark(&mut self.only_observed, &newest.only_observed);
        self
    }

    /// In a line.
    pub(crate) fn words(&self) -> String {
        let unread = match self.unreadable {
            0 => String::new(),
            count => format!(" ({count} more cannot be read by this gig)"),
        };
        let cut = match self.path_not_known {
            0 => String::new(),
            count => format!(" {count} are not known: their path was cut when it was recorded."),
        };
        let told = |words: &str, all: &[ByPolicy]| -> String {
            let told = all.iter().map(|one| {
                format!(
                    " {} passed then and are denied by the {words} {} now, whatever this document says.",
                    one.count, one.policy
                )
            });
            told.collect()
        };
        format!(
            "{} records{unread}. {} The same: {} allowed, {} denied; {} denied for a reason that no rule decides.{cut}{}{} \
             {NO_PART}",
            self.records,
            self.covered,
            self.still_allowed,
            self.still_denied,
            self.not_decided_by_rules,
            told("floor", &self.denied_by_floors),
            told("policy", &self.denied_by_policies)
        )
    }
}
