//! Sandboxes that are network namespaces which gig did not make: registered, watched, let go.
//!
//! Recorded before a connection is taken. It ends with what was named, when it is stopped, with gig, and when
//! somebody adds something to the namespace: then all of it is cut before that is told. No handle of the
//! namespace is kept, only its sockets; when they are closed it reaches nothing.

use std::{
    collections::{HashMap, hash_map::Entry as Slot},
    net::Ipv4Addr,
    sync::{Arc, OnceLock, atomic::AtomicU64},
    time::Duration,
};

use anyhow::Context;
use gig_audit::{Event, VerdictWord};
use gig_netns::{Entered, Found, Life, NamespaceId, Watch};
use gig_proxy::{Listening, ProxyListeners, Subject};
use gig_sandbox::{network_variables, readable};
use gig_web::{
    ControlError, Decide, Decided, Ruling, SandboxFacts, Wanted,
    control::{EndCause, Named, Registered, Registration},
};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    time::Instant,
};

use super::{
    Fleet, Machine, Member,
    life::{at_hand, entry, over, start_of},
    seats::Seat,
};
use crate::serve::{log::Log, secrets::Given};

/// Which namespaces are registered, or are being.
#[derive(Default)]
pub(super) struct Claims(Mutex<HashMap<NamespaceId, Option<Arc<Kept>>>>);

/// A namespace is this registration's, as long as this is there.
struct Claim {
    claims: Arc<Claims>,
    id: NamespaceId,
}

/// What is told again to who registers it again.
struct Kept {
    member: Arc<Member>,
    named: Named,
    explicit_port: u16,
    sentinels: Vec<(String, String)>,
}

/// One that was just registered.
struct Begun {
    member: Arc<Member>,
    listening: Listening,
    watch: Watch,
    life: Life,
    claim: Claim,
    seat: Seat,
}

/// Takes a namespace as a sandbox, and sees to its end.
pub(super) async fn register(
    fleet: Arc<Fleet>,
    wanted: Wanted,
    registration: Registration,
    decide: Decide,
) -> anyhow::Result<Registered> {
    let machine = fleet.machine()?;
    let named = registration.named.clone();
    let found = tokio::task::spawn_blocking(move || find(&named));
    let found = found.await.context("the search was lost")??;
    let home = machine.home.as_ref();
    found.refuse_own(home.map_err(|why| anyhow::anyhow!("{why}"))?)?;
    let claim = match Claims::claim(&fleet.foreign, found.id()) {
        Ok(claim) => claim,
        Err(kept) => return again(machine, kept.as_deref(), &wanted, &registration),
    };
    let (seat, given, runtime) = at_hand(&fleet, &wanted).await?;
    let (theirs, runtime_of_start) = (Arc::clone(&fleet), runtime.clone());
    let Decided { ruling, hold } = decide().await?;
    if let Some(given) = &given {
        given.refuse_places(&ruling.policy)?;
    }
    let asked = Asked {
        wanted,
        registration,
        ruling,
        given,
        claim,
        seat,
    };
    // It waits for a process: beside the runtime. It goes on when the caller gives up.
    let started = runtime.spawn_blocking(move || {
        let _hold = hold;
        let (begun, registered) = begin(&theirs, asked, found, &runtime_of_start)?;
        let fleet = Arc::clone(&theirs);
        theirs
            .tasks
            .spawn_on(see_to(fleet, begun), &runtime_of_start);
        anyhow::Ok(registered)
    });
    started.await.context("the registration was lost")?
}

fn find(named: &Named) -> anyhow::Result<Found> {
    Ok(match named {
        Named::Process(pid) => Found::of_process(*pid)?,
        Named::Path(path) => Found::at(path)?,
    })
}

/// What is to be registered.
struct Asked {
    wanted: Wanted,
    registration: Registration,
    ruling: Ruling,
    given: Option<Given>,
    claim: Claim,
    seat: Seat,
}

