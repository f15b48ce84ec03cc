//! gRPC: grpcio on both sides, all four kinds of calls, and every way that one ends.

use std::time::{Duration, Instant};

use gig_audit::Event;
use gig_tests::lab::{
    Lab, Way, fixture,
    network::{Side, text},
    place,
    service::Service,
};

const HOST: &str = "grpc.example.com";

fn serve(lab: &Lab) -> (Service, String) {
    let address = lab.address_for(HOST);
    let leaf = lab.leaf(HOST);
    let python = text(&place::client("venv").join("bin/python"));
    let mut server = lab.network.command(Side::Internet, &python);
    server.arg(fixture::path("grpc_server.py"));
    server.arg(format!("{address}:443"));
    server.arg(lab.file("cert.pem", &leaf.certificate));
    server.arg(lab.file("key.pem", &leaf.key));
    let mut server = Service::start(server, lab.fresh_path("grpc.log"));
    server.wait_for(&lab.network, (address, 443).into());
    (server, python)
}

#[test]
fn grpc_calls_streams_and_fails_with_trailers() {
    let lab = Lab::new();
    let (_server, python) = serve(&lab);
    let venv = place::client("venv");
    for way in Way::BOTH {
        let run = lab.gig().allow(HOST).read_only(&venv).going(way);
        let script = fixture::text("grpc_client.py");
        let run = run.run([
            python.as_str(),
            "-c",
            script.as_str(),
            "grpc.example.com:443",
        ]);
        let run = run.success().says("echo one unary").says("heard message 4");
        let run = run
            .says("trailer stream")
            .says("FAILED_PRECONDITION not today");
        let _run = run.requested(HOST);
    }
}

const POLICY: &str = "
version: 1
name: calls
egress:
  - host: grpc.example.com
    ports: [443]
    rules:
      - {methods: [POST], paths: [/lab.Lab/Echo, /lab.Lab/Chat, /lab.Lab/Count, /lab.Lab/Sum, /lab.Lab/Zip,
          /lab.Lab/Metadata, /lab.Lab/Wait, /lab.Lab/Hold, /lab.Lab/Refuse, /lab.Lab/Nothing]}
";

#[test]
fn grpc_calls_of_every_kind_end_as_they_should() {
    let lab = Lab::new();
    let (server, python) = serve(&lab);
    let venv = place::client("venv");
    for (turn, way) in Way::BOTH.into_iter().enumerate() {
        let run = lab.gig().policy(POLICY).read_only(&venv).going(way);
        let script = fixture::text("grpc_calls.py");
        let run = run.run([python.as_str(), "-c", &script, "grpc.example.com:443"]);
        let run = run.success().says("counted to True").says("sum 499500");
        let run = run.says("two chats, turn by turn").says("echoed 6 MiB");
        let run = run.says("packed 1048581").says("metadata both ways");
        let run = run.says("deadline: DEADLINE_EXCEEDED");
        let run = run
            .says("holding one")
            .says("cancelled: CANCELLED CANCELLED");
        let run = run
            .says("refused: FAILED_PRECONDITION")
            .says("unknown: UNIMPLEMENTED");
        let run = run
            .says("denied: PERMISSION_DENIED")
            .says("still: echo there");
        let zipped = run.audit.of(Event::Response);
        let zipped: Vec<_> = zipped
            .filter(|e| e.path.as_deref() == Some("/lab.Lab/Zip"))
            .collect();
        assert!(
            zipped[0].bytes_out.is_some_and(|sent| sent < 10_000),
            "{zipped:?}"
        );
        assert!(
            zipped[0].bytes_in.is_some_and(|came| came < 10_000),
            "{zipped:?}"
        );
        // The origin learns that nobody waits any more: each of the three, in each turn.
        for given_up in [
            "given up by deadline",
            "given up by cancelling",
            "given up a stream",
        ] {
            until(&server, given_up, turn + 1);
        }
    }
}

/// Waits until the server has printed `part` so many times.
fn until(server: &Service, part: &str, times: usize) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while server.log().matches(part).count() < times {
        assert!(Instant::now() < deadline, "{part}: {}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}
