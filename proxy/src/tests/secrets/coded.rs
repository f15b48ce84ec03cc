//! Bodies that decode to much: all of it is looked at, or none of it goes.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use gig_audit::Event;
use gig_policy::DenyReason;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, StreamBody};

use super::{World, post};
use crate::tests::lab::client::Body;

const VALUE: &str = "v4lue-of-the-token";

fn zstd(plain: &[u8]) -> Vec<u8> {
    let mut to = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
    zstd_safe::compress(&mut to, plain, 1).unwrap();
    to
}

pub(super) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(plain).unwrap();
    to.finish().unwrap()
}

/// So many octets that hardly take any, and the value.
fn before(length: usize, last: &str) -> Vec<u8> {
    let mut plain = vec![b' '; length];
    plain.extend_from_slice(last.as_bytes());
    plain
}

fn coded(kind: &str, coding: &str, body: Vec<u8>) -> Request<Body> {
    let mut request = post(kind, body);
    let headers = request.headers_mut();
    headers.insert("content-encoding", coding.parse().unwrap());
    request
}

#[tokio::test]
async fn a_body_that_decodes_to_more_than_is_looked_at_does_not_pass() {
    for (host, kind) in [
        ("other.test", "application/octet-stream"),
        ("api.test", "application/json"),
    ] {
        let world = World::new(host, VALUE).await;
        let body = zstd(&before(40 << 20, "."));
        let answer = world.send(host, coded(kind, "zstd", body)).await;
        assert_eq!(
            answer.status,
            StatusCode::PAYLOAD_TOO_LARGE,
            "{host} {kind}"
        );
        assert_eq!(answer.json()["reason"], "decompression_bomb");
        assert!(world.origin.seen.requests().is_empty(), "{host} {kind}");
        let record = world.lab.until_records(Event::Response, 1).await.remove(0);
        assert_eq!(record.entry.reason, Some(DenyReason::DecompressionBomb));
    }
}

#[tokio::test]
async fn a_value_behind_much_that_takes_little_room_is_found() {
    for kind in ["application/octet-stream", "application/json"] {
        let world = World::new("other.test", VALUE).await;
        let body = gzip(&before(4 << 20, VALUE));
        let answer = world.send("other.test", coded(kind, "gzip", body)).await;
        world.assert_misuse(&answer, kind).await;
    }
}

#[tokio::test]
async fn what_takes_little_room_goes_on_as_it_is_or_decoded() {
    for (host, kind, last) in [
        ("other.test", "application/octet-stream", "none"),
        ("api.test", "text/plain", "@"),
    ] {
        let world = World::new(host, VALUE).await;
        let last = last.replace('@', &world.sentinel);
        let plain = before(4 << 20, &last);
        let body = gzip(&plain);
        // In pieces, without a length, so that it streams.
        let pieces: Vec<_> = body
            .chunks(1000)
            .map(bytes::Bytes::copy_from_slice)
            .collect();
        let frames = pieces
            .into_iter()
            .map(|data| Ok(http_body::Frame::data(data)));
        let streamed = StreamBody::new(futures_util::stream::iter(frames)).boxed();
        let request = Request::post("/")
            .header("content-type", kind)
            .header("content-encoding", "gzip")
            .body(streamed)
            .unwrap();
        let answer = world.send(host, request).await;
        if host == "api.test" {
            // Decoded, with the value, which comes back as so much of the sentinel.
            assert_eq!(answer.body.len(), (4 << 20) + VALUE.len());
            continue;
        }
        assert!(answer.body == body, "{}", answer.body.len());
    }
}

#[tokio::test]
async fn a_body_with_more_codings_than_are_undone_does_not_pass() {
    for (host, kind) in [
        ("other.test", "application/octet-stream"),
        ("api.test", "application/json"),
    ] {
        let world = World::new(host, VALUE).await;
        let body = gzip(&gzip(&gzip(VALUE.as_bytes())));
        let answer = world
            .send(host, coded(kind, "gzip, gzip, gzip", body))
            .await;
        assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{host}");
        assert_eq!(answer.json()["reason"], "decoder_limit", "{host}");
        assert!(world.origin.seen.requests().is_empty(), "{host}");
        let record = world.lab.until_records(Event::Response, 1).await.remove(0);
        assert_eq!(record.entry.reason, Some(DenyReason::DecoderLimit));
    }
}

#[tokio::test]
async fn that_a_body_is_in_an_unknown_coding_is_on_record() {
    for (host, kind) in [
        ("other.test", "application/octet-stream"),
        ("api.test", "application/json"),
    ] {
        let world = World::new(host, VALUE).await;
        let body = b"\x1f\x9d\x90 something".to_vec();
        let answer = world
            .send(host, coded(kind, "compress", body.clone()))
            .await;
        assert_eq!(answer.body, body, "{host}");
        let record = world.lab.until_records(Event::Response, 1).await.remove(0);
        let findings = format!("{:?}", record.entry.findings);
        assert!(
            findings.contains("unknown content coding"),
            "{host}: {findings}"
        );
        // As it is, it is looked at all the same.
        let world = World::new("other.test", VALUE).await;
        let answer = world
            .send("other.test", coded(kind, "compress", VALUE.into()))
            .await;
        world.assert_misuse(&answer, kind).await;
    }
}

#[tokio::test]
async fn a_body_that_is_said_to_be_of_two_types_does_not_pass() {
    for (second, passes) in [
        ("application/x-www-form-urlencoded", false),
        ("text/csv", true),
    ] {
        let world = World::new("other.test", VALUE).await;
        let mut request = post("text/csv", format!("a=b&token={}", world.sentinel));
        request
            .headers_mut()
            .append("content-type", second.parse().unwrap());
        let answer = world.send("other.test", request).await;
        assert_eq!(answer.status.is_success(), passes, "{second}: {answer:?}");
        assert_eq!(world.origin.seen.requests().is_empty(), !passes, "{second}");
        if !passes {
            assert_eq!(answer.json()["reason"], "malformed_request");
        }
    }
}
