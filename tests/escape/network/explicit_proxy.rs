//! The explicit proxy on 8081: what it must not be talked into.

use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab, denial::Refusal, http_origin::greet, network::Side, raw_origin::RawOrigin,
};

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
        .unseen_by(&origin)
        .nothing_leaves()
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
    Refusal::new(DenyReason::NamesDisagree)
        .unseen_by(&origin)
        .nothing_leaves()
        .client_says("421")
        .check(&run);
}

#[test]
fn plain_bytes_in_a_tunnel_to_an_https_rule_are_refused() {
    let lab = Lab::new();
    let address = lab.address_for(ALLOWED);
    let origin = lab.tcp((address, 443).into(), |conversation| conversation.drain());
    let script = "s, status = tunnel('api.example.com:443'); s.sendall(b'EXFILTRATED bytes\\n'); print(ending(s))";
    let run = lab.gig().allow(ALLOWED).wire(script);
    Refusal::new(DenyReason::UnsupportedProtocol)
        .of(ALLOWED)
        .unseen_by(&origin)
        .nothing_leaves()
        .client_says("ConnectionResetError after b''")
        .check(&run);
}

#[test]
fn the_proxy_does_not_lead_back_into_gig() {
    let lab = Lab::new();
    let at = ([127, 0, 0, 1], 8080).into();
    let own = RawOrigin::start(lab.network.listen(Side::Host, at), None, |c| c.drain());
    let script = "g = os.environ['HTTPS_PROXY'].removeprefix('http://').rsplit(':', 1)[0]\n\
        for to in (f'{g}:8081', f'{g}:53', '127.0.0.1:8081', '127.0.0.1:8080', '10.200.0.5:8081', '10.200.0.6:22'):\n\
        \x20print(to, tunnel(to)[1])";
    let run = lab.gig().allow(ALLOWED).wire(script);
    let answers = |run: &Finished| run.text().matches(" 403 ").count();
    Refusal::new(DenyReason::IpNotAllowed)
        .or(DenyReason::NeverOpenable)
        .times(6)
        .client(|run| answers(run) == 6)
        .unseen_by(&own)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn userinfo_does_not_hide_the_host() {
    let lab = Lab::new();
    let origin = lab.http(DENIED, greet);
    let script = "for t in ('http://api.example.com@evil.example.net/', 'http://api.example.com%40evil.example.net/', \
        'http://evil.example.net#api.example.com/', 'http://evil.example.net\\\\@api.example.com/'):\n\
        \x20s = proxy(); s.sendall(get(t, 'evil.example.net')); print(until(s, '\\r\\n').split('\\r\\n')[0])\n\
        s = proxy(); s.sendall(get('http://evil.example.net/', 'api.example.com')); print(until(s, '\\r\\n').split('\\r\\n')[0])";
    let run = lab.gig().allow(ALLOWED).wire(script);
    let refused = |line: &str| {
        ["400", "403", "421"]
            .iter()
            .any(|status| line.contains(status))
    };
    Refusal::new(DenyReason::MalformedRequest)
        .or(DenyReason::HostNotAllowed)
        .or(DenyReason::NamesDisagree)
        .times(5)
        .client(|run| run.text().lines().count() == 5 && run.text().lines().all(refused))
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}
