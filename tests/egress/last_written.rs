//! What a program wrote before it ended is delivered, as it would be without gig; and a run does not wait longer than
//! that takes.

use std::{
    io,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use gig_audit::Event;
use gig_tests::lab::{
    Lab, Subject,
    http_origin::{Exchange, Request},
};
use rustix::process::Signal;

const HOST: &str = "raw.example.com";
const MUCH: u64 = 3_000_000;

fn subject(lab: &Lab) -> Subject<'_> {
    lab.gig().policy(
        "version: 1\nname: last\negress:\n  \
         - {host: api.example.com}\n  \
         - {host: raw.example.com, ports: [7000], protocol: tcp}\n  \
         - {host: raw.example.com, ports: [443], tls: passthrough}\n",
    )
}

/// Slow enough to begin when the program has long ended.
pub(crate) fn a_moment() {
    thread::sleep(Duration::from_millis(700));
}

#[test]
fn what_a_program_wrote_last_arrives_through_tunnels_and_passed_tls() {
    let lab = Lab::new();
    let address = lab.address_for(HOST);
    let origins = [7000, 443].map(|port| {
        lab.tcp(SocketAddr::new(address, port), |conversation| {
            a_moment();
            conversation.drain()
        })
    });
    let script = format!(
        "
import os, ssl
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
session = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname='{HOST}')
try:
    session.do_handshake()
except ssl.SSLWantReadError:
    hello = outgoing.read()
for port, first in ((7000, b''), (443, hello)):
    for s in (connect('{HOST}', port), tunnel(f'{HOST}:{{port}}')[0]):
        s.sendall(first + b'y' * ({MUCH} - len(first)))
        s.shutdown(socket.SHUT_WR)
os._exit(0)
"
    );
    let run = subject(&lab).wire(&script).success();
    for origin in origins {
        let seen = origin.heard_out();
        assert_eq!(seen.len(), 2);
        for seen in seen {
            assert!(seen.closed && seen.received_octets == MUCH, "{seen:?}");
        }
    }
    let outcomes = run.audit.of(Event::Response);
    let sent: Vec<_> = outcomes.map(|end| (end.bytes_out, end.reason)).collect();
    assert_eq!(sent, [(Some(MUCH), None); 4], "{run}");
}

#[test]
fn a_request_arrives_whole_whose_program_did_not_wait_for_the_answer() {
    let lab = Lab::new();
    let receive = |request: &mut Request, exchange: &mut Exchange<'_>| -> io::Result<()> {
        a_moment();
        exchange.body(request)?;
        exchange.answer("200 OK", "thanks\n")
    };
    let secure = lab.https("api.example.com", receive);
    let clear = lab.http("hook.example.com", receive);
    for length in [MUCH, 5, 0] {
        let script = format!(
            "
import os, ssl
head = 'POST /hook HTTP/1.1\\r\\nHost: %s\\r\\nContent-Length: {length}\\r\\n\\r\\n'
open = []
for host, port in (('api.example.com', 443), ('hook.example.com', 80)):
    s = connect(host, port)
    if port == 443:
        s = ssl.create_default_context().wrap_socket(s, server_hostname=host)
    open.append(s)
    s.sendall((head % host).encode() + b'z' * {length})
os._exit(0)
"
        );
        let before = [&secure, &clear].map(|origin| origin.requests().len());
        let subject = lab.gig().allow("api.example.com").allow("hook.example.com");
        let run = subject.wire(&script).success();
        for (origin, before) in [&secure, &clear].into_iter().zip(before) {
            let until = Instant::now() + Duration::from_secs(10);
            while origin.requests().len() == before && Instant::now() < until {
                thread::sleep(Duration::from_millis(20));
            }
            let requests = origin.requests();
            assert_eq!(requests.len(), before + 1, "{length}: {run}");
            assert_eq!(requests[before].body_octets, length, "{run}");
        }
        let outcomes = run.audit.of(Event::Response);
        let ends: Vec<_> = outcomes.map(|end| (end.bytes_out, end.reason)).collect();
        assert_eq!(ends, [(Some(length), None); 2], "{run}");
    }
}

/// A connection that its origin keeps, one that it never reads from; nothing of the program's is under way.
#[test]
fn a_run_with_nothing_under_way_ends_at_once() {
    let lab = Lab::new();
    let address = lab.address_for(HOST);
    let _origin = lab.tcp(SocketAddr::new(address, 7000), |conversation| {
        conversation.drain()?;
        thread::sleep(Duration::from_secs(20));
        Ok(())
    });
    let _http = lab.nginx(&["api.example.com"]);
    let script = format!(
        "
import os, urllib.request
s = connect('{HOST}', 7000)
s.sendall(b'all of it')
t = connect('{HOST}', 7000)
for version in '12':
    os.system(f'curl -sS --fail --http{{version}} -o /dev/null https://api.example.com/')
print('ended', flush=True)
os._exit(0)
"
    );
    let mut live = subject(&lab).start(wired(&script));
    live.wait_for("ended");
    let since = Instant::now();
    let _run = live.finish(Duration::from_secs(20)).success();
    let took = since.elapsed();
    assert!(took < Duration::from_millis(900), "{took:?}");
}

/// Whose origin never reads, whoever waits for it.
#[test]
fn a_run_waits_for_an_origin_that_reads_nothing_for_seconds_and_no_longer_than_is_wanted() {
    let lab = Lab::new();
    let address = lab.address_for(HOST);
    let _origin = lab.tcp(SocketAddr::new(address, 7000), |_| {
        thread::sleep(Duration::from_secs(60));
        Ok(())
    });
    let script = format!(
        "
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
s = connect('{HOST}', 7000)
s.settimeout(0.3)
try:
    while True:
        s.send(b'x' * 65536)
except TimeoutError:
    pass
print('ended', flush=True)
os._exit(0)
"
    );
    let ended = |options: &[&str], interrupt: bool| {
        let mut live = subject(&lab).option(options).start(wired(&script));
        live.wait_for("ended");
        let since = Instant::now();
        thread::sleep(Duration::from_millis(500));
        if interrupt {
            live.signal(Signal::INT);
        }
        let _run = live.finish(Duration::from_secs(20)).success();
        since.elapsed()
    };
    let took = ended(&[], false);
    assert!((4..7).contains(&took.as_secs()), "{took:?}");
    for (options, interrupt) in [(&[][..], true), (&["--timeout", "2s"], false)] {
        let took = ended(options, interrupt);
        assert!(took < Duration::from_secs(3), "{options:?}: {took:?}");
    }
}

fn wired(script: &str) -> [String; 3] {
    let script = gig_tests::lab::fixture::text("wire.py") + "\n" + script;
    ["/usr/bin/python3".into(), "-c".into(), script]
}
