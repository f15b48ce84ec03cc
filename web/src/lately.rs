//! What was decided lately, for the overview: over time, the destinations asked for most, and those that
//! nobody asked for before this week.
//!
//! The newest decisions are read, at most [`MOST`] and no longer than [`WITHIN`]; from where on they are
//! whole is said. What was read is kept for [`FRESH`], so that many who look cost one reading.

use std::{collections::HashMap, sync::Arc};

use gig_audit::{
    row::Row,
    search::{Filter, Query},
};
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
    /// Since when every decision was read; empty: all of the week.
    pub(crate) since: String,
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
    /// The newest decision about it.
    pub(crate) last: String,
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
    let read = Arc::new(read(app, now)?);
    *kept = Some((now, Arc::clone(&read)));
    Ok(read)
}

fn read(app: &App, now: Timestamp) -> Result<Lately, Problem> {
    let week = now.checked_sub(WEEK).map_err(Problem::internal)?;
    let filter = Filter {
        since: Some(format!("{week:.6}")),
        event: ["dns", "connect", "request"].map(str::to_owned).to_vec(),
        ..Filter::default()
    };
    let mut query = Query {
        filter,
        before: None,
        limit: AT_ONCE,
    };
    let mut gathered = Gathered::new(now);
    let mut since = String::new();
    let mut count = 0;
    loop {
        let page = app.page(&query)?;
        for found in &page.records {
            gathered.take(&found.row);
            count += 1;
        }
        query.before = match page.next {
            Some(next) => Some(next),
            None => break,
        };
        if count >= MOST || app.now().duration_since(now) > WITHIN {
            let last = page.records.last().map(|found| found.row.time.as_str());
            since = last.map(minute).unwrap_or_default();
            break;
        }
    }
    let mut lately = gathered.finish();
    lately.since = since;
    // Newest first: only so many are asked about, each by one short look at what was before.
    let mut new = Vec::new();
    for one in lately.new.drain(..).take(MOST_ASKED) {
        if new.len() < LISTED && !known_before(app, &one.host, week)? {
            new.push(one);
        }
    }
    lately.new = new;
    Ok(lately)
}

/// Whether somebody asked for it before this week.
fn known_before(app: &App, host: &str, week: Timestamp) -> Result<bool, Problem> {
    let filter = Filter {
        until: Some(format!("{week:.6}")),
        host: vec![host.to_owned()],
        ..Filter::default()
    };
    let query = Query {
        filter,
        before: None,
        limit: 1,
    };
    Ok(!app.page(&query)?.records.is_empty())
}

/// Decisions as they come, newest first.
struct Gathered {
    hours: Vec<Hour>,
    hosts: HashMap<String, Destination>,
}

impl Gathered {
    fn new(now: Timestamp) -> Self {
        let back = (0..HOURS).rev();
        let begins = back.filter_map(|hours| {
            let at = now.checked_sub(SignedDuration::from_hours(hours)).ok()?;
            Some(at.strftime("%Y-%m-%d %H:00").to_string())
        });
        let hours = begins.map(|begins| Hour {
            begins,
            ..Hour::default()
        });
        Self {
            hours: hours.collect(),
            hosts: HashMap::new(),
        }
    }

    fn take(&mut self, row: &Row) {
        let Some(verdict) = row.verdict.as_deref() else {
            return;
        };
        let hour = hour(&row.time);
        let found = self.hours.iter_mut().find(|one| one.begins == hour);
        if let Some(one) = found {
            match verdict {
                "allow" => one.allowed += 1,
                "deny" => one.denied += 1,
                _ => one.would_deny += 1,
            }
        }
        let Some(host) = &row.host else { return };
        if !self.hosts.contains_key(host) && self.hosts.len() >= MOST_HOSTS {
            return;
        }
        let one = self
            .hosts
            .entry(host.clone())
            .or_insert_with(|| Destination {
                host: host.clone(),
                last: minute(&row.time),
                ..Destination::default()
            });
        match verdict {
            "allow" => one.allowed += 1,
            _ => one.denied += 1,
        }
    }

