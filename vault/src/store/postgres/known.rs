//! What the fleet's vault holds, as this node knows it: followed by a thread, so that a request that uses a
//! secret waits for no network.
//!
//! Promises: what another node commits is known within a second, mostly at once; and what could not be
//! confirmed for [`STANDING`] is no longer answered, whatever it was.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use gig_postgres::{Link, LinkError, Server};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{CHANNEL, rows};
use crate::store::{Snapshot, StoreError};

/// The last look.
#[derive(Debug)]
pub(super) struct Known {
    server: Arc<Server>,
    /// One look at a time, so that what is known never goes back.
    looking: Mutex<()>,
    last: Mutex<Last>,
    over: AtomicBool,
}

#[derive(Debug)]
struct Last {
    snapshot: Arc<Snapshot>,
    /// When it was so at the latest; `None`: it is known to be something else.
    confirmed: Option<Instant>,
    /// What the database said last, when it could not be asked.
    why: String,
}

impl Known {
    /// Looks for the first time.
    pub(super) fn begin(server: Arc<Server>, link: &Link) -> Result<Self, LinkError> {
        let confirmed = Some(Instant::now());
        let snapshot = Arc::new(rows::snapshot(link)?);
        Ok(Self {
            server,
            looking: Mutex::new(()),
            last: Mutex::new(Last {
                snapshot,
                confirmed,
                why: String::new(),
            }),
            over: AtomicBool::new(false),
        })
    }

    /// What is in the vault.
    pub(super) fn snapshot(&self) -> Result<Arc<Snapshot>, StoreError> {
        let last = self.last.lock();
        if last.confirmed.is_some_and(|at| at.elapsed() < STANDING) {
            return Ok(Arc::clone(&last.snapshot));
        }
        Err(StoreError {
            action: "read",
            place: self.server.place().to_string(),
            why: last.why.clone(),
        })
    }

    /// Looks now: something was committed. Nobody is told what was before, even if that fails.
    pub(super) fn look_anew(&self, link: &Link) -> Result<(), LinkError> {
        let looked = self.look(link);
        if let Err(error) = &looked {
            let mut last = self.last.lock();
            last.confirmed = None;
            last.why = error.in_full();
        }
        looked
    }

    fn look(&self, link: &Link) -> Result<(), LinkError> {
        let _alone = self.looking.lock();
        let asked = Instant::now();
        let snapshot = rows::snapshot(link)?;
        self.know(asked, Some(snapshot));
        Ok(())
    }

    /// Looks whether something changed.
    pub(super) fn check(&self, link: &Link) -> Result<(), LinkError> {
        let _alone = self.looking.lock();
        let asked = Instant::now();
        let known = self.last.lock().snapshot.generation;
        let changed = rows::generation(link)? != known;
        let snapshot = changed.then(|| rows::snapshot(link)).transpose()?;
        self.know(asked, snapshot);
        Ok(())
    }

    fn know(&self, asked: Instant, snapshot: Option<Snapshot>) {
        let mut last = self.last.lock();
        last.confirmed = Some(asked);
        if let Some(snapshot) = snapshot {
            last.snapshot = Arc::new(snapshot);
        }
    }

    /// The thread stops within a moment.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Follows until [`Known::end`].
    pub(super) fn follow(&self) {
        let mut link = None;
        while !self.over.load(Ordering::Relaxed) {
            match self.next(link.take()) {
                Ok(followed) => link = Some(followed),
                Err(error) => {
                    let why = error.in_full();
                    tracing::debug!(%why, "the vault's database cannot be asked");
                    self.last.lock().why = why;
                    std::thread::sleep(BETWEEN);
                }
            }
        }
    }

    /// Waits for news and looks. The server that is found after one was lost may have lost a commit, and
    /// have counted as many: everything is looked at.
    fn next(&self, link: Option<Link>) -> Result<Link, LinkError> {
        if let Some(link) = link {
            link.listen(BETWEEN);
            self.check(&link)?;
            return Ok(link);
        }
        let link = self.server.connect(CONNECTING, PATIENCE)?;
        link.run(&format!("LISTEN {CHANNEL}"))?;
        self.look(&link)?;
        Ok(link)
    }
}

/// As policies: a database that is started again interrupts nobody.
const STANDING: Duration = Duration::from_secs(5);
/// Four times as often as a commit has to be known.
const BETWEEN: Duration = Duration::from_millis(250);
/// For all servers together.
const CONNECTING: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(3);
