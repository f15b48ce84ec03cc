//! An origin that gives back what it was given, in every way: inside nobody ever sees the value.

use std::{io::Write, sync::Arc};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use bytes::{BufMut, Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};
use gig_audit::Event;
use gig_policy::{Policy, SandboxId, SecretName};
use gig_vault::{
    Guarded, GuardedValue, Keeper, Part, Secret, SecretBytes, SecretFuture, SecretUnavailable,
    Shape, Treatment,
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use tokio::sync::mpsc;

use super::lab::{
    Arrangement, Lab,
    client::{Answer, Body, empty, full},
    origin::Origin,
};
use crate::{Subject, credential::Border};

mod lengths;
mod messages;
mod pieces;
mod streams;
mod undone;

pub(super) const VALUE: &str = "real+Value/of=the&secret";

const POLICY: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [80, 443], allow_private: [127.0.0.0/8], secrets: [TOKEN]}
  - {host: other.test, ports: [80, 443], allow_private: [127.0.0.0/8]}
";

#[derive(Debug)]
struct OneSecret {
    secret: Arc<Secret>,
    guarded: Arc<Guarded>,
}

impl Keeper for OneSecret {
    fn at_hand(&self, name: &SecretName) -> Option<Arc<Secret>> {
        (*name == self.secret.name).then(|| Arc::clone(&self.secret))
    }

    fn current<'a>(&'a self, name: &'a SecretName) -> SecretFuture<'a> {
        let found = self.at_hand(name);
        let unknown = || SecretUnavailable::Unknown { name: name.clone() };
        Box::pin(async move { found.ok_or_else(unknown) })
    }

    fn guarded(&self) -> Arc<Guarded> {
        Arc::clone(&self.guarded)
    }
}

/// A lab whose sandbox holds a sentinel, and the sentinel.
pub(super) fn with_secret(arrangement: Arrangement<'_>) -> (Lab, String) {
    let mut lab = arrangement.lab();
    let name: SecretName = "TOKEN".parse().unwrap();
    let value = |text: &str| SecretBytes::new(text.as_bytes().to_vec());
    let secret = Arc::new(Secret {
        name: name.clone(),
        version: 1,
        parts: vec![Part {
            variable: "TOKEN".into(),
            value: value(VALUE),
            shape: Shape::Plain,
        }],
        treatment: Treatment::Replace,
        entrusted: false,
    });
    let guarded = Arc::new(Guarded {
        generation: 1,
        values: vec![GuardedValue {
            name,
            version: 1,
            part: Some(0),
            value: Arc::new(value(VALUE)),
            current: true,
        }],
    });
    let border = Border::new(Arc::new(OneSecret {
        secret: Arc::clone(&secret),
        guarded,
    }));
    let id = SandboxId::new(uuid::Uuid::from_u128(8));
    let wallet = border.wallet(id);
    wallet.hold(&secret).unwrap();
    let sentinel = wallet.held()[0].sentinel.to_string();
    let ends = ([127, 0, 0, 1].into(), [127, 0, 0, 1].into());
    let policy = Policy::compile(POLICY, "test").unwrap();
    lab.subject = Subject::with_wallet(id, ends, policy, Some(wallet));
    (lab, sentinel)
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(plain).unwrap();
    to.finish().unwrap()
}

/// What HTTP calls deflate (RFC 9110 §8.4.1.2).
fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast());
    to.write_all(plain).unwrap();
    to.finish().unwrap()
}

/// As it is, in one block (RFC 7932 §9.2): there is nothing here that compresses so.
fn brotli(plain: &[u8]) -> Vec<u8> {
    let length = u32::try_from(plain.len() - 1).unwrap();
    assert!(length < 1 << 16);
    let [one, two, three, _] = (length << 4 | 1 << 20).to_le_bytes();
    [&[one, two, three], plain, &[3]].concat()
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    let mut to = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
    zstd_safe::compress(&mut to, plain, 1).unwrap();
    to
}

/// In frames of `size` octets, and with trailers.
fn chunked(octets: &[u8], size: usize, trailers: Option<HeaderMap>) -> Body {
    let data = octets.chunks(size).map(Bytes::copy_from_slice);
    let frames: Vec<_> = data
        .map(Frame::data)
        .chain(trailers.map(Frame::trailers))
        .map(Ok)
        .collect();
    StreamBody::new(futures_util::stream::iter(frames)).boxed()
}

