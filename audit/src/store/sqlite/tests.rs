//! The database as a store: durable, refusing, indexed, and honest about its end.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;
use crate::{
    Entry, Event, Recorder, RecorderOwner, RecorderSettings, Sequence,
    log::Log,
    search::{
        Filter, Marks, Query,
        term::{Field, sourced, term, told},
        whole::source_term,
    },
    store::tests::numbered,
};

mod beside;
mod counts;
mod tampered;

const PATIENCE: Duration = Duration::from_secs(120);

fn start(path: &Path, node: &str) -> (Recorder, RecorderOwner) {
    let store = Box::new(SqliteStore::open(path, node).unwrap());
    Recorder::start(store, RecorderSettings::new(node)).unwrap()
}

/// Makes a database of one record, which nobody has open.
async fn write_one(path: &Path) {
    let (recorder, owner) = start(path, "n");
    recorder.record(numbered(1)).await.unwrap();
    owner.close(PATIENCE);
}

fn verified(path: &Path) -> Vec<u64> {
    let verdict = SqliteLog::open(path)
        .unwrap()
        .verify(crate::verify::Expected::default())
        .unwrap();
    assert_eq!(verdict.strays.count, 0);
    verdict
        .chains
        .into_iter()
        .map(|one| one.outcome.unwrap().head.seq)
        .collect()
}

#[tokio::test]
async fn trying_it_out_writes_and_leaves_everything_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    write_one(&path).await;
    let mut store = SqliteStore::open(&path, "n").unwrap();
    let log = folder.path().join("audit.db-wal");
    let before = (
        fs::metadata(&log).unwrap().len(),
        store.begin().unwrap().head,
    );
    store.give_back();
    for _ in 0..2 {
        store.try_out().unwrap().unwrap();
    }
    let after = (
        fs::metadata(&log).unwrap().len(),
        store.begin().unwrap().head,
    );
    assert!(
        after.0 > before.0 && after.1 == before.1,
        "{before:?} {after:?}"
    );
    drop(store);
    assert_eq!(verified(&path), [1]);
}

#[tokio::test]
async fn what_somebody_did_is_found_in_what_an_older_gig_indexed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    let (recorder, owner) = start(&path, "n");
    let mut added = Entry::new(Event::Admin);
    (added.deed, added.subject) = (Some(crate::Deed::UserAdd), Some("ben".into()));
    added.src = Some(([192, 0, 2, 7], 40_000).into());
    for n in 1..2 * 4096 {
        let entry = match n {
            10 => added.clone(),
            n => numbered(n),
        };
        while recorder.queue(entry.clone()).is_err() {
            tokio::task::yield_now().await;
        }
    }
    recorder.record(numbered(2 * 4096)).await.unwrap();
    while SqliteLog::open(&path).unwrap().unindexed().unwrap() > 4096 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    owner.close(PATIENCE);
    let search = |text: &[&str], src: &[&str]| {
        let list = |each: &[&str]| each.iter().map(|one| (*one).to_owned()).collect();
        let query = Query {
            filter: Filter {
                text: list(text),
                src: list(src),
                ..Filter::default()
            },
            before: None,
            limit: 10,
        };
        let page = SqliteLog::open(&path).unwrap().search(&query).unwrap();
        let found = page.records.into_iter();
        found.map(|found| found.at.seq).collect::<Vec<_>>()
    };
    let found = |text: &str| search(&[text], &[]);
    let from = |src: &str| search(&[], &[src]);
    assert_eq!((found("user.add"), found("add ben")), (vec![10], vec![10]));
    assert_eq!(
        (from("192.0.2.7"), found("192.0.2.7")),
        (vec![10], vec![10])
    );
    let forget = |terms: &[i64]| {
        let other = Connection::open(&path).unwrap();
        for term in terms {
            let gone = "DELETE FROM posting WHERE term = ?1";
            assert!(other.execute(gone, [term]).unwrap() > 0);
        }
    };
    // Without the words it is not looked at, as long as the index says that it knows them.
    forget(&["user", "add", "ben"].map(|word| term(Field::Word, word)));
    assert!(found("user.add").is_empty());
    let address = "192.0.2.7".parse().unwrap();
    forget(&[source_term(address)]);
    assert!(from("192.0.2.7").is_empty() && found("192.0.2.7").is_empty());
    // As gigs left it that did not know from where something came, and then those before them.
    forget(&[sourced()]);
    assert_eq!((from("192.0.2.7"), from("192.0.2.8")), (vec![10], vec![]));
    assert!(found("user.add").is_empty());
    forget(&[told()]);
    assert_eq!(from("192.0.2.7"), [10]);
    assert_eq!((found("user.add"), found("add ben")), (vec![10], vec![10]));
    assert_eq!(found("item 4000"), [4000], "all else is found as ever");
}

