//! One name or refuse: destination, SNI and Host must say the same.
//!
//! Pure. A name learnt from a synthetic destination, a ClientHello or a Host header is canonical
//! already, so that agreeing is equality. Nothing is repaired and no name outranks another: a raw
//! address says nothing about names, so the first name seen on such a connection counts, and every
//! later one must repeat it.

use std::net::IpAddr;

use gig_policy::{DenyReason, Fqdn, Handling, Host, Port};
use thiserror::Error;

use crate::client_hello::{BadSni, ClientHelloFacts, Sni};

pub mod names;

/// Where a connection goes by its address, or by what an explicit proxy request named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// A name (synthetic address or `CONNECT name:port`) or a raw address.
    pub host: Host,
    /// The port.
    pub port: Port,
}

/// `host[:port]` of a Host header, `:authority` or request target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port, where one was written.
    pub port: Option<Port>,
}

/// The names of one connection or request do not agree, or are missing where one is needed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Disagreement {
    /// Two hosts.
    #[error("{said} was named on a connection to {connection}")]
    Hosts {
        /// Whom the connection is to.
        connection: Host,
        /// What was said afterwards.
        said: Host,
    },
    /// Two ports.
    #[error("port {said} was named on a connection to port {connection}")]
    Ports {
        /// The port of the connection.
        connection: Port,
        /// What was said afterwards.
        said: Port,
    },
    /// The ClientHello's name is none.
    #[error("the ClientHello names no host")]
    Sni(#[source] BadSni),
    /// The connection is not opened, and its ClientHello may hold another name, encrypted.
    #[error("the ClientHello may hide a name, and the connection is not to be opened")]
    Hidden,
}

impl Disagreement {
    /// The word for records and answers.
    #[must_use]
    pub const fn reason(&self) -> DenyReason {
        match self {
            Self::Hosts { .. } | Self::Ports { .. } => DenyReason::NamesDisagree,
            Self::Sni(BadSni::Address | BadSni::Malformed) => DenyReason::MalformedName,
            Self::Sni(BadSni::Several) => DenyReason::NamesDisagree,
            Self::Hidden => DenyReason::NameMissing,
        }
    }
}

/// Not `host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("not a host with an optional port")]
pub struct ParseAuthorityError;

impl Authority {
    /// Reads `host[:port]` (RFC 3986 §3.2 without userinfo).
    ///
    /// # Errors
    /// When there is userinfo, an empty or spelled-out host, or a port that is none.
    pub fn parse(text: &str) -> Result<Self, ParseAuthorityError> {
        let (host, port) = match text.rfind(']') {
            Some(end) if text.starts_with('[') => text.split_at_checked(end + 1),
            Some(_) => None,
            None => text
                .find(':')
                .map_or(Some((text, "")), |colon| text.split_at_checked(colon)),
        }
        .ok_or(ParseAuthorityError)?;
        // Without brackets an IPv6 address is no authority: its last group would be a port.
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            // RFC 3986 §3.2.3: as if none were written.
            Some("") => None,
            Some(digits) => Some(parse_port(digits)?),
            None => return Err(ParseAuthorityError),
        };
        // Host::parse takes U-labels too; in an authority only ASCII may stand (RFC 9110 §4.2.3).
        if !text.is_ascii() {
            return Err(ParseAuthorityError);
        }
        let host = Host::parse(host).map_err(|_| ParseAuthorityError)?;
        Ok(Self { host, port })
    }
}

fn parse_port(digits: &str) -> Result<Port, ParseAuthorityError> {
    let plain = (1..=5).contains(&digits.len()) && digits.bytes().all(|d| d.is_ascii_digit());
    digits
        .parse()
        .ok()
        .filter(|_| plain)
        .and_then(Port::new)
        .ok_or(ParseAuthorityError)
}

/// The one host that a TLS connection is for.
///
/// Without a server name it is for its destination: the name behind a synthetic address, or the raw
/// address itself.
///
/// # Errors
/// When the ClientHello names another host than the destination, or a bad one.
pub fn agree_tls(destination: &Destination, sni: &Sni) -> Result<Host, Disagreement> {
    match (sni, &destination.host) {
        (Sni::Bad(bad), _) => Err(Disagreement::Sni(*bad)),
        (Sni::Absent, host) => Ok(host.clone()),
        (Sni::Name(name), Host::Ip(_)) => Ok(Host::Name(name.clone())),
        (Sni::Name(name), Host::Name(wanted)) if name == wanted => Ok(Host::Name(name.clone())),
        (Sni::Name(name), Host::Name(wanted)) => Err(Disagreement::Hosts {
            connection: Host::Name(wanted.clone()),
            said: Host::Name(name.clone()),
        }),
    }
}

/// Whether a hello may be passed on unopened (or must be opened, where `handling` says so).
///
/// A connection that is opened fails safely when its client insists on encrypted client hello: the
/// handshake is ours, and each request's host is checked. One that is passed on could name anybody
/// inside, and GREASE (RFC 9849 §6.2) cannot be told from the real thing, so both are refused.
///
/// # Errors
/// [`Disagreement::Hidden`].
pub const fn agree_handling(
    hello: &ClientHelloFacts,
    handling: Handling,
) -> Result<(), Disagreement> {
    match handling {
        Handling::Passthrough if hello.ech => Err(Disagreement::Hidden),
        Handling::Inspect | Handling::Passthrough | Handling::Opaque => Ok(()),
    }
}

