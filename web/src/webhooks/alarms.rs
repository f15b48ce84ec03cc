//! Alarms that webhooks are told of: a secret on its way to where it is not bound, a namespace that was changed, a gap in
//! the record.
//!
//! They are this node's own records, read anew when it has written one; what is too much for one look is read by the
//! next. Those that are alike (of one server, profile and secret) are told once each clock hour, by the first, so that
//! a program that tries and tries fills no channel and hides no other secret's; so many a minute, servers in turns.
//! What was told is in the store, so that a start tells nothing twice and misses nothing of the hour before. Nothing is
//! answered from there.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use gig_audit::{
    Event, is_alarm,
    row::Row,
    search::{Filter, Found, Marks, Page, Query},
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{News, denied::Known};
use crate::{api::audit, api_error::Problem, app::App, credential::Digest};

/// Alarms that are alike, of one hour.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AlarmView {
    /// The first of them.
    pub(crate) record: String,
    /// `secret.misuse`, `finding` or `audit.gap`.
    pub(crate) event: String,
    /// When it was.
    pub(crate) time: String,
    pub(crate) node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// For whom it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sandbox: Option<String>,
    /// Names of secrets.
    pub(crate) secrets: Vec<String>,
    /// Where the first was on its way to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
    /// What was found, in words.
    pub(crate) findings: Vec<String>,
    /// How many there were in this hour so far, when it was told.
    pub(crate) count: u64,
}

/// How far this node has looked.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Its alarms that were looked at; `None`: those before it started are still to be.
    counted: Option<u64>,
    /// Its newest record that was looked at.
    upto: Option<u64>,
    /// What of those before it was not, the newest last.
    holes: Vec<Hole>,
    /// Those of this hour and the one before, by what tells them from others.
    known: BTreeMap<String, AlarmView>,
    /// Some were left for the next minute.
    is_left: bool,
    /// When something that was not delivered is due again.
    pub(crate) again: Option<Timestamp>,
}

/// Records that were too many for one look.
#[derive(Debug, Clone)]
struct Hole {
    /// Those before this; the newest, where it is none.
    before: Option<Marks>,
    /// Those behind this.
    upto: u64,
}

/// What is to be told of what was found since, no more than `most`, and how far that has been looked at.
pub(crate) async fn fresh(app: Arc<App>, mut heard: Heard, most: usize) -> (Heard, Vec<News>) {
    let (count, now) = (app.traffic.alarms.load(Relaxed), app.now());
    let is_due = heard.again.is_some_and(|again| again <= now);
    let is_new = heard.counted != Some(count);
    if most == 0 || !(is_new || is_due || heard.is_left) {
        return (heard, Vec::new());
    }
    let read = app.ask(move |store| Ok((store.webhooks()?, store.told_denials(now)?)));
    // What could not be read is in the log, and looked at again.
    let Ok((webhooks, told)) = read.await else {
        return (heard, Vec::new());
    };
    if webhooks.is_empty() {
        // Who is set up later is told of nothing before.
        let nothing = Heard {
            counted: Some(count),
            ..Heard::default()
        };
        return (nothing, Vec::new());
    }
    let (mut holes, since) = (heard.holes.clone(), hour(now - HOUR));
    if is_new {
        holes.push(Hole {
            before: None,
            upto: heard.upto.unwrap_or_default(),
        });
    }
    let filter = Filter {
        node: vec![app.node.clone()],
        alarm: true,
        since: Some(since.clone()),
        ..Filter::default()
    };
    let theirs = Arc::clone(&app);
    let looked = app.aside(move || look(|query| theirs.page(query), filter, holes));
    let looked = looked.await;
    let Ok(Ok(looked)) = looked else {
        return (heard, Vec::new());
    };
    heard.counted = Some(count);
    heard.take_in(looked, &since);
    let known = Known::of(&told);
    heard.again = known.again(now);
    let lacking = heard.known.iter().filter(|(what, one)| {
        let about = about(&one.record);
        let mut webhooks = webhooks.iter();
        webhooks.any(|to| known.lacks(to, (what, &about, &one.time), now))
    });
    let mut turns = in_turns(lacking.map(|(what, one)| (what.clone(), one.clone())));
    heard.is_left = turns.len() > most || !heard.holes.is_empty();
    turns.truncate(most);
    let news = turns.into_iter();
    let news = news.map(|(what, one)| News::Alarm(one, what)).collect();
    (heard, news)
}

/// By what the store knows it; nothing is answered by that.
pub(crate) fn about(record: &str) -> String {
    format!("alarm:{record}")
}

/// What a look found.
#[derive(Debug, Default)]
struct Looked {
    upto: Option<u64>,
    holes: Vec<Hole>,
    /// By what tells them from others.
    alike: BTreeMap<String, AlarmView>,
}

