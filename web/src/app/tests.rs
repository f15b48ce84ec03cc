//! Changes and starts keep out of each other's way, and neither takes what the other needs.

use std::{path::PathBuf, sync::LazyLock, time::Duration};

use futures_util::{FutureExt as _, future::join_all, poll};
use gig_audit::{MemoryLog, Recorder};
use gig_policy::SandboxId;

use super::*;
use crate::{
    clock::SystemClock,
    control::{SandboxFacts, fake::FakeControl},
    factor::fake::FakeSealer,
    outbound::fake::FakeOutbound,
    secrets::fake::FakeSecrets,
    store::{ServerSpec, Standing, fake::FakeStore},
};

/// A node that has one secret for every webhook but `nosecret`.
struct OneSecret;

impl WebhookFiles for OneSecret {
    fn secret(&self, webhook: &str) -> Result<zeroize::Zeroizing<String>, String> {
        match webhook {
            "nosecret" => Err("cannot read nosecret/secret".to_owned()),
            "slack" => Ok(zeroize::Zeroizing::new(SLACK_SECRET.to_owned())),
            _ => Ok(zeroize::Zeroizing::new(WEBHOOK_SECRET.to_owned())),
        }
    }

    fn url(&self, webhook: &str) -> Result<zeroize::Zeroizing<String>, String> {
        Err(format!("cannot read {webhook}/url"))
    }
}

/// Of every webhook but `slack`.
pub(crate) const WEBHOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// Of `slack`.
pub(crate) const SLACK_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

/// One for all labs: making it hashes a password.
fn hasher() -> Hasher {
    static HASHER: LazyLock<Hasher> = LazyLock::new(|| Hasher::new().unwrap());
    HASHER.clone()
}

/// An appliance whose store and machine do as they are told.
pub(crate) struct Lab {
    pub(crate) app: Arc<App>,
    pub(crate) store: Arc<FakeStore>,
    pub(crate) control: Arc<FakeControl>,
    pub(crate) outbound: Arc<FakeOutbound>,
    pub(crate) sealer: Arc<FakeSealer>,
    pub(crate) secrets: Arc<FakeSecrets>,
    pub(crate) log: MemoryLog,
    folder: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::behind(None, &[])
    }

    pub(crate) fn behind(url: Option<&str>, front: &[IpAddr]) -> Self {
        let (store, control) = (Arc::new(FakeStore::new()), Arc::new(FakeControl::new()));
        let outbound = Arc::<FakeOutbound>::default();
        let sealer = Arc::<FakeSealer>::default();
        let secrets = Arc::<FakeSecrets>::default();
        let folder = tempfile::tempdir().unwrap();
        let (recorder, log) = Recorder::in_memory();
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let held = HeldDesk::open(shared, Arc::new(SystemClock), "lab".to_owned()).unwrap();
        let app = App::new(AppSettings {
            store: Arc::clone(&store) as Arc<dyn Store>,
            recorder,
            record: Home::Sqlite(folder.path().join("record.db")),
            control: Arc::clone(&control) as Arc<dyn Control>,
            outbound: Arc::clone(&outbound) as Arc<dyn Outbound>,
            sealer: Arc::clone(&sealer) as Arc<dyn Sealer>,
            oidc: None,
            clock: Arc::new(SystemClock),
            hasher: hasher(),
            traffic: Arc::default(),
            secrets: Arc::clone(&secrets) as Arc<dyn Secrets>,
            held: Arc::new(held),
            webhooks: Arc::new(OneSecret),
            about: Vec::new(),
            node: "here".to_owned(),
            listens: Vec::new(),
            audit_keys: Vec::new(),
            names_kept: None,
            watch: Arc::default(),
            public_url: url.map(str::to_owned),
            reached_at: url.unwrap_or("http://127.0.0.1:8080").to_owned(),
            own_tls: false,
            front: front.to_vec(),
            changes_a_minute: 60,
        });
        Self {
            app,
            store,
            control,
            outbound,
            sealer,
            secrets,
            log,
            folder,
        }
    }

    /// Where the record is read.
    pub(crate) fn record(&self) -> PathBuf {
        self.folder.path().join("record.db")
    }

    /// Makes a change as this machine's owner, with nobody told.
    pub(crate) fn make(&self, change: &Change) {
        assert!(self.folder.path().exists());
        self.store.apply(change, &owner(), &|_| Ok(())).unwrap();
    }

    /// Webhook `ops`, or another one, was told of this, so long ago.
    pub(crate) fn told(&self, webhook: &str, about: &str, ago: jiff::SignedDuration) {
        let telling = crate::store::Telling {
            webhook: webhook.to_owned(),
            about: about.to_owned(),
            what: String::new(),
        };
        let at = self.app.now() - ago;
        assert!(self.store.begin_telling(&telling, at).unwrap().is_some());
        let told = crate::store::ToldState::Told;
        self.store.end_telling(&telling, told, at).unwrap();
    }

    /// A policy `p` for all servers, and these servers.
    pub(crate) fn with(servers: &[&str]) -> Self {
        let lab = Self::new();
        lab.make(&saved("p"));
        let policy = Some("p".to_owned());
        lab.make(&Change::Assign {
            place: crate::store::Place::All,
            policy,
            expected: None,
        });
        for server in servers {
            lab.make(&registered(server, "/bin/true"));
        }
        lab
    }
}

