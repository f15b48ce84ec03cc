//! Gives a group of entries their places, writes it with one call, and answers.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use gig_policy::DenyReason;
use parking_lot::Mutex;

use crate::{
    chain::{self, Stamp},
    clock::{Moment, now_text},
    counted::too_late,
    entry::{Entry, VerdictWord},
    event::Event,
    record::Record,
    recorder::{
        Durability, RecordRefused, RecorderFigures, RecorderSettings, Sequence,
        figures::{Opening, Span, Tally},
        queue::{Asking, Job, Queue},
        syncer::SyncThread,
    },
    store::{Appended, Group, Store, Tail},
};

pub(super) struct Writer {
    store: Box<dyn Store>,
    settings: RecorderSettings,
    tally: Arc<Tally>,
    syncer: Option<SyncThread>,
    /// The group that is being written; empty between groups.
    jobs: Vec<Job>,
    lines: Vec<u8>,
    records: Vec<Record>,
    /// The loss was told to the operator; the recovery will be.
    failing: bool,
    /// When a group was written or lost last, or that was tried.
    known: Option<Moment>,
    /// The group that was lost last: it may be in the chain after all.
    unsure: Option<Unsure>,
    /// What sets right the records of such a group, until it is written.
    corrections: Vec<Entry>,
}

/// A group that was handed over and not confirmed.
struct Unsure {
    /// Its last record.
    head: chain::Head,
    /// What sets right those that let something go.
    corrections: Vec<Entry>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("settings", &self.settings)
            .field("failing", &self.failing)
            .finish_non_exhaustive()
    }
}

impl Writer {
    pub(super) fn new(
        store: Box<dyn Store>,
        settings: RecorderSettings,
        tally: Arc<Tally>,
    ) -> Self {
        Self {
            store,
            settings,
            tally,
            syncer: None,
            jobs: Vec::new(),
            lines: Vec::new(),
            records: Vec::new(),
            failing: false,
            known: None,
            unsure: None,
            corrections: Vec::new(),
        }
    }

    pub(super) fn start_syncer(&mut self) -> std::io::Result<()> {
        if self.settings.durability == Durability::Kernel
            && let Some(syncer) = self.store.syncer()
        {
            self.syncer = Some(SyncThread::start(syncer)?);
        }
        Ok(())
    }

    /// Whether callers may write groups themselves, where the sink can be had at once.
    pub(super) fn is_prompt(&self) -> bool {
        self.store.is_prompt() && self.settings.durability == Durability::Kernel
    }

    /// Writes groups until the queue is closed and drained.
    pub(super) fn run(writer: &Mutex<Self>, queue: &Queue) {
        let gone = Gone(queue);
        loop {
            queue.wait();
            let mut writer = writer.lock();
            let more = queue.take(&mut writer.jobs);
            if writer.tally.owes() || !writer.jobs.is_empty() {
                let late = writer.write_taken(None);
                queue.push_corrections(late);
            }
            if !more {
                writer.store.close();
                // Waits for the disk.
                writer.syncer = None;
                break;
            }
        }
        drop(gone);
    }

    /// Writes what is queued on the caller's thread; false when the sink cannot be had at once, or
    /// needs something that may take long.
    pub(super) fn write_now(&mut self, queue: &Queue) -> bool {
        if self.failing || self.tally.owes() {
            return false;
        }
        let Ok(Some(tail)) = self.store.begin_at_once() else {
            return false;
        };
        let panicking = GoneInPanic(queue);
        queue.take(&mut self.jobs);
        let late = self.write_taken(Some(tail));
        queue.push_corrections(late);
        drop(panicking);
        true
    }

    /// What its next group begins with; of a writer that nobody queues for.
    pub(super) fn open(&mut self, opening: Opening) {
        self.tally.open(opening);
        drop(self.write_taken(None));
    }

    /// Writes `jobs` as one group and answers each.
    pub(super) fn write_group(&mut self, jobs: Vec<Job>) {
        self.jobs = jobs;
        // Who asks is there until it is answered.
        drop(self.write_taken(None));
    }

    /// Answers what sets right such records as were written too late for who asked.
    fn write_taken(&mut self, tail: Option<Tail>) -> Vec<Entry> {
        let mut answers = Vec::with_capacity(self.jobs.len());
        let mut entries = Vec::with_capacity(self.jobs.len());
        for Job { entry, answer } in self.jobs.drain(..) {
            answers.push(answer);
            entries.push(entry);
        }
        let begun = Moment::now();
        let outcome = self.commit((entries, &answers), tail);
        let took = begun.elapsed();
        if let Err(refusal) = &outcome {
            self.tally.refuse(answers.len() as u64);
            self.tell_loss(&refusal.why);
            // Whether it is in the chain all the same, the end of that shows.
            if let Some(last) = self.records.last() {
                self.unsure = Some(Unsure {
                    head: last.head(),
                    corrections: self.records.iter().filter_map(unwritten).collect(),
                });
            }
        }
        let mut late = Vec::new();
        let unasked = self.records.len().saturating_sub(answers.len());
        for (place, answer) in answers.into_iter().enumerate() {
            let Some(asking) = answer else { continue };
            let result = match &outcome {
                Ok(first) => Ok(Sequence(first + place as u64)),
                Err(refusal) => Err(refusal.clone()),
            };
            // Whoever stopped waiting let nothing go.
            if let Err(Ok(_)) = asking.answer.send(result) {
                let record = self.records.get(unasked + place);
                let why = self.why_left(asking.since);
                late.extend(record.and_then(|record| correction(record, why)));
            }
        }
        if outcome.is_ok() {
            self.tally.wrote(took);
            self.after_success();
        }
        self.records.clear();
        self.lines.clear();
        self.lines.shrink_to(KEPT_BUFFER);
        late
    }

