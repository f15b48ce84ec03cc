//! Who gets what: hub, record, sandbox and proxy of one run, put together and taken apart in order.

use std::{ffi::OsStr, net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::Context;
use gig_audit::{Entry, Event, VerdictWord};
use gig_netns::{HostIds, Hub, HubConfig, Lease, Listeners, Readers, Refusals};
use gig_policy::{PolicyRef, SandboxId};
use gig_proxy::{
    Proxy, ProxyListeners, credential::Wallet, deadlines::Deadlines, identity::Identity,
    resolve::NeverOpen, subject::Subject, tls::authority_key::Authority,
};
use gig_sandbox::{Enforcement, LayerReport, Network, Prepared, Running};
use tokio::{task::JoinSet, time::Instant};
use uuid::Uuid;

use super::{
    drawn::Drawn,
    record::Record,
    secrets::Secrets,
    settings::{Settings, trusted_roots},
    summary::Summary,
    terminal::{self, Seat},
    warnings,
};
use crate::{
    exit_status::ExitStatus,
    output::printable,
    refused::{self, Refusing},
    stderr::tell,
};

/// Everything of one run that outlives its program.
#[derive(Debug)]
pub(crate) struct Wired {
    sandbox: SandboxId,
    begun: Instant,
    record: Record,
    egress: Option<Egress>,
    /// Ends, and its networks with it, when the run is over.
    hub: Hub,
    profile: &'static str,
    layers: Vec<Arc<str>>,
    /// The secrets whose values the program is handed, with what the record says of each.
    handed: Vec<(Arc<str>, Arc<str>)>,
    /// The program's name and how many arguments it has: not those, which may hold secrets.
    runs: Arc<str>,
    policy: PolicyRef,
}

/// The way out of a connected sandbox.
#[derive(Debug)]
struct Egress {
    subject: Arc<Subject>,
    proxy: Proxy,
    lease: Lease,
    refusing: Arc<Refusing>,
    /// Looks at what is refused while the program runs.
    watching: JoinSet<()>,
}

/// The identity look-up of a run: one address, one sandbox.
struct OnlyOne(Arc<Subject>);

impl Identity for OnlyOne {
    fn subject(&self, source: Ipv4Addr) -> Option<Arc<Subject>> {
        (source == self.0.address()).then(|| Arc::clone(&self.0))
    }
}

/// Makes everything, and stops right before the program's first instruction.
///
/// Not a future in disguise: it blocks while the hub comes up, on the thread that then lives as long as
/// gig does. What takes its own time goes on side by side: the hub comes up while a second thread opens
/// the record, makes the authority and works the sandbox out; the proxy starts while the sandbox builds
/// itself.
///
/// # Errors
/// When a part cannot be had; what was made before is taken down again.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<(Wired, Prepared, Seat)> {
    let sandbox = SandboxId::new(Uuid::now_v7());
    let (streams, seat) = terminal::streams(&settings.audit)?;
    let ids = host_ids(settings);
    let (hub, drawn) = std::thread::scope(|scope| {
        let drawing = scope.spawn(|| Drawn::new(settings, sandbox, ids, streams));
        let hub = Hub::start(&HubConfig {
            slots: SLOTS,
            subnet: settings.subnet,
            explicit_port: settings.explicit_port,
            ids,
        });
        (hub, drawing.join())
    });
    let Drawn {
        record,
        authority,
        wallet,
        design,
    } = drawn.unwrap_or_else(|_| Err(anyhow::anyhow!("cannot work the sandbox out")))?;
    let (hub, listeners) =
        hub.context("cannot make the sandbox's network; gig doctor says what this host lacks")?;
    let lease = match settings.connected {
        true => Some(
            hub.lease()
                .context("cannot have a network for the sandbox")?,
        ),
        false => None,
    };
    let network = lease
        .as_ref()
        .map_or(Network::Disconnected, Network::Leased);
    let unseen = warnings::of_mounts(design.layers());
    let covered = warnings::of_covered(design.covered());
    for warning in settings
        .warnings
        .iter()
        .chain(&unseen)
        .chain(&covered)
        .filter(|_| !settings.quiet)
    {
        // Names of files are a project's own words.
        tell(&format!("gig: warning: {}\n", printable(warning)));
    }
    let mut layers: Vec<Arc<str>> = design.layers().iter().map(described).collect();
    layers.extend(settings.image.as_ref().map(|image| image.told().into()));
    let document = settings.digest.as_ref();
    layers.extend(document.map(|digest| format!("policy document: sha256:{digest}").into()));
    let starting = design
        .start(&hub, network)
        .context("cannot start the sandbox")?;
    let egress = match lease {
        Some(lease) => Some(open_egress(
            settings,
            Between {
                sandbox,
                lease,
                listeners,
                wallet,
                refusals: hub.refusals(),
            },
            authority,
            &record,
        )?),
        None => None,
    };
    let prepared = starting.meet().context("cannot start the sandbox")?;
    let wired = Wired {
        sandbox,
        begun: Instant::now(),
        record,
        egress,
        hub,
        profile: settings.profile,
        layers,
        handed: settings.secrets.iter().flat_map(handed).collect(),
        runs: named(&settings.program, settings.args.len()),
        policy: settings.policy.reference().clone(),
    };
    Ok((wired, prepared, seat))
}