#[tokio::test]
async fn an_answer_means_that_the_database_holds_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    let (recorder, owner) = start(&path, "n");
    for n in 1..=3 {
        assert_eq!(recorder.record(numbered(n)).await, Ok(Sequence(n)));
        assert_eq!(verified(&path), [n]);
    }
    owner.close(PATIENCE);
    let (recorder, owner) = start(&path, "n");
    assert_eq!(recorder.record(numbered(4)).await, Ok(Sequence(4)));
    owner.close(PATIENCE);
    assert_eq!(verified(&path), [4]);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[tokio::test]
async fn a_database_that_somebody_is_writing_to_is_opened_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    let (recorder, owner) = start(&path, "n");
    let (stop, theirs) = (Arc::new(AtomicBool::new(false)), path.clone());
    let stopped = Arc::clone(&stop);
    let opener = std::thread::spawn(move || {
        let opened = (0..100).all(|_| SqliteStore::open(&theirs, "n").is_ok());
        stopped.store(true, Ordering::Relaxed);
        opened
    });
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        recorder.record(numbered(n)).await.unwrap();
    }
    assert!(opener.join().unwrap(), "its end was taken for a wrong one");
    owner.close(PATIENCE);
    assert_eq!(verified(&path), [n]);
}

#[test]
fn an_empty_group_gives_the_database_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    let mut store = SqliteStore::open(&path, "n").unwrap();
    let empty = Group {
        records: &[],
        lines: &[],
    };
    for _ in 0..2 {
        assert!(store.begin_at_once().unwrap().is_some());
        store.append(empty).unwrap();
        store.begin().unwrap();
        store.append(empty).unwrap();
    }
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").unwrap();
}

#[tokio::test]
async fn two_recorders_on_one_database_continue_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    let (one, owner) = start(&path, "n");
    let (other, other_owner) = start(&path, "n");
    let (third, third_owner) = start(&path, "another machine");
    for n in 0..20 {
        assert_eq!(one.record(numbered(n)).await, Ok(Sequence(2 * n + 1)));
        assert_eq!(other.record(numbered(n)).await, Ok(Sequence(2 * n + 2)));
        assert_eq!(third.record(numbered(n)).await, Ok(Sequence(n + 1)));
    }
    for owner in [owner, other_owner, third_owner] {
        owner.close(PATIENCE);
    }
    assert_eq!(verified(&path), [40, 20]);
    let mut log = SqliteLog::open(&path).unwrap();
    let query = Query {
        filter: Filter::default(),
        before: None,
        limit: 1000,
    };
    let page = log.search(&query).unwrap();
    assert_eq!(page.records.len(), 60);
    assert!(
        page.records
            .is_sorted_by(|new, old| new.row.time >= old.row.time)
    );
}

#[tokio::test]
async fn what_is_no_database_of_ours_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    fs::write(
        &path,
        "not a database, but long enough to be looked at as one",
    )
    .unwrap();
    let refused = SqliteStore::open(&path, "n").unwrap_err();
    assert!(
        matches!(refused, OpenSqliteError::NotOurs { .. }),
        "{refused:?}"
    );
    fs::remove_file(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE theirs (a)").unwrap();
    let refused = SqliteStore::open(&path, "n").unwrap_err();
    assert!(
        matches!(refused, OpenSqliteError::NotOurs { .. }),
        "{refused:?}"
    );
    assert!(SqliteLog::open(&path).is_err());
}

