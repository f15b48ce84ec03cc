//! A program that has become root with every capability in a user namespace of
//! its own, and tries what a network administrator could.
//!
//! Runs inside a slot, with nothing but the hub around it. Prints one line for
//! each attempt: its name, and `allowed` or why not.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use socket2::{Domain, Protocol, Socket, Type};

/// `argv[1]` of this program in that role; then its own and a neighbour's address.
pub(crate) const ARGUMENT: &str = "hostile";

/// Changes that an administrator of the namespace could make.
const COMMANDS: &[(&str, &str)] = &[
    ("address_add", "ip addr add 10.9.9.9/32 dev eth0"),
    ("address_add_neighbours", "ip addr add $OTHER/30 dev eth0"),
    ("address_remove", "ip addr del $OWN/30 dev eth0"),
    ("address_on_lo", "ip addr add 10.9.9.9/32 dev lo"),
    ("address_six", "ip addr add fd00::1/64 dev eth0"),
    ("route_add", "ip route add 10.0.0.0/8 dev eth0"),
    ("route_remove", "ip route del default"),
    (
        "route_source",
        "ip route replace default via $GATEWAY dev eth0 onlink src $OTHER",
    ),
    ("rule_add", "ip rule add from all lookup 100"),
    (
        "neighbour",
        "ip neigh replace $GATEWAY lladdr 02:00:00:00:00:01 dev eth0",
    ),
    ("link_down", "ip link set eth0 down"),
    ("link_remove", "ip link del eth0"),
    ("link_mac", "ip link set eth0 address 02:67:69:02:00:01"),
    ("link_promiscuous", "ip link set eth0 promisc on"),
    ("link_dummy", "ip link add dummy7 type dummy"),
    ("link_veth", "ip link add veth7 type veth peer name veth8"),
    (
        "link_macvlan",
        "ip link add link eth0 name mac7 type macvlan",
    ),
    ("link_to_hub", "ip link set eth0 netns 1"),
    ("queue", "tc qdisc add dev eth0 root pfifo"),
    ("nft_table", "nft add table inet mine"),
    ("nft_flush", "nft flush ruleset; nft add table inet mine"),
    ("sysctl_forward", "echo 1 > /proc/sys/net/ipv4/ip_forward"),
    (
        "sysctl_six",
        "echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6",
    ),
    (
        "sysctl_localnet",
        "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet",
    ),
    (
        "sysctl_ping",
        "echo '0 2147483647' > /proc/sys/net/ipv4/ping_group_range",
    ),
    ("enter_hub_network", "nsenter --target 1 --net true"),
    ("enter_hub_mounts", "nsenter --target 1 --mount true"),
    ("enter_hub_user", "nsenter --target 1 --user true"),
    ("read_hub_memory", "head -c1 /proc/1/mem"),
    ("read_hub_environment", "cat /proc/1/environ"),
    ("hub_descriptors", "ls /proc/1/fd/"),
];

pub(crate) fn main() {
    let mut addresses = std::env::args()
        .skip(2)
        .map(|text| text.parse::<Ipv4Addr>().unwrap());
    let [own, other] = [(); 2].map(|()| addresses.next().unwrap());
    let gateway = Ipv4Addr::from(u32::from(own) - 1);
    say("become_root_of_own_namespace", become_root());
    for (name, command) in COMMANDS {
        let output = Command::new("/bin/sh")
            .args(["-c", command])
            .env("OWN", own.to_string())
            .env("OTHER", other.to_string())
            .env("GATEWAY", gateway.to_string())
            .output()
            .unwrap();
        say(name, outcome(&output));
    }
    say(
        "raw_socket",
        Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)),
    );
    say(
        "raw_tcp_socket",
        Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP)),
    );
    say(
        "packet_socket",
        Socket::new(Domain::PACKET, Type::RAW, None),
    );
    say("transparent_socket", transparent());
    say("bind_neighbours_address", UdpSocket::bind((other, 0)));
    say("send_as_neighbour_udp", freebind(other, Type::DGRAM));
    say("send_as_neighbour_tcp", freebind(other, Type::STREAM));
    say("bind_low_port", UdpSocket::bind((own, 53)));
    // Process 1 of a pid namespace ignores what its own namespace sends it.
    say(
        "signal_hub",
        kill_process(Pid::INIT, Signal::KILL).map_err(io::Error::from),
    );
    own_network();
}

/// A user namespace of our own, with every capability in it.
fn become_root() -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(UnshareFlags::NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("0 {} 1", gid.as_raw()))?;
    fs::write("/proc/self/uid_map", format!("0 {} 1", uid.as_raw()))?;
    let effective = rustix::thread::capabilities(None)?.effective;
    if effective.contains(rustix::thread::CapabilitySet::NET_ADMIN) {
        return Ok(());
    }
    Err(io::Error::other("without capabilities"))
}

#[expect(
    deprecated,
    reason = "the sound replacement is an unsafe function; no FILES here"
)]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    Ok(rustix::thread::unshare(flags)?)
}

fn outcome(output: &std::process::Output) -> Result<(), String> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().collect::<Vec<_>>().join(" "))
}

fn transparent() -> io::Result<()> {
    Socket::new(Domain::IPV4, Type::STREAM, None)?.set_ip_transparent_v4(true)
}

/// A foreign source address by `IP_FREEBIND`, which needs no privilege.
fn freebind(address: Ipv4Addr, kind: Type) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, kind, None)?;
    socket.set_freebind_v4(true)?;
    socket.bind(&SocketAddr::from((address, 0)).into())?;
    let to = SocketAddr::from(([9, 9, 9, 9], 53));
    socket.connect_timeout(&to.into(), Duration::from_secs(1))?;
    if kind == Type::DGRAM {
        socket.send(b"spoofed")?;
    }
    Ok(())
}

/// A network namespace of our own may be made, and leads nowhere; the way
/// back into the slot's is closed.
fn own_network() {
    let slot = fs::File::open("/proc/self/ns/net").unwrap();
    say("own_network", unshare(UnshareFlags::NEWNET));
    let to = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(1, 1, 1, 1), 80));
    let connected = TcpStream::connect_timeout(&to, Duration::from_secs(1));
    say("connect_from_own_network", connected);
    let network = Some(LinkNameSpaceType::Network);
    let back = move_into_link_name_space(std::os::fd::AsFd::as_fd(&slot), network);
    say("return_to_slot", back.map_err(io::Error::from));
}

fn say<T>(name: &str, outcome: Result<T, impl std::fmt::Display>) {
    match outcome {
        Ok(_) => println!("{name}: allowed"),
        Err(why) => println!("{name}: {why}"),
    }
}
