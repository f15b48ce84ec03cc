//! How gig reaches origins: `--resolve`, `--allow-private`, its own proxy, IPv6, certificates.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use gig_audit::{Entry, Event};
use gig_policy::DenyReason;
use gig_tests::lab::{
    Lab, Subject, Way,
    http_origin::{HttpOrigin, greet},
    network::{Side, text},
    open_proxy,
};

const HOST: &str = "api.example.com";
const URL: &str = "https://api.example.com/";

fn local_origin(lab: &Lab, at: SocketAddr) -> HttpOrigin {
    let tls = lab.leaf(HOST).server_config(&["http/1.1"]);
    HttpOrigin::start(lab.network.listen(Side::Host, at), Some(tls), greet)
}

#[test]
fn resolve_and_allow_private_reach_an_origin_on_the_host() {
    let lab = Lab::new();
    let origin = local_origin(&lab, SocketAddr::from(([127, 0, 0, 1], 8443)));
    let resolve = "api.example.com:443:127.0.0.1:8443";
    let run = lab.gig().allow(HOST).option(["--resolve", resolve]);
    let run = run.option(["--allow-private", "127.0.0.0/8"]);
    let _run = run
        .run(["curl", "-sS", "--fail", URL])
        .success()
        .says("hello")
        .requested(HOST);
    assert_eq!(origin.requests().len(), 1);
}

/// Inside, localhost is the sandbox's own: the error says how to reach this machine's, and that works.
#[test]
fn the_advice_for_a_service_on_localhost_works() {
    let lab = Lab::new();
    let at = SocketAddr::from(([127, 0, 0, 1], 8080));
    let origin = HttpOrigin::start(lab.network.listen(Side::Host, at), None, greet);
    for option in ["localhost:8080", "http:localhost:8080", "127.0.0.1:8080"] {
        let refused = lab.gig().allow(option).run(["true"]).exits(125);
        let said = refused.error_text();
        assert!(said.contains("own loopback"), "{said}");
        let advice = said.split("connect to that: ").nth(1).expect("an advice");
        let run = lab.gig().option(advice.split_whitespace());
        let _run = run
            .run(["curl", "-sS", "--fail", "http://host.test:8080/"])
            .success()
            .says("hello")
            .requested("host.test");
    }
    assert_eq!(origin.requests().len(), 3);
    // Who asks the proxy gets there all the same, and is told what the option is for.
    let run = lab.gig().allow("localhost:8080");
    let run = run.option(["--allow-private", "127.0.0.1"]);
    let url = "http://localhost:8080/";
    let run = run.run(["curl", "-sS", "--fail", "--noproxy", "", url]);
    let run = run.success().says("hello");
    assert!(run.error_text().contains("host.test:8080"), "{run}");
}

#[test]
fn resolved_addresses_are_still_vetted() {
    let lab = Lab::new();
    let origin = local_origin(&lab, SocketAddr::from(([127, 0, 0, 1], 8443)));
    let run = lab
        .gig()
        .allow(HOST)
        .option(["--resolve", "api.example.com:443:127.0.0.1:8443"]);
    let run = run.run(["curl", "-sS", "-i", URL]).says("403");
    assert_eq!(
        run.audit.denials(DenyReason::PrivateAddress).count(),
        1,
        "{run}"
    );
    assert_eq!(origin.raw().wire_octets(), 0);
}

#[test]
fn an_origin_with_a_foreign_certificate_is_refused() {
    let lab = Lab::new();
    let address = lab.address_for(HOST);
    let tls = lab.leaf("other.example.com").server_config(&[]);
    let origin = HttpOrigin::start(
        lab.network.listen(Side::Internet, (address, 443).into()),
        Some(tls),
        greet,
    );
    let run = lab.gig().allow(HOST).run(["curl", "-sS", "-i", URL]);
    assert!(
        run.text().contains("502") && run.text().contains("tls_certificate"),
        "{run}"
    );
    assert!(origin.requests().is_empty());
}

#[test]
fn an_origin_of_an_unknown_authority_is_refused() {
    let lab = Lab::new();
    let address = lab.address_for(HOST);
    let tls = gig_tests::lab::authority::Authority::new()
        .leaf(&[HOST])
        .server_config(&[]);
    let origin = HttpOrigin::start(
        lab.network.listen(Side::Internet, (address, 443).into()),
        Some(tls),
        greet,
    );
    let run = lab.gig().allow(HOST).run(["curl", "-sS", "-i", URL]);
    assert!(
        run.text().contains("502") && run.text().contains("tls_certificate"),
        "{run}"
    );
    assert!(origin.requests().is_empty());
}

#[test]
fn the_origins_faults_are_told_apart() {
    let lab = Lab::new();
    let nobody_listens = lab.address_for(HOST);
    let run = lab.gig().allow(HOST).run(["curl", "-sS", "-i", URL]);
    let run = run.says("502").says("connection_refused");
    let _run = run.complains(&format!(
        "gig: failed during this run\n  api.example.com:443  connection_refused at {nobody_listens}\n"
    ));
    let run =
        lab.gig()
            .allow("gone.example.com")
            .run(["curl", "-sS", "-i", "https://gone.example.com/"]);
    let run = run.says("502").says("name_not_resolved");
    let _run =
        run.complains("gig: failed during this run\n  gone.example.com:443  name_not_resolved\n");
}

