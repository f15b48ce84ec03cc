//! Reading recorded traffic: what the record keeps of it, and records where it keeps none.

use std::collections::HashSet;

use gig_audit::{
    Record,
    attempts::{Gathering, Traffic, of_kept},
    counts::{KeptAttempt, MOST_ATTEMPTS, Tried, TriedAsked, What, what},
    row::Row,
    search::{Filter, Page, Query},
};
use jiff::SignedDuration;

use super::{MOST_DAYS, Span};
use crate::{api_error::Problem, app::App, lately::minute, store::Network};

/// What was read, by what the policy of its server reaches: the same document decides otherwise there.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) external: Traffic,
    pub(super) local: Traffic,
    pub(super) unreadable: u64,
    pub(super) extent: Covered,
}

/// How much of the time that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Covered {
    /// Days.
    days: u16,
    /// Records before that time are not in it.
    since: Option<String>,
    /// Records of attempts that differ too much from others to be kept and were too many to be read.
    left_out: u64,
    /// New records that are not counted yet.
    behind: u64,
    /// More than one answer holds.
    cut: bool,
}

impl Covered {
    pub(super) const fn is_complete(&self) -> bool {
        self.since.is_none() && self.left_out == 0 && self.behind == 0 && !self.cut
    }

    /// In a sentence or two.
    pub(super) fn words(&self) -> String {
        let mut words = match (&self.since, self.cut) {
            (Some(since), _) => {
                let since = minute(since);
                format!("Only what was recorded since {since} (UTC) was taken into account.")
            }
            (None, true) => "Only the newest part of that time was taken into account.".to_owned(),
            (None, false) if self.days == 1 => "All of the last day.".to_owned(),
            (None, false) => format!("All of the last {} days.", self.days),
        };
        if self.left_out > 0 {
            words = format!(
                "{words} {} records more were left out: of each server and day {MOST_ATTEMPTS} attempts that differ are \
                 kept, and of others the newest records were read.",
                self.left_out
            );
        }
        if self.behind > 0 {
            words = format!("{words} {} new records are not counted yet.", self.behind);
        }
        words
    }
}

impl Recorded {
    pub(super) const fn records(&self) -> u64 {
        self.external.records + self.local.records
    }

    /// Takes lines, the newest first, oldest first; each is gone when it was taken.
    pub(super) fn of(mut lines: Vec<String>, is_local: impl Fn(&str) -> bool) -> Self {
        let (mut external, mut local) = (Gathering::default(), Gathering::default());
        let mut unreadable = 0;
        while let Some(line) = lines.pop() {
            let Ok(record) = serde_json::from_str::<Record>(&line) else {
                unreadable += 1;
                continue;
            };
            match record.entry.server.as_deref().is_some_and(&is_local) {
                true => local.take(&record),
                false => external.take(&record),
            }
        }
        Self {
            external: external.finish(),
            local: local.finish(),
            unreadable,
            extent: Covered::default(),
        }
    }

    /// Takes attempts as they are kept.
    fn of_kept(kept: Vec<KeptAttempt>, is_local: impl Fn(&str) -> bool) -> Self {
        let (local, external): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|one| is_local(&one.server));
        let (external, unreadable) = of_kept(&external);
        let (local, more) = of_kept(&local);
        Self {
            external,
            local,
            unreadable: unreadable + more,
            extent: Covered::default(),
        }
    }

    fn add(&mut self, other: Self) {
        for (one, other) in [
            (&mut self.external, other.external),
            (&mut self.local, other.local),
        ] {
            one.records += other.records;
            one.attempts.extend(other.attempts);
        }
        self.unreadable += other.unreadable;
    }
}

