//! UDP, QUIC and ICMP: refused at once, so that clients fall back.

use std::time::Duration;

use gig_policy::DenyReason;
use gig_tests::lab::{Lab, denial::Refusal};

/// Why a client cannot tell: udp(7) has errors of unconnected sockets told to nobody.
const UNCONNECTED: &str = "a socket that is not connected hears of no ICMP";

#[test]
fn udp_is_refused_at_once() {
    let lab = Lab::new();
    let script = "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)\n\
        s.connect(('11.0.1.1', 443)); started = time.monotonic()\n\
        def go():\n s.send(b'x' * 1200); s.recv(10)\nattempt(go)\n\
        print('soon' if time.monotonic() - started < 30 else 'late')";
    let run = lab.gig().allow("api.example.com").wire(script);
    Refusal::new(DenyReason::UnsupportedProtocol)
        .of("11.0.1.1")
        .times(1)
        .client_says("refused: ConnectionRefusedError")
        .client_says("soon")
        .nothing_leaves()
        .check(&run);
}

#[test]
fn udp_to_an_allowed_host_is_refused_too() {
    let lab = Lab::new();
    let _address = lab.address_for("api.example.com");
    let script = "a = socket.gethostbyname('api.example.com')\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60); s.connect((a, 443))\n\
        def go():\n s.send(b'x' * 1200); s.recv(10)\nattempt(go)";
    let run = lab.gig().allow("api.example.com").wire(script);
    Refusal::new(DenyReason::UnsupportedProtocol)
        .of("api.example.com")
        .times(1)
        .client_says("refused: ConnectionRefusedError")
        .nothing_leaves()
        .check(&run);
}

#[test]
fn unconnected_datagrams_go_nowhere() {
    let lab = Lab::new();
    let script = "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        for port in (53000, 443, 123, 161, 69, 5353):\n\
        \x20try: s.sendto(b'leak', ('11.0.1.9', port))\n\
        \x20except OSError as e: print(e)\n\
        time.sleep(0.3)";
    let run = lab.gig().wire(script);
    Refusal::new(DenyReason::UnsupportedProtocol)
        .of("11.0.1.9")
        .times(6)
        .client_sees_nothing_because(UNCONNECTED)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn broadcast_and_multicast_go_nowhere() {
    let lab = Lab::new();
    let script = "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\n\
        for to in ('255.255.255.255', '224.0.0.251', '11.255.255.255'):\n\
        \x20try: s.sendto(b'leak', (to, 5353))\n\
        \x20except OSError as e: print(e)\n\
        time.sleep(0.3)";
    let run = lab.gig().wire(script);
    Refusal::new(DenyReason::UnsupportedProtocol)
        .of("224.0.0.251")
        .times(1)
        .client_sees_nothing_because(UNCONNECTED)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn ping_goes_nowhere() {
    let lab = Lab::new();
    lab.network.run(
        gig_tests::lab::network::Side::Host,
        "echo '0 2147483647' > /proc/sys/net/ipv4/ping_group_range",
    );
    let script = "def go():\n s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)\n \
        s.settimeout(3); s.connect(('11.0.1.1', 0)); s.send(b'\\x08\\x00\\x00\\x00\\x00\\x01\\x00\\x01'); \
        return len(s.recv(100))\nattempt(go)";
    let run = lab.gig().patience(Duration::from_secs(20)).wire(script);
    Refusal::by_the_kernel()
        .client_says("refused: PermissionError")
        .nothing_leaves()
        .check(&run);
}

#[test]
fn names_over_udp_to_a_denied_host_are_recorded() {
    let lab = Lab::new();
    let run = lab.gig().wire("print(dns('evil.example.net'))");
    let refusal = Refusal::new(DenyReason::HostNotAllowed).of("evil.example.net");
    refusal.client_says("(3, 0)").nothing_leaves().check(&run);
}
