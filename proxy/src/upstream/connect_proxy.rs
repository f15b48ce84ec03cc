//! Reaching origins through the host's own HTTP proxy (`HTTPS_PROXY`), by CONNECT.
//!
//! The proxy is asked for the *vetted address*, not for the name, so that vetting holds behind it
//! too. A host behind such a proxy may have no name server for outside names: with
//! `GIG_UPSTREAM_PROXY_NAMES=proxy`, or when `/etc/resolv.conf` names no server at all, the proxy is
//! asked for the name, and refusing private addresses is then the proxy's part; raw addresses are
//! vetted even so. A failed look-up alone never falls back to the name: whoever owns a zone could
//! bring that about. Only `http://` proxies are spoken to; every port goes by CONNECT.

use std::{fmt, net::IpAddr, str::FromStr};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use gig_policy::{Host, Port};
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use thiserror::Error;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::authority::Authority;

mod bypass;

use self::bypass::Bypass;

/// The host's proxy, and what goes past it.
#[derive(Clone)]
pub struct UpstreamProxy {
    host: Host,
    port: Port,
    credentials: Option<String>,
    bypass: Vec<Bypass>,
    resolves: bool,
}

/// A proxy variable cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{variable} cannot be used: {why}")]
pub struct ParseProxyError {
    /// The variable.
    pub variable: &'static str,
    /// What is wrong; holds no credential.
    pub why: &'static str,
}

/// That an origin was not reached is the doing of the host's proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProxyFault {
    /// It answered this in place of a tunnel.
    Answered(u16),
    /// No connection to it could be made, so that nobody was asked for the origin.
    Unreached,
    /// It ended the connection, or answered in something other than HTTP.
    Broken,
}

impl ProxyFault {
    /// Reads it back from a finding; `None` where that is another.
    #[must_use]
    pub fn of_finding(finding: &str) -> Option<Self> {
        Some(match finding.strip_prefix(FAULT)? {
            "unreached" => Self::Unreached,
            "broken" => Self::Broken,
            status => Self::Answered(status.parse().ok()?),
        })
    }
}

impl fmt::Display for ProxyFault {
    /// As a finding has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FAULT)?;
        match self {
            Self::Answered(status) => status.fmt(f),
            Self::Unreached => f.write_str("unreached"),
            Self::Broken => f.write_str("broken"),
        }
    }
}

/// The proxy did not make a tunnel.
#[derive(Debug, Error)]
pub enum TunnelError {
    /// It answered no.
    #[error("the host's proxy answered {0} to CONNECT")]
    Refused(u16),
    /// It did not speak HTTP.
    #[error("the host's proxy did not answer in HTTP")]
    Malformed,
    /// The connection to it broke.
    #[error("the connection to the host's proxy broke")]
    Io(#[from] std::io::Error),
}

impl UpstreamProxy {
    /// Reads `HTTPS_PROXY`, `https_proxy`, `ALL_PROXY`, `all_proxy`, `NO_PROXY`, `no_proxy` and
    /// `GIG_UPSTREAM_PROXY_NAMES` (`here` or `proxy`) by means of `variable`; `None` when no proxy is
    /// set.
    ///
    /// # Errors
    /// When a variable is set to something unusable.
    pub fn from_env(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, ParseProxyError> {
        let set = |name: &'static str| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(|value| (name, value))
        };
        let Some((name, url)) = TAKEN.into_iter().find_map(set) else {
            return Ok(None);
        };
        let mut proxy = Self::from_url(name, &url)?;
        if let Some((_, list)) = ["NO_PROXY", "no_proxy"].into_iter().find_map(set) {
            proxy.bypass = Bypass::parse_list(&list);
        }
        proxy.resolves = match set(NAMES).as_ref().map(|(_, value)| value.as_str()) {
            None | Some("here") => false,
            Some("proxy") => true,
            Some(_) => {
                return Err(ParseProxyError {
                    variable: NAMES,
                    why: "it is neither here nor proxy",
                });
            }
        };
        Ok(Some(proxy))
    }

    /// The variable that names a proxy which gig does not take: `HTTP_PROXY` and `http_proxy` speak of clear text
    /// alone, and nothing names one for the rest.
    #[must_use]
    pub fn overlooked(variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
        let set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
        if TAKEN.iter().any(set) {
            return None;
        }
        ["HTTP_PROXY", "http_proxy"]
            .into_iter()
            .find(|name| set(name))
    }

    fn from_url(variable: &'static str, url: &str) -> Result<Self, ParseProxyError> {
        let wrong = |why| ParseProxyError { variable, why };
        let rest = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some(_) => {
                return Err(wrong(
                    "gig speaks to http:// proxies alone, which tunnel TLS unread as well: name one (many proxies \
                     take http:// on another port), or start gig without the variable (env -u NAME gig …)",
                ));
            }
            None => url,
        };
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (userinfo, authority) = match rest.rsplit_once('@') {
            Some((userinfo, authority)) => (Some(userinfo), authority),
            None => (None, rest),
        };
        let authority =
            Authority::parse(authority).map_err(|_| wrong("it names no host and port"))?;
        let credentials = userinfo.map(basic).transpose().map_err(wrong)?;
        Ok(Self {
            host: authority.host,
            port: authority.port.unwrap_or(Port::HTTP),
            credentials,
            bypass: Vec::new(),
            resolves: false,
        })
    }

