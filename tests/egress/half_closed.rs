//! A side that has said all it has to say still hears the other one, however it came there.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
};

use gig_tests::lab::{
    Lab, Subject,
    http_origin::{Exchange, Request},
    raw_origin::{Conversation, RawOrigin},
};

use crate::last_written::a_moment;

const HOST: &str = "raw.example.com";

/// One port whose bytes are not looked into, one whose TLS is not opened. Where a secret is, bytes are watched on their way.
fn subject(lab: &Lab, secret: bool) -> Subject<'_> {
    let subject = lab.gig().policy(
        "version: 1\nname: opaque\negress:\n  \
         - {host: api.example.com}\n  \
         - {host: raw.example.com, ports: [7000], protocol: tcp}\n  \
         - {host: raw.example.com, ports: [443], tls: passthrough}\n",
    );
    if secret {
        let subject = subject.host_env("TOKEN", "a-value-of-some-length");
        return subject.option(["--secret", "TOKEN@api.example.com"]);
    }
    subject
}

/// The ways to it, and what a client says first: a name, where a name is asked for.
const CLIENT: &str = "
import ssl

def hello():
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname='raw.example.com')
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()

def ways():
    for port, first in ((7000, b''), (443, hello())):
        yield f'{port} straight', connect('raw.example.com', port), first
        s, status = tunnel(f'raw.example.com:{port}')
        assert ' 200 ' in status, status
        yield f'{port} tunnel', s, first
";

fn origins(
    lab: &Lab,
    converse: impl Fn(&mut Conversation) -> io::Result<()> + Send + Sync + Clone + 'static,
) -> [RawOrigin; 2] {
    let address = lab.address_for(HOST);
    [7000, 443].map(|port| lab.tcp(SocketAddr::new(address, port), converse.clone()))
}

const MUCH: usize = 3_000_000;

#[test]
fn the_answer_is_whole_that_comes_after_the_programs_end() {
    let lab = Lab::new();
    let origins = origins(&lab, |conversation| {
        conversation.drain()?;
        conversation.write_all(&vec![b'x'; MUCH])?;
        conversation.write_all(b"the last of it")
    });
    let script = "
for way, s, first in ways():
    # At once, before anybody can have answered.
    s.sendall(first + b'all of it')
    s.shutdown(socket.SHUT_WR)
    s.settimeout(PATIENCE)
    got = b''
    while part := s.recv(65536):
        got += part
    print(way, len(got), got[-14:].decode())
";
    for secret in [false, true] {
        let run = subject(&lab, secret).wire(&format!("{CLIENT}{script}"));
        let run = run.success();
        for way in ["7000 straight", "7000 tunnel", "443 straight", "443 tunnel"] {
            let answer = format!("{way} {} the last of it", MUCH + 14);
            assert!(run.text().contains(&answer), "{run}");
        }
    }
    for origin in origins {
        assert_eq!(origin.text().matches("all of it").count(), 4);
    }
}

#[test]
fn the_program_is_heard_to_its_end_after_the_origins() {
    let lab = Lab::new();
    let origins = origins(&lab, |conversation| {
        conversation.write_all(b"a banner, and no more")?;
        conversation.finish()?;
        conversation.drain()
    });
    let script = "
import os, time
for way, s, first in ways():
    s.sendall(first)
    s.settimeout(PATIENCE)
    got = b''
    while part := s.recv(65536):
        got += part
    time.sleep(0.2)
    for _ in range(30):
        s.sendall(b'y' * 100000)
    s.sendall(b'the last of it')
    s.shutdown(socket.SHUT_WR)
    print(way, got.decode(), s.recv(1))
sys.stdout.flush()
os._exit(0)
";
    for secret in [false, true] {
        let run = subject(&lab, secret).wire(&format!("{CLIENT}{script}"));
        let run = run.success();
        for way in ["7000 straight", "7000 tunnel", "443 straight", "443 tunnel"] {
            let end = format!("{way} a banner, and no more b''");
            assert!(run.text().contains(&end), "{run}");
        }
    }
    for origin in origins {
        let seen = origin.heard_out();
        assert_eq!(seen.len(), 4);
        for seen in seen {
            assert!(
                seen.closed && seen.received_octets >= MUCH as u64 + 14,
                "{seen:?}"
            );
        }
    }
}

/// As `printf … | nc -N` and `ssh HOST command < file` do.
#[test]
fn ordinary_programs_that_end_their_input_get_their_answer() {
    let lab = Lab::new();
    let _origins = origins(&lab, |conversation| {
        conversation.drain()?;
        conversation.write_all(b"the answer\n")
    });
    for client in [
        "nc -N raw.example.com 7000",
        "socat -t 60 - TCP:raw.example.com:7000",
    ] {
        let _run = subject(&lab, false)
            .sh(&format!("printf question | {client}"))
            .success()
            .says("the answer");
    }
}

/// The same in HTTP, which gig speaks itself, of an origin that takes its time.
#[test]
fn http_that_ends_its_input_gets_its_answer() {
    let lab = Lab::new();
    let answer = |_: &mut Request, exchange: &mut Exchange<'_>| {
        a_moment();
        exchange.answer("200 OK", "the answer\n")
    };
    let _clear = lab.http("clear.example.com", answer);
    let _secure = lab.https("secure.example.com", answer);
    for client in [
        "clear.example.com nc -N clear.example.com 80",
        "secure.example.com socat -t 60 - OPENSSL:secure.example.com:443,cafile=$SSL_CERT_FILE",
    ] {
        let (host, client) = client.split_once(' ').unwrap();
        let request = format!("GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n");
        let _run = lab
            .gig()
            .allow(host)
            .sh(&format!("printf '{request}' | {client}"))
            .success()
            .says("the answer");
    }
}