/// Reads what holes have of these, so many pages.
fn look(
    mut page: impl FnMut(&Query) -> Result<Page, Problem>,
    filter: Filter,
    mut holes: Vec<Hole>,
) -> Result<Looked, Problem> {
    let mut query = Query {
        filter,
        before: None,
        limit: PAGE,
    };
    let mut looked = Looked::default();
    let mut pages = 0;
    while let Some(mut hole) = holes.pop() {
        loop {
            if pages == MOST_PAGES {
                holes.push(hole);
                if holes.len() > MOST_HOLES {
                    tracing::warn!("more alarms than can be read: some are not told to webhooks");
                    holes.remove(0);
                }
                looked.holes = holes;
                return Ok(looked);
            }
            pages += 1;
            query.before = hole.before.take();
            let page = page(&query)?;
            let theirs = |one: &&Found| one.row.seq > hole.upto;
            let all = page.records.iter().all(|one| theirs(&one));
            page.records
                .iter()
                .filter(theirs)
                .for_each(|one| looked.take(one));
            hole.before = page.next;
            if !all || hole.before.is_none() {
                break;
            }
        }
    }
    Ok(looked)
}

impl Looked {
    /// Takes one in, older than those before it.
    fn take(&mut self, one: &Found) {
        self.upto = self.upto.max(Some(one.row.seq));
        if !is_told(&one.row) {
            return;
        }
        let times = gig_audit::counted(&one.row.findings).unwrap_or(1);
        let what = what(&one.row);
        let known = self.alike.get(&what).map(|alike| alike.count);
        if known.is_none() && self.alike.len() >= MOST_KNOWN {
            tracing::warn!(
                record = audit::id(one),
                "more alarms than webhooks are told of"
            );
            return;
        }
        let count = known.unwrap_or_default().saturating_add(times);
        self.alike.insert(what, AlarmView::of(one, count));
    }
}

impl Heard {
    /// What is older than `hour` is told no more.
    fn take_in(&mut self, looked: Looked, hour: &str) {
        self.known.retain(|_, one| one.time.as_str() >= hour);
        self.upto = self.upto.max(looked.upto);
        self.holes = looked.holes;
        for (what, one) in looked.alike {
            if one.time.as_str() < hour {
                continue;
            }
            if let Some(known) = self.known.get_mut(&what) {
                known.count = known.count.saturating_add(one.count);
            } else if self.known.len() < MOST_KNOWN {
                self.known.insert(what, one);
            } else {
                tracing::warn!(record = one.record, "more alarms than webhooks are told of");
            }
        }
    }
}

impl AlarmView {
    fn of(found: &Found, count: u64) -> Self {
        let row = found.row.clone();
        Self {
            record: audit::id(found),
            event: row.event,
            time: row.time,
            node: row.node,
            server: row.server,
            profile: row.profile,
            sandbox: row.sandbox,
            secrets: row.secrets,
            host: row.host,
            port: row.port,
            findings: row.findings,
            count,
        }
    }
}

/// As the thread that writes the record counts them.
fn is_told(row: &Row) -> bool {
    is_alarm(&row.event, row.verdict.as_deref() == Some("deny"))
}

/// The same for those that are alike in one hour.
fn what(row: &Row) -> String {
    // A namespace is one sandbox's, a gap the machine's.
    let whose = match row.event == Event::SecretMisuse.as_str() {
        true => row.secrets.join(" "),
        false => row.sandbox.clone().unwrap_or_default(),
    };
    let hour: String = row.time.chars().take(HOUR_LENGTH).collect();
    let text = format!(
        "gig alarm\n{hour}\n{}\n{}\n{:?}\n{:?}\n{whose}",
        row.event, row.node, row.server, row.profile
    );
    Digest::of(&text).words()
}

/// The first of each server, then the second of each.
fn in_turns(alarms: impl Iterator<Item = (String, AlarmView)>) -> Vec<(String, AlarmView)> {
    let mut all: Vec<_> = alarms.collect();
    all.sort_by(|a, b| a.1.time.cmp(&b.1.time));
    let mut turns: HashMap<Option<String>, usize> = HashMap::new();
    let mut ranked: Vec<_> = all
        .into_iter()
        .map(|one| {
            let turn = turns.entry(one.1.server.clone()).or_default();
            *turn += 1;
            (*turn, one)
        })
        .collect();
    ranked.sort_by_key(|(turn, _)| *turn);
    ranked.into_iter().map(|(_, one)| one).collect()
}

/// When an hour began, as records have times.
fn hour(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:00:00.000000Z").to_string()
}

