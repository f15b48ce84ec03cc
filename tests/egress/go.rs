//! A static Go program.

use gig_tests::lab::{Lab, network::text, place};

const HOST: &str = "api.example.com";

#[test]
fn static_go_program_gets() {
    let lab = Lab::new();
    let _origin = lab.nginx(&[HOST]);
    let program = place::client("go-get");
    let path = text(&program);
    for way in ["straight", "by-proxy"] {
        let run = lab.gig().allow(HOST).read_only(&program);
        let run = run.run([path.as_str(), way, "https://api.example.com/hello"]);
        let _run = run
            .success()
            .says("hello from the origin")
            .says("HTTP/2.0 200")
            .requested(HOST);
    }
}
