//! An origin that sends back what it was sent, and real clients: the value goes out, and its sentinel comes
//! back, in header fields, bodies, codings, single octets, trailers and events.

use gig_tests::lab::{
    Finished, Lab, fixture,
    network::{Side, text},
    place,
    service::Service,
};

const HOST: &str = "api.example.com";
const VALUE: &str = "real-value-9Kd3vQ8sWm+/x";

/// The origin, over both HTTPs.
struct Reflecting {
    lab: Lab,
    server: Service,
}

impl Reflecting {
    fn new() -> Self {
        let lab = Lab::new();
        let address = lab.address_for(HOST);
        let leaf = lab.leaf(HOST);
        let certificate = lab.file("reflect-cert.pem", &leaf.certificate);
        let key = lab.file("reflect-key.pem", &leaf.key);
        let mut server = lab.network.command(Side::Internet, "node");
        server
            .arg(fixture::path("reflect_origin.js"))
            .args([address.to_string().as_str(), "443"])
            .args([&certificate, &key])
            .arg(VALUE);
        let mut server = Service::start(server, lab.fresh_path("reflect.log"));
        server.wait_for(&lab.network, (address, 443).into());
        Self { lab, server }
    }

    fn subject(&self) -> gig_tests::lab::Subject<'_> {
        let subject = self.lab.gig().allow(HOST).host_env("GITHUB_TOKEN", VALUE);
        subject.option(["--secret", "GITHUB_TOKEN@api.example.com"])
    }

    /// The value went out with each of `requests`, and came back with none.
    fn check(&self, run: Finished, requests: usize) -> String {
        let run = run.success();
        let output = run.text();
        let log = self.server.log();
        assert!(!output.contains(VALUE), "the value came back: {run}");
        assert!(!run.error_text().contains(VALUE), "{run}");
        let came = log.lines().filter(|line| line.ends_with("true,true,true"));
        assert_eq!(came.count(), requests, "{log}\n{run}");
        let sentinel = output
            .lines()
            .find_map(|line| line.strip_prefix("header="))
            .unwrap_or_default();
        assert!(sentinel.starts_with("gigph-"), "{run}");
        let whole = format!("header={sentinel}\nquery={sentinel}\nbody={sentinel}\n");
        assert_eq!(output.matches(&whole).count(), requests, "{log}\n{run}");
        log
    }
}

/// One event after the other.
fn all_events(output: &str, client: &str) {
    for n in 0..4 {
        let event = output.lines().find(|line| {
            line.starts_with(&format!("{client} data: ")) && line.ends_with(&n.to_string())
        });
        let event = event.unwrap_or_else(|| panic!("{client} got no event {n}: {output}"));
        assert!(event.contains(" gigph-"), "{event}");
    }
}

#[test]
fn curl_gets_the_sentinel_back_however_it_is_sent() {
    // Apart, since a connection to the origin is kept for whoever comes next.
    for (option, version) in [("--http1.1", "1.1"), ("--http2", "2.0")] {
        let reflecting = Reflecting::new();
        let ways = "whole octets gzip deflate br zstd coded trailers";
        let script = format!(
            "for way in {ways}; do \
             curl -sS --fail -m 90 {option} --compressed -H \"X-Token: $GITHUB_TOKEN\" \
             -H 'Content-Type: text/plain' --data-raw \"$GITHUB_TOKEN\" -D /tmp/head \
             \"https://api.example.com/$way?q=$GITHUB_TOKEN\" || exit 1; \
             grep -qi \"^x-reflected: $GITHUB_TOKEN\" /tmp/head || exit 2; \
             grep -qi \"^set-cookie: t=$GITHUB_TOKEN;\" /tmp/head || exit 3; cat /tmp/head; done"
        );
        let log = reflecting.check(reflecting.subject().sh(&script), 8);
        // What the origin was asked for is what it sent: none of this passed for being plain.
        for coding in ["gzip", "deflate", "br", "zstd"] {
            let coded = format!("{coding} {version} {coding}");
            assert!(log.contains(&coded), "{coded}: {log}");
        }
    }
}

#[test]
fn a_range_of_an_answer_with_a_value_is_an_honest_length() {
    let reflecting = Reflecting::new();
    // Wherever the range begins and ends, no octet of the value that is inside it comes back alone.
    let script = "for version in --http1.1 --http2; do for range in 0-399 7-20 10-500; do \
        curl -sS --fail -m 90 $version -H \"Range: bytes=$range\" -H \"X-Token: $GITHUB_TOKEN\" \
        -H 'Content-Type: text/plain' --data-raw \"$GITHUB_TOKEN\" \
        \"https://api.example.com/range?q=$GITHUB_TOKEN\" || exit 1; done; done";
    reflecting.check(reflecting.subject().sh(script), 6);
}

#[test]
fn pythons_clients_get_the_sentinel_back_and_each_event_in_time() {
    let reflecting = Reflecting::new();
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    let script = fixture::text("reflect_client.py");
    let subject = reflecting.subject().read_only(&venv);
    let run = subject.run([python.as_str(), "-c", &script]);
    let output = run.text();
    reflecting.check(run, 21);
    all_events(&output, "requests");
    all_events(&output, "httpx");
}

#[test]
fn nodes_clients_get_the_sentinel_back_and_each_event_in_time() {
    let reflecting = Reflecting::new();
    let modules = place::client("node");
    let subject = reflecting.subject().read_only(&modules);
    let subject = subject.env("NODE_PATH", &text(&modules.join("node_modules")));
    let script = fixture::text("reflect_client.js");
    let run = subject.run(["node", "-e", &script]);
    let output = run.text();
    reflecting.check(run, 20);
    assert!(output.contains("trailer gigph-"), "{output}");
    all_events(&output, "http2");
    all_events(&output, "fetch");
}