const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// `2026-11-22T12`
const HOUR_LENGTH: usize = 13;
/// Of this node, all together.
pub(super) const MOST_A_MINUTE: usize = 20;
/// Records that are read at once.
const PAGE: usize = 200;
/// Of one look.
const MOST_PAGES: usize = 50;
/// Looks in which more came than could be read.
const MOST_HOLES: usize = 64;
/// Of two hours.
const MOST_KNOWN: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    fn misuse(seq: u64, time: &str, (server, secret): (&str, &str)) -> Found {
        let row = Row {
            seq,
            time: format!("2026-11-22T{time}.000000Z"),
            node: "n".to_owned(),
            event: "secret.misuse".to_owned(),
            verdict: Some("deny".to_owned()),
            server: Some(server.to_owned()),
            secrets: vec![secret.to_owned()],
            host: Some(format!("h{seq}.example")),
            ..Row::default()
        };
        Found {
            at: gig_audit::search::Position { chain: 1, seq },
            line: String::new(),
            row,
        }
    }

    /// As pages come: the newest first.
    fn looked(found: &[Found]) -> Looked {
        let mut looked = Looked::default();
        found.iter().rev().for_each(|one| looked.take(one));
        looked
    }

    #[test]
    fn alarms_that_are_alike_are_one_an_hour_and_hide_no_other() {
        let mut heard = Heard::default();
        let mut found: Vec<_> = (1..=500)
            .map(|seq| misuse(seq, "12:00:01", ("docs", "A")))
            .collect();
        found.push(misuse(501, "12:00:02", ("docs", "B")));
        found.push(misuse(502, "12:00:03", ("mail", "A")));
        found.push(misuse(503, "13:00:00", ("docs", "A")));
        let mut held = misuse(504, "13:00:01", ("docs", "C"));
        // That a request waits is no alarm.
        (held.row.event, held.row.verdict) = ("finding".to_owned(), None);
        found.push(held);
        // A count stands for as many.
        let mut folded = misuse(505, "13:00:02", ("docs", "A"));
        folded.row.findings = vec!["folded:40".to_owned()];
        found.push(folded);
        heard.take_in(looked(&found), "2026-11-22T12:00:00.000000Z");
        assert_eq!(heard.upto, Some(505));
        let turns = in_turns(heard.known.clone().into_iter());
        let told: Vec<_> = turns
            .iter()
            .map(|(_, one)| (one.record.as_str(), one.count))
            .collect();
        assert_eq!(
            told,
            [("1-1", 500), ("1-502", 1), ("1-501", 1), ("1-503", 41)]
        );
        // The hour is over.
        heard.take_in(Looked::default(), "2026-11-22T13:00:00.000000Z");
        assert_eq!(heard.known.len(), 1);
        assert_eq!(
            hour("2026-11-22T13:59:59.9Z".parse().unwrap()),
            "2026-11-22T13:00:00.000000Z"
        );
    }

    #[test]
    fn what_is_too_much_for_one_look_is_read_by_the_next_and_hides_nothing() {
        let most = u64::try_from(PAGE * MOST_PAGES).unwrap();
        let mut log: Vec<_> = (1..=2 * most + 7)
            .map(|seq| misuse(seq, "12:00:01", ("docs", "A")))
            .collect();
        log[0] = misuse(1, "12:00:00", ("docs", "B"));
        let page = |log: &[Found], query: &Query| {
            let before = query.before.as_ref().map_or(u64::MAX, |marks| marks.of(1));
            let older = log.iter().rev().filter(|one| one.row.seq < before);
            let records: Vec<_> = older.take(query.limit).cloned().collect();
            let last = records.last().filter(|last| last.row.seq > 1);
            let next = last.map(|last| {
                let mut marks = Marks::default();
                marks.set(last.at);
                marks
            });
            Ok(Page { records, next })
        };
        let mut heard = Heard::default();
        let newest = |upto| Hole { before: None, upto };
        let mut holes = vec![newest(0)];
        for looks in 1.. {
            assert!(looks <= 4, "it comes to its end");
            let looked = look(|query| page(&log, query), Filter::default(), holes).unwrap();
            heard.take_in(looked, "2026-11-22T12:00:00.000000Z");
            holes = heard.holes.clone();
            if looks == 1 {
                // More come before all is read.
                let next = u64::try_from(log.len()).unwrap() + 1;
                log.push(misuse(next, "12:00:02", ("mail", "A")));
                holes.push(newest(heard.upto.unwrap()));
            }
            if holes.is_empty() {
                break;
            }
        }
        let told: Vec<_> = heard.known.values().map(|one| one.count).collect();
        assert_eq!(told.len(), 3);
        assert_eq!(told.iter().sum::<u64>(), 2 * most + 8);
    }
}
