//! One sandbox as the proxy knows it: its policy, names, budgets and open connections.
//!
//! The policy can be replaced at any moment. Every open connection, and every request that may run
//! long, has a place in the register; replacing the policy decides each of them again and cuts what
//! is no longer allowed, or no longer allowed *in this way* (opened instead of inspected, towards a
//! private address). Closing cuts them all and waits until they are gone. When the programs of a sandbox have
//! ended, what they wrote and closed in order can be waited for first: nobody reads what still comes back.

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use gig_policy::{DenyReason, Host, Moment, Policy, Port, SandboxId};
use tokio::sync::{Notify, futures::Notified};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

pub use self::register::{Arriving, ConnectionFacts, ConnectionGuard};
use self::{places::Places, register::Register};
use crate::{
    authority::Destination, budget::Budget, credential::Wallet, dns::synthetic::SyntheticNames,
    wall_clock,
};

pub mod places;
mod register;

/// One sandbox. Everything that is shared between its connections, and nothing that is shared with
/// another sandbox.
#[derive(Debug)]
pub struct Subject {
    id: SandboxId,
    address: Ipv4Addr,
    gateway: Ipv4Addr,
    policy: ArcSwap<Policy>,
    /// Tells when its rules end.
    clock: fn() -> Moment,
    changes: AtomicU64,
    changed: Notify,
    /// Connections that were ever let in.
    accepted: AtomicU64,
    synthetic: SyntheticNames,
    budget: Budget,
    register: Register,
    /// Its programs have ended.
    ending: CancellationToken,
    places: Arc<Places>,
    /// Kept once it is there: nothing of a sandbox goes unwatched again.
    wallet: OnceLock<Arc<Wallet>>,
    /// The registered server it runs, for its records.
    server: OnceLock<Arc<str>>,
    /// Whose it is, for the same.
    profile: OnceLock<Arc<str>>,
}

impl Subject {
    /// A sandbox at `address`, whose default route and name server is `gateway`.
    #[must_use]
    pub fn new(id: SandboxId, address: Ipv4Addr, gateway: Ipv4Addr, policy: Policy) -> Arc<Self> {
        Self::with_wallet(id, (address, gateway), policy, None)
    }

