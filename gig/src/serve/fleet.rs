//! The appliance's sandboxes: one hub, one proxy, many sandboxes.
//!
//! Each is bound to its address, and its start recorded, before its program's first instruction; after
//! its last process its connections are cut, and what of it still waits is taken in, before the address may
//! have a new owner. A host that cannot have sandboxes still serves console and record, and says why.

use std::{
    collections::{HashMap, VecDeque},
    net::Ipv4Addr,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use gig_audit::Recorder;
use gig_netns::{Home, HostIds, Hub, HubConfig};
use gig_policy::SandboxId;
use gig_proxy::{
    Deadlines, Elsewhere, Identity, Ledger, Proxy, ProxyListeners, Queues, Subject, hold::Desk,
    tls::authority_key::Authority,
};
use gig_web::{
    ControlError, SandboxFacts,
    control::{EndCause, Ended},
};
use parking_lot::{Mutex, RwLock};
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore, watch},
};
use tokio_util::task::TaskTracker;

use self::{parting::Partings, seats::Seats};
use super::{appliance::Appliance, log::Kept, network::Network, secrets::Secrets};
use crate::{
    args::serve::ServeArgs,
    refused::{self, Refusing},
    run::settings::{DEFAULT_PROXY_PORT, DEFAULT_SUBNET, variable},
};

mod control;
mod foreign;
mod idle;
mod layers;
mod life;
mod parting;
mod seats;
mod streams;
mod unwatched;

/// All of them.
pub(super) struct Fleet {
    machine: Result<Machine, Arc<str>>,
    recorder: Recorder,
    sandboxes: Mutex<HashMap<SandboxId, Arc<Member>>>,
    /// Those that have ended, oldest first, for whoever asks why.
    ended: Mutex<VecDeque<Arc<Member>>>,
    /// Places of sandboxes without a network; each with one takes a lease.
    without_network: Arc<Semaphore>,
    seats: Arc<Seats>,
    partings: Partings,
    /// Namespaces that gig did not make.
    foreign: Arc<foreign::Claims>,
    /// What servers print.
    kept: Kept,
    /// The key of the console's certificate.
    tls_key: Option<PathBuf>,
    tasks: TaskTracker,
    runtime: OnceLock<Handle>,
}

/// What sandboxes need.
struct Machine {
    hub: Hub,
    proxy: Mutex<Option<Proxy>>,
    queues: Queues,
    ledger: Ledger,
    bound: Arc<Bound>,
    refusing: Arc<Refusing>,
    ca_pem: String,
    explicit_port: u16,
    secrets: Secrets,
    /// Where other nodes listen.
    elsewhere: Elsewhere,
    /// Which namespaces are gig's own; why that cannot be said.
    home: Result<Home, String>,
}

/// Who has which address.
#[derive(Default)]
struct Bound(RwLock<HashMap<Ipv4Addr, Arc<Subject>>>);

impl Identity for Bound {
    fn subject(&self, source: Ipv4Addr) -> Option<Arc<Subject>> {
        self.0.read().get(&source).cloned()
    }
}

/// One sandbox.
struct Member {
    facts: Mutex<SandboxFacts>,
    subject: Option<Arc<Subject>>,
    log: super::log::Log,
    stop: Notify,
    /// How often it was asked for when it ran already.
    asked: AtomicU64,
    /// The first reason why it was asked to end.
    cause: OnceLock<EndCause>,
    ended: watch::Sender<Option<Ended>>,
}

impl Fleet {
    /// Makes hub and proxy; `desk` is where requests wait for a person. Blocks, on the thread that then lives as long as gig does.
    ///
    /// # Errors
    /// When a setting is unusable. A host that cannot have sandboxes is no error.
    pub(super) fn start(
        appliance: &Appliance,
        args: &ServeArgs,
        (network, kept): (&Network, Kept),
        desk: Arc<dyn Desk>,
    ) -> anyhow::Result<Arc<Self>> {
        let machine = Machine::start(appliance, args, network, desk)?;
        if let Err(why) = &machine {
            tracing::warn!(%why, "this host cannot have sandboxes: gig doctor says more");
        }
        Ok(Arc::new(Self {
            machine,
            recorder: appliance.recorder.clone(),
            sandboxes: Mutex::default(),
            ended: Mutex::default(),
            without_network: Arc::new(Semaphore::new(args.sandboxes.into())),
            seats: Seats::of(args.sandboxes.into()),
            partings: Partings::default(),
            foreign: Arc::default(),
            kept,
            tls_key: args.tls_key.clone(),
            tasks: TaskTracker::new(),
            runtime: OnceLock::new(),
        }))
    }

    /// The certificate that sandboxes trust, as PEM, where there can be any.
    pub(super) fn authority(&self) -> Option<&str> {
        let machine = self.machine.as_ref().ok()?;
        Some(&machine.ca_pem)
    }

    /// Where sandboxes are watched.
    pub(super) fn run_on(self: &Arc<Self>, runtime: Handle) {
        drop(runtime.spawn(unwatched::see_to(Arc::downgrade(self))));
        let fleet = Arc::downgrade(self);
        let refusing = move || {
            let fleet = fleet.upgrade()?;
            let machine = fleet.machine.as_ref().ok()?;
            Some(Arc::clone(&machine.refusing))
        };
        drop(runtime.spawn(refused::keep_recording(refusing)));
        // Told once, by whoever starts gig.
        let _first = self.runtime.set(runtime);
    }