fn begin(
    fleet: &Fleet,
    asked: Asked,
    found: Found,
    runtime: &Handle,
) -> anyhow::Result<(Begun, Registered)> {
    let machine = fleet.machine()?;
    let Asked {
        wanted,
        registration,
        ruling,
        given,
        claim,
        seat,
    } = asked;
    let Entered {
        listeners,
        explicit_port,
        watch: changes,
        life,
        id,
    } = found.enter(machine.explicit_port)?;
    let wallet = given.as_ref().map(|given| Arc::clone(&given.wallet));
    let ends = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
    let facts = facts(&wanted, &ruling, &registration.named, id);
    let subject = Subject::with_wallet(wanted.id, ends, ruling.policy, wallet);
    subject.runs(Arc::clone(&facts.server));
    subject.belongs_to(Arc::clone(&facts.profile));
    let recorded = runtime.block_on(fleet.recorder.record(start_of(&facts)));
    recorded.context("refusing to let it out")?;
    let listeners = ProxyListeners {
        redirect: listeners.redirect,
        explicit: listeners.explicit,
        dns_tcp: listeners.dns_tcp,
        dns_udp: listeners.dns_udp,
    };
    let member = Arc::new(Member {
        facts: facts.clone().into(),
        subject: Some(Arc::clone(&subject)),
        log: Log::default(),
        asked: AtomicU64::new(0),
        stop: Notify::new(),
        cause: OnceLock::new(),
        ended: watch::Sender::new(None),
    });
    let kept = Kept {
        member: Arc::clone(&member),
        named: registration.named.clone(),
        explicit_port,
        sentinels: given.map(sentinels).unwrap_or_default(),
    };
    let since = Instant::now();
    let listening = match listen(machine, listeners, explicit_port, &subject) {
        Ok(listening) => listening,
        Err(error) => {
            // Its start is in the record.
            let _first = member.cause.set(EndCause::NotBegun);
            runtime.block_on(subject.close());
            runtime.block_on(over(fleet, &member, since, None));
            return Err(error);
        }
    };
    let registered = tell(machine, &kept, &registration.ca_path);
    claim.keep(kept);
    let begun = Begun {
        member: Arc::clone(&member),
        listening,
        watch: changes,
        life,
        claim,
        seat,
    };
    fleet.sandboxes.lock().insert(wanted.id, member);
    Ok((begun, registered))
}

fn listen(
    machine: &Machine,
    listeners: ProxyListeners,
    explicit_port: u16,
    subject: &Arc<Subject>,
) -> anyhow::Result<Listening> {
    let mut proxy = machine.proxy.lock();
    let proxy = proxy.as_mut().context("gig goes down")?;
    Ok(proxy.listen(listeners, explicit_port, Arc::clone(subject))?)
}

fn facts(wanted: &Wanted, ruling: &Ruling, named: &Named, id: NamespaceId) -> SandboxFacts {
    let namespace = match named {
        Named::Process(pid) => format!("{id} of process {pid}"),
        Named::Path(path) => format!("{id} at {}", path.display()),
    };
    let policy = ruling.policy.reference();
    SandboxFacts {
        id: wanted.id,
        server: wanted.server.name.as_str().into(),
        spec: Arc::new(wanted.server.spec.clone()),
        profile: Arc::clone(&wanted.profile),
        attached: false,
        address: None,
        namespace: Some(namespace.into()),
        policy: Arc::clone(&policy.name),
        policy_version: policy.version,
        policy_by: Arc::clone(&ruling.by),
        started: Timestamp::now(),
        ended: None,
        connections: 0,
        layers: LAYERS.map(Into::into).to_vec(),
    }
}

