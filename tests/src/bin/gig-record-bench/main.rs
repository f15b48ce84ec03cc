//! What a record costs and what a search takes, in files and in databases.
//!
//! `gig-record-bench [--quick] [--records N] [--dir DIR] [--store jsonl,sqlite,unsigned,postgres] [--seconds N]
//! [--rate N] [--rounds N] [--filled]` measures how long one record waits when nothing else happens, what RATE records a
//! second add (and whether any is refused), then fills the database to N records and searches it as the console
//! does: each kind of search once with none of an SQLite file in memory (cold), then ROUNDS times with other values,
//! pages far back, and what the overview reads. `postgres` is the server of GIG_DATABASE_URL. With `--filled`
//! what an earlier run left in DIR or on the server is searched, and nothing is added. It prints figures for
//! people: nothing here passes or fails but what is not done at all. On a machine that does other work they are
//! that work's, too.
#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use gig_audit::{
    JsonlStore, PostgresRecord, RecordRefused, Recorder, RecorderSettings, SigningKey, SqliteLog,
    SqliteStore, Store,
    counts::CountedLog,
    log::{Log, jsonl::JsonlLog},
};

use rustix::fs::{Advice, fadvise};

mod made;
mod searches;

use made::Made;

struct Options {
    records: u64,
    folder: PathBuf,
    stores: Vec<String>,
    seconds: u64,
    rate: u64,
    rounds: u32,
    filled: bool,
}

/// What is measured.
enum Kept {
    Lines(PathBuf),
    Sqlite(PathBuf),
    Postgres(PostgresRecord),
}

impl Kept {
    fn named(store: &str, folder: &Path) -> Self {
        match store {
            "sqlite" => Self::Sqlite(folder.join("signed.db")),
            "unsigned" => Self::Sqlite(folder.join("unsigned.db")),
            "postgres" => {
                let url = std::env::var("GIG_DATABASE_URL").expect("GIG_DATABASE_URL");
                Self::Postgres(PostgresRecord::open(&url).expect("the server"))
            }
            _ => Self::Lines(folder.join("bench.jsonl")),
        }
    }

    fn store(&self) -> Box<dyn Store> {
        let key = SigningKey::from_seed(&[7; SigningKey::SEED]).expect("a key");
        match self {
            Self::Lines(path) => Box::new(JsonlStore::open(path).expect("the file")),
            Self::Sqlite(path) => {
                // As `gig run` writes it, and without.
                let key = (!path.ends_with("unsigned.db")).then(|| Arc::new(key));
                Box::new(SqliteStore::open_signing(path, "bench", key, true).expect("the database"))
            }
            Self::Postgres(record) => Box::new(
                record
                    .write("bench", Arc::new(key), true)
                    .expect("the server"),
            ),
        }
    }

    fn log(&self) -> Box<dyn Log> {
        match self {
            Self::Lines(path) => Box::new(JsonlLog::open(path).expect("the file")),
            Self::Sqlite(path) => Box::new(SqliteLog::open(path).expect("the database")),
            Self::Postgres(record) => Box::new(record.log().expect("the server")),
        }
    }

    /// With its counts, where there are some.
    fn counted(&self) -> Option<Box<dyn CountedLog>> {
        match self {
            Self::Lines(_) => None,
            Self::Sqlite(path) => Some(Box::new(SqliteLog::open(path).expect("the database"))),
            Self::Postgres(record) => Some(Box::new(record.log().expect("the server"))),
        }
    }

    /// Puts a file out of the kernel's memory, as after a start of the machine; what a server keeps stays.
    fn chill(&self) {
        let (Self::Lines(path) | Self::Sqlite(path)) = self else {
            return;
        };
        for ending in ["", "-wal"] {
            let mut name = path.clone().into_os_string();
            name.push(ending);
            let Ok(file) = std::fs::File::open(name) else {
                continue;
            };
            file.sync_all().expect("its pages on the disk");
            fadvise(&file, 0, None, Advice::DontNeed).expect("none of it in memory");
        }
    }

    fn unindexed(&self) -> u64 {
        match self {
            Self::Lines(_) => 0,
            Self::Sqlite(path) => {
                let mut log = SqliteLog::open(path).expect("the database");
                log.unindexed().expect("its index")
            }
            Self::Postgres(record) => {
                let mut log = record.log().expect("the server");
                log.unindexed().expect("its index")
            }
        }
    }

