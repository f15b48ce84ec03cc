//! The appliance's sandboxes: one hub, one proxy, many sandboxes.
//!
//! Each is bound to its address, and its start recorded, before its program's first instruction; after
//! its last process its connections are cut before the address may have a new owner. A host that cannot
//! have sandboxes still serves console and record, and says why.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Context;
use futures_util::future::{BoxFuture, FutureExt as _};
use gig_audit::Recorder;
use gig_netns::{HostIds, Hub, HubConfig};
use gig_policy::{Host, Policy, Port, SandboxId};
use gig_proxy::{
    Deadlines, Identity, NeverOpen, Proxy, ProxyListeners, Subject, UpstreamProxy,
    tls::{authority_key::Authority, roots::Roots},
};
use gig_web::{
    Control, ControlError, Decide, SandboxFacts,
    control::{Examined, Health, SandboxLog},
    store::Server,
};
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore},
};
use tokio_util::task::TaskTracker;

use super::{appliance::Appliance, database, doctor, secrets::Secrets};
use crate::{
    args::serve::ServeArgs,
    run::settings::{DEFAULT_PROXY_PORT, DEFAULT_SUBNET, read_roots, variable},
};

mod life;

/// All of them.
pub(super) struct Fleet {
    machine: Result<Machine, Arc<str>>,
    recorder: Recorder,
    sandboxes: Mutex<HashMap<SandboxId, Arc<Member>>>,
    /// Those that have ended, oldest first, for whoever asks why.
    ended: Mutex<VecDeque<Arc<Member>>>,
    /// Places of sandboxes without a network; each with one takes a lease.
    without_network: Arc<Semaphore>,
    tasks: TaskTracker,
    runtime: OnceLock<Handle>,
}

/// What sandboxes need.
struct Machine {
    hub: Hub,
    proxy: Mutex<Option<Proxy>>,
    bound: Arc<Bound>,
    ca_pem: String,
    explicit_port: u16,
    secrets: Secrets,
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
}

impl Fleet {
    /// Makes hub and proxy. Blocks, on the thread that then lives as long as gig does.
    ///
    /// # Errors
    /// When a setting is unusable. A host that cannot have sandboxes is no error.
    pub(super) fn start(
        appliance: &Appliance,
        args: &ServeArgs,
        listener: SocketAddr,
    ) -> anyhow::Result<Arc<Self>> {
        let machine = Machine::start(appliance, args, listener)?;
        if let Err(why) = &machine {
            tracing::warn!(%why, "this host cannot have sandboxes: gig doctor says more");
        }
        Ok(Arc::new(Self {
            machine,
            recorder: appliance.recorder.clone(),
            sandboxes: Mutex::default(),
            ended: Mutex::default(),
            without_network: Arc::new(Semaphore::new(SLOTS.into())),
            tasks: TaskTracker::new(),
            runtime: OnceLock::new(),
        }))
    }

    /// Where sandboxes are watched.
    pub(super) fn run_on(&self, runtime: Handle) {
        // Told once, by whoever starts gig.
        let _first = self.runtime.set(runtime);
    }

    /// Ends every sandbox, then the proxy.
    pub(super) async fn shutdown(&self) {
        for member in self.sandboxes.lock().values() {
            member.stop.notify_one();
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
        listener: SocketAddr,
    ) -> anyhow::Result<Result<Self, Arc<str>>> {
        let explicit_port = variable("GIG_PROXY_PORT", DEFAULT_PROXY_PORT)?;
        let subnet = variable("GIG_SUBNET", DEFAULT_SUBNET)?;
        let mut roots = Roots::system();
        if let Some(pem) = read_roots(&args.upstream_ca)? {
            roots = roots
                .with_pem(&pem)
                .context("--upstream-ca: cannot use these roots")?;
        }
        let upstream_proxy = UpstreamProxy::from_env(|name| std::env::var(name).ok())
            .context("cannot use the proxy that gig's own environment names")?;
        let secrets = Secrets::new(roots.clone(), upstream_proxy.clone());
        secrets.unlock(&args.passphrase)?;
        let hub = Hub::start(&HubConfig {
            slots: SLOTS,
            subnet,
            explicit_port,
            ids: HostIds::detect_for(SLOTS),
        });
        let (hub, listeners) = match hub {
            Ok(made) => made,
            Err(error) => return Ok(Err(causes(&error.into()).into())),
        };
        let authority = Authority::generate().context("cannot make a certificate authority")?;
        let bound = Arc::new(Bound::default());
        let ca_pem = authority.ca_pem().to_owned();
        let settings = gig_proxy::Settings {
            explicit_port,
            deadlines: Deadlines::DEFAULT,
            resolve: Vec::new(),
            upstream_roots: roots,
            upstream_proxy,
            authority,
            // No policy opens the console to a sandbox, whatever it allows.
            never_open: never_open(args, listener)?,
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
            hub,
            proxy: Mutex::new(Some(proxy)),
            bound,
            ca_pem,
            explicit_port,
            secrets,
        }))
    }
}