    /// Answers the place of the first entry.
    fn commit(
        &mut self,
        asked: (Vec<Entry>, &[Answer]),
        tail: Option<Tail>,
    ) -> Result<u64, RecordRefused> {
        let lost_on_disk = self.syncer.as_ref().and_then(SyncThread::take_failure);
        if lost_on_disk.is_some() {
            self.store.sync().map_err(|e| refusal(&e))?;
        }
        let tail = match tail {
            Some(tail) => tail,
            None => self.store.begin().map_err(|e| refusal(&e))?,
        };
        if let Some(unsure) = self.unsure.take()
            && unsure.head == tail.head
        {
            self.corrections.extend(unsure.corrections);
        }
        let (refused, span) = self.tally.to_tell();
        let told = Told {
            refused,
            span,
            opening: self.tally.opening(),
            lost_on_disk,
            corrections: self.corrections.clone(),
        };
        let placed = self.place(asked, tail, &told);
        if placed.is_ok() {
            self.tally.told(told.opening.is_some(), told.refused);
            self.corrections.clear();
        }
        placed
    }

    /// Seals the group behind the end of the chain and hands it over; again where the chain has moved
    /// meanwhile. Answers the place of the first entry.
    fn place(
        &mut self,
        (mut entries, answers): (Vec<Entry>, &[Answer]),
        mut tail: Tail,
        told: &Told,
    ) -> Result<u64, RecordRefused> {
        for _ in 0..MOST_MOVES {
            let repaired = tail.repaired.take();
            if let Some(what) = &repaired {
                tracing::warn!(
                    what,
                    "the record was not as it was left; it goes on, and says so (audit.gap)"
                );
            }
            let unasked = told.entries(repaired);
            let before = unasked.len();
            // The end of the chain may have been waited for: only now it shows who is still there.
            for (entry, answer) in entries.iter_mut().zip(answers) {
                if let Some(left) = answer.as_ref().filter(|asking| asking.answer.is_closed()) {
                    tell_late(entry, self.why_left(left.since));
                }
            }
            self.seal_all(tail.head, unasked.into_iter().chain(entries));
            let group = Group {
                records: &self.records,
                lines: &self.lines,
            };
            match self.store.append(group).map_err(|e| refusal(&e))? {
                Appended::Written => {
                    if self.settings.durability == Durability::Strict {
                        self.store.sync().map_err(|e| refusal(&e))?;
                    }
                    return Ok(tail.head.seq + before as u64 + 1);
                }
                Appended::Moved => {}
            }
            let records = self.records.drain(..).skip(before);
            entries = records.map(|record| record.entry).collect();
            self.lines.clear();
            tail = self.store.begin().map_err(|e| refusal(&e))?;
        }
        let why = "others write to the same chain without end".to_owned();
        Err(RecordRefused { why })
    }

    fn seal_all(&mut self, mut head: chain::Head, entries: impl Iterator<Item = Entry>) {
        let time = now_text();
        let stamp = Stamp {
            time: &time,
            node: &self.settings.node,
        };
        for entry in entries {
            let record = chain::seal(head, entry, stamp, &mut self.lines);
            head = record.head();
            self.records.push(record);
        }
    }

    fn after_success(&mut self) {
        self.known = Some(Moment::now());
        if std::mem::take(&mut self.failing) {
            tracing::warn!("the record is written again; egress was refused meanwhile");
        }
        if let Some(syncer) = &self.syncer {
            syncer.mark_dirty();
        }
        if let Some(observer) = &mut self.settings.observer {
            self.records.iter().for_each(observer);
        }
    }

    /// Whether what is handed in is written: as what came in the last moments was, else it is tried. Where that is not
    /// possible, a loss that nobody has tried to mend since is forgotten: somebody has to try.
    pub(super) fn is_well(&mut self) -> bool {
        let within = |most| self.known.is_some_and(|at| at.elapsed() < most);
        if within(FRESH) {
            return !self.failing;
        }
        match self.store.try_out() {
            None => !(self.failing && within(LATELY)),
            Some(Ok(())) => {
                self.known = Some(Moment::now());
                if std::mem::take(&mut self.failing) {
                    tracing::warn!("the record can be written again; egress was refused meanwhile");
                }
                true
            }
            Some(Err(error)) => {
                self.tell_loss(&refusal(&error).why);
                false
            }
        }
    }