pub(crate) fn owner() -> Actor {
    Actor {
        request: None,
        once: None,
        name: crate::local_user(0).into(),
        person: Some(Actor::OWNER.into()),
        owner: true,
        standing: Standing::Itself,
        address: None,
        at: Timestamp::now(),
    }
}

pub(crate) fn saved(name: &str) -> Change {
    Change::SavePolicy {
        name: name.parse().unwrap(),
        expected: None,
        document: "version: 1\negress:\n  - host: api.example.com\n".to_owned(),
        reason: String::new(),
        secrets: crate::store::Vouched::Freely,
    }
}

pub(crate) fn registered(name: &str, program: &str) -> Change {
    Change::SaveServer {
        name: name.parse().unwrap(),
        spec: ServerSpec {
            command: vec![program.to_owned()],
            ..ServerSpec::default()
        },
        new: false,
        expected: None,
    }
}

/// Starts a sandbox for somebody.
async fn start(lab: &Lab, server: &str) -> Result<SandboxFacts, Problem> {
    let id = SandboxId::new(uuid::Uuid::now_v7());
    lab.app.start(server.to_owned(), id, "ana".into()).await
}

/// Far beyond what any of this takes.
const LATE: Duration = Duration::from_mins(2);

#[test]
fn changes_wait_for_a_start_without_a_thread_each() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let lab = Lab::with(&["one"]);
    let done = runtime.block_on(async {
        let mut start = start(&lab, "one").boxed();
        while lab.control.decided.available_permits() == 0 {
            assert!(poll!(&mut start).is_pending());
            tokio::task::yield_now().await;
        }
        let changes = (0..16).map(|_| lab.app.change(owner(), saved("p")).boxed());
        let mut changes: Vec<_> = changes.collect();
        for change in &mut changes {
            assert!(poll!(change).is_pending());
        }
        lab.control.gate.add_permits(1);
        let all = async { (start.await, join_all(changes).await) };
        tokio::time::timeout(LATE, all).await
    });
    runtime.shutdown_background();
    let (started, changed) = done.unwrap();
    assert_eq!(&*started.unwrap().policy, "p");
    assert!(changed.iter().all(Result::is_ok));
    // The sandbox was known before the first of them, and none forgot it.
    assert_eq!(lab.control.put_for("one").len(), 16);
}

#[tokio::test]
async fn few_sandboxes_start_at_once() {
    let lab = Lab::with(&["one"]);
    let mut starts: Vec<_> = (0..STARTING).map(|_| start(&lab, "one").boxed()).collect();
    while lab.control.decided.available_permits() < STARTING {
        for start in &mut starts {
            assert!(poll!(start).is_pending());
        }
        tokio::task::yield_now().await;
    }
    let refused = start(&lab, "one").await.unwrap_err();
    assert_eq!(refused.status(), http::StatusCode::SERVICE_UNAVAILABLE);
    drop(starts);
    lab.control.gate.add_permits(1);
    assert!(start(&lab, "one").await.is_ok());
}

