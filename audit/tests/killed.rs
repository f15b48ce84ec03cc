//! `kill -9` at any moment under load loses no record that was acknowledged, and the next start goes on
//! by itself. The victim is this program again, told by a variable what to be.
#![expect(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use gig_audit::{
    Entry, Event, JsonlStore, PostgresRecord, Recorder, RecorderSettings, SigningKey, SqliteLog,
    SqliteStore, Store,
    log::{Log, jsonl::JsonlLog},
    search::Marks,
};

const FILE: &str = "GIG_TEST_VICTIM_FILE";
const LIFE: &str = "GIG_TEST_VICTIM_LIFE";
/// Lives of the victim; each ends at another moment.
const LIVES: u64 = 25;

#[expect(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what the suites use: a test of this crate cannot depend on theirs"
)]
#[path = "../../tests/src/lab/postgres.rs"]
mod postgres;

/// A file, or the URL of a server.
fn store_at(path: &Path) -> Box<dyn Store> {
    let url = path.to_str().filter(|text| text.starts_with("postgres://"));
    if let Some(url) = url {
        let key = SigningKey::from_seed(&[7; SigningKey::SEED]).unwrap();
        let record = PostgresRecord::open(url).unwrap();
        Box::new(record.write("n", Arc::new(key), true).unwrap())
    } else if path.extension().is_some_and(|ending| ending == "db") {
        Box::new(SqliteStore::open(path, "n").unwrap())
    } else {
        Box::new(JsonlStore::open(path).unwrap())
    }
}

/// Records without end from many tasks, and says of each record when it is acknowledged.
#[test]
#[ignore = "is the victim, not a test"]
fn victim() {
    let path = std::env::var(FILE).unwrap();
    let life: u64 = std::env::var(LIFE).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (recorder, _owner) =
        Recorder::start(store_at(path.as_ref()), RecorderSettings::new("n")).unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..16 {
            let recorder = recorder.clone();
            tasks.spawn(async move {
                for n in 0_u64.. {
                    let mut entry = Entry::new(Event::Request);
                    entry.conn = Some(n);
                    entry.request = Some(format!("{life}-{task}-{n}").into());
                    let seq = recorder.record(entry).await.unwrap().0;
                    recorder.queue(Entry::new(Event::Response)).unwrap();
                    let line = format!("ack {seq} {life}-{task}-{n}\n");
                    // Straight to the pipe: nothing is lost with the process.
                    std::io::stderr().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
        tasks.join_all().await;
    });
}

fn start_victim(path: &Path, life: u64) -> Child {
    #[expect(
        clippy::disallowed_methods,
        reason = "the victim of a test is spawned here"
    )]
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "victim", "--ignored", "--nocapture"])
        .env(FILE, path)
        .env(LIFE, life.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills a victim after some acknowledgements; answers all that it gave.
fn live_and_die(path: &Path, life: u64) -> BTreeMap<u64, String> {
    let mut child = start_victim(path, life);
    let mut acknowledged = BTreeMap::new();
    let enough = 1 + (life * 37) % 400;
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    let mut seen = 0;
    while lines.read_line(&mut line).unwrap() > 0 {
        let mut words = line.split_ascii_whitespace();
        if let (Some("ack"), Some(seq), Some(what), true) = (
            words.next(),
            words.next(),
            words.next(),
            line.ends_with('\n'),
        ) {
            acknowledged.insert(seq.parse().unwrap(), what.to_owned());
        }
        line.clear();
        seen += 1;
        if seen == enough {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(!acknowledged.is_empty(), "life {life} recorded nothing");
    acknowledged
}

fn loses_nothing(path: &Path, open: impl Fn(&Path) -> Box<dyn Log>) {
    let mut acknowledged = BTreeMap::new();
    for life in 1..=LIVES {
        acknowledged.append(&mut live_and_die(path, life));
    }
    // The next start goes on by itself: what was torn is repaired with its first record.
    let (recorder, owner) = Recorder::start(store_at(path), RecorderSettings::new("n")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let next = recorder.record(Entry::new(Event::Admin));
    runtime.block_on(next).unwrap();
    owner.close(Duration::from_secs(120));
    let mut log = open(path);
    for verdict in log
        .verify(gig_audit::verify::Expected::default())
        .unwrap()
        .chains
    {
        verdict.outcome.unwrap();
    }
    let mut marks = Marks::default();
    let mut kept = BTreeMap::new();
    loop {
        let some = log.after(&marks, 10_000).unwrap();
        let Some(last) = some.last() else { break };
        marks.set(last.at);
        kept.extend(
            some.into_iter()
                .map(|found| (found.row.seq, found.row.request)),
        );
    }
    for (seq, what) in acknowledged {
        assert_eq!(
            kept.get(&seq),
            Some(&Some(what)),
            "record {seq} was acknowledged"
        );
    }
}

#[test]
fn a_killed_gig_loses_no_acknowledged_record_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    loses_nothing(&folder.path().join("audit.jsonl"), |path| {
        Box::new(JsonlLog::open(path).unwrap())
    });
}

#[test]
fn a_killed_gig_loses_no_acknowledged_record_of_a_database() {
    let folder = tempfile::tempdir().unwrap();
    loses_nothing(&folder.path().join("audit.db"), |path| {
        Box::new(SqliteLog::open(path).unwrap())
    });
}

#[test]
fn a_killed_gig_loses_no_acknowledged_record_of_a_server() {
    let server = postgres::Postgres::start();
    let url = server.url("postgres");
    loses_nothing(url.as_ref(), |_| {
        Box::new(PostgresRecord::open(&url).unwrap().log().unwrap())
    });
}
