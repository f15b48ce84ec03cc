//! What every handler stands on: store, record, control, clock and limits, put together once.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use aws_lc_rs::hmac;
use gig_audit::{
    Entry, Event, Home, PublicKey, Recorder, VerdictWord, counts::CountedLog, log::in_chain::Known,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{OnceCell, RwLock, Semaphore},
};
use tokio_util::task::TaskTracker;

use crate::{
    api::{health::Readiness, policies::Ways, secrets::SecretPlaces},
    api_error::Problem,
    auth::{
        lapse::Lapses,
        limits::SignInLimits,
        oidc::{OidcSettings, SingleSignOn},
        pace::Paces,
        refusals::Refusals,
    },
    clock::Clock,
    control::Control,
    factor::{SealError, Sealer},
    feed::Feed,
    health::Watch,
    held::HeldDesk,
    in_force,
    metrics::Figures,
    outbound::Outbound,
    password::Hasher,
    places::Places,
    secrets::{Announce, SecretChange, SecretFacts, SecretMade, Secrets},
    spans::{ApiSpan, Spans},
    store::{Actor, Applied, Change, ChangeError, Store, StoreError},
    traffic::Traffic,
    webhooks::{WebhookFiles, Webhooks},
};

mod doubt;
mod reading;
mod starting;

use doubt::Doubt;
use starting::{Claims, UnderWay};
pub(crate) use starting::{Instance, Started, has_program};

