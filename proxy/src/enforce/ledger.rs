//! The proxy's door to the record, where what is refused without end has a pace.
//!
//! What is allowed, and what came of it, always has its own record. Of denials and alarms the first `AT_ONCE` of a
//! kind have theirs, then one each `EVERY`; what is beyond that is counted, and a record a second says how many there
//! were and names some of their hosts. A kind is (sandbox, event, reason), and for an alarm the secret and whether its
//! value is what was seen. The first alarm of each secret, and the first of its value, towards each host always have
//! their own record. Counts that cannot be written are kept.
//! Names have a pace of their own ([`super::name`]).

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use aws_lc_rs::digest;
use gig_audit::{Entry, Event, RecordRefused, Recorder, VerdictWord};
use gig_policy::{DenyReason, SandboxId};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use crate::budget::{Pace, PaceRate};

/// Records, or counts. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    recorder: Recorder,
    kept: Mutex<HashMap<SandboxId, Kept>>,
    /// Something is counted.
    counted: Notify,
    missed: Mutex<Missed>,
}

/// What the log is not told of: entries that have no record.
#[derive(Debug, Default)]
struct Missed {
    told: Option<Instant>,
    since: u64,
}

/// What is remembered of one sandbox.
#[derive(Debug)]
struct Kept {
    kinds: HashMap<Kind, Folding>,
    /// Towards which hosts there was an alarm of which secret, or of its value.
    alarmed: HashMap<(Arc<str>, bool), HashSet<Arc<str>>>,
    touched: Instant,
}

/// What is counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    event: Event,
    reason: Option<DenyReason>,
    secrets: Vec<Arc<str>>,
    /// A value itself was seen.
    value: bool,
}

#[derive(Debug)]
struct Folding {
    pace: Pace,
    count: Option<Count>,
}

/// Of what has no record of its own.
#[derive(Debug)]
struct Count {
    count: u64,
    hosts: BTreeSet<Arc<str>>,
    /// What all of them have in common.
    entry: Entry,
}

/// What became of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// It is in the record.
    Written,
    /// It was handed in, and is written when that can be: put back, it would be told twice.
    Waits,
    /// It is to be told again.
    Lost,
}

impl From<Recorder> for Ledger {
    fn from(recorder: Recorder) -> Self {
        Self(Arc::new(Inner {
            recorder,
            kept: Mutex::default(),
            counted: Notify::new(),
            missed: Mutex::default(),
        }))
    }
}

