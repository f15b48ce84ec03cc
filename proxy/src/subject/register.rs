//! The register of what is open, and the handle by which each of it can be cut.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use gig_policy::{
    AppProtocol, ConnectPermit, DenyReason, Handling, Host, Policy, Port, Reach, RequestIntent,
    RuleRef, SecretGrant, Verdict,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Subject, places::Place};
use crate::resolve::vet::still_opens;

/// What an open connection was permitted to do; decided again when the policy changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionFacts {
    host: Host,
    port: Port,
    protocol: Option<AppProtocol>,
    handling: Handling,
    private: Option<IpAddr>,
    reach: Reach,
    request: Option<(Arc<str>, Arc<str>)>,
    secrets: Vec<SecretGrant>,
    /// What stood for a rule: a person's word.
    word: Option<RuleRef>,
}

impl ConnectionFacts {
    /// What `permit` allowed to a connection that speaks `protocol` (`None` while unknown).
    #[must_use]
    pub fn new(permit: &ConnectPermit, protocol: Option<AppProtocol>) -> Self {
        Self {
            host: permit.host().clone(),
            port: permit.port(),
            protocol,
            handling: permit.handling(),
            private: None,
            reach: permit.reach(),
            request: None,
            secrets: Vec::new(),
            word: permit.rule().filter(|_| permit.released()).cloned(),
        }
    }

    /// Adds what stands for a rule of its request, where a person allowed it.
    #[must_use]
    pub fn with_word(mut self, word: Option<&RuleRef>) -> Self {
        self.word = self.word.or_else(|| word.cloned());
        self
    }

    /// Adds that it went to a special-purpose address, which only `allow_private` opened
    /// ([`Dialed::private`](crate::upstream::dial::Dialed)).
    #[must_use]
    pub const fn to_private(mut self, private: Option<IpAddr>) -> Self {
        self.private = private;
        self
    }

    /// Adds one request: its method and normalised path.
    #[must_use]
    pub fn with_request(mut self, method: Arc<str>, path: Arc<str>) -> Self {
        self.request = Some((method, path));
        self
    }

    /// Adds the secrets that the request was granted: it may go on for as long as it is granted them.
    #[must_use]
    pub fn with_secrets(mut self, secrets: &[SecretGrant]) -> Self {
        self.secrets = secrets.to_vec();
        self
    }

    fn allowed_by(&self, policy: &Policy) -> bool {
        let (host, port) = (&self.host, self.port);
        let verdict = match &self.word {
            Some(word) => policy.release_connect(host, port, self.protocol, word),
            None => policy.decide_connect(host, port, self.protocol),
        };
        let Verdict::Allow(permit) = verdict else {
            return false;
        };
        if permit.handling() != self.handling || permit.reach() != self.reach {
            return false;
        }
        if let Some(ip) = self.private
            && !still_opens(&permit, ip)
        {
            return false;
        }
        let Some((method, path)) = &self.request else {
            return true;
        };
        let intent = RequestIntent {
            protocol: self.protocol.unwrap_or(AppProtocol::Http),
            method,
            path,
        };
        let verdict = match &self.word {
            Some(word) => policy.release_request(host, port, &intent, word),
            None => policy.decide_request(host, port, &intent),
        };
        match verdict {
            Verdict::Allow(permit) => self
                .secrets
                .iter()
                .all(|grant| permit.secrets().contains(grant)),
            Verdict::Deny(_) => false,
        }
    }
}

/// A connection between its socket and its place in the register: the sandbox is not through before it has one.
#[derive(Debug)]
pub struct Arriving(Arc<Subject>);

impl Arriving {
    pub(super) fn new(subject: Arc<Subject>) -> Self {
        subject.register.entries.lock().arriving += 1;
        Self(subject)
    }

    /// Whose it is.
    #[must_use]
    pub const fn subject(&self) -> &Arc<Subject> {
        &self.0
    }
}

impl Clone for Arriving {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let register = &self.0.register;
        let mut entries = register.entries.lock();
        entries.arriving = entries.arriving.saturating_sub(1);
        if entries.is_through() {
            register.empty.notify_waiters();
        }
    }
}

