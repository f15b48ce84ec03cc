//! What a sandbox or an origin can stretch has an end.

use std::time::Duration;

use gig_audit::{Event, VerdictWord};
use gig_policy::DenyReason;
use http::{Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::client::TlsStream;

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    client::{empty, get, raw, read_head},
    h2,
    origin::{Origin, hello},
};

async fn lab() -> (Lab, Origin) {
    let origin = Origin::https("api.test", &["http/1.1"], hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    (lab, origin)
}

async fn h2_stream(lab: &Lab) -> TlsStream<tokio::net::TcpStream> {
    let stream = lab.connect(Way::to("api.test", 443)).await;
    lab.tls(stream, "api.test", &["h2"]).await.unwrap()
}

/// Whether the proxy ends the connection.
async fn is_closed(stream: &mut TlsStream<tokio::net::TcpStream>) -> bool {
    let mut rest = Vec::new();
    let reading = stream.read_to_end(&mut rest);
    tokio::time::timeout(Duration::from_secs(60), reading)
        .await
        .is_ok()
}

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let (lab, origin) = lab().await;
    let mut stream = h2_stream(&lab).await;
    let mut octets = h2::preface();
    for n in 0..2000 {
        octets.extend(h2::request(1 + 2 * n, "/", &[]));
        octets.extend(h2::frame(h2::RST_STREAM, 0, 1 + 2 * n, &[0, 0, 0, 8]));
    }
    stream.write_all(&octets).await.ok();
    assert!(is_closed(&mut stream).await);
    assert!(origin.seen.requests().len() < 200);
    drop(stream);
    lab.until_records(Event::Connect, 2).await;
    recorded_as_too_much(&lab);
}

/// The connection was refused once, for this reason.
#[track_caller]
fn recorded_as_too_much(lab: &Lab) {
    let refused: Vec<_> = lab
        .records(Event::Connect)
        .into_iter()
        .filter(|record| record.entry.verdict == Some(VerdictWord::Deny))
        .collect();
    assert_eq!(refused.len(), 1, "{:#?}", lab.log.records());
    assert_eq!(refused[0].entry.reason, Some(DenyReason::TooLarge));
}

#[tokio::test]
async fn a_flood_of_pings_or_settings_ends_the_connection_and_is_recorded() {
    for frame in [
        h2::frame(6, 0, 0, b"12345678"),
        h2::frame(h2::SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]),
        h2::frame(200, 0, 0, b""),
        // Who makes room for what nobody sends makes up for nothing.
        [
            h2::frame(6, 0, 0, b"12345678"),
            h2::frame(8, 0, 0, &[0, 0, 0, 1]),
        ]
        .concat(),
    ] {
        let (lab, origin) = lab().await;
        let mut stream = h2_stream(&lab).await;
        let mut octets = h2::preface();
        octets.extend(frame.repeat(10_000));
        // Cut off while it writes.
        stream.write_all(&octets).await.ok();
        assert!(is_closed(&mut stream).await);
        drop(stream);
        lab.until_records(Event::Connect, 2).await;
        recorded_as_too_much(&lab);
        assert_eq!(origin.seen.connections(), 0);
    }
}

#[tokio::test]
async fn a_flood_of_continuation_frames_ends_the_connection() {
    let (lab, origin) = lab().await;
    let mut stream = h2_stream(&lab).await;
    let mut octets = h2::preface();
    octets.extend(h2::frame(h2::HEADERS, h2::END_STREAM, 1, &h2::block("/")));
    for _ in 0..20_000 {
        octets.extend(h2::frame(h2::CONTINUATION, 0, 1, &h2::field(b"x", b"y")));
    }
    stream.write_all(&octets).await.ok();
    assert!(is_closed(&mut stream).await);
    assert_eq!(origin.seen.connections(), 0);
    drop(stream);
    lab.until_records(Event::Connect, 2).await;
    recorded_as_too_much(&lab);
}

#[tokio::test]
async fn an_hpack_bomb_is_refused() {
    let (lab, origin) = lab().await;
    let mut stream = h2_stream(&lab).await;
    let mut block = h2::block("/");
    // Enters the dynamic table as entry 62, and is then repeated by one octet each.
    block.push(0x40);
    block.extend(&h2::field(b"bomb", &[b'x'; 3000])[1..]);
    block.extend(std::iter::repeat_n(0x80 | 62, 10_000));
    let mut octets = h2::preface();
    octets.extend(h2::frame(
        h2::HEADERS,
        h2::END_STREAM | h2::END_HEADERS,
        1,
        &block,
    ));
    stream.write_all(&octets).await.ok();
    assert!(is_closed(&mut stream).await);
    assert_eq!(origin.seen.connections(), 0);
    drop(stream);
    lab.until_records(Event::Connect, 2).await;
    recorded_as_too_much(&lab);
}

