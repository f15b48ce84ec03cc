//! What a sandbox asked for once, as a record tells it: the input of a replay and of a suggestion.
//!
//! An attempt holds what a policy decides on and nothing else; where it was recorded is the reader's.
//! Whether a policy covers it is asked of the code that enforces.

use std::{fmt, net::IpAddr, sync::Arc};

use crate::{
    deny_reason::DenyReason,
    fqdn::Fqdn,
    host::{Host, Port},
    intent::AppProtocol,
};

mod decided;

pub(crate) use decided::Decided;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asked {
    /// A name alone: no connection followed.
    Name(Fqdn),
    /// A connection, of which no request is known.
    Connection {
        /// Where to.
        host: Host,
        /// At which port.
        port: Port,
        /// What was spoken, where it was seen.
        protocol: Option<AppProtocol>,
    },
    /// An HTTP request.
    Request {
        /// Where to.
        host: Host,
        /// At which port.
        port: Port,
        /// In TLS or in clear text.
        protocol: AppProtocol,
        /// The method.
        method: Arc<str>,
        /// The normalised path, without the query.
        path: Arc<str>,
    },
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A rule let it pass.
    Allowed,
    /// It passed only because the policy observed; why it would have been denied.
    Observed(DenyReason),
    /// It was denied.
    Denied(DenyReason),
}

impl Outcome {
    /// Whether it passed, by whatever.
    #[must_use]
    pub const fn passed(self) -> bool {
        match self {
            Self::Allowed | Self::Observed(_) => true,
            Self::Denied(_) => false,
        }
    }

    /// Whether it was refused where it was dialled to, after it was let go.
    #[must_use]
    pub const fn is_of_address(self) -> bool {
        matches!(self, Self::Denied(reason) if reason.is_of_address())
    }
}

/// One attempt, or several that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// What was asked for.
    pub asked: Asked,
    /// The address that it was or would have been dialled to, where that is known of a name.
    pub address: Option<IpAddr>,
    /// Names of secrets that were swapped into it, sorted. Where in it they stood is not recorded.
    pub secrets: Vec<Arc<str>>,
    /// Those of them whose value the program was handed, so that it wrote it itself.
    pub entrusted: Vec<Arc<str>>,
    /// What became of it.
    pub outcome: Outcome,
    /// When first: RFC 3339 in UTC, all with the same number of digits, so that texts sort as times do.
    pub first: Arc<str>,
    /// When last.
    pub time: Arc<str>,
    /// How often.
    pub count: u64,
}

impl Attempt {
    /// How often it was denied.
    pub(crate) const fn denied(&self) -> u64 {
        match self.outcome {
            Outcome::Denied(_) => self.count,
            Outcome::Allowed | Outcome::Observed(_) => 0,
        }
    }
}

impl Asked {
    /// The host or name.
    #[must_use]
    pub fn host(&self) -> Host {
        match self {
            Self::Name(name) => Host::Name(name.clone()),
            Self::Connection { host, .. } | Self::Request { host, .. } => host.clone(),
        }
    }

    /// The port, where one was asked for.
    #[must_use]
    pub const fn port(&self) -> Option<Port> {
        match self {
            Self::Name(_) => None,
            Self::Connection { port, .. } | Self::Request { port, .. } => Some(*port),
        }
    }

    /// Whether it is a request of whose path only a part is recorded.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::Request { path, .. } if is_cut(path))
    }
}

/// Whether a path is not all of what was asked for: of long ones a record keeps head, tail and a digest, or the head.
#[must_use]
pub fn is_cut(path: &str) -> bool {
    // No path that has a normal form holds the character, nor a space.
    let middle =
        path.len() > SHORTEST_CUT && path.contains("…[") && path.contains(" octets sha256:");
    middle || path.ends_with(" octets cut)")
}

/// Head and tail of a path that was cut in its middle are longer.
const SHORTEST_CUT: usize = 900;

/// `api.example.com`, `tcp db.example.com:5432`, `GET https://api.example.com:443/user`.
impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "name {name}"),
            Self::Connection {
                host,
                port,
                protocol,
            } => {
                let protocol = protocol.map_or("connection", AppProtocol::as_str);
                write!(f, "{protocol} {host}:{port}")
            }
            Self::Request {
                host,
                port,
                protocol,
                method,
                path,
            } => write!(f, "{method} {protocol}://{host}:{port}{path}"),
        }
    }
}

impl Attempt {
    /// The address, where one is known.
    #[must_use]
    pub fn known_address(&self) -> Option<IpAddr> {
        self.address.or_else(|| self.asked.host().ip())
    }

    /// Whether rules decided it: an attempt that was, or would have been, denied for another reason (a limit, a secret,
    /// an origin's fault) tells nothing about rules. An address is opened by a rule's `allow_private`, so
    /// that it counts where it is known.
    #[must_use]
    pub fn is_of_rules(&self) -> bool {
        match self.outcome {
            Outcome::Allowed => true,
            Outcome::Denied(DenyReason::PrivateAddress) => self.known_address().is_some(),
            Outcome::Observed(reason) | Outcome::Denied(reason) => reason.is_of_rules(),
        }
    }
}
