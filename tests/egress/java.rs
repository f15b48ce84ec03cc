//! Java's `HttpClient`, from Debian's JDK, with the trust store it finds by itself.

use gig_tests::lab::{Lab, network::text, place};

const HOST: &str = "api.example.com";

#[test]
fn java_http_client_gets() {
    let lab = Lab::new();
    let _origin = lab.nginx(&[HOST]);
    let classes = place::client("java");
    let path = text(&classes);
    for way in ["straight", "by-proxy"] {
        let url = "https://api.example.com/hello";
        let run = lab.gig().allow(HOST).read_only(&classes);
        let run = run.run(["java", "-Xmx128m", "-cp", &path, "Get", way, url]);
        let run = run.success().says("hello from the origin").requested(HOST);
        let _run = run.says("HTTP_2 200");
    }
}