/// A frame that no connection may have ends it, a message that is none its stream: the record says which rule.
#[tokio::test]
async fn what_http2_refuses_is_recorded_with_its_word() {
    let data_on_no_stream = h2::frame(0, 0, 0, b"x").to_vec();
    let too_wide = h2::frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]).to_vec();
    let no_message = h2::request(1, "/", &[(b"connection", b"close")]);
    for (octets, word) in [
        (data_on_no_stream, "http2:PROTOCOL_ERROR"),
        (too_wide, "http2:FLOW_CONTROL_ERROR"),
        (no_message, "http2:PROTOCOL_ERROR"),
    ] {
        let (lab, origin) = lab().await;
        let mut stream = h2_stream(&lab).await;
        let octets = [h2::preface(), octets].concat();
        stream.write_all(&octets).await.unwrap();
        // Until its stream is reset, or the connection ended.
        let reset = h2::frame(h2::RST_STREAM, 0, 1, &[0, 0, 0, 1]);
        let (mut answer, mut some) = (Vec::<u8>::new(), [0_u8; 4096]);
        while !answer.windows(reset.len()).any(|part| part == &reset[..]) {
            match stream.read(&mut some).await.unwrap_or(0) {
                0 => break,
                count => answer.extend_from_slice(&some[..count]),
            }
        }
        drop(stream);
        lab.until_records(Event::Connect, 2).await;
        let refused = lab.records(Event::Connect).pop().unwrap().entry;
        assert_eq!(refused.reason, Some(DenyReason::MalformedRequest), "{word}");
        assert_eq!(refused.findings, [word.into()], "{refused:?}");
        assert_eq!(origin.seen.connections(), 0);
    }
}

#[tokio::test]
async fn endless_header_sections_are_refused() {
    let (lab, origin) = lab().await;
    let line = format!("x: {}\r\n", "y".repeat(1000));
    for (lines, each) in [(200, "x: y\r\n".to_owned()), (200, line)] {
        let stream = lab.connect(Way::to("api.test", 80)).await;
        let text = format!(
            "GET / HTTP/1.1\r\nHost: api.test\r\n{}\r\n",
            each.repeat(lines)
        );
        let answer = raw(stream, text.as_bytes()).await;
        let answer = answer.unwrap_or_default();
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer:?}");
    }
    assert_eq!(origin.seen.connections(), 0);
}

