//! What a record costs and what a search takes, in files and in databases.
//!
//! `gig-record-bench [--records N] [--dir DIR] [--store jsonl,sqlite,unsigned] [--seconds N]` measures how long one
//! record waits when nothing else happens, what 10,000 records a second add (and whether any is
//! refused), then fills the database to N records and searches it. It prints figures for people:
//! nothing here passes or fails.
#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use gig_audit::{
    Entry, Event, JsonlStore, RecordRefused, Recorder, RecorderSettings, SigningKey, SqliteLog,
    SqliteStore, Store, VerdictWord,
    log::{Log, jsonl::JsonlLog},
    search::{Filter, Query},
};
use gig_policy::{DenyReason, SandboxId};

struct Options {
    records: u64,
    folder: PathBuf,
    stores: Vec<String>,
    seconds: u64,
}

fn main() {
    let options = options();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    for store in &options.stores {
        let name = match store.as_str() {
            "sqlite" => "signed.db",
            "unsigned" => "unsigned.db",
            _ => "bench.jsonl",
        };
        let path = options.folder.join(name);
        println!("== {store}: {}", path.display());
        runtime.block_on(record(&path, &options));
        search(&path);
    }
}

fn options() -> Options {
    let mut options = Options {
        records: 200_000,
        folder: std::env::temp_dir(),
        stores: vec!["jsonl".to_owned(), "sqlite".to_owned()],
        seconds: 10,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--records" => options.records = value.parse().expect("a number"),
            "--dir" => options.folder = value.into(),
            "--store" => options.stores = value.split(',').map(str::to_owned).collect(),
            "--seconds" => options.seconds = value.parse().expect("a number"),
            _ => panic!("no option {word}"),
        }
    }
    options
}