#[tokio::test]
async fn who_waits_for_a_secret_takes_nobodys_place() {
    let lab = Lab::with(&["one"]);
    lab.control.prepared.forget_permits(1000);
    let mut slow: Vec<_> = (0..2 * STARTING)
        .map(|_| start(&lab, "one").boxed())
        .collect();
    while lab.store.asked.load(Ordering::SeqCst) < 2 * STARTING as u64 {
        for start in &mut slow {
            assert!(poll!(start).is_pending());
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(lab.app.starting.available_permits(), STARTING);
}

#[tokio::test]
async fn what_changed_while_it_was_being_started_does_not_start() {
    let lab = Lab::with(&["one"]);
    lab.control.prepared.forget_permits(1000);
    let mut start = start(&lab, "one").boxed();
    while lab.store.asked.load(Ordering::SeqCst) == 0 {
        assert!(poll!(&mut start).is_pending());
        tokio::task::yield_now().await;
    }
    // It may be changed while a secret is fetched: nobody waits for that.
    let change = lab.app.change(owner(), registered("one", "/bin/other"));
    tokio::time::timeout(LATE, change).await.unwrap().unwrap();
    lab.control.prepared.add_permits(1);
    lab.control.gate.add_permits(1);
    let refused = start.await.unwrap_err();
    assert_eq!(refused.status(), http::StatusCode::CONFLICT);
    assert!(lab.control.sandboxes().is_empty());
}

#[tokio::test]
async fn a_removed_servers_sandboxes_end_also_when_the_remover_is_gone() {
    let lab = Lab::with(&["one", "two"]);
    for server in ["one", "two", "one"] {
        lab.control.run(server, "p");
    }
    let name = "one".to_owned();
    let mut removing = lab.app.change(owner(), Change::remove_server(name)).boxed();
    while lab.control.put_for("two").is_empty() {
        // Only until it is made: then nobody asks any more. On a busy machine all of it may be over by then.
        if poll!(&mut removing).is_ready() {
            break;
        }
        tokio::task::yield_now().await;
    }
    drop(removing);
    // Whoever changes something next comes after all of it.
    let next = lab.app.change(owner(), saved("p"));
    tokio::time::timeout(LATE, next).await.unwrap().unwrap();
    let left = lab.control.sandboxes();
    assert!(left.len() == 1 && &*left[0].server == "two", "{left:?}");
}

#[tokio::test]
async fn who_asks_the_store_waits_without_a_thread() {
    let lab = Lab::with(&[]);
    let taken = Arc::clone(&lab.app.asking)
        .acquire_many_owned(4)
        .await
        .unwrap();
    let mut asks: Vec<_> = (0..64)
        .map(|_| lab.app.ask(|store| store.policies()).boxed())
        .collect();
    for ask in &mut asks {
        assert!(poll!(ask).is_pending());
    }
    // Nobody who waits has asked, and policies change all the same.
    let change = lab.app.change(owner(), saved("p"));
    tokio::time::timeout(LATE, change).await.unwrap().unwrap();
    assert_eq!(lab.app.asking.available_permits(), 0);
    drop(taken);
    assert!(join_all(asks).await.iter().all(Result::is_ok));
}

#[test]
fn people_are_told_apart_by_what_was_named_and_by_nothing_else() {
    let at = |text: &str| text.parse::<IpAddr>().unwrap();
    let from = |lab: &Lab, text: &str| lab.app.whereabouts(Some((at(text), 1).into()));
    let (tls, front) = (Some("https://gig.example"), [at("127.0.0.1"), at("::1")]);
    let (open, unnamed, named) = (Lab::new(), Lab::behind(tls, &[]), Lab::behind(tls, &front));
    assert_eq!(from(&open, "127.0.0.1"), Some(at("127.0.0.1")));
    assert!(!open.app.is_front(at("127.0.0.1")) && !unnamed.app.is_front(at("127.0.0.1")));
    assert_eq!(from(&unnamed, "192.0.2.1"), None, "everybody's");
    assert!(named.app.is_front(at("127.0.0.1")) && named.app.is_front(at("::ffff:127.0.0.1")));
    assert!(!named.app.is_front(at("127.0.0.2")));
    assert_eq!(
        from(&named, "::1"),
        None,
        "it says nothing of whom it speaks for"
    );
    assert_eq!(from(&named, "192.0.2.1"), Some(at("192.0.2.1")));
    assert_eq!(named.app.whereabouts(None), None);
}
