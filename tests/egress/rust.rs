//! A Rust program with reqwest.

use gig_tests::lab::{Lab, network::text, place};

const HOST: &str = "api.example.com";

#[test]
fn reqwest_gets_over_https() {
    let lab = Lab::new();
    let _origin = lab.nginx(&[HOST]);
    let program = place::client("reqwest-get");
    let path = text(&program);
    for way in ["straight", "by-proxy"] {
        let run = lab.gig().allow(HOST).read_only(&program);
        let run = run.run([path.as_str(), way, "https://api.example.com/hello"]);
        let _run = run
            .success()
            .says("hello from the origin")
            .says("HTTP/2")
            .requested(HOST);
    }
}
