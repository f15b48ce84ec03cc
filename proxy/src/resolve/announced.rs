//! Where gigs of this host listen, of which this process knows nothing else: no policy of one opens the
//! console of another.
//!
//! An appliance says it by the name of an abstract Unix socket. Everybody in its network namespace sees that
//! name, whoever they are, and it ends with the process. Others can make such names as well: all that they get
//! by it is a refusal.

use std::{
    fs, io,
    net::SocketAddr,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr as Name, UnixDatagram},
    },
};

/// A listener that other gigs of this host open to no sandbox, as long as this lives.
#[derive(Debug)]
pub struct Announced {
    _socket: UnixDatagram,
}

impl Announced {
    /// Of a listener at `address`; an unspecified one stands for every address of the host.
    ///
    /// # Errors
    /// When the name cannot be had: somebody else has it.
    pub fn listener(address: SocketAddr) -> io::Result<Self> {
        let name = Name::from_abstract_name(format!("{PREFIX}{address}"))?;
        let socket = UnixDatagram::bind_addr(&name)?;
        // Nobody sends anything to a name.
        socket.shutdown(std::net::Shutdown::Both)?;
        Ok(Self { _socket: socket })
    }
}

/// What is announced at this moment.
pub(super) fn listeners() -> io::Result<Vec<SocketAddr>> {
    let table = fs::read(TABLE)?;
    Ok(named_in(&String::from_utf8_lossy(&table)))
}

/// The last column is the name, an abstract one behind an `@` (proc_net(5)).
fn named_in(table: &str) -> Vec<SocketAddr> {
    let names = table.lines().filter_map(|line| line.rsplit(' ').next());
    names
        .filter_map(|name| name.strip_prefix('@')?.strip_prefix(PREFIX)?.parse().ok())
        .collect()
}

const PREFIX: &str = "gig-listens-";
const TABLE: &str = "/proc/self/net/unix";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_announced_is_seen_as_long_as_it_lasts() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(!listeners().unwrap().contains(&address));
        let announced = Announced::listener(address).unwrap();
        assert!(listeners().unwrap().contains(&address));
        assert!(Announced::listener(address).is_err(), "it is taken");
        drop(announced);
        assert!(!listeners().unwrap().contains(&address));
    }

    #[test]
    fn names_that_are_no_announcement_are_none() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 100\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 101 @gig-listens-[::]:8080\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 102 gig-listens-127.0.0.1:1\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 103 @gig-listens-127.0.0.1\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 104 @gig-listens-10.0.0.1:443";
        let expected: Vec<SocketAddr> = vec![
            "[::]:8080".parse().unwrap(),
            "10.0.0.1:443".parse().unwrap(),
        ];
        assert_eq!(named_in(table), expected);
    }
}