impl Ledger {
    /// Hands the entry in and waits until it is recorded, as [`Recorder::record`] does; a denial that is counted is
    /// done at once.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub fn record(
        &self,
        mut entry: Entry,
    ) -> impl Future<Output = Result<(), RecordRefused>> + Send {
        let recorder = &self.0.recorder;
        let event = entry.event;
        let recording = self
            .has_a_record(&mut entry)
            .then(|| recorder.record(entry));
        async move {
            let Some(recording) = recording else {
                return Ok(());
            };
            let recorded = recording.await.map(drop);
            recorded.inspect_err(|error| self.missed(event, error))
        }
    }

    /// Hands the entry in and does not wait, as [`Recorder::queue`].
    ///
    /// # Errors
    /// When the queue is full or the writer is gone.
    pub fn queue(&self, mut entry: Entry) -> Result<(), RecordRefused> {
        if !self.has_a_record(&mut entry) {
            return Ok(());
        }
        let event = entry.event;
        let queued = self.0.recorder.queue(entry);
        queued.inspect_err(|error| self.missed(event, error))
    }

    /// Records what [`Self::has_a_record`] was asked about already.
    pub(super) async fn record_as_it_is(&self, entry: Entry) -> Result<(), RecordRefused> {
        let event = entry.event;
        let recorded = self.0.recorder.record(entry).await.map(drop);
        recorded.inspect_err(|error| self.missed(event, error))
    }

    /// The same without waiting. A first alarm that is not taken leaves the next one the first.
    pub(super) fn queue_as_it_is(&self, entry: Entry) -> Result<(), RecordRefused> {
        let (sandbox, host) = (entry.sandbox, entry.host.clone().unwrap_or_default());
        let (secrets, value) = (entry.secrets.clone(), shows_value(&entry));
        let event = entry.event;
        let queued = self.0.recorder.queue(entry);
        let queued = queued.inspect_err(|error| self.missed(event, error));
        if queued.is_err()
            && let Some(sandbox) = sandbox
            && let Some(kept) = self.0.kept.lock().get_mut(&sandbox)
        {
            for secret in secrets {
                if let Some(hosts) = kept.alarmed.get_mut(&(secret, value)) {
                    hosts.remove(&host);
                }
            }
        }
        queued
    }

    /// Whether the entry has a record of its own; it is counted where not. Long paths of what is refused are cut.
    pub(super) fn has_a_record(&self, entry: &mut Entry) -> bool {
        let alarm = entry.event == Event::SecretMisuse;
        let denied = matches!(entry.event, Event::Request | Event::Connect)
            && entry.verdict == Some(VerdictWord::Deny);
        // What waits for a person was denied by the rules.
        let waits = entry.event == Event::Finding;
        if !alarm && !denied && !waits {
            return true;
        }
        if let Some(path) = &mut entry.path
            && let Some(cut) = cut(path)
        {
            *path = cut.into();
        }
        let Some(sandbox) = entry.sandbox else {
            return true;
        };
        let kind = Kind {
            event: entry.event,
            reason: entry.reason,
            secrets: entry.secrets.clone(),
            value: shows_value(entry),
        };
        let now = Instant::now();
        let mut kept = self.0.kept.lock();
        let kept = kept.entry(sandbox).or_insert_with(|| Kept::new(now));
        kept.touched = now;
        if alarm && kept.is_first_alarm(entry) {
            return true;
        }
        let folding = kept.folding(kind, now);
        if folding.pace.take(now).is_some() {
            return true;
        }
        if folding.add(entry) {
            self.0.counted.notify_one();
        }
        false
    }

    /// Records what was counted, about once a second where there is something, until it is `over`; what is being
    /// written then is written.
    pub async fn record_counts_until(&self, over: impl Future<Output = ()>) {
        let mut over = pin!(over);
        loop {
            let something = async {
                // Now and then what is not needed any more is forgotten though nothing is counted.
                if timeout(REMEMBERED, self.0.counted.notified()).await.is_ok() {
                    sleep(COUNTED_FOR).await;
                }
            };
            tokio::select! {
                () = &mut over => return,
                () = something => {}
            }
            self.record_counts().await;
        }
    }

    /// Records what was counted so far. What cannot be written is counted on.
    pub async fn record_counts(&self) {
        let taken: Vec<_> = {
            let now = Instant::now();
            let mut all = self.0.kept.lock();
            all.retain(|_, kept| kept.is_needed(now));
            let each = all.iter_mut();
            each.flat_map(|(sandbox, kept)| kept.take(*sandbox))
                .collect()
        };
        self.write(taken).await;
    }

    /// The same of a sandbox that is over: what is remembered of it is forgotten.
    pub async fn close(&self, sandbox: SandboxId) {
        let kept = self.0.kept.lock().remove(&sandbox);
        if let Some(mut kept) = kept {
            let taken = kept.take(sandbox).collect();
            self.write(taken).await;
        }
    }

    async fn write(&self, taken: Vec<(SandboxId, Kind, Count)>) {
        let mut lost = false;
        for (sandbox, kind, count) in taken {
            // While the record is lost or hangs, one try is enough.
            if !lost {
                match self.tell_count(count.entry()).await {
                    Told::Written => continue,
                    Told::Waits => {
                        lost = true;
                        continue;
                    }
                    Told::Lost => lost = true,
                }
            }
            self.put_back(sandbox, kind, count);
        }
    }

    /// Hands a count in, and waits as long as anybody does.
    pub(super) async fn tell_count(&self, count: Entry) -> Told {
        let recorded = self.0.recorder.record_unhurried(count);
        match timeout(PATIENCE, recorded).await {
            Ok(Ok(_)) => Told::Written,
            Ok(Err(error)) => {
                tracing::error!(%error, "a count is not recorded yet");
                Told::Lost
            }
            Err(_) => {
                tracing::error!("a count waits for the record");
                Told::Waits
            }
        }
    }

    /// Says in the log that something has no record: of many in a row the first, and now and then how many more.
    fn missed(&self, event: Event, error: &RecordRefused) {
        let now = Instant::now();
        let mut missed = self.0.missed.lock();
        let told = missed.told;
        if told.is_some_and(|at| now.saturating_duration_since(at) < BETWEEN_WORDS) {
            missed.since = missed.since.saturating_add(1);
            return;
        }
        missed.told = Some(now);
        let since = std::mem::take(&mut missed.since);
        drop(missed);
        let more = match since {
            0 => String::new(),
            some => format!(", and of {some} more before it"),
        };
        tracing::error!(
            %error, "no record could be written of what has the event {event}{more}: what may not go without one \
             was refused"
        );
    }

    fn put_back(&self, sandbox: SandboxId, kind: Kind, count: Count) {
        let now = Instant::now();
        let mut all = self.0.kept.lock();
        let kept = all.entry(sandbox).or_insert_with(|| Kept::new(now));
        let folding = kept.folding(kind, now);
        match &mut folding.count {
            Some(there) => there.join(count),
            none => *none = Some(count),
        }
        self.0.counted.notify_one();
    }
}

impl Kept {
    fn new(now: Instant) -> Self {
        Self {
            kinds: HashMap::new(),
            alarmed: HashMap::new(),
            touched: now,
        }
    }

    /// Of this kind, which begins now where there was none.
    fn folding(&mut self, kind: Kind, now: Instant) -> &mut Folding {
        self.kinds.entry(kind).or_insert_with(|| Folding {
            pace: Pace::new(now, DENIALS),
            count: None,
        })
    }

