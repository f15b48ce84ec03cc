//! The tables: both IANA special-purpose address registries, row by row, and the core.
//!
//! Every row counts as special, those that the registry marks globally reachable too: none of them
//! is where an origin lives, and `allow_private` can name one. Rows that are not in the registries
//! but are not global unicast either (multicast, site-local, everything outside 2000::/3) follow.

#[cfg(test)]
use std::net::IpAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The most specific row that holds the address.
pub(super) fn row_v4(ip: Ipv4Addr) -> Option<&'static str> {
    let bits = ip.to_bits();
    let rows = V4.iter().filter(|r| bits & mask_v4(r.1) == r.0.to_bits());
    rows.max_by_key(|r| r.1).map(|r| r.2)
}

/// The most specific row that holds the address.
pub(super) fn row_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let bits = ip.to_bits();
    let rows = V6.iter().filter(|r| bits & mask_v6(r.1) == r.0.to_bits());
    let row = rows.max_by_key(|r| r.1).map(|r| r.2);
    let outside = bits >> 125 != 1;
    row.or_else(|| outside.then_some("Not global unicast (outside 2000::/3)"))
}

/// What lives at a never-openable address.
pub(super) fn core_v4(ip: Ipv4Addr) -> Option<&'static str> {
    let bits = ip.to_bits();
    let mut rows = CORE_V4.iter();
    rows.find(|r| bits & mask_v4(r.1) == r.0.to_bits())
        .map(|r| r.2)
}

/// What lives at a never-openable address.
pub(super) fn core_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let bits = ip.to_bits();
    let mut rows = CORE_V6.iter();
    rows.find(|r| bits & mask_v6(r.1) == r.0.to_bits())
        .map(|r| r.2)
}

/// A single address of the core: a service, not a range that is closed for its kind.
pub(super) fn is_metadata(ip: Ipv4Addr) -> bool {
    CORE_V4
        .iter()
        .any(|r| r.1 == 32 && r.0 == ip && ip != Ipv4Addr::BROADCAST)
}

/// The core as ranges.
pub(super) fn core_nets() -> impl Iterator<Item = (IpNet, &'static str)> {
    let v4 = CORE_V4.iter().filter_map(|r| {
        let net = Ipv4Net::new(r.0, r.1).ok()?;
        Some((IpNet::V4(net), r.2))
    });
    let v6 = CORE_V6.iter().filter_map(|r| {
        let net = Ipv6Net::new(r.0, r.1).ok()?;
        Some((IpNet::V6(net), r.2))
    });
    v4.chain(v6)
}

/// Every row, for tests and for listings.
#[cfg(test)]
pub(super) fn rows() -> impl Iterator<Item = (IpAddr, u8, &'static str)> {
    let v4 = V4.iter().map(|r| (IpAddr::V4(r.0), r.1, r.2));
    v4.chain(V6.iter().map(|r| (IpAddr::V6(r.0), r.1, r.2)))
}

const fn mask_v4(prefix: u8) -> u32 {
    if prefix == 0 {
        0
    } else {
        u32::MAX << (32 - prefix)
    }
}

