//! Keeps sandboxes under the policies that are in force, whoever puts them there: another appliance on
//! the same database changes them, too.
//!
//! Promises that a change made elsewhere is in force here within a second of being made while the
//! database answers. When nobody can tell for [`PATIENCE`] what is in force, nothing is allowed any more
//! until somebody can: a rule that was taken back must not live on in a node that was cut off. Where the
//! store is this appliance's alone, what could not be read is tried again. A panic of this thread denies
//! everything, and the thread goes on.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    thread::JoinHandle,
    time::Duration,
};

use tokio::{
    runtime::Runtime,
    sync::{OwnedRwLockWriteGuard, watch},
    time::Instant,
};

use crate::{app::App, control::Ruling, in_force, store::News};

/// A thread that follows the store; ends when this is dropped.
#[derive(Debug)]
pub struct Following {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Following {
    /// Begins.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(app: &Arc<App>) -> std::io::Result<Self> {
        let (stop, told) = watch::channel(false);
        // For waiting alone: whatever blocks does so on the thread itself.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let app = Arc::clone(app);
        let thread = std::thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || follow(&app, &Waiting { runtime, told }))?;
        let thread = Some(thread);
        Ok(Self { stop, thread })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that follows the store panicked");
        }
    }
}

/// Until it is told to stop, whatever happens.
fn follow(app: &Arc<App>, waiting: &Waiting) {
    let mut lost = false;
    while !waiting.is_over() {
        let follower = Follower {
            app: Arc::clone(app),
            news: app.store.news(),
            known: None,
            heard: Instant::now(),
            lost,
        };
        let ran = catch_unwind(AssertUnwindSafe(|| follower.run(waiting)));
        if ran.is_err() {
            tracing::error!("following the store failed: nothing is allowed until it works again");
            // What panics here, too, leaves the rest of them to the next round.
            let _denied = catch_unwind(AssertUnwindSafe(|| app.deny_everything()));
            lost = true;
            app.undecided.store(true, Ordering::Relaxed);
            waiting.pause();
        }
    }
}

/// How the thread waits: for something, or until it is told to stop.
struct Waiting {
    runtime: Runtime,
    told: watch::Receiver<bool>,
}

impl Waiting {
    fn is_over(&self) -> bool {
        *self.told.borrow()
    }

    /// `None` when it is told to stop before.
    fn unless_over<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        let mut told = self.told.clone();
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                // An error is a sender that is gone: over, too.
                _ = told.wait_for(|over| *over) => None,
                done = what => Some(done),
            }
        })
    }

    fn pause(&self) {
        // Made within: a timer belongs to a runtime.
        let _over = self.unless_over(async { tokio::time::sleep(AGAIN).await });
    }
}

struct Follower {
    app: Arc<App>,
    /// `None` where nobody else changes anything.
    news: Option<Box<dyn News>>,
    /// How many changes there were when policies were looked at last.
    known: Option<u64>,
    /// When the store last told.
    heard: Instant,
    /// Nothing is allowed until the store tells again.
    lost: bool,
}

impl Follower {
    fn run(mut self, waiting: &Waiting) {
        while !waiting.is_over() {
            let Some(news) = &mut self.news else {
                waiting.pause();
                self.again(waiting);
                continue;
            };
            match news.next() {
                Ok(count) => self.hear(count, waiting),
                Err(error) => {
                    // Who answers next may have lost a change, and count as many.
                    self.known = None;
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    let cause = cause.unwrap_or_default();
                    tracing::debug!(%error, cause, "no news of policies");
                    if self.heard.elapsed() >= PATIENCE {
                        if !std::mem::replace(&mut self.lost, true) {
                            tracing::error!(%error, cause, "nothing is allowed until it answers again");
                        }
                        self.app.deny_everything();
                    }
                }
            }
        }
    }

    fn hear(&mut self, count: u64, waiting: &Waiting) {
        self.heard = Instant::now();
        let undecided = self.app.undecided.swap(false, Ordering::Relaxed);
        if self.known == Some(count) && !self.lost && !undecided {
            return;
        }
        // What could not be read now is read with the next news.
        if self.look(waiting) {
            self.known = Some(count);
        } else {
            self.known = None;
        }
    }

    /// Where there is no news: what could not be read is tried again.
    fn again(&mut self, waiting: &Waiting) {
        if self.app.undecided.swap(false, Ordering::Relaxed) && !self.look(waiting) {
            self.app.undecided.store(true, Ordering::Relaxed);
        }
    }

    /// Whether all could be read, and is in force.
    fn look(&mut self, waiting: &Waiting) -> bool {
        let alone = waiting.unless_over(Arc::clone(&self.app.policies).write_owned());
        let Some(alone) = alone else {
            return false;
        };
        let whole = self.app.look_again(&alone);
        if whole && std::mem::take(&mut self.lost) {
            tracing::info!("the database answers again: its policies are in force");
        }
        whole
    }
}

impl App {
    /// Puts what the store says in force, ends sandboxes of servers that are no longer registered, and those that
    /// somebody asked to end elsewhere; false when something could not be read, which denies everything where it was
    /// needed.
    fn look_again(&self, _alone: &OwnedRwLockWriteGuard<()>) -> bool {
        let said = in_force::decide_again(self.store.as_ref(), self.control.as_ref());
        let Some(said) = said else {
            return false;
        };
        in_force::end_unknown(&said, self.control.as_ref());
        self.end_asked_for()
    }

    /// Ends what somebody asked to end at another node; false where nobody can tell.
    fn end_asked_for(&self) -> bool {
        let Ok(asked) = self.store.stops() else {
            return false;
        };
        for sandbox in self.control.sandboxes() {
            if sandbox.ended.is_none() && asked.contains(&sandbox.id.to_string()) {
                // One that ends by itself at this moment is what was wanted.
                let _ended = self.control.stop(sandbox.id);
            }
        }
        true
    }

    /// Does not wait for a change that is being made, which may be waiting for the same database.
    fn deny_everything(&self) {
        for sandbox in self.control.sandboxes() {
            if sandbox.ended.is_none() && *sandbox.policy != *UNKNOWN {
                self.control.set_policy(
                    &sandbox.server,
                    &sandbox.profile,
                    Ruling::denying(UNKNOWN),
                );
            }
        }
    }
}

/// A server that is started anew, or a standby that takes over, is back by then. Longer than that, a
/// policy that was taken back may be in force no more.
const PATIENCE: Duration = Duration::from_secs(5);
/// What the record and the answer to a denied request name as the policy.
const UNKNOWN: &str = "database not reachable";
/// Between two tries, where nothing tells when the next one may succeed.
const AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