    fn size(&self) -> u64 {
        match self {
            Self::Lines(path) | Self::Sqlite(path) => {
                path.metadata().map_or(0, |found| found.len())
            }
            Self::Postgres(_) => 0,
        }
    }
}

fn main() {
    let options = options();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    for store in &options.stores {
        let kept = Kept::named(store, &options.folder);
        println!("== {store}");
        if !options.filled {
            runtime.block_on(record(&kept, &options));
        }
        searches::search(&kept, options.rounds);
        searches::overview(&kept, options.rounds);
    }
}

fn options() -> Options {
    let mut options = Options {
        records: 200_000,
        folder: std::env::temp_dir(),
        stores: vec!["jsonl".to_owned(), "sqlite".to_owned()],
        seconds: 10,
        rate: 10_000,
        rounds: 20,
        filled: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--quick" {
            // Enough for two blocks of an index, and for a test to see that all of it runs.
            (
                options.records,
                options.seconds,
                options.rate,
                options.rounds,
            ) = (10_000, 1, 2_000, 2);
            continue;
        }
        if word == "--filled" {
            options.filled = true;
            continue;
        }
        let value = words
            .next()
            .unwrap_or_else(|| panic!("{word} wants a value"));
        match word.as_str() {
            "--records" => options.records = value.parse().expect("a number"),
            "--dir" => options.folder = value.into(),
            "--store" => options.stores = value.split(',').map(str::to_owned).collect(),
            "--rate" => options.rate = value.parse().expect("a number"),
            "--rounds" => options.rounds = value.parse().expect("a number"),
            "--seconds" => options.seconds = value.parse().expect("a number"),
            _ => panic!("no option {word}"),
        }
    }
    options
}

async fn record(kept: &Kept, options: &Options) {
    let store = kept.store();
    let (recorder, owner) =
        Recorder::start(store, RecorderSettings::new("bench")).expect("threads");
    let made = Made::new();
    let mut waits = Vec::new();
    for n in 0..IDLE {
        let begun = Instant::now();
        recorder.record(made.entry(n)).await.expect("recorded");
        waits.push(begun.elapsed());
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    tell("idle", &mut waits);
    let refused = load(&recorder, &made, options, &mut waits).await;
    tell(&format!("{} records a second", options.rate), &mut waits);
    println!("   refused: {refused}");
    let begun = Instant::now();
    let before = IDLE + options.rate * options.seconds;
    let mut n = before;
    while n < options.records {
        match recorder.queue(made.entry(n)) {
            Ok(()) => n += 1,
            // The queue is full: what was handed in is written first.
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    recorder.record(made.entry(n)).await.ok();
    let took = begun.elapsed().as_secs_f64();
    println!(
        "   filled to {n} records, {:.0} a second",
        (n - before) as f64 / took
    );
    let begun = Instant::now();
    while kept.unindexed() > 4096 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("   indexed {:?} later", begun.elapsed());
    if let Some(mut log) = kept.counted() {
        let whole = |log: &mut dyn CountedLog| {
            let decided = log.decided("2000", "2000").expect("its counts");
            decided.extent.is_whole_from("2000")
        };
        while !whole(log.as_mut()) {
            // Looking takes what counting takes: seldom.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        println!("   counted {:?} later", begun.elapsed());
    }
    owner.close(Duration::from_secs(600));
    let size = kept.size();
    println!("   {} MB, {} octets a record", size >> 20, size / n.max(1));
}

/// Half of the records are decisions that somebody waits for, from 64 tasks; half are outcomes.
async fn load(
    recorder: &Recorder,
    made: &Made,
    options: &Options,
    waits: &mut Vec<Duration>,
) -> u64 {
    waits.clear();
    let mut refused = 0;
    let begun = tokio::time::Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    let total = options.rate * options.seconds / 2;
    for n in 0..total {
        // A pair of records at a time.
        let due = Duration::from_micros(2_000_000 * n / options.rate);
        tokio::time::sleep_until(begun + due).await;
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
    println!("   {rate:.0} records a second for {} s", options.seconds);
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

/// Records that come one by one.
const IDLE: u64 = 3_000;
