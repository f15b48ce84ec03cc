//! Compressed bodies together hold no more memory than one sandbox may use, and no other sandbox feels it.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use gig_audit::Event;
use gig_policy::{DenyReason, Policy, SandboxId};
use gig_vault::Treatment;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    lab::{
        ALLOW_API, Arrangement, Lab, Way,
        client::{Answer, Body, full, read_head},
        keeper::Keeper,
        origin::Origin,
    },
    reflection::with_secret,
};
use crate::Subject;

/// A Zstandard frame with a window of 8 MiB, and a first block that is not compressed.
const BEGUN: &[u8] = b"\x28\xb5\x2f\xfd\x00\x68\x28\0\0{\"a\":";
/// Its last block.
const REST: &[u8] = b"\x11\0\0\"\"";
/// What so many of them need, none may have.
const MANY: usize = 20;

fn held(subject: &Arc<Subject>) -> usize {
    subject.wallet().unwrap().memory().held()
}

/// Another sandbox with a sentinel for the same secret.
fn neighbour(lab: &Lab) -> Arc<Subject> {
    let border = lab.subject.wallet().unwrap().border();
    let id = SandboxId::new(uuid::Uuid::from_u128(9));
    let wallet = border.wallet(id);
    let secret = border.keeper().at_hand(&"TOKEN".parse().unwrap()).unwrap();
    wallet.hold(&secret).unwrap();
    let ends = ([127, 0, 0, 1].into(), [127, 0, 0, 1].into());
    let policy = Policy::compile(ALLOW_API, "test").unwrap();
    Subject::with_wallet(id, ends, policy, Some(wallet))
}

async fn lab(origin: &Origin) -> Lab {
    let (lab, _) = with_secret(Arrangement::new(ALLOW_API).origin("api.test:80", origin));
    std::future::ready(lab).await
}

/// Waits for what a machine may take long to.
async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let waiting = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(waited.is_ok(), "{what}");
}

fn chunk(octets: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", octets.len()).into_bytes();
    chunk.extend_from_slice(octets);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// Begins an upload that is compressed; gives its connection, and whether it was refused.
async fn begin(lab: &Lab, subject: &Arc<Subject>) -> (TcpStream, bool) {
    let before = held(subject);
    let mut stream = lab.connect_as(subject, Way::to("api.test", 80)).await;
    let head = "POST /up HTTP/1.1\r\nHost: api.test\r\nContent-Type: application/json\r\n\
        Content-Encoding: zstd\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&chunk(BEGUN)).await.unwrap();
    let mut first = [0];
    let answered = tokio::select! {
        answered = stream.peek(&mut first) => answered.is_ok(),
        () = until("an upload goes on or is refused", || held(subject) > before + (8 << 20)) => false,
    };
    (stream, answered)
}

async fn finish(mut stream: TcpStream) -> String {
    let mut last = chunk(REST);
    last.extend_from_slice(b"0\r\n\r\n");
    stream.write_all(&last).await.unwrap();
    read_head(&mut stream).await
}

async fn taken(request: Request<Incoming>) -> Response<Body> {
    let body = request.into_body().collect().await;
    Response::new(full(body.map_or(Bytes::new(), |body| body.to_bytes())))
}

#[tokio::test]
async fn uploads_beyond_what_a_sandbox_may_hold_are_refused_and_others_go_on() {
    let origin = Origin::http(taken).await;
    let lab = lab(&origin).await;
    let (mut open, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..MANY {
        let (stream, answered) = begin(&lab, &lab.subject).await;
        if answered { &mut refused } else { &mut open }.push(stream);
        assert!(held(&lab.subject) <= 128 << 20);
    }
    // 8 MiB and a little each.
    assert_eq!((open.len(), refused.len()), (15, MANY - 15));
    for mut stream in refused {
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 429 "), "{head}");
        let status = "proxy-status: gig; error=http_request_denied; details=\"decoder_limit\"";
        assert!(head.contains(status), "{head}");
        let mut body = vec![0; 400];
        let length = stream.read(&mut body).await.unwrap();
        let body = String::from_utf8_lossy(&body[..length]).into_owned();
        assert!(body.contains("\"reason\":\"decoder_limit\""), "{body}");
    }
    let records = lab.until_records(Event::Response, MANY - 15).await;
    for record in records {
        assert_eq!(record.entry.reason, Some(DenyReason::DecoderLimit));
        assert_eq!(record.entry.status, Some(429));
    }
    // Another sandbox has what it always has.
    let other = neighbour(&lab);
    let (stream, answered) = begin(&lab, &other).await;
    assert!(!answered);
    assert!(finish(stream).await.starts_with("HTTP/1.1 200 "));
    // And what ends gives back what it held.
    for stream in open {
        let head = finish(stream).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    }
    until("all is given back", || held(&lab.subject) == 0).await;
    let (stream, answered) = begin(&lab, &lab.subject).await;
    assert!(!answered);
    assert!(finish(stream).await.starts_with("HTTP/1.1 200 "));
}

/// Begins a compressed answer and never ends it.
async fn endless(_: Request<Incoming>) -> Response<Body> {
    let begun = futures_util::stream::iter([Ok(Frame::data(Bytes::from_static(BEGUN)))]);
    let ever = futures_util::StreamExt::chain(begun, futures_util::stream::pending());
    let mut answer = Response::new(BodyExt::boxed(StreamBody::new(ever)));
    let headers = answer.headers_mut();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("zstd"));
    std::future::ready(answer).await
}

/// Asks for an endless answer; whether it came to an end all the same.
async fn ask(lab: &Lab, subject: &Arc<Subject>) -> (TcpStream, bool) {
    let before = subject.wallet().map(|wallet| wallet.memory().held());
    let mut stream = lab.connect_as(subject, Way::to("api.test", 80)).await;
    let head = "GET /down HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: zstd\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    if head.is_empty() || head.starts_with("HTTP/1.1 429 ") {
        // Cut before any of it went.
        return (stream, true);
    }
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let Some(before) = before else {
        // Passed as it came.
        stream.read_u8().await.unwrap();
        return (stream, false);
    };
    let mut rest = Vec::new();
    let ended = tokio::select! {
        _ = stream.read_to_end(&mut rest) => true,
        () = until("an answer goes on or is cut", || held(subject) > before + (8 << 20)) => false,
    };
    // What was cut is not passed as if it were whole.
    assert!(!rest.ends_with(b"0\r\n\r\n"));
    (stream, ended)
}

