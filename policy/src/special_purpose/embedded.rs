//! IPv4 addresses inside IPv6 addresses: every transition mechanism that puts them there.
//!
//! A packet to such an address ends, after a gateway, at the IPv4 address inside. What kind of
//! address that is, is left to [`super::classify`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One IPv4 address found inside an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// The mechanism's name.
    pub mechanism: &'static str,
    /// The IPv4 address it carries.
    pub inside: Ipv4Addr,
    /// Whether the place is a guess, because the operator of the translator chooses it.
    pub advisory: bool,
}

impl Transition {
    /// Every IPv4 address that `address` carries. Empty for IPv4 and for plain IPv6.
    pub fn of(address: IpAddr) -> impl Iterator<Item = Self> {
        let found = match address {
            IpAddr::V4(_) => [None; 4],
            IpAddr::V6(v6) => inside(v6),
        };
        found.into_iter().flatten()
    }
}

const fn certain(mechanism: &'static str, inside: Ipv4Addr) -> Option<Transition> {
    Some(Transition {
        mechanism,
        inside,
        advisory: false,
    })
}

const fn guess(inside: Ipv4Addr) -> Option<Transition> {
    Some(Transition {
        mechanism: "NAT64 with a local prefix (RFC 8215)",
        inside,
        advisory: true,
    })
}

const fn inside(v6: Ipv6Addr) -> [Option<Transition>; 4] {
    let o = v6.octets();
    let low = Ipv4Addr::new(o[12], o[13], o[14], o[15]);
    match v6.segments() {
        // :: and ::1 are rows of their own, not IPv4-compatible addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None; 4],
        [0, 0, 0, 0, 0, 0, _, _] => one("IPv4-compatible (RFC 4291, deprecated)", low),
        [0, 0, 0, 0, 0, 0xffff, _, _] => one("IPv4-mapped (RFC 4291)", low),
        [0, 0, 0, 0, 0xffff, 0, _, _] => one("IPv4-translated (RFC 2765)", low),
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => one("NAT64 (RFC 6052)", low),
        // RFC 6052 §2.2 puts the address after a prefix of 48, 56, 64 or 96 bits, around octet 8.
        [0x64, 0xff9b, 1, ..] => [
            guess(Ipv4Addr::new(o[6], o[7], o[9], o[10])),
            guess(Ipv4Addr::new(o[7], o[9], o[10], o[11])),
            guess(Ipv4Addr::new(o[9], o[10], o[11], o[12])),
            guess(low),
        ],
        [0x2002, ..] => one("6to4 (RFC 3056)", Ipv4Addr::new(o[2], o[3], o[4], o[5])),
        // RFC 4380 §4: the server in clear, the client's address with every bit inverted.
        [0x2001, 0, ..] => [
            certain(
                "Teredo server (RFC 4380)",
                Ipv4Addr::new(o[4], o[5], o[6], o[7]),
            ),
            certain(
                "Teredo client (RFC 4380)",
                Ipv4Addr::new(!o[12], !o[13], !o[14], !o[15]),
            ),
            None,
            None,
        ],
        // RFC 5214 §6.1: the universal bit may be set or not.
        [_, _, _, _, 0 | 0x200, 0x5efe, _, _] => one("ISATAP (RFC 5214)", low),
        _ => [None; 4],
    }
}

const fn one(mechanism: &'static str, inside: Ipv4Addr) -> [Option<Transition>; 4] {
    [certain(mechanism, inside), None, None, None]
}
