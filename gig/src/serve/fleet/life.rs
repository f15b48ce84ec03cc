//! One sandbox, from its start to its end.

use std::{
    sync::{Arc, OnceLock, atomic::AtomicU64},
    time::Duration,
};

use anyhow::Context;
use gig_audit::{Entry, Event, VerdictWord};
use gig_netns::Lease;
use gig_proxy::{Subject, credential::Wallet};
use gig_sandbox::{
    Design, ExitStatus, Kept, Network as Net, Place, Running, StartSandboxError, WaitError,
};
use gig_web::{
    Attached, Decide, Decided, Ruling, SandboxFacts, Wanted,
    control::{EndCause, Ended},
    store::Network,
};
use jiff::Timestamp;
use rustix::process::Signal;
use tokio::{
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};

use super::{
    Fleet, Machine, Member, REMEMBERED, idle,
    parting::{Parting, deliver},
    seats::Seat,
    streams::{Held, Streams},
};
use crate::{
    exit_status::OUT_OF_MEMORY,
    run::wire::described,
    serve::{
        log::Log,
        program::{self, Surroundings},
        secrets::Given,
    },
    server_files,
};

/// A sandbox that was just started.
struct Started {
    member: Arc<Member>,
    running: Running,
    lease: Option<Lease>,
    /// Of one without a network, which takes no lease.
    place: Option<OwnedSemaphorePermit>,
    seat: Arc<Seat>,
    /// How long it may be idle.
    idle: Option<Duration>,
}

/// A sandbox that runs and is seen to.
pub(super) struct Begun {
    pub(super) member: Arc<Member>,
    /// Of one that somebody is attached to.
    pub(super) attached: Option<Attached>,
}

/// Starts a sandbox, and sees to its end. Its secrets are at hand and its files looked through before its policy is
/// decided: while that is held no policy changes, and a service, or an image of some gigabytes, may take its time.
pub(super) async fn start(
    fleet: Arc<Fleet>,
    wanted: Wanted,
    decide: Decide,
    attached: bool,
) -> anyhow::Result<Begun> {
    let (seat, mut given, runtime) = at_hand(&fleet, &wanted).await?;
    let kept = files_of(&wanted, &runtime).await?;
    let secrets = given
        .as_mut()
        .map(|given| std::mem::take(&mut given.secrets));
    let shown = (secrets.unwrap_or_default(), kept.as_ref());
    let warnings = program::shows_values(&wanted.server, shown, &runtime).await?;
    let (theirs, runtime_of_start) = (Arc::clone(&fleet), runtime.clone());
    let Decided { ruling, hold } = decide().await?;
    if let Some(given) = &given {
        given.refuse_places(&ruling.policy)?;
    }
    let asked = Asked {
        wanted,
        ruling,
        given,
        kept,
        warnings,
        seat: Arc::new(seat),
        attached,
    };
    // Building a sandbox waits for processes: beside the runtime. It goes on when the caller gives up.
    let started = runtime.spawn_blocking(move || {
        let _hold = hold;
        let (started, held) = begin(&theirs, asked, &runtime_of_start)?;
        let (member, seat) = (Arc::clone(&started.member), Arc::clone(&started.seat));
        let fleet = Arc::clone(&theirs);
        theirs
            .tasks
            .spawn_on(see_to(fleet, started), &runtime_of_start);
        // Whoever gave up lets go of it, and with it of the sandbox.
        let attached = held.map(|held| held.attached(&member, seat));
        anyhow::Ok(Begun { member, attached })
    });
    started.await.context("the start was lost")?
}

/// What is taken and waited for before a policy is decided: a place, and secrets; and where all else is done.
pub(super) async fn at_hand(
    fleet: &Fleet,
    wanted: &Wanted,
) -> anyhow::Result<(Seat, Option<Given>, Handle)> {
    let machine = fleet.machine()?;
    let server: Arc<str> = wanted.server.name.as_str().into();
    let take = || {
        fleet
            .seats
            .take(Arc::clone(&server), Arc::clone(&wanted.profile))
    };
    let seat = fleet.partings.patiently(take).await?;
    let given = machine.secrets.give(wanted.id, &wanted.server.spec);
    let given = given.await?;
    let runtime = fleet.runtime.get().cloned().unwrap_or_else(Handle::current);
    Ok((seat, given, runtime))
}

