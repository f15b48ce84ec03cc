//! Where a sandbox's traffic ends up.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::time::{Duration, Instant};

use gig_netns::SpawnNetwork;

use crate::Test;
use crate::lab::{self, accept, meant, nothing_arrived, shell, shell_says};

pub(crate) const TESTS: &[Test] = &[
    (
        "every_tcp_port_is_redirected_with_its_destination",
        every_tcp_port,
    ),
    (
        "explicit_port_of_own_gateway_alone_is_the_explicit_proxy",
        explicit_port,
    ),
    (
        "dns_to_any_server_reaches_ours_by_udp_and_tcp",
        dns_to_any_server,
    ),
    ("other_udp_and_icmp_are_refused_at_once", other_protocols),
    (
        "sandbox_has_lo_and_one_link_with_one_route",
        exactly_one_link,
    ),
    ("disconnected_has_lo_alone", disconnected),
    ("every_slot_has_its_own_identity", identities),
    ("first_datagram_of_a_new_slot_is_not_lost", first_datagram),
    ("bulk_data_passes_both_ways", bulk),
];

fn every_tcp_port() {
    let (hub, listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    for meant_for in [
        "93.184.216.34:443",
        "1.1.1.1:1",
        "198.18.0.7:65535",
        "10.200.0.1:22",
        "127.0.0.2:80",
    ] {
        let (host, port) = meant_for.split_once(':').unwrap();
        let script = format!("exec 3<>/dev/tcp/{host}/{port} && echo hi >&3 && cat <&3");
        let client = shell(&hub, &lease, &script);
        if host.starts_with("127.") {
            assert!(client.end().output.contains("refused"));
            continue;
        }
        let (mut stream, peer) = accept(&listeners.redirect).unwrap();
        assert_eq!(meant(&stream).to_string(), meant_for);
        assert_eq!(*peer.ip(), lease.address());
        let mut said = [0; 3];
        stream.read_exact(&mut said).unwrap();
        stream.write_all(b"answer\n").unwrap();
        drop(stream);
        assert_eq!(client.end().output, "answer\n");
    }
}

fn explicit_port() {
    let (hub, listeners) = lab::start(2);
    let (lease, other) = (hub.lease().unwrap(), hub.lease().unwrap());
    let connect = |to: Ipv4Addr| {
        shell(
            &hub,
            &lease,
            &format!("exec 3<>/dev/tcp/{to}/8081 && cat <&3"),
        )
    };
    let client = connect(lease.gateway());
    let (stream, peer) = accept(&listeners.explicit).unwrap();
    assert_eq!(*peer.ip(), lease.address());
    drop(stream);
    client.end();
    let client = connect(other.gateway());
    let (stream, _) = accept(&listeners.redirect).unwrap();
    assert_eq!(meant(&stream), SocketAddrV4::new(other.gateway(), 8081));
    drop(stream);
    client.end();
    assert!(nothing_arrived(&listeners.explicit));
}

fn dns_to_any_server() {
    let (hub, listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    for server in [
        Ipv4Addr::new(9, 9, 9, 9),
        lease.gateway(),
        Ipv4Addr::new(10, 200, 0, 5),
    ] {
        let script =
            format!("exec 3<>/dev/udp/{server}/53; echo question >&3; timeout 60 head -n1 <&3");
        let client = shell(&hub, &lease, &script);
        let mut question = [0; 64];
        listeners.dns_udp.set_nonblocking(false).unwrap();
        listeners
            .dns_udp
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let (count, peer) = listeners.dns_udp.recv_from(&mut question).unwrap();
        assert_eq!(&question[..count], b"question\n");
        assert_eq!(peer.ip(), lease.address());
        listeners.dns_udp.send_to(b"answer\n", peer).unwrap();
        assert_eq!(client.end().output, "answer\n", "{server}");

        let client = shell(
            &hub,
            &lease,
            &format!("exec 3<>/dev/tcp/{server}/53 && cat <&3"),
        );
        let (stream, _) = accept(&listeners.dns_tcp).unwrap();
        drop(stream);
        client.end();
    }
}

fn other_protocols() {
    let (hub, _listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    // More often than the kernel's usual limit on ICMP errors allows.
    let script = "for i in $(seq 20); do exec 3<>/dev/udp/1.1.1.1/443; echo x >&3; \
                  timeout 60 cat <&3 || echo refused $?; exec 3>&-; done";
    let begun = Instant::now();
    let said = shell_says(&hub, &lease, script);
    assert_eq!(said.matches("Connection refused").count(), 20, "{said}");
    assert!(
        begun.elapsed() < Duration::from_secs(50),
        "{:?}",
        begun.elapsed()
    );
}

fn exactly_one_link() {
    let (hub, _listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let links = shell_says(
        &hub,
        &lease,
        "ls /sys/class/net >/dev/null; ip -o link | cut -d: -f2",
    );
    let links: Vec<&str> = links
        .split_whitespace()
        .map(|l| l.split('@').next().unwrap())
        .collect();
    assert_eq!(links, ["lo", "eth0"]);
    let addresses = shell_says(&hub, &lease, "ip -o addr show dev eth0");
    assert_eq!(addresses.lines().count(), 1, "{addresses}");
    assert!(
        addresses.contains(&format!("inet {}/30", lease.address())),
        "{addresses}"
    );
    let routes = shell_says(
        &hub,
        &lease,
        "ip route show table main; ip -6 route show table all",
    );
    assert_eq!(routes.lines().count(), 1, "{routes}");
    assert!(
        routes.starts_with(&format!("default via {}", lease.gateway())),
        "{routes}"
    );
    let six = shell_says(
        &hub,
        &lease,
        "ip -6 -o addr; exec 3<>/dev/tcp/2606:4700::1111/443",
    );
    assert!(
        six.contains("unreachable") || six.contains("assign"),
        "{six}"
    );
}

fn disconnected() {
    let (hub, listeners) = lab::start(1);
    let script = "ip -o link | cut -d: -f2; ip route; exec 3<>/dev/tcp/1.1.1.1/80";
    let network = SpawnNetwork::Disconnected;
    let command = ["/bin/bash", "-c", script];
    let ended = lab::spawn(&hub, network, &command, lab::Extra::default()).end();
    let mut lines = ended.output.lines();
    assert_eq!(lines.next().map(str::trim), Some("lo"));
    assert!(
        lines
            .next()
            .is_some_and(|line| line.contains("unreachable")),
        "{}",
        ended.output
    );
    assert!(nothing_arrived(&listeners.redirect));
}

fn identities() {
    let (hub, listeners) = lab::start(3);
    let leases = [(); 3].map(|()| hub.lease().unwrap());
    assert!(hub.lease().is_err());
    for lease in &leases {
        let client = shell(&hub, lease, "exec 3<>/dev/tcp/1.1.1.1/80 && cat <&3");
        let (stream, peer) = accept(&listeners.redirect).unwrap();
        assert_eq!(*peer.ip(), lease.address());
        drop(stream);
        client.end();
    }
    let host = TcpListener::bind("0.0.0.0:0").unwrap();
    assert!(nothing_arrived(&host));
}

fn bulk() {
    const BYTES: usize = 64 * 1024 * 1024;
    let (hub, listeners) = lab::start(1);
    let lease = hub.lease().unwrap();
    let script = format!(
        "exec 3<>/dev/tcp/1.1.1.1/80; head -c {BYTES} /dev/zero >&3 & cat <&3 | wc -c; wait"
    );
    let client = shell(&hub, &lease, &script);
    let (mut stream, _) = accept(&listeners.redirect).unwrap();
    let mut write = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        write.write_all(&vec![0; BYTES]).unwrap();
        write.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut read = vec![0; BYTES];
    stream.read_exact(&mut read).unwrap();
    writer.join().unwrap();
    assert_eq!(client.end().output.trim(), BYTES.to_string());
}

/// A link's queue comes some time after its carrier; once in thirty starts an
/// answer was lost before it.
fn first_datagram() {
    let (hub, listeners) = lab::start(1);
    listeners.dns_udp.set_nonblocking(false).unwrap();
    listeners
        .dns_udp
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    for _ in 0..30 {
        let lease = hub.lease().unwrap();
        let script = "exec 3<>/dev/udp/9.9.9.9/53; echo question >&3; timeout 60 head -n1 <&3";
        let client = shell(&hub, &lease, script);
        let (_, peer) = listeners.dns_udp.recv_from(&mut [0; 64]).unwrap();
        listeners.dns_udp.send_to(b"answer\n", peer).unwrap();
        assert_eq!(client.end().output, "answer\n");
        hub.release(lease).unwrap();
    }
}