fn handed(secrets: &Secrets) -> impl Iterator<Item = (Arc<str>, Arc<str>)> {
    secrets.entrusted().map(|secret| {
        let (name, version) = (&secret.name, secret.version);
        let words = format!(
            "entrusted: the program is handed the value of secret {name}, version {version}"
        );
        (Arc::clone(name.shared()), words.into())
    })
}

/// What stands between one sandbox and the proxy.
struct Between {
    sandbox: SandboxId,
    lease: Lease,
    listeners: Listeners,
    wallet: Option<Arc<Wallet>>,
    refusals: Refusals,
}

fn open_egress(
    settings: &Settings,
    between: Between,
    authority: Authority,
    record: &Record,
) -> anyhow::Result<Egress> {
    let Between {
        sandbox,
        lease,
        listeners,
        wallet,
        refusals,
    } = between;
    let policy = settings.policy.clone();
    let ends = (lease.address(), lease.gateway());
    let subject = Subject::with_wallet(sandbox, ends, policy, wallet);
    let roots = trusted_roots(settings.upstream_ca.as_deref())?;
    let proxy_settings = gig_proxy::Settings {
        explicit_port: settings.explicit_port,
        deadlines: Deadlines::DEFAULT,
        resolve: settings.resolve.clone(),
        upstream_roots: roots,
        upstream_proxy: settings.upstream_proxy.clone(),
        authority,
        // A run listens nowhere on the host: every listener is inside the hub. Those of appliances are seen.
        never_open: NeverOpen::default(),
        // A run has nobody to ask, and a policy that asks is refused.
        desk: None,
        workers: workers(),
    };
    let listeners = ProxyListeners {
        redirect: listeners.redirect,
        explicit: listeners.explicit,
        dns_tcp: listeners.dns_tcp,
        dns_udp: listeners.dns_udp,
    };
    let identity = Arc::new(OnlyOne(Arc::clone(&subject)));
    let proxy = gig_proxy::start(
        proxy_settings,
        listeners,
        Arc::<OnlyOne>::clone(&identity),
        record.recorder(),
    )
    .context("cannot start the proxy")?;
    Ok(Egress {
        refusing: Arc::new(Refusing::new(refusals, proxy.ledger(), identity)),
        watching: JoinSet::new(),
        subject,
        proxy,
        lease,
    })
}

impl Wired {
    /// Records the start and lets the program run.
    ///
    /// # Errors
    /// When the start cannot be recorded, or the program not be started.
    pub(crate) async fn go(&mut self, prepared: Prepared) -> anyhow::Result<Running> {
        let mut entry = self.entry(Event::SandboxStart);
        entry.verdict = Some(VerdictWord::Allow);
        entry.subject = Some(Arc::clone(&self.runs));
        entry.policy = Some(Arc::clone(&self.policy.name));
        entry.policy_version = Some(self.policy.version);
        entry.src = self
            .egress
            .as_ref()
            .map(|egress| (egress.lease.address(), 0).into());
        entry.findings.clone_from(&self.layers);
        for (name, words) in &self.handed {
            entry.secrets.push(Arc::clone(name));
            entry.findings.push(Arc::clone(words));
        }
        self.record
            .recorder()
            .record(entry)
            .await
            .context("refusing to start the program")?;
        if let Some(egress) = &mut self.egress {
            let refusing = Arc::clone(&egress.refusing);
            let watching = refused::keep_recording(move || Some(Arc::clone(&refusing)));
            egress.watching.spawn(watching);
        }
        prepared.go().context("cannot start the program")
    }

