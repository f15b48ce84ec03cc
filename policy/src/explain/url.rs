//! The URL that a person asks about.
//!
//! Read as strictly as a request: canonical host, a port, a normalised path. The query is cut off, user
//! information refused.

use thiserror::Error;

use crate::{
    host::{Host, ParseHostError, Port},
    intent::AppProtocol,
    path::{self, NormalisePathError},
};

/// The parts that are decided on.
#[derive(Debug)]
pub(super) struct Url {
    pub(super) protocol: AppProtocol,
    pub(super) host: Host,
    pub(super) port: Port,
    pub(super) path: String,
    pub(super) had_query: bool,
}

/// Why a URL cannot be explained.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseUrlError {
    /// No scheme, or one that no sandbox speaks.
    #[error("{0:?} is not a URL to test: write https://…, http://… or tcp://host:port")]
    Scheme(String),
    /// `user@host`.
    #[error("{0:?} holds user information: leave it out")]
    UserInformation(String),
    /// Not a host.
    #[error("the host of {0:?} cannot be asked for: {1}")]
    Host(String, String),
    /// Not a port, or none where one is needed.
    #[error("{0:?} has no port that can be connected to: ports are 1 to 65535")]
    Port(String),
    /// A path that is refused before any rule is asked.
    #[error("the path of {0:?} is refused before any rule is asked: {1}")]
    Path(String, NormalisePathError),
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, ParseUrlError> {
        use ParseUrlError as E;
        let own = || text.to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(|| E::Scheme(own()))?;
        let (protocol, default) = match scheme.to_ascii_lowercase().as_str() {
            "https" | "wss" => (AppProtocol::Https, Some(Port::HTTPS)),
            "http" | "ws" => (AppProtocol::Http, Some(Port::HTTP)),
            "tcp" => (AppProtocol::Tcp, None),
            _ => return Err(E::Scheme(own())),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(E::UserInformation(own()));
        }
        let (host, digits) = match authority.rsplit_once(':') {
            Some((host, digits)) if !digits.contains(']') => (host, Some(digits)),
            _ => (authority, None),
        };
        // RFC 3986 §3.2.3: an empty one is none.
        let number = digits.filter(|d| !d.is_empty()).map(|d| {
            d.parse()
                .ok()
                .filter(|_| d.bytes().all(|b| b.is_ascii_digit()))
        });
        let port = match number {
            None => default,
            Some(number) => number.and_then(Port::new),
        };
        let tail = tail.split('#').next().unwrap_or("");
        let (raw_path, query) = match tail.split_once('?') {
            Some((path, _)) => (path, true),
            None => (tail, false),
        };
        let normal = path::normalise(raw_path).map_err(|why| E::Path(own(), why))?;
        let because = |error: ParseHostError| match error {
            ParseHostError::Name(inner) => inner.to_string(),
            other @ ParseHostError::BadIpv6(_) => other.to_string(),
        };
        Ok(Self {
            protocol,
            host: Host::parse(host).map_err(|e| E::Host(own(), because(e)))?,
            port: port.ok_or_else(|| E::Port(own()))?,
            path: normal.into_string(),
            had_query: query,
        })
    }
}
