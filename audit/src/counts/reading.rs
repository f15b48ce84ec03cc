//! What is counted and what is not yet, put together as of one moment. The caller sees to that moment.

use std::collections::{BTreeMap, HashMap};

use super::{
    Decided, Extent, HostCount, HourCount, KeptAttempt, Tried, TriedAsked, What,
    counting::{Ledger, Most, take_back, taken_back},
    tally::{Decisions, Tally, Times, widen},
};
use crate::{
    row::Row,
    search::walk::{Chain, key_of, position_of},
    store::StoreError,
};

/// As [`super::CountedLog::decided`].
pub(crate) fn decided(
    ledger: &mut impl Ledger,
    since_hour: &str,
    since_day: &str,
) -> Result<Decided, StoreError> {
    let mut extent = Extent::default();
    let tail = tail(ledger, since_hour.min(since_day), &mut extent)?;
    let mut hours = Hours::default();
    for one in ledger.hours(since_hour)? {
        hours.add((one.hour, one.server, one.verdict), one.count.cast_signed());
    }
    for (at, count) in tail.hours {
        if at.hour.as_str() >= since_hour {
            hours.add((at.hour, at.server, at.verdict.to_owned()), count);
        }
    }
    let counted = ledger.hosts(since_day)?.into_iter();
    let mut hosts: HashMap<String, HostCount> =
        counted.map(|one| (one.host.clone(), one)).collect();
    let mut fresh = Vec::new();
    for (at, decisions) in tail.hosts {
        if at.day.as_str() < since_day {
            continue;
        }
        let one = hosts.entry(at.host.clone()).or_insert_with(|| {
            fresh.push(at.host.clone());
            HostCount {
                host: at.host,
                server: at.server,
                ..HostCount::default()
            }
        });
        one.add(&decisions);
    }
    let others = hosts.remove("");
    fresh.retain(|host| !host.is_empty());
    fresh.truncate(MOST_ASKED);
    for host in ledger.known_before(since_day, &fresh)? {
        if let Some(one) = hosts.get_mut(&host) {
            one.known_before = true;
        }
    }
    let mut hosts: Vec<HostCount> = hosts.into_values().collect();
    hosts.sort_by(|a, b| (b.sum(), &a.host).cmp(&(a.sum(), &b.host)));
    Ok(Decided {
        hours: hours.finish(),
        hosts,
        other_names: others.map_or(0, |others| others.sum()),
        extent,
    })
}

/// As [`super::CountedLog::tried`].
pub(crate) fn tried(ledger: &mut impl Ledger, asked: &TriedAsked) -> Result<Tried, StoreError> {
    let mut extent = Extent::default();
    let tail = tail(ledger, &asked.since, &mut extent)?;
    let mut found = Attempts::default();
    let lines = ledger.attempts(asked, MOST)?;
    extent.cut = MOST.is_reached(&lines);
    for line in lines {
        let times = Times {
            class: "",
            what: line.what,
            count: line.count.cast_signed(),
            first: line.first,
            last: line.last,
            newest: line.newest,
        };
        found.add(line.server, times);
    }
    let is_asked = |server: &String| asked.server.as_ref().is_none_or(|one| one == server);
    for (at, times) in tail.attempts {
        if is_asked(&at.server) && (at.denied || !asked.denied) && times.last >= asked.since {
            found.add(at.server, times);
        }
    }
    let mut tried = found.finish();
    tried.extent = extent;
    Ok(tried)
}

/// What is not counted yet, at most [`MOST_TAIL`] of a chain; and what that leaves out. What a node left behind
/// that has written nothing since a time is not read.
fn tail(ledger: &mut impl Ledger, since: &str, extent: &mut Extent) -> Result<Tally, StoreError> {
    let marks = ledger.marks()?;
    let mut tally = Tally::default();
    for chain in ledger.chains()? {
        let below = chain.head.seq + 1;
        let earliest = below.saturating_sub(MOST_TAIL);
        let mark = marks.get(&chain.chain).copied();
        let next = mark.map_or(earliest, |mark| mark.next);
        let from = next.max(earliest);
        if from < below && ends_before(ledger, &chain, since)? {
            continue;
        }
        extent.behind += from - next;
        let begins = mark.map_or(from, |mark| mark.first);
        note_start(ledger, &chain, begins, extent)?;
        let most = u32::try_from(below - from).unwrap_or(u32::MAX);
        let mut back = Vec::new();
        for (seq, line) in ledger.lines_before(chain.chain, below, from, most)? {
            if let Ok(row) = Row::read(&line) {
                tally.take(&row, key_of(chain.chain, seq));
                back.extend(taken_back(&row));
            }
        }
        back.retain(|seq| {
            *seq >= from || mark.is_some_and(|mark| (mark.first..mark.next).contains(seq))
        });
        take_back(ledger, chain.chain, &back, &mut tally)?;
    }
    Ok(tally.settled())
}

