//! What was decided lately, for the overview: over time, the destinations asked for most, and those that
//! nobody asked for before this week.
//!
//! The record's counts are read, which tell of every decision however many there are. What they do not tell
//! (yet) is said. What was read is kept for [`FRESH`], so that many who look cost one reading.

use std::{collections::HashMap, sync::Arc, time::Duration};

use gig_audit::{
    counts::{DAYS, Decided, HostCount, HourCount, MOST_HOSTS},
    retention::Class,
};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};

use crate::{api_error::Problem, app::App};

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Lately {
    /// The last hours, oldest first; the last one is not over.
    pub(crate) hours: Vec<Hour>,
    /// Most decisions first.
    pub(crate) busiest: Vec<Destination>,
    /// How many more there are.
    pub(crate) more_busy: usize,
    /// Asked for this week for the first time: those that were let pass first, servers in turn, of each the newest
    /// first.
    pub(crate) new: Vec<Destination>,
    /// How many more there are.
    pub(crate) more_new: usize,
    /// What the numbers leave out, in sentences.
    pub(crate) notes: Vec<String>,
}

/// Decisions of one hour, or of some.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hour {
    /// `2026-11-21 09:00`, UTC.
    pub(crate) begins: String,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) would_deny: u64,
}

impl Hour {
    pub(crate) const fn sum(&self) -> u64 {
        self.allowed + self.denied + self.would_deny
    }
}

/// One host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) host: String,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// The first decision about it this week.
    pub(crate) first: String,
}

impl From<&HostCount> for Destination {
    fn from(one: &HostCount) -> Self {
        Self {
            host: one.host.clone(),
            allowed: one.allowed,
            denied: one.denied + one.would_deny,
            first: minute(&one.first),
        }
    }
}

/// What is kept between two looks: also that it could not be read.
pub(crate) type Kept = parking_lot::Mutex<Option<(Timestamp, Result<Arc<Lately>, ()>)>>;

/// The newest reading, or a new one. Reads the record: for who is beside the runtime.
///
/// # Errors
/// When the record cannot be read.
pub(crate) fn lately(app: &App) -> Result<Arc<Lately>, Problem> {
    // Held while one reads: others wait for the same, and not for a record that does not answer.
    let Some(mut kept) = app.lately.try_lock_for(PATIENCE) else {
        return Err(slow());
    };
    let now = app.now();
    if let Some((at, lately)) = &*kept
        && now.duration_since(*at).abs() < FRESH
    {
        return lately.clone().map_err(|()| slow());
    }
    let read = read(app, now);
    // Whoever waited for this does not ask again what failed just now.
    let known = read.as_ref().map(Arc::clone).map_err(|_| ());
    *kept = Some((app.now(), known));
    read
}

fn slow() -> Problem {
    let words = "the record does not answer at the moment: its counts cannot be shown";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "record_unavailable", words).retried_after(1)
}

fn read(app: &App, now: Timestamp) -> Result<Arc<Lately>, Problem> {
    let back = |hours| now.checked_sub(SignedDuration::from_hours(hours));
    let hours = (0..HOURS).rev().filter_map(|hours| back(hours).ok());
    let hours: Vec<String> = hours
        .map(|at| at.strftime("%Y-%m-%dT%H").to_string())
        .collect();
    let first = hours.first().cloned().unwrap_or_default();
    // Today is the seventh.
    let week = back(6 * 24).map_err(Problem::internal)?;
    let week = week.strftime("%Y-%m-%d").to_string();
    let decided = app.read(|log| log.decided(&first, &week))?;
    let mut lately = Lately::of(&decided, &hours, &week);
    let removed = app.read(|log| log.removed(Class::TRAFFIC))?;
    let well_known = back(24 * i64::from(WELL_KNOWN)).map_err(Problem::internal)?;
    let removed = removed.filter(|newest| *newest >= format!("{well_known:.6}"));
    let notes = forgotten(app.names_kept).or_else(|| removed.as_deref().map(removed_by_hand));
    lately.notes.extend(notes);
    Ok(Arc::new(lately))
}

impl Lately {
    /// All of its hours together.
    pub(crate) fn decisions(&self) -> Hour {
        let sum = |count: fn(&Hour) -> u64| self.hours.iter().map(count).sum();
        Hour {
            begins: String::new(),
            allowed: sum(|hour| hour.allowed),
            denied: sum(|hour| hour.denied),
            would_deny: sum(|hour| hour.would_deny),
        }
    }

