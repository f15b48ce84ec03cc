//! Silence, from a program or an origin, at each step of a connection: it is ended and recorded.
//!
//! The deadline of one step is short and all others are as ever, so that only that one can end it.

use std::{sync::Arc, time::Duration};

use gig_audit::Event;
use gig_policy::DenyReason;
use http::StatusCode;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    client::get,
    origin::{Origin, hello},
};
use crate::tls::authority_key::Authority;

const SHORT: Duration = Duration::from_millis(100);
/// So long no test takes, on any machine.
const EVER: Duration = Duration::from_secs(120);

/// What the proxy still says before it ends the connection, which it does.
async fn ended(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let reading = tokio::time::timeout(EVER, stream.read_to_end(&mut rest)).await;
    // By a reset or by a close, as the step has it.
    reading.expect("a silent connection stays open").ok();
    rest
}

async fn refused(lab: &Lab, origin: &Origin, reason: DenyReason) {
    lab.until_denied().await;
    lab.assert_denied_for(reason);
    assert_eq!(origin.seen.connections(), 0);
}

/// A ClientHello for the host, and nothing after it.
fn client_hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = "api.test".try_into().unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut octets = Vec::new();
    client.write_tls(&mut octets).unwrap();
    octets
}

#[tokio::test]
async fn a_program_that_connects_and_says_nothing_is_cut_off_and_recorded() {
    for port in [80, 443] {
        let origin = Origin::http(hello).await;
        let lab = Arrangement::new(ALLOW_API)
            .origin(&format!("api.test:{port}"), &origin)
            .within(|deadlines| deadlines.first_octet = SHORT)
            .lab();
        let mut stream = lab.connect(Way::to("api.test", port)).await;
        assert_eq!(ended(&mut stream).await, b"");
        refused(&lab, &origin, DenyReason::RequestTimeout).await;
    }
}

/// Elsewhere nobody keeps spare connections: who says nothing waits for a banner.
#[tokio::test]
async fn a_program_that_waits_for_a_banner_under_a_rule_for_http_is_cut_off_soon() {
    let origin = Origin::http(hello).await;
    let policy = "
version: 1
egress:
  - {host: mail.test, ports: [25], allow_private: [127.0.0.0/8]}
";
    let lab = Arrangement::new(policy)
        .origin("mail.test:25", &origin)
        .within(|deadlines| deadlines.first_octet_elsewhere = SHORT)
        .lab();
    let mut stream = lab.connect(Way::to("mail.test", 25)).await;
    assert_eq!(ended(&mut stream).await, b"");
    refused(&lab, &origin, DenyReason::RequestTimeout).await;
    let record = lab.records(Event::Connect).remove(0).entry;
    // What a person is told to replace.
    assert_eq!(record.rule.as_deref(), Some("egress[0]"));
}

#[tokio::test]
async fn a_program_that_says_nothing_to_the_explicit_proxy_is_cut_off() {
    let lab = Arrangement::new(ALLOW_API)
        .within(|deadlines| deadlines.keep_alive = SHORT)
        .lab();
    let mut stream = lab.connect(Way::Explicit).await;
    assert_eq!(ended(&mut stream).await, b"");
}

#[tokio::test]
async fn a_program_that_stops_in_its_first_words_is_cut_off_and_recorded() {
    let origin = Origin::http(hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .within(|deadlines| deadlines.detect = SHORT)
        .lab();
    let mut stream = lab.connect(Way::to("api.test", 443)).await;
    let hello = client_hello();
    stream.write_all(&hello[..hello.len() / 2]).await.unwrap();
    assert_eq!(ended(&mut stream).await, b"");
    refused(&lab, &origin, DenyReason::UnsupportedProtocol).await;
}

#[tokio::test]
async fn a_program_that_stops_in_its_handshake_is_cut_off_and_recorded() {
    let origin = Origin::http(hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .within(|deadlines| deadlines.downstream_handshake = SHORT)
        .lab();
    let mut stream = lab.connect(Way::to("api.test", 443)).await;
    stream.write_all(&client_hello()).await.unwrap();
    let answer = ended(&mut stream).await;
    assert_eq!(answer.first(), Some(&0x16), "the proxy's half of it came");
    refused(&lab, &origin, DenyReason::RequestTimeout).await;
}

#[tokio::test]
async fn a_program_that_offers_no_http_in_its_handshake_is_told_and_recorded() {
    let origin = Origin::http(hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    let stream = lab.connect(Way::to("api.test", 443)).await;
    let error = lab.tls(stream, "api.test", &["imap"]).await.unwrap_err();
    let told = error.to_string().contains("NoApplicationProtocol");
    assert!(told, "{error}");
    refused(&lab, &origin, DenyReason::UnsupportedProtocol).await;
}

#[tokio::test]
async fn an_origin_that_is_silent_in_its_handshake_is_given_up_and_recorded() {
    let mut origin = Origin::raw(|mut stream, _| async move {
        // It reads what comes and never says a word.
        tokio::io::copy(&mut stream, &mut tokio::io::sink())
            .await
            .ok();
    })
    .await;
    // Without anybody to trust no handshake would be begun.
    origin.authority = Some(Authority::generate().unwrap());
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .within(|deadlines| deadlines.upstream_handshake = SHORT)
        .lab();
    let mut client = lab.https("api.test", "http/1.1").await;
    let mut request = get("/");
    let host = "api.test".parse().unwrap();
    request.headers_mut().insert("host", host);
    let answer = client.send(request).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT, "{answer:?}");
    assert_eq!(answer.json()["reason"], "connection_timeout");
    let outcome = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(outcome.entry.reason, Some(DenyReason::ConnectionTimeout));
}