/// The one host that a request is for, on a connection already known to be for `connection`.
///
/// In clear text to a raw address (`named` false) the Host header is the first name there is and
/// counts; everywhere else it must repeat the connection's. An authority without a port claims none.
///
/// # Errors
/// When host or port differ.
pub fn agree_request(
    connection: &Destination,
    named: bool,
    authority: &Authority,
) -> Result<Host, Disagreement> {
    if let Some(said) = authority.port
        && said != connection.port
    {
        return Err(Disagreement::Ports {
            connection: connection.port,
            said,
        });
    }
    let first_name = !named
        && matches!(
            (&connection.host, &authority.host),
            (Host::Ip(_), Host::Name(_))
        );
    if first_name || authority.host == connection.host {
        return Ok(authority.host.clone());
    }
    Err(Disagreement::Hosts {
        connection: connection.host.clone(),
        said: authority.host.clone(),
    })
}

/// What a raw address and a synthetic table say together.
#[must_use]
pub fn destination(ip: IpAddr, name: Option<Fqdn>, port: Port) -> Destination {
    Destination {
        host: name.map_or_else(|| Host::from(ip), Host::from),
        port,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Fqdn {
        Fqdn::parse(text).unwrap()
    }

    fn to(host: &str, port: u16) -> Destination {
        Destination {
            host: Host::parse(host).unwrap(),
            port: Port::new(port).unwrap(),
        }
    }

    fn ask(connection: &Destination, named: bool, text: &str) -> Result<Host, Disagreement> {
        agree_request(connection, named, &Authority::parse(text).unwrap())
    }

    #[test]
    fn authorities_are_read_strictly() {
        let parsed = Authority::parse("API.example.com.:8443").unwrap();
        assert_eq!(parsed.host, Host::Name(name("api.example.com")));
        assert_eq!(parsed.port, Port::new(8443));
        assert!(
            Authority::parse("[2001:db8::1]:443")
                .unwrap()
                .port
                .is_some()
        );
        assert_eq!(Authority::parse("192.0.2.1").unwrap().port, None);
        assert_eq!(Authority::parse("a.example:").unwrap().port, None);
        for bad in [
            "",
            ":443",
            "a.example:0",
            "a.example:65536",
            "a.example:+80",
            "a.example:080443",
            "u@a.example",
            "u:p@a.example:80",
            "2001:db8::1",
            "[2001:db8::1",
            "2001:db8::1]",
            "[a.example]",
            "[::1]80",
            "a.example/x",
            "a.example:80:80",
            "a b",
            "127.1",
            "0x7f000001",
            "\u{e9}.example",
            "a.example,b.example",
            "a.example:80 ",
        ] {
            assert_eq!(Authority::parse(bad), Err(ParseAuthorityError), "{bad:?}");
        }
    }

    #[test]
    fn the_server_name_must_repeat_a_named_destination() {
        let a = Sni::Name(name("a.example"));
        assert_eq!(
            agree_tls(&to("a.example", 443), &a),
            Ok(Host::Name(name("a.example")))
        );
        let other = agree_tls(&to("b.example", 443), &a).unwrap_err();
        assert_eq!(other.reason(), DenyReason::NamesDisagree);
        assert_eq!(
            agree_tls(&to("192.0.2.1", 443), &a),
            Ok(Host::Name(name("a.example")))
        );
        assert_eq!(
            agree_tls(&to("a.example", 443), &Sni::Absent),
            Ok(Host::Name(name("a.example")))
        );
        let bad = agree_tls(&to("a.example", 443), &Sni::Bad(BadSni::Address)).unwrap_err();
        assert_eq!(bad.reason(), DenyReason::MalformedName);
    }

    #[test]
    fn the_host_header_must_repeat_the_connection() {
        let connection = to("a.example", 443);
        assert!(ask(&connection, true, "A.example.").is_ok());
        assert!(ask(&connection, true, "a.example:443").is_ok());
        assert!(ask(&connection, true, "b.example").is_err());
        assert!(ask(&connection, true, "a.example:80").is_err());
        assert!(ask(&connection, true, "192.0.2.1").is_err());
    }

    #[test]
    fn a_raw_address_takes_its_name_from_clear_text_only_once() {
        let raw = to("192.0.2.1", 80);
        assert_eq!(
            ask(&raw, false, "a.example"),
            Ok(Host::Name(name("a.example")))
        );
        assert_eq!(ask(&raw, false, "192.0.2.1"), Ok(raw.host.clone()));
        assert!(ask(&raw, false, "192.0.2.2").is_err());
        assert!(ask(&raw, true, "a.example").is_err());
    }

    #[test]
    fn a_hidden_name_is_refused_where_the_connection_is_not_opened() {
        let hello = ClientHelloFacts {
            sni: Sni::Absent,
            alpn: Vec::new(),
            ech: true,
        };
        assert!(agree_handling(&hello, Handling::Inspect).is_ok());
        let refused = agree_handling(&hello, Handling::Passthrough).unwrap_err();
        assert_eq!(refused.reason(), DenyReason::NameMissing);
    }

    proptest! {
        #[test]
        fn what_parses_is_written_back_to_the_same(text in "[a-zA-Z0-9.:\\[\\]@-]{0,40}") {
            if let Ok(authority) = Authority::parse(&text) {
                let again = match authority.port {
                    Some(port) => format!("{}:{port}", authority.host),
                    None => authority.host.to_string(),
                };
                prop_assert_eq!(Authority::parse(&again), Ok(authority));
            }
        }
    }
}
