//! `gig serve`: the appliance, from its data directory to its last sandbox.
//!
//! The order is the promise: the data directory is ours alone and locked, the record and the store are
//! open, the hub is made on the thread that lives longest, and only then anybody is let in. On the way
//! down doors close first, then sandboxes end, and the record last.

pub(crate) mod appliance;
mod certificate;
pub(crate) mod database;
mod doctor;
mod factors;
mod fleet;
mod held;
mod log;
mod network;
mod oidc;
mod outbound;
pub(crate) mod place;
mod program;
mod retention;
mod secrets;
mod serving;
mod traces;
mod vault_desk;
mod webhooks;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use gig_audit::retention::{Class, days_of_each};
use gig_web::{
    App, AppSettings, Clock as _, Door, Following, Hasher, HeldDesk, Presence, Relay, Role,
    SystemClock, Traffic, Watch,
};
use tokio::signal::unix::{SignalKind, signal};
use zeroize::Zeroizing;

pub(crate) use self::place::{AUTHORITY, LOCK, SOCKET, SocketPath};
use self::{
    appliance::Appliance,
    certificate::{Certificate, Files},
    fleet::{Fleet, FleetHandle},
    log::Kept,
    network::Network,
    place::Place,
    retention::Retaining,
    serving::Serving,
    traces::Traces,
};
use crate::{
    args::serve::ServeArgs,
    backup::{Part, under_way::refuse_half},
    error_chain,
    exit_status::ExitStatus,
    stderr::tell,
};

/// Serves until it is told to stop.
///
/// # Errors
/// When a part cannot be had; says which and the cure.
pub(crate) fn execute(args: &ServeArgs) -> anyhow::Result<ExitStatus> {
    refuse_clear_text(args)?;
    gig_vault::memory::seal_process()?;
    crate::secrets::refuse_unusable_key()?;
    let place = take_place()?;
    let listener = listen(args.listen)?;
    let local = listener
        .local_addr()
        .context("cannot tell where gig listens")?;
    let (certificate, args) = by_tls(args, local)?;
    let args = &args;
    let socket = place.socket()?;
    let _announced = announce(local);
    let traffic = Arc::new(Traffic::default());
    let durability = args.audit_durability.into();
    let appliance = Appliance::open(place.dir(), Arc::clone(&traffic), durability)?;
    let held = held_desk(&appliance)?;
    // The hub is made on this thread, the one that lives as long as gig: it dies with its maker.
    let kept = Kept::start(place.dir().join(log::FOLDER), args.log_days())?;
    let network = Network::around(args, local)?;
    let people = Arc::new(held::People(Arc::clone(&held)));
    let fleet = Fleet::start(&appliance, args, (&network, kept), people)?;
    place.show_authority(fleet.authority())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("cannot start gig's own runtime")?;
    let traces = Traces::of(args, &network)?;
    let watch = Arc::new(Watch::default());
    let kept = (&*args.records_kept(), &*args.audit_key);
    let retaining = Retaining::start(kept, place.dir(), &appliance, &watch)?;
    let app = App::new(AppSettings {
        store: Arc::clone(&appliance.store),
        recorder: appliance.recorder.clone(),
        record: appliance.record.clone(),
        control: Arc::new(FleetHandle(Arc::clone(&fleet))),
        secrets: Arc::new(vault_desk::VaultDesk),
        sealer: Arc::new(factors::VaultSealer),
        oidc: oidc::settings(&reached_at(args, local))?,
        outbound: outbound(network, args),
        held,
        webhooks: Arc::new(webhooks::Folder::of(place.dir())),
        about: about(&place, &appliance, args, local)?,
        clock: Arc::new(SystemClock),
        hasher: Hasher::new()?,
        traffic,
        node: appliance.node.clone(),
        listens: network::seen_at(local),
        audit_keys: [&*args.audit_key, &[appliance.key.public()]].concat(),
        names_kept: names_kept(args),
        watch,
        public_url: args.public_url.clone(),
        reached_at: reached_at(args, local),
        own_tls: certificate.is_some(),
        front: args.front.clone(),
        changes_a_minute: args.changes_a_minute,
    });
    let following = Following::start(&app).context("cannot start a thread")?;
    let serving = Serving::begin(place.dir(), &appliance)?;
    let among_nodes = among_nodes(&app)?;
    let outcome = runtime.block_on(async {
        let stop = stop_asked_for()?;
        fleet.run_on(tokio::runtime::Handle::current());
        welcome(&appliance, args, local)?;
        let door = door(listener, certificate.as_ref());
        let lost = Arc::new(AtomicBool::new(false));
        let stop = stop_or_lost(stop, fleet.lost_hub(), Arc::clone(&lost));
        let served = gig_web::serve(Arc::clone(&app), vec![door, Door::Owner(socket)], stop);
        let served = traces::beside(traces, &app, served).await;
        fleet.shutdown().await;
        app.settle().await;
        served.context("cannot serve")?;
        anyhow::ensure!(!lost.load(Ordering::Relaxed), HUB_LOST);
        Ok(())
    });
    drop((among_nodes, following, retaining));
    // What runs beside it may hang, and gig is told to stop.
    runtime.shutdown_timeout(LEFT);
    fleet.settle();
    drop(fleet);
    serving.end(appliance.close());
    outcome.map(|()| ExitStatus::SUCCESS)
}

