//! WebSocket: a real client and a real server. Refused upgrades are in the escape suite.

use std::time::{Duration, Instant};

use gig_tests::lab::{
    Lab, Way, fixture,
    network::{Side, text},
    place,
    service::Service,
};

const HOST: &str = "ws.example.com";

#[test]
fn websocket_messages_pass_both_ways() {
    let lab = Lab::new();
    let (_server, python) = serve(&lab);
    let venv = place::client("venv");
    for way in Way::BOTH {
        let run = lab.gig().allow(HOST).read_only(&venv).going(way);
        let script = fixture::text("websocket_client.py");
        let run = run.run([
            python.as_str(),
            "-c",
            script.as_str(),
            "wss://ws.example.com/chat",
        ]);
        let _run = run
            .success()
            .says("echoed and closed with 1000")
            .requested(HOST);
    }
}

#[test]
fn websocket_over_h2_reaches_a_server_that_speaks_h1() {
    let lab = Lab::new();
    let (server, python) = serve(&lab);
    let script = fixture::text("wire.py") + &fixture::text("websocket_h2.py");
    let run = lab.gig().allow(HOST).read_only(&place::client("venv"));
    let run = run.run([python.as_str(), "-c", &script]);
    let _run = run
        .success()
        .says("status: 200")
        .says("echoed: over h2")
        .requested(HOST);
    drop(server);
}

/// As long as its sentinel, so that a binary message keeps all of it.
const VALUE: &str = "real-value-7Qx2mZ0pLr5nE8vK3sJ6hG9fD1a";

#[test]
fn secrets_in_websocket_messages_go_out_and_come_back_as_sentinels() {
    let lab = Lab::new();
    let (server, python) = serve_with(&lab, "websocket_secret_server.py", &[VALUE]);
    let run = lab.gig().allow(HOST).read_only(&place::client("venv"));
    let run = run.host_env("GITHUB_TOKEN", VALUE);
    let run = run.option(["--secret", "GITHUB_TOKEN@ws.example.com"]);
    let script = fixture::text("websocket_secret_client.py");
    let run = run.run([python.as_str(), "-c", &script, "wss://ws.example.com/"]);
    let run = run.success().says("echoed all").says("closed with 1002");
    assert!(!run.text().contains(VALUE), "{run}");
    // The server hears of its end when the program has gone on.
    let deadline = Instant::now() + Duration::from_secs(120);
    while !server.log().contains("closed 1001") && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = server.log();
    let count = |line: &str| log.lines().filter(|l| *l == line).count();
    assert_eq!((count("str value"), count("bytes value")), (4, 2), "{log}");
    // Compressed messages could not be looked into, so nobody compresses.
    assert_eq!(
        (count("extensions 0"), count("closed 1001")),
        (2, 1),
        "{log}"
    );
}

/// A real server, and the interpreter that has its library.
fn serve(lab: &Lab) -> (Service, String) {
    serve_with(lab, "websocket_server.py", &[])
}

fn serve_with(lab: &Lab, script: &str, more: &[&str]) -> (Service, String) {
    let address = lab.address_for(HOST);
    let leaf = lab.leaf(HOST);
    let certificate = lab.file("cert.pem", &leaf.certificate);
    let key = lab.file("key.pem", &leaf.key);
    let python = text(&place::client("venv").join("bin/python"));
    let mut server = lab.network.command(Side::Internet, &python);
    server
        .arg(fixture::path(script))
        .arg(address.to_string())
        .arg("443");
    server.arg(certificate).arg(key).args(more);
    let mut server = Service::start(server, lab.fresh_path("websocket.log"));
    server.wait_for(&lab.network, (address, 443).into());
    (server, python)
}
