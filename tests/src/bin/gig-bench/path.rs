//! A bare path for the peers: two network namespaces of the bench's own, joined by a veth.
//!
//! gig's load is in a sandbox and its packets cross a veth and gig's firewall; a peer's load that
//! stays on loopback crosses neither. So a peer can be measured behind a veth as well: its listening
//! sockets are made in one namespace (as gig's are, in its hub), its load runs in the other, and no
//! rule is loaded. What then remains between gig and the peer is the proxies and gig's firewall; what
//! lies between a peer's two rows is the veth. Needs root.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::process::CommandExt as _,
    },
    process::{Command, Stdio},
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{
    outcome::{Outcome, doing},
    process::{Core, Guard, pinned},
};

/// The two namespaces; they end with this value.
pub(crate) struct BarePath {
    near: Guard,
    far: Guard,
}

impl BarePath {
    /// Makes both and their link, with the MTU that gig's links have.
    pub(crate) fn make() -> Outcome<Self> {
        let path = Self {
            near: holder()?,
            far: holder()?,
        };
        let (near, far) = (path.near.id().to_string(), path.far.id().to_string());
        let near_side = format!(
            "ip link set lo up && ip link add bench0 mtu 65535 type veth \
             peer name eth0 mtu 65535 netns {far} && ip addr add {PROXY}/30 dev bench0 && ip link set bench0 up"
        );
        let far_side = format!(
            "ip link set lo up && ip addr add {LOAD}/30 dev eth0 && ip link set eth0 up && \
             until [ \"$(cat /sys/class/net/eth0/operstate)\" = up ]; do sleep 0.01; done"
        );
        for (target, script) in [(near, near_side), (far, far_side)] {
            let mut inside = Command::new("nsenter");
            inside.args(["--target", &target, "--net", "--", "unshare", "--mount"]);
            // /sys shows the namespace that it was mounted in.
            inside.args(["sh", "-c", &format!("mount -t sysfs none /sys && {script}")]);
            let status = doing(inside.status(), || "run nsenter".into())?;
            if !status.success() {
                return Err(format!("the bare path could not be made: {status}").into());
            }
        }
        Ok(path)
    }

    /// A load agent's command, at the far end.
    pub(crate) fn agent(&self) -> Outcome<Command> {
        let mut command = pinned(Core::Load, "nsenter");
        command.args(["--target", &self.far.id().to_string(), "--net", "--"]);
        command.arg(std::env::current_exe()?).arg("agent");
        Ok(command)
    }

    /// A command that runs `program` where it would run anyway, but with listening sockets at the
    /// near end; their numbers are in [`ANSWERS`] and [`UPLOADS`].
    pub(crate) fn listening(&self, program: &str) -> Outcome<Command> {
        let mut command = pinned(Core::Proxy, std::env::current_exe()?);
        command.args(["listening", &self.near.id().to_string(), program]);
        Ok(command)
    }

    /// The same for the plain tunnel.
    pub(crate) fn tunnel(&self) -> Outcome<Command> {
        let mut command = pinned(Core::Proxy, std::env::current_exe()?);
        command.args(["tunnel-at", &self.near.id().to_string()]);
        Ok(command)
    }

    /// Where the near end listens for answers.
    pub(crate) fn answers() -> SocketAddr {
        (PROXY, ANSWERS_PORT).into()
    }

    /// Where the plain tunnel listens there.
    pub(crate) fn tunnelled() -> SocketAddr {
        (PROXY, TUNNEL_PORT).into()
    }

    /// Where it listens for uploads.
    pub(crate) fn uploads() -> SocketAddr {
        (PROXY, UPLOADS_PORT).into()
    }
}

/// The subcommand behind [`BarePath::listening`]: binds there, comes back, becomes the program.
pub(crate) fn become_listening(at: &str, program: &str, args: &[&str]) -> Outcome<()> {
    let sockets = [(ANSWERS, ANSWERS_PORT), (UPLOADS, UPLOADS_PORT)];
    let mut command = Command::new(program);
    command.args(args);
    let mut held = Vec::new();
    for (name, port) in sockets {
        let listener = listener(at, port)?;
        // The program inherits it.
        rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty())?;
        command.env(name, listener.as_raw_fd().to_string());
        held.push(listener);
    }
    Err(format!("{program}: {}", command.exec()).into())
}

/// A listening socket in the network of process `at`, for a process that stays in its own.
pub(crate) fn listener(at: &str, port: u16) -> Outcome<TcpListener> {
    let network = Some(LinkNameSpaceType::Network);
    let own = std::fs::File::open("/proc/self/ns/net")?;
    let there = std::fs::File::open(format!("/proc/{at}/ns/net"))?;
    move_into_link_name_space(there.as_fd(), network)?;
    let bound = socket(port);
    move_into_link_name_space(own.as_fd(), network)?;
    bound
}

fn socket(port: u16) -> Outcome<TcpListener> {
    let address = SocketAddr::from((PROXY, port));
    doing(TcpListener::bind(address), || format!("bind {address}"))
}

/// A process in a network namespace of its own, which lives as long as it.
fn holder() -> Outcome<Guard> {
    let mut command = pinned(Core::Load, "unshare");
    command.args(["--net", "sh", "-c", "echo there && exec sleep infinity"]);
    command.stdout(Stdio::piped());
    let mut guard = Guard::spawn("unshare", &mut command)?;
    let mut said = [0; 6];
    let mut output = guard.child().stdout.take().ok_or("no pipe from unshare")?;
    doing(std::io::Read::read_exact(&mut output, &mut said), || {
        "make a network namespace".into()
    })?;
    Ok(guard)
}

/// Variables that hold the numbers of inherited sockets.
pub(crate) const ANSWERS: &str = "BENCH_ANSWERS";
/// The second of them.
pub(crate) const UPLOADS: &str = "BENCH_UPLOADS";

const PROXY: Ipv4Addr = Ipv4Addr::new(10, 201, 0, 1);
const LOAD: Ipv4Addr = Ipv4Addr::new(10, 201, 0, 2);
/// Any three: nothing else listens there.
const ANSWERS_PORT: u16 = 4443;
const UPLOADS_PORT: u16 = 4444;
const TUNNEL_PORT: u16 = 4445;