#[tokio::test]
async fn an_origins_endless_header_section_is_its_fault() {
    let origin = Origin::raw(|mut stream, _| async move {
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await.ok();
        for _ in 0..2000 {
            let line = format!("x: {}\r\n", "y".repeat(1000));
            if stream.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut client = lab.http("api.test").await;
    let answer = client.send(request("/")).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert_eq!(answer.json()["reason"], "origin_protocol");
}

#[tokio::test]
async fn an_origin_that_switches_protocols_unasked_is_its_fault() {
    let origin = Origin::raw(|mut stream, _| async move {
        read_head(&mut stream).await;
        let answer =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nraw";
        stream.write_all(answer).await.ok();
        stream.read_u8().await.ok();
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut client = lab.http("api.test").await;
    let answer = client.send(request("/")).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn requests_over_the_rate_are_told_as_429_and_go_nowhere() {
    let policy = format!("{ALLOW_API}limits: {{requests_per_minute: 2}}\n");
    let origin = Origin::http(hello).await;
    let lab = Arrangement::new(&policy)
        .origin("api.test:80", &origin)
        .lab();
    let mut client = lab.http("api.test").await;
    for status in [200, 200, 429] {
        let answer = client.send(request("/")).await;
        assert_eq!(answer.status.as_u16(), status);
    }
    assert_eq!(origin.seen.requests().len(), 2);
    lab.assert_denied_once(DenyReason::RequestRate);
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_never_answers_is_given_up() {
    let origin = Origin::http(|_| std::future::pending::<Response<_>>()).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut client = lab.http("api.test").await;
    let answer = client.send(request("/")).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    let response = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(response.entry.reason, Some(DenyReason::OriginTimeout));
}

#[tokio::test(start_paused = true)]
async fn a_header_section_that_does_not_end_and_an_idle_connection_are_closed() {
    let (lab, _origin) = lab().await;
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    let asked = b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n";
    stream.write_all(asked).await.unwrap();
    let mut octet = [0; 1];
    stream.read_exact(&mut octet).await.unwrap();
    let keep_alive = lab.worker.deadlines().keep_alive;
    let answered = tokio::time::Instant::now();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(keep_alive * 2, stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "an idle connection stays open");
    assert!(answered.elapsed() >= keep_alive / 2, "closed too soon");
    for text in ["GET / HTTP/1.1\r\nHost: api", "GET / HTTP/1.1\r\n"] {
        let mut stream = lab.connect(Way::to("api.test", 80)).await;
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        // A connection that only waits is given longer.
        let patience = lab.worker.deadlines().request_headers + Duration::from_secs(1);
        let ended = tokio::time::timeout(patience, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "{text:?}");
        let records = lab.until_records(Event::Connect, 1).await;
        let slow = records.last().map(|record| record.entry.reason);
        assert_eq!(slow, Some(Some(DenyReason::RequestTimeout)));
    }
}

#[tokio::test]
async fn server_speaks_first_through_an_opaque_rule() {
    let policy = "
version: 1
egress:
  - {host: db.test, ports: [5432], protocol: tcp, allow_private: [127.0.0.0/8]}
";
    let origin = Origin::raw(|mut stream, _| async move {
        stream.write_all(b"banner\n").await.unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).await.unwrap();
        stream.write_all(&word).await.unwrap();
    })
    .await;
    let lab = Arrangement::new(policy)
        .origin("db.test:5432", &origin)
        .lab();
    let (by_connect, head) = lab.connect_by_proxy("db.test:5432").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let redirected = lab.connect(Way::to("db.test", 5432)).await;
    for mut stream in [by_connect, redirected] {
        let mut banner = [0; 7];
        stream.read_exact(&mut banner).await.unwrap();
        assert_eq!(&banner, b"banner\n");
        stream.write_all(b"ping").await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"ping");
    }
    let responses = lab.until_records(Event::Response, 2).await;
    for response in responses {
        assert_eq!(response.entry.bytes_out, Some(4));
        assert_eq!(response.entry.bytes_in, Some(11));
    }
}

#[tokio::test]
async fn passthrough_is_not_opened_and_its_name_must_agree() {
    let policy = "
version: 1
egress:
  - {host: api.test, tls: passthrough, allow_private: [127.0.0.0/8]}
";
    let origin = Origin::https("api.test", &["http/1.1"], hello).await;
    let mut lab = Arrangement::new(policy)
        .origin("api.test:443", &origin)
        .lab();
    // The client trusts the origin's own authority: nobody stands between.
    lab.authority = origin.authority.clone().unwrap();
    let stream = lab.connect(Way::to("api.test", 443)).await;
    let stream = lab.tls(stream, "api.test", &["http/1.1"]).await.unwrap();
    let mut client = lab.client(stream, false).await;
    assert_eq!(client.send(request("/")).await.body, "hello");
    assert_eq!(origin.seen.connections(), 1);
    let stream = lab.connect(Way::to("api.test", 443)).await;
    assert!(lab.tls(stream, "evil.test", &["http/1.1"]).await.is_err());
    assert_eq!(origin.seen.connections(), 1);
    lab.assert_denied_once(DenyReason::NamesDisagree);
}

#[tokio::test]
async fn what_is_passed_on_counts_against_the_upload_allowance() {
    let policy = "
version: 1
egress:
  - {host: db.test, ports: [5432], protocol: tcp, allow_private: [127.0.0.0/8]}
limits: {upload_per_hour: 1KB}
";
    let origin = Origin::raw(|mut stream, seen| async move {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.ok();
        seen.octets.lock().extend(all);
    })
    .await;
    let lab = Arrangement::new(policy)
        .origin("db.test:5432", &origin)
        .lab();
    let mut stream = lab.connect(Way::to("db.test", 5432)).await;
    stream.write_all(&[b'x'; 4000]).await.ok();
    stream.read_to_end(&mut Vec::new()).await.ok();
    let response = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(response.entry.reason, Some(DenyReason::UploadLimit));
    assert!(origin.seen.text().len() <= 1024);
}

fn request(path: &str) -> Request<super::lab::client::Body> {
    let mut request = get(path);
    *request.body_mut() = empty();
    request
        .headers_mut()
        .insert("host", "api.test".parse().unwrap());
    request
}
