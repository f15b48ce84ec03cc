//! HTTP/2 that is none, from programs and from origins: nothing of it passes, hangs, or stays.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use gig_audit::Event;
use gig_policy::DenyReason;
use http::{Request, Response};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    client::{empty, get},
    h2::{self, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, field, frame},
    origin::Origin,
};

mod trailers;

const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// A header section of an answer.
fn head(flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let block: Vec<u8> = fields
        .iter()
        .flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes()))
        .collect();
    frame(HEADERS, END_HEADERS | flags, 1, &block)
}

const OK: (&str, &str) = (":status", "200");

/// An origin that answers its first request with these octets.
async fn answering(octets: Vec<u8>) -> Origin {
    let octets = Arc::new(octets);
    Origin::tls("api.test", &["h2"], move |mut stream, _| {
        let octets = Arc::clone(&octets);
        async move {
            let mut preface = [0; 24];
            stream.read_exact(&mut preface).await.unwrap();
            stream
                .write_all(&frame(h2::SETTINGS, 0, 0, &[]))
                .await
                .unwrap();
            while let Ok((kind, ..)) = h2::read_frame(&mut stream).await {
                if kind == HEADERS {
                    stream.write_all(&octets).await.unwrap();
                }
            }
        }
    })
    .await
}

/// What a program that speaks `alpn` gets: a status, and a whole body or none.
async fn got(octets: Vec<u8>, alpn: &str) -> (u16, Option<String>, Lab) {
    let origin = answering(octets).await;
    let arrangement = Arrangement::new(ALLOW_API);
    let lab = arrangement.origin("api.test:443", &origin).lab();
    let mut client = lab.https("api.test", alpn).await;
    let asking = async {
        let Ok(response) = client.start(get("https://api.test/")).await else {
            return (0, None);
        };
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.ok();
        let body = body.map(|body| String::from_utf8(body.to_bytes().to_vec()).unwrap());
        (status, body)
    };
    let asked = tokio::time::timeout(Duration::from_secs(60), asking).await;
    let (status, body) = asked.expect("no end");
    (status, body, lab)
}

#[tokio::test]
async fn a_well_formed_answer_by_hand_passes() {
    for alpn in ["h2", "http/1.1"] {
        let octets = [head(0, &[OK]), frame(DATA, END_STREAM, 1, b"good")].concat();
        let (status, body, _) = got(octets, alpn).await;
        assert_eq!((status, body.as_deref()), (200, Some("good")));
    }
}

#[tokio::test]
async fn what_begins_as_no_answer_is_told_as_502() {
    let evil = frame(DATA, END_STREAM, 1, b"evil");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("data first", evil.clone()),
        ("no status", [head(0, &[("x", "y")]), evil.clone()].concat()),
        (
            "a late status",
            [head(0, &[("x", "y"), OK]), evil.clone()].concat(),
        ),
        ("two statuses", [head(0, &[OK, OK]), evil.clone()].concat()),
        (
            "no number",
            [head(0, &[(":status", "2x")]), evil.clone()].concat(),
        ),
        (
            "a coding",
            [
                head(0, &[OK, ("transfer-encoding", "chunked")]),
                evil.clone(),
            ]
            .concat(),
        ),
        (
            "capitals",
            [head(0, &[OK, ("X-Up", "y")]), evil.clone()].concat(),
        ),
        ("an interim end", head(END_STREAM, &[(":status", "103")])),
        (
            "an interim, then data",
            [head(0, &[(":status", "103")]), evil.clone()].concat(),
        ),
        (
            "a switch",
            [head(0, &[(":status", "101")]), head(0, &[OK]), evil.clone()].concat(),
        ),
        ("a reset", frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])),
        ("a farewell", frame(GOAWAY, 0, 0, &[0; 8])),
        (
            "a promise",
            frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]),
        ),
        ("no window", frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        (
            "a huge window",
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
        ),
        (
            "another stream",
            frame(HEADERS, END_HEADERS, 3, &field(b":status", b"200")),
        ),
        (
            "an even stream",
            frame(HEADERS, END_HEADERS, 2, &field(b":status", b"200")),
        ),
        (
            "a length that lies",
            head(END_STREAM, &[OK, ("content-length", "4")]),
        ),
        (
            "two lengths",
            head(0, &[OK, ("content-length", "4"), ("content-length", "5")]),
        ),
    ];
    for (what, octets) in cases {
        for alpn in ["h2", "http/1.1"] {
            let (status, body, lab) = got(octets.clone(), alpn).await;
            assert_eq!(status, 502, "{what} {alpn}: {body:?}");
            assert!(body.unwrap().contains("egress_failed"), "{what} {alpn}");
            let record = lab.until_records(Event::Response, 1).await.remove(0);
            let reason = record.entry.reason.unwrap();
            let known = [
                DenyReason::OriginProtocol,
                DenyReason::DestinationUnavailable,
            ];
            assert!(known.contains(&reason), "{what} {alpn}: {reason}");
        }
    }
}

