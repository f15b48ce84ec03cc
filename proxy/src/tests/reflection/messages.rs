//! WebSocket messages, gRPC messages and coded request bodies: the value goes, the sentinel comes back.

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::tests::lab::origin::switching;

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;

/// A short frame, masked where a key is given.
fn frame(kind: u8, mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    assert!(length < 126);
    let masked = if mask.is_some() { 0x80 } else { 0 };
    let mut octets = vec![kind, masked | length];
    octets.extend(mask.iter().flatten());
    let key = mask.unwrap_or_default();
    octets.extend(payload.iter().zip(key.iter().cycle()).map(|(o, k)| o ^ k));
    octets
}

/// The next short frame: its first octet, whether it was masked, its payload.
async fn read_frame<S: AsyncRead + Unpin>(stream: &mut S) -> (u8, bool, Vec<u8>) {
    let kind = stream.read_u8().await.unwrap();
    let length = stream.read_u8().await.unwrap();
    let mut key = [0; 4];
    if length & 0x80 != 0 {
        stream.read_exact(&mut key).await.unwrap();
    }
    let mut payload = vec![0; usize::from(length & 0x7f)];
    stream.read_exact(&mut payload).await.unwrap();
    for (octet, mask) in payload.iter_mut().zip(key.iter().cycle()) {
        *octet ^= mask;
    }
    (kind, length & 0x80 != 0, payload)
}

#[tokio::test]
async fn websocket_messages_carry_the_value_out_and_the_sentinel_back() {
    let origin = Origin::https("api.test", &["http/1.1"], |mut request| async move {
        assert!(!request.headers().contains_key("sec-websocket-extensions"));
        let upgrade = hyper::upgrade::on(&mut request);
        let tasks = tokio_util::task::TaskTracker::new();
        tasks.spawn(async move {
            let mut stream = TokioIo::new(upgrade.await.unwrap());
            for _ in 0..2 {
                let (kind, masked, payload) = read_frame(&mut stream).await;
                assert!(masked);
                assert_eq!(payload, format!("{{\"auth\": \"{VALUE}\"}}").as_bytes());
                let echo = frame(kind, None, &payload);
                stream.write_all(&echo).await.unwrap();
            }
            // A length before it is none of a text's.
            let opaque = format!("\u{11}{VALUE}");
            let opaque = frame(BINARY, None, opaque.as_bytes());
            stream.write_all(&opaque).await.unwrap();
        });
        switching()
    })
    .await;
    let (lab, sentinel) = with_secret(Arrangement::new(POLICY).origin("api.test:443", &origin));
    let mut client = lab.https("api.test", "http/1.1").await;
    let handshake = Request::get("/socket")
        .header("host", "api.test")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("sec-websocket-extensions", "permessage-deflate")
        .body(empty())
        .unwrap();
    let response = client.start(handshake).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut stream = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    let message = format!("{{\"auth\": \"{sentinel}\"}}");
    for kind in [TEXT, BINARY] {
        let sent = frame(kind, Some([1, 2, 3, 4]), message.as_bytes());
        // In pieces, as the network may cut it.
        for piece in sent.chunks(5) {
            stream.write_all(piece).await.unwrap();
            stream.flush().await.unwrap();
        }
        let (echoed, masked, payload) = read_frame(&mut stream).await;
        assert_eq!((echoed, masked), (kind, false));
        assert_eq!(String::from_utf8(payload).unwrap(), message);
    }
    let (kind, _, payload) = read_frame(&mut stream).await;
    let cut = sentinel.get(..VALUE.len()).unwrap();
    assert_eq!(kind, BINARY);
    assert_eq!(String::from_utf8(payload).unwrap(), format!("\u{11}{cut}"));
    drop(stream);
    let records = lab.until_records(Event::Response, 1).await;
    let entry = &records[0].entry;
    assert!(
        entry.secrets.iter().any(|name| &**name == "TOKEN"),
        "{entry:?}"
    );
    let findings = format!("{:?}", entry.findings);
    assert!(
        findings.contains("value of TOKEN came back in a WebSocket message"),
        "{findings}"
    );
}

