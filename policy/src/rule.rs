//! One checked rule: what an `egress` entry or an `--allow` option says, in the terms of decisions.
//!
//! Rules are made by `compile` and by `allow_option` and are read by `index`, which decides, and by
//! `findings`, which judges them. They hold no text that was not checked.

use std::{fmt, sync::Arc};

use ipnet::IpNet;

use crate::{
    host::Port,
    host_pattern::HostPattern,
    http_match::{Method, PathPattern},
    intent::AppProtocol,
    moment::Moment,
    secret_grant::SecretGrant,
    verdict::{Handling, RuleRef},
};

/// One entry of a policy.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) reference: RuleRef,
    /// Where it stands in the document; `None` for an option of the command line.
    pub(crate) position: Option<Position>,
    pub(crate) target: Target,
    pub(crate) ports: Vec<RulePort>,
    pub(crate) handling: Handling,
    /// `None`: every request. An empty list: none.
    pub(crate) requests: Option<Vec<RequestRule>>,
    pub(crate) secrets: Arc<[SecretGrant]>,
    /// Whether `protocol: http` was written, so that secrets may go in clear text.
    pub(crate) clear_text_secrets: bool,
    pub(crate) allow_private: Arc<[IpNet]>,
    /// From when on it holds no more; `None`: for ever.
    pub(crate) expires: Option<Moment>,
}

impl Rule {
    /// Whether it holds for as long as `other` does.
    pub(crate) fn outlasts(&self, other: &Self) -> bool {
        match (self.expires, other.expires) {
            (None, _) => true,
            (Some(own), Some(theirs)) => own >= theirs,
            (Some(_), None) => false,
        }
    }
}

/// A line and a column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What a rule speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Names(HostPattern),
    Addresses(IpNet),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names(pattern) => pattern.fmt(f),
            Self::Addresses(net) if net.prefix_len() == net.max_prefix_len() => net.addr().fmt(f),
            Self::Addresses(net) => net.fmt(f),
        }
    }
}

/// A port and what may be spoken there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RulePort {
    pub(crate) port: Port,
    pub(crate) protocols: Protocols,
}

impl RulePort {
    /// The protocols that a rule allows on a port.
    ///
    /// Where none is written, 443 is `https` and 80 is `http` alone and any other port is both: clear
    /// text on 443 is never meant, and it would carry in the open what the rule's author believes
    /// encrypted. `protocol: http` with `ports: [443]` says so where it is meant.
    pub(crate) fn new(port: Port, handling: Handling, written: Option<AppProtocol>) -> Self {
        let protocols = match (handling, written) {
            (Handling::Opaque, _) | (_, Some(AppProtocol::Tcp)) => Protocols::ALL,
            (Handling::Passthrough, _) => Protocols::of(AppProtocol::Https),
            (Handling::Inspect, Some(protocol)) => Protocols::of(protocol),
            (Handling::Inspect, None) if port == Port::HTTPS => Protocols::of(AppProtocol::Https),
            (Handling::Inspect, None) if port == Port::HTTP => Protocols::of(AppProtocol::Http),
            (Handling::Inspect, None) => {
                Protocols::of(AppProtocol::Https).and(Protocols::of(AppProtocol::Http))
            }
        };
        Self { port, protocols }
    }

    /// What a rule without `ports` allows: 443 and 80, less what it excludes itself.
    pub(crate) fn defaults(handling: Handling, written: Option<AppProtocol>) -> Vec<Self> {
        let ports = match (handling, written) {
            (Handling::Passthrough, _) | (_, Some(AppProtocol::Https)) => [Some(Port::HTTPS), None],
            (_, Some(AppProtocol::Http)) => [Some(Port::HTTP), None],
            _ => [Some(Port::HTTPS), Some(Port::HTTP)],
        };
        let ports = ports.into_iter().flatten();
        ports
            .map(|port| Self::new(port, handling, written))
            .collect()
    }
}

/// A set of protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Protocols(u8);

impl Protocols {
    pub(crate) const ALL: Self = Self(7);

    pub(crate) const fn of(protocol: AppProtocol) -> Self {
        Self(1 << slot(protocol))
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, protocol: AppProtocol) -> bool {
        self.0 >> slot(protocol) & 1 == 1
    }

    /// Whether every protocol of `other` is in this set.
    pub(crate) const fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

const fn slot(protocol: AppProtocol) -> u8 {
    match protocol {
        AppProtocol::Https => 0,
        AppProtocol::Http => 1,
        AppProtocol::Tcp => 2,
    }
}

/// One of a rule's `rules`: methods and paths, both of which must match.
#[derive(Debug, Clone)]
pub(crate) struct RequestRule {
    pub(crate) reference: RuleRef,
    /// `None`: every method.
    pub(crate) methods: Option<Vec<Method>>,
    /// `None`: every path.
    pub(crate) paths: Option<Vec<PathPattern>>,
}
