//! Domain fronting: one name for the policy, another for the origin.

use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab,
    denial::Refusal,
    http_origin::{HttpOrigin, Request, greet},
    nginx::{Line, Nginx},
    place,
};

const FRONT: &str = "cdn.example.com";
const HIDDEN: &str = "evil.example.net";
const ASKED_FOR_HIDDEN: &str = "a request for the hidden name";

fn misdirected(run: &Finished) -> bool {
    run.text().contains("421")
}

/// The front serves both names, as a content network would.
fn front(lab: &Lab) -> HttpOrigin {
    lab.https(FRONT, greet)
}

fn check(origin: &HttpOrigin, run: &Finished) {
    let hidden = |request: &Request| {
        request.field("host") == Some(HIDDEN) || request.target.contains(HIDDEN)
    };
    Refusal::new(DenyReason::NamesDisagree)
        .origin_never_sees(ASKED_FOR_HIDDEN, || origin.requests().iter().any(hidden))
        .client(misdirected)
        .check(run);
}

/// The same at nginx.
fn check_at_nginx(origin: &Nginx, run: &Finished) {
    let hidden = |line: &Line| line.column("host") == HIDDEN;
    Refusal::new(DenyReason::NamesDisagree)
        .origin_never_sees(ASKED_FOR_HIDDEN, || origin.lines().iter().any(hidden))
        .client(misdirected)
        .check(run);
}

#[test]
fn host_field_must_agree_with_sni() {
    let lab = Lab::new();
    let origin = front(&lab);
    let run = lab.gig().allow(FRONT).run([
        "curl",
        "-sS",
        "-m",
        "20",
        "-i",
        "--http1.1",
        "-H",
        "Host: evil.example.net",
        "https://cdn.example.com/",
    ]);
    check(&origin, &run);
}

#[test]
fn authority_pseudo_field_must_agree_with_sni() {
    let lab = Lab::new();
    let origin = lab.nginx(&[FRONT]);
    let run = lab.gig().allow(FRONT).run([
        "curl",
        "-sS",
        "-m",
        "20",
        "-i",
        "--http2",
        "-H",
        "Host: evil.example.net",
        "https://cdn.example.com/hello",
    ]);
    check_at_nginx(&origin, &run);
}

#[test]
fn host_field_must_agree_with_the_destination_of_plain_http() {
    let lab = Lab::new();
    let origin = lab.http(FRONT, greet);
    let script = "s = connect('cdn.example.com', 80); s.sendall(get('/', 'evil.example.net')); print(until(s, '421'))";
    let run = lab.gig().allow(FRONT).wire(script);
    check(&origin, &run);
}

#[test]
fn absolute_form_inside_tls_must_agree() {
    let lab = Lab::new();
    let origin = front(&lab);
    let script = "s = tls('cdn.example.com'); \
        s.sendall(get('https://evil.example.net/', 'cdn.example.com')); print(until(s, '421'))";
    let run = lab.gig().allow(FRONT).wire(script);
    check(&origin, &run);
}

#[test]
fn absolute_form_to_the_proxy_must_agree_with_host() {
    let lab = Lab::new();
    let origin = lab.http(FRONT, greet);
    let script = "s = proxy(); s.sendall(get('http://cdn.example.com/', 'evil.example.net')); print(until(s, '421'))";
    let run = lab.gig().allow(FRONT).wire(script);
    // RFC 9112 §3.2.2 would let a proxy replace Host by the target's authority: it is refused instead.
    check(&origin, &run);
}

#[test]
fn pipelined_second_request_is_decided_by_itself() {
    let lab = Lab::new();
    let origin = front(&lab);
    let script = "s = tls('cdn.example.com'); \
        s.sendall(get('/', 'cdn.example.com') + get('/second', 'evil.example.net')); print(until(s, '421'))";
    let run = lab.gig().allow(FRONT).wire(script);
    check(&origin, &run);
}

#[test]
fn second_request_on_a_kept_connection_is_decided_by_itself() {
    let lab = Lab::new();
    let origin = front(&lab);
    let script = "s = tls('cdn.example.com'); s.sendall(get('/', 'cdn.example.com')); print(s.recv(4096)); \
        s.sendall(get('/second', 'evil.example.net')); print(until(s, '421'))";
    let run = lab.gig().allow(FRONT).wire(script);
    check(&origin, &run);
}

#[test]
fn coalesced_h2_request_for_another_name_is_refused() {
    let lab = Lab::new();
    let origin = lab.nginx(&[FRONT, HIDDEN]);
    let venv = place::client("venv");
    let python = gig_tests::lab::network::text(&venv.join("bin/python"));
    let script = gig_tests::lab::fixture::text("wire.py") + COALESCE;
    let run = lab
        .gig()
        .allow(FRONT)
        .read_only(&venv)
        .run([python.as_str(), "-c", &script]);
    check_at_nginx(&origin, &run);
    let served = origin
        .lines()
        .iter()
        .any(|line| line.column("host") == FRONT);
    assert!(served, "the honest request beside it is served; {run}");
}

const COALESCE: &str = r#"
import h2.connection, h2.events
s = tls('cdn.example.com', alpn=['h2'])
c = h2.connection.H2Connection()
c.initiate_connection()
for stream, name in ((1, 'cdn.example.com'), (3, 'evil.example.net')):
    c.send_headers(stream, [(':method', 'GET'), (':scheme', 'https'), (':path', '/hello'), (':authority', name)], end_stream=True)
s.sendall(c.data_to_send())
s.settimeout(60)
ended = 0
while ended < 2:
    data = s.recv(65536)
    if not data: break
    for event in c.receive_data(data):
        if isinstance(event, h2.events.ResponseReceived):
            print(event.stream_id, dict(event.headers))
        if isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
            ended += 1
    s.sendall(c.data_to_send())
"#;

#[test]
fn tunnel_to_an_allowed_name_does_not_carry_another() {
    let lab = Lab::new();
    let origin = lab.tls(
        std::net::SocketAddr::new(lab.address_for(FRONT), 443),
        &[FRONT, HIDDEN],
        &[],
        |conversation| conversation.drain(),
    );
    let script = "s, status = tunnel('cdn.example.com:443'); print(status)\n\
        def go():\n t = tls('x', sni='evil.example.net', over=s); t.sendall(get('/', 'evil.example.net')); return ending(t)\n\
        attempt(go)";
    let run = lab.gig().allow(FRONT).wire(script);
    Refusal::new(DenyReason::NamesDisagree)
        .client_says("refused: ConnectionResetError")
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}