#[tokio::test]
async fn an_origin_that_floods_is_not_heard_any_further() {
    let answer = [head(0, &[OK]), frame(DATA, END_STREAM, 1, b"late")].concat();
    let flood = frame(PING, 0, 0, &[0; 8]).repeat(5000);
    for alpn in ["h2", "http/1.1"] {
        let (status, body, _lab) = got([flood.clone(), answer.clone()].concat(), alpn).await;
        assert_eq!(status, 502, "{alpn}: {body:?}");
    }
}

#[tokio::test]
async fn an_answer_that_goes_wrong_is_never_whole() {
    let start = || [head(0, &[OK]), frame(DATA, 0, 1, b"half")].concat();
    let long = |flags| {
        let head = head(0, &[OK, ("content-length", "8")]);
        [head, frame(DATA, flags, 1, b"half")].concat()
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a second answer", [start(), head(0, &[OK])].concat()),
        (
            "an interim one after it",
            [start(), head(0, &[(":status", "103")])].concat(),
        ),
        ("a shorter body", long(END_STREAM)),
        (
            "a longer body",
            [long(0), frame(DATA, END_STREAM, 1, b"another half")].concat(),
        ),
        (
            "enough, too early",
            [long(0), frame(RST_STREAM, 0, 1, &[0; 4])].concat(),
        ),
        (
            "a reset",
            [start(), frame(RST_STREAM, 0, 1, &[0, 0, 0, 2])].concat(),
        ),
        (
            "a reset without an error and without an end",
            [start(), frame(RST_STREAM, 0, 1, &[0; 4])].concat(),
        ),
        (
            "a bad frame",
            [start(), frame(h2::SETTINGS, 0, 1, &[0; 6])].concat(),
        ),
        (
            "too much padding",
            [start(), frame(DATA, 8, 1, &[200, 0])].concat(),
        ),
    ];
    for (what, octets) in cases {
        for alpn in ["h2", "http/1.1"] {
            // Refused before it began, or begun and broken off: what came must not look whole.
            let (status, body, lab) = got(octets.clone(), alpn).await;
            let refused = status == 502 && !body.as_deref().unwrap_or_default().contains("half");
            assert!(
                refused || body.is_none(),
                "{what} {alpn}: {status} {body:?}"
            );
            let record = lab.until_records(Event::Response, 1).await.remove(0);
            assert!(record.entry.reason.is_some(), "{what} {alpn}: {record:#?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_ended_is_whole_though_its_stream_is_reset() {
    let enough = || frame(RST_STREAM, 0, 1, &[0; 4]);
    let body = |flags| frame(DATA, flags, 1, b"whole");
    let length = ("content-length", "5");
    let cases: Vec<(&str, Vec<u8>)> = vec![
        (
            "ended",
            [head(0, &[OK]), body(END_STREAM), enough()].concat(),
        ),
        (
            "as long as announced",
            [head(0, &[OK, length]), body(0), enough()].concat(),
        ),
        (
            "trailers",
            [
                head(0, &[OK]),
                body(0),
                head(END_STREAM, &[("x-end", "1")]),
                enough(),
            ]
            .concat(),
        ),
    ];
    for (what, octets) in cases {
        for alpn in ["h2", "http/1.1"] {
            let (status, body, lab) = got(octets.clone(), alpn).await;
            let body = body.as_deref();
            assert_eq!((status, body), (200, Some("whole")), "{what} {alpn}");
            let record = lab.until_records(Event::Response, 1).await.remove(0);
            assert_eq!(record.entry.reason, None, "{what} {alpn}");
        }
    }
}

/// A program that sends these octets after the preface; what an HTTP/1.1 origin takes for whole bodies.
async fn sent(octets: Vec<u8>) -> (Lab, Vec<(Bytes, String)>) {
    let whole = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&whole);
    let keep = move |request: Request<hyper::body::Incoming>| {
        let kept = Arc::clone(&kept);
        async move {
            if let Ok(body) = request.into_body().collect().await {
                let trailers = format!("{:?}", body.trailers());
                kept.lock().push((body.to_bytes(), trailers));
            }
            Response::new(empty())
        }
    };
    let origin = Origin::https("api.test", &["http/1.1"], keep).await;
    let arrangement = Arrangement::new(ALLOW_API);
    let lab = arrangement.origin("api.test:443", &origin).lab();
    let stream = lab.connect(Way::to("api.test", 443)).await;
    let mut stream = lab.tls(stream, "api.test", &["h2"]).await.unwrap();
    stream
        .write_all(&[h2::preface(), octets].concat())
        .await
        .unwrap();
    // Until the stream is reset or answered, or the connection is over.
    let reading = async {
        while let Ok((kind, _, stream, _)) = h2::read_frame(&mut stream).await {
            if kind == GOAWAY || stream == 1 && matches!(kind, RST_STREAM | HEADERS) {
                break;
            }
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
    read.expect("neither answered nor ended");
    let whole = whole.lock().clone();
    (lab, whole)
}

fn post(flags: u8, more: &[(&str, &str)]) -> Vec<u8> {
    let mut block: Vec<u8> = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "api.test"),
        (":path", "/"),
    ]
    .iter()
    .chain(more)
    .flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes()))
    .collect();
    block.shrink_to_fit();
    frame(HEADERS, END_HEADERS | flags, 1, &block)
}