    /// Whether it is the first of its secret towards its host, as far as is remembered.
    fn is_first_alarm(&mut self, entry: &Entry) -> bool {
        let host = entry.host.clone().unwrap_or_default();
        let mut first = false;
        let value = shows_value(entry);
        for secret in &entry.secrets {
            let hosts = self.alarmed.entry((Arc::clone(secret), value)).or_default();
            first |= hosts.len() < MOST_ALARMED && hosts.insert(Arc::clone(&host));
        }
        first
    }

    fn take(&mut self, sandbox: SandboxId) -> impl Iterator<Item = (SandboxId, Kind, Count)> {
        let kinds = self.kinds.iter_mut();
        kinds.filter_map(move |(kind, folding)| {
            let count = folding.count.take()?;
            Some((sandbox, kind.clone(), count))
        })
    }

    /// Forgotten is what comes too late after an end, and who refused themselves nothing for long.
    fn is_needed(&self, now: Instant) -> bool {
        let counts = self.kinds.values().any(|folding| folding.count.is_some());
        counts || now.saturating_duration_since(self.touched) < REMEMBERED
    }
}

impl Folding {
    /// Counts one; whether it is the first.
    fn add(&mut self, entry: &Entry) -> bool {
        let first = self.count.is_none();
        let count = self.count.get_or_insert_with(|| Count::of(entry));
        count.count = count.count.saturating_add(1);
        if count.entry.policy_version != entry.policy_version {
            // Of several policies: it names none.
            (count.entry.policy, count.entry.policy_version) = (None, None);
        }
        if let Some(host) = &entry.host
            && count.hosts.len() < MOST_HOSTS
        {
            count.hosts.insert(Arc::clone(host));
        }
        first
    }
}

impl Count {
    fn of(entry: &Entry) -> Self {
        let mut common = Entry::new(entry.event);
        common.sandbox = entry.sandbox;
        common.server.clone_from(&entry.server);
        common.profile.clone_from(&entry.profile);
        common.policy.clone_from(&entry.policy);
        common.policy_version = entry.policy_version;
        common.verdict = entry.verdict;
        common.reason = entry.reason;
        common.secrets.clone_from(&entry.secrets);
        Self {
            count: 0,
            hosts: BTreeSet::new(),
            entry: common,
        }
    }

    fn join(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        let more = other.hosts.into_iter();
        let room = MOST_HOSTS.saturating_sub(self.hosts.len());
        self.hosts.extend(more.take(room));
    }

    fn entry(&self) -> Entry {
        let mut entry = self.entry.clone();
        entry.findings = std::iter::once(format!("folded:{}", self.count))
            .chain(self.hosts.iter().map(|host| format!("host:{host}")))
            .map(Into::into)
            .collect();
        entry
    }
}

/// Whether an alarm is for a value itself, and not for what stands for it.
fn shows_value(alarm: &Entry) -> bool {
    let what = alarm.findings.first().map(|text| &**text);
    what.is_some_and(|what| what.starts_with("value of ") || what.starts_with("revoked value of "))
}

/// Head, tail and digest of a long path: two that differ do not look alike, and what is behind the cut is found.
fn cut(path: &str) -> Option<String> {
    if path.len() <= LONGEST_PATH {
        return None;
    }
    let head = path.get(..path.floor_char_boundary(HEAD))?;
    let tail = path.get(path.ceil_char_boundary(path.len().saturating_sub(TAIL))..)?;
    let hash = digest::digest(&digest::SHA256, path.as_bytes());
    let hash = hash.as_ref().iter().take(8);
    let hash: String = hash.map(|octet| format!("{octet:02x}")).collect();
    let length = path.len();
    Some(format!("{head}…[{length} octets sha256:{hash}]…{tail}"))
}

/// Of each kind 1,000 at once and then 50 a second: more than a person reads, and of no weight for the record.
const DENIALS: PaceRate = PaceRate {
    every: EVERY,
    burst: EVERY.saturating_mul(AT_ONCE),
    longest: Duration::ZERO,
};
const AT_ONCE: u32 = 1000;
const EVERY: Duration = Duration::from_millis(20);
/// A count is of about so long.
const COUNTED_FOR: Duration = Duration::from_secs(1);
/// As long as others wait for a record.
const PATIENCE: Duration = Duration::from_secs(5);
/// A program that is refused for want of a record asks again at once.
const BETWEEN_WORDS: Duration = Duration::from_secs(10);
/// Hosts that a count names.
const MOST_HOSTS: usize = 16;
/// Hosts of one secret whose first alarm is told by itself, of one sandbox.
const MOST_ALARMED: usize = 256;
/// How long something is remembered of who is refused nothing more.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// Longer than nearly every path that is asked for.
const LONGEST_PATH: usize = 1024;
const HEAD: usize = 768;
const TAIL: usize = 192;

#[cfg(test)]
mod tests;