/// Gives back the token of `Authorization`, in the way that the path says.
async fn reflect(request: Request<Incoming>) -> Response<Body> {
    let given = request.headers().get(header::AUTHORIZATION);
    let token = given.map_or("", |given| given.to_str().unwrap()).to_owned();
    let token = token.trim_start_matches("Bearer ");
    assert!(token.is_empty() || token == VALUE, "{token}");
    let json = format!(
        "{{\"token\": \"{token}\", \"more\": \"{}\"}}",
        "x".repeat(300)
    );
    let mut answer = Response::new(empty());
    let headers = answer.headers_mut();
    let json_type = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json_type);
    headers.insert(header::ETAG, HeaderValue::from_static("\"tag\""));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert("x-amz-checksum-crc32", HeaderValue::from_static("AAAAAA=="));
    let coded = |headers: &mut HeaderMap, coding: &str| {
        headers.insert(header::CONTENT_ENCODING, coding.parse().unwrap());
    };
    let body = match request.uri().path() {
        "/headers" => {
            headers.insert("x-token", token.parse().unwrap());
            let basic = STANDARD.encode(format!("user:{token}"));
            headers.insert(
                "www-authenticate",
                format!("Basic {basic}").parse().unwrap(),
            );
            headers.append("set-cookie", "a=1".parse().unwrap());
            headers.append("set-cookie", format!("t={token}").parse().unwrap());
            let escaped: String = token.bytes().map(|b| format!("%{b:02x}")).collect();
            headers.insert("location", format!("/?t={escaped}").parse().unwrap());
            empty()
        }
        "/plain" => full(json),
        "/chunks" => chunked(json.as_bytes(), 3, None),
        "/long" => full(json.repeat(400)),
        "/binary" => {
            let binary = HeaderValue::from_static("application/octet-stream");
            headers.insert(header::CONTENT_TYPE, binary);
            full(json)
        }
        "/trailers" => with_trailers(headers, token, json.as_bytes()),
        "/gzip" => {
            coded(headers, "gzip");
            chunked(&gzip(json.as_bytes()), 11, None)
        }
        "/packed" => {
            coded(headers, "gzip");
            let binary = HeaderValue::from_static("application/octet-stream");
            headers.insert(header::CONTENT_TYPE, binary);
            full(gzip(json.as_bytes()))
        }
        "/zstd" => {
            coded(headers, "zstd");
            full(zstd(json.as_bytes()))
        }
        "/both" => {
            coded(headers, "gzip, zstd");
            full(zstd(&gzip(json.as_bytes())))
        }
        "/unknown" => {
            coded(headers, "compress");
            full("whatever")
        }
        "/range" => {
            assert!(request.headers().get(header::RANGE).is_none());
            full(json)
        }
        "/status" => with_status(token),
        "/grpc" | "/grpc-gzip" => grpc(headers, request.uri().path(), json.as_bytes()),
        path => {
            let (coding, body) = undone::body(path, &json);
            coded(headers, &coding);
            full(body)
        }
    };
    *answer.body_mut() = body;
    std::future::ready(answer).await
}

/// A body with the token, and a trailer section with it and a digest.
fn with_trailers(headers: &mut HeaderMap, token: &str, body: &[u8]) -> Body {
    let field = header::HeaderName::from_static;
    let trailers = HeaderMap::from_iter([
        (field("x-token"), HeaderValue::from_str(token).unwrap()),
        (
            field("content-digest"),
            HeaderValue::from_static("md5=:AA==:"),
        ),
    ]);
    let named = HeaderValue::from_static("x-token, content-digest");
    headers.insert(header::TRAILER, named);
    chunked(body, 5, Some(trailers))
}

/// gRPC's binary details of a status, which hold the token.
fn with_status(token: &str) -> Body {
    let message = [
        &[8, 16, 18, u8::try_from(token.len()).unwrap()],
        token.as_bytes(),
    ];
    let details = STANDARD_NO_PAD.encode(message.concat());
    let trailers = HeaderMap::from_iter([(
        header::HeaderName::from_static("grpc-status-details-bin"),
        HeaderValue::from_str(&details).unwrap(),
    )]);
    chunked(b"", 7, Some(trailers))
}

fn grpc(headers: &mut HeaderMap, path: &str, message: &[u8]) -> Body {
    let kind = HeaderValue::from_static("application/grpc");
    headers.insert(header::CONTENT_TYPE, kind);
    let compressed = path == "/grpc-gzip";
    let message = if compressed {
        headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
        gzip(message)
    } else {
        message.to_vec()
    };
    let mut octets = BytesMut::new();
    for _ in 0..2 {
        octets.put_u8(u8::from(compressed));
        octets.put_u32(u32::try_from(message.len()).unwrap());
        octets.put_slice(&message);
    }
    chunked(&octets, 7, None)
}

