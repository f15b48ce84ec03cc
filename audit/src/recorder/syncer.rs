//! The thread that brings written groups to the disk, within 100 ms, beside the writer.

use std::{io, sync::Arc, thread::JoinHandle, time::Duration};

use parking_lot::{Condvar, Mutex};

use crate::store::Syncer;

/// Handle to the thread.
#[derive(Debug)]
pub(super) struct SyncThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    dirty: bool,
    closing: bool,
    failure: Option<String>,
}

impl SyncThread {
    pub(super) fn start(syncer: Box<dyn Syncer>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("audit-sync".to_owned())
            .spawn(move || run(&theirs, syncer))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// A group was written.
    pub(super) fn mark_dirty(&self) {
        let mut state = self.shared.state.lock();
        if !state.dirty {
            state.dirty = true;
            drop(state);
            self.shared.wake.notify_one();
        }
    }

    /// What the disk said since the last call, if it failed: written records may be lost.
    pub(super) fn take_failure(&self) -> Option<String> {
        self.shared.state.lock().failure.take()
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that brings the record to the disk panicked");
        }
    }
}

fn run(shared: &Shared, mut syncer: Box<dyn Syncer>) {
    loop {
        let mut state = shared.state.lock();
        while !state.dirty && !state.closing {
            shared.wake.wait(&mut state);
        }
        if !state.closing {
            shared.wake.wait_for(&mut state, LINGER);
        }
        let dirty = std::mem::take(&mut state.dirty);
        let closing = state.closing;
        drop(state);
        if dirty && let Err(error) = syncer.sync() {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let text = format!("{error}: {}", cause.unwrap_or_default());
            tracing::error!(error = text, "the disk failed; written records may be lost");
            shared.state.lock().failure = Some(text);
        }
        if closing {
            return;
        }
    }
}

/// Half of the promised 100 ms; the disk may use the other half.
const LINGER: Duration = Duration::from_millis(50);
