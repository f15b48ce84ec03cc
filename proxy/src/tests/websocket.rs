//! WebSocket over HTTP/1.1 and HTTP/2; a refused upgrade leaves no raw pipe.

use bytes::Bytes;
use gig_audit::Event;
use gig_policy::DenyReason;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::{body::Incoming, ext::Protocol};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::lab::{
    ALLOW_API, Arrangement, Way,
    client::{Body, Client, empty, read_head},
    origin::{Origin, switching},
};

/// Accepts, then echoes octets.
async fn accepting() -> Origin {
    Origin::https(
        "api.test",
        &["http/1.1"],
        |mut request: Request<Incoming>| async move {
            assert_eq!(request.headers()["upgrade"], "websocket");
            assert_eq!(request.method(), "GET");
            assert!(request.headers().contains_key("sec-websocket-key"));
            let upgrade = hyper::upgrade::on(&mut request);
            let tasks = tokio_util::task::TaskTracker::new();
            tasks.spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                let mut octets = [0; 100];
                while let Ok(n @ 1..) = stream.read(&mut octets).await {
                    stream.write_all(&octets[..n]).await.unwrap();
                }
            });
            switching()
        },
    )
    .await
}

fn handshake(host: &str) -> Request<Body> {
    Request::get("/socket")
        .header("host", host)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .body(empty())
        .unwrap()
}

#[tokio::test]
async fn octets_pass_both_ways_after_an_accepted_upgrade() {
    let origin = accepting().await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    let mut client = lab.https("api.test", "http/1.1").await;
    let mut response = client.start(handshake("api.test")).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(response.headers()["upgrade"], "websocket");
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    pass_octets(&mut stream).await;
    drop(stream);
    let response = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(response.entry.status, Some(101));
    assert_eq!(response.entry.bytes_out, Some(5));
    assert_eq!(response.entry.bytes_in, Some(5));
    assert_eq!(
        lab.records(Event::Request)[0].entry.path.as_deref(),
        Some("/socket")
    );
}

#[tokio::test]
async fn extended_connect_becomes_an_upgrade_at_an_http1_origin() {
    let origin = accepting().await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    let mut client = lab.https("api.test", "h2").await;
    let mut response = client
        .start(extended("https://api.test/socket"))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    pass_octets(&mut stream).await;
    // The origin's connection keeps its place for as long as it is open.
    assert_eq!(lab.subject.places().taken(), 1);
    let request = lab.records(Event::Request).remove(0);
    assert_eq!(request.entry.method.as_deref(), Some("GET"));
}

fn extended(uri: &str) -> Request<Body> {
    let mut request = Request::connect(uri)
        .header("sec-websocket-version", "13")
        .body(empty())
        .unwrap();
    request
        .extensions_mut()
        .insert(Protocol::from_static("websocket"));
    request
}

async fn pass_octets(stream: &mut TokioIo<hyper::upgrade::Upgraded>) {
    stream.write_all(b"hello").await.unwrap();
    stream.flush().await.unwrap();
    let mut octets = [0; 5];
    stream.read_exact(&mut octets).await.unwrap();
    assert_eq!(&octets, b"hello");
}

/// Speaks nothing but HTTP/2, and accepts extended CONNECT.
async fn accepting_http2(status: StatusCode) -> Origin {
    Origin::https(
        "api.test",
        &["h2"],
        move |mut request: Request<Incoming>| async move {
            assert_eq!(request.method(), "CONNECT");
            let protocol = request.extensions().get::<Protocol>().unwrap();
            assert_eq!(protocol.as_str(), "websocket");
            assert_eq!(request.uri().path(), "/socket");
            assert_eq!(request.headers()["sec-websocket-version"], "13");
            for field in ["sec-websocket-key", "upgrade", "connection"] {
                assert!(!request.headers().contains_key(field), "{field}");
            }
            let upgrade = hyper::upgrade::on(&mut request);
            let tasks = tokio_util::task::TaskTracker::new();
            tasks.spawn(async move {
                let Ok(upgraded) = upgrade.await else { return };
                let mut stream = TokioIo::new(upgraded);
                let mut octets = [0; 100];
                while let Ok(n @ 1..) = stream.read(&mut octets).await {
                    stream.write_all(&octets[..n]).await.unwrap();
                }
            });
            Response::builder().status(status).body(empty()).unwrap()
        },
    )
    .await
}

