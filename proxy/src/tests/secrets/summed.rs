//! Sums of a body with a value in it are no way to the value: the linear ones are not made, and those that are made
//! do not come back from who repeats the request.

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use gig_audit::Event;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::{World, post};
use crate::tests::lab::{
    client::{Body, full},
    origin::Origin,
};

const VALUE: &str = "Winter-of-2026!";

/// Repeats the header section as JSON, in a field of its own, and digits for Base64.
async fn repeat(request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    drop(body.collect().await);
    let mut lines = serde_json::Map::new();
    for (name, value) in &head.headers {
        let value = value.to_str().unwrap();
        lines.insert(name.to_string(), value.into());
        if let Ok(octets) = STANDARD.decode(value) {
            let digits: String = octets.iter().map(|octet| format!("{octet:02X}")).collect();
            lines.insert(format!("{name}-digits"), digits.into());
        }
    }
    let text = serde_json::to_string(&lines).unwrap();
    Response::builder()
        .header("content-type", "application/json")
        .header("x-was", text.clone())
        .body(full(Bytes::from(text)))
        .unwrap()
}

#[tokio::test]
async fn what_repeats_the_request_shows_no_sum_that_was_made_of_the_value() {
    let origin = Origin::https("api.test", &["http/1.1"], repeat).await;
    let world = World::before(origin, "api.test", VALUE);
    let said = STANDARD.encode([7; 16]);
    let mut request = post("text/plain", format!("pre {}", world.sentinel));
    let fields = request.headers_mut();
    let zeros = "0".repeat(64);
    for (name, value) in [
        ("content-md5", &*said),
        ("content-digest", "sha-256=:AAAA:"),
        ("x-checksum-sha256", &zeros),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("x-amz-sdk-checksum-algorithm", "CRC32"),
    ] {
        fields.insert(name, value.parse().unwrap());
    }
    let answer = world.send("api.test", request).await;
    let seen = world.seen();
    let sent = format!("pre {VALUE}");
    let sha256 = digest(&SHA256, sent.as_bytes());
    let of_base64 = STANDARD.encode(sha256);
    assert_eq!(
        seen.header("content-digest"),
        format!("sha-256=:{of_base64}:")
    );
    let digits: String = sha256.as_ref().iter().map(|o| format!("{o:02x}")).collect();
    assert_eq!(seen.header("x-checksum-sha256"), digits);
    // printf 'pre Winter-of-2026!' | openssl md5 -binary | base64
    let md5 = "qNb8Hx6a/MMUn/Z6WCCawQ==";
    assert_eq!(seen.header("content-md5"), md5);
    for gone in ["x-amz-checksum-crc32", "x-amz-sdk-checksum-algorithm"] {
        assert!(!seen.headers.contains_key(gone), "{gone}");
    }
    let body = String::from_utf8(answer.body.to_vec()).unwrap();
    for text in [&body, answer.header("x-was")] {
        let lower = text.to_ascii_lowercase();
        assert!(!text.contains(md5.trim_end_matches('=')), "{text}");
        assert!(!text.contains(of_base64.trim_end_matches('=')), "{text}");
        assert!(!lower.contains(&digits), "{text}");
        // What the program said stands there.
        assert!(text.contains(&said), "{text}");
        assert!(lower.contains(&"07".repeat(16)), "{text}");
        assert!(text.contains(&zeros), "{text}");
    }
    assert_eq!(answer.header("content-length"), body.len().to_string());
    let record = world.lab.until_records(Event::Response, 1).await.remove(0);
    let told = |text: &str| record.entry.findings.iter().any(|f| f.contains(text));
    assert!(told(
        "a digest of the body that was sent came back in the body, replaced"
    ));
    assert!(told(
        "a digest of the body that was sent came back in a header, replaced"
    ));
    assert!(told("x-amz-checksum-crc32 was left out: a cyclic sum"));
}
