//! What goes wrong on the way, on whose side, and the one word it is told by.
//!
//! The program inside learns the [`DenyReason`]; the source chain stays in our own log.

use std::{error::Error as StdError, fmt, io, net::IpAddr};

use gig_policy::DenyReason;
use rustls::AlertDescription;

use crate::upstream::{connect_proxy::ProxyFault, dial::DialError};

pub mod words;

use words::Words;

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
        let source = source.into();
        let refused = reason == DenyReason::DestinationUnavailable && alert(&*source).is_some();
        Self {
            side,
            reason: if refused {
                DenyReason::TlsProtocol
            } else {
                reason
            },
            source: Some(source),
        }
    }

    /// With which alert the other side ended TLS. In TLS 1.3 it looks at a client's certificate when the
    /// client takes the handshake for done.
    #[must_use]
    pub fn alert(&self) -> Option<AlertDescription> {
        alert(self.source.as_deref()?)
    }
}

impl Failure {
    /// What happened, with everything beneath it, for our log: nothing that the other side wrote.
    #[must_use]
    pub fn causes(&self) -> Option<Words<'_>> {
        let error = self.source.as_deref()?;
        Some(Words::of(error))
    }

    /// The address that was refused or did not answer, for the record alone.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        let dialled = self.source.as_deref()?.downcast_ref::<DialError>()?;
        dialled.addr.map(|address| address.ip())
    }

    /// That it is the doing of the host's proxy.
    #[must_use]
    pub fn by_proxy(&self) -> Option<ProxyFault> {
        let dialled = self.source.as_deref()?.downcast_ref::<DialError>()?;
        dialled.by_proxy
    }
}

fn alert(error: &(dyn StdError + 'static)) -> Option<AlertDescription> {
    let mut next = Some(error);
    while let Some(error) = next {
        // The cause within an input or output error is none of its sources.
        let within = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let within = within.and_then(|within| within.downcast_ref::<rustls::Error>());
        let found = within.or_else(|| error.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::AlertReceived(alert)) = found {
            return Some(*alert);
        }
        next = error.source();
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_that_ends_tls_with_an_alert_is_told_from_one_that_is_gone() {
        let alert = AlertDescription::CertificateExpired;
        let received = rustls::Error::AlertReceived(alert);
        let ended = io::Error::new(io::ErrorKind::InvalidData, received);
        let lost = DenyReason::DestinationUnavailable;
        let failure = Failure::caused(Side::Upstream, lost, ended);
        assert_eq!(failure.reason, DenyReason::TlsProtocol);
        assert_eq!(failure.alert(), Some(alert));
        let gone = io::Error::from(io::ErrorKind::ConnectionReset);
        let failure = Failure::caused(Side::Upstream, lost, gone);
        assert_eq!((failure.reason, failure.alert()), (lost, None));
    }
}
