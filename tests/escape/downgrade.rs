//! HTTP/2 that would become another message in HTTP/1.1.
//!
//! Apart from `network`, because an open proxy translates nothing and so cannot fail here: what `naive` offers
//! does.

use gig_policy::DenyReason;
use gig_tests::lab::{Lab, denial::Refusal, fixture, network::text, place};

use crate::{
    naive::Naive,
    network::smuggling::{HOST, POLICY, origin, smuggled},
};

fn h2(fields: &str, body: &str) {
    let lab = Lab::new();
    let origin = origin(&lab);
    let venv = place::client("venv");
    let python = text(&venv.join("bin/python"));
    let script = fixture::text("wire.py") + &H2.replace("FIELDS", fields).replace("BODY", body);
    let run = lab
        .gig()
        .policy(POLICY)
        .read_only(&venv)
        .run([python.as_str(), "-c", &script]);
    Refusal::new(DenyReason::MalformedRequest)
        .of(HOST)
        .client_says("refused:")
        .origin_never_sees("a request for the forbidden path", || smuggled(&origin))
        .nothing_leaves()
        .check(&run);
}

const H2: &str = r#"
import h2.config, h2.connection
s = tls('api.example.com', alpn=['h2'])
c = h2.connection.H2Connection(h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False))
c.initiate_connection()
c.send_headers(1, [(':method', 'POST'), (':scheme', 'https'), (':path', '/public/a'), (':authority', 'api.example.com')] + FIELDS, end_stream=False)
c.send_data(1, BODY, end_stream=True)
s.sendall(c.data_to_send())
import h2.events
s.settimeout(PATIENCE)
ended = False
while not ended and (data := s.recv(65536)):
    for event in c.receive_data(data):
        if isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
            print("refused:", type(event).__name__, int(event.error_code))
            ended = True
        if isinstance(event, h2.events.StreamEnded):
            print("answered")
            ended = True
"#;

/// Fields and body, each of which hides a request.
const FIELD: (&str, &str) = (
    r"[('x', 'a\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com')]",
    "b'x'",
);
const NAME: (&str, &str) = (r"[('x: a\r\n\r\nGET /secret HTTP/1.1\r\nx', 'a')]", "b'x'");
const CODING: (&str, &str) = (
    "[('transfer-encoding', 'chunked')]",
    r"b'0\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n'",
);
const LENGTH: (&str, &str) = (
    "[('content-length', '0')]",
    r"b'GET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n'",
);

#[test]
fn h2_field_with_a_line_break() {
    h2(FIELD.0, FIELD.1);
}

#[test]
fn h2_field_name_with_a_line_break() {
    h2(NAME.0, NAME.1);
}

#[test]
fn h2_transfer_encoding() {
    h2(CODING.0, CODING.1);
}

#[test]
fn h2_length_that_lies() {
    h2(LENGTH.0, LENGTH.1);
}

/// Else the tests above would prove nothing.
#[test]
fn each_of_them_smuggles_a_request_through_a_naive_gateway() {
    for (fields, body) in [FIELD, NAME, CODING, LENGTH] {
        let lab = Lab::new();
        let origin = origin(&lab);
        let naive = Naive::start(lab, HOST, Some(origin.address().ip()));
        let script = fixture::text("wire.py") + &H2.replace("FIELDS", fields).replace("BODY", body);
        let said = naive.client(&script, &[]);
        assert!(said.contains("answered"), "{fields}: {said}");
        assert!(smuggled(&origin), "{fields}: {}", origin.text());
    }
}
