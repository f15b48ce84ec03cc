//! Two network namespaces joined by one link: the machine gig runs on, and everything else.
//!
//! The *internet* side answers for every IPv4 address and for 2a00:1111::/32, so that whatever leaves
//! the host can be seen and counted there. Promises: no uplink to the real network, no state outside
//! the two namespaces, both gone when this value is dropped or the test dies (each is held by a
//! process that ends at the end of its standard input).

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The host's address on the link.
pub const HOST: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 2);
/// The internet's address on the link: the host's default gateway.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
/// The host's IPv6 address, where the lab has IPv6.
pub const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2a00, 0x2222, 0, 0, 0, 0, 0, 2);
/// Where the host's resolver lives, in the internet.
pub const RESOLVER: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 53);

/// Which of the two namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The machine on which gig and its sandboxes run.
    Host,
    /// Everything else.
    Internet,
}

/// The two namespaces of one test.
#[derive(Debug)]
pub struct Network {
    host: Holder,
    internet: Holder,
}

impl Network {
    /// Makes both; `resolv_conf` is what programs on the host side find at /etc/resolv.conf.
    ///
    /// # Panics
    /// When the namespaces cannot be made, with what to do.
    #[must_use]
    pub fn start(resolv_conf: &Path, ipv6: bool) -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "the lab makes network namespaces: start the tests with tests/run, or inside \
             `unshare --user --map-root-user --net --mount`"
        );
        let host = Holder::start(&format!(
            "mount --bind {} /etc/resolv.conf && ip link set lo up",
            resolv_conf.display()
        ));
        let v6 = |text: &'static str| if ipv6 { text } else { "" };
        // A neighbour entry made by hand keeps ARP out of the packet counts.
        let internet = Holder::start(&format!(
            "ip link add wan0 address 02:00:00:00:00:01 type veth \
               peer name up0 address 02:00:00:00:00:02 netns {pid} && \
             {no_v6} ip link set lo up && ip link set wan0 up && \
             ip addr add {GATEWAY}/24 dev wan0 && \
             ip neigh add {HOST} lladdr 02:00:00:00:00:02 dev wan0 nud permanent && \
             echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind && \
             ip route add local 11.0.0.0/8 dev lo table local && \
             ip route add local default dev lo table main {v6}",
            pid = host.pid(),
            no_v6 = if ipv6 { "" } else { DISABLE_V6 },
            v6 = v6(" && ip -6 addr add 2a00:2222::1/64 dev wan0 nodad && \
                 ip -6 route add local 2a00:1111::/32 dev lo table local && \
                 echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind"),
        ));
        let network = Self { host, internet };
        network.run(
            Side::Host,
            &format!(
                "{no_v6} ip addr add {HOST}/24 dev up0 && ip link set up0 up && \
                 ip neigh add {GATEWAY} lladdr 02:00:00:00:00:01 dev up0 nud permanent && \
                 ip route add default via {GATEWAY} {v6}",
                no_v6 = if ipv6 { "" } else { DISABLE_V6 },
                v6 = v6(" && ip -6 addr add 2a00:2222::2/64 dev up0 nodad && \
                     ip -6 route add default via 2a00:2222::1"),
            ),
        );
        network
    }

    /// Runs a shell script in one namespace, to its end.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, side: Side, script: &str) {
        let output = self.command(side, "sh").args(["-ec", script]).output();
        let output = output.expect("start a shell");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {error}");
    }

    /// A command that will start inside one namespace (network and mounts).
    #[must_use]
    pub fn command(&self, side: Side, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.holder(side).pid()))
            .args(["--net", "--mount", "--", program]);
        command
    }

    /// Runs `work` on a thread that has moved into one namespace, and returns what it returns.
    ///
    /// # Panics
    /// When the namespace cannot be entered or `work` panics.
    pub fn inside<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/proc/{}/ns/net", self.holder(side).pid());
        let namespace = fs::File::open(path).expect("open the network namespace");
        let entered = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("enter the network namespace");
            work()
        };
        thread::scope(|scope| scope.spawn(entered).join().expect("work in a namespace"))
    }

    /// A listening socket on one side.
    ///
    /// # Panics
    /// When the address is taken.
    #[must_use]
    pub fn listen(&self, side: Side, address: SocketAddr) -> TcpListener {
        self.inside(side, || TcpListener::bind(address))
            .unwrap_or_else(|e| panic!("{address}: {e}"))
    }

    /// A datagram socket on one side.
    ///
    /// # Panics
    /// When the address is taken.
    #[must_use]
    pub fn datagram(&self, side: Side, address: SocketAddr) -> UdpSocket {
        self.inside(side, || UdpSocket::bind(address))
            .unwrap_or_else(|e| panic!("{address}: {e}"))
    }

    /// How many packets the internet has received from the host so far: the strictest witness there
    /// is that nothing left.
    ///
    /// # Panics
    /// When the kernel's counters cannot be read.
    #[must_use]
    pub fn packets_to_internet(&self) -> u64 {
        let path = format!("/proc/{}/net/dev", self.internet.pid());
        let table = fs::read_to_string(path).expect("read the counters");
        let line = table
            .lines()
            .find_map(|line| line.trim().strip_prefix("wan0:"));
        let packets = line.and_then(|line| line.split_whitespace().nth(1));
        packets
            .and_then(|n| n.parse().ok())
            .expect("a counter of wan0")
    }

    /// The process that holds a side; its /proc entry names the namespaces.
    #[must_use]
    pub fn holder_pid(&self, side: Side) -> u32 {
        self.holder(side).pid()
    }

    fn holder(&self, side: Side) -> &Holder {
        match side {
            Side::Host => &self.host,
            Side::Internet => &self.internet,
        }
    }
}

/// The `n`th address of the internet's own range, which is globally reachable by the registries.
#[must_use]
pub fn internet_address(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(11, 0, 1, n))
}

/// A file's path as text, for a configuration or a command line.
///
/// # Panics
/// When it is not UTF-8.
#[must_use]
pub fn text(path: &Path) -> String {
    PathBuf::from(path)
        .into_os_string()
        .into_string()
        .expect("a path in UTF-8")
}

/// Keeps a network and a mount namespace alive until it is dropped.
#[derive(Debug)]
struct Holder(Child);

impl Holder {
    fn start(script: &str) -> Self {
        let script = format!("{script} && echo ready && exec cat > /dev/null");
        let mut child = Command::new("unshare")
            .args([
                "--net",
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-ec",
                &script,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start unshare");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("read from the holder");
        assert_eq!(
            line, "ready\n",
            "the namespaces of the lab could not be made"
        );
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _already_dead = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Without IPv6 there are no router solicitations among the counted packets.
const DISABLE_V6: &str = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && \
    echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 &&";
