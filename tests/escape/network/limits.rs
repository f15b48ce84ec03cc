//! The policy's limits: connections, requests, bodies, uploads.

use gig_policy::DenyReason;
use gig_tests::lab::{Finished, Lab, denial::Refusal, http_origin::greet};

const HOST: &str = "api.example.com";

fn policy(limits: &str) -> String {
    format!("version: 1\nname: limited\negress:\n  - host: api.example.com\nlimits: {{{limits}}}\n")
}

#[test]
fn requests_over_the_rate_are_answered_429() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let run = lab
        .gig()
        .policy(&policy("requests_per_minute: 5"))
        .sh("curl -sS -o /dev/null -w '%{http_code} ' 'https://api.example.com/?[1-8]'");
    let reached = origin.requests().len();
    // A minute that a slow machine takes for them gives it more: not a witness that settles it at once.
    assert!(
        reached <= 5,
        "ESCAPED: the client had {reached} requests; {run}"
    );
    let refusal = Refusal::new(DenyReason::RequestRate)
        .repeatedly()
        .client_says("429");
    refusal.beside_allowed_traffic().check(&run);
    assert_eq!(reached, 5, "{run}");
}

#[test]
fn connections_over_the_limit_are_refused() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let script = "held = []\n\
        for n in range(6):\n\
        \x20try:\n\
        \x20 s = tls('api.example.com'); s.sendall(get(f'/{n}', 'api.example.com')); print(s.recv(12)); held.append(s)\n\
        \x20except OSError as e: print('refused', e)";
    let run = lab.gig().policy(&policy("connections: 3")).wire(script);
    let reached = origin.requests().len();
    assert!(reached <= 3, "ESCAPED: {reached} connections; {run}");
    Refusal::new(DenyReason::ConnectionLimit)
        .repeatedly()
        .beside_allowed_traffic()
        .check(&run);
}

#[test]
fn sixty_four_connections_are_the_limit_when_nothing_is_said() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let script = "held = []; served = 0\n\
        for n in range(70):\n\
        \x20try:\n\
        \x20 s = tls('api.example.com'); s.sendall(get(f'/{n}', 'api.example.com')); \
        served += b' 200 ' in s.recv(100); held.append(s)\n\
        \x20except OSError: pass\n\
        print('served', served)";
    let run = lab.gig().allow(HOST).wire(script);
    assert!(
        run.text().contains("served 64"),
        "ESCAPED: the client was served otherwise; {run}"
    );
    Refusal::new(DenyReason::ConnectionLimit)
        .repeatedly()
        .beside_allowed_traffic()
        .check(&run);
}

#[test]
fn bodies_over_the_limit_are_answered_413() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    for length in ["-H", "-HTransfer-Encoding: chunked"] {
        let length = if length == "-H" {
            "-HX-Nothing: 1"
        } else {
            length
        };
        let words = [
            "curl",
            "-sS",
            "--http1.1",
            "-i",
            length,
            "--data-binary",
            "@-",
            "https://api.example.com/",
        ];
        let run = lab
            .gig()
            .policy(&policy("request_body: 1MB"))
            .input("x".repeat(3_000_000))
            .run(words);
        arrived_less_than(2_000_000, &origin.raw().text(), &run);
        let refusal = Refusal::new(DenyReason::RequestBodyLimit).client_says("413");
        refusal.beside_allowed_traffic().check(&run);
    }
}

#[test]
fn uploads_over_the_hours_allowance_are_refused() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let script = "head -c 600000 /dev/zero > /tmp/part; for n in 1 2 3 4; do \
        curl -sS -o /dev/null -w '%{http_code} ' --data-binary @/tmp/part https://api.example.com/; done";
    let run = lab.gig().policy(&policy("upload_per_hour: 1MB")).sh(script);
    let octets = origin.raw().wire_octets();
    assert!(octets < 1_500_000, "ESCAPED: {octets} octets; {run}");
    let refusal = Refusal::new(DenyReason::UploadLimit).repeatedly();
    refusal.beside_allowed_traffic().check(&run);
}

fn arrived_less_than(limit: usize, text: &str, run: &Finished) {
    assert!(
        text.len() < limit,
        "ESCAPED: {} octets arrived; {run}",
        text.len()
    );
}
