//! The addresses of this host, as its tables in `/proc` have them: loopback and link-local ones among them.
//!
//! Read when asked, since they come and go; who asks whether one address can be bound asks the kernel instead.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Of version 4, each once.
///
/// # Errors
/// When the routing table cannot be read.
pub(super) fn v4() -> io::Result<Vec<IpAddr>> {
    fs::read_to_string("/proc/net/fib_trie").map(|fib| in_fib(&fib))
}

/// Of version 6.
///
/// # Errors
/// When the table cannot be read; a host without IPv6 has none ([`io::ErrorKind::NotFound`]).
pub(super) fn v6() -> io::Result<Vec<IpAddr>> {
    fs::read_to_string("/proc/net/if_inet6").map(|table| in_table(&table))
}

/// An address line is followed by its routes; `/32 host LOCAL` marks our own.
fn in_fib(fib: &str) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    let mut here: Option<Ipv4Addr> = None;
    for line in fib.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            here = address.parse().ok();
        } else if line == "/32 host LOCAL"
            && let Some(ip) = here
            && !found.contains(&ip.into())
        {
            found.push(ip.into());
        }
    }
    found
}

/// 32 digits at the beginning of each line.
fn in_table(table: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let digits = line.split(' ').next()?;
        let address = u128::from_str_radix(digits, 16).ok()?;
        Some(Ipv6Addr::from(address).into())
    };
    table.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_routing_table_tells_own_addresses() {
        let fib = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.1.2.0\n        /24 link UNICAST\n     \
                   |-- 10.1.2.3\n        /32 host LOCAL\n     |-- 10.1.2.255\n        /32 link BROADCAST\n";
        let has = |ip: [u8; 4]| in_fib(fib).contains(&ip.into());
        assert!(has([10, 1, 2, 3]));
        assert!(!has([10, 1, 2, 255]));
        assert!(!has([10, 1, 2, 0]));
        let fib = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- 10.0.0.2\n        \
                   /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\nLocal:\n     |-- 10.0.0.2\n        /32 host LOCAL\n";
        assert_eq!(in_fib(fib).len(), 2);
    }

    #[test]
    fn the_table_of_interfaces_tells_own_addresses() {
        let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     fd120000000000000000000000000002 02 40 00 80     eth0\n\
                     fe8000000000000050540000fe000001 02 40 20 80     eth0\n";
        let all = in_table(table);
        let seen: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(seen, ["::1", "fd12::2", "fe80::5054:0:fe00:1"]);
    }
}