/// What ends a WebSocket, and what each side is told of it.
#[tokio::test]
async fn a_websocket_that_is_stopped_is_closed_towards_both_sides() {
    let (told, mut heard) = mpsc::unbounded_channel();
    let origin = Origin::https("api.test", &["http/1.1"], move |mut request| {
        let told = told.clone();
        async move {
            let upgrade = hyper::upgrade::on(&mut request);
            let tasks = tokio_util::task::TaskTracker::new();
            tasks.spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                told.send(read_frame(&mut stream).await).unwrap();
            });
            switching()
        }
    })
    .await;
    let unmasked = frame(TEXT, None, b"hello");
    let reserved = frame(0xb1, Some([1, 2, 3, 4]), b"hello");
    let revoked = frame(TEXT, Some([1, 2, 3, 4]), b"first-value-of-it");
    let cases = [
        (unmasked, 1002_u16, "malformed_request"),
        (reserved, 1002, "malformed_request"),
        (revoked, 1008, "secret_misuse"),
    ];
    for (sent, code, reason) in cases {
        let keeper = super::super::lab::keeper::Keeper::with(&[("TOKEN", "first-value-of-it")]);
        let lab = Arrangement::new(POLICY)
            .origin("api.test:443", &origin)
            .keeper(&keeper)
            .lab();
        keeper.set("TOKEN", "second-value-of-it");
        let mut client = lab.https("api.test", "http/1.1").await;
        let handshake = Request::get("/socket")
            .header("host", "api.test")
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .body(empty())
            .unwrap();
        let response = client.start(handshake).await.unwrap();
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        let mut stream = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
        stream.write_all(&sent).await.unwrap();
        stream.flush().await.unwrap();
        let closed = read_frame(&mut stream).await;
        assert_eq!(
            closed,
            (0x88, false, code.to_be_bytes().to_vec()),
            "{reason}"
        );
        let towards_origin = heard.recv().await.unwrap();
        assert_eq!(
            towards_origin,
            (0x88, true, 1001_u16.to_be_bytes().to_vec())
        );
        let ended = lab.until_records(Event::Response, 1).await;
        let why = ended[0].entry.reason.map(gig_policy::DenyReason::as_str);
        assert_eq!(why, Some(reason));
    }
}

#[tokio::test]
async fn a_coded_request_body_takes_the_value_and_goes_plain() {
    let origin = Origin::https("api.test", &["h2"], super::super::lab::origin::echo).await;
    let (lab, sentinel) = with_secret(Arrangement::new(POLICY).origin("api.test:443", &origin));
    let mut client = lab.https("api.test", "h2").await;
    let json = format!("{{\"key\": \"{sentinel}\"}}");
    for (coding, body) in [
        ("gzip", gzip(json.as_bytes())),
        ("zstd", zstd(json.as_bytes())),
        ("br", brotli(json.as_bytes())),
        ("deflate", zlib(json.as_bytes())),
    ] {
        let request = Request::post("https://api.test/")
            .header("content-type", "application/json")
            .header("content-encoding", coding)
            .body(full(body))
            .unwrap();
        let answer = client.send(request).await;
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        // The origin gave it back, and it is not text to us without a type.
        assert!(!body.contains(VALUE) && !body.contains(&sentinel), "{body}");
        let cut = sentinel.get(..VALUE.len()).unwrap();
        assert_eq!(body, format!("{{\"key\": \"{cut}\"}}"), "{coding}");
        let seen = origin.seen.requests();
        let headers = &seen.last().unwrap().headers;
        assert!(!headers.contains_key("content-encoding"), "{coding}");
    }
    let broken = Request::post("https://api.test/")
        .header("content-type", "application/json")
        .header("content-encoding", "gzip")
        .body(full("this is not gzip at all"))
        .unwrap();
    let answer = client.send(broken).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn binary_metadata_keeps_the_length_that_it_says_within() {
    let (lab, sentinel, _origin) = lab("h2").await;
    let mut client = lab.https("api.test", "h2").await;
    let answer = client
        .send(ask("/status", &sentinel, &[("te", "trailers")]))
        .await;
    let details = answer.trailers.as_ref().unwrap()["grpc-status-details-bin"].to_str();
    let details = STANDARD_NO_PAD.decode(details.unwrap()).unwrap();
    // Of google.rpc.Status: the code, and the message with its length.
    assert_eq!(
        details[..4],
        [8, 16, 18, u8::try_from(VALUE.len()).unwrap()]
    );
    let told = std::str::from_utf8(&details[4..]).unwrap();
    assert_eq!(told, sentinel.get(..VALUE.len()).unwrap());
}

#[tokio::test]
async fn grpc_messages_keep_their_framing() {
    let (lab, sentinel, _origin) = lab("h2").await;
    let mut client = lab.https("api.test", "h2").await;
    for path in ["/grpc", "/grpc-gzip"] {
        let answer = client.send(ask(path, &sentinel, &[])).await;
        let mut rest = answer.body.clone();
        for _ in 0..2 {
            let head = rest.split_to(5);
            assert_eq!(head[0], 0, "{path}");
            let length = u32::from_be_bytes(head[1..].try_into().unwrap());
            let message = rest.split_to(usize::try_from(length).unwrap());
            let json: serde_json::Value = serde_json::from_slice(&message).unwrap();
            assert_eq!(
                json["token"],
                sentinel.get(..VALUE.len()).unwrap(),
                "{path}"
            );
        }
        assert!(rest.is_empty(), "{path}");
    }
}
