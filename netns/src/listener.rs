//! The sockets in which every sandbox's traffic ends, made inside the hub.
//!
//! They belong to the hub's network namespace for ever, whoever holds them:
//! `gig` accepts on them from the host's. Bound to every address of the hub,
//! because each slot has a gateway address of its own; the firewall admits a
//! sandbox to its own one only.

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
        Ok(Self {
            redirect: tcp(plan.redirect_port)?,
            explicit: tcp(plan.explicit_port)?,
            dns_tcp: tcp(DNS_PORT)?,
            dns_udp: udp(DNS_PORT)?,
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

fn tcp(port: u16) -> io::Result<TcpListener> {
    let socket = open(SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn udp(port: u16) -> io::Result<UdpSocket> {
    let socket = open(SocketType::DGRAM)?;
    sockopt::set_socket_recv_buffer_size(&socket, DNS_BUFFER)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    Ok(socket.into())
}

fn open(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::INET, kind, flags, None)?)
}
