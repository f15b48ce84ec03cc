//! What a hostile program in a slot cannot do.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::Command;

use gig_netns::SpawnNetwork;

use crate::Test;
use crate::hostile;
use crate::lab::{self, Extra, accept, meant, nothing_arrived, shell, shell_says};

pub(crate) const TESTS: &[Test] = &[
    (
        "root_with_every_capability_changes_nothing",
        every_capability,
    ),
    ("two_sandboxes_cannot_reach_each_other", neighbours),
    ("host_cannot_be_reached", host),
    ("without_the_firewall_there_is_still_no_way_out", no_uplink),
    ("child_has_no_capability_and_no_way_to_one", no_capability),
    (
        "the_kernel_holds_the_firewall_that_was_meant",
        firewall_as_meant,
    ),
    ("parts_of_packets_are_kept_for_a_second", parts_of_packets),
];

/// Attempts that may succeed, and why that is harmless.
const HARMLESS: &[(&str, &str)] = &[
    ("become_root_of_own_namespace", "the point of the exercise"),
    ("own_network", "an empty namespace, connected to nothing"),
    (
        "signal_hub",
        "process 1 ignores it: the hub answers afterwards",
    ),
];

fn every_capability() {
    let (hub, listeners) = lab::start(2);
    let (lease, other) = (hub.lease().unwrap(), hub.lease().unwrap());
    let own = lease.address().to_string();
    let program = lab::program().to_str().unwrap();
    let command = [
        program,
        hostile::ARGUMENT,
        &own,
        &other.address().to_string(),
    ];
    let network = SpawnNetwork::Leased(lease.slot());
    let ended = lab::spawn(&hub, network, &command, Extra::default()).end();
    assert_eq!(ended.status, 0, "{}", ended.output);
    assert!(ended.output.lines().count() > 35, "{}", ended.output);
    assert!(
        ended
            .output
            .starts_with("become_root_of_own_namespace: allowed\n")
    );
    for line in ended.output.lines() {
        let (name, outcome) = line.split_once(": ").unwrap();
        let harmless = HARMLESS.iter().any(|(harmless, _)| *harmless == name);
        if !harmless {
            let reasons = [
                "not permitted",
                "ermission denied",
                "Invalid argument",
                "unreachable",
                "Cannot assign",
            ];
            assert!(
                reasons.iter().any(|reason| outcome.contains(reason)),
                "{line}"
            );
        }
    }
    // Nothing spoofed arrived, and the slot is as it was.
    assert!(listeners.dns_udp.recv_from(&mut [0; 64]).is_err());
    assert!(nothing_arrived(&listeners.dns_tcp));
    let client = shell(&hub, &lease, "exec 3<>/dev/tcp/1.1.1.1/80 && cat <&3");
    let (stream, peer) = accept(&listeners.redirect).unwrap();
    assert_eq!(*peer.ip(), lease.address());
    drop(stream);
    client.end();
}

fn neighbours() {
    let (hub, listeners) = lab::start(2);
    let (lease, other) = (hub.lease().unwrap(), hub.lease().unwrap());
    let serve = "exec timeout 20 nc -n -l -v 0.0.0.0 7777 2>&1";
    let mut server = shell(&hub, &other, serve);
    assert!(server.line().contains("istening"), "nc has to be OpenBSD's");
    let (theirs, gateway) = (other.address(), other.gateway());
    for target in [theirs, gateway] {
        let client = shell(
            &hub,
            &lease,
            &format!("exec 3<>/dev/tcp/{target}/7777 && cat <&3"),
        );
        let (stream, peer) = accept(&listeners.redirect).unwrap();
        assert_eq!(
            (*peer.ip(), *meant(&stream).ip()),
            (lease.address(), target)
        );
        drop(stream);
        client.end();
        let udp = format!("exec 3<>/dev/udp/{target}/7777; echo x >&3; timeout 2 cat <&3");
        assert!(shell_says(&hub, &lease, &udp).contains("refused"));
    }
    assert!(
        rustix::process::pidfd_send_signal(&server.child.pidfd, rustix::process::Signal::KILL)
            .is_ok()
    );
    let said = server.end().output;
    assert!(!said.contains("eceived"), "{said}");
}

