//! Where the other nodes of a fleet listen, as they say, and where this one is reached from theirs: no policy of one
//! node opens the console of another.
//!
//! Who looks after the fleet keeps the list; a look at it costs nothing. A node says addresses alone: what stands
//! before it, under another name or address, is the public URL's, which is closed by name.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use arc_swap::ArcSwap;

/// What is closed now; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Elsewhere(Arc<ArcSwap<Vec<SocketAddr>>>);

impl Elsewhere {
    /// These, and no others any more.
    pub fn set(&self, listeners: Vec<SocketAddr>) {
        self.0.store(Arc::new(listeners));
    }

    /// Whether another node listens there; `address` is canonical.
    pub(super) fn has(&self, address: SocketAddr) -> bool {
        self.0.load().contains(&address)
    }
}

/// The addresses by which other machines reach what listens at `listener`: one that is unspecified is at each address of
/// this host, one at a loopback address at none.
///
/// # Errors
/// When the host's addresses cannot be read.
pub fn reached_at(listener: SocketAddr) -> io::Result<Vec<SocketAddr>> {
    let ip = listener.ip().to_canonical();
    let all = match ip {
        _ if !ip.is_unspecified() => vec![ip],
        IpAddr::V4(_) => v4(&fs::read_to_string(FIB)?),
        // Takes both, unless the host says otherwise.
        IpAddr::V6(_) => [v4(&fs::read_to_string(FIB)?), v6(&read_or_none(IF_INET6)?)].concat(),
    };
    let seen = all.into_iter().filter(|ip| !ip.is_loopback());
    Ok(seen
        .map(|ip| SocketAddr::new(ip, listener.port()))
        .collect())
}

/// A host without IPv6 has no such table.
fn read_or_none(table: &str) -> io::Result<String> {
    match fs::read_to_string(table) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}

/// The local addresses of a routing table, each once.
fn v4(fib: &str) -> Vec<IpAddr> {
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

/// 32 digits at the beginning of each line; a link-local address is none without its link.
fn v6(table: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let digits = line.split(' ').next()?;
        let address = u128::from_str_radix(digits, 16).ok()?;
        Some(Ipv6Addr::from(address))
    };
    let all = table.lines().filter_map(address);
    all.filter(|ip| !ip.is_unicast_link_local())
        .map(IpAddr::from)
        .collect()
}

pub(super) const FIB: &str = "/proc/net/fib_trie";
pub(super) const IF_INET6: &str = "/proc/net/if_inet6";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_reached_at_every_address_but_loopback() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(reached_at(at("127.0.0.1:80")).unwrap(), []);
        assert_eq!(reached_at(at("[::1]:80")).unwrap(), []);
        assert_eq!(reached_at(at("10.0.0.2:80")).unwrap(), [at("10.0.0.2:80")]);
        let any = reached_at(at("0.0.0.0:80")).unwrap();
        assert!(
            any.iter()
                .all(|one| one.port() == 80 && !one.ip().is_loopback()),
            "{any:?}"
        );
        let fib = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- 10.0.0.2\n        \
                   /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\nLocal:\n     |-- 10.0.0.2\n        /32 host LOCAL\n";
        assert_eq!(v4(fib).len(), 2);
        let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     fd120000000000000000000000000002 02 40 00 80     eth0\n\
                     fe8000000000000050540000fe000001 02 40 20 80     eth0\n";
        let seen: Vec<String> = v6(table).iter().map(ToString::to_string).collect();
        assert_eq!(seen, ["::1", "fd12::2"]);
    }
}