    fn of(decided: &Decided, hours: &[String], week: &str) -> Self {
        let busiest = decided.hosts.iter().take(LISTED).map(Into::into);
        let mut new: Vec<&HostCount> = decided
            .hosts
            .iter()
            .filter(|one| !one.known_before)
            .collect();
        new.sort_by(|a, b| (&b.first, &a.host).cmp(&(&a.first, &b.host)));
        let more_new = new.len().saturating_sub(LISTED);
        Self {
            hours: hours
                .iter()
                .map(|hour| gathered(hour, &decided.hours))
                .collect(),
            busiest: busiest.collect(),
            more_busy: decided.hosts.len().saturating_sub(LISTED),
            new: in_turns(new).map(Into::into).collect(),
            more_new,
            notes: notes(decided, week),
        }
    }
}

/// As many as are listed: what was let pass first, and of that the newest of each server, then the second of each. Who
/// asks for many names hides nobody else's, and least of all what went out.
fn in_turns(new: Vec<&HostCount>) -> impl Iterator<Item = &HostCount> {
    let mut turns: HashMap<(bool, &str), usize> = HashMap::new();
    let mut numbered: Vec<((bool, usize), &HostCount)> = Vec::with_capacity(new.len());
    for one in new {
        let is_denied = one.allowed == 0;
        let turn = turns.entry((is_denied, &one.server)).or_default();
        *turn += 1;
        numbered.push(((is_denied, *turn), one));
    }
    // Stable: within a turn they stay as they came.
    numbered.sort_by_key(|(turn, _)| *turn);
    numbered.into_iter().map(|(_, one)| one).take(LISTED)
}

/// Counts go with the records that they are of.
fn forgotten(kept: Option<u32>) -> Option<String> {
    let days = kept.filter(|days| *days < WELL_KNOWN)?;
    Some(format!(
        "Records of names are kept for {days} days (--keep): a destination that was last asked for before that is \
         called new again."
    ))
}

/// The same of records that somebody removed.
fn removed_by_hand(newest: &str) -> String {
    format!(
        "Records of names were removed, the newest of {} (UTC): a destination that was last asked for before that is \
         called new again.",
        minute(newest)
    )
}

fn gathered(hour: &str, counts: &[HourCount]) -> Hour {
    let mut one = Hour {
        begins: format!("{}:00", hour.replace('T', " ")),
        ..Hour::default()
    };
    for count in counts.iter().filter(|count| count.hour == hour) {
        match count.verdict.as_str() {
            "allow" => one.allowed += count.count,
            "deny" => one.denied += count.count,
            _ => one.would_deny += count.count,
        }
    }
    one
}

fn notes(decided: &Decided, week: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let extent = &decided.extent;
    if extent.behind > 0 {
        notes.push(format!(
            "{} new records are not counted yet and are left out here.",
            extent.behind
        ));
    }
    if let Some(since) = &extent.since {
        let since = minute(since);
        notes.push(match since.as_str() < week {
            true => format!(
                "Records of before {since} are still being counted: a destination that was asked for \
                 earlier may be called new."
            ),
            false => format!(
                "Only what was decided since {since} is counted yet; what was before is being counted."
            ),
        });
    }
    if decided.other_names > 0 {
        notes.push(format!(
            "{} decisions were about other names: of each server and day {MOST_HOSTS} names are counted \
             one by one, for {DAYS} days.",
            decided.other_names
        ));
    }
    notes
}

/// `2026-11-21T09:30:00.123456Z` as `2026-11-21 09:30`.
pub(crate) fn minute(time: &str) -> String {
    let minute: String = time.chars().take(16).collect();
    minute.replace('T', " ")
}

const HOURS: i64 = 24;
/// Nobody sees more change than that.
const FRESH: SignedDuration = SignedDuration::from_secs(3);
const LISTED: usize = 8;
/// A page that waits longer is not one to look at.
const PATIENCE: Duration = Duration::from_secs(2);
/// Days after which something is new again and nobody wonders.
const WELL_KNOWN: u32 = 30;

#[cfg(test)]
mod tests;