fn host() {
    let (hub, listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let udp = UdpSocket::bind(("0.0.0.0", port)).unwrap();
    udp.set_nonblocking(true).unwrap();
    let addresses = host_addresses();
    assert!(
        addresses.iter().any(|address| !address.is_loopback()),
        "a host with a network is needed to show that it is out of reach: {addresses:?}"
    );
    for address in addresses {
        if address.is_loopback() {
            let script = format!("exec 3<>/dev/tcp/{address}/{port}");
            assert!(shell_says(&hub, &lease, &script).contains("refused"));
            continue;
        }
        let script = format!("exec 3<>/dev/tcp/{address}/{port} && cat <&3");
        let client = shell(&hub, &lease, &script);
        let (stream, _) = accept(&listeners.redirect).unwrap();
        assert_eq!(*meant(&stream).ip(), address);
        drop(stream);
        client.end();
        let script = format!("exec 3<>/dev/udp/{address}/{port}; echo x >&3; timeout 2 cat <&3");
        assert!(shell_says(&hub, &lease, &script).contains("refused"));
    }
    // Abstract Unix sockets are scoped by the network namespace.
    let name = format!("gig-netns-test-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
            &name,
        )
        .unwrap();
    let unix = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    unix.set_nonblocking(true).unwrap();
    let said = shell_says(
        &hub,
        &lease,
        &format!("cat /proc/net/unix; echo x | nc -U @{name} 2>&1; echo status $?"),
    );
    assert!(!said.contains(&format!("@{name}\n")), "{said}");
    assert!(nothing_arrived(&tcp) && udp.recv(&mut [0; 8]).is_err() && unix.accept().is_err());
}

/// Every address of the host, loopback included.
fn host_addresses() -> Vec<Ipv4Addr> {
    let table = fs::read_to_string("/proc/net/fib_trie").unwrap();
    let mut found: Vec<Ipv4Addr> = Vec::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in table.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line.starts_with("/32 host LOCAL") {
            found.extend(last);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Only root may enter the hub's namespaces from outside to take the rules away.
fn no_uplink() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (hub, listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let hub_pid = hub_pid(&hub, &lease);
    let enter = |command: &[&str]| {
        Command::new("nsenter")
            .args(["--target", &hub_pid.to_string(), "--net", "--"])
            .args(command)
            .output()
            .unwrap()
    };
    assert!(enter(&["nft", "flush", "ruleset"]).status.success());
    enter(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
    assert!(enter(&["nft", "list", "ruleset"]).stdout.is_empty());
    let host = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = host.local_addr().unwrap().port();
    for address in host_addresses()
        .into_iter()
        .chain([Ipv4Addr::new(1, 1, 1, 1)])
    {
        let script =
            format!("timeout 1 bash -c 'exec 3<>/dev/tcp/{address}/{port}'; echo status $?");
        let said = shell_says(&hub, &lease, &script);
        assert!(!said.contains("status 0"), "{address}: {said}");
    }
    assert!(nothing_arrived(&host) && nothing_arrived(&listeners.redirect));
}

/// The rules are sent as bytes of our own making: what the kernel made of them
/// is read back by the program that everybody reads rules with.
fn firewall_as_meant() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (hub, _listeners) = lab::start(2);
    let lease = hub.lease().unwrap();
    let listed = Command::new("nsenter")
        .args([
            "--target",
            &hub_pid(&hub, &lease).to_string(),
            "--net",
            "--",
        ])
        .args(["nft", "list", "ruleset"])
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for (chain, rules) in [
        (
            "chain guard",
            "iif . ip saddr != @identity drop; ip daddr 127.0.0.0/8 drop; meta l4proto tcp accept; udp dport 53 accept; add @refused { ip saddr . ip daddr . meta l4proto . udp dport }; meta l4proto udp reject; reject with icmp admin-prohibited",
        ),
        (
            "chain steer",
            "add @tracked { ip saddr ct count over 4096 } drop; th dport 53 redirect to :53; tcp dport 8081 iif . ip daddr @gateways accept; meta l4proto tcp redirect to :15001",
        ),
        (
            "chain arrive",
            "iif . ip daddr != @gateways drop; ct state established accept",
        ),
        (
            "chain leave",
            "oif . ip daddr != @identity drop; ct state established,related accept; icmp type destination-unreachable accept",
        ),
    ] {
        let body = listed.split(chain).nth(1).unwrap_or_default();
        let body: Vec<&str> = body.lines().skip(2).map(str::trim).collect();
        assert!(body.join("; ").starts_with(rules), "{chain} in {listed}");
    }
    assert_eq!(listed.matches("policy drop").count(), 7, "{listed}");
    assert!(listed.contains("10.200.0.6"), "{listed}");
}

/// In a sandbox's network and in the hub's, where root may look.
fn parts_of_packets() {
    let (hub, _listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let said = shell_says(&hub, &lease, "cat /proc/sys/net/ipv4/ipfrag_time");
    assert_eq!(said.trim(), "1");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let pid = hub_pid(&hub, &lease).to_string();
    let read = Command::new("nsenter")
        .args(["--target", &pid, "--net", "--"])
        .args(["cat", "/proc/sys/net/ipv4/ipfrag_time"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(read.stdout).unwrap().trim(), "1");
}

/// The hub's pid as the host counts: the parent of what runs in the slot.
fn hub_pid(hub: &gig_netns::Hub, lease: &gig_netns::Lease) -> u32 {
    use std::os::fd::AsRawFd as _;
    let field = |file: String, name: &str| -> u32 {
        let text = fs::read_to_string(file).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap().trim().parse().unwrap()
    };
    let waiting = shell(hub, lease, "sleep 60");
    let pidfd = waiting.child.pidfd.as_raw_fd();
    let pid = field(format!("/proc/self/fdinfo/{pidfd}"), "Pid:");
    let parent = field(format!("/proc/{pid}/status"), "PPid:");
    rustix::process::pidfd_send_signal(&waiting.child.pidfd, rustix::process::Signal::KILL)
        .unwrap();
    parent
}

fn no_capability() {
    let (hub, _listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let said = shell_says(
        &hub,
        &lease,
        "grep -E 'Cap(Inh|Prm|Eff|Amb)|NoNewPrivs' /proc/self/status",
    );
    for line in said.lines() {
        let value = line.split_whitespace().last().unwrap();
        assert_eq!(
            value.trim_start_matches('0'),
            if line.starts_with("NoNew") { "1" } else { "" }
        );
    }
    assert_eq!(said.lines().count(), 5);
    let said = shell_says(
        &hub,
        &lease,
        "ip link set eth0 down 2>&1; nft list ruleset 2>&1",
    );
    assert!(said.contains("not permitted"), "{said}");
}