impl Control for FleetHandle {
    fn health(&self) -> Vec<Health> {
        let (works, words): (bool, Arc<str>) = match &self.0.machine {
            Ok(machine) => (true, ids_in_words(machine.hub.ids()).into()),
            Err(why) => (
                false,
                format!("this host cannot have sandboxes: {why}").into(),
            ),
        };
        let part = "sandboxes".into();
        vec![Health { part, works, words }]
    }

    fn examine(&self) -> Result<Vec<Examined>, ControlError> {
        doctor::apart().map_err(|error| ControlError::Examine(causes(&error)))
    }

    fn sandboxes(&self) -> Vec<SandboxFacts> {
        let mut members: Vec<Arc<Member>> = self.0.sandboxes.lock().values().cloned().collect();
        members.extend(self.0.ended.lock().iter().cloned());
        let mut facts: Vec<SandboxFacts> = members.iter().map(|member| member.look()).collect();
        facts.sort_by_key(|facts| std::cmp::Reverse(facts.id.as_uuid()));
        facts.dedup_by_key(|facts| facts.id);
        facts
    }

    fn start(
        &self,
        server: Server,
        decide: Decide,
    ) -> BoxFuture<'_, Result<SandboxFacts, ControlError>> {
        let fleet = Arc::clone(&self.0);
        async move {
            fleet.machine()?;
            let name: Arc<str> = server.name.as_str().into();
            let started = life::start(fleet, server, decide).await;
            started.map_err(|error| match error.downcast::<ControlError>() {
                Ok(refused) => refused,
                Err(error) => ControlError::Start {
                    server: name,
                    why: causes(&error),
                },
            })
        }
        .boxed()
    }

    fn stop(&self, id: SandboxId) -> Result<(), ControlError> {
        self.0.running(id)?.stop.notify_one();
        Ok(())
    }

    fn log(&self, id: SandboxId) -> Option<SandboxLog> {
        let running = self.0.sandboxes.lock().get(&id).cloned();
        let found = running.or_else(|| {
            let ended = self.0.ended.lock();
            ended
                .iter()
                .find(|member| member.facts.lock().id == id)
                .cloned()
        });
        found.map(|member| member.log.read())
    }

    fn set_policy(&self, server: &str, policy: Policy) {
        let members: Vec<Arc<Member>> = self.0.sandboxes.lock().values().cloned().collect();
        for member in members {
            let mut facts = member.facts.lock();
            if *facts.server != *server {
                continue;
            }
            let reference = policy.reference();
            facts.policy = Arc::clone(&reference.name);
            facts.policy_version = reference.version;
            drop(facts);
            if let Some(subject) = &member.subject {
                subject.set_policy(policy.clone());
            }
        }
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

    fn end(&self, at: Timestamp, status: u8) {
        self.facts.lock().ended = Some((at, status));
    }
}

/// As the appliance holds it.
#[derive(Clone)]
pub(super) struct FleetHandle(pub(super) Arc<Fleet>);

/// Where gig and its database are reached, as far as it is told.
pub(super) fn never_open(args: &ServeArgs, listener: SocketAddr) -> anyhow::Result<NeverOpen> {
    let mut places = database::places()?;
    if let Some(url) = &args.public_url {
        let tls = url.starts_with("https://");
        let authority = url.split_once("://").map_or("", |(_, authority)| authority);
        let said = authority.rsplit_once(':');
        let said = said.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = said.unwrap_or((authority, if tls { 443 } else { 80 }));
        places.push((host.to_owned(), port));
    }
    let mut never_open = NeverOpen {
        listeners: vec![listener],
        hosts: Vec::new(),
    };
    for (host, port) in places {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            never_open.listeners.push((address, port).into());
        }
        // What no policy can name is reached by no sandbox.
        if let (Ok(host), Some(port)) = (Host::parse(bare), Port::new(port)) {
            never_open.hosts.push((host, port));
        }
    }
    Ok(never_open)
}

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

/// A /30 each; namespaces are made a few ahead of need.
const SLOTS: u16 = 64;
/// SIGTERM, ten seconds, SIGKILL, and a little for the record.
const END_WITHIN: Duration = Duration::from_secs(14);
/// As many as an operator looks back to.
const REMEMBERED: usize = 100;
