//! That a secret is used in what follows a request's head: its body, its trailers, the messages of its WebSocket.
//!
//! The record of the request names what stands in its head. What is placed later has a record of its own, of each
//! version once in an exchange, which is accepted before the first octet of the value goes. Whoever passes the
//! octets on asks [`Uses::telling`] before each piece, and waits; nothing is waited for where nothing was placed.

use std::{fmt, sync::Arc};

use gig_audit::Event;

use super::{
    ledger::Ledger,
    request::{Asked, Granted},
};
use crate::credential::{
    rewrite::RewriteError,
    tally::{Tally, Telling},
};

/// Under what an exchange's secrets are used.
pub struct Uses {
    ledger: Ledger,
    asked: Asked,
    granted: Granted,
    tally: Arc<Tally>,
}

impl Uses {
    /// Of a request that was allowed, with what is placed in it.
    #[must_use]
    pub fn new(ledger: &Ledger, asked: &Asked, granted: &Granted, tally: &Arc<Tally>) -> Arc<Self> {
        Arc::new(Self {
            ledger: ledger.clone(),
            asked: asked.clone(),
            granted: granted.clone(),
            tally: Arc::clone(tally),
        })
    }

    /// What must be waited for before anything that was made until now goes; `None`: nothing. It is asked for once:
    /// where it fails, or is not waited for, nothing more may go.
    #[must_use]
    pub fn telling(&self) -> Option<Telling> {
        let used = self.tally.take_untold()?;
        let mut entry = self.asked.entry(Event::SecretUse);
        self.granted.mark(&mut entry);
        // It is no decision: that was the request's.
        entry.verdict = None;
        (entry.secrets, entry.findings) = (used.secrets, used.findings);
        let ledger = self.ledger.clone();
        Some(Box::pin(async move {
            let recorded = ledger.record(entry).await;
            recorded.map_err(|_| RewriteError::Unrecorded)
        }))
    }
}

impl fmt::Debug for Uses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uses({})", self.asked.id)
    }
}
