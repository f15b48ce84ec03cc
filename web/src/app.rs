//! What every handler stands on: store, record, control, clock and limits, put together once.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use gig_audit::{
    Entry, Recorder, SqliteLog,
    log::Log,
    search::{Page, Query},
};
use gig_policy::Policy;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{RwLock, Semaphore},
};

use crate::{
    api_error::Problem,
    auth::limits::SignInLimits,
    clock::Clock,
    control::Control,
    document,
    metrics::Figures,
    password::Hasher,
    store::{Actor, Applied, Change, Store, StoreError},
};

/// What the appliance is made of.
#[expect(missing_debug_implementations, reason = "its parts are traits")]
pub struct AppSettings {
    /// People, policies, servers.
    pub store: Arc<dyn Store>,
    /// Where every act is recorded.
    pub recorder: Recorder,
    /// The database that the recorder writes.
    pub record: PathBuf,
    /// Starts and stops sandboxes.
    pub control: Arc<dyn Control>,
    /// Ends sessions and links.
    pub clock: Arc<dyn Clock>,
    /// Hashes passwords.
    pub hasher: Hasher,
    /// Counts what is recorded.
    pub traffic: Arc<Traffic>,
    /// Where people reach it: `https://gig.example.com`; `None`: as its own listener, without TLS.
    pub public_url: Option<String>,
}

/// Decisions since the start, counted as they are recorded.
#[derive(Debug, Default)]
pub struct Traffic {
    /// It went.
    pub allowed: AtomicU64,
    /// It did not.
    pub denied: AtomicU64,
    /// It went under a policy that only observes.
    pub would_deny: AtomicU64,
    /// Of any kind.
    pub records: AtomicU64,
}

/// The appliance; shared by all handlers.
pub struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) recorder: Recorder,
    record: PathBuf,
    /// Readers of the record that nobody uses at the moment.
    readers: Mutex<Vec<SqliteLog>>,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hasher: Hasher,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) public_url: Option<String>,
    pub(crate) limits: SignInLimits,
    pub(crate) figures: Figures,
    /// Taken to write by who changes policies, to read by who starts a sandbox: none starts under a
    /// policy that was replaced meanwhile.
    pub(crate) policies: Arc<RwLock<()>>,
    /// A policy could not be read: whoever follows the store tries again.
    pub(crate) undecided: Arc<AtomicBool>,
    /// Whoever reads much of the record at once does so alone.
    pub(crate) replays: Arc<Semaphore>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}

impl App {
    /// Puts it together.
    #[must_use]
    pub fn new(settings: AppSettings) -> Arc<Self> {
        Arc::new(Self {
            store: settings.store,
            recorder: settings.recorder,
            record: settings.record,
            readers: Mutex::new(Vec::new()),
            control: settings.control,
            clock: settings.clock,
            hasher: settings.hasher,
            traffic: settings.traffic,
            public_url: settings.public_url,
            limits: SignInLimits::default(),
            figures: Figures::default(),
            policies: Arc::default(),
            undecided: Arc::default(),
            replays: Arc::new(Semaphore::new(1)),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether people reach it by TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.public_url
            .as_deref()
            .is_some_and(|url| url.starts_with("https://"))
    }

    /// Asks the store, beside the runtime.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        let store = Arc::clone(&self.store);
        let answer = tokio::task::spawn_blocking(move || ask(store.as_ref())).await;
        answer
            .map_err(Problem::internal)?
            .map_err(Problem::internal)
    }

    /// Makes a change, recorded before it takes effect; policies that it touches are in force when this
    /// returns. All of it happens or none, also when whoever asked goes away meanwhile.
    pub(crate) async fn change(&self, actor: Actor, change: Change) -> Result<Applied, Problem> {
        let (store, recorder) = (Arc::clone(&self.store), self.recorder.clone());
        let (control, policies) = (Arc::clone(&self.control), Arc::clone(&self.policies));
        let undecided = Arc::clone(&self.undecided);
        let runtime = Handle::current();
        let applied = tokio::task::spawn_blocking(move || {
            let witness = |entry: Entry| {
                let recorded = runtime.block_on(recorder.record(entry));
                recorded.map(drop).map_err(|refused| refused.why)
            };
            if !change.touches_policies() {
                return store.apply(&change, &actor, &witness);
            }
            let _alone = policies.blocking_write();
            let applied = store.apply(&change, &actor, &witness)?;
            if !decide_again(store.as_ref(), control.as_ref()) {
                undecided.store(true, Ordering::Relaxed);
            }
            Ok(applied)
        });
        Ok(applied.await.map_err(Problem::internal)??)
    }

    /// Starts a sandbox of a registered server, under the policy that is in force for it.
    pub(crate) async fn start(
        &self,
        server: String,
    ) -> Result<crate::control::SandboxFacts, Problem> {
        let none_changes = Arc::clone(&self.policies).read_owned().await;
        let wanted = server.clone();
        let found = self.ask(move |store| {
            let Some(found) = store.server(&wanted)? else {
                return Ok(None);
            };
            let policy = document::effective(store, &wanted)?;
            Ok(Some((found, policy)))
        });
        let Some((found, policy)) = found.await? else {
            return Err(Problem::missing("server", &server));
        };
        // Also when the caller gives up: until the sandbox is known to whoever changes policies.
        let (control, runtime) = (Arc::clone(&self.control), Handle::current());
        let started = tokio::task::spawn_blocking(move || {
            let started = runtime.block_on(control.start(found, policy));
            drop(none_changes);
            started
        });
        Ok(started.await.map_err(Problem::internal)??)
    }

    /// Searches the record, beside the runtime.
    pub(crate) async fn search(self: &Arc<Self>, query: Query) -> Result<Page, Problem> {
        let app = Arc::clone(self);
        let found = tokio::task::spawn_blocking(move || app.page(&query));
        found.await.map_err(Problem::internal)?
    }

    /// One page of the record; for those who are beside the runtime already.
    pub(crate) fn page(&self, query: &Query) -> Result<Page, Problem> {
        let reader = self.readers.lock().pop();
        let mut reader = match reader {
            Some(reader) => reader,
            None => SqliteLog::open(&self.record).map_err(Problem::internal)?,
        };
        let page = reader.search(query).map_err(Problem::internal)?;
        let mut readers = self.readers.lock();
        if readers.len() < READERS {
            readers.push(reader);
        }
        Ok(page)
    }

    /// Records something that changes nothing in the store.
    pub(crate) async fn record(&self, entry: Entry) -> Result<(), Problem> {
        let recorded = self.recorder.record(entry).await;
        recorded.map(drop).map_err(|refused| {
            Problem::unavailable(&format!("it could not be recorded: {}", refused.why))
        })
    }
}

/// Puts what the store says in force in every sandbox that runs. Where the store cannot say, nothing is
/// allowed any more: what was before is what the change may have been made against. Whether it could.
pub(crate) fn decide_again(store: &dyn Store, control: &dyn Control) -> bool {
    let running = control.sandboxes().into_iter();
    let running = running.filter(|sandbox| sandbox.ended.is_none());
    let servers: BTreeSet<Arc<str>> = running.map(|sandbox| sandbox.server).collect();
    let mut whole = true;
    for server in servers {
        let policy = document::effective(store, &server).unwrap_or_else(|error| {
            tracing::error!(%server, %error, "its policy cannot be read: it is denied everything");
            whole = false;
            Policy::deny_all("policy not readable")
        });
        control.set_policy(&server, policy);
    }
    whole
}

/// Each has a page cache of its own.
const READERS: usize = 4;
