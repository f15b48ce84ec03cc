//! What a request says of its body is true of what is sent.

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use gig_audit::Event;
use http::{HeaderMap, HeaderValue, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use super::{World, post};
use crate::tests::lab::client::Body;

fn sha256(octets: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(digest(&SHA256, octets)))
}

/// In pieces, without a length.
fn streamed(octets: &[u8], trailers: Option<HeaderMap>) -> Body {
    let pieces = octets.chunks(16 * 1024).map(Bytes::copy_from_slice);
    let frames = pieces.map(Frame::data);
    let frames: Vec<_> = frames
        .chain(trailers.map(Frame::trailers))
        .map(Ok)
        .collect();
    StreamBody::new(futures_util::stream::iter(frames)).boxed()
}

#[tokio::test]
async fn digests_are_those_of_what_is_sent() {
    let world = World::new("api.test", "v4lue").await;
    let mut request = post("text/plain", world.sentinel.clone());
    let headers = request.headers_mut();
    headers.insert("content-digest", "sha-256=:AAAA:".parse().unwrap());
    headers.insert("digest", "SHA-256=AAAA".parse().unwrap());
    headers.insert("content-md5", "AAAA".parse().unwrap());
    headers.insert("x-amz-checksum-sha256", "AAAA".parse().unwrap());
    headers.insert("x-amz-checksum-sha1", "AAAA".parse().unwrap());
    headers.insert("x-goog-hash", "md5=AAAA".parse().unwrap());
    headers.insert("x-amz-checksum-crc32", "AAAA".parse().unwrap());
    headers.insert("x-amz-checksum-crc32c", "AAAA".parse().unwrap());
    headers.insert("x-amz-sdk-checksum-algorithm", "CRC32C".parse().unwrap());
    assert_eq!(world.send("api.test", request).await.body, "v4lue");
    let digest = digest(&SHA256, b"v4lue");
    let digest = STANDARD.encode(digest);
    let seen = world.seen();
    assert_eq!(seen.header("content-digest"), format!("sha-256=:{digest}:"));
    assert_eq!(seen.header("digest"), format!("SHA-256={digest}"));
    // printf v4lue | openssl md5 -binary | base64
    assert_eq!(seen.header("content-md5"), "IKW644V8scdGc9o1J44HWA==");
    assert_eq!(seen.header("x-amz-checksum-sha256"), digest);
    // printf v4lue | openssl sha1 -binary | base64
    assert_eq!(
        seen.header("x-amz-checksum-sha1"),
        "K3j8rFjEU5GiXsT4XmLFO7WYfCw="
    );
    let google = "md5=IKW644V8scdGc9o1J44HWA==";
    assert_eq!(seen.header("x-goog-hash"), google);
    assert_eq!(seen.header("x-amz-checksum-crc32"), "4aSnpA==");
    // What cannot be made anew is left out rather than wrong, and with it the word that it comes.
    assert!(!seen.headers.contains_key("x-amz-checksum-crc32c"));
    let word = "x-amz-sdk-checksum-algorithm";
    assert!(!seen.headers.contains_key(word));

    let mut request = post("text/plain", world.sentinel.clone());
    let headers = request.headers_mut();
    headers.insert("x-amz-checksum-crc32", "AAAA".parse().unwrap());
    headers.insert(word, "CRC32".parse().unwrap());
    assert_eq!(world.send("api.test", request).await.body, "v4lue");
    let seen = world.seen();
    assert_eq!(seen.header("x-amz-checksum-crc32"), "4aSnpA==");
    assert_eq!(seen.header(word), "CRC32");
}

#[tokio::test]
async fn the_digest_of_a_long_body_is_that_of_what_is_sent_and_stays_where_nothing_changed() {
    for holds in [true, false] {
        for length in [true, false] {
            let world = World::new("api.test", "v4lue").await;
            let first = if holds { &*world.sentinel } else { "none" };
            let text = format!("{first}{}", "x".repeat(1_000_000));
            let passed = text.replace(&world.sentinel, "v4lue");
            let mut request = if length {
                post("text/plain", text.clone())
            } else {
                let request = Request::post("/").header("content-type", "text/plain");
                request.body(streamed(text.as_bytes(), None)).unwrap()
            };
            let headers = request.headers_mut();
            headers.insert("content-digest", sha256(text.as_bytes()).parse().unwrap());
            let answer = world.send("api.test", request).await;
            assert!(answer.body == passed, "{holds} {length}");
            let seen = world.seen();
            let says = (seen.header("content-digest"), seen.header("content-length"));
            let expected = (sha256(passed.as_bytes()), passed.len().to_string());
            assert_eq!(says, (&*expected.0, &*expected.1), "{holds} {length}");
        }
    }
}

#[tokio::test]
async fn a_digest_of_a_body_that_is_not_known_when_it_begins_is_left_out_and_told() {
    for length in [true, false] {
        let world = World::new("api.test", "v4lue").await;
        let text = format!("{}{}", world.sentinel, "x".repeat(17 << 20));
        let mut request = if length {
            post("text/plain", text)
        } else {
            let request = Request::post("/").header("content-type", "text/plain");
            request.body(streamed(text.as_bytes(), None)).unwrap()
        };
        let headers = request.headers_mut();
        headers.insert("content-digest", "sha-256=:AAAA:".parse().unwrap());
        headers.insert("content-md5", "AAAA".parse().unwrap());
        headers.insert("x-amz-checksum-sha256", "AAAA".parse().unwrap());
        let answer = world.send("api.test", request).await;
        assert!(answer.body.starts_with(b"v4luexxx"));
        assert_eq!(answer.body.len(), (17 << 20) + 5);
        let seen = world.seen();
        let record = world.lab.until_records(Event::Response, 1).await.remove(0);
        for name in ["content-digest", "content-md5", "x-amz-checksum-sha256"] {
            assert!(!seen.headers.contains_key(name));
            let mut findings = record.entry.findings.iter();
            assert!(findings.any(|f| f.contains(name)), "{record:?}");
        }
    }
}

#[tokio::test]
async fn a_digest_in_a_trailer_is_that_of_what_is_sent_or_none() {
    for told in [true, false] {
        let world = World::speaking("api.test", "v4lue", "h2").await;
        let text = format!("{}{}", world.sentinel, "x".repeat(100_000));
        let passed = text.replace(&world.sentinel, "v4lue");
        let mut trailers = HeaderMap::new();
        let digest = HeaderValue::try_from(sha256(text.as_bytes())).unwrap();
        trailers.insert("content-digest", digest);
        trailers.insert("x-other", HeaderValue::from_static("stays"));
        // What is told in advance is waited for.
        let named = if told {
            "x-other, Content-Digest"
        } else {
            "x-other"
        };
        let request = Request::post("https://api.test/")
            .header("content-type", "text/plain")
            .header("te", "trailers")
            .header("trailer", named)
            .body(streamed(text.as_bytes(), Some(trailers)))
            .unwrap();
        let mut client = world.lab.https("api.test", "h2").await;
        let answer = client.send(request).await;
        assert!(answer.body == passed, "{told}");
        let trailers = answer.trailers.unwrap();
        assert_eq!(trailers["x-other"], "stays", "{told}");
        let digest = trailers.get("content-digest");
        let expected = told.then(|| sha256(passed.as_bytes()));
        let digest = digest.map(|digest| digest.to_str().unwrap());
        assert_eq!(digest, expected.as_deref(), "{told}");
    }
}
