//! `--resolve HOST:PORT:ADDR[:PORT]`: where a name is really dialled, as curl's option of that name.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use gig_policy::{Fqdn, Port};
use thiserror::Error;

/// One override. The address is vetted like any other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolveOverride {
    /// The name.
    pub host: Fqdn,
    /// The port asked for.
    pub port: Port,
    /// Where to dial instead.
    pub to: SocketAddr,
}

/// Not `HOST:PORT:ADDR[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not HOST:PORT:ADDR[:PORT] ({part})")]
pub struct ParseOverrideError {
    text: String,
    part: &'static str,
}

impl FromStr for ResolveOverride {
    type Err = ParseOverrideError;

    /// IPv6 addresses stand in brackets; without brackets only where no second port follows.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |part| ParseOverrideError {
            text: text.to_owned(),
            part,
        };
        let (host, rest) = text.split_once(':').ok_or_else(|| wrong("no port"))?;
        let (port, address) = rest.split_once(':').ok_or_else(|| wrong("no address"))?;
        let host = Fqdn::parse(host).map_err(|_| wrong("the host is not a name"))?;
        let port = parse_port(port).ok_or_else(|| wrong("the port is not 1 to 65535"))?;
        let to = parse_address(address, port).ok_or_else(|| wrong("the address is none"))?;
        Ok(Self { host, port, to })
    }
}

fn parse_address(text: &str, port: Port) -> Option<SocketAddr> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, rest) = bracketed.split_once(']')?;
        let address = IpAddr::V6(address.parse().ok()?);
        return with_port(address, rest.strip_prefix(':'), rest.is_empty(), port);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(address, port.get()));
    }
    let (address, other) = text.split_once(':')?;
    let address = IpAddr::V4(address.parse().ok()?);
    with_port(address, Some(other), false, port)
}

fn with_port(ip: IpAddr, other: Option<&str>, absent: bool, port: Port) -> Option<SocketAddr> {
    let port = match other {
        Some(other) => parse_port(other)?,
        None if absent => port,
        None => return None,
    };
    Some(SocketAddr::new(ip, port.get()))
}

fn parse_port(text: &str) -> Option<Port> {
    text.parse()
        .ok()
        .filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(Port::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(text: &str) -> String {
        text.parse::<ResolveOverride>().unwrap().to.to_string()
    }

    #[test]
    fn addresses_of_both_families_with_and_without_another_port() {
        assert_eq!(to("a.example:443:127.0.0.1"), "127.0.0.1:443");
        assert_eq!(to("a.example:443:127.0.0.1:8443"), "127.0.0.1:8443");
        assert_eq!(to("a.example:443:[::1]"), "[::1]:443");
        assert_eq!(to("a.example:443:[::1]:8443"), "[::1]:8443");
        assert_eq!(to("a.example:443:2001:db8::1"), "[2001:db8::1]:443");
        let parsed: ResolveOverride = "A.Example.:80:10.0.0.1".parse().unwrap();
        assert_eq!(parsed.host.as_str(), "a.example");
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            "",
            "a.example",
            "a.example:443",
            "a.example:443:",
            "a.example:0:127.0.0.1",
            "a.example:443:127.0.0.1:",
            "a.example:443:127.0.0.1:0",
            "a.example:443:[::1]x",
            "a.example:443:[127.0.0.1]",
            "a.example:443:[::1",
            "127.0.0.1:443:127.0.0.1",
            "*:443:127.0.0.1",
            "a.example:+43:127.0.0.1",
            "a.example:443:b.example",
        ] {
            assert!(bad.parse::<ResolveOverride>().is_err(), "{bad:?}");
        }
    }
}
