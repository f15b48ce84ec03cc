//! One HTTP connection of a sandbox: what it is for, and how its requests find their way.

use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicBool, Ordering},
};

use gig_audit::TlsFacts;
use gig_policy::{
    AppProtocol, ConnectPermit, Denial, DenyReason, Handling, Host, Port, RuleRef, Verdict,
};
use http::HeaderValue;
use parking_lot::Mutex;

use super::{
    activity::Activity, calm::Signs, heads::Heads, interject::Interjections, linger::Ending,
    standing::Standing, target::Reader, unread, upgrade::Tunnel,
};
use crate::{
    authority::{Authority, Destination, Disagreement, agree_request},
    caller::Caller,
    enforce::{hold::Heard, request::Asked},
    tls::downstream::Application,
    worker::Worker,
};

/// One HTTP connection.
#[derive(Debug)]
pub struct Session {
    caller: Arc<Caller>,
    aim: Aim,
    protocol: AppProtocol,
    tls: Option<TlsFacts>,
    application: Application,
    activity: Arc<Activity>,
    interjections: Arc<Interjections>,
    heads: Arc<Heads>,
    reader: Reader,
    route: Mutex<Option<Arc<Route>>>,
    tunnel: Mutex<Option<Tunnel>>,
    ending: Ending,
    signs: Arc<Signs>,
    /// The record holds what was asked for here.
    told: AtomicBool,
    answering: Mutex<Weak<Standing>>,
    /// Its program has gone, in order.
    left: AtomicBool,
    /// A person is asked about its request.
    asking: AtomicBool,
    /// A request that could not be read.
    unread: OnceLock<Option<Box<Asked>>>,
}

/// What a connection is for.
#[derive(Debug)]
pub enum Aim {
    /// One host, agreed and permitted: every request must name it.
    Fixed(Destination),
    /// One host that is denied: every request is told so.
    Denied(Destination, Box<Denial>),
    /// A raw address in clear text: each request's Host names where it goes.
    ByHost(Destination),
    /// An explicit proxy: each request's target names where it goes.
    Explicit(Destination),
}

/// Where requests go: one permitted host and port.
#[derive(Debug)]
pub struct Route {
    /// The permitted host.
    pub host: Host,
    /// The same as text.
    pub host_word: Arc<str>,
    /// The permitted port.
    pub port: Port,
    /// What is spoken with it: `Https` or `Http`.
    pub protocol: AppProtocol,
    /// The proof.
    pub permit: ConnectPermit,
    /// The subject's, from before it was given.
    changes: u64,
    bare: HeaderValue,
    with_port: HeaderValue,
}

impl Session {
    /// A connection of `caller` that speaks `application` and is for `aim`.
    #[must_use]
    pub fn new(
        caller: &Arc<Caller>,
        aim: Aim,
        protocol: AppProtocol,
        application: Application,
    ) -> Self {
        let activity = Arc::<Activity>::default();
        Self {
            caller: Arc::clone(caller),
            aim,
            protocol,
            tls: None,
            application,
            heads: Arc::new(Heads::new(Arc::clone(&activity))),
            activity,
            interjections: Arc::default(),
            reader: Reader::default(),
            route: Mutex::new(None),
            tunnel: Mutex::new(None),
            ending: Ending::default(),
            signs: Arc::default(),
            told: AtomicBool::new(false),
            answering: Mutex::default(),
            left: AtomicBool::new(false),
            asking: AtomicBool::new(false),
            unread: OnceLock::new(),
        }
    }

    /// Adds what was negotiated in TLS.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsFacts) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Adds what tells the stream beneath how it ends.
    #[must_use]
    pub fn with_ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    /// Adds the permit that the connection was opened with, and the subject's changes as they were
    /// read before it was decided.
    #[must_use]
    pub fn with_permit(self, permit: ConnectPermit, changes: u64) -> Self {
        *self.route.lock() = Some(Route::new(permit, self.protocol, changes));
        self
    }