async fn record(path: &Path, options: &Options) {
    let store: Box<dyn Store> = if path.extension().is_some_and(|ending| ending == "db") {
        // As `gig run` writes it, and without.
        let key = SigningKey::from_seed(&[7; SigningKey::SEED]).expect("a key");
        let key = (!path.ends_with("unsigned.db")).then(|| Arc::new(key));
        Box::new(SqliteStore::open_signing(path, "bench", key).expect("the database"))
    } else {
        Box::new(JsonlStore::open(path).expect("the file"))
    };
    let (recorder, owner) =
        Recorder::start(store, RecorderSettings::new("bench")).expect("threads");
    let made = Made::new();
    let mut waits = Vec::new();
    for n in 0..3_000 {
        let begun = Instant::now();
        recorder.record(made.entry(n)).await.expect("recorded");
        waits.push(begun.elapsed());
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    tell("idle", &mut waits);
    let refused = load(&recorder, &made, options.seconds, &mut waits).await;
    tell("10,000 records a second", &mut waits);
    println!("   refused: {refused}");
    let begun = Instant::now();
    let mut n = 3_000 + 10_000 * options.seconds;
    while n < options.records {
        match recorder.queue(made.entry(n)) {
            Ok(()) => n += 1,
            // The queue is full: what was handed in is written first.
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    recorder.record(made.entry(n)).await.ok();
    let took = begun.elapsed().as_secs_f64();
    println!("   filled to {n} records, {:.0} a second", n as f64 / took);
    if path.extension().is_some_and(|ending| ending == "db") {
        let begun = Instant::now();
        let mut log = SqliteLog::open(path).expect("the database");
        while log.unindexed().expect("its index") > 4096 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!("   indexed {:?} later", begun.elapsed());
    }
    owner.close(Duration::from_secs(600));
    let size = path.metadata().map_or(0, |found| found.len());
    println!("   {} MB, {} octets a record", size >> 20, size / n.max(1));
}

/// Half of the records are decisions that somebody waits for, from 64 tasks; half are outcomes.
async fn load(recorder: &Recorder, made: &Made, seconds: u64, waits: &mut Vec<Duration>) -> u64 {
    waits.clear();
    let mut refused = 0;
    let begun = tokio::time::Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    let total = 5_000 * seconds;
    for n in 0..total {
        // A pair of records each 200 µs.
        tokio::time::sleep_until(begun + Duration::from_micros(200 * n)).await;
        let theirs = recorder.clone();
        let (decision, outcome) = (made.entry(2 * n), made.entry(2 * n + 1));
        tasks.spawn(async move {
            let begun = Instant::now();
            let answer = theirs.record(decision).await;
            let waited = begun.elapsed();
            let queued = theirs.queue(outcome);
            (waited, answer.err().or(queued.err()))
        });
        while let Some(done) = tasks.try_join_next() {
            let (waited, lost) = done.expect("a task");
            waits.push(waited);
            refused += tell_loss(lost, refused);
        }
    }
    while let Some(done) = tasks.join_next().await {
        let (waited, lost) = done.expect("a task");
        waits.push(waited);
        refused += tell_loss(lost, refused);
    }
    let rate = (2 * total) as f64 / begun.elapsed().as_secs_f64();
    println!("   {rate:.0} records a second for {seconds} s");
    refused
}

/// Tells the first.
fn tell_loss(lost: Option<RecordRefused>, before: u64) -> u64 {
    if let (Some(lost), 0) = (&lost, before) {
        println!("   REFUSED: {lost}");
    }
    u64::from(lost.is_some())
}

fn tell(what: &str, waits: &mut [Duration]) {
    waits.sort_unstable();
    let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize];
    println!(
        "   {what}: p50 {:?} p90 {:?} p99 {:?} p99.9 {:?} most {:?}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

/// Entries as real sandboxes make them.
struct Made {
    sandboxes: Vec<SandboxId>,
}

impl Made {
    fn new() -> Self {
        let id = |n: u32| {
            let text = format!("01930000-0000-7000-8000-{n:012x}");
            serde_json::from_value(text.into()).expect("an id")
        };
        Self {
            sandboxes: (0..50).map(id).collect(),
        }
    }

    fn entry(&self, n: u64) -> Entry {
        // A step that meets every value, in no order a person would see.
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let kind = [Event::Connect, Event::Request, Event::Response, Event::Dns][(n % 4) as usize];
        let mut entry = Entry::new(kind);
        let denied = mixed.is_multiple_of(10);
        entry.sandbox = Some(self.sandboxes[(mixed % 50) as usize]);
        entry.server = Some(format!("server-{}", mixed % 20).into());
        entry.profile = Some(format!("user-{}", mixed % 200).into());
        entry.conn = Some(n / 8);
        entry.request = Some(format!("req-{}", n / 4).into());
        entry.policy = Some("everyday".into());
        entry.policy_version = Some(3);
        entry.rule = Some(format!("egress[{}]", mixed % 12).into());
        entry.verdict = Some(if denied {
            VerdictWord::Deny
        } else {
            VerdictWord::Allow
        });
        entry.reason = denied.then_some(DenyReason::HostNotAllowed);
        entry.host = Some(format!("h{}.example{}.com", mixed % 400, mixed % 7).into());
        entry.port = Some(443);
        entry.protocol = Some("https".into());
        entry.method = Some(
            if mixed.is_multiple_of(3) {
                "POST"
            } else {
                "GET"
            }
            .into(),
        );
        entry.path = Some(format!("/api/v2/items/{}/parts/{}", mixed % 100_000, mixed % 13).into());
        entry.status = Some(if denied { 403 } else { 200 });
        entry.bytes_out = Some(mixed % 5_000);
        entry.bytes_in = Some(mixed % 50_000);
        entry.duration_ms = Some(mixed % 300);
        entry
    }
}

fn search(path: &Path) {
    let mut log: Box<dyn Log> = if path.extension().is_some_and(|ending| ending == "db") {
        Box::new(SqliteLog::open(path).expect("the database"))
    } else {
        Box::new(JsonlLog::open(path).expect("the file"))
    };
    for (name, asked) in SEARCHES {
        let filter = filter(asked);
        let query = Query {
            filter,
            before: None,
            limit: 50,
        };
        let mut times = Vec::new();
        let mut found = 0;
        for _ in 0..3 {
            let begun = Instant::now();
            found = log.search(&query).expect("a search").records.len();
            times.push(begun.elapsed());
        }
        println!(
            "   {name}: {found} in {:?}, again {:?} {:?}",
            times[0], times[1], times[2]
        );
    }
}

fn filter(asked: &[(&str, &str)]) -> Filter {
    let mut filter = Filter::default();
    for (field, value) in asked {
        let list = match *field {
            "verdict" => &mut filter.verdict,
            "status" => &mut filter.status,
            "host" => &mut filter.host,
            "request" => &mut filter.request,
            "conn" => &mut filter.conn,
            "text" => &mut filter.text,
            "profile" => &mut filter.profile,
            "server" => &mut filter.server,
            "method" => &mut filter.method,
            _ => {
                filter.until = Some((*value).to_owned());
                continue;
            }
        };
        list.push((*value).to_owned());
    }
    filter
}

/// What is looked for, by name, field and value: common, rare, and nothing at all.
const SEARCHES: [(&str, &[(&str, &str)]); 12] = [
    ("newest", &[]),
    ("denied", &[("verdict", "deny")]),
    ("one host", &[("host", "h17.example3.com")]),
    (
        "below a domain, denied",
        &[("host", "*.example5.com"), ("verdict", "deny")],
    ),
    ("a host that is nowhere", &[("host", "nowhere.example")]),
    (
        "denied and 200: nothing",
        &[("verdict", "deny"), ("status", "200")],
    ),
    ("first request of all", &[("request", "req-1")]),
    ("first connection of all", &[("conn", "0")]),
    ("words of few records", &[("text", "items 4711")]),
    (
        "words of most records: nothing",
        &[("text", "items parts evil")],
    ),
    (
        "user, server, method",
        &[
            ("profile", "user-7"),
            ("server", "server-7"),
            ("method", "POST"),
        ],
    ),
    ("before all of it", &[("until", "2000-01-01")]),
];