    /// What was counted; of a writer that nobody queues for.
    pub(super) fn figures(&self) -> RecorderFigures {
        self.tally.figures(0)
    }

    /// Why somebody waits no more who asked then: the sink was too slow for them, or they went away by themselves.
    fn why_left(&self, asked: Moment) -> DenyReason {
        if asked.elapsed() < self.settings.deadline {
            DenyReason::RequestIncomplete
        } else {
            DenyReason::RecordUnavailable
        }
    }

    fn tell_loss(&mut self, why: &str) {
        self.known = Some(Moment::now());
        if !std::mem::replace(&mut self.failing, true) {
            tracing::error!(why, "the record cannot be written: egress is refused");
        }
    }
}

/// Who finds that the chain moved asks twice where the other asks once, and may lose to a busy one many times in a
/// row; their callers leave at their own deadline.
const MOST_MOVES: u32 = 200;
/// However many ask, it is tried no more often; and a disk that fills up is known soon.
const FRESH: Duration = Duration::from_secs(3);
/// A prober asks more than once meanwhile.
const LATELY: Duration = Duration::from_secs(30);

/// Tells everybody that the writer is gone, also when it unwinds.
struct Gone<'a>(&'a Queue);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.writer_is_gone();
    }
}

/// An observer that panics on a caller's thread ends the record as it does on the writer's own.
struct GoneInPanic<'a>(&'a Queue);

impl Drop for GoneInPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.writer_is_gone();
        }
    }
}

/// Who waits for an entry of a group; nobody for an outcome.
type Answer = Option<Asking>;

/// Whoever asked has left before it was written: what would have gone did not. Other events tell of what was done
/// already, or is done all the same.
fn tell_late(entry: &mut Entry, why: DenyReason) {
    if lets_go(entry) {
        entry.verdict = Some(VerdictWord::Deny);
        entry.reason = Some(why);
        let told = if why == DenyReason::RequestIncomplete {
            "who asked was gone before this was recorded: nothing was sent"
        } else {
            "nobody waited any more for this to be recorded: it was refused"
        };
        entry.findings.push(told.into());
    }
}

/// What sets a record right of a group that may be in the chain though everybody was told that it is not.
fn unwritten(record: &Record) -> Option<Entry> {
    correction(record, DenyReason::RecordUnavailable)
}

/// The same where they left while it was being written, or were told that it was not: what is in the chain stays, and
/// another record of the same request says what became of it.
fn correction(record: &Record, why: DenyReason) -> Option<Entry> {
    if !lets_go(&record.entry) {
        return None;
    }
    let mut entry = record.entry.clone();
    entry.verdict = Some(VerdictWord::Deny);
    entry.reason = Some(why);
    entry.secrets.clear();
    entry.findings = vec![too_late(record.seq).into()];
    Some(entry)
}

fn lets_go(entry: &Entry) -> bool {
    let decides = matches!(entry.event, Event::Dns | Event::Connect | Event::Request);
    let goes = matches!(
        entry.verdict,
        Some(VerdictWord::Allow | VerdictWord::WouldDeny)
    );
    decides && goes
}

/// What a group tells that nobody handed in.
struct Told {
    refused: u64,
    span: Option<Span>,
    opening: Option<Opening>,
    lost_on_disk: Option<String>,
    corrections: Vec<Entry>,
}

impl Told {
    /// The gap, where there is one, that the run begins, and what was refused though a record lets it go.
    fn entries(&self, repaired: Option<String>) -> Vec<Entry> {
        let mut findings = Vec::new();
        let before = self.opening.as_ref().map_or(0, |opening| opening.before);
        if before > 0 {
            findings.push(format!("{before} records were refused by the run before").into());
        }
        if self.refused > 0 {
            findings.push(format!("{} records were refused", self.refused).into());
        }
        if let Some(Span { first, last }) = &self.span {
            findings.push(format!("refused from {first} to {last}").into());
        }
        findings.extend(repaired.map(Into::into));
        if let Some(why) = &self.lost_on_disk {
            findings.push(format!("records before may be lost: {why}").into());
        }
        let mut entries = Vec::new();
        if !findings.is_empty() {
            let mut gap = Entry::new(Event::AuditGap);
            gap.reason = Some(DenyReason::RecordUnavailable);
            gap.findings = findings;
            entries.push(gap);
        }
        entries.extend(self.opening.as_ref().map(|opening| opening.entry.clone()));
        entries.extend(self.corrections.iter().cloned());
        entries
    }
}

fn refusal(error: &dyn Error) -> RecordRefused {
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        why = format!("{why}: {next}");
        cause = next.source();
    }
    RecordRefused { why }
}

/// The line buffer keeps this much between groups: one ordinary full group of 64 connections.
const KEPT_BUFFER: usize = 64 * 1024;