#[tokio::test]
async fn an_origin_that_speaks_http2_alone_is_asked_by_extended_connect() {
    for alpn in ["http/1.1", "h2"] {
        let origin = accepting_http2(StatusCode::OK).await;
        let lab = Arrangement::new(ALLOW_API)
            .origin("api.test:443", &origin)
            .lab();
        // The second time its connection is known and shared.
        for round in 1..3 {
            let mut client = lab.https("api.test", alpn).await;
            let request = if alpn == "h2" {
                extended("https://api.test/socket")
            } else {
                handshake("api.test")
            };
            let mut response = client.start(request).await.unwrap();
            if alpn == "h2" {
                assert_eq!(response.status(), StatusCode::OK);
            } else {
                assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
                // The example of RFC 6455 §1.3.
                let proof = &response.headers()["sec-websocket-accept"];
                assert_eq!(proof, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
            }
            let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
            pass_octets(&mut stream).await;
            drop(stream);
            let responses = lab.until_records(Event::Response, round).await;
            assert_eq!(responses.last().unwrap().entry.bytes_out, Some(5));
        }
    }
}

#[tokio::test]
async fn an_http2_origin_that_refuses_leaves_no_raw_pipe() {
    let origin = accepting_http2(StatusCode::FORBIDDEN).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    let stream = lab.connect(Way::to("api.test", 443)).await;
    let mut stream = lab.tls(stream, "api.test", &["http/1.1"]).await.unwrap();
    stream
        .write_all(
            b"GET /socket HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
              Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n\x81\x05raw!!\r\n\r\n",
        )
        .await
        .unwrap();
    let mut answer = Vec::new();
    // hyper ends a connection on which an upgrade was refused without TLS's farewell.
    stream.read_to_end(&mut answer).await.ok();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    // What was written on is no request: it is refused as such.
    assert!(answer.contains("HTTP/1.1 400 "), "{answer}");
    assert_eq!(origin.seen.requests().len(), 1);
}

#[tokio::test]
async fn an_http2_origin_without_extended_connect_is_told_as_502() {
    for alpn in ["http/1.1", "h2"] {
        let origin = Origin::tls("api.test", &["h2"], |stream, seen| async move {
            let mut connection = ::h2::server::handshake(stream).await.unwrap();
            while let Some(Ok(_)) = connection.accept().await {
                seen.octets.lock().extend(b"a request");
            }
        })
        .await;
        let lab = Arrangement::new(ALLOW_API)
            .origin("api.test:443", &origin)
            .lab();
        let mut client = lab.https("api.test", alpn).await;
        let request = if alpn == "h2" {
            extended("https://api.test/socket")
        } else {
            handshake("api.test")
        };
        let response = client.start(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
        let body = response.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(
            body.contains("origin_protocol") && body.contains("RFC 8441"),
            "{body}"
        );
        assert_eq!(origin.seen.text(), "");
    }
}

#[tokio::test]
async fn a_plain_answer_to_an_extended_connect_accepts_nothing() {
    // It understood a GET: to a CONNECT its 200 would open a tunnel.
    let plain = |_| async { Response::new(super::lab::client::full("plain")) };
    let http1 = Origin::https("api.test", &["http/1.1"], plain).await;
    for origin in [http1, accepting_http2(StatusCode::CREATED).await] {
        let lab = Arrangement::new(ALLOW_API)
            .origin("api.test:443", &origin)
            .lab();
        let mut client = lab.https("api.test", "h2").await;
        let asked = client.start(extended("https://api.test/socket")).await;
        let response = asked.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
        let body = response.collect().await.unwrap().to_bytes();
        let told: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(told["reason"], "origin_protocol");
        let record = lab.until_records(Event::Response, 1).await.remove(0);
        assert_eq!(record.entry.reason, Some(DenyReason::OriginProtocol));
        assert_eq!(record.entry.status, Some(502));
    }
}

#[tokio::test]
async fn a_refused_connect_is_told_as_refused_to_who_says_it_speaks_grpc() {
    let origin = accepting().await;
    let lab = Arrangement::new("version: 1\negress: []\n")
        .origin("api.test:443", &origin)
        .lab();
    let mut client = lab.https("api.test", "h2").await;
    let mut asked = extended("https://api.test/socket");
    let grpc = http::HeaderValue::from_static("application/grpc");
    asked.headers_mut().insert("content-type", grpc);
    let response = client.start(asked).await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert_eq!(origin.seen.connections(), 0);
    lab.assert_denied_once(DenyReason::HostNotAllowed);
}

/// Who says 101 and did not understand the handshake reads what follows as requests, which nobody decided on.
#[tokio::test]
async fn an_acceptance_without_the_handshakes_proof_opens_nothing() {
    let narrow = "
version: 1
name: test
egress:
  - {host: api.test, ports: [80], allow_private: [127.0.0.0/8], rules: [{methods: [GET], paths: [/socket]}]}
";
    for accept in [
        "",
        "Sec-WebSocket-Accept: x\r\n",
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Accept: x\r\n",
    ] {
        let origin = Origin::raw(move |mut stream, seen| async move {
            let head = read_head(&mut stream).await;
            seen.octets.lock().extend(head.as_bytes());
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n{accept}\r\n"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.ok();
            seen.octets.lock().extend(rest);
        })
        .await;
        let lab = Arrangement::new(narrow)
            .origin("api.test:80", &origin)
            .lab();
        let mut stream = lab.connect(Way::to("api.test", 80)).await;
        stream.write_all(HANDSHAKE).await.unwrap();
        let answer = read_head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
        stream
            .write_all(b"DELETE /hidden HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
            .await
            .ok();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.ok();
        lab.subject.close().await;
        let seen = origin.seen.text();
        assert!(seen.starts_with("GET /socket"), "{seen}");
        assert!(!seen.contains("hidden"), "{seen}");
        let outcome = lab.until_records(Event::Response, 1).await.remove(0);
        assert_eq!(outcome.entry.reason, Some(DenyReason::OriginProtocol));
    }
}

/// RFC 6455 §4.2.1: another version, and a key that is none, are no handshake that an origin could prove.
#[tokio::test]
async fn a_handshake_of_no_known_kind_goes_nowhere() {
    let origin = accepting().await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    for (name, value) in [
        ("sec-websocket-version", "777"),
        ("sec-websocket-key", "x"),
        ("sec-websocket-key", "c2hvcnQ="),
    ] {
        let mut client = lab.https("api.test", "http/1.1").await;
        let mut request = handshake("api.test");
        let value = http::HeaderValue::from_static(value);
        request.headers_mut().insert(name, value);
        let response = client.start(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }
    assert_eq!(origin.seen.requests().len(), 0);
}

/// The example of RFC 6455 §1.3.
const HANDSHAKE: &[u8] = b"GET /socket HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

#[tokio::test]
async fn a_refused_upgrade_leaves_no_raw_pipe() {
    let origin = Origin::raw(|mut stream, seen| async move {
        let head = read_head(&mut stream).await;
        seen.octets.lock().extend(head.as_bytes());
        stream
            .write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno")
            .await
            .unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.ok();
        seen.octets.lock().extend(rest);
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    stream.write_all(HANDSHAKE).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 403"));
    let mut body = [0; 2];
    stream.read_exact(&mut body).await.unwrap();
    // Written on: raw octets, and a smuggled request for another host.
    stream.write_all(b"\x81\x05raw!!").await.ok();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        .await
        .ok();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.ok();
    lab.subject.close().await;
    let seen = origin.seen.text();
    assert!(!seen.contains("raw!!") && !seen.contains("evil"), "{seen}");
}

#[tokio::test]
async fn a_denied_upgrade_never_reaches_the_origin() {
    let policy = "
version: 1
egress:
  - host: api.test
    allow_private: [127.0.0.0/8]
    rules: [{paths: [/open]}]
";
    for alpn in ["http/1.1", "h2"] {
        let origin = accepting().await;
        let lab = Arrangement::new(policy)
            .origin("api.test:443", &origin)
            .lab();
        let mut client: Client = lab.https("api.test", alpn).await;
        let request = if alpn == "h2" {
            extended("https://api.test/socket")
        } else {
            handshake("api.test")
        };
        let response = client.start(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        assert_eq!(origin.seen.connections(), 0);
        lab.assert_denied_once(DenyReason::PathNotAllowed);
    }
}

#[tokio::test]
async fn a_policy_change_cuts_an_open_websocket() {
    let other_path =
        "egress: [{host: api.test, allow_private: [127.0.0.0/8], rules: [{paths: [/other]}]}]";
    let other_address = "egress: [{host: api.test}]";
    for (http2, changed) in [
        (false, other_path),
        (false, other_address),
        (true, other_path),
        (true, other_address),
    ] {
        let origin = match http2 {
            true => accepting_http2(StatusCode::OK).await,
            false => accepting().await,
        };
        let lab = Arrangement::new(ALLOW_API)
            .origin("api.test:443", &origin)
            .lab();
        let mut client = lab.https("api.test", "http/1.1").await;
        let mut response = client.start(handshake("api.test")).await.unwrap();
        let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
        pass_octets(&mut stream).await;
        lab.subject
            .set_policy(gig_policy::Policy::compile(changed, "changed").unwrap());
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(
            std::time::Duration::from_secs(60),
            stream.read_to_end(&mut rest),
        );
        assert!(ended.await.is_ok(), "cut");
        let response = lab.until_records(Event::Response, 1).await.remove(0);
        let why = response.entry.reason;
        assert_eq!(why, Some(DenyReason::Revoked), "{http2} {changed}");
    }
}

#[tokio::test]
async fn another_upgrade_is_sent_on_as_a_plain_request() {
    let origin = Origin::http(|request: Request<Incoming>| async move {
        assert!(!request.headers().contains_key("upgrade"));
        Response::new(super::lab::client::full(Bytes::from_static(b"plain")))
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut client = lab.http("api.test").await;
    let request = Request::get("/")
        .header("host", "api.test")
        .header("connection", "Upgrade, HTTP2-Settings")
        .header("upgrade", "h2c")
        .header("http2-settings", "AAMAAABkAAQAAP__")
        .body(empty())
        .unwrap();
    let response = client.start(request).await.unwrap();
    assert_eq!(response.collect().await.unwrap().to_bytes(), "plain");
}
