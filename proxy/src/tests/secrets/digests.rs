//! What a request says of its body is true of what is sent.

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use gig_audit::Event;
use http::{HeaderMap, HeaderValue, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use super::{DenyReason, StatusCode, World, post};
use crate::tests::lab::{
    client::{Answer, Body, empty, full},
    origin::Origin,
};

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
    // What cannot be made anew is left out rather than wrong, and with it the word that it comes.
    assert!(!seen.headers.contains_key("x-amz-checksum-crc32c"));
    assert!(!seen.headers.contains_key("x-amz-sdk-checksum-algorithm"));
}

#[tokio::test]
async fn checksums_of_stores_are_those_of_what_is_sent_or_none() {
    let world = World::new("api.test", "v4lue").await;
    let mut request = post("text/plain", world.sentinel.clone());
    let (md5, sha1, sha256) = ("0".repeat(32), "0".repeat(40), "A".repeat(64));
    for (name, before) in [
        ("x-checksum-sha1", &*sha1),
        ("x-bz-content-sha1", &sha1),
        ("x-checksum-sha256", &sha256),
        ("x-checksum-md5", &md5),
        ("x-ms-content-crc64", "AAAA"),
    ] {
        request.headers_mut().insert(name, before.parse().unwrap());
    }
    assert_eq!(world.send("api.test", request).await.body, "v4lue");
    let seen = world.seen();
    // printf v4lue | openssl sha1; sha256; md5
    let sha1 = "2b78fcac58c45391a25ec4f85e62c53bb5987c2c";
    assert_eq!(seen.header("x-checksum-sha1"), sha1);
    assert_eq!(seen.header("x-bz-content-sha1"), sha1);
    let digest: String = digest(&SHA256, b"v4lue")
        .as_ref()
        .iter()
        .map(|octet| format!("{octet:02x}"))
        .collect();
    assert_eq!(seen.header("x-checksum-sha256"), digest);
    assert_eq!(
        seen.header("x-checksum-md5"),
        "20a5bae3857cb1c74673da35278e0758"
    );
    assert!(!seen.headers.contains_key("x-ms-content-crc64"));
}

#[tokio::test]
async fn a_part_of_an_upload_keeps_its_length_or_does_not_go() {
    for (name, value) in [
        ("content-range", "bytes 0-9/100"),
        ("upload-offset", "0"),
        ("upload-length", "100"),
    ] {
        for long in [false, true] {
            let world = World::new("api.test", "v4lue").await;
            let told = |value: &str| {
                let mut body = format!("{{\"k\":\"{value}\"}}");
                if long {
                    body = format!("{}{body}", " ".repeat(200_000));
                }
                body
            };
            let mut request = post("application/json", told(&world.sentinel));
            request.headers_mut().insert(name, value.parse().unwrap());
            let mut client = world.client("api.test").await;
            let host = "api.test".parse().unwrap();
            request.headers_mut().insert("host", host);
            let answer = client.start(request).await;
            if long {
                // Cut while the origin reads it, before it answers or after.
                let came = match answer {
                    Ok(answer) if answer.status() == StatusCode::OK => {
                        answer.into_body().collect().await.ok()
                    }
                    Ok(_) | Err(_) => None,
                };
                assert!(came.is_none(), "{name}");
            } else {
                assert_eq!(answer.unwrap().status(), StatusCode::BAD_GATEWAY);
                assert!(world.origin.seen.requests().is_empty(), "{name}");
            }
            world.lab.until_denied().await;
            world.lab.assert_denied_for(DenyReason::SecretUnplaceable);
            // As long as its sentinel it goes.
            let same = "v".repeat(world.sentinel.len());
            let world = World::new("api.test", &same).await;
            let mut request = post("application/json", told(&world.sentinel));
            request.headers_mut().insert(name, value.parse().unwrap());
            assert_eq!(world.send("api.test", request).await.status, StatusCode::OK);
            let record = world.lab.until_records(Event::Response, 1).await.remove(0);
            assert_eq!(&*record.entry.secrets[0], "TOKEN", "{name}");
        }
    }
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

#[tokio::test]
async fn a_word_in_place_of_a_checksum_becomes_none() {
    let world = World::new("api.test", "v4lue").await;
    for (word, goes) in [
        ("do_not_verify", true),
        ("hex_digits_at_end", false),
        ("AAAA", false),
    ] {
        let mut request = post("text/plain", world.sentinel.clone());
        let fields = request.headers_mut();
        fields.insert("x-bz-content-sha1", word.parse().unwrap());
        assert_eq!(world.send("api.test", request).await.body, "v4lue");
        let seen = world.seen();
        let kept = seen.headers.get("x-bz-content-sha1");
        assert_eq!(kept.is_some_and(|kept| kept == word), goes, "{word}");
        assert_eq!(kept.is_none(), !goes, "{word}");
    }
}

/// As S3 answers: what it stored, by every sum that it was asked for. A GET shows what was stored last.
async fn store(request: Request<hyper::body::Incoming>) -> http::Response<Body> {
    let octets = request.into_body().collect().await.unwrap().to_bytes();
    let mut answer = http::Response::new(full(Bytes::new()));
    for (name, value) in [
        ("etag", "\"20a5bae3857cb1c74673da35278e0758\""),
        ("x-amz-checksum-crc32", "4aSnpA=="),
        ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA="),
        ("x-amz-checksum-xxhash64", "AAAAAAAAAAA="),
        ("content-md5", "IKW644V8scdGc9o1J44HWA=="),
        ("x-goog-hash", "md5=IKW644V8scdGc9o1J44HWA=="),
        ("x-ms-blob-content-md5", "IKW644V8scdGc9o1J44HWA=="),
        ("repr-digest", "sha-256=:AAAA:"),
    ] {
        answer.headers_mut().insert(name, value.parse().unwrap());
    }
    let length = octets.len().to_string();
    answer
        .headers_mut()
        .insert("x-length", length.parse().unwrap());
    answer
}

#[tokio::test]
async fn no_answer_says_what_something_with_a_value_hashes_to() {
    let origin = Origin::https("api.test", &["http/1.1"], store).await;
    let world = World::before(origin, "api.test", "v4lue-of-the-token-1");
    let sums = |answer: &Answer| {
        let names = answer.headers.keys().map(http::HeaderName::as_str);
        let told = |name: &&str| {
            ["checksum", "md5", "digest", "hash"]
                .iter()
                .any(|part| name.contains(part))
        };
        names.filter(told).map(str::to_owned).collect::<Vec<_>>()
    };
    let get = |method: &str| {
        Request::builder()
            .method(method)
            .uri("/")
            .body(empty())
            .unwrap()
    };
    // What the host has of another's request may hold a value, too; its tag is not known to.
    let before = world.send("api.test", get("GET")).await;
    assert_eq!(sums(&before), [""; 0]);
    assert!(before.headers.contains_key("etag"));
    let put = world
        .send("api.test", post("text/plain", world.sentinel.clone()))
        .await;
    assert_eq!(put.header("x-length"), "20", "{put:?}");
    for answer in [
        put,
        world.send("api.test", get("GET")).await,
        world.send("api.test", get("HEAD")).await,
    ] {
        assert_eq!(sums(&answer), [""; 0], "{answer:?}");
        assert!(!answer.headers.contains_key("etag"), "{answer:?}");
    }
}
