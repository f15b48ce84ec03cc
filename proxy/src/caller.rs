//! One accepted connection: whose it is, and what it may use.

use std::{net::SocketAddr, sync::Arc};

use gig_audit::TlsFacts;
use gig_policy::{AppProtocol, ConnectPermit, Denial, DenyReason, Host, Port};
use tokio::time::Instant;

use crate::{
    authority::Destination,
    enforce::{
        connect::{Attempt, Outcome, denial, enforce_connect, record_outcome},
        ledger::Ledger,
    },
    subject::{ConnectionFacts, ConnectionGuard, Subject},
    worker::Worker,
};

/// The sandbox's end of a connection, with its place in the register. The place is given up when the
/// last request, tunnel and body of the connection is gone.
#[derive(Debug)]
pub struct Caller {
    /// The thread that serves it.
    pub worker: Arc<Worker>,
    /// Its place in the register.
    pub guard: ConnectionGuard,
    /// The sandbox's end.
    pub src: SocketAddr,
    /// When it was accepted.
    pub accepted: Instant,
}

impl Caller {
    /// A connection that was just accepted and has a place in the register.
    #[must_use]
    pub fn new(worker: Arc<Worker>, guard: ConnectionGuard, src: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            worker,
            guard,
            src,
            accepted: Instant::now(),
        })
    }

    /// Whose it is.
    #[must_use]
    pub const fn subject(&self) -> &Arc<Subject> {
        self.guard.subject()
    }

    /// The record.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.worker.ledger()
    }

    /// The words for a record about a connection to `host` and `port`.
    #[must_use]
    pub fn attempt(
        &self,
        host: &Host,
        port: Port,
        protocol: Option<AppProtocol>,
        tls: Option<TlsFacts>,
    ) -> Attempt<'_> {
        Attempt {
            subject: self.subject(),
            conn: self.guard.id(),
            src: self.src,
            host: host.clone(),
            port,
            protocol,
            tls,
            heard: None,
        }
    }

    /// Decides, records, and takes note in the register of what was permitted.
    ///
    /// # Errors
    /// The denial to tell, recorded.
    pub async fn permit(&self, attempt: &Attempt<'_>) -> Result<ConnectPermit, Box<Denial>> {
        let permit = enforce_connect(self.ledger(), attempt).await?;
        let facts = ConnectionFacts::new(&permit, attempt.protocol);
        match self.guard.permit(facts) {
            Ok(()) => Ok(permit),
            Err(reason) => Err(self.denial(reason)),
        }
    }

    /// A denial that no rule made.
    #[must_use]
    pub fn denial(&self, reason: DenyReason) -> Box<Denial> {
        denial(&self.subject().policy(), reason, String::new())
    }

    /// Records how a permitted connection ended.
    pub async fn outcome(&self, attempt: &Attempt<'_>, mut outcome: Outcome) {
        outcome.duration = self.accepted.elapsed();
        record_outcome(self.ledger(), attempt, outcome).await;
    }

    /// Completes when gig goes down and has waited long enough.
    pub async fn drained(&self) -> DenyReason {
        self.worker.drain.cancelled().await;
        tokio::time::sleep(self.worker.deadlines().drain).await;
        DenyReason::ShuttingDown
    }

    /// The name that a synthetic address stands for, or the address itself.
    #[must_use]
    pub fn destination(&self, host: Host, port: Port) -> Destination {
        self.subject().destination(host, port)
    }
}
