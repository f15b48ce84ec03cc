//! What a database needs beside appends: terms of full blocks, checkpoints, and counts.
//!
//! A thread of its own, with a connection of its own. Whatever it has not done when gig dies is done by
//! the next gig; until then a search reads those records line by line.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use parking_lot::{Condvar, Mutex};

use crate::{chain::Head, store::StoreError};

/// How a database does it.
pub(super) trait Chores: Send {
    /// Signs the segment that ends with `head`; nothing to do where nobody signs.
    fn seal(&mut self, head: Head) -> Result<(), StoreError>;

    /// Whatever has to be done now and then.
    fn tidy(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Indexes the first full block of the chain that is not, where the chain ends at `end`; false when
    /// there is none.
    fn index_next(&mut self, end: u64) -> Result<bool, StoreError>;

    /// Counts the next records that are not; false when there are none.
    fn count_next(&mut self) -> Result<bool, StoreError>;
}

/// Handle to the thread; dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Upkeep {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The chain's last record.
    end: AtomicU64,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    work: bool,
    closing: bool,
    /// Ends of segments that are not signed yet.
    seals: Vec<Head>,
}

impl Upkeep {
    pub(super) fn start(chores: Box<dyn Chores>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Worker {
            chores,
            shared: Arc::clone(&shared),
            failing: false,
        };
        let thread = std::thread::Builder::new()
            .name("audit-upkeep".to_owned())
            .spawn(move || worker.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// The chain ends here now.
    pub(super) fn appended(&self, seq: u64) {
        let before = self.shared.end.swap(seq, Ordering::Relaxed);
        if before / RECORDS_BETWEEN != seq / RECORDS_BETWEEN {
            self.shared.state.lock().work = true;
            self.shared.wake.notify_one();
        }
    }

    /// A segment ends here: it is to be signed.
    pub(super) fn seal(&self, head: Head) {
        let mut state = self.shared.state.lock();
        state.seals.push(head);
        state.work = true;
        self.shared.wake.notify_one();
    }

    /// Ends the thread: nothing is indexed or signed by it from here on. Answers what it did not sign.
    pub(super) fn end(&mut self) -> Vec<Head> {
        self.shared.state.lock().closing = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that indexes the record panicked");
        }
        std::mem::take(&mut self.shared.state.lock().seals)
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.end();
    }
}

struct Worker {
    chores: Box<dyn Chores>,
    shared: Arc<Shared>,
    failing: bool,
}

impl Worker {
    fn run(mut self) {
        loop {
            let mut state = self.shared.state.lock();
            while !state.work && !state.closing {
                self.shared.wake.wait(&mut state);
            }
            state.work = false;
            if state.closing {
                return;
            }
            drop(state);
            let done = self.work();
            if let Err(error) = &done
                && !self.failing
            {
                let cause = std::error::Error::source(error).map(ToString::to_string);
                let cause = cause.unwrap_or_default();
                tracing::warn!(%error, cause, "the record is not indexed or signed as far as it could be");
            }
            self.failing = done.is_err();
        }
    }

    fn work(&mut self) -> Result<(), StoreError> {
        while !self.shared.state.lock().closing {
            self.seal()?;
            self.chores.tidy()?;
            let end = self.shared.end.load(Ordering::Relaxed);
            let indexed = self.chores.index_next(end)?;
            if !self.chores.count_next()? && !indexed {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Signs the segments that ended; in order, each by itself.
    fn seal(&mut self) -> Result<(), StoreError> {
        loop {
            let next = self.shared.state.lock().seals.first().copied();
            let Some(head) = next else {
                return Ok(());
            };
            // What cannot be signed now is tried again with the next segment, and at the end.
            self.chores.seal(head)?;
            self.shared.state.lock().seals.remove(0);
        }
    }
}

/// How often the thread looks: four times a block.
const RECORDS_BETWEEN: u64 = 1024;
