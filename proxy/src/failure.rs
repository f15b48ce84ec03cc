//! What goes wrong on the way, on whose side, and the one word it is told by.
//!
//! The program inside learns the [`DenyReason`]; the source chain stays in our own log.

use std::{error::Error as StdError, fmt, net::IpAddr};

use gig_policy::DenyReason;

use crate::upstream::dial::DialError;

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The sandbox's: what it sent, or its going away.
    Downstream,
    /// The origin's, its resolver's or the network's towards it.
    Upstream,
    /// Ours.
    Internal,
}

impl Side {
    /// The word used in spans.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Downstream => "downstream",
            Self::Upstream => "upstream",
            Self::Internal => "internal",
        }
    }
}

/// A connection or request that ended badly after it was permitted.
#[derive(Debug)]
pub struct Failure {
    /// Whose fault.
    pub side: Side,
    /// What the program and the record are told.
    pub reason: DenyReason,
    /// What happened, for our log only; may hold addresses.
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Failure {
    /// A failure without a cause beneath it.
    #[must_use]
    pub const fn new(side: Side, reason: DenyReason) -> Self {
        Self {
            side,
            reason,
            source: None,
        }
    }

    /// A failure with its cause.
    #[must_use]
    pub fn caused(
        side: Side,
        reason: DenyReason,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self {
            side,
            reason,
            source: Some(source.into()),
        }
    }
}

impl Failure {
    /// The address that was refused or did not answer, for the record alone.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        let dialled = self.source.as_deref()?.downcast_ref::<DialError>()?;
        dialled.addr.map(|address| address.ip())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on the {} side", self.reason, self.side.as_str())
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}
