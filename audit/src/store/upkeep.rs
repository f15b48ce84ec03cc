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
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use crate::{chain::Head, clock::Moment, store::StoreError};

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
    /// The last record of a segment that has not ended, and since when one is waiting.
    unsigned: Option<(Head, Moment)>,
}

impl Upkeep {
    pub(super) fn start(chores: Box<dyn Chores>) -> io::Result<Self> {
        Self::signing(chores, SIGNED_WITHIN)
    }

    /// What is written is signed within this time, where no segment has ended by then.
    fn signing(chores: Box<dyn Chores>, within: Duration) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Worker {
            chores,
            shared: Arc::clone(&shared),
            within,
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

    /// We wrote as far as this.
    pub(super) fn wrote(&self, head: Head) {
        self.appended(head.seq);
        let mut state = self.shared.state.lock();
        let since = match &state.unsigned {
            Some((_, since)) => *since,
            None => {
                // Who waits for work waits no longer than for this.
                self.shared.wake.notify_one();
                Moment::now()
            }
        };
        state.unsigned = Some((head, since));
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
    within: Duration,
    failing: bool,
}

impl Worker {
    fn run(mut self) {
        loop {
            let mut state = self.shared.state.lock();
            while !state.work && !state.closing {
                let Some((head, since)) = state.unsigned else {
                    self.shared.wake.wait(&mut state);
                    continue;
                };
                let left = self.within.saturating_sub(since.elapsed());
                if left.is_zero() {
                    // A segment ends where nobody ended it.
                    state.unsigned = None;
                    state.seals.push(head);
                    state.work = true;
                } else {
                    self.shared.wake.wait_for(&mut state, left);
                }
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
            let mut state = self.shared.state.lock();
            state.seals.remove(0);
            state.unsigned.take_if(|(last, _)| last.seq <= head.seq);
        }
    }
}

/// Whoever can write to the database, and has no key, could change what is not signed; a checkpoint is as long as a
/// record, and stays.
const SIGNED_WITHIN: Duration = Duration::from_mins(5);
/// How often the thread looks: four times a block.
const RECORDS_BETWEEN: u64 = 1024;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::record::ChainHash;

    struct Told(Sender<u64>);

    impl Chores for Told {
        fn seal(&mut self, head: Head) -> Result<(), StoreError> {
            self.0.send(head.seq).unwrap();
            Ok(())
        }

        fn index_next(&mut self, _: u64) -> Result<bool, StoreError> {
            Ok(false)
        }

        fn count_next(&mut self) -> Result<bool, StoreError> {
            Ok(false)
        }
    }

    fn head(seq: u64) -> Head {
        let hash = ChainHash::NONE;
        Head { seq, hash }
    }

    #[test]
    fn what_is_written_is_signed_soon_though_no_segment_ends() {
        let (told, signed) = channel();
        let within = Duration::from_millis(300);
        let mut upkeep = Upkeep::signing(Box::new(Told(told)), within).unwrap();
        let next = || signed.recv_timeout(Duration::from_secs(60)).unwrap();
        let begun = Moment::now();
        upkeep.wrote(head(1));
        upkeep.wrote(head(2));
        assert_eq!(next(), 2);
        assert!(begun.elapsed() >= within);
        // An end within that time is signed at once, and is all there is to sign.
        upkeep.wrote(head(3));
        upkeep.seal(head(3));
        assert_eq!(next(), 3);
        upkeep.wrote(head(4));
        assert_eq!(next(), 4);
        assert_eq!(upkeep.end(), []);
        assert!(signed.try_recv().is_err());
    }
}
