//! Interim answers through either HTTP: Node, hyper-h2 and curl as programs, Node and hyper-h2 as
//! origins. HTTP/1.1 by itself is in `streaming`.

use gig_tests::lab::{
    Lab, Way, fixture,
    network::{Side, text},
    place,
    service::Service,
};

const HOST: &str = "interim.example.com";

/// An origin in Node that speaks "h1" or "h2".
fn node(lab: &Lab, speaks: &str) -> Service {
    serve(lab, "node", "interim_origin.js", &[speaks])
}

fn serve(lab: &Lab, program: &str, script: &str, more: &[&str]) -> Service {
    let address = lab.address_for(HOST);
    let leaf = lab.leaf(HOST);
    let mut server = lab.network.command(Side::Internet, program);
    server.arg(fixture::path(script)).arg(address.to_string());
    server
        .arg("443")
        .arg(lab.file("cert.pem", &leaf.certificate));
    server.arg(lab.file("key.pem", &leaf.key)).args(more);
    let mut server = Service::start(server, lab.fresh_path("origin.log"));
    server.wait_for(&lab.network, (address, 443).into());
    server
}

/// Node asks Node: 103 before the answer, which waits until it was seen, and 100 before the upload.
fn node_to_node(program: &str, speaks: &str) {
    let lab = Lab::new();
    let server = node(&lab, speaks);
    let script = fixture::text("interim_client.js");
    let run = lab.gig().allow(HOST);
    let run = run.run(["node", "-e", &script, HOST, program]);
    let run = run.success().requested(HOST);
    let run = run.says("interim 103 </style.css>; rel=preload; as=style");
    let run = run.says("then after the hint").says("interim 100");
    let _run = run.says("then took 100000");
    assert!(server.log().contains("took 100000"), "{}", server.log());
}

#[test]
fn node_h1_program_h1_origin_hints_and_leave() {
    node_to_node("h1", "h1");
}

#[test]
fn node_h1_program_h2_origin_hints_and_leave() {
    node_to_node("h1", "h2");
}

#[test]
fn node_h2_program_h1_origin_hints_and_leave() {
    node_to_node("h2", "h1");
}

#[test]
fn node_h2_program_h2_origin_hints_and_leave() {
    node_to_node("h2", "h2");
}

#[test]
fn hyper_h2_program_and_origin_hints_and_leave() {
    let lab = Lab::new();
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    let _server = serve(&lab, &python, "interim_h2.py", &[]);
    let script = fixture::text("interim_h2.py");
    let run = lab.gig().allow(HOST).read_only(&venv);
    let run = run.run([python.as_str(), "-c", &script]).success();
    let run = run.says("interim 103 on 1 </a.css>; rel=preload");
    let run = run.says("interim 100 on 3").says("status 200 on 1");
    let _run = run.says("got 8").requested(HOST);
}

/// curl over HTTP/2, which waits ten minutes for leave: only a real 100 lets this end in time.
fn curl(speaks: &str, path: &str) -> (String, String) {
    let lab = Lab::new();
    let server = node(&lab, speaks);
    let mut told = String::new();
    for way in Way::BOTH {
        let url = format!("https://{HOST}{path}");
        let run = lab.gig().allow(HOST).going(way).input("payload").run([
            "curl",
            "-sS",
            "--http2",
            "--expect100-timeout",
            "600",
            "-H",
            "Expect: 100-continue",
            "-w",
            "%{http_version} %{http_code}",
            "--data-binary",
            "@-",
            &url,
        ]);
        let run = run.requested(HOST);
        told = run.text() + &run.error_text();
    }
    (told, server.log())
}

#[test]
fn curl_uploads_over_http2_when_the_origin_gives_leave() {
    for speaks in ["h1", "h2"] {
        let (told, log) = curl(speaks, "/upload");
        assert!(told.contains("took 7\n2 200"), "{told}");
        assert!(log.contains("took 7"), "{log}");
    }
}

#[test]
fn curl_is_told_over_http2_that_its_upload_is_refused() {
    for (speaks, path, status) in [
        ("h1", "/large", 413),
        ("h2", "/expectation", 417),
        ("h2", "/large", 413),
    ] {
        let (told, log) = curl(speaks, path);
        assert!(told.contains(&format!("2 {status}")), "{told}");
        assert!(!log.contains("took"), "{log}");
        assert!(!log.contains("refused with 7"), "{log}");
    }
}