    /// The same for a sandbox that may use secrets.
    #[must_use]
    pub fn with_wallet(
        id: SandboxId,
        (address, gateway): (Ipv4Addr, Ipv4Addr),
        policy: Policy,
        wallet: Option<Arc<Wallet>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            address,
            gateway,
            wallet: wallet.map_or_else(OnceLock::new, OnceLock::from),
            policy: ArcSwap::from_pointee(policy),
            clock: wall_clock::moment,
            changes: AtomicU64::new(0),
            changed: Notify::new(),
            accepted: AtomicU64::new(0),
            synthetic: SyntheticNames::new(),
            budget: Budget::new(),
            register: Register::new(),
            ending: CancellationToken::new(),
            places: Arc::default(),
            server: OnceLock::new(),
            profile: OnceLock::new(),
        })
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> SandboxId {
        self.id
    }

    /// Its own end of the link.
    #[must_use]
    pub const fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The hub's end of the link.
    #[must_use]
    pub const fn gateway(&self) -> Ipv4Addr {
        self.gateway
    }

    /// The policy in force: one snapshot for one decision. A rule that has ended is in none any more,
    /// and what it alone allowed is cut when this returns.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let policy = Policy::clone(&self.policy.load());
        match policy.until() {
            Some(until) if (self.clock)() >= until => self.end_rules(),
            _ => policy,
        }
    }

    fn end_rules(&self) -> Policy {
        // Of the policy that is there then: another one may come meanwhile.
        self.put_in_force(|| self.as_of_now());
        Policy::clone(&self.policy.load())
    }

    /// The same without cutting anything; for who holds the register.
    fn as_of_now(&self) -> Policy {
        let policy = Policy::clone(&self.policy.load());
        match policy.until() {
            Some(_) => policy.as_of((self.clock)()),
            None => policy,
        }
    }

    /// Sees to it that rules end in time, for as long as somebody waits for it; never completes.
    async fn end_rules_in_time(&self) -> Infallible {
        loop {
            let changed = self.changed();
            match self.policy().until() {
                None => changed.await,
                // Not the time until then at once: the wall clock may be set.
                Some(_) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                },
            }
        }
    }

    /// Puts another policy in force and cuts what it no longer allows. What is decided after this
    /// returns is decided by it.
    pub fn set_policy(&self, policy: Policy) {
        self.put_in_force(|| policy);
    }

    /// Asks for the policy with the register held, so that nothing is decided by two.
    fn put_in_force(&self, policy: impl FnOnce() -> Policy) {
        self.register.decide_again(|| {
            self.policy.store(Arc::new(policy()));
            // After the policy: who reads the old count then looks again.
            self.changes.fetch_add(1, Ordering::Release);
            self.as_of_now()
        });
        self.changed.notify_waiters();
    }

    /// How often the policy was replaced. What was decided after this was read holds for as long as it
    /// stays the same.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Completes when the policy is replaced after this call.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// The name that a synthetic address stands for, or the address itself.
    #[must_use]
    pub fn destination(&self, host: Host, port: Port) -> Destination {
        let name = match &host {
            Host::Ip(IpAddr::V4(ip)) => self.synthetic.name_of(*ip),
            Host::Ip(_) | Host::Name(_) => None,
        };
        Destination {
            host: name.map_or(host, Host::from),
            port,
        }
    }

    /// Its synthetic names.
    #[must_use]
    pub const fn synthetic(&self) -> &SyntheticNames {
        &self.synthetic
    }

    /// Gives a wallet to a sandbox that has none: what it sends is looked through from its next request and
    /// connection on. One that has one keeps it.
    pub fn watch(&self, make: impl FnOnce() -> Arc<Wallet>) {
        // One that is made and dropped would take the sandbox's sentinels with it.
        let _kept = self.wallet.get_or_init(make);
    }

    /// Its sentinels, where gig keeps secrets.
    #[must_use]
    pub fn wallet(&self) -> Option<&Arc<Wallet>> {
        self.wallet.get()
    }

    /// Says which registered server it runs, before it is bound to its address; only the first name
    /// counts.
    pub fn runs(&self, server: Arc<str>) {
        // A sandbox does not change what it is.
        let _first = self.server.set(server);
    }

    /// The registered server it runs; none for a run of its own.
    #[must_use]
    pub fn server(&self) -> Option<&Arc<str>> {
        self.server.get()
    }

    /// Says whose it is, as [`Subject::runs`] says what it runs.
    pub fn belongs_to(&self, profile: Arc<str>) {
        // Nor whose it is.
        let _first = self.profile.set(profile);
    }

    /// Whose it is; nobody's where nobody was named.
    #[must_use]
    pub fn profile(&self) -> Option<&Arc<str>> {
        self.profile.get()
    }

    /// Its counters.
    #[must_use]
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Its places for connections to origins.
    #[must_use]
    pub const fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// Notes a connection that came out of a socket and has no place yet.
    #[must_use]
    pub fn arriving(self: &Arc<Self>) -> Arriving {
        Arriving::new(Arc::clone(self))
    }

    /// Takes a place for a connection that was just accepted and is for nobody yet.
    ///
    /// # Errors
    /// [`DenyReason::ConnectionLimit`] over the policy's `connections`; [`DenyReason::ShuttingDown`]
    /// once [`Subject::close`] was called.
    pub fn accept(self: &Arc<Self>) -> Result<ConnectionGuard, DenyReason> {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard::accepted(Arc::clone(self))
    }

    /// How often it tried to connect to anything, ever.
    #[must_use]
    pub fn tries(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// A register entry that is beneath no connection of the sandbox: for a connection to an origin
    /// that is kept between requests. Does not count as a connection.
    ///
    /// # Errors
    /// [`DenyReason::Revoked`] or [`DenyReason::ShuttingDown`] when it is not allowed.
    pub fn open(self: &Arc<Self>, facts: ConnectionFacts) -> Result<ConnectionGuard, DenyReason> {
        ConnectionGuard::upstream(Arc::clone(self), facts)
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.register.connections()
    }

    /// Whether it was closed: nothing more is its own.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.register.is_closed()
    }

    /// Says that its programs have ended: of what is open only what they wrote still matters.
    pub fn end(&self) {
        self.ending.cancel();
    }

    /// Completes when its programs have ended.
    pub fn ended(&self) -> WaitForCancellationFuture<'_> {
        self.ending.cancelled()
    }

    /// Completes when none of its connections is open or on its way to a thread: what its programs wrote, and
    /// closed in order, is with the origins, or cannot go there. To be called after [`Subject::end`]; how
    /// long that may take is for who waits. Safe to drop.
    pub async fn drained(&self) {
        self.register.drained().await;
    }

    /// Cuts every connection, refuses new ones, and returns when the last guard is gone. Dropping the
    /// future leaves the sandbox closed but does not wait.
    pub async fn close(&self) {
        self.register.close().await;
    }
}

/// What a rule allowed is cut within a second of its end.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
