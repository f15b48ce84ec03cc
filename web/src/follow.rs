//! Keeps sandboxes under the policies that are in force, whoever puts them there: another appliance on
//! the same database changes them, too.
//!
//! Promises that a change made elsewhere is in force here within a second of being made while the
//! database answers. When nobody can tell for [`PATIENCE`] what is in force, nothing is allowed any more
//! until somebody can: a rule that was taken back must not live on in a node that was cut off.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use gig_policy::Policy;
use tokio::time::Instant;

use crate::{app::App, store::News};

/// A thread that follows the store; ends when this is dropped.
#[derive(Debug)]
pub struct Following {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Following {
    /// Begins; does nothing where the store is this appliance's alone.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(app: &Arc<App>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let Some(news) = app.store.news() else {
            return Ok(Self { stop, thread: None });
        };
        let follower = Follower {
            app: Arc::clone(app),
            news,
            known: None,
            heard: Instant::now(),
            lost: false,
        };
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || follower.run(&told))?;
        let thread = Some(thread);
        Ok(Self { stop, thread })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that follows the store panicked");
        }
    }
}

struct Follower {
    app: Arc<App>,
    news: Box<dyn News>,
    /// How many changes there were when policies were looked at last.
    known: Option<u64>,
    /// When the store last told.
    heard: Instant,
    /// Nothing is allowed until the store tells again.
    lost: bool,
}

impl Follower {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match self.news.next() {
                Ok(count) => self.hear(count),
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

    fn hear(&mut self, count: u64) {
        self.heard = Instant::now();
        let undecided = self.app.undecided.swap(false, Ordering::Relaxed);
        if self.known == Some(count) && !self.lost && !undecided {
            return;
        }
        // What could not be read now is read with the next news.
        if self.app.look_again() {
            self.known = Some(count);
            if std::mem::take(&mut self.lost) {
                tracing::info!("the database answers again: its policies are in force");
            }
        } else {
            self.known = None;
        }
    }
}

impl App {
    /// Puts what the store says in force, ends sandboxes of servers that are no longer registered; false
    /// when something could not be read, which denies everything where it was needed.
    fn look_again(&self) -> bool {
        let _alone = self.policies.blocking_write();
        let mut whole = crate::app::decide_again(self.store.as_ref(), self.control.as_ref());
        for sandbox in self.control.sandboxes() {
            if sandbox.ended.is_some() {
                continue;
            }
            match self.store.server(&sandbox.server) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    // One that ends by itself at this moment is what was wanted.
                    let _ended = self.control.stop(sandbox.id);
                }
                Err(_) => whole = false,
            }
        }
        whole
    }

    /// Does not wait for a change that is being made, which may be waiting for the same database.
    fn deny_everything(&self) {
        for sandbox in self.control.sandboxes() {
            if sandbox.ended.is_none() && *sandbox.policy != *UNKNOWN {
                self.control
                    .set_policy(&sandbox.server, Policy::deny_all(UNKNOWN));
            }
        }
    }
}

/// A server that is started anew, or a standby that takes over, is back by then. Longer than that, a
/// policy that was taken back may be in force no more.
const PATIENCE: Duration = Duration::from_secs(5);
/// What the record and the answer to a denied request name as the policy.
const UNKNOWN: &str = "database not reachable";
