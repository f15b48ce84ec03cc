//! The `--allow` option: one rule in one word.
//!
//! | spelling | allows |
//! | --- | --- |
//! | `HOST` | https on 443 and http on 80 |
//! | `HOST:PORT` | http and https on that port (443: https alone, 80: http alone), each request inspected |
//! | `https:HOST[:PORT]`, `http:HOST[:PORT]` | that protocol alone |
//! | `tls:HOST[:PORT]` | TLS that is not opened, for programs that pin certificates |
//! | `tcp:HOST:PORT` | any bytes: databases, SSH, SMTP |
//!
//! HOST is a name, `*.example.com`, an address (`10.1.2.3`, `[2001:db8::1]`) or a range (`10.20.0.0/16`).

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;
use thiserror::Error;

use crate::{
    compile::{address_range, private_range},
    host::Port,
    host_pattern::{HostPattern, ParseHostPatternError},
    intent::AppProtocol,
    rule::{Rule, RulePort, Target},
    verdict::{Handling, RuleRef},
};

/// Why an option of the command line makes no rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseAllowError {
    /// A URL.
    #[error("--allow {0}: write the host alone, as in `{1}`")]
    Url(String, String),
    /// A host and a path.
    #[error(
        "--allow {0}: an option allows a whole host, as `{1}`; paths are allowed in a policy document (`rules: [{{paths: \
         […]}}]` under the host)"
    )]
    Path(String, String),
    /// No port where one is needed.
    #[error("--allow {0}: say the port, as in `{0}:5432`")]
    PortMissing(String),
    /// Not a port.
    #[error("--allow {0}: {1:?} is not a port: ports are 1 to 65535")]
    BadPort(String, String),
    /// Not a host.
    #[error("--allow {0}: {1}")]
    BadHost(String, ParseHostPatternError),
    /// Not an address or a range that can be opened.
    #[error("--allow {0}: {1}")]
    BadRange(String, String),
    /// Not a range that `--allow-private` may open.
    #[error("--allow-private {0}: {1}")]
    BadPrivate(String, String),
}

/// Reads the value of `--allow`.
pub(crate) fn parse(option: &str) -> Result<Rule, ParseAllowError> {
    let own = || option.to_owned();
    if let Some((_, rest)) = option.split_once("://") {
        let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        return Err(ParseAllowError::Url(own(), host.to_owned()));
    }
    let (scheme, place) = scheme(option);
    if let Some((host, _)) = place.split_once('/')
        && is_name(split_port(host).0)
    {
        return Err(ParseAllowError::Path(own(), host.to_owned()));
    }
    let (host, port) = split_port(place);
    let target = target(option, host)?;
    let port = match port {
        None => None,
        Some(digits) => {
            let number = digits
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| digits.parse().ok());
            let port = number.flatten().and_then(Port::new);
            Some(port.ok_or_else(|| ParseAllowError::BadPort(own(), digits.to_owned()))?)
        }
    };
    let (handling, written) = match scheme {
        None => (Handling::Inspect, None),
        Some(Scheme::Http) => (Handling::Inspect, Some(AppProtocol::Http)),
        Some(Scheme::Https) => (Handling::Inspect, Some(AppProtocol::Https)),
        Some(Scheme::Tls) => (Handling::Passthrough, Some(AppProtocol::Https)),
        Some(Scheme::Tcp) => (Handling::Opaque, Some(AppProtocol::Tcp)),
    };
    let ports = match port {
        Some(port) => vec![RulePort::new(port, handling, written)],
        None if handling == Handling::Opaque => return Err(ParseAllowError::PortMissing(own())),
        None => RulePort::defaults(handling, written),
    };
    Ok(Rule {
        reference: RuleRef(format!("--allow {option}").into()),
        position: None,
        target,
        ports,
        handling,
        requests: None,
        secrets: Arc::default(),
        clear_text_secrets: written == Some(AppProtocol::Http),
        allow_private: Arc::default(),
        expires: None,
    })
}

/// Reads the value of `--allow-private`.
pub(crate) fn parse_private(option: &str) -> Result<IpNet, ParseAllowError> {
    private_range(option).map_err(|why| ParseAllowError::BadPrivate(option.to_owned(), why))
}

/// Whether an option's host is a sandbox's own loopback, where nothing that is dialled leaves it: what
/// stands for the host then, and the port, if there is one.
///
/// `localhost` and the names below it are that by RFC 6761 §6.3.
#[must_use]
pub fn own_loopback(option: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = split_port(scheme(option).1);
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let address = host.parse::<IpAddr>().ok();
    let address = address.or_else(|| Some(host.parse::<IpNet>().ok()?.network()));
    let own = match address {
        Some(address) => address.to_canonical().is_loopback(),
        None => name == "localhost" || name.ends_with(".localhost"),
    };
    own.then_some((host, port))
}

#[derive(Clone, Copy)]
enum Scheme {
    Http,
    Https,
    Tls,
    Tcp,
}

fn scheme(option: &str) -> (Option<Scheme>, &str) {
    let Some((word, rest)) = option.split_once(':') else {
        return (None, option);
    };
    match word {
        "http" => (Some(Scheme::Http), rest),
        "https" => (Some(Scheme::Https), rest),
        "tls" => (Some(Scheme::Tls), rest),
        "tcp" => (Some(Scheme::Tcp), rest),
        _ => (None, option),
    }
}

/// `host:port`, `[v6]:port`, or a host alone; an IPv6 address or range without brackets has no port.
pub(crate) fn split_port(place: &str) -> (&str, Option<&str>) {
    if let Some((inside, after)) = place.strip_prefix('[').and_then(|p| p.split_once(']')) {
        return match after.strip_prefix(':') {
            Some(port) => (inside, Some(port)),
            None if after.is_empty() => (inside, None),
            None => (place, None),
        };
    }
    match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, Some(port)),
        _ => (place, None),
    }
}

/// Whether it is written as a name is, and not as an address.
fn is_name(host: &str) -> bool {
    host.parse::<IpAddr>().is_err() && HostPattern::parse(host).is_ok()
}

fn target(option: &str, host: &str) -> Result<Target, ParseAllowError> {
    if host.parse::<IpAddr>().is_ok() || host.contains('/') {
        let net = address_range(host);
        let net = net.map_err(|why| ParseAllowError::BadRange(option.to_owned(), why))?;
        return Ok(Target::Addresses(net));
    }
    let pattern = HostPattern::parse(host);
    let pattern = pattern.map_err(|why| ParseAllowError::BadHost(option.to_owned(), why))?;
    Ok(Target::Names(pattern))
}

#[cfg(test)]
mod tests {
    use super::own_loopback;

    #[test]
    fn what_never_leaves_a_sandbox_is_known_by_each_spelling() {
        for (option, expected) in [
            ("localhost", Some(("localhost", None))),
            ("LocalHost.:8080", Some(("LocalHost.", Some("8080")))),
            (
                "tcp:db.localhost:5432",
                Some(("db.localhost", Some("5432"))),
            ),
            ("127.0.0.1:80", Some(("127.0.0.1", Some("80")))),
            ("http:127.1.2.3", Some(("127.1.2.3", None))),
            ("127.0.0.0/8", Some(("127.0.0.0/8", None))),
            ("[::1]:443", Some(("::1", Some("443")))),
            ("localhost.example.com:80", None),
            ("notlocalhost:80", None),
            ("10.0.0.1:80", None),
            ("128.0.0.0/8", None),
            ("https:api.example.com", None),
        ] {
            assert_eq!(own_loopback(option), expected, "{option}");
        }
    }
}
