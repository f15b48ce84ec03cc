//! WebSocket: a real client and a real server. Refused upgrades are in the escape suite.

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

/// A real server, and the interpreter that has its library.
fn serve(lab: &Lab) -> (Service, String) {
    let address = lab.address_for(HOST);
    let leaf = lab.leaf(HOST);
    let certificate = lab.file("cert.pem", &leaf.certificate);
    let key = lab.file("key.pem", &leaf.key);
    let python = text(&place::client("venv").join("bin/python"));
    let mut server = lab.network.command(Side::Internet, &python);
    server
        .arg(fixture::path("websocket_server.py"))
        .arg(address.to_string())
        .arg("443");
    server.arg(certificate).arg(key);
    let mut server = Service::start(server, lab.fresh_path("websocket.log"));
    server.wait_for(&lab.network, (address, 443).into());
    (server, python)
}
