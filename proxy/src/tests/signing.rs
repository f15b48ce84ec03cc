//! What the border signs, and whom it shows a certificate, in whole exchanges.

use std::sync::Arc;

use aws_lc_rs::{digest, hmac};
use gig_audit::Event;
use gig_policy::DenyReason;
use gig_vault::{AwsScope, Treatment};
use http::{Method, Request, StatusCode};
use rustls::{RootCertStore, server::WebPkiClientVerifier};

use super::lab::{
    Arrangement, Lab,
    client::{empty, full},
    keeper::Keeper,
    origin::{Origin, echo, hello},
};

const POLICY: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [443], allow_private: [127.0.0.0/8], secrets: [KEY, OTHER],
     rules: [{methods: [GET, PUT, POST], paths: [/with/**]}]}
  - {host: api.test, ports: [443], allow_private: [127.0.0.0/8],
     rules: [{methods: [GET, PUT, POST], paths: [/without/**]}]}
";

fn lab(origin: &Origin, keeper: &Arc<Keeper>) -> Lab {
    Arrangement::new(POLICY)
        .origin("api.test:443", origin)
        .keeper(keeper)
        .lab()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

/// `20260102T030405Z` of now, as AWS writes it.
fn now() -> String {
    let now = gig_vault::Clock::now(&gig_vault::SystemClock).to_string();
    let digits: String = now.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    format!(
        "{}Z",
        digits.split('.').next().unwrap().trim_end_matches('Z')
    )
}

/// The day of a moment.
fn day(date: &str) -> &str {
    date.split('T').next().unwrap()
}

/// A signature that is made here again, in the words of AWS's documentation.
fn aws_signature(secret: &str, date: &str, payload: &str, body_seed: Option<&str>) -> String {
    let scope = format!("{}/us-east-1/s3/aws4_request", day(date));
    let mut key = format!("AWS4{secret}").into_bytes();
    for word in scope.split('/') {
        key = mac(&key, word);
    }
    if let Some(seed) = body_seed {
        let nothing = hex(digest::digest(&digest::SHA256, b"").as_ref());
        let tail = format!("{nothing}\n{payload}");
        let text = format!("AWS4-HMAC-SHA256-PAYLOAD\n{date}\n{scope}\n{seed}\n{tail}");
        return hex(&mac(&key, &text));
    }
    let request = format!(
        "PUT\n/with/a%20b\n\nhost:api.test\nx-amz-content-sha256:{payload}\nx-amz-date:{date}\n\n\
         host;x-amz-content-sha256;x-amz-date\n{payload}"
    );
    let hash = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}");
    hex(&mac(&key, &text))
}

fn put(id: &str, signature: &str, date: &str, payload: &str) -> http::request::Builder {
    let credential = format!("{id}/{}/us-east-1/s3/aws4_request", day(date));
    let fields = "host;x-amz-content-sha256;x-amz-date";
    let text = format!(
        "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={fields}, Signature={signature}"
    );
    Request::put("/with/a%20b")
        .header("host", "api.test")
        .header("x-amz-date", date)
        .header("x-amz-content-sha256", payload)
        .header("authorization", text)
}

const REAL: [&str; 2] = [
    "AKIAREALREALREALREAL",
    "the-real-secret-access-key-0123456789",
];

async fn aws() -> (Origin, Lab, [String; 2]) {
    let origin = Origin::https("api.test", &["http/1.1"], echo).await;
    let keeper = Keeper::with(&[]);
    keeper.put("KEY", &REAL, Treatment::Aws(Arc::new(AwsScope::default())));
    let lab = lab(&origin, &keeper);
    let held = lab.subject.wallet().unwrap().held();
    let sentinels = [held[0].sentinel.to_string(), held[1].sentinel.to_string()];
    (origin, lab, sentinels)
}

#[tokio::test]
async fn a_request_signed_with_sentinels_arrives_signed_with_the_keys() {
    let (origin, lab, [id, secret]) = aws().await;
    let date = now();
    let payload = hex(digest::digest(&digest::SHA256, b"hello").as_ref());
    let signature = aws_signature(&secret, &date, &payload, None);
    let request = put(&id, &signature, &date, &payload).header("content-length", 5);
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(request.body(full("hello")).unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK);
    let seen = origin.seen.requests().pop().unwrap();
    let field = seen.header("authorization");
    assert!(
        field.contains(&format!("Credential={}/", REAL[0])),
        "{field}"
    );
    let expected = aws_signature(REAL[1], &date, &payload, None);
    assert!(field.ends_with(&format!("Signature={expected}")), "{field}");
    assert_eq!(answer.body, "hello");
    let record = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(&*record.entry.secrets[0], "KEY");
}

/// A body of one chunk with `data` and the last one, signed; and the signature that they follow.
fn chunks(secret: &str, date: &str, payload: &str, data: &str) -> (String, String) {
    let seed = aws_signature(secret, date, payload, None);
    let (mut last, mut text) = (seed.clone(), String::new());
    for data in [data, ""] {
        let hash = hex(digest::digest(&digest::SHA256, data.as_bytes()).as_ref());
        last = aws_signature(secret, date, &hash, Some(&last));
        text += &format!("{:x};chunk-signature={last}\r\n{data}\r\n", data.len());
    }
    (seed, text)
}

#[tokio::test]
async fn chunks_arrive_signed_with_the_keys_and_as_long_as_they_were() {
    let (origin, lab, [id, secret]) = aws().await;
    let date = now();
    let payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let data = "x".repeat(100_000);
    let body = |secret: &str| chunks(secret, &date, payload, &data);
    let (seed, text) = body(&secret);
    let request = put(&id, &seed, &date, payload).header("content-length", text.len());
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(request.body(full(text)).unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK);
    let (seed, text) = body(REAL[1]);
    let seen = origin.seen.requests().pop().unwrap();
    assert!(seen.header("authorization").ends_with(&seed));
    assert_eq!(seen.header("content-length"), text.len().to_string());
    assert!(answer.body == text);
}

#[tokio::test]
async fn a_body_with_a_chunk_that_is_not_signed_is_refused_and_alarmed_short_and_long() {
    let (origin, lab, [id, secret]) = aws().await;
    let date = now();
    let payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    for (alarms, length) in [(1, 100), (2, 100_000)] {
        let (seed, text) = chunks(&secret, &date, payload, &"x".repeat(length));
        let request = put(&id, &seed, &date, payload).header("content-length", text.len());
        let changed = text.replace("xxx\r\n", "xxy\r\n");
        let mut client = lab.https("api.test", "http/1.1").await;
        let answer = client.send(request.body(full(changed)).unwrap()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{length}");
        assert_eq!(answer.json()["reason"], "secret_misuse");
        let told = lab.until_records(Event::SecretMisuse, alarms).await;
        assert_eq!(&*told[alarms - 1].entry.secrets[0], "KEY");
        if length == 100 {
            assert_eq!(origin.seen.connections(), 0, "it was never dialled");
        }
    }
}

#[tokio::test]
async fn a_short_body_that_is_no_signed_chunks_is_refused() {
    let (origin, lab, [id, secret]) = aws().await;
    let date = now();
    let payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let (seed, text) = chunks(&secret, &date, payload, "x");
    let cut = text.get(..text.len() - 1).unwrap();
    for body in ["no chunk at all", cut, ""] {
        let request = put(&id, &seed, &date, payload).header("content-length", body.len());
        let mut client = lab.https("api.test", "http/1.1").await;
        let answer = client
            .send(request.body(full(body.to_owned())).unwrap())
            .await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body:?}");
        assert_eq!(
            answer.json()["reason"],
            DenyReason::MalformedRequest.as_str()
        );
    }
    assert_eq!(origin.seen.connections(), 0);
}

#[tokio::test]
async fn a_sentinels_key_id_under_another_signature_is_misuse() {
    let (origin, lab, [id, _]) = aws().await;
    let date = now();
    let payload = hex(digest::digest(&digest::SHA256, b"").as_ref());
    let forged = aws_signature("guessed", &date, &payload, None);
    let request = put(&id, &forged, &date, &payload).body(empty()).unwrap();
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(request).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(answer.json()["reason"], "secret_misuse");
    assert!(origin.seen.requests().is_empty());
    let alarms = lab.until_records(Event::SecretMisuse, 1).await;
    assert_eq!(&*alarms[0].entry.secrets[0], "KEY");
}

/// An origin that echoes, and a secret that signs what goes there.
async fn hmac() -> (Origin, Lab) {
    let origin = Origin::https("api.test", &["http/1.1"], echo).await;
    let keeper = Keeper::with(&[]);
    let definition = gig_vault::Definition::parse(
        "{kind: {hmac: {message: '{method} {target} {body}', header: X-Signature, \
         value: 'v1={signature}', largest_body: 60}}}",
    );
    let gig_vault::KindDefinition::Hmac(definition) = definition.unwrap().kind else {
        panic!("another kind");
    };
    keeper.put(
        "KEY",
        &["shared-key"],
        Treatment::Hmac(Arc::new(*definition)),
    );
    keeper.put("OTHER", &["other-value"], Treatment::Replace);
    let lab = lab(&origin, &keeper);
    (origin, lab)
}

#[tokio::test]
async fn a_program_that_waits_for_leave_is_told_to_go_on_where_its_body_is_signed() {
    let (origin, lab) = hmac().await;
    for alpn in ["http/1.1", "h2"] {
        let request = Request::post("https://api.test/with/a").header("host", "api.test");
        let request = request.header("expect", "100-continue");
        let mut client = lab.https("api.test", alpn).await;
        let answer = client.send(request.body(full("payload")).unwrap());
        let answer = tokio::time::timeout(std::time::Duration::from_secs(60), answer).await;
        assert_eq!(answer.expect("an answer").body, "payload", "{alpn}");
        let seen = origin.seen.requests().pop().unwrap();
        assert!(seen.header("x-signature").starts_with("v1="));
    }
}

#[tokio::test]
async fn requests_that_the_secret_is_granted_to_are_signed_and_no_others() {
    let (origin, lab) = hmac().await;
    for (path, body, signed) in [
        ("/with/a?b=c", "payload", true),
        ("/with/a", "", true),
        ("/without/a", "payload", false),
    ] {
        let request = Request::builder().method(Method::POST).uri(path);
        let request = request
            .header("host", "api.test")
            .header("x-signature", "the program's own")
            .header("content-length", body.len());
        let mut client = lab.https("api.test", "http/1.1").await;
        let answer = client.send(request.body(full(body)).unwrap()).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        let expected = hex(&mac(b"shared-key", &format!("POST {path} {body}")));
        let expected = if signed {
            format!("v1={expected}")
        } else {
            "the program's own".to_owned()
        };
        let seen = origin.seen.requests().pop().unwrap();
        assert_eq!(seen.header("x-signature"), expected, "{path}");
    }
    let request = Request::post("/with/a").header("host", "api.test");
    let longer = "x".repeat(61);
    let request = request.header("content-length", longer.len());
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(request.body(full(longer)).unwrap()).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(origin.seen.requests().len(), 3);
}

#[tokio::test]
async fn a_body_is_signed_as_it_is_sent_with_the_values_in_it() {
    let (origin, lab) = hmac().await;
    let held = lab.subject.wallet().unwrap().held();
    let other = held.iter().find(|held| held.name.as_str() == "OTHER");
    let body = format!("token: {}", other.unwrap().sentinel);
    for alpn in ["http/1.1", "h2"] {
        let request = Request::post("https://api.test/with/a").header("host", "api.test");
        let request = request.header("content-type", "text/plain");
        let mut client = lab.https("api.test", alpn).await;
        let answer = client.send(request.body(full(body.clone())).unwrap()).await;
        assert_eq!(answer.status, StatusCode::OK, "{alpn}: {answer:?}");
        assert!(!answer.body.ends_with(b"other-value"), "{answer:?}");
        let seen = origin.seen.requests().pop().unwrap();
        let expected = hex(&mac(b"shared-key", "POST /with/a token: other-value"));
        assert_eq!(
            seen.header("x-signature"),
            format!("v1={expected}"),
            "{alpn}"
        );
    }
}

/// A certificate that is its own authority, with its key, and what takes it.
fn certificate() -> (String, Arc<dyn rustls::server::danger::ClientCertVerifier>) {
    let made = rcgen::generate_simple_self_signed(["client.test".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let takes = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let pem = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
    (pem, takes.build().unwrap())
}

#[tokio::test]
async fn a_certificate_is_shown_for_the_requests_it_is_granted_to_alone() {
    let (pem, takes) = certificate();
    for alpn in ["http/1.1", "h2"] {
        let origin = Origin::mutual("api.test", &[alpn], Arc::clone(&takes), hello).await;
        let keeper = Keeper::with(&[]);
        keeper.put("KEY", &[&pem], Treatment::ClientCertificate);
        let lab = lab(&origin, &keeper);
        let mut client = lab.https("api.test", "http/1.1").await;
        let get = |path: &str| {
            let request = Request::get(path).header("host", "api.test");
            request.body(empty()).unwrap()
        };
        let mut opened = 0;
        for number in 0..2 {
            let answer = client.send(get("/with/a")).await;
            assert_eq!(answer.status, StatusCode::OK, "{alpn}: {answer:?}");
            if number == 0 {
                // The first may have had to learn what the origin speaks.
                opened = origin.seen.connections();
            }
        }
        assert_eq!(origin.seen.connections(), opened, "{alpn}: it is kept");
        // A request without the grant has a connection of its own, which the origin does not take.
        let answer = client.send(get("/without/a")).await;
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{alpn}");
        assert!(origin.seen.connections() > opened, "{alpn}");
        assert_eq!(origin.seen.requests().len(), 2, "{alpn}");
    }
}

#[tokio::test]
async fn a_second_certificate_for_one_connection_is_refused_and_named() {
    let (pem, takes) = certificate();
    let origin = Origin::mutual("api.test", &["http/1.1"], takes, hello).await;
    let keeper = Keeper::with(&[]);
    keeper.put("KEY", &[&pem], Treatment::ClientCertificate);
    keeper.put("OTHER", &[&certificate().0], Treatment::ClientCertificate);
    let lab = lab(&origin, &keeper);
    let request = Request::get("/with/a").header("host", "api.test");
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(request.body(empty()).unwrap()).await;
    assert_eq!(
        answer.json()["reason"],
        DenyReason::SecretUnplaceable.as_str()
    );
    let hint = answer.json()["hint"].to_string();
    let why = "the value of OTHER cannot stand in a connection that shows the certificate of KEY: one connection \
               shows one certificate: bind one of the two";
    assert!(hint.contains(why), "{hint}");
    assert!(origin.seen.requests().is_empty());
}

#[tokio::test]
async fn a_certificate_that_cannot_be_presented_is_told_with_the_reason() {
    let (pem, takes) = certificate();
    let origin = Origin::mutual("api.test", &["http/1.1"], takes, hello).await;
    let keeper = Keeper::with(&[]);
    let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
    keeper.put("KEY", &[&(other + &pem)], Treatment::ClientCertificate);
    let lab = lab(&origin, &keeper);
    let request = Request::get("/with/a").header("host", "api.test");
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(request.body(empty()).unwrap()).await;
    assert_eq!(
        answer.json()["reason"],
        DenyReason::SecretUnplaceable.as_str()
    );
    let why = "the client certificate KEY and its key do not belong together";
    assert!(
        answer.json()["hint"].to_string().contains(why),
        "{answer:?}"
    );
    let record = lab.until_records(Event::Response, 1).await.remove(0);
    let told = gig_audit::why_of(&record.entry.findings).unwrap();
    assert!(
        told.contains(why) && told.contains("store another"),
        "{told}"
    );
    assert!(origin.seen.requests().is_empty());
}

#[tokio::test]
async fn a_certificates_sentinel_is_sent_nowhere() {
    let (pem, takes) = certificate();
    let origin = Origin::mutual("api.test", &["http/1.1"], takes, hello).await;
    let keeper = Keeper::with(&[]);
    keeper.put("KEY", &[&pem], Treatment::ClientCertificate);
    let lab = lab(&origin, &keeper);
    let sentinel = lab.subject.wallet().unwrap().held()[0].sentinel.to_string();
    let request = Request::get("/with/a").header("host", "api.test");
    let request = request.header("x-key", sentinel).body(empty()).unwrap();
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(request).await;
    assert_eq!(
        answer.json()["reason"],
        DenyReason::SecretUnplaceable.as_str()
    );
    assert!(origin.seen.requests().is_empty());
}