/// An open connection's (or running request's) place in the register. Dropping it gives the place up.
#[derive(Debug)]
pub struct ConnectionGuard {
    subject: Arc<Subject>,
    key: u64,
    conn: u64,
    handle: Arc<Handle>,
    accepted: bool,
    /// Of a connection to an origin.
    place: Option<Arc<Place>>,
}

impl ConnectionGuard {
    pub(super) fn accepted(subject: Arc<Subject>) -> Result<Self, DenyReason> {
        let conn = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let limit = subject.policy.load().limits().connections;
        let handle = Arc::new(Handle::new(None));
        let key = subject.register.insert(&handle, None, Some(limit))?;
        Ok(Self {
            subject,
            key,
            conn,
            handle,
            accepted: true,
            place: None,
        })
    }

    pub(super) fn upstream(
        subject: Arc<Subject>,
        facts: ConnectionFacts,
    ) -> Result<Self, DenyReason> {
        let handle = Arc::new(Handle::new(None));
        let key = subject.register.insert(&handle, None, None)?;
        let guard = Self {
            subject,
            key,
            conn: 0,
            handle,
            accepted: false,
            place: None,
        };
        guard.permit(facts)?;
        Ok(guard)
    }

    /// Gives `place` up with this entry.
    #[must_use]
    pub fn holding(mut self, place: Arc<Place>) -> Self {
        self.place = Some(place);
        self
    }

    /// The connection's number in this process, as records carry it.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.conn
    }

    /// Whose connection it is.
    #[must_use]
    pub const fn subject(&self) -> &Arc<Subject> {
        &self.subject
    }

    /// Says what this connection was permitted. It is decided at once again, under the policy in
    /// force, so that a change between decision and this call is not lost.
    ///
    /// # Errors
    /// [`DenyReason::Revoked`] or [`DenyReason::ShuttingDown`] when it is no longer allowed.
    pub fn permit(&self, facts: ConnectionFacts) -> Result<(), DenyReason> {
        let mut entries = self.subject.register.entries.lock();
        if let Some(reason) = self.handle.cut_for() {
            return Err(reason);
        }
        if !facts.allowed_by(&self.subject.as_of_now()) {
            self.handle.cut(DenyReason::Revoked);
            return Err(DenyReason::Revoked);
        }
        if let Some(entry) = entries.open.get_mut(&self.key) {
            entry.facts = Some(facts);
        }
        Ok(())
    }

    /// A register entry of its own beneath this connection: for a request that may run long, or for
    /// another host on an explicit-proxy connection. Cut with its parent; does not count as a
    /// connection.
    ///
    /// # Errors
    /// As [`ConnectionGuard::permit`].
    pub fn open(&self, facts: ConnectionFacts) -> Result<Self, DenyReason> {
        let handle = Arc::new(Handle::new(Some(&self.handle)));
        let key = self.subject.register.insert(&handle, None, None)?;
        let guard = Self {
            subject: Arc::clone(&self.subject),
            key,
            conn: self.conn,
            handle,
            accepted: false,
            place: None,
        };
        guard.permit(facts)?;
        Ok(guard)
    }

    /// Why it was cut, if it was.
    #[must_use]
    pub fn cut_for(&self) -> Option<DenyReason> {
        self.handle.cut_for()
    }

    /// Completes when the policy no longer allows it, or the sandbox is closed, and says which.
    /// Safe to drop and to call again.
    pub async fn revoked(&self) -> DenyReason {
        let cancelled = self.handle.token.cancelled();
        if self.accepted {
            // One waits for all that is beneath it: when a rule ends, everything is decided again.
            tokio::select! {
                () = cancelled => {}
                never = self.subject.end_rules_in_time() => match never {},
            }
        } else {
            cancelled.await;
        }
        self.handle.cut_for().unwrap_or(DenyReason::Revoked)
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.subject.register.remove(self.key, self.accepted);
    }
}

/// By which one entry is cut.
#[derive(Debug)]
struct Handle {
    token: CancellationToken,
    closed: AtomicBool,
    parent: Option<Arc<Self>>,
}

