//! Two readings of one message: whatever the second reading holds must not arrive.

use std::{fs, net::SocketAddr};

use gig_policy::DenyReason;
use gig_tests::lab::{
    Finished, Lab, denial::Refusal, network::Side, raw_origin::RawOrigin, service::Service,
};

pub(crate) const HOST: &str = "api.example.com";
pub(crate) const POLICY: &str = "version: 1\nname: public\negress:\n  - host: api.example.com\n    \
    rules: [{methods: [GET, POST], paths: [/public/**]}]\n";

/// An origin that answers anything and keeps all it reads.
pub(crate) fn origin(lab: &Lab) -> RawOrigin {
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
pub(crate) fn smuggled(origin: &RawOrigin) -> bool {
    origin.text().to_lowercase().contains("get /secret")
}

fn smuggle(octets: &str, reason: DenyReason) {
    let lab = Lab::new();
    let origin = origin(&lab);
    let script = format!(
        "REFUSED = ('HTTP/1.1 400', 'HTTP/1.1 403')\n\
        s = tls('{HOST}')\ns.sendall({octets})\nprint(until(s, *REFUSED))"
    );
    let run = lab.gig().policy(POLICY).wire(&script);
    let told = |run: &Finished| {
        let text = run.text();
        text.contains("HTTP/1.1 400") || text.contains("HTTP/1.1 403")
    };
    Refusal::new(reason)
        .of(HOST)
        .client(told)
        .origin_never_sees("a request for the forbidden path", || smuggled(&origin))
        .check(&run);
}

macro_rules! smuggled {
    ($($test:ident, $reason:ident: $octets:literal;)*) => {$(
        #[test]
        fn $test() {
            smuggle(concat!("b'", $octets, "'"), DenyReason::$reason);
        }
    )*};
}

smuggled! {
    length_and_chunks_together, MalformedRequest:
        r"POST /public/a HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    chunks_and_length_together, MalformedRequest:
        r"POST /public/a HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n0\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    two_lengths, MalformedRequest:
        r"POST /public/a HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 0\r\nContent-Length: 55\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    a_list_of_lengths, MalformedRequest:
        r"POST /public/a HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 0, 55\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    a_length_with_a_sign, MalformedRequest:
        r"POST /public/a HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: +0\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    a_folded_encoding, MalformedRequest:
        r"POST /public/a HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    an_unknown_encoding, MalformedRequest:
        r"POST /public/a HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    an_encoding_in_disguise, MalformedRequest:
        r"POST /public/a HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    a_bare_carriage_return, MalformedRequest:
        r"GET /public/a HTTP/1.1\r\nHost: api.example.com\r\nX: a\rGET /secret HTTP/1.1\rHost: api.example.com\r\n\r\n";
    bare_line_feeds, PathNotAllowed:
        r"GET /public/a HTTP/1.1\nHost: api.example.com\n\nGET /secret HTTP/1.1\nHost: api.example.com\n\n";
    a_line_feed_in_a_field, PathNotAllowed:
        r"GET /public/a HTTP/1.1\r\nHost: api.example.com\r\nX: a\n\nGET /secret HTTP/1.1\nHost: api.example.com\r\n\r\n";
    a_chunk_size_too_large, MalformedRequest:
        r"POST /public/a HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    a_chunk_extension_with_a_line_feed, MalformedRequest:
        r"POST /public/a HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: chunked\r\n\r\n1;a\nb\r\nx\r\n0\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    a_body_on_get, PathNotAllowed:
        r"GET /public/a HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 0\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    a_space_before_the_version, MalformedRequest:
        r"GET /public/a HTTP/1.1 GET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    http_0_9, MalformedRequest:
        r"GET /secret\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    a_field_named_by_connection, PathNotAllowed:
        r"GET /public/a HTTP/1.1\r\nHost: api.example.com\r\nConnection: Host\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.example.com\r\n\r\n";
    two_hosts, MalformedRequest:
        r"GET /public/a HTTP/1.1\r\nHost: api.example.com\r\nHost: evil.example.net\r\n\r\nGET /secret HTTP/1.1\r\nHost: evil.example.net\r\n\r\n";
}

/// Python's own server answers `GET` without reading a body, and takes what that holds for the next request.
#[test]
fn a_body_that_the_origin_does_not_read() {
    let lab = Lab::new();
    let (address, folder) = (lab.address_for(HOST), lab.folder("site"));
    for path in ["public", "secret"] {
        fs::write(folder.join(path), format!("the {path} file")).expect("a page");
    }
    let mut server = lab.network.command(Side::Internet, "/usr/bin/python3");
    server
        .args(["-m", "http.server", "--protocol", "HTTP/1.1", "--bind"])
        .arg(address.to_string())
        .arg("--directory")
        .arg(&folder)
        .arg("80");
    let mut server = Service::start(server, lab.fresh_path("origin.log"));
    server.wait_for(&lab.network, SocketAddr::new(address, 80));
    let script = format!(
        "inside = b'GET /secret HTTP/1.1\\r\\nHost: {HOST}\\r\\n\\r\\n'\n\
         head = 'GET /public HTTP/1.1\\r\\nHost: {HOST}\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(inside)\n\
         s = connect('{HOST}', 80)\ns.sendall(head.encode() + inside + get('/public?2', '{HOST}', 'Connection: close'))\n\
         print(ending(s))"
    );
    let policy = POLICY
        .replace("rules: ", "ports: [80]\n    rules: ")
        .replace("/public/**", "/public");
    let run = lab.gig().policy(&policy).wire(&script);
    Refusal::none()
        .client(|run| run.text().contains("the public file") && !run.text().contains("secret file"))
        .origin_never_sees("a request for the forbidden path", || {
            server.log().contains("GET /secret")
        })
        .check(&run);
    assert!(server.log().contains("GET /public?2"), "{}", server.log());
}
