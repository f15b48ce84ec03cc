//! Where a connection wants to go: a name or an address, and a port.
//!
//! Raw host strings become a [`Host`] at the border and never travel inward. Address spellings other
//! than dotted decimal (four parts, no leading zeros) and RFC 4291 text are refused.

use std::{fmt, net::IpAddr, num::NonZeroU16};

use thiserror::Error;

use crate::fqdn::{Fqdn, ParseFqdnError};

/// A name, or an address where the program named none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A canonical name.
    Name(Fqdn),
    /// An address; IPv4-mapped IPv6 is never held here, it is turned into its IPv4 form.
    Ip(IpAddr),
}

/// Why a text is neither a host name nor an address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseHostError {
    /// In brackets, but not an IPv6 address.
    #[error("{0:?} is not an IPv6 address")]
    BadIpv6(String),
    /// Not a name either.
    #[error("not a host name")]
    Name(#[source] ParseFqdnError),
}

impl Host {
    /// Reads a name, a dotted-decimal IPv4 address, or an IPv6 address with or without brackets.
    ///
    /// # Errors
    /// When the text is none of these; every other spelling of an address is an error.
    pub fn parse(text: &str) -> Result<Self, ParseHostError> {
        if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            return inner
                .parse::<std::net::Ipv6Addr>()
                .map(|ip| Self::from(IpAddr::V6(ip)))
                .map_err(|_| ParseHostError::BadIpv6(inner.to_owned()));
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Self::from(ip));
        }
        Fqdn::parse(text)
            .map(Self::Name)
            .map_err(ParseHostError::Name)
    }

    /// The name, when it is one.
    #[must_use]
    pub const fn name(&self) -> Option<&Fqdn> {
        match self {
            Self::Name(name) => Some(name),
            Self::Ip(_) => None,
        }
    }

    /// The address, when it is one.
    #[must_use]
    pub const fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Name(_) => None,
            Self::Ip(ip) => Some(*ip),
        }
    }
}

impl From<IpAddr> for Host {
    fn from(ip: IpAddr) -> Self {
        Self::Ip(ip.to_canonical())
    }
}

impl From<Fqdn> for Host {
    fn from(name: Fqdn) -> Self {
        Self::Name(name)
    }
}

/// As it stands in records and in a `Host` header: IPv6 in brackets.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Ip(IpAddr::V4(ip)) => ip.fmt(f),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

/// A TCP port, 1 to 65535.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(NonZeroU16);

impl Port {
    /// Port 80, `http`.
    pub const HTTP: Self = Self(NonZeroU16::new(80).unwrap());
    /// Port 443, `https`.
    pub const HTTPS: Self = Self(NonZeroU16::new(443).unwrap());

    /// `None` for port 0, which cannot be connected to.
    #[must_use]
    pub const fn new(port: u16) -> Option<Self> {
        match NonZeroU16::new(port) {
            Some(port) => Some(Self(port)),
            None => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }

    /// Whether HTTP is spoken there by the registry (`http`, `https`, and their alternatives), and clients keep spare
    /// connections to it on which they say nothing for long.
    #[must_use]
    pub const fn is_of_the_web(self) -> bool {
        matches!(self.get(), 80 | 443 | 8080 | 8443)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        Host::parse(text).unwrap().to_string()
    }

    #[test]
    fn names_and_addresses_have_one_spelling() {
        for (given, expected) in [
            ("Example.COM.", "example.com"),
            ("10.1.2.3", "10.1.2.3"),
            ("2001:DB8:0::1", "[2001:db8::1]"),
            ("[2001:db8::1]", "[2001:db8::1]"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("[::FFFF:a01:203]", "10.1.2.3"),
        ] {
            assert_eq!(canonical(given), expected, "{given}");
        }
    }

    #[test]
    fn tricks_are_refused() {
        for text in [
            "010.1.2.3",
            "10.1.2.3.",
            "[10.1.2.3]",
            "[::1",
            "::1]",
            "[::1]:80",
            "fe80::1%eth0",
            "[fe80::1%25eth0]",
            "[]",
            "",
            "0xa.1.2.3",
            "10.1.515",
            "1.2.3.4/32",
            " 10.1.2.3",
        ] {
            assert!(
                Host::parse(text).is_err(),
                "{text} is {:?}",
                Host::parse(text)
            );
        }
    }
}
