//! The explicit proxy on 8081: what it must not be talked into.

use gig_policy::DenyReason;
use gig_tests::lab::{Lab, denial::Refusal, http_origin::greet};

const ALLOWED: &str = "api.example.com";
const DENIED: &str = "evil.example.net";

#[test]
fn connect_to_a_denied_host_is_answered_403() {
    let lab = Lab::new();
    let origin = lab.https(DENIED, greet);
    let run = lab
        .gig()
        .allow(ALLOWED)
        .wire("print(tunnel('evil.example.net:443')[1])");
    let refusal = Refusal::new(DenyReason::HostNotAllowed).of(DENIED);
    refusal
        .unseen_by(origin.raw())
        .client_says("403")
        .check(&run);
}

#[test]
fn connect_is_decided_by_its_target_not_by_host() {
    let lab = Lab::new();
    let origin = lab.https(DENIED, greet);
    let script = "s, status = tunnel('evil.example.net:443', host='api.example.com'); print(status)\n\
        def go():\n t = tls('evil.example.net', over=s); t.sendall(get('/', 'evil.example.net')); return rest(t)\n\
        if ' 200' in status: attempt(go)";
    let run = lab.gig().allow(ALLOWED).wire(script);
    let refusal = Refusal::new(DenyReason::HostNotAllowed).or(DenyReason::NamesDisagree);
    refusal
        .or(DenyReason::MalformedRequest)
        // What the client says after the refusal may be refused by itself.
        .repeatedly()
        .unseen_by(origin.raw())
        .check(&run);
}

#[test]
fn plain_bytes_in_a_tunnel_to_an_https_rule_are_refused() {
    let lab = Lab::new();
    let address = lab.address_for(ALLOWED);
    let origin = lab.tcp((address, 443).into(), |conversation| conversation.drain());
    let script = "s, status = tunnel('api.example.com:443'); s.sendall(b'EXFILTRATED bytes\\n'); print(repr(rest(s)))";
    let run = lab.gig().allow(ALLOWED).wire(script);
    assert!(
        !origin.text().contains("EXFILTRATED"),
        "ESCAPED: {}; {run}",
        origin.text()
    );
    assert!(
        run.open || run.audit.refused_anything(),
        "nothing recorded; {run}"
    );
}

#[test]
fn the_proxy_does_not_lead_back_into_gig() {
    let lab = Lab::new();
    let script = "g = os.environ['HTTPS_PROXY'].removeprefix('http://').rsplit(':', 1)[0]\n\
        for to in (f'{g}:8081', f'{g}:53', '127.0.0.1:8081', '127.0.0.1:8080', '10.200.0.5:8081', '10.200.0.6:22'):\n\
        \x20print(to, tunnel(to)[1])";
    let run = lab.gig().allow(ALLOWED).wire(script);
    assert!(
        !run.text().contains(" 200"),
        "ESCAPED: the client was answered; {run}"
    );
    assert!(
        run.open || run.audit.refused_anything(),
        "nothing recorded; {run}"
    );
}

#[test]
fn userinfo_does_not_hide_the_host() {
    let lab = Lab::new();
    let origin = lab.http(DENIED, greet);
    let script = "for t in ('http://api.example.com@evil.example.net/', 'http://api.example.com%40evil.example.net/', \
        'http://evil.example.net#api.example.com/', 'http://evil.example.net\\\\@api.example.com/'):\n\
        \x20s = proxy(); s.sendall(get(t, 'evil.example.net')); print(rest(s, 3).split('\\r\\n')[0])\n\
        s = proxy(); s.sendall(get('http://evil.example.net/', 'api.example.com')); print(rest(s, 3))";
    let run = lab.gig().allow(ALLOWED).wire(script);
    let octets = origin.raw().wire_octets();
    assert!(octets == 0, "ESCAPED: {octets} octets; {run}");
    assert!(
        run.open || run.audit.refused_anything(),
        "nothing recorded; {run}"
    );
}
