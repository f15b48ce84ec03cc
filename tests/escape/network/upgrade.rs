//! Upgrades that are refused must not leave a raw pipe behind.

use gig_policy::DenyReason;
use gig_tests::lab::{Finished, Lab, denial::Refusal, http_origin::HttpOrigin};

const HOST: &str = "ws.example.com";

/// An origin that answers the upgrade with `status` and goes on reading.
fn origin(lab: &Lab, status: &'static str) -> HttpOrigin {
    lab.https(HOST, move |request, exchange| {
        exchange.body(request)?;
        exchange.answer(status, "no sockets here\n")?;
        exchange.raw().drain()
    })
}

fn attempt(lab: &Lab, upgrade: &str) -> Finished {
    let script = format!(
        "s = tls('{HOST}')\n\
         s.sendall(get('/chat', '{HOST}', 'Connection: Upgrade', 'Upgrade: {upgrade}', \
         'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='))\n\
         print(until(s, 'no sockets here').split('\\r\\n')[0])\n\
         s.sendall(b'RAW-BYTES-AFTER\\r\\n\\r\\n'); print(ending(s))"
    );
    lab.gig().allow(HOST).wire(&script)
}

/// What is written on is read as the next request, and is none.
fn check(origin: &HttpOrigin, run: &Finished) {
    Refusal::new(DenyReason::MalformedRequest)
        .of(HOST)
        .client_says("closed after b'HTTP/1.1 400")
        .origin_never_sees("what was written on", || {
            origin.raw().text().contains("RAW-BYTES")
        })
        .check(run);
}

#[test]
fn websocket_answered_403_leaves_no_pipe() {
    let lab = Lab::new();
    let origin = origin(&lab, "403 Forbidden");
    check(&origin, &attempt(&lab, "websocket"));
}

#[test]
fn websocket_answered_200_leaves_no_pipe() {
    let lab = Lab::new();
    let origin = origin(&lab, "200 OK");
    check(&origin, &attempt(&lab, "websocket"));
}

#[test]
fn unknown_upgrade_leaves_no_pipe() {
    let lab = Lab::new();
    let origin = origin(&lab, "200 OK");
    check(&origin, &attempt(&lab, "anything"));
}

#[test]
fn upgrade_to_clear_text_h2_is_not_passed_on() {
    let lab = Lab::new();
    let origin = origin(&lab, "200 OK");
    let run = attempt(&lab, "h2c");
    let passed = origin
        .requests()
        .iter()
        .any(|request| request.field("upgrade") == Some("h2c"));
    assert!(!passed, "ESCAPED: an origin was offered h2c; {run}");
    check(&origin, &run);
}
