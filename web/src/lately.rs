//! What was decided lately, for the overview: over time, the destinations asked for most, and those that
//! nobody asked for before this week.
//!
//! The record's counts are read, which tell of every decision however many there are. What they do not tell
//! (yet) is said. What was read is kept for [`FRESH`], so that many who look cost one reading.

use std::sync::Arc;

use gig_audit::counts::{DAYS, Decided, HostCount, HourCount, MOST_HOSTS};
use jiff::{SignedDuration, Timestamp};

use crate::{api_error::Problem, app::App};

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Lately {
    /// The last hours, oldest first; the last one is not over.
    pub(crate) hours: Vec<Hour>,
    /// Most decisions first.
    pub(crate) busiest: Vec<Destination>,
    /// Asked for this week for the first time, newest first.
    pub(crate) new: Vec<Destination>,
    /// What the numbers leave out, in sentences.
    pub(crate) notes: Vec<String>,
}

/// Decisions of one hour.
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

/// What is kept between two looks.
pub(crate) type Kept = parking_lot::Mutex<Option<(Timestamp, Arc<Lately>)>>;

/// The newest reading, or a new one. Reads the record: for who is beside the runtime.
///
/// # Errors
/// When the record cannot be read.
pub(crate) fn lately(app: &App) -> Result<Arc<Lately>, Problem> {
    // Held while one reads: others wait for the same.
    let mut kept = app.lately.lock();
    let now = app.now();
    if let Some((at, lately)) = &*kept
        && now.duration_since(*at).abs() < FRESH
    {
        return Ok(Arc::clone(lately));
    }
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
    let read = Arc::new(Lately::of(&decided, &hours, &week));
    *kept = Some((now, Arc::clone(&read)));
    Ok(read)
}

impl Lately {
    fn of(decided: &Decided, hours: &[String], week: &str) -> Self {
        let busiest = decided.hosts.iter().take(LISTED).map(Into::into);
        let mut new: Vec<&HostCount> = decided
            .hosts
            .iter()
            .filter(|one| !one.known_before)
            .collect();
        new.sort_by(|a, b| (&b.first, &a.host).cmp(&(&a.first, &b.host)));
        Self {
            hours: hours
                .iter()
                .map(|hour| gathered(hour, &decided.hours))
                .collect(),
            busiest: busiest.collect(),
            new: new.into_iter().take(LISTED).map(Into::into).collect(),
            notes: notes(decided, week),
        }
    }
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

#[cfg(test)]
mod tests {
    use gig_audit::counts::Extent;

    use super::*;

    fn host(host: &str, allowed: u64, first: &str, known_before: bool) -> HostCount {
        HostCount {
            host: host.to_owned(),
            allowed,
            denied: 1,
            would_deny: 1,
            first: first.to_owned(),
            last: first.to_owned(),
            known_before,
        }
    }

    #[test]
    fn counts_stand_in_their_hour_and_new_hosts_are_the_newest_first() {
        let count = |hour: &str, verdict: &str, count| HourCount {
            hour: hour.to_owned(),
            server: "docs".to_owned(),
            verdict: verdict.to_owned(),
            count,
        };
        let decided = Decided {
            hours: vec![
                count("2026-11-21T08", "allow", 2_000_000),
                count("2026-11-21T08", "would_deny", 3),
                count("2026-11-21T09", "deny", 4),
            ],
            hosts: vec![
                host("old.example", 9, "2026-11-16T10:00:00.000000Z", true),
                host("a.example", 5, "2026-11-17T10:00:00.000000Z", false),
                host("b.example", 1, "2026-11-20T10:30:00.000000Z", false),
            ],
            ..Decided::default()
        };
        let hours = ["2026-11-21T08", "2026-11-21T09"].map(str::to_owned);
        let lately = Lately::of(&decided, &hours, "2026-11-15");
        let [eight, nine] = lately.hours.as_slice() else {
            panic!("hours")
        };
        assert_eq!(
            (eight.begins.as_str(), eight.allowed, eight.would_deny),
            ("2026-11-21 08:00", 2_000_000, 3)
        );
        assert_eq!((nine.denied, nine.sum()), (4, 4));
        let names = |all: &[Destination]| -> Vec<String> {
            all.iter().map(|one| one.host.clone()).collect()
        };
        assert_eq!(names(&lately.busiest)[0], "old.example");
        assert_eq!(lately.busiest[0].denied, 2);
        assert_eq!(names(&lately.new), ["b.example", "a.example"]);
        assert_eq!(lately.new[0].first, "2026-11-20 10:30");
        assert!(lately.notes.is_empty());
    }

    #[test]
    fn what_is_left_out_is_said() {
        let mut decided = Decided {
            other_names: 12,
            ..Decided::default()
        };
        assert!(notes(&decided, "2026-11-15")[0].starts_with("12 decisions"));
        decided.extent = Extent {
            since: Some("2026-11-20T10:30:00.000000Z".to_owned()),
            behind: 5,
            cut: false,
        };
        let told = notes(&decided, "2026-11-15").join(" ");
        assert!(
            told.contains("since 2026-11-20 10:30 is counted yet"),
            "{told}"
        );
        assert!(told.contains("5 new records"), "{told}");
        let told = notes(&decided, "2026-11-21").join(" ");
        assert!(told.contains("may be called new"), "{told}");
    }
}