/// What was registered for its server, if it is that still.
async fn files_of(wanted: &Wanted, runtime: &Handle) -> anyhow::Result<Option<Kept>> {
    let server = &wanted.server;
    let Some(source) = server.spec.source.clone() else {
        return Ok(None);
    };
    let name = server.name.clone();
    let turn = LOOKING.acquire().await.context("the start was lost")?;
    let looking = runtime.spawn_blocking(move || {
        // Whoever gave up meanwhile leaves the reading to its end: it keeps its turn.
        let _turn = turn;
        server_files::vetted(&name, &source)
    });
    looking.await.context("the start was lost")?.map(Some)
}

/// Images are read whole, at the speed of a disk: more at once are no faster, and would take all threads.
static LOOKING: Semaphore = Semaphore::const_new(2);

/// What is to be started.
struct Asked {
    wanted: Wanted,
    ruling: Ruling,
    given: Option<Given>,
    kept: Option<Kept>,
    /// What files show that the program should not have.
    warnings: Vec<String>,
    seat: Arc<Seat>,
    attached: bool,
}

fn begin(
    fleet: &Arc<Fleet>,
    asked: Asked,
    runtime: &Handle,
) -> anyhow::Result<(Started, Option<Held>)> {
    let machine = fleet.machine()?;
    let spec = &asked.wanted.server.spec;
    let connected = spec.network != Network::Disconnected;
    let idle = match asked.attached {
        true => None,
        false => idle::limit(spec.idle_seconds),
    };
    let place = match connected {
        true => None,
        false => {
            let place = Arc::clone(&fleet.without_network).try_acquire_owned();
            Some(place.context("as many sandboxes without a network run as may: stop one")?)
        }
    };
    let lease = match connected {
        true => {
            let lease = fleet.partings.patiently(|| machine.hub.lease());
            let lease = runtime.block_on(lease);
            Some(lease.context("cannot have a network for the sandbox")?)
        }
        false => None,
    };
    let wallet = asked.given.as_ref().map(|given| Arc::clone(&given.wallet));
    let subject = lease
        .as_ref()
        .map(|lease| bind(machine, &asked, lease, wallet));
    let seat = Arc::clone(&asked.seat);
    let built = build(
        fleet,
        machine,
        asked,
        (lease.as_ref(), subject.clone()),
        runtime,
    );
    match built {
        Ok(built) => {
            let started = Started {
                member: built.member,
                running: built.running,
                lease,
                place,
                seat: built.seat,
                idle,
            };
            Ok((started, built.held))
        }
        Err(error) => {
            if let (Some(subject), Some(lease)) = (subject, lease) {
                let parting = Parting::begin(Arc::clone(fleet), subject, lease, seat);
                let parting = async move { parting.await.finish().await };
                fleet.tasks.spawn_on(parting, runtime);
            }
            Err(error)
        }
    }
}

/// The address is the sandbox's from here on.
fn bind(
    machine: &Machine,
    asked: &Asked,
    lease: &Lease,
    wallet: Option<Arc<Wallet>>,
) -> Arc<Subject> {
    let ends = (lease.address(), lease.gateway());
    let wanted = &asked.wanted;
    let subject = Subject::with_wallet(wanted.id, ends, asked.ruling.policy.clone(), wallet);
    subject.runs(wanted.server.name.as_str().into());
    subject.belongs_to(Arc::clone(&wanted.profile));
    let mut bound = machine.bound.0.write();
    bound.insert(lease.address(), Arc::clone(&subject));
    subject
}

/// A sandbox whose program runs.
struct Built {
    member: Arc<Member>,
    running: Running,
    held: Option<Held>,
    seat: Arc<Seat>,
}