/// What other nodes on the same database are told, and what they are answered.
fn among_nodes(app: &Arc<App>) -> anyhow::Result<(Option<Relay>, Option<Presence>)> {
    let started = (Relay::start(app), Presence::start(app));
    Ok((
        started.0.context("cannot start a thread")?,
        started.1.context("cannot start a thread")?,
    ))
}

/// The data directory, held, with word of the database for commands beside.
fn take_place() -> anyhow::Result<Place> {
    let place = Place::take()?;
    database::leave_word(place.dir())?;
    refuse_half(place.dir())?;
    Ok(place)
}

/// Where requests wait that ask a person; of this start.
fn held_desk(appliance: &Appliance) -> anyhow::Result<Arc<HeldDesk>> {
    let node = uuid::Uuid::now_v7().to_string();
    let held = HeldDesk::open(Arc::clone(&appliance.store), Arc::new(SystemClock), node);
    held.map(Arc::new).context("cannot start a thread")
}

/// What this gig is and where it keeps things; no secret, and no password of a database.
fn about(
    place: &Place,
    appliance: &Appliance,
    args: &ServeArgs,
    local: SocketAddr,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let file = Part::Store.place(place.dir());
    let file = file.display();
    let (store, vault) = match database::url()? {
        Some(_) => (
            "PostgreSQL, shared with other nodes (GIG_DATABASE_URL)".to_owned(),
            "sealed, in the same PostgreSQL: one for all nodes".to_owned(),
        ),
        None => (
            format!("SQLite, {file}"),
            format!("sealed, in SQLite, {file}: of this machine alone"),
        ),
    };
    let sign_on = oidc::settings(&reached_at(args, local))?;
    let sign_on = sign_on.map(|one| format!("by {}, as client {}", one.issuer, one.client_id));
    Ok(vec![
        ("Version", env!("CARGO_PKG_VERSION").to_owned()),
        ("Listens on", local.to_string()),
        ("Reached at", reached_at(args, local)),
        ("TLS", tls_of(args)),
        ("Data directory", place.dir().display().to_string()),
        ("People and policies", store),
        (
            "Single sign-on",
            sign_on.unwrap_or_else(|| "none".to_owned()),
        ),
        ("Node", appliance.node.clone()),
        ("Record", appliance.record.to_string()),
        ("Retention", kept_for(args)),
        ("Logs of servers", logs_kept_for(args)),
        ("Vault", vault),
    ])
}

/// Who speaks TLS.
fn tls_of(args: &ServeArgs) -> String {
    match &args.tls_cert {
        Some(file) => format!("by gig, with {}", file.display()),
        None if is_https(args) => "by what stands in front".to_owned(),
        None => "nobody: for this machine alone".to_owned(),
    }
}