    /// After the last process: what it wrote and closed in order is delivered, as it would be without gig, until
    /// `interrupted` completes or the time for it is over. Nothing is waited for where nothing is under way.
    pub(crate) async fn drain(&self, interrupted: impl Future<Output = ()>) {
        let Some(egress) = &self.egress else { return };
        let queues = egress.proxy.queues();
        tokio::select! {
            () = queues.delivered(&egress.subject) => {}
            () = interrupted => {}
            () = tokio::time::sleep(DELIVERY) => tracing::warn!(
                "what the program wrote last was not taken in time: the rest is dropped"
            ),
        }
    }

    /// Who knows which program inside reads at a terminal.
    pub(crate) fn readers(&self) -> Readers {
        self.hub.readers()
    }

    /// Closes its connections, gives its address up, records its end.
    pub(crate) async fn finish(&mut self, status: ExitStatus, findings: Vec<Arc<str>>) {
        if let Some(egress) = self.egress.take() {
            egress.refusing.record().await;
            egress.subject.close().await;
            egress.proxy.shutdown().await;
            // The address is not given back: the hub ends with this run and takes its networks along,
            // and nobody waits for the kernel to take them apart.
        }
        // It ends while the record is written out.
        self.hub.hang_up();
        let mut entry = self.entry(Event::SandboxExit);
        entry.status = Some(status.0.into());
        entry.findings = findings;
        entry.duration_ms = u64::try_from(self.begun.elapsed().as_millis()).ok();
        if let Err(error) = self.record.recorder().record(entry).await {
            tracing::error!(%error, "the end of the sandbox is not in the record");
        }
    }

    /// What was denied.
    pub(crate) const fn summary(&self) -> &Summary {
        self.record.summary()
    }

    /// The file that holds the record, if it is a file.
    pub(crate) fn audit_place(&self) -> Option<String> {
        self.record.place().map(|path| path.display().to_string())
    }

    /// Writes what is queued and waits for the disk.
    pub(crate) fn close(self) {
        self.record.close(CLOSE_PATIENCE);
    }

    fn entry(&self, event: Event) -> Entry {
        let mut entry = Entry::new(event);
        entry.sandbox = Some(self.sandbox);
        entry.profile = Some(self.profile.into());
        entry
    }
}

/// What runs, in a few words.
fn named(program: &OsStr, arguments: usize) -> Arc<str> {
    let name = program.to_string_lossy();
    match arguments {
        0 => name.into(),
        1 => format!("{name} with 1 argument").into(),
        more => format!("{name} with {more} arguments").into(),
    }
}

/// Ids of its own for each sandbox, where the host gives them; but a person who is not root and shows
/// files to the program shows their own files, which only their own id may read and write.
fn host_ids(settings: &Settings) -> HostIds {
    let shows_files = !settings.binds.is_empty() || settings.root.is_some();
    if shows_files && !rustix::process::geteuid().is_root() {
        return HostIds::Single;
    }
    HostIds::take_for(SLOTS)
}

/// `seccomp: enforced`, `cgroup: off (why)`, as it stands in the record of the start.
pub(crate) fn described(report: &LayerReport) -> Arc<str> {
    let name = report.layer.name();
    match &report.enforcement {
        Enforcement::Enforced => format!("{name}: enforced"),
        Enforcement::Partial { missing } => format!("{name}: partial (missing: {missing})"),
        Enforcement::Off { reason } => format!("{name}: off ({reason})"),
    }
    .into()
}

/// As many as may run at once here (affinity and cgroup counted): a second thread on one processor
/// only takes turns with the first.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_WORKERS))
}

/// A run has one sandbox.
pub(super) const SLOTS: u16 = 1;
/// One sandbox rarely keeps more than two processors busy with TLS.
const MOST_WORKERS: usize = 2;
/// A person waits for the end of the run, and a kernel would go on for minutes.
pub(crate) const DELIVERY: Duration = Duration::from_secs(5);
/// A disk that has not answered by now will not.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
