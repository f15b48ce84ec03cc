//! Answers that come while the program still sends its body, to a program that does not look before
//! it has sent everything: each must be read all the same.

use std::time::Duration;

use gig_policy::DenyReason;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    client::{empty, full, get, read_head},
    h2,
    origin::Origin,
};

const OPEN_ONLY: &str = "
version: 1
egress:
  - host: api.test
    ports: [80, 443]
    allow_private: [127.0.0.0/8]
    rules: [{paths: [/open]}]
";

/// More than the sockets on the way hold together: net.ipv4.tcp_rmem and tcp_wmem end at 6 and 4 MiB.
const BODY: usize = 32 * 1024 * 1024;

/// How a body's length is told.
#[derive(Debug, Clone, Copy)]
enum Length {
    Announced,
    InChunks,
}

/// Sends the whole request before it reads anything; the answer, up to the end of the connection.
async fn send_then_read<S>(mut stream: S, path: &str, length: Length) -> String
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let told = match length {
        Length::Announced => format!("Content-Length: {BODY}\r\n\r\n"),
        Length::InChunks => format!("Transfer-Encoding: chunked\r\n\r\n{BODY:x}\r\n"),
    };
    let head = format!("POST {path} HTTP/1.1\r\nHost: api.test\r\n{told}");
    stream.write_all(head.as_bytes()).await.unwrap();
    let part = vec![b'x'; 64 * 1024];
    for _ in 0..BODY / part.len() {
        stream.write_all(&part).await.expect("a body that is taken");
    }
    if matches!(length, Length::InChunks) {
        stream.write_all(b"\r\n0\r\n\r\n").await.unwrap();
    }
    stream.flush().await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("a clean end");
    String::from_utf8(answer).unwrap()
}

/// The same in clear text and in TLS; what was answered must begin with `status`.
async fn told(lab: &Lab, path: &str, length: Length, (status, reason): (u16, DenyReason)) {
    let plain = lab.connect(Way::to("api.test", 80)).await;
    let inside = lab.connect(Way::to("api.test", 443)).await;
    let inside = lab.tls(inside, "api.test", &["http/1.1"]).await.unwrap();
    for answer in [
        send_then_read(plain, path, length).await,
        send_then_read(inside, path, length).await,
    ] {
        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&expected), "{length:?}: {answer}");
        assert!(answer.contains(reason.as_str()), "{length:?}: {answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
}

/// Takes requests whole, in clear text and in TLS.
async fn taking(policy: &str) -> (Lab, [Origin; 2]) {
    let take = |request: Request<hyper::body::Incoming>| async {
        request.into_body().collect().await.ok();
        http::Response::new(full("taken"))
    };
    let plain = Origin::http(take).await;
    let inside = Origin::https("api.test", &["http/1.1"], take).await;
    let lab = Arrangement::new(policy)
        .origin("api.test:80", &plain)
        .origin("api.test:443", &inside)
        .lab();
    (lab, [plain, inside])
}

