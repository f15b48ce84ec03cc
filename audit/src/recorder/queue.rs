//! The bounded queue between those who record and whoever writes next.
//!
//! What is handed in is written by the first caller who finds the writer free, or by the writer's
//! thread: at once when a caller hurries it, otherwise after a few milliseconds, so that an outcome
//! rides with the next decision and costs no wake-up of its own.

use std::{sync::Arc, time::Duration};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::{
    clock::Moment,
    entry::Entry,
    recorder::{RecordRefused, Sequence, figures::Tally},
};

#[derive(Debug)]
pub(super) struct Job {
    pub(super) entry: Entry,
    /// `None` for outcomes, which nobody waits for.
    pub(super) answer: Option<Asking>,
}

/// Who waits to hear that an entry is written.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) answer: oneshot::Sender<Result<Sequence, RecordRefused>>,
    /// Since when.
    pub(super) since: Moment,
}

/// Why an entry was not queued.
#[derive(Debug)]
pub(super) enum Full {
    Queue,
    Closed,
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Wakes the writer.
    work: Condvar,
    /// Wakes who waits for the end.
    ended: Condvar,
    /// What was refused.
    pub(super) tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct State {
    jobs: Vec<Job>,
    /// Somebody waits for an answer that only the thread can give.
    urgent: bool,
    /// Counts groups that were taken.
    taken: u64,
    /// The thread is awake or will wake by itself: it need not be told of a new entry.
    watching: bool,
    life: Life,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Life {
    #[default]
    Open,
    /// Takes no more; what is queued is written.
    Closing,
    /// Nobody writes any more.
    Gone,
}

impl Queue {
    pub(super) fn new(tally: Arc<Tally>) -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            ended: Condvar::new(),
            tally,
        }
    }

    pub(super) fn push(&self, job: Job) -> Result<(), Full> {
        let mut state = self.state.lock();
        if state.life != Life::Open {
            return Err(Full::Closed);
        }
        if state.jobs.len() >= CAPACITY {
            self.tally.refuse(1);
            return Err(Full::Queue);
        }
        let wake = !std::mem::replace(&mut state.watching, true);
        state.jobs.push(job);
        drop(state);
        if wake {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Takes what sets written records right, also while it closes: there are no more than were in a group.
    pub(super) fn push_corrections(&self, entries: Vec<Entry>) {
        if entries.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        if state.life == Life::Gone {
            return;
        }
        let jobs = entries.into_iter();
        state.jobs.extend(jobs.map(|entry| Job {
            entry,
            answer: None,
        }));
        state.urgent = true;
        drop(state);
        self.work.notify_one();
    }

    /// How many wait to be written.
    pub(super) fn len(&self) -> usize {
        self.state.lock().jobs.len()
    }

    /// Makes the thread write what is queued now.
    pub(super) fn hurry(&self) {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.urgent, true) {
            drop(state);
            self.work.notify_one();
        }
    }

    /// Returns when the thread has something to do: a hurried or lingering entry, a retry, the end.
    pub(super) fn wait(&self) {
        let mut state = self.state.lock();
        let mut taken = state.taken;
        let mut quiet = state.jobs.is_empty();
        while !state.urgent && state.life == Life::Open {
            state.watching = !quiet;
            let patience = match (quiet, self.tally.owes()) {
                (false, _) => LINGER,
                (true, false) => {
                    self.work.wait(&mut state);
                    quiet = false;
                    continue;
                }
                (true, true) => RETRY,
            };
            if !self.work.wait_for(&mut state, patience).timed_out() {
                quiet = false;
            } else if quiet {
                break;
            } else if std::mem::replace(&mut taken, state.taken) == state.taken {
                if !state.jobs.is_empty() {
                    break;
                }
                quiet = true;
            }
            // Otherwise callers write by themselves, and what is here came after their last group.
        }
        state.watching = true;
    }

    /// Moves what is queued into `jobs`; false when closed and drained.
    ///
    /// Called by whoever holds the writer, so that groups are written in the order they were taken.
    pub(super) fn take(&self, jobs: &mut Vec<Job>) -> bool {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.jobs, jobs);
        state.taken = state.taken.wrapping_add(1);
        state.urgent = false;
        state.life == Life::Open || !jobs.is_empty()
    }

    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        if state.life == Life::Open {
            state.life = Life::Closing;
        }
        drop(state);
        self.work.notify_one();
    }

    /// The writer's last word, also when it panicked: nobody may wait for it any more.
    pub(super) fn writer_is_gone(&self) {
        let mut state = self.state.lock();
        state.life = Life::Gone;
        state.jobs.clear();
        drop(state);
        self.ended.notify_all();
    }

    pub(super) fn wait_closed(&self, patience: Duration) {
        let mut state = self.state.lock();
        if state.life != Life::Gone {
            self.ended.wait_for(&mut state, patience);
        }
        drop(state);
        // The thread says it is gone a moment before it is.
        std::thread::yield_now();
    }
}

/// Entries that may wait: 1.6 s of the 10,000 records a second that a sink must take; about 8 MB.
const CAPACITY: usize = 16_384;
/// How long an outcome waits for a decision to ride with; twice, where others are being written.
const LINGER: Duration = Duration::from_millis(5);
/// How often a lost sink is tried again when nothing new comes.
const RETRY: Duration = Duration::from_secs(1);
