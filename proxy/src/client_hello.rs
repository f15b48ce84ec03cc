//! Reads a TLS ClientHello without consuming or answering it.
//!
//! Sans-I/O: bytes in, facts out, at any split of the bytes over packets and of the message over
//! records (a hello with an ML-KEM key share spans packets as a rule). It finds what policy needs
//! (the server name, ALPN, encrypted client hello) and leaves the handshake itself to rustls. It
//! never panics, reads each byte once, and holds at most one hello of [`MAX_HELLO`] octets.

use std::net::IpAddr;

use gig_policy::{Fqdn, ParseFqdnError};

use self::reader::Reader;

mod reader;

/// What a ClientHello says about where it wants to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHelloFacts {
    /// The `server_name` extension.
    pub sni: Sni,
    /// The offered application protocols, in order; not validated beyond their length.
    pub alpn: Vec<Box<[u8]>>,
    /// An `encrypted_client_hello` extension is there. GREASE looks the same as the real one.
    pub ech: bool,
}

impl ClientHelloFacts {
    /// Whether `protocol` (such as `b"h2"`) is offered.
    #[must_use]
    pub fn offers(&self, protocol: &[u8]) -> bool {
        self.alpn.iter().any(|p| **p == *protocol)
    }
}

/// The `server_name` extension (RFC 6066 §3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sni {
    /// Not there.
    Absent,
    /// One canonical name.
    Name(Fqdn),
    /// There, but not one valid name.
    Bad(BadSni),
}

impl Sni {
    /// The name, if there is a valid one.
    #[must_use]
    pub const fn name(&self) -> Option<&Fqdn> {
        match self {
            Self::Name(name) => Some(name),
            Self::Absent | Self::Bad(_) => None,
        }
    }
}

/// Why a `server_name` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSni {
    /// RFC 6066 §3: literal addresses are not permitted.
    #[error("the server name is an IP address")]
    Address,
    /// RFC 6066 §3: no more than one name of a type.
    #[error("there are several server names")]
    Several,
    /// Not a host name: characters, length, more than one trailing dot.
    #[error("the server name is not a host name")]
    Malformed,
}

/// Puts a hello together from the bytes of a connection.
#[derive(Debug, Default)]
pub struct Assembly {
    /// How much of the raw bytes was looked at.
    taken: usize,
    /// How much of the current record is still to come.
    record_left: usize,
    /// The handshake message so far, header included.
    message: Vec<u8>,
}

/// How far an assembly is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The hello is not complete.
    NeedMore,
    /// It is complete, and says this.
    Hello(ClientHelloFacts),
    /// It is not a ClientHello that any server would take.
    Invalid,
}

impl Assembly {
    /// Looks at `raw`, all bytes of the connection so far: each call gets the bytes of the last and more.
    #[must_use]
    pub fn advance(&mut self, raw: &[u8]) -> Progress {
        loop {
            if self.record_left == 0 {
                match record_header(raw.get(self.taken..).unwrap_or_default()) {
                    Header::Short => return Progress::NeedMore,
                    Header::Bad => return Progress::Invalid,
                    Header::Record(length) => {
                        self.taken += RECORD_HEADER;
                        self.record_left = length;
                    }
                }
            }
            let rest = raw.get(self.taken..).unwrap_or_default();
            let piece = rest.get(..self.record_left).unwrap_or(rest);
            self.message.extend_from_slice(piece);
            self.taken += piece.len();
            self.record_left -= piece.len();
            match message_length(&self.message) {
                Length::Bad => return Progress::Invalid,
                Length::Known(total) if self.message.len() + self.record_left > total => {
                    // RFC 8446 §5.1: handshake messages must not be interleaved with a change of keys;
                    // no client puts another message behind its hello in one record.
                    return Progress::Invalid;
                }
                Length::Known(total) if self.message.len() == total => {
                    let body = self.message.get(HANDSHAKE_HEADER..).unwrap_or_default();
                    return facts(body).map_or(Progress::Invalid, Progress::Hello);
                }
                Length::Known(_) | Length::Unknown if self.record_left > 0 => {
                    return Progress::NeedMore;
                }
                Length::Known(_) | Length::Unknown => {}
            }
        }
    }
}

/// Whether a connection that starts with this octet can only be TLS (a handshake record).
#[must_use]
pub const fn starts_tls(first: u8) -> bool {
    first == HANDSHAKE_RECORD
}

/// Whether these are the first octets of an SSLv2 ClientHello (RFC 5246 §E.2), which nobody takes
/// any more: two octets of length with the top bit set, type 1, version 2.0 or 3.x.
#[must_use]
pub fn is_sslv2(first: &[u8]) -> bool {
    matches!(first, [length, _, 1, 0 | 2 | 3, ..] if length & 0x80 != 0)
}

enum Header {
    Short,
    Bad,
    Record(usize),
}