fn build(
    fleet: &Fleet,
    machine: &Machine,
    asked: Asked,
    (lease, subject): (Option<&Lease>, Option<Arc<Subject>>),
    runtime: &Handle,
) -> anyhow::Result<Built> {
    let Asked { wanted, .. } = asked;
    let source = wanted.server.spec.source.as_ref();
    let streams = match asked.attached {
        true => Streams::attached()?,
        false => Streams::logged()?,
    };
    let given = asked.given.map(|given| given.variables);
    let around = Surroundings {
        id: wanted.id,
        ca_pem: lease.map(|_| machine.ca_pem.clone()),
        explicit_port: machine.explicit_port,
        sentinels: given.unwrap_or_default(),
        stdio: streams.theirs,
        kept: asked.kept,
        private: fleet.tls_key.clone(),
    };
    let spec = program::spec(&wanted.server.spec, around)?;
    let design = Design::new(spec, machine.hub.ids(), lease.map(Place::from))?;
    let mut layers: Vec<Arc<str>> = design.layers().iter().map(described).collect();
    layers.extend(source.map(|source| source.told().into()));
    let warnings = asked.warnings.iter();
    layers.extend(warnings.map(|words| format!("warning: {words}").into()));
    let network = lease.map_or(Net::Disconnected, Net::Leased);
    let prepared = design.start(&machine.hub, network)?.meet()?;
    let reference = asked.ruling.policy.reference();
    let facts = SandboxFacts {
        id: wanted.id,
        server: wanted.server.name.as_str().into(),
        spec: Arc::new(wanted.server.spec),
        profile: wanted.profile,
        attached: asked.attached,
        address: lease.map(Lease::address),
        namespace: None,
        policy: Arc::clone(&reference.name),
        policy_version: reference.version,
        policy_by: Arc::clone(&asked.ruling.by),
        started: Timestamp::now(),
        ended: None,
        connections: 0,
        layers,
    };
    let recorded = runtime.block_on(fleet.recorder.record(start_of(&facts)));
    recorded.context("refusing to start the program")?;
    let log = Log::default();
    let (printed, stream) = streams.printed;
    let lines = fleet.kept.of(Arc::clone(&facts.server), facts.id, stream);
    let following = log.clone().follow(printed, lines, streams.tell);
    fleet.tasks.spawn_on(following, runtime);
    let running = match prepared.go() {
        Ok(running) => running,
        Err(error) => {
            runtime.block_on(never_ran(fleet, &facts, &error));
            return Err(error.into());
        }
    };
    let member = Arc::new(Member {
        facts: facts.into(),
        subject,
        log,
        stop: Notify::new(),
        asked: AtomicU64::new(0),
        cause: OnceLock::new(),
        ended: watch::Sender::new(None),
    });
    fleet
        .sandboxes
        .lock()
        .insert(wanted.id, Arc::clone(&member));
    Ok(Built {
        member,
        running,
        held: streams.held,
        seat: asked.seat,
    })
}

/// Records the end of a sandbox whose program could not be executed: its beginning is in the record.
async fn never_ran(fleet: &Fleet, facts: &SandboxFacts, error: &StartSandboxError) {
    let mut entry = entry(Event::SandboxExit, facts);
    entry.verdict = None;
    entry.status = Some(error.exit_code().into());
    entry.findings = vec![format!("not started: {error}").into()];
    if let Err(error) = fleet.recorder.record(entry).await {
        tracing::error!(%error, "the end of a sandbox is not in the record");
    }
}

/// Waits for the end, or brings it about: SIGTERM, and SIGKILL later (requirement 003-26).
async fn end_of(
    running: &mut Running,
    member: &Member,
    idle: Option<Duration>,
) -> Result<ExitStatus, WaitError> {
    tokio::select! {
        ended = running.wait() => return ended,
        () = member.stop.notified() => {}
        () = idle::idle(member, idle) => member.ask_to_end(EndCause::Idle),
    }
    running.signal(Signal::TERM);
    match tokio::time::timeout(GRACE, running.wait()).await {
        Ok(ended) => ended,
        Err(_) => {
            running.kill();
            running.wait().await
        }
    }
}

