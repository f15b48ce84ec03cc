//! HTTP/1.1 and HTTP/2 on either side, in every pairing, and methods with bodies across them.

use gig_tests::lab::Lab;

const HOST: &str = "api.example.com";

fn pairing(client: &str, expected: &str, origin_h2: bool) {
    let lab = Lab::new();
    let origin = lab.nginx_with(&[HOST], origin_h2, "");
    let run = lab.gig().allow(HOST).run([
        "curl",
        "-sS",
        "--fail",
        client,
        "-w",
        "version %{http_version}\n",
        "https://api.example.com/hello",
    ]);
    let _run = run
        .success()
        .says("hello from the origin")
        .says(expected)
        .requested(HOST);
    let put = lab.gig().allow(HOST).input("x".repeat(300_000)).run([
        "curl",
        "-sS",
        "--fail",
        client,
        "-X",
        "PUT",
        "--data-binary",
        "@-",
        "https://api.example.com/uploaded",
    ]);
    let _put = put.success().requested(HOST);
    let stored = std::fs::read(origin.root().join("uploaded")).expect("the stored file");
    assert_eq!(stored, vec![b'x'; 300_000]);
    // What gig spoke to the origin, as the origin says it.
    let lines = origin.lines();
    let spoken: Vec<_> = lines.iter().map(|line| line.column("protocol")).collect();
    // HTTP/2 where both have it: who speaks HTTP/1.1 is given no other version's rules where there is no need.
    let both = origin_h2 && client == "--http2";
    let version = if both { "HTTP/2.0" } else { "HTTP/1.1" };
    assert_eq!(spoken, [version; 2]);
}

#[test]
fn h1_client_h1_origin() {
    pairing("--http1.1", "version 1.1", false);
}

#[test]
fn h1_client_at_an_origin_of_both_versions() {
    pairing("--http1.1", "version 1.1", true);
}

#[test]
fn h2_client_h1_origin() {
    pairing("--http2", "version 2", false);
}

#[test]
fn h2_client_h2_origin() {
    pairing("--http2", "version 2", true);
}

/// A client with these options is served as any other.
fn served(options: &[&str]) {
    let lab = Lab::new();
    let _origin = lab.nginx(&[HOST]);
    let curl = ["curl", "-sS", "--fail"];
    let url = "https://api.example.com/hello";
    let run = lab
        .gig()
        .allow(HOST)
        .run(curl.iter().chain(options).chain(&[url]));
    let _run = run.success().says("hello from the origin").requested(HOST);
}

#[test]
fn an_h1_client_that_offers_no_alpn_is_served() {
    served(&["--no-alpn"]);
}

#[test]
fn a_client_that_offers_http_1_0_alone_is_served() {
    served(&["-0"]);
}

#[test]
fn tls_1_2_clients_are_served() {
    served(&["--tls-max", "1.2"]);
}
