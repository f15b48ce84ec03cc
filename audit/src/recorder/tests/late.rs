//! What is told of a run that was killed, and of records that came too late for who asked.

use super::*;
use crate::VerdictWord;

fn allowed() -> Entry {
    let mut entry = numbered(1);
    entry.verdict = Some(VerdictWord::Allow);
    entry.request = Some("r-1".into());
    entry.secrets = vec!["TOKEN".into()];
    entry
}

fn impatient() -> RecorderSettings {
    RecorderSettings {
        deadline: Duration::from_millis(50),
        ..RecorderSettings::new("n")
    }
}

/// What stands of requests.
fn requests(log: &MemoryLog) -> Vec<Entry> {
    let entries = log.records().into_iter().map(|record| record.entry);
    entries
        .filter(|entry| entry.event == Event::Request)
        .collect()
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn a_run_begins_with_what_the_one_before_did_not_tell() {
    let log = MemoryLog::default();
    let (recorder, owner) = start(log.clone());
    log.fail(true);
    recorder.begin(Entry::new(Event::Admin), 7);
    assert_eq!(recorder.wait_untold(0), Some(7));
    assert!(recorder.record(numbered(1)).await.is_err());
    assert_eq!(recorder.wait_untold(7), Some(8));
    let waits = recorder.clone();
    let waits = std::thread::spawn(move || (waits.wait_untold(8), waits.wait_untold(0)));
    log.fail(false);
    // Nobody hands anything in.
    until("it is told", || log.records().len() == 2).await;
    let records = log.records();
    let gap = &records[0].entry;
    assert_eq!(gap.event, Event::AuditGap);
    let told = [
        "7 records were refused by the run before",
        "1 records were refused",
    ];
    let findings: Vec<&str> = gap.findings.iter().map(|one| &**one).collect();
    assert_eq!(findings[..2], told);
    assert!(findings[2].starts_with("refused from 2"), "{findings:?}");
    assert_eq!(records[1].entry.event, Event::Admin);
    assert_eq!(recorder.record(numbered(2)).await, Ok(Sequence(3)));
    assert_eq!(owner.close(PATIENCE), Some(0));
    assert_eq!(waits.join().unwrap(), (Some(0), None));
}

#[tokio::test]
async fn closing_says_what_no_record_tells() {
    let log = MemoryLog::default();
    let (recorder, owner) = start(log.clone());
    recorder.begin(Entry::new(Event::Admin), 0);
    recorder.record(numbered(1)).await.unwrap();
    log.fail(true);
    assert!(recorder.record(numbered(2)).await.is_err());
    assert_eq!(owner.close(PATIENCE), Some(1));
    assert_eq!(recorder.wait_untold(0), Some(1));
    assert_eq!(recorder.wait_untold(1), None);
}

/// Somebody else has the end of the chain until it is told to go on.
struct Waiting(Hanging);

impl Store for Waiting {
    fn begin(&mut self) -> Result<Tail, StoreError> {
        self.0.go.recv().ok();
        self.0.begin()
    }
    fn append(&mut self, group: Group<'_>) -> Result<Appended, StoreError> {
        self.0.inner.append(group)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn syncer(&self) -> Option<Box<dyn Syncer>> {
        None
    }
}

#[tokio::test]
async fn what_was_refused_while_the_chain_was_waited_for_is_written_as_denied() {
    let (go, held) = mpsc::channel();
    let inner = MemoryLog::default();
    let log = inner.clone();
    let store = Waiting(Hanging { inner, go: held });
    let (recorder, owner) = Recorder::start(Box::new(store), impatient()).unwrap();
    recorder.record(allowed()).await.unwrap_err();
    drop(go);
    owner.close(PATIENCE);
    let of_it = requests(&log);
    assert_eq!(of_it.len(), 1);
    assert_eq!(of_it[0].verdict, Some(VerdictWord::Deny));
}

/// A program that resets what it asked for says nothing of the sink: that it was lost would be a false alarm.
#[tokio::test]
async fn who_goes_away_by_themselves_is_not_told_as_a_lost_record() {
    let (go, held) = mpsc::channel();
    let inner = MemoryLog::default();
    let log = inner.clone();
    let store = Waiting(Hanging { inner, go: held });
    let (recorder, owner) = Recorder::start(Box::new(store), RecorderSettings::new("n")).unwrap();
    let asked = tokio::time::timeout(Duration::from_millis(50), recorder.record(allowed()));
    asked.await.unwrap_err();
    drop(go);
    owner.close(PATIENCE);
    let of_it = requests(&log);
    assert_eq!(of_it.len(), 1, "{of_it:?}");
    assert_eq!(of_it[0].verdict, Some(VerdictWord::Deny));
    let reason = gig_policy::DenyReason::RequestIncomplete;
    assert_eq!(of_it[0].reason, Some(reason));
    assert!(
        log.records()
            .iter()
            .all(|record| record.entry.event != Event::AuditGap)
    );
}

#[tokio::test]
async fn what_was_refused_while_it_was_written_is_set_right() {
    let (go, held) = mpsc::channel();
    let inner = MemoryLog::default();
    let log = inner.clone();
    let store = Hanging { inner, go: held };
    let (recorder, owner) = Recorder::start(Box::new(store), impatient()).unwrap();
    recorder.record(allowed()).await.unwrap_err();
    // Also where nothing comes any more.
    drop(go);
    owner.close(PATIENCE);
    let of_it = requests(&log);
    assert_eq!(of_it.len(), 2, "{of_it:?}");
    assert_eq!(of_it[0].verdict, Some(VerdictWord::Allow));
    let right = &of_it[1];
    assert_eq!(right.verdict, Some(VerdictWord::Deny));
    assert_eq!(
        right.reason,
        Some(gig_policy::DenyReason::RecordUnavailable)
    );
    assert_eq!((&right.request, right.conn), (&allowed().request, Some(1)));
    assert!(right.secrets.is_empty(), "none went");
    let told = "record 1 came too late for who asked: this was refused after all";
    assert_eq!(&*right.findings[0], told);
}

/// Writes, and the answer is lost: as where a database commits and its connection breaks.
struct Unheard {
    inner: MemoryLog,
    /// How many answers are lost.
    lost: u32,
}

impl Store for Unheard {
    fn begin(&mut self) -> Result<Tail, StoreError> {
        self.inner.begin()
    }
    fn append(&mut self, group: Group<'_>) -> Result<Appended, StoreError> {
        let appended = self.inner.append(group)?;
        if self.lost == 0 {
            return Ok(appended);
        }
        self.lost -= 1;
        Err(StoreError {
            attempted: "hear of",
            place: "memory".to_owned(),
            source: io::Error::other("the connection broke"),
        })
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn syncer(&self) -> Option<Box<dyn Syncer>> {
        None
    }
}

#[tokio::test]
async fn what_was_refused_because_nobody_heard_that_it_was_written_is_set_right() {
    for lost in [1, 2] {
        let inner = MemoryLog::default();
        let log = inner.clone();
        let (recorder, owner) = start(Unheard { inner, lost });
        recorder.record(allowed()).await.unwrap_err();
        let denied = |record: &Record| {
            record.entry.event == Event::Request
                && record.entry.verdict == Some(VerdictWord::Deny)
                && record
                    .entry
                    .findings
                    .iter()
                    .any(|one| one.contains("record 1 "))
        };
        until("it is set right", || log.records().iter().any(denied)).await;
        until("it is well", || recorder.backlog().refused == 0).await;
        let next = recorder.record(allowed()).await.unwrap();
        owner.close(PATIENCE);
        let records = log.records();
        assert_eq!(records.last().map(|record| record.seq), Some(next.0));
        // The first, and what was answered.
        let allowed = records
            .iter()
            .filter(|one| one.entry.verdict == Some(VerdictWord::Allow));
        assert_eq!(allowed.count(), 2);
    }
}
