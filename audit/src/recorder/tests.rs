//! The recorder over stores that work, fail, hang and recover.

use std::{fs, io, sync::mpsc, time::Instant};

use super::*;
use crate::{
    event::Event,
    store::{Appended, Group, StoreError, Syncer, Tail, jsonl::JsonlStore},
    verify::verify,
};

mod late;

const PATIENCE: Duration = Duration::from_secs(60);

fn numbered(n: u64) -> Entry {
    let mut entry = Entry::new(Event::Request);
    entry.conn = Some(n);
    entry
}

fn start(store: impl Store + 'static) -> (Recorder, RecorderOwner) {
    Recorder::start(Box::new(store), RecorderSettings::new("n")).unwrap()
}

#[tokio::test]
async fn an_answer_means_that_the_file_holds_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let (recorder, owner) = start(JsonlStore::open(&path).unwrap());
    for n in 1..=3 {
        assert_eq!(recorder.record(numbered(n)).await, Ok(Sequence(n)));
        let lines = fs::read(&path).unwrap();
        assert_eq!(verify(lines.as_slice()).unwrap().head.seq, n);
    }
    owner.close(PATIENCE);
    assert!(recorder.record(numbered(4)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_get_one_chain_and_each_its_own_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let (recorder, owner) = start(JsonlStore::open(&path).unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..50 {
        let recorder = recorder.clone();
        tasks.spawn(async move {
            let mut places = Vec::new();
            for n in 0..20 {
                recorder.queue(numbered(1000 + n)).unwrap();
                places.push(recorder.record(numbered(task)).await.unwrap());
            }
            places
        });
    }
    let mut places = tasks.join_all().await.concat();
    owner.close(PATIENCE);
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 1000);
    let verified = verify(fs::read(&path).unwrap().as_slice()).unwrap();
    assert_eq!(verified.head.seq, 2000);
}

#[tokio::test]
async fn two_recorders_on_one_file_continue_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let (one, owner) = start(JsonlStore::open(&path).unwrap());
    let (other, other_owner) = start(JsonlStore::open(&path).unwrap());
    for n in 0..20 {
        assert_eq!(one.record(numbered(n)).await, Ok(Sequence(3 * n + 1)));
        assert_eq!(one.record(numbered(n)).await, Ok(Sequence(3 * n + 2)));
        assert_eq!(other.record(numbered(n)).await, Ok(Sequence(3 * n + 3)));
    }
    owner.close(PATIENCE);
    other_owner.close(PATIENCE);
    let verified = verify(fs::read(&path).unwrap().as_slice()).unwrap();
    assert_eq!(verified.head.seq, 60);
}

#[tokio::test]
async fn an_abandoned_entry_is_written_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let (recorder, owner) = start(JsonlStore::open(&path).unwrap());
    recorder.record(numbered(1)).await.unwrap();
    {
        let mut entry = numbered(2);
        entry.verdict = Some(crate::VerdictWord::Allow);
        let mut abandoned = Box::pin(recorder.record(entry));
        // Handed in at the first poll, dropped before the second.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(abandoned.as_mut().poll(&mut context).is_pending());
    }
    let written = || {
        let lines = fs::read(&path).unwrap();
        verify(lines.as_slice()).unwrap().head.seq
    };
    for _ in 0..1000 {
        if written() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(written(), 2);
    owner.close(PATIENCE);
    // Nothing was let go that nobody waited for.
    let lines = fs::read_to_string(&path).unwrap();
    let last = lines.lines().last().unwrap();
    let told = r#""verdict":"deny","reason":"request_incomplete""#;
    assert!(
        last.contains(told) && last.contains("nothing was sent"),
        "{last}"
    );
}

#[tokio::test]
async fn outcomes_are_written_in_order_without_being_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let (recorder, owner) = start(JsonlStore::open(&path).unwrap());
    recorder.queue(numbered(1)).unwrap();
    recorder.queue(numbered(2)).unwrap();
    assert_eq!(recorder.record(numbered(3)).await, Ok(Sequence(3)));
    recorder.queue(numbered(4)).unwrap();
    owner.close(PATIENCE);
    assert_eq!(
        verify(fs::read(&path).unwrap().as_slice())
            .unwrap()
            .head
            .seq,
        4
    );
}