#[tokio::test]
async fn answers_beyond_what_a_sandbox_may_hold_are_cut() {
    let origin = Origin::http(endless).await;
    let lab = lab(&origin).await;
    let (mut open, mut cut) = (Vec::new(), 0);
    for _ in 0..MANY {
        match ask(&lab, &lab.subject).await {
            (stream, false) => open.push(stream),
            (_, true) => cut += 1,
        }
        assert!(held(&lab.subject) <= 128 << 20);
    }
    assert_eq!((open.len(), cut), (15, MANY - 15));
    let records = lab.until_records(Event::Response, cut).await;
    for record in records {
        assert_eq!(record.entry.reason, Some(DenyReason::DecoderLimit));
    }
    let other = neighbour(&lab);
    let (stream, ended) = ask(&lab, &other).await;
    assert!(!ended);
    drop((stream, open));
    until("all is given back", || held(&lab.subject) == 0).await;
}

#[tokio::test]
async fn nothing_is_decoded_where_no_secret_could_be() {
    let origin = Origin::http(endless).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut open = Vec::new();
    for _ in 0..MANY {
        let (stream, ended) = ask(&lab, &lab.subject).await;
        assert!(!ended);
        open.push(stream);
    }
}

const SIGNING: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [443], allow_private: [127.0.0.0/8], secrets: [KEY]}
";
/// What one signed body says that it has.
const LONG: usize = 16 << 20;

/// A secret that signs bodies, which are read whole first.
fn signing(origin: &Origin) -> Lab {
    let keeper = Keeper::with(&[]);
    let definition = gig_vault::Definition::parse(
        "{kind: {hmac: {message: '{body}', header: X-Signature, largest_body: 16777216}}}",
    );
    let gig_vault::KindDefinition::Hmac(definition) = definition.unwrap().kind else {
        panic!("another kind");
    };
    let treatment = Treatment::Hmac(Arc::new(*definition));
    keeper.put("KEY", &["shared-key"], treatment);
    Arrangement::new(SIGNING)
        .origin("api.test:443", origin)
        .keeper(&keeper)
        .lab()
}

/// Begins an upload that is to be signed and never ends it; gives its answer where it was refused.
async fn sign(lab: &Lab) -> (Pin<Box<dyn Future<Output = Answer>>>, Option<Answer>) {
    let before = held(&lab.subject);
    let pieces = (0..4).map(|_| Ok(Frame::data(Bytes::from(vec![b'.'; LONG / 16]))));
    let begun = futures_util::stream::iter(pieces);
    let ever = futures_util::StreamExt::chain(begun, futures_util::stream::pending());
    let request = Request::post("/up")
        .header("host", "api.test")
        .header("content-length", LONG)
        .body(BodyExt::boxed(StreamBody::new(ever)))
        .unwrap();
    let mut client = lab.https("api.test", "http/1.1").await;
    let mut sending = Box::pin(async move { client.send(request).await });
    let answer = tokio::select! {
        answer = &mut sending => Some(answer),
        () = until("a body is read or refused", || held(&lab.subject) >= before + LONG) => None,
    };
    (sending, answer)
}

#[tokio::test]
async fn bodies_that_are_read_whole_hold_no_more_than_a_sandbox_may() {
    let origin = Origin::https("api.test", &["http/1.1"], taken).await;
    let lab = signing(&origin);
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..12 {
        match sign(&lab).await {
            (sending, None) => open.push(sending),
            (_, Some(answer)) => {
                assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
                assert_eq!(answer.json()["reason"], "decoder_limit");
                refused += 1;
            }
        }
        assert!(held(&lab.subject) <= 128 << 20);
    }
    assert_eq!((open.len(), refused), (8, 4));
    assert!(origin.seen.requests().is_empty());
    drop(open);
    until("all is given back", || held(&lab.subject) == 0).await;
    // What fits is signed and goes, and is given back when it went.
    let mut client = lab.https("api.test", "http/1.1").await;
    let request = Request::post("/up").header("host", "api.test");
    let request = request.header("content-length", LONG);
    let body = full(Bytes::from(vec![b'.'; LONG]));
    let answer = client.send(request.body(body).unwrap()).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, LONG));
    assert!(!origin.seen.requests()[0].header("x-signature").is_empty());
    until("all is given back", || held(&lab.subject) == 0).await;
}