/// What the appliance is made of.
#[expect(missing_debug_implementations, reason = "its parts are traits")]
pub struct AppSettings {
    /// People, policies, servers.
    pub store: Arc<dyn Store>,
    /// Where every act is recorded.
    pub recorder: Recorder,
    /// What the recorder writes to.
    pub record: Home,
    /// Starts and stops sandboxes.
    pub control: Arc<dyn Control>,
    /// The vault.
    pub secrets: Arc<dyn Secrets>,
    /// Seals second factors.
    pub sealer: Arc<dyn Sealer>,
    /// Asks other places, as webhooks and sign-on do.
    pub outbound: Arc<dyn Outbound>,
    /// Single sign-on, where there is one.
    pub oidc: Option<OidcSettings>,
    /// Ends sessions and links.
    pub clock: Arc<dyn Clock>,
    /// Hashes passwords.
    pub hasher: Hasher,
    /// Counts what is recorded.
    pub traffic: Arc<Traffic>,
    /// What signs for webhooks.
    pub webhooks: Arc<dyn WebhookFiles>,
    /// Where requests wait for a person.
    pub held: Arc<HeldDesk>,
    /// What it is and where it keeps things, for who looks after it: a name and its words.
    pub about: Vec<(&'static str, String)>,
    /// What the record calls this machine.
    pub node: String,
    /// Where other machines reach this gig's listener.
    pub listens: Vec<SocketAddr>,
    /// Keys that sign this machine's chain, and those that did before.
    pub audit_keys: Vec<PublicKey>,
    /// Days that records of names are kept; `None` where nobody removes them.
    pub names_kept: Option<u32>,
    /// Where what runs beside says how it is.
    pub watch: Arc<Watch>,
    /// Where people reach it: `https://gig.example.com`; `None`: as its own listener, without TLS.
    pub public_url: Option<String>,
    /// The same, or where its listener is reached on this machine: as programs are configured with it.
    pub reached_at: String,
    /// gig speaks TLS itself: whoever is at the other end is at the other end of the connection.
    pub own_tls: bool,
    /// The addresses of what stands in front of it, which says for whom it speaks.
    pub front: Vec<IpAddr>,
    /// How often a user or token changes something in a minute; twice as often at once.
    pub changes_a_minute: u32,
}

/// The appliance; shared by all handlers.
pub struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) recorder: Recorder,
    record: Home,
    /// Readers of the record that nobody uses at the moment.
    readers: Mutex<Vec<Box<dyn CountedLog + Send>>>,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) secrets: Arc<dyn Secrets>,
    sealer: Arc<dyn Sealer>,
    outbound: Arc<dyn Outbound>,
    pub(crate) sign_on: Option<SingleSignOn>,
    pub(crate) held: Arc<HeldDesk>,
    pub(crate) webhooks: Webhooks,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hasher: Hasher,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) about: Vec<(&'static str, String)>,
    pub(crate) node: String,
    pub(crate) listens: Vec<SocketAddr>,
    /// Whose checkpoints are believed.
    known: Known,
    pub(crate) names_kept: Option<u32>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) public_url: Option<String>,
    pub(crate) reached_at: String,
    /// Held while a rule is written for what was denied.
    pub(crate) allowing: tokio::sync::Mutex<()>,
    own_tls: bool,
    front: Vec<IpAddr>,
    pub(crate) limits: SignInLimits,
    /// By which tries to sign in are counted in the store, once it was read.
    tries: OnceCell<hmac::Key>,
    pub(crate) paces: Paces,
    pub(crate) refusals: Refusals,
    pub(crate) readiness: Readiness,
    pub(crate) figures: Figures,
    /// Requests to the API, for whoever traces them.
    pub(crate) spans: Spans,
    /// Who may ask the store.
    asking: Arc<Semaphore>,
    /// Who may change something.
    changing: Arc<Semaphore>,
    /// Who may do what takes long.
    working: Places,
    /// Whose long body may be read.
    pub(crate) bodies: Places,
    /// Who may search the record.
    searching: Places,
    /// Who may start a sandbox.
    starting: Arc<Semaphore>,
    /// Which sandboxes are being started.
    under_way: UnderWay,
    /// Which of them this node has claimed.
    pub(crate) claims: Claims,
    /// Whoever is attached to a sandbox, and those of them by the MCP endpoint.
    pub(crate) attachments: TaskTracker,
    pub(crate) mcp: crate::mcp::Sessions,
    /// Whoever stays for long, and whether they still may.
    pub(crate) lapses: Lapses,
    /// Taken to write by who changes policies, to read by who starts a sandbox: none starts under a
    /// policy that was replaced meanwhile.
    pub(crate) policies: Arc<RwLock<()>>,
    /// A policy could not be read: whoever follows the store tries again.
    pub(crate) undecided: Arc<AtomicBool>,
    /// Where policies let secrets go.
    pub(crate) ways: Arc<Ways>,
    /// The same by secret, as it is shown.
    pub(crate) secret_places: Arc<SecretPlaces>,
    /// What was read last for the overview.
    pub(crate) lately: crate::lately::Kept,
    /// Who watches the record.
    pub(crate) feed: Feed,
    /// Whoever reads much of the record at once does so alone.
    pub(crate) replays: Places,
    /// Whoever has the host examined does so alone.
    pub(crate) examining: Arc<Semaphore>,
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
            secrets: settings.secrets,
            sealer: settings.sealer,
            outbound: settings.outbound,
            sign_on: settings.oidc.map(SingleSignOn::new),
            held: settings.held,
            webhooks: Webhooks::new(settings.webhooks),
            clock: settings.clock,
            hasher: settings.hasher,
            traffic: settings.traffic,
            about: settings.about,
            known: Known {
                node: settings.node.clone(),
                keys: settings.audit_keys,
            },
            node: settings.node,
            listens: settings.listens,
            names_kept: settings.names_kept,
            watch: settings.watch,
            public_url: settings.public_url,
            reached_at: settings.reached_at,
            allowing: tokio::sync::Mutex::default(),
            own_tls: settings.own_tls,
            front: settings.front.iter().map(IpAddr::to_canonical).collect(),
            limits: SignInLimits::default(),
            tries: OnceCell::new(),
            paces: Paces::new(settings.changes_a_minute),
            refusals: Refusals::default(),
            readiness: Readiness::default(),
            figures: Figures::default(),
            spans: Spans::default(),
            asking: Arc::new(Semaphore::new(ASKING)),
            changing: Arc::new(Semaphore::new(CHANGING)),
            working: Places::new(WORKING, EACH),
            bodies: Places::new(BODIES, EACH),
            searching: reading::places(),
            starting: Arc::new(Semaphore::new(STARTING)),
            under_way: UnderWay::default(),
            claims: Claims::default(),
            attachments: TaskTracker::new(),
            mcp: crate::mcp::Sessions::default(),
            lapses: Lapses::default(),
            policies: Arc::default(),
            undecided: Arc::default(),
            ways: Arc::default(),
            secret_places: Arc::default(),
            lately: crate::lately::Kept::default(),
            feed: Feed::default(),
            replays: Places::new(1, 1),
            examining: Arc::new(Semaphore::new(1)),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How it asks other places.
    pub fn outbound(&self) -> &dyn Outbound {
        self.outbound.as_ref()
    }

    /// Requests to the API from now on, as spans, for one who takes them; beyond so many that wait they are dropped.
    pub fn spans(&self, most: usize) -> tokio::sync::mpsc::Receiver<ApiSpan> {
        self.spans.taken(most)
    }

    /// So many of those spans did not arrive, for this reason; or all of the last ones did.
    pub fn spans_arrived(&self, lost: Option<(u64, &str)>) {
        match lost {
            Some((count, why)) => self.spans.lost(count, why),
            None => self.spans.passed_on(),
        }
    }

    /// What the record calls this node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Whether people reach it by TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.public_url
            .as_deref()
            .is_some_and(|url| url.starts_with("https://"))
    }

    /// Whether this is the address of something that stands in front of gig and says for whom.
    pub(crate) fn is_front(&self, address: IpAddr) -> bool {
        self.front.contains(&address.to_canonical())
    }

    /// Where somebody is, if that tells them from others: behind something in front that gig was not told
    /// of, all have its address.
    pub(crate) fn whereabouts(&self, address: Option<SocketAddr>) -> Option<IpAddr> {
        let address = address?.ip();
        let hidden = self.is_tls() && !self.own_tls && self.front.is_empty();
        (!hidden && !self.is_front(address)).then_some(address)
    }

    /// Asks the store, beside the runtime. Few do so at once, the others wait in line: who decides about
    /// policies finds threads and a database that are not all taken.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        let place = Arc::clone(&self.asking).acquire_owned().await;
        let place = place.map_err(Problem::internal)?;
        let store = Arc::clone(&self.store);
        let answer = tokio::task::spawn_blocking(move || {
            let _place = place;
            ask(store.as_ref())
        });
        let answer = answer.await.map_err(Problem::internal)?;
        answer.map_err(Problem::store)
    }

    /// Has something sealed or opened, beside the runtime, as few at once as ask the store.
    pub(crate) async fn with_sealer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Sealer) -> Result<T, SealError> + Send + 'static,
    ) -> Result<Result<T, SealError>, Problem> {
        let place = Arc::clone(&self.asking).acquire_owned().await;
        let place = place.map_err(Problem::internal)?;
        let sealer = Arc::clone(&self.sealer);
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work(sealer.as_ref())
        });
        let done = done.await.map_err(Problem::internal)?;
        if let Err(error @ SealError::Unusable(_)) = &done {
            tracing::warn!(%error, "what the vault seals for gig itself cannot be used");
        }
        Ok(done)
    }

    /// By what tries to sign in are counted in the store: who reads it there cannot find what was typed by trying words.
    /// `None` where the vault cannot be used, which is in the log: then this node counts them by itself.
    pub(crate) async fn tries_key(&self) -> Option<&hmac::Key> {
        let read = || async {
            let key = self.with_sealer(|sealer| sealer.key("sign-in tries")).await;
            let key = key.ok().and_then(Result::ok).ok_or(())?;
            Ok::<_, ()>(hmac::Key::new(hmac::HMAC_SHA256, &key))
        };
        self.tries.get_or_try_init(read).await.ok()
    }

    /// Makes a change, recorded before it takes effect; policies that it touches are in force when this
    /// returns. All of it happens or none, also when whoever asked goes away meanwhile.
    pub(crate) async fn change(&self, actor: Actor, change: Change) -> Result<Applied, Problem> {
        // Waited for here and not on a thread beside the runtime: there are only so many, and a sandbox
        // that is being started needs one before it lets policies be changed.
        let alone = match change.touches_policies() {
            true => Some(Arc::clone(&self.policies).write_owned().await),
            false => None,
        };
        let place = Arc::clone(&self.changing).acquire_owned().await;
        let place = place.map_err(Problem::internal)?;
        let (store, recorder) = (Arc::clone(&self.store), self.recorder.clone());
        let (control, undecided) = (Arc::clone(&self.control), Arc::clone(&self.undecided));
        let runtime = Handle::current();
        let applied = tokio::task::spawn_blocking(move || {
            let _place = place;
            let witness = |entry: Entry| {
                let recorded = runtime.block_on(recorder.record(entry));
                recorded.map(drop).map_err(|refused| refused.why)
            };
            let Some(_alone) = alone else {
                return store.apply(&change, &actor, &witness);
            };
            let doubt = Doubt::of(&undecided);
            match store.apply(&change, &actor, &witness) {
                Ok(applied) => {
                    let said = in_force::decide_again(store.as_ref(), control.as_ref());
                    if let Some(said) = said {
                        // Here, and not where it was asked for: whoever asked may be gone.
                        in_force::end_unknown(&said, control.as_ref());
                        doubt.dispelled();
                    }
                    Ok(applied)
                }
                // It may have been made all the same.
                Err(error @ ChangeError::Store(_)) => Err(error),
                Err(refused) => {
                    doubt.dispelled();
                    Err(refused)
                }
            }
        });
        let applied = applied.await.map_err(Problem::internal)?;
        self.lapses.look_again();
        Ok(applied?)
    }

    /// Does what takes a processor or the disk for long, beside the runtime; others wait in line, and who
    /// asks for much behind those who do not.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let place = self.working.take().await?;
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.map_err(Problem::internal)
    }

    /// Every secret, without its value, beside the runtime.
    pub(crate) async fn secrets(&self) -> Result<Vec<SecretFacts>, Problem> {
        let secrets = Arc::clone(&self.secrets);
        Ok(self.aside(move || secrets.list()).await??)
    }

    /// Changes a secret, recorded before it takes effect; what was recorded and then failed is recorded, too.
    pub(crate) async fn change_secret(
        &self,
        actor: Actor,
        change: SecretChange,
    ) -> Result<SecretMade, Problem> {
        let (secrets, recorder) = (Arc::clone(&self.secrets), self.recorder.clone());
        let runtime = Handle::current();
        let name: Arc<str> = change.name.as_str().into();
        let deed = change.doing.deed();
        let write = move |verdict: VerdictWord, words: &str| {
            let mut entry = Entry::new(Event::SecretChange);
            entry.profile = Some(Arc::clone(&actor.name));
            entry.src = actor.address;
            entry.verdict = Some(verdict);
            (entry.deed, entry.subject) = (Some(deed), Some(Arc::clone(&name)));
            entry.secrets = vec![Arc::clone(&name)];
            entry.findings = vec![words.into()];
            let recorded = runtime.block_on(recorder.record(entry));
            recorded.map(drop).map_err(|refused| refused.why)
        };
        let changed = tokio::task::spawn_blocking(move || {
            let write = Arc::new(write);
            let told = Arc::new(AtomicBool::new(false));
            let (first, first_told) = (Arc::clone(&write), Arc::clone(&told));
            let announce: Announce = Arc::new(move |words| {
                first(VerdictWord::Allow, words)?;
                first_told.store(true, Ordering::Relaxed);
                Ok(())
            });
            let changed = secrets.change(&change, announce);
            if changed.is_err() && told.load(Ordering::Relaxed) {
                let failed = "the change that was recorded before this was not made";
                if let Err(why) = write(VerdictWord::Deny, failed) {
                    tracing::error!(why, "the failure of a change is not in the record");
                }
            }
            changed
        });
        Ok(changed.await.map_err(Problem::internal)??)
    }

    /// Records something that changes nothing in the store.
    pub(crate) async fn record(&self, entry: Entry) -> Result<(), Problem> {
        let recorded = self.recorder.record(entry).await;
        recorded
            .map(drop)
            .map_err(|refused| Problem::not_recorded(&refused))
    }
}

/// Of the store, at once; it lends eight connections.
const ASKING: usize = 4;
/// One of policies and two others.
const CHANGING: usize = 3;
/// Documents of megabytes: some seconds and some hundred megabytes each.
const WORKING: usize = 2;
/// Of sixteen megabytes each, beside those that are worked on.
const BODIES: usize = 4;
/// Of those, one caller's.
const EACH: usize = 1;
/// Each takes a processor for some tens of milliseconds.
const STARTING: usize = 8;

#[cfg(test)]
pub(crate) mod tests;
