//! The sockets in which every sandbox's traffic ends, made inside the hub.
//!
//! They belong to the hub's network namespace for ever, whoever holds them:
//! `gig` accepts on them from the host's. Bound to every address of the hub,
//! because each slot has a gateway address of its own; the firewall admits a
//! sandbox to its own one only. Those of a namespace that gig did not make are opened in there, on `lo`.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use crate::plan::{DNS_PORT, HubPlan};

/// Connections waiting for `accept`. The kernel cuts it to its own maximum.
const BACKLOG: i32 = 4096;
/// Room for a burst of questions while the resolver is busy.
const DNS_BUFFER: usize = 1024 * 1024;

/// The hub's listening sockets, all non-blocking.
#[derive(Debug)]
pub struct Listeners {
    /// Every redirected TCP connection; `SO_ORIGINAL_DST` tells where it meant to go.
    pub redirect: TcpListener,
    /// The explicit proxy on every gateway address.
    pub explicit: TcpListener,
    /// DNS over TCP, whichever server was meant.
    pub dns_tcp: TcpListener,
    /// DNS over UDP, whichever server was meant.
    pub dns_udp: UdpSocket,
}

impl Listeners {
    /// Opens them in the calling thread's network namespace.
    pub(crate) fn open(plan: &HubPlan) -> io::Result<Self> {
        let at = |port| SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
        Ok(Self {
            redirect: tcp(at(plan.redirect_port))?,
            explicit: tcp(at(plan.explicit_port))?,
            dns_tcp: tcp(at(DNS_PORT))?,
            dns_udp: udp(at(DNS_PORT))?,
        })
    }

    /// Opens them in the calling thread's network namespace, on `lo` alone: what comes from
    /// elsewhere is not of this namespace. The explicit proxy has its usual port, unless a program
    /// has it; the others have any.
    pub(crate) fn on_loopback(explicit_port: u16) -> io::Result<Self> {
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        Ok(Self {
            redirect: tcp(at(0))?,
            explicit: tcp(at(explicit_port)).or_else(|_| tcp(at(0)))?,
            dns_tcp: tcp(at(0))?,
            dns_udp: udp(at(0))?,
        })
    }

    /// In the order in which they travel.
    pub(crate) fn as_fds(&self) -> [BorrowedFd<'_>; 4] {
        [
            self.redirect.as_fd(),
            self.explicit.as_fd(),
            self.dns_tcp.as_fd(),
            self.dns_udp.as_fd(),
        ]
    }

    /// The reverse of [`Self::as_fds`].
    pub(crate) fn from_fds(fds: [OwnedFd; 4]) -> Self {
        let [redirect, explicit, dns_tcp, dns_udp] = fds;
        Self {
            redirect: redirect.into(),
            explicit: explicit.into(),
            dns_tcp: dns_tcp.into(),
            dns_udp: dns_udp.into(),
        }
    }
}

fn tcp(at: SocketAddrV4) -> io::Result<TcpListener> {
    let socket = open(SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn udp(at: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = open(SocketType::DGRAM)?;
    sockopt::set_socket_recv_buffer_size(&socket, DNS_BUFFER)?;
    bind(&socket, &at)?;
    Ok(socket.into())
}

fn open(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::INET, kind, flags, None)?)
}