#[tokio::test]
async fn a_full_disk_refuses() {
    let (recorder, owner) = start(JsonlStore::open("/dev/full".as_ref()).unwrap());
    let refused = recorder.record(numbered(1)).await.unwrap_err();
    assert!(refused.why.contains("No space left"), "{}", refused.why);
    assert_eq!(recorder.figures().refused, 1);
    owner.close(PATIENCE);
}

#[tokio::test]
async fn after_a_loss_the_gap_is_recorded_and_the_chain_goes_on() {
    let (recorder, log) = Recorder::in_memory();
    recorder.record(numbered(1)).await.unwrap();
    assert!(recorder.is_well());
    log.fail(true);
    assert!(recorder.record(numbered(2)).await.is_err());
    assert!(!recorder.is_well());
    assert!(recorder.record(numbered(3)).await.is_err());
    log.fail(false);
    assert_eq!(recorder.record(numbered(4)).await, Ok(Sequence(3)));
    assert!(recorder.is_well());
    let records = log.records();
    assert_eq!(records.len(), 3);
    assert_eq!(records[1].entry.event, Event::AuditGap);
    assert_eq!(&*records[1].entry.findings[0], "2 records were refused");
    // When that was: behind the record before, and before the gap was written.
    let span = records[1].entry.findings[1].strip_prefix("refused from ");
    let (first, last) = span.unwrap().split_once(" to ").unwrap();
    let in_order = [&*records[0].time, first, last, &*records[1].time];
    assert!(in_order.is_sorted() && first < last, "{in_order:?}");
    assert_eq!(records[2].prev, records[1].hash);
    // What was told of stays counted.
    let figures = recorder.figures();
    assert_eq!((figures.refused, figures.groups, figures.queued), (2, 2, 0));
}

#[tokio::test]
async fn a_record_that_nobody_writes_to_is_tried_out_and_not_for_each_who_asks() {
    let (recorder, log) = Recorder::in_memory();
    log.fail(true);
    assert!(!recorder.is_well(), "nobody has recorded anything");
    log.fail(false);
    // What was found is gone by for a while: nobody makes it write by asking.
    assert!(!recorder.is_well());
    recorder.record(numbered(1)).await.unwrap();
    log.fail(true);
    assert!(recorder.is_well(), "it was written a moment ago");
    assert_eq!(log.records().len(), 1);
}

/// Holds each group until it is told to go on.
struct Hanging {
    inner: MemoryLog,
    go: mpsc::Receiver<()>,
}

