//! gRPC with trailers, unary and in both directions at once: grpcio on both sides.

use gig_tests::lab::{
    Lab, Way, fixture,
    network::{Side, text},
    place,
    service::Service,
};

const HOST: &str = "grpc.example.com";

#[test]
fn grpc_calls_streams_and_fails_with_trailers() {
    let lab = Lab::new();
    let address = lab.address_for(HOST);
    let leaf = lab.leaf(HOST);
    let certificate = lab.file("cert.pem", &leaf.certificate);
    let key = lab.file("key.pem", &leaf.key);
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    let mut server = lab.network.command(Side::Internet, &python);
    server
        .arg(fixture::path("grpc_server.py"))
        .arg(format!("{address}:443"));
    server.arg(certificate).arg(key);
    let mut server = Service::start(server, lab.fresh_path("grpc.log"));
    server.wait_for(&lab.network, (address, 443).into());
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