#[tokio::test]
async fn a_full_database_refuses_and_the_gap_is_recorded_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    let store = SqliteStore::open(&path, "n").unwrap();
    let pages: u32 = store
        .connection
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .unwrap();
    store
        .connection
        .pragma_update(None, "max_page_count", pages + 2)
        .unwrap();
    let mut writer = store;
    // One group after another, until there is no room.
    let mut written = 0;
    let error = loop {
        let tail = writer.begin().unwrap();
        let mut lines = Vec::new();
        let mut entry = numbered(1);
        entry.path = Some("/x".repeat(3000).into());
        let node = "n".into();
        let stamp = chain::Stamp {
            time: "2026-11-21T09:30:00.000001Z",
            node: &node,
        };
        let record = chain::seal(tail.head, entry, stamp, &mut lines);
        let group = Group {
            records: &[record],
            lines: &lines,
        };
        match writer.append(group) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(error.source.to_string().contains("full"), "{error:?}");
    assert_eq!(verified(&path), [written]);
    let (recorder, owner) = Recorder::start(Box::new(writer), RecorderSettings::new("n")).unwrap();
    let mut large = numbered(1);
    large.path = Some("/x".repeat(3000).into());
    let mut refused = 0;
    while recorder.record(large.clone()).await.is_err() && refused < 3 {
        refused += 1;
    }
    assert_eq!(refused, 3);
    owner.close(PATIENCE);
    let (recorder, owner) = start(&path, "n");
    recorder.record(large).await.unwrap();
    owner.close(PATIENCE);
    // The gap is told as soon as there is room for it, and that may be before there is for more.
    let all = SqliteLog::open(&path)
        .unwrap()
        .after(&Marks::default(), 100)
        .unwrap();
    let gaps = all.iter().filter(|found| found.row.event == "audit.gap");
    let told: Vec<_> = gaps.map(|found| found.row.findings.concat()).collect();
    assert!(told[0].contains("records were refused"), "{told:?}");
    assert_eq!(verified(&path), [written + 1 + told.len() as u64]);
}

#[tokio::test]
async fn a_database_that_is_locked_for_long_refuses_and_tells_the_gap_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    let settings = RecorderSettings {
        deadline: Duration::from_millis(50),
        ..RecorderSettings::new("n")
    };
    let store = Box::new(SqliteStore::open(&path, "n").unwrap());
    let (recorder, owner) = Recorder::start(store, settings).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let late = recorder.record(numbered(1)).await.unwrap_err();
    assert!(late.why.contains("no answer"), "{}", late.why);
    other.execute_batch("ROLLBACK").unwrap();
    // Written late, and told: the deadline of the next may pass as well while it is.
    let mut tries = 0;
    while recorder.record(numbered(2)).await.is_err() && tries < 1000 {
        tries += 1;
    }
    owner.close(PATIENCE);
    let mut log = SqliteLog::open(&path).unwrap();
    let all = log.after(&Marks::default(), 5000).unwrap();
    assert!(all.iter().any(|found| found.row.event == "audit.gap"));
    assert_eq!(verified(&path), [all.len() as u64]);
}

#[tokio::test]
async fn a_database_that_is_not_under_its_name_takes_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    let (recorder, owner) = start(&path, "n");
    recorder.record(numbered(1)).await.unwrap();
    fs::rename(&path, folder.path().join("away.db")).unwrap();
    assert!(recorder.record(numbered(2)).await.is_err());
    fs::write(&path, "").unwrap();
    assert!(recorder.record(numbered(3)).await.is_err());
    owner.close(PATIENCE);
}

#[tokio::test]
async fn a_database_that_was_just_made_is_locked_against_who_would_take_its_log_away() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    for _ in 0..2 {
        let (recorder, owner) = start(&path, "n");
        // Another recorder of the same process, as a change beside a sandbox makes one.
        let beside = SqliteStore::open(&path, "n").unwrap();
        drop(beside);
        recorder.record(numbered(1)).await.unwrap();
        let file = format!(":{} ", path.metadata().unwrap().ino());
        let locks = fs::read_to_string("/proc/locks").unwrap();
        assert!(locks.lines().any(|line| line.contains(&file)), "{locks}");
        owner.close(PATIENCE);
    }
}