fn record_header(raw: &[u8]) -> Header {
    let known_bad = raw.first().is_some_and(|kind| *kind != HANDSHAKE_RECORD)
        || raw.get(1).is_some_and(|major| *major != 3);
    if known_bad {
        return Header::Bad;
    }
    let &[_, _, minor, high, low, ..] = raw else {
        return Header::Short;
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    // RFC 8446 §5.1: no empty handshake fragments, at most 2^14 octets.
    if minor > 4 || length == 0 || length > MAX_RECORD {
        return Header::Bad;
    }
    Header::Record(length)
}

enum Length {
    Unknown,
    Bad,
    Known(usize),
}

fn message_length(message: &[u8]) -> Length {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Length::Bad;
    }
    let &[_, a, b, c, ..] = message else {
        return Length::Unknown;
    };
    let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
    if length > MAX_HELLO {
        return Length::Bad;
    }
    Length::Known(HANDSHAKE_HEADER + length)
}

/// RFC 8446 §4.1.2.
fn facts(body: &[u8]) -> Option<ClientHelloFacts> {
    let mut hello = Reader::new(body);
    hello.take(2 + 32)?;
    let session = hello.vector8()?;
    let suites = hello.vector16()?;
    let compression = hello.vector8()?;
    if session.len() > 32 || suites.is_empty() || suites.len() % 2 != 0 || compression.is_empty() {
        return None;
    }
    let mut found = ClientHelloFacts {
        sni: Sni::Absent,
        alpn: Vec::new(),
        ech: false,
    };
    if hello.is_empty() {
        return Some(found);
    }
    let mut extensions = Reader::new(hello.vector16()?);
    if !hello.is_empty() {
        return None;
    }
    let mut seen = Vec::new();
    while !extensions.is_empty() {
        let kind = extensions.u16()?;
        let data = extensions.vector16()?;
        seen.push(kind);
        match kind {
            SERVER_NAME => found.sni = server_name(data)?,
            ALPN => found.alpn = protocols(data)?,
            ENCRYPTED_CLIENT_HELLO => found.ech = true,
            _ => {}
        }
    }
    // RFC 8446 §4.2: "There MUST NOT be more than one extension of the same type".
    seen.sort_unstable();
    if seen.windows(2).any(|pair| pair.first() == pair.last()) {
        return None;
    }
    Some(found)
}

/// RFC 6066 §3.
fn server_name(data: &[u8]) -> Option<Sni> {
    let mut outer = Reader::new(data);
    let mut list = Reader::new(outer.vector16()?);
    if !outer.is_empty() {
        return None;
    }
    if list.is_empty() {
        return Some(Sni::Bad(BadSni::Malformed));
    }
    let mut names = Vec::new();
    while !list.is_empty() {
        let kind = list.take(1)?;
        let name = list.vector16()?;
        names.push((kind, name));
    }
    Some(match names.as_slice() {
        [([HOST_NAME], name)] => host_name(name),
        [_] => Sni::Bad(BadSni::Malformed),
        _ => Sni::Bad(BadSni::Several),
    })
}

fn host_name(name: &[u8]) -> Sni {
    let text = match std::str::from_utf8(name) {
        // RFC 6066 §3 wants none, and clients send the one of a name that is written as absolute.
        Ok(text) if text.is_ascii() => text.strip_suffix('.').unwrap_or(text),
        _ => return Sni::Bad(BadSni::Malformed),
    };
    if text.ends_with('.') {
        return Sni::Bad(BadSni::Malformed);
    }
    if text.parse::<IpAddr>().is_ok() {
        return Sni::Bad(BadSni::Address);
    }
    match Fqdn::parse(text) {
        Ok(name) => Sni::Name(name),
        Err(ParseFqdnError::IpSpelling(_)) => Sni::Bad(BadSni::Address),
        Err(_) => Sni::Bad(BadSni::Malformed),
    }
}

/// RFC 7301 §3.1.
fn protocols(data: &[u8]) -> Option<Vec<Box<[u8]>>> {
    let mut outer = Reader::new(data);
    let mut list = Reader::new(outer.vector16()?);
    if !outer.is_empty() || list.is_empty() {
        return None;
    }
    let mut protocols = Vec::new();
    while !list.is_empty() {
        let protocol = list.vector8()?;
        if protocol.is_empty() {
            return None;
        }
        protocols.push(protocol.into());
    }
    Some(protocols)
}

/// Octets of one hello. Real ones stay under 4 KiB, two post-quantum key shares included; OpenSSL
/// takes 131,396, Go 65,535.
pub const MAX_HELLO: usize = 32 * 1024;
/// RFC 8446 §5.1.
const MAX_RECORD: usize = 1 << 14;
const RECORD_HEADER: usize = 5;
const HANDSHAKE_HEADER: usize = 4;
const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const HOST_NAME: u8 = 0;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
/// RFC 9849.
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

#[cfg(test)]
pub(crate) mod tests;