/// What was recorded of the span.
pub(super) fn read(app: &App, span: &Span) -> Result<Recorded, Problem> {
    let days = span.days.clamp(1, MOST_DAYS);
    let hours = SignedDuration::from_hours(24 * i64::from(days));
    let begun = app.clock.now();
    let since = begun.checked_sub(hours).map_err(Problem::internal)?;
    let since = format!("{since:.6}");
    let servers = app.store.servers().map_err(Problem::internal)?;
    let local = servers.into_iter();
    let local = local.filter(|server| server.spec.network == Network::Local);
    let local: HashSet<String> = local.map(|server| server.name).collect();
    let is_local = |server: &str| local.contains(server);
    let late = || app.clock.now().duration_since(begun) > WITHIN;
    let page = |query: &Query| app.page(query);
    let all = |_: &Row| true;
    // What is kept says of no attempt which sandbox it was.
    if span.sandbox.is_some() {
        let (lines, whole) = newest(query(span, &since, None), page, late, all)?;
        let mut read = Recorded::of(lines, is_local);
        read.extent = Covered {
            days,
            cut: !whole,
            ..Covered::default()
        };
        return Ok(read);
    }
    let asked = TriedAsked {
        since: since.clone(),
        server: span.server.clone(),
        denied: false,
    };
    let Tried {
        mut attempts,
        beyond,
        extent,
    } = app.read(|log| log.tried(&asked))?;
    let of_policy = |what: &What| span.policy.is_none() || span.policy == what.policy;
    attempts.retain(|one| of_policy(&one.what));
    // Only where there are others beside them.
    let known: HashSet<(String, What)> = attempts
        .iter()
        .filter(|_| !beyond.is_empty())
        .map(|one| (one.server.clone(), one.what.clone()))
        .collect();
    let mut covered = Covered {
        days,
        since: extent.since.clone().filter(|from| *from > since),
        left_out: 0,
        behind: extent.behind,
        cut: extent.cut,
    };
    let mut read = Recorded::of_kept(attempts, is_local);
    if !beyond.is_empty() {
        let is_new = |row: &Row| {
            let server = row.server.clone().unwrap_or_default();
            what(row).is_none_or(|what| !known.contains(&(server, what)))
        };
        let (lines, whole) = newest(query(span, &since, Some(&beyond)), page, late, is_new)?;
        let more = Recorded::of(lines, is_local);
        let there: u64 = beyond.iter().map(|(_, count)| count).sum();
        if !whole {
            covered.left_out += there.saturating_sub(more.records());
        }
        read.add(more);
    }
    read.extent = covered;
    Ok(read)
}

/// For the records of the span; of these servers, where they all have names.
fn query(span: &Span, since: &str, servers: Option<&[(String, u64)]>) -> Query {
    let list = |one: &Option<String>| one.iter().cloned().collect::<Vec<_>>();
    let events = ["dns", "connect", "request", "response"];
    let mut server = list(&span.server);
    if let Some(servers) = servers
        && servers.iter().all(|(name, _)| !name.is_empty())
    {
        server = servers.iter().map(|(name, _)| name.clone()).collect();
    }
    Query {
        filter: Filter {
            since: Some(since.to_owned()),
            event: events.map(str::to_owned).to_vec(),
            policy: list(&span.policy),
            server,
            sandbox: list(&span.sandbox),
            ..Filter::default()
        },
        before: None,
        limit: AT_ONCE,
    }
}

/// Lines, newest first, and whether there are no more.
pub(super) fn newest(
    mut query: Query,
    mut page: impl FnMut(&Query) -> Result<Page, Problem>,
    late: impl Fn() -> bool,
    wanted: impl Fn(&Row) -> bool,
) -> Result<(Vec<String>, bool), Problem> {
    let mut lines: Vec<String> = Vec::new();
    let mut octets = 0;
    let mut read = 0;
    loop {
        let page = page(&query)?;
        for found in page.records {
            read += 1;
            octets += found.line.len();
            if wanted(&found.row) {
                lines.push(found.line);
            }
        }
        query.before = match page.next {
            Some(next) => Some(next),
            None => return Ok((lines, true)),
        };
        if late() || read >= MOST || octets >= MOST_OCTETS {
            return Ok((lines, false));
        }
    }
}

/// Some fifty megabytes of lines, as long as they mostly are.
pub(super) const MOST: usize = 100_000;
/// Of lines that are as long as a sandbox can make them.
pub(super) const MOST_OCTETS: usize = 64 * 1024 * 1024;
/// Well within what a request may take.
const WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// Records of one page.
pub(super) const AT_ONCE: usize = 1000;
