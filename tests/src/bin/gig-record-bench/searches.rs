//! The searches of the console, each many times with other values: what one page takes; and its overview.

use std::time::{Duration, Instant};

use gig_audit::{
    counts::TriedAsked,
    log::Log,
    search::{Filter, Query},
};

use crate::{Kept, tell};

/// What is looked for in one round: by its number.
type Asked = fn(u32, &Times) -> Filter;

/// Moments of the record.
struct Times {
    /// Of pages from the newest to the oldest.
    some: Vec<String>,
}

/// Runs every search `rounds` times and prints how long a page of fifty took.
pub fn search(kept: &Kept, rounds: u32) {
    let mut log = kept.log();
    let times = Times::of(log.as_mut());
    for (name, asked) in SEARCHES {
        let mut waits = Vec::new();
        let mut found = 0;
        let cold = cold(kept, asked(rounds, &times));
        for round in 0..rounds {
            let query = Query {
                filter: asked(round, &times),
                before: None,
                limit: 50,
            };
            let begun = Instant::now();
            found += log.search(&query).expect("a search").records.len();
            waits.push(begun.elapsed());
        }
        tell(
            &format!("{name} ({found} found; cold {cold:?})"),
            &mut waits,
        );
    }
    deep(log.as_mut(), rounds);
    far(log.as_mut(), rounds);
}

/// The first page for who opens a database of which nothing is in memory.
fn cold(kept: &Kept, filter: Filter) -> Duration {
    kept.chill();
    let begun = Instant::now();
    let mut log = kept.log();
    let query = Query {
        filter,
        before: None,
        limit: 50,
    };
    log.search(&query).expect("a search");
    begun.elapsed()
}

/// Pages that a cursor names far back in the record.
fn far(log: &mut dyn Log, rounds: u32) {
    let end = log.end().expect("the end").to_string();
    let (chain, last) = end.split_once(':').unwrap_or(("1", "1"));
    let last: u64 = last.parse().unwrap_or(1);
    let mut waits: Vec<Duration> = Vec::new();
    for round in 0..rounds {
        let place = last / 10 + u64::from(round) * 97;
        let query = Query {
            filter: verdict("deny"),
            before: format!("{chain}:{place}").parse().ok(),
            limit: 50,
        };
        let begun = Instant::now();
        log.search(&query).expect("a search");
        waits.push(begun.elapsed());
    }
    tell("denied, a page behind nine tenths", &mut waits);
}

/// What the overview and the list of what waits read, of all that there is.
pub fn overview(kept: &Kept, rounds: u32) {
    let Some(mut log) = kept.counted() else {
        return;
    };
    let asked = TriedAsked {
        since: "2000".to_owned(),
        server: None,
        denied: true,
    };
    let (mut decided, mut tried) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begun = Instant::now();
        log.decided("2000", "2000").expect("its counts");
        decided.push(begun.elapsed());
        let begun = Instant::now();
        log.tried(&asked).expect("its attempts");
        tried.push(begun.elapsed());
    }
    tell("the overview's counts", &mut decided);
    tell("what was denied, each once", &mut tried);
}

/// Page after page of what many records match.
fn deep(log: &mut dyn Log, rounds: u32) {
    let mut query = Query {
        filter: verdict("deny"),
        before: None,
        limit: 50,
    };
    let mut waits: Vec<Duration> = Vec::new();
    for _ in 0..rounds * 10 {
        let begun = Instant::now();
        let page = log.search(&query).expect("a search");
        waits.push(begun.elapsed());
        match page.next {
            Some(next) => query.before = Some(next),
            None => break,
        }
    }
    let name = format!("denied, page 1 to {}", waits.len());
    tell(&name, &mut waits);
}

impl Times {
    /// From the newest record back to the oldest, as a few looks find them.
    fn of(log: &mut dyn Log) -> Self {
        let mut query = Query {
            filter: Filter::default(),
            before: None,
            limit: 1,
        };
        let newest = log.search(&query).expect("a search").records;
        let mut some: Vec<String> = newest.into_iter().map(|found| found.row.time).collect();
        // Places a twelfth of the record apart.
        let end = log.end().expect("the end").to_string();
        let (chain, last) = end.split_once(':').unwrap_or(("1", "1"));
        let last: u64 = last
            .split('.')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(1);
        for part in (1..12).rev() {
            let place = format!("{chain}:{}", 2 + last / 12 * part);
            query.before = place.parse().ok();
            let found = log.search(&query).expect("a search").records;
            some.extend(found.into_iter().map(|found| found.row.time));
        }
        Self { some }
    }

    fn at(&self, round: u32) -> Option<String> {
        let many = self.some.len().max(1);
        self.some.get(round as usize % many).cloned()
    }
}

fn list(text: impl Into<String>) -> Vec<String> {
    vec![text.into()]
}

fn verdict(word: &str) -> Filter {
    Filter {
        verdict: list(word),
        ..Filter::default()
    }
}

/// What is looked for: common, rare, and nothing at all.
const SEARCHES: [(&str, Asked); 15] = [
    ("newest", |_, _| Filter::default()),
    ("denied", |_, _| verdict("deny")),
    ("one host", |n, _| Filter {
        host: list(format!("h{}.example{}.com", n * 7 % 400, n * 7 % 7)),
        ..Filter::default()
    }),
    ("below a domain, denied", |n, _| Filter {
        host: list(format!("*.example{}.com", n % 7)),
        ..verdict("deny")
    }),
    ("a host that is nowhere", |n, _| Filter {
        host: list(format!("nowhere-{n}.example")),
        ..Filter::default()
    }),
    ("one sandbox, denied", |n, _| Filter {
        sandbox: list(format!("01930000-0000-7000-8000-{:012x}", n % 50)),
        ..verdict("deny")
    }),
    ("reason and rule", |n, _| Filter {
        reason: list("host_not_allowed"),
        rule: list(format!("egress[{}]", n % 12)),
        ..Filter::default()
    }),
    ("denied and 200: nothing", |_, _| Filter {
        status: list("200"),
        ..verdict("deny")
    }),
    ("everything of one request", |n, _| Filter {
        request: list(format!("req-{}", 1 + n * 131)),
        ..Filter::default()
    }),
    ("words of few records", |n, _| Filter {
        text: list(format!("items {}", 4711 + n)),
        ..Filter::default()
    }),
    ("words of most records: nothing", |_, _| Filter {
        text: list("items parts evil"),
        ..Filter::default()
    }),
    ("user, server, method", |n, _| Filter {
        profile: list(format!("user-{}", n % 200)),
        server: list(format!("server-{}", n % 20)),
        method: list("POST"),
        ..Filter::default()
    }),
    ("event and status", |_, _| Filter {
        event: list("response"),
        status: list("4xx"),
        ..Filter::default()
    }),
    ("denied before a moment", |n, times| Filter {
        until: times.at(n),
        ..verdict("deny")
    }),
    ("a host between two moments", |n, times| Filter {
        since: times.at(n + 1),
        until: times.at(n),
        host: list(format!("h{}.example{}.com", n * 7 % 400, n * 7 % 7)),
        ..Filter::default()
    }),
];