/// Text: the vault's names and sentinels are letters.
fn sentinels(given: Given) -> Vec<(String, String)> {
    let text = |word: std::ffi::OsString| word.to_string_lossy().into_owned();
    let pairs = given.variables.into_iter();
    pairs
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

fn tell(machine: &Machine, kept: &Kept, ca_path: &str) -> Registered {
    let facts = kept.member.look();
    let proxy = (Ipv4Addr::LOCALHOST, kept.explicit_port);
    let mut variables = network_variables(proxy, ca_path);
    variables.push(("GIG_SANDBOX_ID".to_owned(), facts.id.to_string()));
    variables.extend(kept.sentinels.iter().cloned());
    Registered {
        facts,
        variables,
        ca_pem: machine.ca_pem.clone(),
        already: false,
    }
}

fn in_words(named: &Named) -> String {
    match named {
        Named::Process(pid) => format!("process {pid}"),
        Named::Path(path) => format!("path {}", path.display()),
    }
}

/// The same registration again is answered the same; any other is refused.
fn again(
    machine: &Machine,
    kept: Option<&Kept>,
    wanted: &Wanted,
    registration: &Registration,
) -> anyhow::Result<Registered> {
    let Some(kept) = kept else {
        return Err(ControlError::Taken("it is being registered at this moment".into()).into());
    };
    let facts = kept.member.look();
    // Another process or path may go on when this one's end ends it all.
    let is_same = *facts.server == *wanted.server.name
        && facts.profile == wanted.profile
        && kept.named == registration.named;
    if !is_same || kept.member.cause.get().is_some() {
        let words = format!(
            "this network namespace is sandbox {} already, of {} for {}, by {}: `gig netns rm {}` ends that",
            facts.id,
            facts.server,
            facts.profile,
            in_words(&kept.named),
            facts.id
        );
        return Err(ControlError::Taken(words.into()).into());
    }
    let mut registered = tell(machine, kept, &registration.ca_path);
    registered.already = true;
    Ok(registered)
}

/// Waits for the end; then cuts what is open before anything else.
async fn see_to(fleet: Arc<Fleet>, begun: Begun) {
    let since = Instant::now();
    let Begun {
        member,
        listening,
        watch,
        life,
        claim,
        seat,
    } = begun;
    let changed = tokio::select! {
        // What is both changed and over was changed.
        biased;
        what = change(&watch) => Some(what),
        () = member.stop.notified() => None,
        () = end_of(&life, claim.id) => None,
        () = listening.ended() => Some("gig's sockets in it were closed".to_owned()),
    };
    let changed = changed.or_else(|| watch.ended().map(|what| what.to_string()));
    if changed.is_some() {
        member.ask_to_end(EndCause::Changed);
    }
    // From here on nobody is told that it is registered.
    let _first = member.cause.set(EndCause::Program);
    drop(listening);
    if let Some(subject) = &member.subject {
        subject.close().await;
    }
    if let Some(what) = changed {
        let facts = member.look();
        tracing::warn!(sandbox.id = %facts.id, what, "a registered namespace was changed and let go");
        let mut alarm = entry(Event::Finding, &facts);
        alarm.verdict = Some(VerdictWord::Deny);
        alarm.findings = vec![
            format!("network namespace changed: {what}").into(),
            "nothing of it is let out any more".into(),
        ];
        if let Err(error) = fleet.recorder.record(alarm).await {
            tracing::error!(%error, "an alarm is not in the record");
        }
    }
    // Before whoever is told that it ended registers it again.
    drop((watch, life, claim));
    over(&fleet, &member, since, None).await;
    drop(seat);
}

/// Completes when somebody added something to the namespace; says what.
async fn change(watch: &Watch) -> String {
    loop {
        if let Some(what) = watch.ended() {
            return what.to_string();
        }
        let [route, filter] = watch.as_fds();
        let ready = tokio::select! {
            ready = readable(route) => ready,
            ready = readable(filter) => ready,
        };
        if let Err(error) = ready {
            return format!("it cannot be watched: {error}");
        }
    }
}

/// Completes when what was named is gone.
async fn end_of(life: &Life, id: NamespaceId) {
    let path = match life {
        Life::Process(process) => {
            // What cannot be waited for is not trusted to live.
            let _ended = readable(process).await;
            return;
        }
        Life::Path(path) => path,
    };
    loop {
        // Beside the runtime: a path can lead to a file system that does not answer.
        let looked = Life::Path(path.clone());
        let holds = tokio::task::spawn_blocking(move || looked.holds(id));
        if !holds.await.unwrap_or(false) {
            return;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

impl Claims {
    /// Takes a namespace, unless somebody has it.
    fn claim(claims: &Arc<Self>, id: NamespaceId) -> Result<Claim, Option<Arc<Kept>>> {
        match claims.0.lock().entry(id) {
            Slot::Occupied(taken) => Err(taken.get().clone()),
            Slot::Vacant(free) => {
                free.insert(None);
                Ok(Claim {
                    claims: Arc::clone(claims),
                    id,
                })
            }
        }
    }
}

impl Claim {
    fn keep(&self, kept: Kept) {
        self.claims.0.lock().insert(self.id, Some(Arc::new(kept)));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        drop(self.claims.0.lock().remove(&self.id));
    }
}

/// What confines it, as far as gig knows.
const LAYERS: [&str; 2] = [
    "network: partial (missing: who has CAP_NET_ADMIN over the namespace can give it another way out, which \
     ends its registration; sockets that a process brought along stay open)",
    "all others: off (gig did not start its programs: they are the container runtime's)",
];
/// Whether a name still names the namespace.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
