//! Requests that wait for a person: put up by this node's proxy, seen and decided on at every node.
//!
//! A thread writes what waits into the store, reads there what people say, and tells the proxy. It asks for
//! as long as something of its own waits, so that no word is lost with a connection; what cannot be written
//! is told to the proxy at once, which then denies it. How many wait is bounded, for a sandbox and in all.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::Duration,
};

use gig_policy::SandboxId;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Condvar, Mutex};
use tokio::sync::mpsc::{Receiver, Sender};

use crate::{
    clock::Clock,
    store::{HeldFacts, HeldRow, Store},
};

/// What somebody said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// It may go.
    pub allow: bool,
    /// Who.
    pub by: Arc<str>,
}

/// Who is told what somebody said; dropped untold where nobody could be asked.
pub type Tell = Box<dyn FnOnce(Said) + Send>;

/// Where requests wait.
pub struct HeldDesk {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A place on the desk; dropping it takes the request off.
pub struct HeldPlace {
    id: String,
    desk: Weak<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    node: String,
    inner: Mutex<Inner>,
    bell: Condvar,
    /// To whoever tells of them elsewhere.
    fresh: Sender<HeldRow>,
    heard: Mutex<Option<Receiver<HeldRow>>>,
    /// Who had which sandbox started.
    starters: Mutex<HashMap<SandboxId, Starters>>,
}

/// Of one sandbox.
struct Starters {
    /// Each once.
    people: Vec<Arc<str>>,
    since: Timestamp,
}

#[derive(Default)]
struct Inner {
    waiting: HashMap<String, Waiter>,
    /// To be written.
    fresh: Vec<HeldRow>,
    /// To be taken away.
    ended: Vec<String>,
    /// Somebody decided here just now.
    rung: bool,
    over: bool,
}

struct Waiter {
    sandbox: String,
    server: String,
    tell: Tell,
}

impl HeldDesk {
    /// Opens it. `node` tells this process from all others.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        node: String,
    ) -> std::io::Result<Self> {
        let (fresh, heard) = tokio::sync::mpsc::channel(MOST);
        let shared = Arc::new(Shared {
            store,
            clock,
            node,
            inner: Mutex::default(),
            bell: Condvar::new(),
            fresh,
            heard: Mutex::new(Some(heard)),
            starters: Mutex::default(),
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("held".to_owned())
            .spawn(move || theirs.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Puts a request up for at most `most`. `None` when as many wait as may. Does not block.
    #[must_use]
    pub fn put_up(
        &self,
        id: &str,
        mut facts: HeldFacts,
        most: Duration,
        tell: Tell,
    ) -> Option<HeldPlace> {
        facts.started_by = self.shared.starters_of(&facts.sandbox);
        let created = self.shared.clock.now();
        let most = SignedDuration::try_from(most).ok()?;
        let expires = created.checked_add(most).ok()?;
        let mut inner = self.shared.inner.lock();
        let all = || inner.waiting.values();
        let own = all().filter(|one| one.sandbox == facts.sandbox).count();
        let of_server = all().filter(|one| one.server == facts.server).count();
        let has_share = own < MOST_OF_ONE && of_server < MOST_OF_SERVER;
        let full = inner.over || inner.waiting.len() >= MOST || !has_share;
        if full || inner.waiting.contains_key(id) {
            return None;
        }
        let waiter = Waiter {
            sandbox: facts.sandbox.clone(),
            server: facts.server.clone(),
            tell,
        };
        inner.waiting.insert(id.to_owned(), waiter);
        inner.fresh.push(HeldRow {
            id: id.to_owned(),
            node: self.shared.node.clone(),
            facts,
            created,
            expires,
            lost: false,
        });
        drop(inner);
        self.shared.bell.notify_one();
        Some(HeldPlace {
            id: id.to_owned(),
            desk: Arc::downgrade(&self.shared),
        })
    }

    /// Somebody has a sandbox of this node started, or uses it: under the two-person rule they let nothing of it pass.
    /// `alive` says which there are, where those that have ended are to be forgotten.
    pub(crate) fn started(
        &self,
        (sandbox, person): (SandboxId, Arc<str>),
        alive: impl FnOnce() -> HashSet<SandboxId>,
    ) {
        let now = self.shared.clock.now();
        let mut starters = self.shared.starters.lock();
        if starters.len() >= MOST_STARTED {
            let alive = alive();
            // One that is being started is not there yet.
            starters.retain(|id, one| {
                alive.contains(id) || now.duration_since(one.since) < LONGEST_START
            });
        }
        let one = starters.entry(sandbox).or_insert_with(|| Starters {
            people: Vec::new(),
            since: now,
        });
        if !one.people.contains(&person) {
            one.people.push(person);
        }
    }

    /// What is put up at this node, once it stands in the store; for one who asks first.
    pub(crate) fn fresh(&self) -> Option<Receiver<HeldRow>> {
        self.shared.heard.lock().take()
    }

    /// How many wait in this node's proxy.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.inner.lock().waiting.len()
    }

    /// What tells this process from all others.
    pub(crate) fn run(&self) -> &str {
        &self.shared.node
    }

    /// Whether it is this process whose proxy has what waits: what is said of it here is heard.
    pub(crate) fn has(&self, row: &HeldRow) -> bool {
        row.node == self.shared.node
    }

    /// Somebody decided at this node: what waits here need not wait for the next look.
    pub(crate) fn ring(&self) {
        self.shared.inner.lock().rung = true;
        self.shared.bell.notify_one();
    }
}

impl Drop for HeldDesk {
    fn drop(&mut self) {
        self.shared.inner.lock().over = true;
        self.shared.bell.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that asks people panicked");
        }
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        let Some(desk) = self.desk.upgrade() else {
            return;
        };
        let mut inner = desk.inner.lock();
        inner.waiting.remove(&self.id);
        inner.ended.push(std::mem::take(&mut self.id));
        drop(inner);
        desk.bell.notify_one();
    }
}

impl Shared {
    fn starters_of(&self, sandbox: &str) -> Vec<String> {
        let id = sandbox.parse().ok().map(SandboxId::new);
        let starters = self.starters.lock();
        let found = id.and_then(|id| starters.get(&id));
        let people = found.into_iter().flat_map(|one| one.people.iter());
        people.map(|one| one.to_string()).collect()
    }

    fn run(&self) {
        while let Some((fresh, ended)) = self.next() {
            if !fresh.is_empty() {
                self.put(fresh);
            }
            if !ended.is_empty()
                && let Err(error) = self.store.end_held(&ended)
            {
                // Its time ends all the same.
                tracing::debug!(%error, "what waits no longer is still listed");
            }
            self.hear();
        }
    }

    fn put(&self, fresh: Vec<HeldRow>) {
        if let Err(error) = self.store.put_held(&fresh) {
            tracing::error!(%error, "nobody can be asked about what waits: it is denied");
            let mut inner = self.inner.lock();
            for one in &fresh {
                inner.waiting.remove(&one.id);
            }
            return;
        }
        for one in fresh {
            // As many as may wait find room; people see them in the console all the same.
            if self.fresh.try_send(one).is_err() {
                tracing::debug!("nobody elsewhere is told of what waits");
            }
        }
    }

    /// What there is to write, or nothing and something to look after; `None` when it is over.
    fn next(&self) -> Option<(Vec<HeldRow>, Vec<String>)> {
        let mut inner = self.inner.lock();
        loop {
            if inner.over {
                // Told by being dropped.
                inner.waiting.clear();
                return None;
            }
            let work = !inner.fresh.is_empty() || !inner.ended.is_empty();
            if std::mem::take(&mut inner.rung) || work {
                let fresh = std::mem::take(&mut inner.fresh);
                return Some((fresh, std::mem::take(&mut inner.ended)));
            }
            if inner.waiting.is_empty() {
                self.bell.wait(&mut inner);
            } else if self.bell.wait_for(&mut inner, LOOK_EVERY).timed_out() {
                inner.rung = true;
            }
        }
    }

    fn hear(&self) {
        if self.inner.lock().waiting.is_empty() {
            return;
        }
        let words = match self.store.words_for(&self.node) {
            Ok(words) => words,
            Err(error) => {
                tracing::debug!(%error, "what people said cannot be read now");
                return;
            }
        };
        for word in words {
            let waiter = self.inner.lock().waiting.remove(&word.id);
            if let Some(waiter) = waiter {
                let (allow, by) = (word.allow, word.by.into());
                (waiter.tell)(Said { allow, by });
            }
        }
    }
}

impl fmt::Debug for HeldDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldDesk").finish_non_exhaustive()
    }
}

impl fmt::Debug for HeldPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldPlace({})", self.id)
    }
}

/// More sandboxes than a node has at once, of which some have ended.
const MOST_STARTED: usize = 16_384;
/// Of one sandbox, by far.
const LONGEST_START: SignedDuration = SignedDuration::from_hours(1);
/// As many as people look through.
const MOST: usize = 256;
/// One sandbox leaves room for others.
const MOST_OF_ONE: usize = 8;
/// One server, whoever runs it, leaves room for others.
const MOST_OF_SERVER: usize = 64;
/// A word given at another node is heard within this.
const LOOK_EVERY: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