    fn finish(self) -> Lately {
        let mut busiest: Vec<Destination> = self.hosts.into_values().collect();
        busiest.sort_by(|a, b| (&b.last, &a.host).cmp(&(&a.last, &b.host)));
        let new = busiest.clone();
        busiest.sort_by_key(|one| std::cmp::Reverse(one.allowed + one.denied));
        busiest.truncate(LISTED);
        Lately {
            hours: self.hours,
            busiest,
            new,
            since: String::new(),
        }
    }
}

/// `2026-11-21T09:30:00.123456Z` as `2026-11-21 09:00`.
fn hour(time: &str) -> String {
    let hour: String = time.chars().take(13).collect();
    format!("{}:00", hour.replace('T', " "))
}

/// The same as `2026-11-21 09:30`.
fn minute(time: &str) -> String {
    let minute: String = time.chars().take(16).collect();
    minute.replace('T', " ")
}

const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);
const HOURS: i64 = 24;
/// Some hundred milliseconds of reading.
const MOST: usize = 10_000;
const AT_ONCE: usize = 1000;
const WITHIN: SignedDuration = SignedDuration::from_millis(800);
/// Nobody sees more change than that.
const FRESH: SignedDuration = SignedDuration::from_secs(3);
/// Hosts are the sandboxes' own words: without a bound they could name one a request.
const MOST_HOSTS: usize = 2000;
const MOST_ASKED: usize = 40;
const LISTED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time: &str, host: &str, verdict: &str) -> Row {
        Row {
            time: time.to_owned(),
            host: Some(host.to_owned()),
            verdict: Some(verdict.to_owned()),
            ..Row::default()
        }
    }

    #[test]
    fn decisions_stand_in_their_hour_and_at_their_host() {
        let now: Timestamp = "2026-11-21T09:30:00Z".parse().unwrap();
        let mut gathered = Gathered::new(now);
        assert_eq!(gathered.hours.len(), 24);
        gathered.take(&row("2026-11-21T09:29:00.000000Z", "b.example", "deny"));
        gathered.take(&row("2026-11-21T08:59:59.999999Z", "a.example", "allow"));
        gathered.take(&row(
            "2026-11-21T08:00:00.000000Z",
            "b.example",
            "would_deny",
        ));
        // Of the week, and not of the day.
        gathered.take(&row("2026-11-18T08:00:00.000000Z", "b.example", "allow"));
        let lately = gathered.finish();
        let [.., eight, nine] = lately.hours.as_slice() else {
            panic!("hours")
        };
        assert_eq!(
            (eight.begins.as_str(), eight.allowed, eight.would_deny),
            ("2026-11-21 08:00", 1, 1)
        );
        assert_eq!(
            (nine.begins.as_str(), nine.denied, nine.sum()),
            ("2026-11-21 09:00", 1, 1)
        );
        assert_eq!(lately.hours.iter().map(Hour::sum).sum::<u64>(), 3);
        let busiest = &lately.busiest[0];
        assert_eq!(
            (busiest.host.as_str(), busiest.allowed, busiest.denied),
            ("b.example", 1, 2)
        );
        assert_eq!(busiest.last, "2026-11-21 09:29");
    }

    #[test]
    fn hosts_without_end_are_bounded() {
        let now: Timestamp = "2026-11-21T09:30:00Z".parse().unwrap();
        let mut gathered = Gathered::new(now);
        for number in 0..MOST_HOSTS + 10 {
            let host = format!("{number}.example");
            gathered.take(&row("2026-11-21T09:29:00Z", &host, "deny"));
        }
        assert_eq!(gathered.hosts.len(), MOST_HOSTS);
        assert_eq!(gathered.hours.iter().map(Hour::sum).sum::<u64>(), 2010);
    }
}