const fn mask_v6(prefix: u8) -> u128 {
    if prefix == 0 {
        0
    } else {
        u128::MAX << (128 - prefix)
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

const fn v6(s: [u16; 8]) -> Ipv6Addr {
    Ipv6Addr::new(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7])
}

type RowV4 = (Ipv4Addr, u8, &'static str);
type RowV6 = (Ipv6Addr, u8, &'static str);

/// <https://www.iana.org/assignments/iana-ipv4-special-registry>, then multicast (RFC 5771).
const V4: &[RowV4] = &[
    (v4(0, 0, 0, 0), 8, "\"This network\""),
    (v4(0, 0, 0, 0), 32, "\"This host on this network\""),
    (v4(10, 0, 0, 0), 8, "Private-Use"),
    (v4(100, 64, 0, 0), 10, "Shared Address Space"),
    (v4(127, 0, 0, 0), 8, "Loopback"),
    (v4(169, 254, 0, 0), 16, "Link Local"),
    (v4(172, 16, 0, 0), 12, "Private-Use"),
    (v4(192, 0, 0, 0), 24, "IETF Protocol Assignments"),
    (v4(192, 0, 0, 0), 29, "IPv4 Service Continuity Prefix"),
    (v4(192, 0, 0, 8), 32, "IPv4 dummy address"),
    (v4(192, 0, 0, 9), 32, "Port Control Protocol Anycast"),
    (
        v4(192, 0, 0, 10),
        32,
        "Traversal Using Relays around NAT Anycast",
    ),
    (v4(192, 0, 0, 170), 32, "NAT64/DNS64 Discovery"),
    (v4(192, 0, 0, 171), 32, "NAT64/DNS64 Discovery"),
    (v4(192, 0, 2, 0), 24, "Documentation (TEST-NET-1)"),
    (v4(192, 31, 196, 0), 24, "AS112-v4"),
    (v4(192, 52, 193, 0), 24, "AMT"),
    (v4(192, 88, 99, 0), 24, "Deprecated (6to4 Relay Anycast)"),
    (v4(192, 88, 99, 2), 32, "6a44-relay anycast address"),
    (v4(192, 168, 0, 0), 16, "Private-Use"),
    (v4(192, 175, 48, 0), 24, "Direct Delegation AS112 Service"),
    (v4(198, 18, 0, 0), 15, "Benchmarking"),
    (v4(198, 51, 100, 0), 24, "Documentation (TEST-NET-2)"),
    (v4(203, 0, 113, 0), 24, "Documentation (TEST-NET-3)"),
    (v4(240, 0, 0, 0), 4, "Reserved"),
    (v4(255, 255, 255, 255), 32, "Limited Broadcast"),
    (v4(224, 0, 0, 0), 4, "Multicast"),
];

/// <https://www.iana.org/assignments/iana-ipv6-special-registry>, then what RFC 4291 and RFC 2765
/// set apart.
const V6: &[RowV6] = &[
    (v6([0, 0, 0, 0, 0, 0, 0, 1]), 128, "Loopback Address"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0]), 128, "Unspecified Address"),
    (v6([0, 0, 0, 0, 0, 0xffff, 0, 0]), 96, "IPv4-mapped Address"),
    (
        v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0]),
        96,
        "IPv4-IPv6 Translation",
    ),
    (
        v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0]),
        48,
        "IPv4-IPv6 Translation (local use)",
    ),
    (
        v6([0x100, 0, 0, 0, 0, 0, 0, 0]),
        64,
        "Discard-Only Address Block",
    ),
    (v6([0x100, 0, 0, 1, 0, 0, 0, 0]), 64, "Dummy IPv6 Prefix"),
    (
        v6([0x2001, 0, 0, 0, 0, 0, 0, 0]),
        23,
        "IETF Protocol Assignments",
    ),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0]), 32, "TEREDO"),
    (
        v6([0x2001, 1, 0, 0, 0, 0, 0, 1]),
        128,
        "Port Control Protocol Anycast",
    ),
    (
        v6([0x2001, 1, 0, 0, 0, 0, 0, 2]),
        128,
        "Traversal Using Relays around NAT Anycast",
    ),
    (
        v6([0x2001, 1, 0, 0, 0, 0, 0, 3]),
        128,
        "DNS-SD Service Registration Protocol Anycast",
    ),
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0]), 48, "Benchmarking"),
    (v6([0x2001, 3, 0, 0, 0, 0, 0, 0]), 32, "AMT"),
    (v6([0x2001, 4, 0x112, 0, 0, 0, 0, 0]), 48, "AS112-v6"),
    (
        v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0]),
        28,
        "Deprecated (previously ORCHID)",
    ),
    (v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0]), 28, "ORCHIDv2"),
    (
        v6([0x2001, 0x30, 0, 0, 0, 0, 0, 0]),
        28,
        "Drone Remote ID Protocol Entity Tags (DETs) Prefix",
    ),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0]), 32, "Documentation"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0]), 16, "6to4"),
    (
        v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0]),
        48,
        "Direct Delegation AS112 Service",
    ),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0]), 20, "Documentation"),
    (
        v6([0x5f00, 0, 0, 0, 0, 0, 0, 0]),
        16,
        "Segment Routing (SRv6) SIDs",
    ),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0]), 7, "Unique-Local"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0]), 10, "Link-Local Unicast"),
    (
        v6([0, 0, 0, 0, 0, 0, 0, 0]),
        96,
        "IPv4-compatible Address (deprecated)",
    ),
    (
        v6([0, 0, 0, 0, 0xffff, 0, 0, 0]),
        96,
        "IPv4-translated Address (SIIT)",
    ),
    (
        v6([0xfec0, 0, 0, 0, 0, 0, 0, 0]),
        10,
        "Site-Local Unicast (deprecated)",
    ),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0]), 8, "Multicast"),
];

/// Metadata services hand out the host's own credentials; the ranges have no single origin.
const CORE_V4: &[RowV4] = &[
    (v4(169, 254, 169, 254), 32, "cloud metadata service"),
    (v4(169, 254, 169, 253), 32, "AWS resolver"),
    (v4(169, 254, 170, 2), 32, "AWS ECS task credentials"),
    (v4(169, 254, 170, 23), 32, "AWS EKS pod identity"),
    (v4(100, 100, 100, 200), 32, "Alibaba Cloud metadata service"),
    (v4(168, 63, 129, 16), 32, "Azure host agent"),
    (v4(192, 0, 0, 192), 32, "Oracle Cloud metadata service"),
    (v4(169, 254, 0, 23), 32, "Tencent Cloud metadata service"),
    (v4(169, 254, 42, 42), 32, "Scaleway metadata service"),
    (v4(100, 96, 0, 96), 32, "Volcano Engine metadata service"),
    (v4(0, 0, 0, 0), 8, "\"This network\""),
    (v4(224, 0, 0, 0), 4, "Multicast"),
    (v4(255, 255, 255, 255), 32, "Limited Broadcast"),
];

/// As [`CORE_V4`].
const CORE_V6: &[RowV6] = &[
    (
        v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]),
        128,
        "AWS metadata service",
    ),
    (
        v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x253]),
        128,
        "AWS resolver",
    ),
    (
        v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23]),
        128,
        "AWS EKS pod identity",
    ),
    (
        v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]),
        128,
        "Google Cloud metadata service",
    ),
    (
        v6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe]),
        128,
        "Oracle Cloud metadata service",
    ),
    (
        v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42]),
        128,
        "Scaleway metadata service",
    ),
    (
        v6([0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe]),
        128,
        "OpenStack metadata service",
    ),
    (v6([0, 0, 0, 0, 0, 0, 0, 0]), 128, "Unspecified Address"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0]), 8, "Multicast"),
];
