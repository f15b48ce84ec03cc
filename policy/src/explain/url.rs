//! The URL that a person asks about.
//!
//! Read as strictly as a request: canonical host, a port, a normalised path. The query is cut off, user
//! information refused. What the proxy would take for no request is no error: it is denied.

use thiserror::Error;

use crate::{
    host::{Host, ParseHostError, Port},
    http_match::is_token,
    intent::AppProtocol,
    path,
};

/// The parts that are decided on.
#[derive(Debug)]
pub(super) struct Url {
    pub(super) protocol: AppProtocol,
    pub(super) host: Host,
    pub(super) port: Port,
    /// As written, where it is malformed.
    pub(super) path: String,
    pub(super) had_query: bool,
    /// Why it is no request that the proxy reads.
    pub(super) malformed: Option<String>,
}

/// A URL whose host is none that a request can name.
#[derive(Debug)]
pub(super) struct Hostless {
    pub(super) protocol: AppProtocol,
    pub(super) host: String,
    pub(super) port: Port,
    pub(super) path: String,
    pub(super) why: String,
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
    /// No host.
    #[error("{0:?} names no host: it is empty")]
    Host(String),
    /// Not a port, or none where one is needed.
    #[error("{0:?} has no port that can be connected to: ports are 1 to 65535")]
    Port(String),
}

impl Url {
    /// What `method` is asked for at.
    pub(super) fn parse(
        method: &str,
        text: &str,
    ) -> Result<Result<Self, Box<Hostless>>, ParseUrlError> {
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
            Some((path, query)) => (path, Some(query)),
            None => (tail, None),
        };
        // The target of `OPTIONS *` (RFC 9112 §3.2.4): no host ends so.
        let (host, raw_path) = match host.strip_suffix('*') {
            Some(host) if raw_path.is_empty() => (host, "*"),
            _ => (host, raw_path),
        };
        if host.is_empty() {
            return Err(E::Host(own()));
        }
        let port = port.ok_or_else(|| E::Port(own()))?;
        let (path, malformed) = match read(method, raw_path, query) {
            Ok(path) => (path, None),
            Err(why) => (raw_path.to_owned(), Some(why)),
        };
        let because = |error: ParseHostError| match error {
            ParseHostError::Name(inner) => inner.to_string(),
            other @ ParseHostError::BadIpv6(_) => other.to_string(),
        };
        Ok(match Host::parse(host) {
            Ok(host) => Ok(Self {
                protocol,
                host,
                port,
                path,
                had_query: query.is_some(),
                malformed,
            }),
            Err(error) => Err(Box::new(Hostless {
                protocol,
                host: host.to_owned(),
                port,
                path,
                why: because(error),
            })),
        })
    }
}

/// The path in its one spelling, of a request line that can be read.
fn read(method: &str, path: &str, query: Option<&str>) -> Result<String, String> {
    if !is_token(method) {
        return Err(format!("{method:?} is not an HTTP method"));
    }
    // As `http::Uri` has it, which all HTTP comes through here.
    let odd = path.find(['<', '>', '`']);
    let odd = odd.and_then(|at| path.get(at..));
    let of_query = |text: &&str| {
        text.chars()
            .any(|c| matches!(c, '"' | '<' | '>') || c <= ' ' || c == '\x7f')
    };
    if let Some(odd) = odd.or_else(|| query.filter(of_query)) {
        return Err(format!(
            "in a URL, \" < > ` and blanks are written percent-encoded: {odd:?}"
        ));
    }
    let normal = path::normalise(path).map_err(|why| why.to_string())?;
    Ok(normal.into_string())
}
