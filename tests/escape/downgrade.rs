//! HTTP/2 that would become another message in HTTP/1.1.
//!
//! Apart from `network`, because an open proxy translates nothing and so cannot fail here.

use std::net::SocketAddr;

use gig_tests::lab::{Finished, Lab, fixture, network::text, place, raw_origin::RawOrigin};

const HOST: &str = "api.example.com";
const POLICY: &str = "version: 1\nname: public\negress:\n  - host: api.example.com\n    \
    rules: [{methods: [GET, POST], paths: [/public/**]}]\n";

/// An origin that answers anything and keeps all it reads.
fn origin(lab: &Lab) -> RawOrigin {
    let address = lab.address_for(HOST);
    lab.tls(
        SocketAddr::new(address, 443),
        &[HOST],
        &["http/1.1"],
        |conversation| {
            use std::io::{Read, Write};
            loop {
                if conversation.read(&mut [0; 65536])? == 0 {
                    return Ok(());
                }
                conversation.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
            }
        },
    )
}

/// Whether a line that starts a request for the forbidden path arrived.
fn check(origin: &RawOrigin, run: &Finished) {
    let text = origin.text();
    let smuggled = text.contains("GET /secret") || text.contains("get /secret");
    assert!(!smuggled, "ESCAPED: the origin saw {text:?}; {run}");
}

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
    check(&origin, &run);
}

const H2: &str = r#"
import h2.config, h2.connection
s = tls('api.example.com', alpn=['h2'])
c = h2.connection.H2Connection(h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False))
c.initiate_connection()
c.send_headers(1, [(':method', 'POST'), (':scheme', 'https'), (':path', '/public/a'), (':authority', 'api.example.com')] + FIELDS, end_stream=False)
c.send_data(1, BODY, end_stream=True)
s.sendall(c.data_to_send())
print(repr(rest(s, 3)))
"#;

#[test]
fn h2_field_with_a_line_break() {
    h2(
        r"[('x', 'a\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com')]",
        "b'x'",
    );
}

#[test]
fn h2_field_name_with_a_line_break() {
    h2(r"[('x: a\r\n\r\nGET /secret HTTP/1.1\r\nx', 'a')]", "b'x'");
}

#[test]
fn h2_transfer_encoding() {
    h2(
        "[('transfer-encoding', 'chunked')]",
        r"b'0\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n'",
    );
}

#[test]
fn h2_length_that_lies() {
    h2(
        "[('content-length', '0')]",
        r"b'GET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n'",
    );
}