/// How long records are kept: once anything is said of it, what is not named goes by the defaults.
fn kept_for(args: &ServeArgs) -> String {
    let keep = args.records_kept();
    if keep.is_empty() {
        return "for ever, until gig audit prune is run; --keep says how long".to_owned();
    }
    let each = days_of_each(&keep).into_iter();
    let each = each.map(|(class, days)| match days {
        Some(days) => format!("{class}: {days} days"),
        None => format!("{class}: for ever"),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Days that records of names are kept: those of the class that goes first.
fn names_kept(args: &ServeArgs) -> Option<u32> {
    let keep = args.records_kept();
    if keep.is_empty() {
        return None;
    }
    let each = days_of_each(&keep).into_iter();
    let names = each.filter(|(class, _)| Class::TRAFFIC.contains(class));
    names.filter_map(|(_, days)| days).min()
}

/// How long what servers print is kept.
fn logs_kept_for(args: &ServeArgs) -> String {
    let days = args.log_days();
    days.map_or_else(
        || "for ever, 64 MiB of each server at most".to_owned(),
        |days| format!("{days} days, 64 MiB of each server at most"),
    )
}

/// Passwords and tokens do not cross a network in clear text.
fn refuse_clear_text(args: &ServeArgs) -> anyhow::Result<()> {
    if args.tls_cert.is_some() {
        if args.public_url.is_some() && !is_https(args) {
            bail!("GIG_PUBLIC_URL is in clear text, and a certificate is given: write https://…");
        }
        return Ok(());
    }
    if args.listen.ip().is_loopback() || is_https(args) {
        return Ok(());
    }
    bail!(
        "refusing to listen on {}: passwords would cross the network in clear text; give a certificate with \
         --tls-cert and --tls-key, listen on 127.0.0.1, or let something in front speak TLS and name it with \
         GIG_PUBLIC_URL=https://…",
        args.listen
    )
}

/// Whether people come by TLS, as far as options say.
fn is_https(args: &ServeArgs) -> bool {
    let url = args.public_url.as_deref();
    url.is_some_and(|url| url.starts_with("https://"))
}

/// The certificate, where there is one; people then come by the name in it, unless options name another.
fn by_tls(args: &ServeArgs, local: SocketAddr) -> anyhow::Result<(Option<Certificate>, ServeArgs)> {
    let mut args = args.clone();
    let (Some(certificate), Some(key)) = (args.tls_cert.clone(), args.tls_key.clone()) else {
        return Ok((None, args));
    };
    let certificate = Certificate::open(Files { certificate, key })?;
    if args.public_url.is_none() {
        let name = certificate.name.clone();
        if name.is_none() && local.ip().is_unspecified() {
            bail!(
                "the certificate names no host that people come by (a wildcard is none): name it with \
                 GIG_PUBLIC_URL=https://…"
            );
        }
        let place = name.map(|name| match local.port() {
            443 => name,
            port => format!("{name}:{port}"),
        });
        args.public_url = Some(format!(
            "https://{}",
            place.unwrap_or_else(|| local.to_string())
        ));
    }
    Ok((Some(certificate), args))
}

fn listen(at: SocketAddr) -> anyhow::Result<std::net::TcpListener> {
    std::net::TcpListener::bind(at).with_context(|| {
        match at.port() {
            1..1024 => format!(
                "cannot listen on {at}: ports below 1024 are root's (sysctl net.ipv4.ip_unprivileged_port_start) and may \
                 be taken; choose another with GIG_LISTEN, and put a server in front"
            ),
            _ => format!(
                "cannot listen on {at}: if another program does, choose another with GIG_LISTEN"
            ),
        }
    })
}

/// Tells the other gigs of this host, which then open it to no sandbox of theirs.
fn announce(local: SocketAddr) -> Option<gig_proxy::Announced> {
    let announced = gig_proxy::Announced::listener(local);
    let told = |error: &std::io::Error| {
        tracing::warn!(%error, "other gigs of this host do not know that this one listens on {local}");
    };
    announced.inspect_err(told).ok()
}

/// Where people reach the console.
fn reached_at(args: &ServeArgs, local: SocketAddr) -> String {
    let named = args.public_url.clone();
    named.unwrap_or_else(|| format!("http://{local}"))
}

fn outbound(network: Network, args: &ServeArgs) -> Arc<outbound::NetworkOutbound> {
    let private = args.outbound_private.clone();
    Arc::new(outbound::NetworkOutbound::new(network, private))
}

/// Says where the console is, and how to make the first admin.
fn welcome(appliance: &Appliance, args: &ServeArgs, local: SocketAddr) -> anyhow::Result<()> {
    let url = reached_at(args, local);
    let (by_tls, is_https) = (args.tls_cert.is_some(), url.starts_with("https://"));
    let scheme = if by_tls { "https" } else { "http" };
    tell(&format!("gig: listening on {scheme}://{local}\n"));
    if is_https && !by_tls && args.front.is_empty() {
        tell(
            "gig: addresses in the record are those of what stands in front, and failed sign-ins are counted \
             by name alone: name it with GIG_FRONT=ADDRESS, and it says in X-Forwarded-For for whom it speaks\n",
        );
    }
    if args.public_url.is_none() && local.ip().is_loopback() {
        tell(
            "gig: a browser sends the session to whatever listens on another port of this address, too: where \
             others have accounts on this machine, let people come by a name and TLS\n",
        );
    }
    if let Err(error) = vault_desk::opens() {
        let error = gig_policy::printable::printable(&format!("{error:#}"));
        tell(&format!(
            "gig: the vault does not open, and no sandbox starts here until it does: {error}\n"
        ));
    }
    let users = appliance.store.users()?;
    if users.iter().any(|user| user.role == Role::Admin) {
        tell(&format!("gig: console: {url}/\n"));
        return Ok(());
    }
    match open_setup(appliance) {
        Ok(link) => tell(&format!(
            "gig: {} yet: make the first admin with this link, once, within an hour:\n  \
             {url}/setup/{}\n",
            who(users.is_empty()),
            *link
        )),
        // A full disk, for one: what runs is served, and says what is wrong.
        Err(error) => {
            error_chain::print(&error);
            tell(&format!(
                "gig: {} yet, and no link for the first admin could be made: start gig serve again when \
                 that is mended\ngig: console: {url}/\n",
                who(users.is_empty())
            ));
        }
    }
    Ok(())
}

/// Whom there is none of.
const fn who(nobody: bool) -> &'static str {
    match nobody {
        true => "nobody can sign in",
        false => "there is no admin",
    }
}

/// What the first admin is made by, once.
fn open_setup(appliance: &Appliance) -> anyhow::Result<Zeroizing<String>> {
    let minted = gig_web::mint_setup()?;
    let now = SystemClock.now();
    let expires = now.checked_add(SETUP_LASTS)?;
    appliance.change(&gig_web::Change::OpenSetup {
        digest: minted.digest,
        expires,
        // Each node of a fleet prints one, and none knows which of them is read.
        beside: database::url()?.is_some(),
    })?;
    Ok(minted.text)
}

/// Done when gig is told to stop. Listening begins now.
fn stop_asked_for() -> anyhow::Result<impl Future<Output = ()>> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hangup = listen(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        tell("gig: stopping\n");
    })
}

/// Of console and API.
fn door(listener: std::net::TcpListener, certificate: Option<&Certificate>) -> Door {
    match certificate {
        Some(certificate) => Door::Tls(listener, Arc::clone(&certificate.config)),
        None => Door::Tcp(listener),
    }
}

/// Done when gig is told to stop, or can have no sandbox any more: who started it starts it again, which nobody would do for
/// a gig that stays and runs nothing.
async fn stop_or_lost(
    stop: impl Future<Output = ()>,
    lost: impl Future<Output = ()>,
    is_lost: Arc<AtomicBool>,
) {
    tokio::select! {
        biased;
        () = stop => {}
        () = lost => is_lost.store(true, Ordering::Relaxed),
    }
}

const HUB_LOST: &str = "the hub, which has the sandboxes' networks, has ended, and they with it: start gig serve again";
/// For what still runs when all doors are closed.
const LEFT: Duration = Duration::from_secs(5);
/// Console and API; the proxy has threads of its own.
const WORKERS: usize = 2;
const SETUP_LASTS: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);
