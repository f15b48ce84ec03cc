//! `gig audit search` and `tail`: the same answers from a file and from a database.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use gig_audit::{
    Entry, Event, JsonlStore, Recorder, RecorderOwner, RecorderSettings, SqliteStore, Store,
    VerdictWord,
};
use gig_policy::DenyReason;
use gig_tests::lab::place;
use serde_json::Value;

use super::{Answer, gig};

const PATIENCE: Duration = Duration::from_secs(120);

/// A recorder on `path`, in a runtime of its own.
struct Writer {
    runtime: tokio::runtime::Runtime,
    recorder: Recorder,
    owner: RecorderOwner,
}

impl Writer {
    fn on(path: &Path) -> Self {
        let store: Box<dyn Store> = match path.extension() {
            Some(ending) if ending == "db" => Box::new(SqliteStore::open(path, "n").unwrap()),
            _ => Box::new(JsonlStore::open(path).unwrap()),
        };
        let (recorder, owner) = Recorder::start(store, RecorderSettings::new("n")).unwrap();
        Self {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            recorder,
            owner,
        }
    }

    fn record(&self, entry: Entry) {
        self.runtime.block_on(self.recorder.record(entry)).unwrap();
    }

    fn close(self) {
        self.owner.close(PATIENCE);
    }
}

fn request(n: u64, host: &str, denied: bool) -> Entry {
    let mut entry = Entry::new(Event::Request);
    entry.conn = Some(n);
    entry.request = Some(format!("r-{n}").into());
    entry.src = Some(([10, 200, 0, u8::try_from(n).unwrap()], 40_000).into());
    entry.host = Some(host.into());
    entry.method = Some("GET".into());
    entry.path = Some(format!("/item/{n}").into());
    entry.verdict = Some(if denied {
        VerdictWord::Deny
    } else {
        VerdictWord::Allow
    });
    entry.reason = denied.then_some(DenyReason::HostNotAllowed);
    entry.status = Some(if denied { 403 } else { 200 });
    entry
}

/// The same records in a file and in a database.
fn two_records(folder: &Path) -> [PathBuf; 2] {
    let places = [folder.join("audit.jsonl"), folder.join("audit.db")];
    for place in &places {
        let writer = Writer::on(place);
        for n in 1..=30 {
            let host = ["api.example.com", "www.example.com", "evil.example.net"][n as usize % 3];
            writer.record(request(n, host, n % 3 == 2));
        }
        writer.close();
    }
    places
}

fn found(answer: &Answer) -> (Vec<u64>, Option<String>) {
    let document: Value =
        serde_json::from_str(&answer.output).unwrap_or_else(|_| panic!("{answer:?}"));
    let records = document["records"].as_array().unwrap();
    let seqs = records.iter().map(|record| record["seq"].as_u64().unwrap());
    (seqs.collect(), document["next"].as_str().map(str::to_owned))
}

#[test]
fn a_file_and_a_database_are_searched_alike() {
    let folder = tempfile::tempdir().unwrap();
    for place in two_records(folder.path()) {
        let name = place.to_str().unwrap();
        let search = |options: &[&str]| {
            let mut words = vec!["audit", "search", name, "--json"];
            words.extend(options);
            found(&gig(&words)).0
        };
        let denied: Vec<u64> = (1..=30).rev().filter(|n| n % 3 == 2).collect();
        assert_eq!(search(&["--verdict", "deny"]), denied, "{name}");
        assert_eq!(search(&["--host", "EVIL.example.net"]), denied, "{name}");
        assert_eq!(
            search(&["--host", "*.example.net", "--status", "4xx"]),
            denied,
            "{name}"
        );
        assert_eq!(search(&["--reason", "host_not_allowed"]), denied, "{name}");
        assert!(search(&["--host", "example.net"]).is_empty(), "{name}");
        assert_eq!(search(&["--request", "r-7"]), [7], "{name}");
        assert_eq!(
            search(&["--conn", "7", "--event", "request"]),
            [7],
            "{name}"
        );
        assert_eq!(search(&["--text", "item 12"]), [12], "{name}");
        assert_eq!(search(&["--src", "10.200.0.7"]), [7], "{name}");
        assert_eq!(search(&["--text", "item 10.200.0.8"]), [8], "{name}");
        let port = gig(&["audit", "search", name, "--src", "10.200.0.7:80"]);
        assert!(port.errors.contains("without a port"), "{port:?}");
        assert_eq!(
            search(&["--since", "1h", "--limit", "2"]),
            [30, 29],
            "{name}"
        );
        assert!(search(&["--until", "1h"]).is_empty(), "{name}");
        assert_eq!(
            gig(&["audit", "search", name, "--until", "1h"]).status,
            1,
            "{name}"
        );
    }
}

#[test]
fn pages_follow_each_other_by_their_cursor() {
    let folder = tempfile::tempdir().unwrap();
    for place in two_records(folder.path()) {
        let name = place.to_str().unwrap();
        let mut seen = Vec::new();
        let mut cursor = "".to_owned();
        loop {
            let mut words = vec!["audit", "search", name, "--json", "--limit", "4"];
            words.extend(["--verdict", "allow"]);
            if !cursor.is_empty() {
                words.extend(["--cursor", &cursor]);
            }
            let (seqs, next) = found(&gig(&words));
            assert!(seqs.len() <= 4, "{seqs:?}");
            seen.extend(seqs);
            match next {
                Some(next) => cursor = next,
                None => break,
            }
        }
        let allowed: Vec<u64> = (1..=30).rev().filter(|n| n % 3 != 2).collect();
        assert_eq!(seen, allowed, "{name}");
        let wrong = gig(&["audit", "search", name, "--cursor", "nonsense"]);
        assert_eq!(wrong.status, 125, "{wrong:?}");
    }
}

