//! TLS that hides or garbles the name: none, an address, encrypted, unknown protocols.

use std::net::SocketAddr;

use gig_policy::DenyReason;
use gig_tests::lab::{
    Lab, denial::Refusal, http_origin::greet, network::internet_address, raw_origin::RawOrigin,
};

const ALLOWED: &str = "api.example.com";
const CUT_OFF: &str = "got: ConnectionResetError after b''";

fn listener(lab: &Lab) -> RawOrigin {
    let at = SocketAddr::new(internet_address(201), 443);
    lab.tls(at, &["11.0.1.201", ALLOWED], &[], |conversation| {
        conversation.drain()
    })
}

fn attempt(lab: &Lab, sni: &str) -> gig_tests::lab::Finished {
    let script = format!(
        "def go():\n s = tls('11.0.1.201', sni={sni}); s.sendall(get('/', 'whatever.example.net')); \
         return until(s, '\\r\\n\\r\\n')\nattempt(go)"
    );
    lab.gig().allow(ALLOWED).wire(&script)
}

#[test]
fn tls_without_a_name_to_a_raw_address_is_refused() {
    let lab = Lab::new();
    let origin = listener(&lab);
    let run = attempt(&lab, "False");
    // The handshake is completed to say so: only then is it known what Host would have been.
    Refusal::new(DenyReason::NamesDisagree)
        .client_says("got: HTTP/1.1 421")
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn tls_with_an_address_for_a_name_is_refused() {
    let lab = Lab::new();
    let origin = listener(&lab);
    // Python would leave an address out of the ClientHello; the hello is written by hand.
    let script = hello("11.0.1.201", "b'\\x00\\x00'", "11.0.1.201");
    let run = lab.gig().allow(ALLOWED).wire(&script);
    Refusal::new(DenyReason::MalformedName)
        .client_says(CUT_OFF)
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn allowed_name_in_sni_towards_a_foreign_address_dials_the_name() {
    let lab = Lab::new();
    let picked = listener(&lab);
    let named = lab.https(ALLOWED, greet);
    let script = "s = tls('11.0.1.201', sni='api.example.com'); \
        s.sendall(get('/', 'api.example.com')); print(rest(s))";
    let run = lab.gig().allow(ALLOWED).wire(script);
    let octets = picked.wire_octets();
    assert!(
        octets == 0,
        "ESCAPED: the address the program picked saw {octets} octets; {run}"
    );
    assert_eq!(named.requests().len(), 1, "{run}");
}

#[test]
fn encrypted_client_hello_is_refused() {
    let lab = Lab::new();
    let origin = listener(&lab);
    let script = hello("11.0.1.201", "b'\\xfe\\x0d'", "cover.example.net");
    let run = lab.gig().allow(ALLOWED).wire(&script);
    // The name that it hides behind is denied, which is told in TLS to who can read it.
    Refusal::new(DenyReason::HostNotAllowed)
        .of("cover.example.net")
        .client_says("got: closed after b'\\x15\\x03\\x03")
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn encrypted_client_hello_under_an_allowed_name_is_refused() {
    let lab = Lab::new();
    let address = lab.address_for(ALLOWED);
    let origin = lab.tls(SocketAddr::new(address, 443), &[ALLOWED], &[], |c| {
        c.drain()
    });
    // Even passed through: what the inner hello names cannot be known.
    let policy = "version: 1\nname: ech\negress:\n  - {host: api.example.com, tls: passthrough}\n";
    let script = hello("api.example.com", "b'\\xfe\\x0d'", "api.example.com");
    let run = lab.gig().policy(policy).wire(&script);
    Refusal::new(DenyReason::NameMissing)
        .client_says(CUT_OFF)
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}

#[test]
fn alpn_that_is_no_http_is_refused() {
    let lab = Lab::new();
    let address = lab.address_for(ALLOWED);
    let origin = lab.tls(SocketAddr::new(address, 443), &[ALLOWED], &["imap"], |c| {
        c.drain()
    });
    let script = "def go():\n s = tls('api.example.com', alpn=['imap']); s.sendall(b'a1 CAPABILITY\\r\\n'); \
        return rest(s)\nattempt(go)";
    let run = lab.gig().allow(ALLOWED).wire(script);
    Refusal::new(DenyReason::UnsupportedProtocol)
        .of(ALLOWED)
        .client_says("refused: SSLError")
        .unseen_by(&origin)
        .nothing_leaves()
        .check(&run);
}

/// A ClientHello by hand: the server name, and one extension of the given type with garbage in it.
fn hello(host: &str, extension: &str, name: &str) -> String {
    format!(
        "import struct\n\
         def vec(n, b): return len(b).to_bytes(n, 'big') + b\n\
         name = b'{name}'\n\
         sni = b'\\x00\\x00' + vec(2, vec(2, b'\\x00' + vec(2, name)))\n\
         ext = sni\n\
         if {extension} != b'\\x00\\x00': ext += {extension} + vec(2, bytes([0]) + os.urandom(120))\n\
         ext += b'\\x00\\x2b' + vec(2, vec(1, b'\\x03\\x04')) + b'\\x00\\x0a' + vec(2, vec(2, b'\\x00\\x1d'))\n\
         ext += b'\\x00\\x0d' + vec(2, vec(2, b'\\x04\\x03\\x08\\x04'))\n\
         ext += b'\\x00\\x33' + vec(2, vec(2, b'\\x00\\x1d' + vec(2, os.urandom(32))))\n\
         body = b'\\x03\\x03' + os.urandom(32) + vec(1, os.urandom(32)) + vec(2, b'\\x13\\x01\\x13\\x02') + b'\\x01\\x00' + vec(2, ext)\n\
         record = b'\\x16\\x03\\x01' + vec(2, b'\\x01' + vec(3, body))\n\
         def go():\n s = connect('{host}', 443); s.sendall(record); return ending(s)\n\
         attempt(go)"
    )
}