    /// Done when the hub has ended by itself; never where there was none.
    pub(super) fn lost_hub(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let fleet = Arc::downgrade(self);
        async move {
            loop {
                tokio::time::sleep(LOOK).await;
                let Some(fleet) = fleet.upgrade() else {
                    return std::future::pending().await;
                };
                if (fleet.machine.as_ref()).is_ok_and(|machine| !machine.hub.is_alive()) {
                    return;
                }
            }
        }
    }

    /// Ends every sandbox, then the proxy.
    pub(super) async fn shutdown(&self) {
        for member in self.sandboxes.lock().values() {
            member.ask_to_end(EndCause::Shutdown);
        }
        self.tasks.close();
        if tokio::time::timeout(END_WITHIN, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("sandboxes did not end in time: they are killed");
        }
        let proxy = self
            .machine
            .as_ref()
            .ok()
            .and_then(|machine| machine.proxy.lock().take());
        if let Some(proxy) = proxy {
            proxy.shutdown().await;
        }
    }

    /// Waits for what is being fetched for sandboxes that have ended. Blocks.
    pub(super) fn settle(&self) {
        if let Ok(machine) = &self.machine {
            machine.secrets.settle();
        }
    }

    fn running(&self, id: SandboxId) -> Result<Arc<Member>, ControlError> {
        let found = self.sandboxes.lock().get(&id).cloned();
        found.ok_or(ControlError::Missing(id))
    }

    fn machine(&self) -> Result<&Machine, ControlError> {
        let machine = self.machine.as_ref();
        machine.map_err(|why| ControlError::Unable(Arc::clone(why)))
    }
}

impl Machine {
    fn start(
        appliance: &Appliance,
        args: &ServeArgs,
        network: &Network,
        desk: Arc<dyn Desk>,
    ) -> anyhow::Result<Result<Self, Arc<str>>> {
        let explicit_port = variable("GIG_PROXY_PORT", DEFAULT_PROXY_PORT)?;
        let subnet = variable("GIG_SUBNET", DEFAULT_SUBNET)?;
        let secrets = Secrets::new(network.roots.clone(), network.upstream_proxy.clone());
        secrets.unlock(&args.passphrase)?;
        let hub = Hub::start(&HubConfig {
            slots: args.sandboxes,
            subnet,
            explicit_port,
            ids: HostIds::take_for(args.sandboxes),
        });
        let (hub, listeners) = match hub {
            Ok(made) => made,
            Err(error) => return Ok(Err(causes(&error.into()).into())),
        };
        let home = Home::of(&listeners)
            .map_err(|error| format!("gig cannot tell its own namespaces from others: {error}"));
        let authority = Authority::generate().context("cannot make a certificate authority")?;
        let bound = Arc::new(Bound::default());
        let ca_pem = authority.ca_pem().to_owned();
        let settings = gig_proxy::Settings {
            explicit_port,
            deadlines: Deadlines::DEFAULT,
            resolve: Vec::new(),
            upstream_roots: network.roots.clone(),
            upstream_proxy: network.upstream_proxy.clone(),
            authority,
            never_open: network.never_open.clone(),
            desk: Some(desk),
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        };
        let listeners = ProxyListeners {
            redirect: listeners.redirect,
            explicit: listeners.explicit,
            dns_tcp: listeners.dns_tcp,
            dns_udp: listeners.dns_udp,
        };
        let identity = Arc::clone(&bound);
        let recorder = appliance.recorder.clone();
        let proxy = gig_proxy::start(settings, listeners, identity, recorder)
            .context("cannot start the proxy")?;
        Ok(Ok(Self {
            refusing: Arc::new(Refusing::new(hub.refusals(), proxy.ledger(), bound.clone())),
            hub,
            queues: proxy.queues(),
            ledger: proxy.ledger(),
            proxy: Mutex::new(Some(proxy)),
            bound,
            ca_pem,
            explicit_port,
            secrets,
            elsewhere: network.never_open.elsewhere.clone(),
            home,
        }))
    }
}

impl Member {
    fn look(&self) -> SandboxFacts {
        let mut facts = self.facts.lock().clone();
        if facts.ended.is_none() {
            facts.connections = self
                .subject
                .as_ref()
                .map_or(0, |subject| subject.connections());
        }
        facts
    }

    /// It is wanted, so not idle; `false` when it ends already.
    fn is_asked_for(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.cause.get().is_none() && self.ended.borrow().is_none()
    }

    /// SIGTERM, and SIGKILL later. Only the first reason counts.
    fn ask_to_end(&self, cause: EndCause) {
        let _first = self.cause.set(cause);
        self.stop.notify_one();
    }

    /// Why it ends or ended.
    fn cause(&self) -> EndCause {
        self.cause.get().copied().unwrap_or(EndCause::Program)
    }
}

/// As the appliance holds it.
#[derive(Clone)]
pub(super) struct FleetHandle(pub(super) Arc<Fleet>);

fn ids_in_words(ids: HostIds) -> &'static str {
    match ids {
        HostIds::Single => "hub and proxy run; all sandboxes share gig's own host id",
        HostIds::Range { .. } => "hub and proxy run; each sandbox has host ids of its own",
    }
}

/// An error with its causes, in one line.
fn causes(error: &anyhow::Error) -> String {
    let words: Vec<String> = error.chain().map(ToString::to_string).collect();
    words.join(": ")
}

/// How often it is asked whether the hub lives.
const LOOK: Duration = Duration::from_secs(1);
/// SIGTERM, ten seconds, SIGKILL, and a little for the record.
const END_WITHIN: Duration = Duration::from_secs(14);
/// As many as an operator looks back to.
const REMEMBERED: usize = 100;
