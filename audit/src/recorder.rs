//! The one door to the record: durable, or refused.
//!
//! Entries queue up; one writer at a time gives them their places, writes each group with one call,
//! and only then answers. Where the sink is a file, that writer is a caller: it lets the other tasks
//! of its thread hand theirs in first, and no thread has to be woken for the group. Elsewhere, and
//! whenever the file would make it wait, it is a thread of its own. Whoever is refused must not let
//! anything leave. Refusals are counted, and the first
//! group after recovery begins with an `audit.gap` record that tells the count.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::{
    clock::Moment,
    entry::Entry,
    record::Record,
    store::{Store, memory::MemoryLog},
    turn::others_first,
};

mod figures;
mod queue;
mod syncer;
mod writer;

pub use figures::RecorderFigures;
use figures::{Opening, Tally};
use queue::{Asking, Full, Job, Queue};
use writer::Writer;

/// A record's place in its chain, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// The entry was not written. Whoever asked must not let anything leave.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the record could not be written: {why}")]
pub struct RecordRefused {
    /// What is wrong with the sink, for the operator's log.
    pub why: String,
}

/// What an answer of [`Recorder::record`] promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The kernel has the octets: `kill -9` loses nothing. On the disk within 100 ms.
    Kernel,
    /// The disk has them.
    Strict,
}

/// Sees each record after it was written, on the writer's thread; must be quick.
pub type Observer = Box<dyn FnMut(&Record) + Send>;

/// How a recorder works.
pub struct RecorderSettings {
    /// The machine's name in each record.
    pub node: Arc<str>,
    /// What an answer promises.
    pub durability: Durability,
    /// How long a caller waits before it is refused.
    pub deadline: Duration,
    /// Sees what was written.
    pub observer: Option<Observer>,
}

impl RecorderSettings {
    /// Kernel durability and a deadline of five seconds: a program's own timeouts are rarely shorter
    /// than ten, and it should learn the real reason before.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self {
            node: node.into(),
            durability: Durability::Kernel,
            deadline: Duration::from_secs(5),
            observer: None,
        }
    }
}

impl fmt::Debug for RecorderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecorderSettings")
            .field("node", &self.node)
            .field("durability", &self.durability)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// The recorder's thread could not be made.
#[derive(Debug, Error)]
#[error("cannot start the thread that writes the record")]
pub struct StartRecorderError(#[source] std::io::Error);

/// What is not written yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Entries that were handed in.
    pub queued: usize,
    /// Entries that were refused since the last `audit.gap`.
    pub refused: u64,
}

type Answered = oneshot::Receiver<Result<Sequence, RecordRefused>>;

/// A handle to the writer; cloning shares it.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
enum Inner {
    Threaded {
        queue: Arc<Queue>,
        writer: Arc<Mutex<Writer>>,
        deadline: Duration,
        /// Callers may write.
        prompt: bool,
    },
    /// Writes where it is called: no thread, no wait, so that tests may pause time.
    Inline(Box<Mutex<Writer>>),
}

/// Owns the writer's threads: closing it writes what is queued and waits for the disk.
#[derive(Debug)]
#[must_use = "dropping it closes the record"]
pub struct RecorderOwner {
    queue: Arc<Queue>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Recorder {
    /// Starts the writer over `store`.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        store: Box<dyn Store>,
        settings: RecorderSettings,
    ) -> Result<(Self, RecorderOwner), StartRecorderError> {
        let deadline = settings.deadline;
        let tally = Arc::<Tally>::default();
        let queue = Arc::new(Queue::new(Arc::clone(&tally)));
        let mut writer = Writer::new(store, settings, tally);
        writer.start_syncer().map_err(StartRecorderError)?;
        let prompt = writer.is_prompt();
        let writer = Arc::new(Mutex::new(writer));
        let theirs = (Arc::clone(&writer), Arc::clone(&queue));
        let thread = std::thread::Builder::new()
            .name("audit-writer".to_owned())
            .spawn(move || Writer::run(&theirs.0, &theirs.1))
            .map_err(StartRecorderError)?;
        let owner = RecorderOwner {
            queue: Arc::clone(&queue),
            thread: Some(thread),
        };
        let inner = Inner::Threaded {
            queue,
            writer,
            deadline,
            prompt,
        };
        Ok((Self(Arc::new(inner)), owner))
    }