    /// Whose it is.
    #[must_use]
    pub const fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// The thread that serves it.
    #[must_use]
    pub fn worker(&self) -> &Arc<Worker> {
        &self.caller.worker
    }

    /// `Https` or `Http`.
    #[must_use]
    pub const fn protocol(&self) -> AppProtocol {
        self.protocol
    }

    /// What was negotiated in TLS.
    #[must_use]
    pub const fn tls(&self) -> Option<&TlsFacts> {
        self.tls.as_ref()
    }

    /// What the sandbox's side speaks.
    #[must_use]
    pub const fn application(&self) -> Application {
        self.application
    }

    /// Whether something moves.
    #[must_use]
    pub const fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Interim responses on their way to an HTTP/1.1 program.
    #[must_use]
    pub const fn interjections(&self) -> &Arc<Interjections> {
        &self.interjections
    }

    /// Reads what its requests name.
    #[must_use]
    pub const fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The header section that an HTTP/1.1 program sends.
    #[must_use]
    pub const fn heads(&self) -> &Arc<Heads> {
        &self.heads
    }

    /// What was seen of the connection's frames, where it has any.
    #[must_use]
    pub const fn signs(&self) -> &Arc<Signs> {
        &self.signs
    }

    /// How the connection ends.
    #[must_use]
    pub const fn ending(&self) -> &Ending {
        &self.ending
    }

    /// What the connection is for.
    #[must_use]
    pub const fn aim(&self) -> &Aim {
        &self.aim
    }

