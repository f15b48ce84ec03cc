//! One sandbox floods the hub with everything it can open; its neighbour notices nothing.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use gig_netns::{Listeners, SpawnNetwork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, SockFilter, Socket, Type};

use crate::Test;
use crate::lab::{self, Extra, shell};

pub(crate) const TESTS: &[Test] = &[(
    "flood_of_half_open_open_and_closed_connections_denies_no_neighbour",
    flood,
)];

/// `argv[1]` of this program as the one who floods.
pub(crate) const ARGUMENT: &str = "flood-the-hub";

/// Of each kind: together more than the connections that are tracked for one
/// sandbox (4,096) and than wait at a listener (4,096).
const OF_EACH: u16 = 2500;
/// Descriptors that are kept for everything else.
const SPARE: u64 = 64;
/// Connections of the flood that are served, as far as a test's descriptors go.
const HELD: usize = 200;
const A_MOMENT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

fn flood() {
    let (hub, listeners) = lab::start(2);
    let (hostile, neighbour) = (hub.lease().unwrap(), hub.lease().unwrap());
    let served = Served {
        neighbour: neighbour.address(),
        from_flood: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        scope.spawn(|| served.serve(&listeners));
        let _over = Over(&served.over);
        let network = SpawnNetwork::Leased(hostile.slot());
        let program = lab::program().to_str().unwrap();
        let mut flooding = lab::spawn(&hub, network, &[program, ARGUMENT], Extra::default());
        assert_eq!(flooding.line(), "flooded");
        // The flood's connections are there, and stay.
        let script = "for n in 1 2 3; do exec 3<>/dev/tcp/192.0.2.9/443 || exit; head -n1 <&3; done
            for n in 1 2 3 4 5; do
              exec 4<>/dev/udp/192.0.2.53/53; echo question >&4
              timeout 20 head -n1 <&4 && break
            done";
        let said = shell(&hub, &neighbour, script).end().output;
        assert_eq!(said, "here\nhere\nhere\nanswer\n");
    });
    let arrived = served.from_flood.load(Ordering::Relaxed);
    assert!(arrived > 1000, "a flood of {arrived} is none");
    // Its network is taken back like any other's.
    hub.release(hostile).unwrap();
    hub.release(neighbour).unwrap();
}

/// What stands for gig.
struct Served {
    neighbour: Ipv4Addr,
    from_flood: AtomicUsize,
    over: AtomicBool,
}

/// Ends the serving however the test ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Served {
    fn serve(&self, listeners: &Listeners) {
        let mut held = Vec::new();
        while !self.over.load(Ordering::Relaxed) {
            let mut wait = [
                PollFd::new(&listeners.redirect, PollFlags::IN),
                PollFd::new(&listeners.dns_udp, PollFlags::IN),
            ];
            poll(&mut wait, Some(&A_MOMENT)).unwrap();
            while let Ok((mut stream, peer)) = listeners.redirect.accept() {
                if peer.ip() == self.neighbour {
                    stream.write_all(b"here\n").unwrap();
                } else {
                    self.from_flood.fetch_add(1, Ordering::Relaxed);
                    held.extend((held.len() < HELD).then_some(stream));
                }
            }
            let mut question = [0; 64];
            while let Ok((_, peer)) = listeners.dns_udp.recv_from(&mut question) {
                if peer.ip() == self.neighbour {
                    listeners.dns_udp.send_to(b"answer\n", peer).unwrap();
                }
            }
        }
    }
}

/// Opens everything, says so, and holds it until it is killed.
pub(crate) fn main() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let most = limit.maximum.unwrap_or(u64::MAX).saturating_sub(SPARE);
    let each = usize::from(OF_EACH).min(usize::try_from(most / 2).unwrap_or(usize::MAX));
    // What never hears its peer never answers: the peer's side stays half open.
    let half_open: Vec<Socket> = (0..each).filter_map(|n| begin(n, true)).collect();
    let open: Vec<Socket> = (0..each).filter_map(|n| begin(n, false)).collect();
    for n in 0..usize::from(OF_EACH) {
        drop(begin(n, false));
        // Each from a port of its own, so that each is tracked.
        if let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
            drop(socket.send_to(b"x", SocketAddrV4::new(NOWHERE, 53)));
        }
    }
    println!("flooded");
    loop {
        thread::park();
        // Held to the end.
        assert!(half_open.len() + open.len() > 0);
    }
}

/// A documentation address (RFC 5737).
const NOWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// A connection that has begun; deaf if so wished.
fn begin(number: usize, deaf: bool) -> Option<Socket> {
    /// `BPF_RET | BPF_K`: this many octets of a packet pass, none.
    const NOTHING: u16 = 0x06;
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.set_nonblocking(true).ok()?;
    if deaf {
        socket
            .attach_filter(&[SockFilter::new(NOTHING, 0, 0, 0)])
            .ok()?;
    }
    let port = u16::try_from(1 + number % 60_000).unwrap_or(1);
    let to = SocketAddr::from((NOWHERE, port.max(54)));
    // In progress is what is wanted.
    drop(socket.connect(&to.into()));
    Some(socket)
}