    /// A recorder that keeps its records in memory and answers at once; for tests.
    #[must_use]
    pub fn in_memory() -> (Self, MemoryLog) {
        let log = MemoryLog::default();
        let settings = RecorderSettings::new("memory");
        let writer = Writer::new(Box::new(log.clone()), settings, Arc::default());
        (
            Self(Arc::new(Inner::Inline(Box::new(Mutex::new(writer))))),
            log,
        )
    }

    /// Hands the entry in and waits until it is with the kernel. Dropping the future does not take the entry back:
    /// it may or may not be written. Needs a tokio runtime with time.
    ///
    /// # Errors
    /// When the sink is lost, slow beyond its deadline, or the queue is full.
    pub fn record(
        &self,
        entry: Entry,
    ) -> impl Future<Output = Result<Sequence, RecordRefused>> + Send {
        self.record_within(entry, true)
    }

    /// The same without a deadline: for who would hand it in once more, and have it told twice where it was only slow.
    ///
    /// # Errors
    /// When the sink is lost or the queue is full: it is not written.
    pub fn record_unhurried(
        &self,
        entry: Entry,
    ) -> impl Future<Output = Result<Sequence, RecordRefused>> + Send {
        self.record_within(entry, false)
    }

    fn record_within(
        &self,
        entry: Entry,
        hurried: bool,
    ) -> impl Future<Output = Result<Sequence, RecordRefused>> + Send {
        let (answer, answered) = oneshot::channel();
        let job = Job {
            entry,
            answer: Some(Asking {
                answer,
                since: Moment::now(),
            }),
        };
        // Now and not when it is awaited, so that the future holds no room for the entry.
        let handed_in = self.hand_in(job);
        async move {
            handed_in?;
            self.answer(answered, hurried).await
        }
    }

    async fn answer(
        &self,
        mut answered: Answered,
        hurried: bool,
    ) -> Result<Sequence, RecordRefused> {
        let Inner::Threaded {
            queue,
            writer,
            deadline,
            prompt,
        } = &*self.0
        else {
            return answered.await.unwrap_or_else(|_| Err(writer_is_gone()));
        };
        if *prompt {
            // What the other tasks of this thread hand in meanwhile is written with this entry.
            others_first().await;
            if let Ok(answer) = answered.try_recv() {
                return answer;
            }
            if let Some(mut writer) = writer.try_lock_for(SHORT_WAIT)
                && writer.write_now(queue)
                && let Ok(answer) = answered.try_recv()
            {
                return answer;
            }
        }
        queue.hurry();
        if !hurried {
            return answered.await.unwrap_or_else(|_| Err(writer_is_gone()));
        }
        let Ok(answer) = tokio::time::timeout(*deadline, answered).await else {
            queue.tally.refuse(1);
            return Err(refused(&format!("no answer within {deadline:?}")));
        };
        answer.unwrap_or_else(|_| Err(writer_is_gone()))
    }

    /// Hands an outcome in and does not wait: it is written behind everything handed in before, with
    /// the next group and at most some milliseconds later. Only for what has already happened; a
    /// decision must be awaited with [`Recorder::record`].
    ///
    /// # Errors
    /// When the queue is full or the writer is gone.
    pub fn queue(&self, entry: Entry) -> Result<(), RecordRefused> {
        let job = Job {
            entry,
            answer: None,
        };
        self.hand_in(job)
    }