    /// The record holds what was asked for here.
    pub fn set_told(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    /// Whether the record holds what was asked for here.
    #[must_use]
    pub fn told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Its program has gone: what it asked for and came whole is not to be dropped with the connection.
    pub fn set_left(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// A person is asked about its request, or no longer.
    pub fn set_asking(&self, asking: bool) {
        self.asking.store(asking, Ordering::Relaxed);
    }

    /// Whether a person is asked about its request.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Relaxed)
    }

    /// Whether a request that came whole waits for its answer, and became nothing else.
    #[must_use]
    pub fn is_answering(&self) -> bool {
        self.activity.is_answering() && !self.ending.is_plain()
    }

    /// What the request asks for that HTTP/1.1 could not read, as far as it can be made out. To be asked when
    /// it could not: made out once.
    #[must_use]
    pub fn unread(&self) -> Option<&Asked> {
        self.unread.get_or_init(|| unread::asked(self)).as_deref()
    }

    /// Whether its request goes on without its program.
    #[must_use]
    pub fn leaves_requests(&self) -> bool {
        self.left.load(Ordering::Relaxed) && !self.is_asking()
    }

    /// Leaves what is to follow when the HTTP connection ends by an upgrade.
    pub fn set_tunnel(&self, tunnel: Tunnel) {
        self.ending.plain();
        *self.tunnel.lock() = Some(tunnel);
    }

    /// What is to follow.
    #[must_use]
    pub fn take_tunnel(&self) -> Option<Tunnel> {
        self.tunnel.lock().take()
    }

    /// Where a request goes that names `authority` and is sent on by `protocol`: all names must agree.
    ///
    /// # Errors
    /// What they disagree about.
    pub fn destination(
        &self,
        authority: &Authority,
        protocol: AppProtocol,
    ) -> Result<Destination, Disagreement> {
        let agreed = |connection: &Destination, named| {
            agree_request(connection, named, authority).map(|host| Destination {
                host,
                port: connection.port,
            })
        };
        match &self.aim {
            Aim::Fixed(connection) | Aim::Denied(connection, _) => agreed(connection, true),
            Aim::ByHost(connection) => agreed(connection, false),
            Aim::Explicit(_) => {
                let port = authority.port.unwrap_or(match protocol {
                    AppProtocol::Https => Port::HTTPS,
                    _ => Port::HTTP,
                });
                Ok(self.caller.destination(authority.host.clone(), port))
            }
        }
    }

    /// What a record names while no other name is known.
    #[must_use]
    pub const fn nominal(&self) -> &Destination {
        match &self.aim {
            Aim::Fixed(at) | Aim::Denied(at, _) | Aim::ByHost(at) | Aim::Explicit(at) => at,
        }
    }

    /// The permit for `destination`, decided (and recorded) if it is new or the policy changed. `protocol`: what
    /// is spoken with it. `word`: what stands for a rule, for this one request.
    ///
    /// # Errors
    /// The denial, not recorded yet: it becomes the request's.
    pub async fn route(
        &self,
        destination: &Destination,
        protocol: AppProtocol,
        word: Option<&RuleRef>,
    ) -> Result<Arc<Route>, Box<Denial>> {
        let policy = self.caller.subject().policy();
        let told = match &self.aim {
            // Where people are asked, it was opened to hear what is asked for, and may be allowed yet.
            Aim::Denied(_, denial) if policy.hold().is_none() || !denial.reason.is_of_rules() => {
                return Err(denial.clone());
            }
            Aim::Denied(_, denial) => Some(denial),
            Aim::Fixed(_) | Aim::ByHost(_) | Aim::Explicit(_) => None,
        };
        // Without the rules that have ended a policy keeps its reference.
        let changes = self.caller.subject().changes();
        if let Some(route) = &*self.route.lock()
            && route.host == destination.host
            && route.port == destination.port
            && route.protocol == protocol
            && route.permit.policy() == policy.reference()
            && route.changes == changes
        {
            return Ok(Arc::clone(route));
        }
        let (host, port) = (&destination.host, destination.port);
        let verdict = match word {
            Some(word) => policy.release_connect(host, port, Some(protocol), word),
            None => policy.decide_connect(host, port, Some(protocol)),
        };
        match (verdict, told) {
            (Verdict::Deny(denial), _) => return Err(denial),
            // It was opened, and these bytes are to pass unopened: not on this connection.
            (Verdict::Allow(permit), Some(denial)) if permit.handling() != Handling::Inspect => {
                return Err(denial.clone());
            }
            (Verdict::Allow(_), _) => {}
        }
        let tls = self.tls.clone();
        let mut attempt = self.caller.attempt(host, port, Some(protocol), tls);
        attempt.heard = word.map(|word| Box::new(Heard::once(word)));
        let permit = self.caller.permit(&attempt).await?;
        let released = permit.released();
        let route = Route::new(permit, protocol, changes);
        // A word is for one request.
        if !released {
            *self.route.lock() = Some(Arc::clone(&route));
        }
        Ok(route)
    }

    /// An answer begins: while the program reads none of it, nobody else hears of a change of policy.
    pub fn answering(&self, standing: &Arc<Standing>) {
        if self.application == Application::Http1 {
            *self.answering.lock() = Arc::downgrade(standing);
        }
    }

    /// Completes when the policy no longer allows the request that is being answered over HTTP/1.
    pub async fn answer_revoked(&self) -> DenyReason {
        loop {
            let changed = self.caller.subject().changed();
            let standing = self.answering.lock().upgrade();
            if let Some(reason) = standing.and_then(|standing| standing.cut_for()) {
                return reason;
            }
            changed.await;
        }
    }
}

impl Route {
    fn new(permit: ConnectPermit, protocol: AppProtocol, changes: u64) -> Arc<Self> {
        let host_word: Arc<str> = permit.host().to_string().into();
        Arc::new(Self {
            host: permit.host().clone(),
            port: permit.port(),
            protocol,
            bare: header_value(host_word.to_string()),
            with_port: header_value(format!("{host_word}:{}", permit.port())),
            host_word,
            permit,
            changes,
        })
    }

    /// The host as `Host` and `:authority` carry it, with the port as the program wrote it.
    #[must_use]
    pub fn authority(&self, written: Option<Port>) -> HeaderValue {
        match written {
            None => self.bare.clone(),
            Some(port) if port == self.port => self.with_port.clone(),
            Some(port) => header_value(format!("{}:{port}", self.host_word)),
        }
    }
}

fn header_value(text: String) -> HeaderValue {
    // Canonical names and addresses are ASCII without controls.
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("invalid"))
}