impl Store for Hanging {
    fn begin(&mut self) -> Result<Tail, StoreError> {
        self.inner.begin()
    }
    fn append(&mut self, group: Group<'_>) -> Result<Appended, StoreError> {
        self.go.recv().ok();
        self.inner.append(group)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn syncer(&self) -> Option<Box<dyn Syncer>> {
        None
    }
}

#[tokio::test]
async fn a_hanging_sink_refuses_at_the_deadline_and_a_full_queue_at_once() {
    let (go, held) = mpsc::channel();
    let log = MemoryLog::default();
    let store = Hanging {
        inner: log.clone(),
        go: held,
    };
    let settings = RecorderSettings {
        deadline: Duration::from_millis(50),
        ..RecorderSettings::new("n")
    };
    let (recorder, owner) = Recorder::start(Box::new(store), settings).unwrap();
    let late = recorder.record(numbered(1)).await.unwrap_err();
    assert!(late.why.contains("no answer"), "{}", late.why);
    let mut taken = 0;
    while recorder.queue(numbered(2)).is_ok() {
        taken += 1;
    }
    let full = recorder.record(numbered(3)).await.unwrap_err();
    assert!(full.why.contains("full"), "{}", full.why);
    drop(go);
    owner.close(PATIENCE);
    let records = log.records();
    let gap = records.iter().find(|r| r.entry.event == Event::AuditGap);
    assert_eq!(&*gap.unwrap().entry.findings[0], "3 records were refused");
    assert_eq!(records.len(), taken + 2);
}

#[tokio::test]
async fn closing_does_not_wait_for_ever() {
    let (go, held) = mpsc::channel();
    let store = Hanging {
        inner: MemoryLog::default(),
        go: held,
    };
    let (recorder, owner) = start(store);
    recorder.queue(numbered(1)).unwrap();
    owner.close(Duration::from_millis(50));
    drop(go);
}

/// A disk that fails its next sync, once.
struct FailingDisk(MemoryLog);
struct FailingSync(bool);

impl Store for FailingDisk {
    fn begin(&mut self) -> Result<Tail, StoreError> {
        self.0.begin()
    }
    fn append(&mut self, group: Group<'_>) -> Result<Appended, StoreError> {
        self.0.append(group)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn syncer(&self) -> Option<Box<dyn Syncer>> {
        Some(Box::new(FailingSync(true)))
    }
}

impl Syncer for FailingSync {
    fn sync(&mut self) -> Result<(), StoreError> {
        if !std::mem::take(&mut self.0) {
            return Ok(());
        }
        Err(StoreError {
            attempted: "sync",
            place: "disk".to_owned(),
            source: io::Error::other("medium error"),
        })
    }
}

#[tokio::test]
async fn a_disk_that_loses_written_records_is_told_in_the_record() {
    let log = MemoryLog::default();
    let (recorder, owner) = start(FailingDisk(log.clone()));
    recorder.record(numbered(1)).await.unwrap();
    let gap = loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        recorder.record(numbered(2)).await.unwrap();
        let records = log.records();
        assert!(records.len() < 1000, "never told");
        if let Some(gap) = records
            .into_iter()
            .find(|r| r.entry.event == Event::AuditGap)
        {
            break gap;
        }
    };
    assert!(gap.entry.findings[0].contains("medium error"));
    owner.close(PATIENCE);
}

#[tokio::test]
async fn strict_waits_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let settings = RecorderSettings {
        durability: Durability::Strict,
        ..RecorderSettings::new("n")
    };
    let store = Box::new(JsonlStore::open(&path).unwrap());
    let (recorder, owner) = Recorder::start(store, settings).unwrap();
    assert_eq!(recorder.record(numbered(1)).await, Ok(Sequence(1)));
    owner.close(PATIENCE);
}

#[tokio::test]
async fn the_observer_sees_what_was_written_and_a_panic_in_it_refuses() {
    let (seen, sees) = mpsc::channel();
    let settings = RecorderSettings {
        observer: Some(Box::new(move |record: &Record| {
            seen.send(record.seq).unwrap();
            assert!(record.seq < 2, "the observer panics here on purpose");
        })),
        ..RecorderSettings::new("n")
    };
    let log = MemoryLog::default();
    let (recorder, owner) = Recorder::start(Box::new(log), settings).unwrap();
    recorder.record(numbered(1)).await.unwrap();
    assert_eq!(sees.recv(), Ok(1));
    recorder.record(numbered(2)).await.ok();
    assert_eq!(sees.recv(), Ok(2));
    while recorder.queue(numbered(3)).is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(recorder.record(numbered(4)).await.is_err());
    owner.close(PATIENCE);
}

/// `cargo test --release -p gig-audit -- --ignored --nocapture speed`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, not a test"]
#[expect(clippy::disallowed_methods, reason = "measures wall time")]
async fn speed_of_one_and_of_many() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let (recorder, owner) = start(JsonlStore::open(&path).unwrap());
    let mut waits = Vec::new();
    for n in 0..5_000 {
        let begun = Instant::now();
        recorder.record(numbered(n)).await.unwrap();
        waits.push(begun.elapsed());
    }
    waits.sort_unstable();
    println!("alone: p50 {:?} p99 {:?}", waits[2_500], waits[4_950]);
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let recorder = recorder.clone();
        tasks.spawn(async move {
            for n in 0..5_000 {
                recorder.record(numbered(n)).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let rate = 320_000.0 / begun.elapsed().as_secs_f64();
    println!("64 at once: {rate:.0} records a second");
    owner.close(PATIENCE);
}