/// Waits for the end, or brings it about; then takes everything down in order.
async fn see_to(fleet: Arc<Fleet>, started: Started) {
    let Started {
        member,
        mut running,
        lease,
        place,
        seat,
        idle,
    } = started;
    let begun = Instant::now();
    let ended = end_of(&mut running, &member, idle).await;
    // From here on nobody is given it who asks for one that runs.
    let cause = match running.uncovered() {
        Some(path) => {
            let path = path.display();
            tracing::error!(sandbox.id = %member.look().id, %path, "a covered credential came into sight, or what is read-only could be written; ended");
            EndCause::Uncovered
        }
        None => EndCause::Program,
    };
    let _first = member.cause.set(cause);
    let status = ended.map_or_else(
        |error| {
            tracing::error!(%error, "lost sight of a sandbox");
            LOST
        },
        |status| status.code(),
    );
    let starved = running.ran_out_of_memory();
    drop(running);
    let parting = match (&member.subject, lease) {
        (Some(subject), Some(lease)) => {
            // Who had it ended wants it over.
            if member.cause() == EndCause::Program {
                deliver(&fleet, subject).await;
            }
            let (theirs, subject) = (Arc::clone(&fleet), Arc::clone(subject));
            Some(Parting::begin(theirs, subject, lease, Arc::clone(&seat)).await)
        }
        _ => None,
    };
    over(&fleet, &member, begun, Some((status, starved))).await;
    drop((place, seat));
    // Nobody who asked for its end waits for its address.
    if let Some(parting) = parting {
        parting.finish().await;
    }
}

/// Records that a sandbox is over, and tells whoever waits for it: with its status, and whether it wanted more memory
/// than it may have. Of one that gig did not start there is neither.
pub(super) async fn over(
    fleet: &Fleet,
    member: &Arc<Member>,
    begun: Instant,
    status: Option<(u8, bool)>,
) {
    let facts = member.look();
    if let Ok(machine) = fleet.machine() {
        // Its connections are gone: what was counted of it is all there is.
        machine.ledger.close(facts.id).await;
    }
    let mut entry = entry(Event::SandboxExit, &facts);
    entry.verdict = None;
    entry.findings.clear();
    let starved = status.is_some_and(|(_, starved)| starved);
    if starved {
        entry.findings.push(OUT_OF_MEMORY.into());
    }
    let status = status.map(|(status, _)| status);
    let cause = member.cause();
    if cause != EndCause::Program {
        entry
            .findings
            .push(format!("ended: {}", cause.words()).into());
    }
    entry.status = status.map(Into::into);
    entry.duration_ms = u64::try_from(begun.elapsed().as_millis()).ok();
    if let Err(error) = fleet.recorder.record(entry).await {
        tracing::error!(%error, "the end of a sandbox is not in the record");
    }
    let status = status.unwrap_or(0);
    member.facts.lock().ended = Some((Timestamp::now(), status));
    let mut remembered = fleet.ended.lock();
    remembered.push_back(Arc::clone(member));
    while remembered.len() > REMEMBERED {
        drop(remembered.pop_front());
    }
    fleet.sandboxes.lock().remove(&facts.id);
    drop(remembered);
    // Last: whoever is told may come again at once.
    member.ended.send_replace(Some(Ended {
        status,
        cause,
        starved,
    }));
}

/// The record of a start.
pub(super) fn start_of(facts: &SandboxFacts) -> Entry {
    let mut started = entry(Event::SandboxStart, facts);
    let by = format!("policy put in force by: {}", facts.policy_by);
    started.findings.push(by.into());
    started
}

pub(super) fn entry(event: Event, facts: &SandboxFacts) -> Entry {
    let mut entry = Entry::new(event);
    entry.sandbox = Some(facts.id);
    entry.server = Some(Arc::clone(&facts.server));
    entry.profile = Some(Arc::clone(&facts.profile));
    entry.policy = Some(Arc::clone(&facts.policy));
    entry.policy_version = Some(facts.policy_version);
    entry.verdict = Some(VerdictWord::Allow);
    entry.src = facts.address.map(|address| (address, 0).into());
    entry.findings.clone_from(&facts.layers);
    entry
}

/// Between SIGTERM and SIGKILL (requirement 003-26).
const GRACE: Duration = Duration::from_secs(10);
/// Of a sandbox whose end nobody saw.
pub(super) const LOST: u8 = 125;
