//! The policy's limits: connections, requests, bodies, uploads.

use std::time::Duration;

use gig_policy::DenyReason;
use gig_tests::lab::{Lab, denial::Refusal, http_origin::greet};

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
        .sh("curl -sS -o /dev/null -w '%{http_code} ' 'https://api.example.com/?[1-20]'");
    let reached = origin.requests().len();
    // One more for every twelve seconds that a slow machine takes.
    let allowance = 5 + usize::try_from(run.elapsed.as_secs() / 12).expect("a short time");
    Refusal::new(DenyReason::RequestRate)
        .of(HOST)
        .repeatedly()
        .client_says("429")
        .origin_never_sees("more than the allowance", || reached > allowance)
        .check(&run);
    assert!(reached >= 5, "{run}");
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
    Refusal::new(DenyReason::ConnectionLimit)
        .times(3)
        .client(|run| run.text().matches("refused").count() == 3)
        .origin_never_sees("a fourth connection", || origin.requests().len() > 3)
        .check(&run);
}

#[test]
fn sixty_four_connections_are_the_limit_when_nothing_is_said() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let script = "held = []; served = 0\n\
        for n in range(70):\n\
        \x20try:\n\
        \x20 s = tls('api.example.com'); s.sendall(get(f'/{n}', 'api.example.com')); \
        served += b' 200 ' in s.recv(100); held.append(s)\n\
        \x20except OSError: pass\n\
        print('served', served)";
    let run = lab.gig().allow(HOST).wire(script);
    Refusal::new(DenyReason::ConnectionLimit)
        .times(6)
        .client_says("served 64\n")
        // What is idle for long makes room for others.
        .origin_never_sees("a 65th connection", || {
            origin.requests().len() > 64 && run.elapsed < Duration::from_secs(60)
        })
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
        Refusal::new(DenyReason::RequestBodyLimit)
            .of(HOST)
            .client_says("413")
            .origin_never_sees("two megabytes", || origin.raw().wire_octets() > 2_000_000)
            .check(&run);
    }
}

#[test]
fn uploads_over_the_hours_allowance_are_refused() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let script = "head -c 600000 /dev/zero > /tmp/part; for n in 1 2 3 4; do \
        curl -sS -o /dev/null -w '%{http_code} ' --data-binary @/tmp/part https://api.example.com/; done";
    let run = lab.gig().policy(&policy("upload_per_hour: 1MB")).sh(script);
    Refusal::new(DenyReason::UploadLimit)
        .of(HOST)
        .times(3)
        .client_says("429")
        .origin_never_sees("more than the allowance", || {
            origin.raw().wire_octets() > 1_500_000
        })
        .check(&run);
}