impl Handle {
    fn new(parent: Option<&Arc<Self>>) -> Self {
        Self {
            token: parent.map_or_else(CancellationToken::new, |p| p.token.child_token()),
            closed: AtomicBool::new(false),
            parent: parent.cloned(),
        }
    }

    fn cut(&self, reason: DenyReason) {
        if reason == DenyReason::ShuttingDown {
            self.closed.store(true, Ordering::Release);
        }
        self.token.cancel();
    }

    fn cut_for(&self) -> Option<DenyReason> {
        if !self.token.is_cancelled() {
            return None;
        }
        let closed = self.closed.load(Ordering::Acquire)
            || self
                .parent
                .as_ref()
                .is_some_and(|p| p.closed.load(Ordering::Acquire));
        Some(if closed {
            DenyReason::ShuttingDown
        } else {
            DenyReason::Revoked
        })
    }
}

/// Everything that is open in one sandbox.
#[derive(Debug)]
pub(super) struct Register {
    entries: Mutex<Entries>,
    empty: Notify,
}

#[derive(Debug)]
struct Entries {
    closed: bool,
    connections: u32,
    /// Connections that have no place yet.
    arriving: u32,
    next: u64,
    open: HashMap<u64, Entry>,
}

impl Entries {
    /// None of the sandbox's own connections is left. Those to origins may be kept.
    const fn is_through(&self) -> bool {
        self.connections == 0 && self.arriving == 0
    }
}

#[derive(Debug)]
struct Entry {
    facts: Option<ConnectionFacts>,
    handle: Arc<Handle>,
}

impl Register {
    pub(super) fn new() -> Self {
        Self {
            entries: Mutex::new(Entries {
                closed: false,
                connections: 0,
                arriving: 0,
                next: 0,
                open: HashMap::new(),
            }),
            empty: Notify::new(),
        }
    }

    fn insert(
        &self,
        handle: &Arc<Handle>,
        facts: Option<ConnectionFacts>,
        limit: Option<u32>,
    ) -> Result<u64, DenyReason> {
        let mut entries = self.entries.lock();
        if entries.closed {
            return Err(DenyReason::ShuttingDown);
        }
        if let Some(limit) = limit {
            if entries.connections >= limit {
                return Err(DenyReason::ConnectionLimit);
            }
            entries.connections += 1;
        }
        entries.next += 1;
        let key = entries.next;
        entries.open.insert(
            key,
            Entry {
                facts,
                handle: Arc::clone(handle),
            },
        );
        Ok(key)
    }

    fn remove(&self, key: u64, accepted: bool) {
        let mut entries = self.entries.lock();
        let gone = entries.open.remove(&key);
        if accepted {
            entries.connections = entries.connections.saturating_sub(1);
        }
        if entries.open.is_empty() || accepted && entries.is_through() {
            self.empty.notify_waiters();
        }
        drop(entries);
        drop(gone);
    }

    /// Runs `store`, which puts a policy in force, and decides every entry again by it, with no entry
    /// able to slip in between.
    pub(super) fn decide_again(&self, store: impl FnOnce() -> Policy) {
        let entries = self.entries.lock();
        let policy = store();
        for entry in entries.open.values() {
            if let Some(facts) = &entry.facts
                && !facts.allowed_by(&policy)
            {
                entry.handle.cut(DenyReason::Revoked);
            }
        }
    }

    pub(super) fn connections(&self) -> u32 {
        self.entries.lock().connections
    }

    pub(super) fn is_closed(&self) -> bool {
        self.entries.lock().closed
    }

    pub(super) async fn close(&self) {
        self.until(|| self.shut()).await;
    }

    pub(super) async fn drained(&self) {
        self.until(|| self.entries.lock().is_through()).await;
    }

    /// Asks each time that something is gone.
    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let emptied = self.empty.notified();
            tokio::pin!(emptied);
            // Registered before the look, so that a guard dropped between the two is not missed.
            emptied.as_mut().enable();
            if is_so() {
                return;
            }
            emptied.await;
        }
    }

    fn shut(&self) -> bool {
        let mut entries = self.entries.lock();
        entries.closed = true;
        for entry in entries.open.values() {
            entry.handle.cut(DenyReason::ShuttingDown);
        }
        entries.open.is_empty()
    }
}

/// Counted per process, from 1.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
