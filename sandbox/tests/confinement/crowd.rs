//! Many sandboxes in one hub at the same time: each is itself and nobody else.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use gig_netns::{HostIds, Hub, HubConfig, Lease};
use gig_sandbox::{Network, ResourceLimits, Running, SeccompProfile, Spec, Stdio, prepare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::lab::{Test, as_driver, eventually, everybody, running};

pub(crate) const TESTS: &[Test] = &[(
    "twenty_sandboxes_at_once_are_each_themselves_and_reach_the_proxy_alone",
    twenty,
)];

pub(crate) const ARGUMENT: &str = "crowd";

const COUNT: u16 = 20;
/// What marks the programs' command lines.
const MARK: &str = "gig-crowd-mark";
/// A documentation address (RFC 5737) that nobody has.
const NOWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Longer than any loaded machine takes to start them all.
const PATIENCE: Timespec = Timespec {
    tv_sec: 120,
    tv_nsec: 0,
};

/// Asks for nowhere, then for a neighbour, says what either answered, and
/// stays as long as its standard input.
const PROGRAM: &str = "set -e
ask() { exec 3<>/dev/tcp/$1/443; read -r answer <&3; echo \"$answer\"; exec 3>&-; }
ask 192.0.2.1
ask \"$1\"
read -r end || true";

fn twenty() {
    for who in everybody() {
        let driver = as_driver(*who, ARGUMENT);
        assert_eq!(driver.code, Some(0), "{who:?}: {driver:?}");
        assert_eq!(driver.out, "each is itself\n", "{who:?}: {driver:?}");
        eventually("nothing runs", || !running(MARK));
    }
}

/// One of the crowd.
struct Member {
    running: Running,
    lease: Lease,
    _stdin: io::PipeWriter,
    says: io::PipeReader,
}

/// The crowd itself, in a process of its own.
pub(crate) fn main() -> ExitCode {
    let config = HubConfig {
        slots: COUNT,
        subnet: "10.200.0.0/16".parse().expect("a subnet"),
        explicit_port: 8081,
        ids: HostIds::detect_for(COUNT),
    };
    let (hub, listeners) = Hub::start(&config).expect("a hub");
    let leases: Vec<Lease> = (0..COUNT).map(|_| hub.lease().expect("a lease")).collect();
    let own: BTreeSet<Ipv4Addr> = leases.iter().map(Lease::address).collect();
    assert_eq!(own.len(), usize::from(COUNT), "addresses are shared");
    let members = start_all(&hub, leases, own.iter().copied().collect());

    // All of them wait for this answer: they run at the same time.
    let first = meet_all(&listeners.redirect, &own);
    let ids: BTreeSet<String> = members.iter().map(network_of).collect();
    assert_eq!(
        ids.len(),
        usize::from(COUNT),
        "network namespaces are shared"
    );
    for (mut stream, meant) in first {
        assert_eq!(*meant.ip(), NOWHERE);
        tell(&mut stream);
    }
    // What was meant for a neighbour comes here as well, under its sender's address.
    for (mut stream, meant) in meet_all(&listeners.redirect, &own) {
        assert!(own.contains(meant.ip()), "{meant}");
        tell(&mut stream);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    for member in members {
        end(member, &hub, &runtime);
    }
    println!("each is itself");
    ExitCode::SUCCESS
}

fn start_all(hub: &Hub, leases: Vec<Lease>, addresses: Vec<Ipv4Addr>) -> Vec<Member> {
    let members = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for lease in leases {
            let next = addresses.iter().find(|address| **address > lease.address());
            let neighbour = *next.or_else(|| addresses.first()).expect("a neighbour");
            let members = &members;
            scope.spawn(move || {
                let member = start(hub, lease, neighbour);
                members.lock().expect("nobody panicked").push(member);
            });
        }
    });
    members.into_inner().expect("nobody panicked")
}

fn start(hub: &Hub, lease: Lease, neighbour: Ipv4Addr) -> Member {
    let (stdin, keeps) = io::pipe().expect("a pipe");
    let (says, stdout) = io::pipe().expect("a pipe");
    let stderr = File::options()
        .write(true)
        .open("/dev/null")
        .expect("/dev/null");
    let spec = Spec {
        id: gig_policy::SandboxId::new(uuid::Uuid::from_u128(u128::from(lease.slot()))),
        program: "/bin/bash".into(),
        args: ["-c", PROGRAM, MARK, &neighbour.to_string()]
            .map(Into::into)
            .into(),
        env: Vec::new(),
        binds: Vec::new(),
        workdir: None,
        image_env: Vec::new(),
        rootfs: None,
        ca_pem: None,
        explicit_port: 8081,
        limits: ResourceLimits::default(),
        stdio: Stdio {
            stdin: stdin.into(),
            stdout: stdout.into(),
            stderr: stderr.into(),
            controlling_terminal: false,
        },
        seccomp: SeccompProfile::Default,
        file_mask: None,
        server_program: None,
        kept: None,
        private: Vec::new(),
    };
    let prepared = prepare(spec, hub, Network::Leased(&lease)).expect("a sandbox");
    Member {
        running: prepared.go().expect("a program"),
        lease,
        _stdin: keeps,
        says,
    }
}

/// A connection from each, with where it was meant to go.
fn meet_all(listener: &TcpListener, own: &BTreeSet<Ipv4Addr>) -> Vec<(TcpStream, SocketAddrV4)> {
    let mut missing = own.clone();
    let mut met = Vec::new();
    while !missing.is_empty() {
        let mut wait = [PollFd::new(listener, PollFlags::IN)];
        let ready = poll(&mut wait, Some(&PATIENCE)).expect("a wait");
        assert!(ready > 0, "never heard of {missing:?}");
        let (stream, SocketAddr::V4(from)) = listener.accept().expect("a connection") else {
            panic!("not IPv4");
        };
        assert!(
            missing.remove(from.ip()),
            "{from} is nobody's, or came twice"
        );
        let meant = rustix::net::sockopt::ip_original_dst(&stream).expect("a destination");
        met.push((stream, meant));
    }
    met
}

/// Says to a sandbox under which address it is known.
fn tell(stream: &mut TcpStream) {
    let peer = stream.peer_addr().expect("a peer").ip();
    stream
        .set_write_timeout(Some(Duration::from_secs(60)))
        .expect("a limit");
    stream
        .write_all(format!("{peer}\n").as_bytes())
        .expect("an answer");
}

fn network_of(member: &Member) -> String {
    let link = format!("/proc/{}/ns/net", member.running.pid());
    std::fs::read_link(link)
        .expect("a namespace")
        .display()
        .to_string()
}

fn end(member: Member, hub: &Hub, runtime: &tokio::runtime::Runtime) {
    let Member {
        mut running,
        lease,
        _stdin,
        mut says,
    } = member;
    drop(_stdin);
    let status = runtime.block_on(running.wait()).expect("its end");
    assert_eq!(status.code(), 0);
    let mut said = String::new();
    says.read_to_string(&mut said).expect("its output");
    let own = lease.address();
    assert_eq!(said, format!("{own}\n{own}\n"), "it was taken for another");
    hub.release(lease).expect("the slot back");
}
