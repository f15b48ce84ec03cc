//! Fetches that nobody can call off.
//!
//! A token endpoint may take a refresh token out of use before its answer is here. If the fetch ended
//! with the request that asked for it (the program went, its stream was reset), what the service gave
//! instead would be lost, and the login with it. So each fetch has a thread of its own, which ends when
//! the fetch does; those who wait share its outcome, and may leave. Whoever ends waits for the threads.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use gig_policy::SecretName;
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::{
    Kept,
    slot::{Slot, Stamp},
    unavailable,
};
use crate::{keeper::SecretUnavailable, secret::Secret};

/// What a fetch came to.
#[derive(Debug, Clone)]
pub(super) struct Landed {
    /// What the answer was made of; `None` where it is of this gig alone.
    pub(super) stamp: Option<Stamp>,
    pub(super) answer: Result<Arc<Secret>, SecretUnavailable>,
}

/// A fetch that is under way, for one who waits.
#[derive(Debug, Clone)]
pub(super) struct Flight(watch::Receiver<Option<Landed>>);

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Flights {
    aloft: Mutex<Aloft>,
    landed: Condvar,
    /// No service is to be asked any more for what it takes out of use.
    ending: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Aloft {
    count: usize,
    threads: Vec<JoinHandle<()>>,
}

/// Counted for as long as it lives.
struct Counted(Arc<Flights>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.aloft.lock().count -= 1;
        self.0.landed.notify_all();
    }
}

/// Its slot takes another when it is gone, however its thread ended.
struct Held<'a>(&'a Slot);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

impl Landed {
    /// Nothing was fetched, whatever the secret is.
    pub(super) const fn failed(why: SecretUnavailable) -> Self {
        Self {
            stamp: None,
            answer: Err(why),
        }
    }
}

impl Flight {
    /// Begins to fetch the secret of `slot`, which has nothing under way.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn begin(
        kept: &Arc<Kept>,
        slot: &Arc<Slot>,
        name: &SecretName,
    ) -> Result<Self, SecretUnavailable> {
        let (sender, receiver) = watch::channel(None);
        let failed = |error: std::io::Error| unavailable(name, HERE, &error.to_string());
        let job = {
            let (kept, slot, name) = (Arc::clone(kept), Arc::clone(slot), name.clone());
            move || {
                let held = Held(&slot);
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let landed = match runtime {
                    Ok(runtime) => runtime.block_on(slot.fetch(&kept, &name)),
                    Err(error) => Landed::failed(unavailable(&name, HERE, &error.to_string())),
                };
                drop(held);
                sender.send_replace(Some(landed));
            }
        };
        kept.flights.begin(job).map_err(failed)?;
        Ok(Self(receiver))
    }

    /// What it comes to. Dropping this leaves it under way.
    pub(super) async fn landed(mut self, name: &SecretName) -> Result<Landed, SecretUnavailable> {
        let landed = self.0.wait_for(Option::is_some).await;
        let landed = landed.ok().and_then(|landed| landed.clone());
        landed.ok_or_else(|| unavailable(name, HERE, "the thread that fetches it has ended"))
    }
}

impl Flights {
    fn begin(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let mut aloft = self.aloft.lock();
        let (ended, going) = std::mem::take(&mut aloft.threads)
            .into_iter()
            .partition(JoinHandle::is_finished);
        aloft.threads = going;
        join(ended);
        aloft.count += 1;
        drop(aloft);
        let counted = Counted(Arc::clone(self));
        let thread = std::thread::Builder::new().name("gig-secret".to_owned());
        let thread = thread.spawn(move || {
            let _counted = counted;
            job();
        })?;
        self.aloft.lock().threads.push(thread);
        Ok(())
    }

    /// Lets those that wait for another process give up: whoever asks a service now may not live to store
    /// its answer.
    pub(super) fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Ready when that was said.
    pub(super) async fn ending(&self) {
        // Fails only when the sender is gone, which is here.
        let mut ending = self.ending.subscribe();
        let _ended = ending.wait_for(|ending| *ending).await;
    }

    /// Waits until nothing is under way, `within` at most; tells whether it came to that.
    pub(super) fn landed(&self, within: Duration) -> bool {
        let mut aloft = self.aloft.lock();
        let waited = self
            .landed
            .wait_while_for(&mut aloft, |aloft| aloft.count > 0, within);
        let threads = std::mem::take(&mut aloft.threads);
        drop(aloft);
        if waited.timed_out() {
            return false;
        }
        join(threads);
        true
    }
}

/// Waits for threads that have nothing left to do.
fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!("a thread that fetched a secret has ended by a fault of its own");
        }
    }
}

/// Who says so where no service does.
pub(super) const HERE: &str = "this gig";
