//! Where the other nodes of a fleet listen, as they say, and where this one is reached from theirs: no policy of one
//! node opens the console of another.
//!
//! Who looks after the fleet keeps the list; a look at it costs nothing. A node says addresses alone: what stands
//! before it, under another name or address, is the public URL's, which is closed by name.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use arc_swap::ArcSwap;

use super::own;

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
        IpAddr::V4(_) => own::v4()?,
        // Takes both, unless the host says otherwise.
        IpAddr::V6(_) => [own::v4()?, v6_if_any()?].concat(),
    };
    let seen = all.into_iter().filter(is_seen);
    Ok(seen
        .map(|ip| SocketAddr::new(ip, listener.port()))
        .collect())
}

fn v6_if_any() -> io::Result<Vec<IpAddr>> {
    match own::v6() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// A link-local address is none without its link.
fn is_seen(ip: &IpAddr) -> bool {
    let of_a_link = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !ip.is_loopback() && !of_a_link
}

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
        let seen = |ip: &str| is_seen(&ip.parse().unwrap());
        assert!(seen("fd12::2") && seen("10.0.0.2"));
        assert!(!seen("fe80::1") && !seen("::1") && !seen("127.0.0.1"));
    }
}
