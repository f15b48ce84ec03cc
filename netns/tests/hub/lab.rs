//! A hub for one test, and programs in its slots.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::Read as _;
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gig_netns::{Child, HostIds, Hub, HubConfig, IdMapFds, Lease, Listeners, Spawn, SpawnNetwork};

/// A started program whose output is collected.
pub(crate) struct Running {
    pub(crate) child: Child,
    output: std::io::PipeReader,
}

/// How a program ended and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    /// As `wait` gives it.
    pub(crate) status: i32,
    pub(crate) output: String,
}

pub(crate) fn config(slots: u16) -> HubConfig {
    HubConfig {
        slots,
        subnet: "10.200.0.0/16".parse().unwrap(),
        explicit_port: 8081,
        ids: HostIds::detect_for(slots),
    }
}

pub(crate) fn start(slots: u16) -> (Hub, Listeners) {
    Hub::start(&config(slots)).unwrap_or_else(|error| {
        let mut why = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            why = format!("{why}: {error}");
            source = error.source();
        }
        panic!("{why}");
    })
}

/// This program, at a path that every id may execute.
pub(crate) fn program() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        if !rustix::process::geteuid().is_root() {
            return own;
        }
        let name = format!("gig-netns-test-{}", std::process::id());
        let copy = crate::open_directory().join(name);
        fs::copy(own, &copy).unwrap();
        fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
        copy
    })
}

/// Removes what [`program`] made.
pub(crate) fn tidy() {
    if rustix::process::geteuid().is_root() {
        drop(fs::remove_file(program()));
    }
}

/// What a test varies in a start.
#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) fds: Vec<(OwnedFd, RawFd)>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) id_map: Option<IdMapFds>,
}

pub(crate) fn spawn(hub: &Hub, network: SpawnNetwork, command: &[&str], extra: Extra) -> Running {
    let (output, write) = std::io::pipe().unwrap();
    let mut fds = vec![
        (OwnedFd::from(File::open("/dev/null").unwrap()), 0),
        (OwnedFd::from(write.try_clone().unwrap()), 1),
        (OwnedFd::from(write), 2),
    ];
    fds.extend(extra.fds);
    let mut env = vec![(
        OsString::from("PATH"),
        OsString::from("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    )];
    env.extend(extra.env);
    let child = hub
        .spawn(Spawn {
            program: PathBuf::from(command[0]),
            args: command[1..].iter().map(OsString::from).collect(),
            env,
            fds,
            network,
            id_map: extra.id_map,
        })
        .unwrap();
    Running { child, output }
}

pub(crate) fn shell(hub: &Hub, lease: &Lease, script: &str) -> Running {
    let network = SpawnNetwork::Leased(lease.slot());
    spawn(hub, network, &["/bin/bash", "-c", script], Extra::default())
}

pub(crate) fn shell_says(hub: &Hub, lease: &Lease, script: &str) -> String {
    shell(hub, lease, script).end().output
}

impl Running {
    /// Waits for the end of the output and of the program.
    pub(crate) fn end(mut self) -> Ended {
        let mut output = String::new();
        self.output.read_to_string(&mut output).unwrap();
        let mut status = [0; 4];
        File::from(self.child.exit).read_exact(&mut status).unwrap();
        Ended {
            status: i32::from_le_bytes(status),
            output,
        }
    }

    /// One line of output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.output.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }
}

/// Accepts one connection within a minute, blocking from then on.
pub(crate) fn accept(listener: &std::net::TcpListener) -> Option<(TcpStream, SocketAddrV4)> {
    let limit = Instant::now() + Duration::from_secs(60);
    while Instant::now() < limit {
        match listener.accept() {
            Ok((stream, peer)) => {
                stream.set_nonblocking(false).unwrap();
                stream
                    .set_read_timeout(Some(Duration::from_secs(60)))
                    .unwrap();
                let std::net::SocketAddr::V4(peer) = peer else {
                    panic!("{peer}")
                };
                return Some((stream, peer));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    None
}

/// Nothing is waiting to be accepted.
pub(crate) fn nothing_arrived(listener: &std::net::TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    listener.accept().is_err()
}

/// Where a redirected connection meant to go.
pub(crate) fn meant(stream: &TcpStream) -> SocketAddrV4 {
    let address = socket2::SockRef::from(stream).original_dst_v4().unwrap();
    address.as_socket_ipv4().unwrap()
}

/// Waits until a condition holds.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < limit, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
