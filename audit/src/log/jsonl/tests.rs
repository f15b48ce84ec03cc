//! Files read from their end, from a place on, and while they are written.

use std::{fs, io::Write as _};

use super::*;
use crate::{
    Entry, Event, JsonlStore, Recorder, RecorderSettings,
    search::{Filter, Query},
};

fn recorded(path: &Path, count: u64, long: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let store = Box::new(JsonlStore::open(path).unwrap());
    let (recorder, owner) = Recorder::start(store, RecorderSettings::new("n")).unwrap();
    for n in 1..=count {
        let mut entry = Entry::new(if n % 3 == 0 {
            Event::Dns
        } else {
            Event::Request
        });
        entry.conn = Some(n);
        entry.path = long.then(|| "/\u{202e}".repeat(4000).into());
        recorder.queue(entry).unwrap();
    }
    runtime.block_on(async { recorder.record(Entry::new(Event::Admin)).await.unwrap() });
    owner.close(std::time::Duration::from_secs(120));
}

fn query(event: &str, limit: usize) -> Query {
    Query {
        filter: Filter {
            event: vec![event.to_owned()],
            ..Filter::default()
        },
        before: None,
        limit,
    }
}

#[test]
fn pages_give_every_match_once_newest_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    recorded(&path, 100, true);
    let mut log = JsonlLog::open(&path).unwrap();
    let mut found = Vec::new();
    let mut query = query("dns", 7);
    loop {
        let page = log.search(&query).unwrap();
        assert!(page.records.len() <= 7);
        found.extend(page.records.iter().map(|one| one.row.conn.unwrap()));
        match page.next {
            Some(next) => query.before = Some(next),
            None => break,
        }
    }
    let wanted: Vec<u64> = (1..=33).rev().map(|n| n * 3).collect();
    assert_eq!(found, wanted);
}

#[test]
fn what_is_behind_a_place_is_read_once_and_an_unfinished_line_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    recorded(&path, 50, false);
    let whole = fs::read(&path).unwrap();
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"seq\":52")
        .unwrap();
    let mut log = JsonlLog::open(&path).unwrap();
    let mut marks = Marks::default();
    let mut lines = Vec::new();
    loop {
        let some = log.after(&marks, 20).unwrap();
        let Some(last) = some.last() else { break };
        marks.set(last.at);
        lines.extend(some.into_iter().map(|one| one.line + "\n"));
    }
    assert_eq!(lines.concat().into_bytes(), whole);
    assert_eq!(log.end().unwrap(), marks);
    let newest = log.search(&query("admin", 1)).unwrap();
    assert_eq!(newest.records[0].at.seq, marks.of(CHAIN));
}

#[test]
fn an_empty_file_and_an_unfinished_first_line_hold_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    for octets in ["", "{\"seq\":1,\"ti"] {
        fs::write(&path, octets).unwrap();
        let mut log = JsonlLog::open(&path).unwrap();
        assert!(log.search(&query("dns", 5)).unwrap().records.is_empty());
        assert!(log.after(&Marks::default(), 5).unwrap().is_empty());
    }
}
