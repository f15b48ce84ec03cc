//! A few connections, lent one at a time.

use std::{sync::Arc, time::Duration};

use gig_postgres::{Link, Server};
use parking_lot::{Condvar, Mutex};
use thiserror::Error;

use crate::store::tables::DatabaseError;

/// Connections that are lent and come back.
pub(super) struct Pool {
    server: Arc<Server>,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Link>,
    lent: usize,
}

/// All connections are in use.
#[derive(Debug, Error)]
#[error("all {MOST} connections to it have been in use for {} s", PATIENCE.as_secs())]
struct Busy;

impl Pool {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// Lends a connection for `work`. `fresh`: a new one, and those that are idle are thrown away: what
    /// one of them has lost the others have.
    ///
    /// # Errors
    /// When the server cannot be reached, or all are in use for too long. What `work` answers is its own.
    pub(super) fn lend<R>(
        &self,
        fresh: bool,
        work: impl FnOnce(&Link) -> R,
    ) -> Result<R, DatabaseError> {
        let (_place, idle) = self.place(fresh)?;
        let link = match idle {
            Some(link) => link,
            None => super::connect(&self.server, PATIENCE, PATIENCE)?,
        };
        let done = work(&link);
        if !link.is_broken() {
            self.state.lock().idle.push(link);
        }
        Ok(done)
    }

    fn place(&self, fresh: bool) -> Result<(Place<'_>, Option<Link>), DatabaseError> {
        let mut state = self.state.lock();
        while state.lent >= MOST {
            if self.freed.wait_for(&mut state, PATIENCE).timed_out() {
                return Err(DatabaseError::Failed(Busy.into()));
            }
        }
        state.lent += 1;
        if fresh {
            state.idle.clear();
        }
        state.idle.retain(|link| !link.is_broken());
        let idle = state.idle.pop();
        Ok((Place(self), idle))
    }
}

/// One of those that may be lent; given back whatever happens.
struct Place<'a>(&'a Pool);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.state.lock().lent -= 1;
        self.0.freed.notify_one();
    }
}

/// A node's; a server has a hundred by default.
const MOST: usize = 8;
/// Whoever asks waits no longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
