//! What is counted, what never is, and what becomes of counts that cannot be written.

use std::sync::mpsc;

use gig_audit::{
    MemoryLog, RecorderSettings, Store, StoreError,
    store::{Appended, Group, Syncer, Tail},
};

use super::*;

fn sandbox(number: u128) -> SandboxId {
    SandboxId::new(uuid::Uuid::from_u128(number))
}

fn ledger() -> (Ledger, MemoryLog) {
    let (recorder, log) = Recorder::in_memory();
    (recorder.into(), log)
}

fn denied(of: u128, host: &str) -> Entry {
    let mut entry = Entry::new(Event::Request);
    entry.sandbox = Some(sandbox(of));
    entry.host = Some(host.into());
    entry.path = Some("/".into());
    entry.verdict = Some(VerdictWord::Deny);
    entry.reason = Some(DenyReason::HostNotAllowed);
    entry
}

fn alarm(of: u128, secret: &str, host: &str) -> Entry {
    let mut entry = denied(of, host);
    entry.event = Event::SecretMisuse;
    entry.reason = Some(DenyReason::SecretMisuse);
    entry.secrets = vec![secret.into()];
    entry
}

/// The counts that were recorded, with the hosts they name.
fn counts(log: &MemoryLog) -> Vec<(Entry, u64, usize)> {
    let records = log.records().into_iter();
    records
        .filter_map(|record| {
            let count = gig_audit::counted(&record.entry.findings)?;
            let hosts = record.entry.findings.len() - 1;
            Some((record.entry, count, hosts))
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn denials_without_end_have_a_pace_and_are_counted() {
    let (ledger, log) = ledger();
    for n in 0..5000 {
        let host = format!("{}.example", n % 40);
        ledger.record(denied(7, &host)).await.unwrap();
    }
    assert_eq!(log.records().len(), 1000);
    // A neighbour, another reason, and what is allowed are none of them.
    ledger.record(denied(8, "a.example")).await.unwrap();
    let mut other = denied(7, "a.example");
    other.reason = Some(DenyReason::PathNotAllowed);
    ledger.record(other).await.unwrap();
    for verdict in [VerdictWord::Allow, VerdictWord::WouldDeny] {
        let mut allowed = denied(7, "a.example");
        allowed.verdict = Some(verdict);
        ledger.record(allowed).await.unwrap();
    }
    let mut outcome = denied(7, "a.example");
    outcome.event = Event::Response;
    ledger.record(outcome).await.unwrap();
    assert_eq!(log.records().len(), 1005);
    ledger.record_counts().await;
    let told = counts(&log);
    let [(entry, 4000, 16)] = told.as_slice() else {
        panic!("{told:#?}");
    };
    assert_eq!(entry.sandbox, Some(sandbox(7)));
    assert_eq!(entry.reason, Some(DenyReason::HostNotAllowed));
    assert_eq!(entry.host, None);
    // Nothing is told twice, and the pace goes on.
    ledger.record_counts().await;
    tokio::time::advance(Duration::from_secs(1)).await;
    for _ in 0..60 {
        ledger.record(denied(7, "a.example")).await.unwrap();
    }
    assert_eq!(log.records().len(), 1006 + 50);
}

#[tokio::test(start_paused = true)]
async fn a_count_is_told_within_a_second_or_two() {
    let (ledger, log) = ledger();
    for _ in 0..1001 {
        ledger.record(denied(7, "a.example")).await.unwrap();
    }
    let telling = ledger.record_counts_until(std::future::pending());
    let over = timeout(Duration::from_secs(2), telling).await;
    assert!(over.is_err());
    assert_eq!(counts(&log).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_alarm_of_each_secret_and_host_is_told_whatever_else_is() {
    let (ledger, log) = ledger();
    for _ in 0..3000 {
        ledger.queue(alarm(7, "SHOWN", "evil.example")).unwrap();
    }
    assert_eq!(log.records().len(), 1001);
    ledger.queue(alarm(7, "SHOWN", "other.example")).unwrap();
    ledger.queue(alarm(7, "HIDDEN", "evil.example")).unwrap();
    let told = log.records();
    assert_eq!(told.len(), 1003);
    assert_eq!(*told[1002].entry.secrets[0], *"HIDDEN");
    // Names of hosts without end are bounded, and leave the next secret its own.
    for n in 0..3000 {
        let host = format!("{n}.example");
        ledger.queue(alarm(7, "SHOWN", &host)).unwrap();
    }
    assert_eq!(log.records().len(), 1003 + MOST_ALARMED - 2);
    ledger.queue(alarm(7, "THIRD", "evil.example")).unwrap();
    assert_eq!(log.records().len(), 1004 + MOST_ALARMED - 2);
    ledger.record_counts().await;
    let told = counts(&log);
    let [(entry, 4745, 16)] = told.as_slice() else {
        panic!("{told:#?}");
    };
    assert_eq!(*entry.secrets[0], *"SHOWN");
}

#[tokio::test(start_paused = true)]
async fn a_count_that_cannot_be_written_is_written_later() {
    let (ledger, log) = ledger();
    for number in [7, 8] {
        for _ in 0..1010 {
            ledger.record(denied(number, "a.example")).await.unwrap();
        }
    }
    log.fail(true);
    ledger.record_counts().await;
    ledger.close(sandbox(7)).await;
    for _ in 0..5 {
        ledger.record(denied(8, "b.example")).await.unwrap();
    }
    log.fail(false);
    let telling = ledger.record_counts_until(std::future::pending());
    let over = timeout(Duration::from_secs(2), telling).await;
    assert!(over.is_err());
    let mut told: Vec<_> = counts(&log)
        .into_iter()
        .map(|(entry, count, hosts)| (entry.sandbox, count, hosts))
        .collect();
    told.sort_by_key(|(_, count, _)| *count);
    assert_eq!(told, [(Some(sandbox(7)), 10, 1), (Some(sandbox(8)), 15, 2)]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_sandbox_tells_its_count_and_forgets_it() {
    let (ledger, log) = ledger();
    for _ in 0..1010 {
        ledger.record(denied(7, "a.example")).await.unwrap();
    }
    ledger.close(sandbox(7)).await;
    assert_eq!(counts(&log).len(), 1);
    assert!(ledger.0.kept.lock().is_empty());
}

#[tokio::test]
async fn long_paths_of_denials_keep_head_tail_and_digest() {
    let (ledger, log) = ledger();
    let long = |tail: &str| -> Arc<str> { format!("/{}ä/{tail}", "x/".repeat(2000)).into() };
    for tail in ["admin", "delete"] {
        let mut entry = denied(7, "a.example");
        entry.path = Some(long(tail));
        ledger.record(entry.clone()).await.unwrap();
        entry.verdict = Some(VerdictWord::Allow);
        ledger.record(entry).await.unwrap();
    }
    let paths: Vec<_> = log
        .records()
        .into_iter()
        .filter_map(|record| record.entry.path)
        .collect();
    let [admin, whole, delete, _] = paths.as_slice() else {
        panic!("{paths:?}");
    };
    assert_eq!(*whole, long("admin"));
    for (path, tail) in [(admin, "/admin"), (delete, "/delete")] {
        assert!(path.len() < LONGEST_PATH && path.ends_with(tail), "{path}");
        assert!(path.contains(" octets sha256:"), "{path}");
    }
    let digest = |path: &str| {
        path.split("sha256:")
            .nth(1)
            .unwrap()
            .split(']')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(digest(admin).len(), 16);
    assert_ne!(digest(admin), digest(delete));
    assert_eq!(cut(&"/x".repeat(LONGEST_PATH / 2)), None);
}

#[tokio::test(start_paused = true)]
async fn the_first_alarm_for_a_value_is_told_behind_any_number_for_its_sentinel() {
    let (ledger, log) = ledger();
    let of = |what: &str| {
        let mut entry = alarm(7, "T", "evil.example");
        entry.findings = vec![format!("{what} of T in body (plain)").into()];
        entry
    };
    for _ in 0..3000 {
        ledger.queue(of("sentinel")).unwrap();
    }
    assert_eq!(log.records().len(), 1001);
    for what in ["value", "revoked value"] {
        ledger.queue(of(what)).unwrap();
    }
    let told = log.records();
    assert_eq!(told.len(), 1003);
    assert!(told[1001].entry.findings[0].starts_with("value of T"));
}

#[tokio::test(start_paused = true)]
async fn a_first_alarm_that_is_not_taken_leaves_the_next_one_the_first() {
    let (recorder, owner) =
        Recorder::start(Box::new(MemoryLog::default()), RecorderSettings::new("n")).unwrap();
    let ledger = Ledger::from(recorder);
    assert_eq!(owner.close(Duration::from_secs(60)), Some(0));
    let mut entry = alarm(7, "T", "evil.example");
    assert!(ledger.has_a_record(&mut entry));
    ledger.queue_as_it_is(entry.clone()).unwrap_err();
    let mut kept = ledger.0.kept.lock();
    let kept = kept.get_mut(&sandbox(7)).unwrap();
    assert!(kept.is_first_alarm(&entry) && !kept.is_first_alarm(&entry));
}

/// Takes nothing until it is let go on.
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

/// Sandboxes 7 and 8 with ten each that are counted, and a record that hangs.
fn hanging() -> (
    Ledger,
    MemoryLog,
    gig_audit::RecorderOwner,
    mpsc::Sender<()>,
) {
    let (go, held) = mpsc::channel();
    let inner = MemoryLog::default();
    let log = inner.clone();
    let store = Box::new(Hanging { inner, go: held });
    let (recorder, owner) = Recorder::start(store, RecorderSettings::new("n")).unwrap();
    let ledger = Ledger::from(recorder);
    for number in [7, 8] {
        for _ in 0..1010 {
            let _own = ledger.has_a_record(&mut denied(number, "a.example"));
        }
    }
    (ledger, log, owner, go)
}

fn told(log: &MemoryLog) -> Vec<(Option<SandboxId>, u64)> {
    let counts = counts(log).into_iter();
    let mut told: Vec<_> = counts
        .map(|(entry, count, _)| (entry.sandbox, count))
        .collect();
    told.sort();
    told
}

#[tokio::test(start_paused = true)]
async fn a_count_that_was_only_slow_is_told_once() {
    let (ledger, log, owner, go) = hanging();
    // Longer than anybody waits.
    ledger.record_counts().await;
    ledger.record_counts().await;
    drop(go);
    ledger.record_counts().await;
    owner.close(Duration::from_secs(60));
    let both = [7, 8].map(|number| (Some(sandbox(number)), 10));
    assert_eq!(told(&log), both);
}

#[tokio::test(start_paused = true)]
async fn what_is_being_told_when_gig_goes_down_is_told() {
    let (ledger, log, owner, go) = hanging();
    // While the first of them waits for the record.
    let over = sleep(COUNTED_FOR + PATIENCE / 2);
    ledger.record_counts_until(over).await;
    drop(go);
    ledger.record_counts().await;
    owner.close(Duration::from_secs(60));
    let both = [7, 8].map(|number| (Some(sandbox(number)), 10));
    assert_eq!(told(&log), both);
}
