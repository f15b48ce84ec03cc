//! Upgrades that are refused must not leave a raw pipe behind.

use gig_tests::lab::{Finished, Lab, http_origin::HttpOrigin};

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
         print(s.recv(4096).split(b'\\r\\n')[0].decode())\n\
         s.settimeout(2)\n\
         try:\n\
         \x20s.sendall(b'RAW-BYTES-AFTER'); s.recv(4096)\n\
         except OSError as error: print(error)"
    );
    lab.gig().allow(HOST).wire(&script)
}

fn check(origin: &HttpOrigin, run: &Finished) {
    let text = origin.raw().text();
    assert!(
        !text.contains("RAW-BYTES"),
        "ESCAPED: the origin saw {text:?}; {run}"
    );
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
    assert!(!passed, "ESCAPED: h2c was offered to the origin; {run}");
    check(&origin, &run);
}