#[test]
fn a_client_that_does_not_trust_the_runs_authority_is_in_the_record_and_the_summary() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let root = text(lab.root_file());
    for way in Way::BOTH {
        let run = lab.gig().allow(HOST).read_only(lab.root_file()).going(way);
        let run = run.run(["curl", "-sS", "--cacert", &root, URL]).exits(60);
        let run = run.complains("api.example.com:443  tls_client_distrusts\n");
        let run = run.complains("/etc/gig-ca.pem").connected(HOST);
        assert!(!run.audit.refused_anything(), "{run}");
        let told = |entry: &Entry| {
            entry
                .findings
                .iter()
                .any(|word| **word == *"tls_client_distrusts")
        };
        assert_eq!(
            run.audit
                .of(Event::Response)
                .filter(|entry| told(entry))
                .count(),
            1,
            "{run}"
        );
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn origins_are_reached_over_ipv6() {
    let lab = Lab::with_ipv6();
    let v6: IpAddr = "2a00:1111::80".parse().expect("an address");
    lab.resolver.set(HOST, &[v6]);
    let tls = lab.leaf(HOST).server_config(&["http/1.1"]);
    let origin = HttpOrigin::start(
        lab.network.listen(Side::Internet, (v6, 443).into()),
        Some(tls),
        greet,
    );
    let run = lab.gig().allow(HOST).run(["curl", "-sS", "--fail", URL]);
    let _run = run.success().says("hello").requested(HOST);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_dead_address_family_does_not_hold_a_request_up() {
    let lab = Lab::with_ipv6();
    let origin = lab.https(HOST, greet);
    let v4 = origin.raw().address().ip();
    // Nobody answers at the first address: packets to it vanish.
    lab.network.run(Side::Internet, "ip -6 route add blackhole 2a00:1111:dead::/48 2>/dev/null; \
        nft add table ip6 lab && nft 'add chain ip6 lab in { type filter hook input priority 0; }' && \
        nft add rule ip6 lab in ip6 daddr 2a00:1111:dead::/48 drop");
    lab.resolver.set(
        HOST,
        &["2a00:1111:dead::1".parse().expect("an address"), v4],
    );
    let run = lab
        .gig()
        .allow(HOST)
        .run(["curl", "-sS", "--fail", URL])
        .success()
        .says("hello");
    // The next address has its turn after a quarter of a second (RFC 8305 §5), and not when an attempt is given up.
    let took = run
        .audit
        .of(Event::Response)
        .find_map(|entry| entry.duration_ms);
    assert!(took.is_some_and(|took| took < 3_000), "{run}");
}

/// The host's proxy, which has no IPv6 and asks for `user:word`; where it was asked to go.
fn hosts_proxy(lab: &Lab) -> Arc<Mutex<Vec<SocketAddr>>> {
    let listener = lab.network.listen(
        Side::Internet,
        "11.0.0.80:3128".parse().expect("an address"),
    );
    let network = Arc::clone(&lab.network);
    let log = Arc::new(Mutex::new(Vec::new()));
    let dialled = Arc::clone(&log);
    let dial = move |at: SocketAddr| {
        dialled.lock().expect("the log").push(at);
        if at.is_ipv6() {
            return Err(std::io::ErrorKind::NetworkUnreachable.into());
        }
        network.inside(Side::Internet, || std::net::TcpStream::connect(at))
    };
    // base64 of user:word.
    open_proxy::start_asking(
        listener,
        lab.resolver.clone(),
        Arc::new(dial),
        "dXNlcjp3b3Jk",
    );
    log
}

/// Gig on a host that has that proxy and gives it this word.
fn behind_proxy<'a>(lab: &'a Lab, word: &str) -> Subject<'a> {
    let proxy = format!("http://user:{word}@11.0.0.80:3128");
    lab.gig().allow(HOST).host_env("HTTPS_PROXY", &proxy)
}

#[test]
fn gig_goes_through_the_hosts_own_proxy() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let log = hosts_proxy(&lab);
    let run = behind_proxy(&lab, "word");
    let _run = run
        .run(["curl", "-sS", "--fail", URL])
        .success()
        .says("hello")
        .requested(HOST);
    assert_eq!(
        log.lock().expect("the log").as_slice(),
        [origin.raw().address()]
    );
}

#[test]
fn the_hosts_proxy_is_not_passed_without_its_word() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let log = hosts_proxy(&lab);
    let run = behind_proxy(&lab, "wrong");
    let _run = run.run(["curl", "-sS", "-i", URL]).says("502");
    assert!(log.lock().expect("the log").is_empty());
    assert!(origin.requests().is_empty());
}

#[test]
fn what_no_proxy_names_goes_past_the_hosts_proxy() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let log = hosts_proxy(&lab);
    let run = behind_proxy(&lab, "word").host_env("NO_PROXY", "other.example.com,.example.com");
    let _run = run
        .run(["curl", "-sS", "--fail", URL])
        .success()
        .says("hello");
    assert_eq!(origin.requests().len(), 1);
    assert!(log.lock().expect("the log").is_empty());
}

#[test]
fn a_proxy_without_ipv6_is_asked_for_the_other_address() {
    let lab = Lab::with_ipv6();
    let origin = lab.https(HOST, greet);
    let at = origin.raw().address();
    let v6: IpAddr = "2a00:1111::80".parse().expect("an address");
    lab.resolver.set(HOST, &[v6, at.ip()]);
    let log = hosts_proxy(&lab);
    let run = behind_proxy(&lab, "word");
    let _run = run
        .run(["curl", "-sS", "--fail", URL])
        .success()
        .says("hello")
        .requested(HOST);
    assert_eq!(
        log.lock().expect("the log").as_slice(),
        [SocketAddr::new(v6, 443), at]
    );
}