    /// The next group begins with `entry`, and before it with an `audit.gap` of what the run `before` refused and
    /// did not come to tell. Both are written as soon as it can be, before all that is handed in from now on.
    pub fn begin(&self, entry: Entry, before: u64) {
        let opening = Opening { entry, before };
        match &*self.0 {
            Inner::Threaded { queue, .. } => {
                queue.tally.open(opening);
                queue.hurry();
            }
            Inner::Inline(writer) => writer.lock().open(opening),
        }
    }

    /// Waits until there are not `known` refused entries that no record tells of, and says how many there are; at
    /// once, where it is so. `None` when the record was closed and nothing changes any more. Blocks.
    #[must_use]
    pub fn wait_untold(&self, known: u64) -> Option<u64> {
        match &*self.0 {
            Inner::Threaded { queue, .. } => queue.tally.wait_untold(known),
            Inner::Inline(_) => None,
        }
    }

    /// Whether the record can be written: as what came in the last three seconds was, or else by a write that changes
    /// nothing, and the writer answers. Waits for the writer no longer than a moment, and for such a write as long as
    /// for a group; blocks.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let writer = match &*self.0 {
            Inner::Threaded { writer, .. } => writer.try_lock_for(WRITING),
            Inner::Inline(writer) => writer.try_lock_for(WRITING),
        };
        writer.is_some_and(|mut writer| writer.is_well())
    }

    /// What waits to be written, and what was refused and not told yet.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        match &*self.0 {
            Inner::Threaded { queue, .. } => Backlog {
                queued: queue.len(),
                refused: queue.tally.untold(),
            },
            Inner::Inline(_) => Backlog::default(),
        }
    }

    /// What it has counted of its own work.
    #[must_use]
    pub fn figures(&self) -> RecorderFigures {
        match &*self.0 {
            Inner::Threaded { queue, .. } => queue.tally.figures(queue.len()),
            Inner::Inline(writer) => writer.lock().figures(),
        }
    }

    fn hand_in(&self, job: Job) -> Result<(), RecordRefused> {
        match &*self.0 {
            Inner::Threaded { queue, .. } => queue.push(job).map_err(|full| match full {
                Full::Queue => refused("the queue to the writer is full"),
                Full::Closed => refused("the record is closed"),
            }),
            Inner::Inline(writer) => {
                writer.lock().write_group(vec![job]);
                Ok(())
            }
        }
    }
}

fn writer_is_gone() -> RecordRefused {
    refused("the writer is gone")
}

fn refused(why: &str) -> RecordRefused {
    RecordRefused {
        why: why.to_owned(),
    }
}

impl RecorderOwner {
    /// Writes what is queued, waits for the disk and for the threads. Later entries are refused.
    /// Gives up waiting after `patience`: a sink that hangs must not hold the program.
    ///
    /// Says how many entries were refused of which no record tells; `None` where it does not know: what was handed
    /// in last may be missing.
    pub fn close(mut self, patience: Duration) -> Option<u64> {
        self.queue.close();
        let whole = self.wait_closed(patience);
        self.queue.tally.close();
        whole.then(|| self.queue.tally.untold())
    }

    /// Whether the writer came to its end.
    fn wait_closed(&mut self, patience: Duration) -> bool {
        let Some(thread) = self.thread.take() else {
            return false;
        };
        let begun = Moment::now();
        while !thread.is_finished() && begun.elapsed() < patience {
            self.queue
                .wait_closed(patience.saturating_sub(begun.elapsed()));
        }
        if !thread.is_finished() {
            tracing::error!("the record's sink hangs; its last records may be missing");
            return false;
        }
        if thread.join().is_err() {
            tracing::error!("the record's writer panicked; its last records may be missing");
            return false;
        }
        true
    }
}

impl Drop for RecorderOwner {
    fn drop(&mut self) {
        self.queue.close();
        self.queue.tally.close();
    }
}

/// A group takes some ten microseconds, a disk that is busy longer.
const WRITING: Duration = Duration::from_secs(1);
/// How long a caller waits for another's group before it leaves its own to the thread: groups take
/// some ten microseconds.
const SHORT_WAIT: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests;
