//! What must not wait for an end, and what comes after it: events, interim answers, trailers.

use std::{
    io,
    sync::{Mutex, mpsc},
    time::Duration,
};

use gig_tests::lab::{
    Lab,
    http_origin::{Exchange, Request},
};

const HOST: &str = "stream.example.com";

#[test]
fn events_arrive_one_by_one() {
    let lab = Lab::new();
    let (got, next) = mpsc::channel();
    let next = Mutex::new(next);
    let _origin = lab.https(HOST, move |request: &mut Request, exchange: &mut Exchange<'_>| -> io::Result<()> {
        if request.target == "/got" {
            got.send(()).map_err(io::Error::other)?;
            return exchange.answer("200 OK", "go on\n");
        }
        exchange.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
        // Each event is sent once the one before it has been read: held back, there would be no other.
        for n in 0..4 {
            exchange.send(format!("d\r\ndata: event{n}\n\r\n"))?;
            let next = next.lock().expect("one stream of events");
            next.recv_timeout(Duration::from_secs(100)).map_err(io::Error::other)?;
        }
        exchange.send("0\r\n\r\n")
    });
    let script = "import urllib.request as r\n\
        for line in r.urlopen('https://stream.example.com/events', timeout=90):\n\
        \x20print(line.decode().strip())\n\
        \x20if line.strip(): r.urlopen('https://stream.example.com/got', timeout=90).read()";
    let run = lab
        .gig()
        .allow(HOST)
        .python(script)
        .success()
        .requested(HOST);
    let _run = run.says("event0").says("event3");
}

#[test]
fn a_client_that_waits_for_100_continue_gets_it_from_the_origin() {
    let lab = Lab::new();
    let origin = lab.https(
        HOST,
        |request: &mut Request, exchange: &mut Exchange<'_>| -> io::Result<()> {
            if request.field("expect").is_some() {
                exchange.send("HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            exchange.body(request)?;
            exchange.answer("200 OK", &format!("got {}\n", request.body_octets))
        },
    );
    // curl waits ten minutes for the interim answer: only a real one lets this end in time.
    let run = lab.gig().allow(HOST).input("payload").run([
        "curl",
        "-sS",
        "--http1.1",
        "--expect100-timeout",
        "600",
        "-H",
        "Expect: 100-continue",
        "--data-binary",
        "@-",
        "https://stream.example.com/upload",
    ]);
    let _run = run.success().says("got 7").requested(HOST);
    assert_eq!(origin.requests()[0].body, b"payload");
}

#[test]
fn a_body_is_not_sent_to_an_origin_that_refuses_the_expectation() {
    let lab = Lab::new();
    let origin = lab.https(
        HOST,
        |_: &mut Request, exchange: &mut Exchange<'_>| -> io::Result<()> {
            exchange.send(
                "HTTP/1.1 417 Expectation Failed\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            )
        },
    );
    let run = lab.gig().allow(HOST).input("payload").run([
        "curl",
        "-sS",
        "--http1.1",
        "--expect100-timeout",
        "600",
        "-H",
        "Expect: 100-continue",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code} sent %{size_upload}",
        "--data-binary",
        "@-",
        "https://stream.example.com/upload",
    ]);
    let _run = run.requested(HOST);
    assert!(
        !origin.raw().text().contains("payload"),
        "{}",
        origin.raw().text()
    );
}

#[test]
fn early_hints_pass() {
    let lab = Lab::new();
    let _origin = lab.https(
        HOST,
        |request: &mut Request, exchange: &mut Exchange<'_>| -> io::Result<()> {
            exchange.body(request)?;
            exchange.send("HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n")?;
            exchange.answer("200 OK", "the page\n")
        },
    );
    let run = lab.gig().allow(HOST).run([
        "curl",
        "-sS",
        "-i",
        "--http1.1",
        "https://stream.example.com/",
    ]);
    let _run = run
        .success()
        .says("HTTP/1.1 103")
        .says("rel=preload")
        .says("the page")
        .says("200 OK")
        .requested(HOST);
}

#[test]
fn trailers_pass_both_ways() {
    let lab = Lab::new();
    let origin = lab.https(
        HOST,
        |request: &mut Request, exchange: &mut Exchange<'_>| -> io::Result<()> {
            exchange.body(request)?;
            exchange.send(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-digest\r\n\r\n",
            )?;
            exchange.send("4\r\nbody\r\n0\r\nx-digest: after-the-body\r\n\r\n")
        },
    );
    let script = "import socket, ssl\n\
        s = ssl.create_default_context().wrap_socket(socket.create_connection(('stream.example.com', 443)), \
        server_hostname='stream.example.com')\n\
        s.sendall(b'POST / HTTP/1.1\\r\\nHost: stream.example.com\\r\\nTransfer-Encoding: chunked\\r\\n\
TE: trailers\\r\\nTrailer: x-sum\\r\\nConnection: close\\r\\n\\r\\n5\\r\\nhello\\r\\n0\\r\\nx-sum: 42\\r\\n\\r\\n')\n\
        got = b''\n\
        while True:\n\
        \x20part = s.recv(4096)\n\
        \x20if not part: break\n\
        \x20got += part\n\
        print(got.decode())";
    let run = lab
        .gig()
        .allow(HOST)
        .python(script)
        .success()
        .requested(HOST);
    let _run = run.says("x-digest: after-the-body");
    let requests = origin.requests();
    assert_eq!(requests[0].body, b"hello");
    assert_eq!(
        requests[0].trailers,
        [("x-sum".to_owned(), "42".to_owned())]
    );
}

#[test]
fn head_has_a_length_and_no_body() {
    let lab = Lab::new();
    let _origin = lab.https(
        HOST,
        |_: &mut Request, exchange: &mut Exchange<'_>| -> io::Result<()> {
            exchange.send("HTTP/1.1 200 OK\r\ncontent-length: 12345\r\n\r\n")
        },
    );
    for version in ["--http1.1", "--http2"] {
        let url = "https://stream.example.com/";
        let run = lab
            .gig()
            .allow(HOST)
            .run(["curl", "-sS", "-I", "-m", "20", version, url]);
        let run = run.success().requested(HOST);
        assert!(
            run.text().to_lowercase().contains("content-length: 12345"),
            "{run}"
        );
    }
}