/// Whether the last record of a chain is older than a time. One that does not say when it was written is not.
fn ends_before(ledger: &mut impl Ledger, chain: &Chain, since: &str) -> Result<bool, StoreError> {
    let last = ledger
        .lines_before(chain.chain, chain.head.seq + 1, 0, 1)?
        .pop();
    let row = last.and_then(|(_, line)| Row::read(&line).ok());
    Ok(row.is_some_and(|row| row.time.as_str() < since))
}

/// When the first record was written that is counted, where there are some before it.
fn note_start(
    ledger: &mut impl Ledger,
    chain: &Chain,
    begins: u64,
    extent: &mut Extent,
) -> Result<(), StoreError> {
    let Some(before) = begins.checked_sub(1).filter(|before| *before > 0) else {
        return Ok(());
    };
    let oldest = ledger.lines_after(chain.chain, 0, 1)?;
    if oldest.first().is_none_or(|(seq, _)| *seq >= begins) {
        return Ok(());
    }
    let first = ledger.lines_after(chain.chain, before, 1)?.pop();
    let time = first.and_then(|(_, line)| Row::read(&line).ok());
    let time = time.map_or_else(String::new, |row| row.time);
    if extent.since.as_ref().is_none_or(|since| *since < time) {
        extent.since = Some(time);
    }
    Ok(())
}

/// Hours by name.
#[derive(Default)]
struct Hours(BTreeMap<(String, String, String), i64>);

impl Hours {
    fn add(&mut self, at: (String, String, String), count: i64) {
        *self.0.entry(at).or_default() += count;
    }

    fn finish(self) -> Vec<HourCount> {
        let each = self.0.into_iter().filter(|(_, count)| *count > 0);
        each.map(|((hour, server, verdict), count)| HourCount {
            hour,
            server,
            verdict,
            count: unsigned(count),
        })
        .collect()
    }
}

/// Attempts by server and what they are.
#[derive(Default)]
struct Attempts {
    kept: HashMap<(String, String), Times>,
    beyond: BTreeMap<String, i64>,
}

impl Attempts {
    fn add(&mut self, server: String, times: Times) {
        if times.what.is_empty() {
            *self.beyond.entry(server).or_default() += times.count;
        } else {
            let at = (server, times.what.clone());
            self.kept.entry(at).or_default().add(times);
        }
    }

    fn finish(self) -> Tried {
        let mut tried = Tried::default();
        let mut beyond = self.beyond;
        for ((server, text), times) in self.kept {
            if times.count <= 0 {
                continue;
            }
            // What a later gig kept and this one does not know is beyond what it can tell of.
            let Ok(what) = serde_json::from_str::<What>(&text) else {
                *beyond.entry(server).or_default() += times.count;
                continue;
            };
            tried.attempts.push(KeptAttempt {
                server,
                what,
                count: unsigned(times.count),
                first: times.first,
                last: times.last,
                newest: position_of(times.newest),
            });
        }
        let beyond = beyond.into_iter();
        tried.beyond = beyond
            .map(|(server, count)| (server, unsigned(count)))
            .collect();
        let key = |one: &KeptAttempt| (one.newest.chain, one.newest.seq);
        let newest = |a: &KeptAttempt, b: &KeptAttempt| (&b.last, key(b)).cmp(&(&a.last, key(a)));
        tried.attempts.sort_by(newest);
        tried
    }
}

impl HostCount {
    /// All decisions.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.allowed + self.denied + self.would_deny
    }

    fn add(&mut self, other: &Decisions) {
        let add = |count: &mut u64, more: i64| *count = count.saturating_add_signed(more);
        add(&mut self.allowed, other.allowed);
        add(&mut self.denied, other.denied);
        add(&mut self.would_deny, other.would_deny);
        widen(
            (&mut self.first, &mut self.last),
            (&other.first, &other.last),
        );
    }
}

/// More is taken back than there was only where somebody changed the counts.
fn unsigned(count: i64) -> u64 {
    count.try_into().unwrap_or_default()
}

/// Some twenty megabytes of lines; a chain that is counted has a thousand, one of another node a few thousand.
const MOST_TAIL: u64 = 20_000;
/// Of what is as long as a sandbox can make it there are not so many rows.
const MOST: Most = Most {
    rows: 200_000,
    octets: 64 * 1024 * 1024,
};
/// New hosts among what is not counted yet, of which is asked whether anybody knew them.
const MOST_ASKED: usize = 500;