#[test]
fn options_that_name_nothing_are_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let [file, _] = two_records(folder.path());
    let name = file.to_str().unwrap();
    for option in [
        ["--event", "conect"],
        ["--verdict", "maybe"],
        ["--reason", "because"],
        ["--status", "4x"],
        ["--since", "yesterday"],
        ["--text", "--"],
        ["--limit", "0"],
    ] {
        let answer = gig(&["audit", "search", name, option[0], option[1]]);
        assert_eq!(
            (answer.status, answer.output.as_str()),
            (125, ""),
            "{option:?}"
        );
    }
    let nowhere = gig(&["audit", "search", "/nowhere/audit.db"]);
    assert_eq!(nowhere.status, 125, "{nowhere:?}");
}

#[test]
fn tail_shows_the_newest_and_follows_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    for place in two_records(folder.path()) {
        let name = place.to_str().unwrap();
        let answer = gig(&["audit", "tail", name, "-n", "2", "--verdict", "deny"]);
        let lines: Vec<&str> = answer.output.lines().collect();
        assert_eq!(lines.len(), 2, "{answer:?}");
        assert!(
            lines[0].contains("/item/26") && lines[1].contains("/item/29"),
            "{lines:?}"
        );

        let mut following = Command::new(place::gig())
            .args([
                "audit", "tail", name, "-n", "1", "--follow", "--json", "--status", "200",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
        let mut next =
            || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        assert_eq!(next()["seq"], 30);
        let writer = Writer::on(&place);
        writer.record(request(31, "evil.example.net", true));
        writer.record(request(32, "api.example.com", false));
        assert_eq!(next()["seq"], 32);
        writer.record(request(33, "api.example.com", false));
        assert_eq!(next()["seq"], 33);
        following.kill().unwrap();
        following.wait().unwrap();
        writer.close();
    }
}

#[test]
fn a_record_that_is_put_in_the_place_of_the_followed_one_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    for place in two_records(folder.path()) {
        let name = place.to_str().unwrap();
        let mut following = Command::new(place::gig())
            .args(["audit", "tail", name, "-n", "1", "--follow", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
        let mut next =
            || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        assert_eq!(next()["seq"], 30);
        std::fs::rename(&place, folder.path().join("away")).unwrap();
        for beside in ["-wal", "-shm"] {
            let _not_there = std::fs::remove_file(format!("{name}{beside}"));
        }
        let writer = Writer::on(&place);
        writer.record(request(1, "after.example.com", false));
        let first = next();
        assert_eq!(
            (&first["seq"], &first["host"]),
            (&1.into(), &"after.example.com".into())
        );
        following.kill().unwrap();
        let mut told = String::new();
        let mut errors = following.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut errors, &mut told).unwrap();
        assert!(told.contains("another record is in the place"), "{told}");
        following.wait().unwrap();
        writer.close();
    }
}

#[test]
fn a_database_is_verified_and_its_harm_named() {
    let folder = tempfile::tempdir().unwrap();
    let [_, database] = two_records(folder.path());
    let name = database.to_str().unwrap();
    let answer = gig(&["audit", "verify", name]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert!(
        answer.output.contains("chain of n: whole: 30 records"),
        "{answer:?}"
    );
    let octets = std::fs::read(&database).unwrap();
    let at = octets
        .windows(8)
        .position(|some| some == b"/item/17")
        .unwrap();
    let mut changed = octets;
    changed[at + 6] = b'9';
    std::fs::write(&database, changed).unwrap();
    let answer = gig(&["audit", "verify", name, "--json"]);
    let document: Value = serde_json::from_str(&answer.output).unwrap();
    assert_eq!((answer.status, &document["whole"]), (1, &false.into()));
    assert_eq!(document["chains"][0]["record"], 17, "{document}");
}

#[test]
fn records_that_belong_to_no_chain_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let [_, database] = two_records(folder.path());
    let name = database.to_str().unwrap();
    let insert = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); \
                  d.execute('INSERT INTO record SELECT position + 5, line FROM record WHERE position % 64 = 30'); \
                  d.execute('INSERT INTO record SELECT position + (7 << 40), line FROM record WHERE position % 64 = 30'); \
                  d.commit()";
    let done = Command::new("/usr/bin/python3")
        .args(["-c", insert, name])
        .status();
    assert!(done.unwrap().success());
    let answer = gig(&["audit", "verify", name]);
    assert_eq!(answer.status, 1, "{answer:?}");
    for part in [
        "chain of n: whole: 30 records",
        "2 records stand behind the end of their chain or in none",
        "record 35 of chain 1",
        "record 30 of chain 8",
    ] {
        assert!(answer.output.contains(part), "{part}: {answer:?}");
    }
}

#[test]
fn what_sandboxes_sent_is_shown_escaped() {
    let folder = tempfile::tempdir().unwrap();
    for ending in ["jsonl", "db"] {
        let place = folder.path().join(format!("hostile.{ending}"));
        let writer = Writer::on(&place);
        let mut entry = request(1, "a.example", true);
        entry.path = Some("/\u{1b}[2J\u{202e}\n\u{9b}x".into());
        writer.record(entry);
        writer.close();
        for words in [
            ["search", "--limit=5"],
            ["tail", "-n5"],
            ["search", "--json"],
            ["tail", "--json"],
        ] {
            let answer = gig(&["audit", words[0], place.to_str().unwrap(), words[1]]);
            assert_eq!(answer.status, 0, "{answer:?}");
            let odd = |c: char| !matches!(c, ' '..='~' | '\n');
            assert!(!answer.output.contains(odd), "{answer:?}");
        }
    }
}