#[tokio::test]
async fn a_request_that_goes_wrong_is_never_whole_at_the_origin() {
    let start = || [post(0, &[]), frame(DATA, 0, 1, b"half")].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("data first", frame(DATA, END_STREAM, 1, b"evil")),
        ("a late method", post(0, &[("x", "y"), (":method", "GET")])),
        ("a status", post(END_STREAM, &[(":status", "200")])),
        (
            "a length that lies",
            post(END_STREAM, &[("content-length", "4")]),
        ),
        (
            "a reset",
            [start(), frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])].concat(),
        ),
        (
            "a reset without an error",
            [start(), frame(RST_STREAM, 0, 1, &[0; 4])].concat(),
        ),
        ("a second request", [start(), post(0, &[])].concat()),
        (
            "a shorter body",
            [
                post(0, &[("content-length", "8")]),
                frame(DATA, END_STREAM, 1, b"half"),
            ]
            .concat(),
        ),
        (
            "a longer body",
            [
                post(0, &[("content-length", "2")]),
                frame(DATA, END_STREAM, 1, b"half"),
            ]
            .concat(),
        ),
        (
            "a dependency on itself",
            frame(HEADERS, END_HEADERS | 0x20, 1, &[0, 0, 0, 1, 0]),
        ),
    ];
    for (what, octets) in cases {
        // RST_STREAM is not answered: what follows tells that it was read.
        let octets = [octets, frame(GOAWAY, 0, 0, &[0; 8]), frame(99, 0, 0, &[])].concat();
        let reset = what.starts_with("a reset");
        let octets = if reset {
            [octets, frame(h2::SETTINGS, 0, 1, &[])].concat()
        } else {
            octets
        };
        let (lab, whole) = sent(octets).await;
        for record in lab.records(Event::Response) {
            assert_ne!(record.entry.status, Some(200), "{what}: {record:#?}");
        }
        assert!(whole.is_empty(), "{what}: {whole:?}");
    }
}

#[tokio::test]
async fn ten_thousand_streams_that_are_given_up_leave_nothing() {
    // An origin that never answers.
    let origin = Origin::https("api.test", &["h2"], |_| std::future::pending()).await;
    let arrangement = Arrangement::new(ALLOW_API);
    let lab = arrangement.origin("api.test:443", &origin).lab();
    let mut given_up = 0;
    while given_up < 10_000 {
        let stream = lab.connect(Way::to("api.test", 443)).await;
        let stream = lab.tls(stream, "api.test", &["h2"]).await.unwrap();
        let (sender, connection) = ::h2::client::handshake(stream).await.unwrap();
        lab.tasks.spawn(connection);
        // A bound on resets may end the connection: then the next one goes on.
        while given_up < 10_000 {
            let Ok(mut ready) = sender.clone().ready().await else {
                break;
            };
            let request = get("https://api.test/").map(drop);
            let Ok((answer, _)) = ready.send_request(request, true) else {
                break;
            };
            let soon = tokio::time::timeout(Duration::from_micros(200), answer);
            drop(soon.await);
            given_up += 1;
        }
    }
    // Every task that a stream had is over.
    let ending = async {
        while lab.worker.tasks.len() > 16 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), ending).await;
    assert!(ended.is_ok(), "{} tasks are left", lab.worker.tasks.len());
}