#[tokio::test]
async fn a_denied_upload_is_told_so_to_who_reads_last() {
    for length in [Length::Announced, Length::InChunks] {
        let (lab, origins) = taking(OPEN_ONLY).await;
        told(&lab, "/shut", length, (403, DenyReason::PathNotAllowed)).await;
        assert_eq!(origins.map(|origin| origin.seen.connections()), [0, 0]);
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_told_so_to_who_reads_last() {
    let policy = format!("{ALLOW_API}limits: {{request_body: 1MB}}\n");
    for length in [Length::Announced, Length::InChunks] {
        let (lab, _origins) = taking(&policy).await;
        told(&lab, "/", length, (413, DenyReason::RequestBodyLimit)).await;
    }
}

#[tokio::test]
async fn an_upload_over_the_allowance_is_told_so_to_who_reads_last() {
    let policy = format!("{ALLOW_API}limits: {{upload_per_hour: 1MB}}\n");
    for length in [Length::Announced, Length::InChunks] {
        let (lab, _origins) = taking(&policy).await;
        told(&lab, "/", length, (429, DenyReason::UploadLimit)).await;
    }
}

#[tokio::test]
async fn an_origin_that_goes_away_is_told_to_who_reads_last() {
    let leaving = || {
        Origin::raw(|mut stream, _| async move {
            read_head(&mut stream).await;
        })
    };
    for length in [Length::Announced, Length::InChunks] {
        let origin = leaving().await;
        let lab = Arrangement::new(ALLOW_API)
            .origin("api.test:80", &origin)
            .lab();
        let stream = lab.connect(Way::to("api.test", 80)).await;
        let answer = send_then_read(stream, "/", length).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    }
}

#[tokio::test]
async fn an_origins_early_answer_reaches_who_reads_last() {
    let origin = Origin::http(|_| async {
        http::Response::builder()
            .status(StatusCode::UNAUTHORIZED)
            .body(full("who are you"))
            .unwrap()
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let stream = lab.connect(Way::to("api.test", 80)).await;
    let answer = send_then_read(stream, "/", Length::Announced).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert!(answer.ends_with("who are you"), "{answer}");
}

#[tokio::test]
async fn an_endless_header_section_is_told_so_to_who_reads_last() {
    let (lab, _origins) = taking(ALLOW_API).await;
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    let line = format!("x: {}\r\n", "y".repeat(8000));
    stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    for _ in 0..BODY / line.len() {
        stream.write_all(line.as_bytes()).await.unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn lingering_ends_when_nothing_more_comes() {
    let (lab, _origins) = taking(OPEN_ONLY).await;
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    let head = b"POST /shut HTTP/1.1\r\nHost: api.test\r\nContent-Length: 10\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    // The program neither sends nor closes: its place is given up all the same.
    let most = lab.worker.deadlines().linger.whole + Duration::from_secs(1);
    lab.tasks.close();
    tokio::time::timeout(most, lab.tasks.wait())
        .await
        .expect("the connection is given up");
}

#[tokio::test]
async fn an_http2_stream_is_answered_ended_and_then_reset_without_an_error() {
    let (lab, _origins) = taking(OPEN_ONLY).await;
    let stream = lab.connect(Way::to("api.test", 443)).await;
    let mut stream = lab.tls(stream, "api.test", &["h2"]).await.unwrap();
    let mut octets = h2::preface();
    let block = h2::block("/shut");
    octets.extend(h2::frame(h2::HEADERS, h2::END_HEADERS, 1, &block));
    octets.extend(h2::frame(h2::DATA, 0, 1, &[b'x'; 10_000]));
    stream.write_all(&octets).await.unwrap();
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some((h2::RST_STREAM, _, _))) {
        let (kind, flags, id, payload) = h2::read_frame(&mut stream).await.unwrap();
        if id == 1 {
            seen.push((kind, flags & h2::END_STREAM, payload));
        }
    }
    let kinds: Vec<_> = seen.iter().map(|(kind, end, _)| (*kind, *end)).collect();
    assert_eq!(
        kinds,
        [(h2::HEADERS, 0), (h2::DATA, 1), (h2::RST_STREAM, 0)],
        "{seen:?}"
    );
    // RFC 9113 §8.1: NO_ERROR, so that the answer is not thrown away.
    assert_eq!(seen[2].2, [0, 0, 0, 0]);
}

#[tokio::test]
async fn an_http2_connection_goes_on_after_a_refused_upload() {
    let (lab, _origins) = taking(OPEN_ONLY).await;
    let mut client = lab.https("api.test", "h2").await;
    for _ in 0..3 {
        let request = Request::post("https://api.test/shut")
            .body(full(vec![b'x'; 8 * 1024 * 1024]))
            .unwrap();
        let answer = client.send(request).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert_eq!(answer.json()["reason"], "path_not_allowed");
        let answer = client.send(get("https://api.test/open")).await;
        assert_eq!(answer.body, "taken");
    }
}

#[tokio::test]
async fn what_is_in_a_tunnel_is_not_thrown_away_when_the_origin_is_done() {
    let origin = Origin::raw(|mut stream, seen| async move {
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("GET /"), "{head}");
        let answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\
            Upgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nbye";
        stream.write_all(answer).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.ok();
        seen.octets.lock().extend(rest);
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    let handshake = b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(handshake).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 101"));
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"bye");
    // The origin's half is closed, ours is not.
    stream.write_all(b"last words").await.unwrap();
    stream.shutdown().await.unwrap();
    origin.seen.until_text("last words").await;
}

#[tokio::test]
async fn a_whole_request_that_is_denied_leaves_the_connection_usable() {
    let (lab, _origins) = taking(OPEN_ONLY).await;
    let mut client = lab.http("api.test").await;
    for path in ["/shut", "/open", "/shut"] {
        let request = Request::get(path)
            .header("host", "api.test")
            .body(empty())
            .unwrap();
        let answer = client.send(request).await;
        assert_eq!(answer.status == StatusCode::OK, path == "/open");
        assert_eq!(answer.header("connection"), "");
    }
}