async fn lab(alpn: &str) -> (Lab, String, Origin) {
    let origin = Origin::https("api.test", &[alpn], reflect).await;
    let (lab, sentinel) = with_secret(Arrangement::new(POLICY).origin("api.test:443", &origin));
    (lab, sentinel, origin)
}

fn ask(path: &str, sentinel: &str, more: &[(&'static str, &str)]) -> Request<Body> {
    let mut request = Request::get(format!("https://api.test{path}"))
        .header("host", "api.test")
        .header("authorization", format!("Bearer {sentinel}"));
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    request.body(empty()).unwrap()
}

/// The value is nowhere in an answer, and the sentinel is.
#[track_caller]
fn assert_scrubbed(answer: &Answer, sentinel: &str) -> String {
    let shown = format!("{:?} {:?}", answer.headers, answer.trailers);
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(
        !shown.contains(VALUE) && !body.contains(VALUE),
        "{shown} {body}"
    );
    assert!(
        shown.contains(sentinel) || body.contains(sentinel),
        "{shown} {body}"
    );
    body
}

#[tokio::test]
async fn a_value_in_any_header_field_comes_back_as_its_sentinel() {
    for alpn in ["http/1.1", "h2"] {
        let (lab, sentinel, _origin) = lab(alpn).await;
        let mut client = lab.https("api.test", alpn).await;
        let answer = client.send(ask("/headers", &sentinel, &[])).await;
        assert_scrubbed(&answer, &sentinel);
        assert_eq!(answer.header("x-token"), sentinel);
        let basic = STANDARD.encode(format!("user:{sentinel}"));
        assert_eq!(answer.header("www-authenticate"), format!("Basic {basic}"));
        assert_eq!(answer.header("location"), format!("/?t={sentinel}"));
        let cookies = answer.headers.get_all("set-cookie").iter().count();
        assert_eq!(cookies, 2);
        let records = lab.until_records(Event::Response, 1).await;
        let findings = format!("{:?}", records[0].entry.findings);
        assert!(
            findings.contains("value of TOKEN came back in a header"),
            "{findings}"
        );
    }
}

#[tokio::test]
async fn a_value_in_a_body_comes_back_as_its_sentinel_however_it_is_sent() {
    for alpn in ["http/1.1", "h2"] {
        let (lab, sentinel, _origin) = lab(alpn).await;
        let mut client = lab.https("api.test", alpn).await;
        let paths = ["/plain", "/chunks", "/trailers", "/gzip", "/zstd", "/both"];
        for path in paths {
            let accepts = [("accept-encoding", "gzip, zstd, br")];
            let te = [("te", "trailers"), accepts[0]];
            let answer = client.send(ask(path, &sentinel, &te)).await;
            let body = assert_scrubbed(&answer, &sentinel);
            let json = body.get(..body.find('}').unwrap() + 1).unwrap();
            let json: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(json["token"], sentinel, "{path}");
            assert_eq!(answer.header("content-encoding"), "", "{path}");
            assert_eq!(answer.header("etag"), "W/\"tag\"", "{path}");
            assert_eq!(answer.header("x-amz-checksum-crc32"), "", "{path}");
            match path {
                "/plain" => assert_eq!(answer.header("content-length"), body.len().to_string()),
                "/trailers" => {
                    let trailers = answer.trailers.as_ref().unwrap();
                    assert_eq!(trailers["x-token"], sentinel.as_str());
                    assert!(!trailers.contains_key("content-digest"), "{trailers:?}");
                }
                _ => {}
            }
        }
        let records = lab.until_records(Event::Response, paths.len()).await;
        for record in records {
            assert_eq!(record.entry.status, Some(200));
            let findings = format!("{:?}", record.entry.findings);
            assert!(
                findings.contains("value of TOKEN came back in the body"),
                "{findings}"
            );
        }
    }
}

#[tokio::test]
async fn what_was_not_changed_keeps_its_strong_tag() {
    let (lab, _sentinel, _origin) = lab("http/1.1").await;
    let mut client = lab.https("api.test", "http/1.1").await;
    let mut request = ask("/plain", "", &[]);
    request.headers_mut().remove("authorization");
    let answer = client.send(request).await;
    assert_eq!(answer.header("etag"), "\"tag\"");
    // What the host has may be of a request that carried the value.
    assert_eq!(answer.header("x-amz-checksum-crc32"), "");
}

#[tokio::test]
async fn what_cannot_be_looked_into_does_not_come_back_from_where_a_secret_is_bound() {
    let (lab, sentinel, _origin) = lab("http/1.1").await;
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(ask("/unknown", &sentinel, &[])).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert_eq!(answer.json()["reason"], "origin_protocol");
    // Coded though nobody asked for it, and no text: passed as it came as long as it holds no value, and here it does.
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(ask("/packed", &sentinel, &[])).await;
    assert_eq!(answer.json()["reason"], "origin_protocol");
    let hint = answer.json()["hint"].to_string();
    assert!(hint.contains("was not asked for and hides one"), "{hint}");
}

#[tokio::test]
async fn short_text_in_a_coding_that_nobody_asked_for_goes_on_plain_where_it_holds_a_value() {
    for alpn in ["http/1.1", "h2"] {
        let (lab, sentinel, _origin) = lab(alpn).await;
        let mut client = lab.https("api.test", alpn).await;
        for path in ["/zstd", "/both"] {
            let answer = client.send(ask(path, &sentinel, &[])).await;
            assert_scrubbed(&answer, &sentinel);
            assert_eq!(answer.header("content-encoding"), "", "{path}");
            assert_eq!(answer.header("vary"), "accept-encoding", "{path}");
            let length = answer.body.len().to_string();
            assert_eq!(answer.header("content-length"), length, "{path}");
            let mut harmless = ask(path, "", &[]);
            harmless.headers_mut().remove("authorization");
            let answer = client.send(harmless).await;
            assert_ne!(answer.header("content-encoding"), "", "{path}");
        }
    }
}

#[tokio::test]
async fn a_coded_body_that_nobody_asked_for_passes_as_it_is() {
    let (lab, _sentinel, _origin) = lab("http/1.1").await;
    let mut client = lab.https("api.test", "http/1.1").await;
    let mut request = ask("/gzip", "", &[]);
    request.headers_mut().remove("authorization");
    let answer = client.send(request).await;
    assert_eq!(answer.header("content-encoding"), "gzip");
    assert_eq!(answer.header("etag"), "\"tag\"");
    let json = format!("{{\"token\": \"\", \"more\": \"{}\"}}", "x".repeat(300));
    assert_eq!(answer.body, gzip(json.as_bytes()));
}

#[tokio::test]
async fn a_request_with_a_value_asks_for_no_range_and_for_no_unknown_coding() {
    let (lab, sentinel, origin) = lab("http/1.1").await;
    let mut client = lab.https("api.test", "http/1.1").await;
    let fields = [
        ("range", "bytes=0-9"),
        ("accept-encoding", "compress, gzip"),
        ("if-match", "W/\"tag\", W/\"theirs\""),
        ("if-none-match", "W/\"tag\""),
        ("if-modified-since", "Mon, 23 Nov 2026 03:00:00 GMT"),
    ];
    // What is strong at the origin is shown as weak, and goes back as it was.
    let shown = client.send(ask("/plain", &sentinel, &[])).await;
    assert_eq!(shown.header("etag"), "W/\"tag\"");
    let answer = client.send(ask("/range", &sentinel, &fields)).await;
    assert_scrubbed(&answer, &sentinel);
    assert_eq!(answer.header("accept-ranges"), "");
    let seen = origin.seen.requests();
    assert_eq!(seen[1].headers["accept-encoding"], "gzip");
    assert_eq!(seen[1].headers["if-match"], "\"tag\", W/\"theirs\"");
    // Another sandbox's copy of it holds another sentinel.
    assert!(!seen[1].headers.contains_key("if-none-match"));
    assert!(!seen[1].headers.contains_key("if-modified-since"));
}

#[tokio::test]
async fn early_hints_lose_values_too() {
    let (sender, mut told) = mpsc::channel::<()>(1);
    let sender = Arc::new(sender);
    let origin = Origin::raw(move |mut stream, _| {
        let sender = Arc::clone(&sender);
        async move {
            use tokio::io::AsyncWriteExt;
            let head = super::lab::client::read_head(&mut stream).await;
            assert!(head.starts_with("GET /"), "{head}");
            let hint = format!("HTTP/1.1 103 Early Hints\r\nlink: </{VALUE}>\r\n\r\n");
            stream.write_all(hint.as_bytes()).await.unwrap();
            sender.closed().await;
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await
                .unwrap();
        }
    })
    .await;
    let (lab, sentinel) = with_secret(Arrangement::new(POLICY).origin("api.test:80", &origin));
    let mut stream = lab.connect(super::lab::Way::to("api.test", 80)).await;
    let request = b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, request)
        .await
        .unwrap();
    let hint = super::lab::client::read_head(&mut stream).await;
    assert!(hint.starts_with("HTTP/1.1 103"), "{hint}");
    assert!(hint.contains(&sentinel) && !hint.contains(VALUE), "{hint}");
    told.close();
    let answer = super::lab::client::read_head(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
