//! Network interfaces of the kernel: addresses, routes, links, firewall, settings, other sockets.

use super::{answered, refused};

macro_rules! sockets {
    ($number:literal: $($test:ident = $family:literal),+ $(,)?) => {$(
        #[test]
        fn $test() {
            answered(&["family", $family], $number);
        }
    )+};
}

// EAFNOSUPPORT.
sockets! { 97:
    netlink_sockets_are_refused = "netlink",
    packet_sockets_are_refused = "packet",
    vsock_sockets_are_refused = "vsock",
    crypto_sockets_are_refused = "alg",
    bluetooth_sockets_are_refused = "bluetooth",
    xdp_sockets_are_refused = "xdp",
    kcm_sockets_are_refused = "kcm",
    tipc_sockets_are_refused = "tipc",
    rds_sockets_are_refused = "rds",
    can_sockets_are_refused = "can",
    smc_sockets_are_refused = "smc",
}

// EPROTONOSUPPORT.
sockets! { 93:
    mptcp_sockets_are_refused = "mptcp",
    mptcp_sockets_over_ipv6_are_refused = "mptcp6",
    udplite_sockets_are_refused = "udplite",
    sctp_sockets_are_refused = "sctp",
    sctp_sockets_by_type_are_refused = "sctp-type",
}

// EPERM.
sockets! { 1:
    dccp_sockets_are_refused = "dccp",
    raw_sockets_are_refused = "raw",
    raw_icmp_sockets_are_refused = "raw-icmp",
    raw_ipv6_sockets_are_refused = "raw6",
}

/// A network tool of the system, run inside: it must fail, for want of the kernel's interface already. That it would
/// not get far with it either is `network::own_root`'s to show.
fn tool_fails(command: &str) {
    let lab = gig_tests::lab::Lab::new();
    let run = lab.gig().sh(&format!("{command} && echo CHANGED"));
    assert!(!run.text().contains("CHANGED"), "{command}: {run}");
    // EAFNOSUPPORT, and not what the kernel says to a change that makes no sense or to who may not make it.
    let said = run.error_text();
    let words = "socket: Address family not supported by protocol";
    assert!(said.contains(words), "{command}: {run}");
}

#[test]
fn addresses_cannot_be_added() {
    tool_fails("ip addr add 10.200.0.6/30 dev eth0");
}

#[test]
fn routes_cannot_be_changed() {
    tool_fails("ip route replace default via 10.200.0.1");
}

#[test]
fn links_cannot_be_made() {
    tool_fails("ip link add dummy0 type dummy");
}

#[test]
fn links_cannot_be_renumbered() {
    tool_fails("ip link set eth0 address 02:00:00:00:00:99");
}

#[test]
fn the_firewall_cannot_be_changed() {
    tool_fails("nft flush ruleset");
}

#[test]
fn network_settings_cannot_be_written() {
    refused(&["open", "/proc/sys/net/ipv4/ip_forward"]);
}

#[test]
fn the_network_namespace_has_a_loopback_and_one_link() {
    let lab = gig_tests::lab::Lab::new();
    let run = lab
        .gig()
        .sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort | tr '\\n' ' '");
    assert_eq!(run.text(), "eth0 lo ", "{run}");
}

#[test]
fn the_network_namespace_has_one_route_out() {
    let lab = gig_tests::lab::Lab::new();
    let run = lab
        .gig()
        .sh("awk '$2 == \"00000000\"' /proc/net/route | wc -l; wc -l < /proc/net/route");
    assert_eq!(
        run.text(),
        "1\n2\n",
        "a heading and the default route: {run}"
    );
}

#[test]
fn a_disconnected_sandbox_has_a_loopback_only() {
    let lab = gig_tests::lab::Lab::new();
    let run = lab.gig().option(["--network", "disconnected"]);
    let run =
        run.sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \\n'; wc -l < /proc/net/route");
    let run = run.success();
    assert!(run.text().starts_with("lo"), "{run}");
    assert!(!run.text().contains("eth"), "{run}");
}