    /// The proxy's host.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Its port; 80 where the URL says none (RFC 9110 §4.2.1).
    #[must_use]
    pub const fn port(&self) -> Port {
        self.port
    }

    /// Whether it is asked for names rather than addresses.
    #[must_use]
    pub const fn resolves(&self) -> bool {
        self.resolves
    }

    /// Whether connections to `host` and `port` go past the proxy, as `NO_PROXY` says.
    #[must_use]
    pub fn bypasses(&self, host: &Host, port: Port) -> bool {
        self.bypass.iter().any(|entry| entry.covers(host, port))
    }

    /// Whether an address goes past it: `NO_PROXY` names it, or it is loopback, which behind the
    /// proxy is another machine.
    #[must_use]
    pub fn bypasses_address(&self, ip: IpAddr, port: Port) -> bool {
        ip.is_loopback() || self.bypasses(&Host::from(ip), port)
    }

    /// Asks for a tunnel to `host` and `port` on a connection to the proxy. Reads not one octet past
    /// the answer, since what follows is the origin's.
    ///
    /// # Errors
    /// When the proxy refuses or breaks.
    pub async fn tunnel(
        &self,
        stream: &mut TcpStream,
        host: &Host,
        port: Port,
    ) -> Result<(), TunnelError> {
        let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        if let Some(credentials) = &self.credentials {
            request.push_str("Proxy-Authorization: Basic ");
            request.push_str(credentials);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        for _ in 0..MAX_HEADS {
            let head = read_head(stream).await?;
            match status(&head).ok_or(TunnelError::Malformed)? {
                // RFC 9110 §15.2: what is interim is followed by the answer.
                100 | 102..=199 => {}
                200..=299 => return Ok(()),
                refused => return Err(TunnelError::Refused(refused)),
            }
        }
        Err(TunnelError::Malformed)
    }
}

impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamProxy")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("credentials", &self.credentials.as_ref().map(|_| "…"))
            .field("resolves", &self.resolves)
            .finish_non_exhaustive()
    }
}

/// RFC 7617 §2, from the percent-encoded userinfo of the URL.
fn basic(userinfo: &str) -> Result<String, &'static str> {
    let decode = |part: &str| percent_decode_str(part).collect::<Vec<u8>>();
    let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let (user, password) = (decode(user), decode(password));
    if user.contains(&b':') {
        return Err("its user name holds a colon");
    }
    let mut pair = user;
    pair.push(b':');
    pair.extend(password);
    Ok(BASE64_STANDARD.encode(pair))
}

/// Takes from the stream up to the empty line, and nothing after it: what is there is looked at
/// before it is taken.
async fn read_head(stream: &mut TcpStream) -> Result<Vec<u8>, TunnelError> {
    let mut head = Vec::new();
    let mut seen = vec![0; MAX_HEAD];
    loop {
        let count = stream.peek(&mut seen).await?;
        if count == 0 {
            return Err(TunnelError::Malformed);
        }
        let before = head.len();
        head.extend_from_slice(seen.get(..count).unwrap_or_default());
        let end = memchr::memmem::find(&head, b"\r\n\r\n").map(|at| at + 4);
        head.truncate(end.unwrap_or(head.len()));
        let taken = head.len().saturating_sub(before);
        stream
            .read_exact(seen.get_mut(..taken).unwrap_or_default())
            .await?;
        if end.is_some() {
            return Ok(head);
        }
        if head.len() >= MAX_HEAD {
            return Err(TunnelError::Malformed);
        }
    }
}

/// RFC 9112 §4.
fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|octet| *octet == b'\r').next()?;
    let text = std::str::from_utf8(line).ok()?;
    let rest = text
        .strip_prefix("HTTP/1.1 ")
        .or_else(|| text.strip_prefix("HTTP/1.0 "))?;
    let (code, _) = rest.split_at_checked(3)?;
    u16::from_str(code)
        .ok()
        .filter(|code| (100..600).contains(code))
}

/// The networks of a `NO_PROXY` entry.
fn net(text: &str) -> Option<IpNet> {
    text.parse().ok()
}

/// How the finding of a [`ProxyFault`] begins.
const FAULT: &str = "upstream_proxy:";
/// The variables that are read, the first that is set before the others.
const TAKEN: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const NAMES: &str = "GIG_UPSTREAM_PROXY_NAMES";
/// An answer, and what may be interim before it.
const MAX_HEADS: usize = 8;
/// Squid's error pages follow the head; the head itself stays far below.
const MAX_HEAD: usize = 16 * 1024;

#[cfg(test)]
mod tests;
