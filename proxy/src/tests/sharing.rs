//! What two requests, and two sandboxes, may share on the way to one origin, and what not.

use gig_audit::Event;
use gig_policy::DenyReason;
use http::StatusCode;
use rustls::HandshakeKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    client::get,
    origin::{Origin, hello},
};

/// Answers one request, and notes whether its TLS session was resumed.
async fn noting() -> (Lab, Origin) {
    let origin = Origin::tls("api.test", &["http/1.1"], |mut stream, seen| async move {
        let mut octets = [0; 1024];
        if !matches!(stream.read(&mut octets).await, Ok(1..)) {
            return;
        }
        let note: &[u8] = match stream.get_ref().1.handshake_kind() {
            Some(HandshakeKind::Resumed) => b"resumed ",
            _ => b"full ",
        };
        seen.octets.lock().extend(note);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(answer).await.ok();
        stream.shutdown().await.ok();
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    (lab, origin)
}

#[tokio::test]
async fn a_tls_session_with_an_origin_is_resumed_within_one_sandbox_only() {
    let (lab, origin) = noting().await;
    let neighbour = lab.neighbour();
    for subject in [&lab.subject, &lab.subject, &neighbour, &neighbour] {
        let stream = lab.connect_as(subject, Way::to("api.test", 443)).await;
        let stream = lab.tls(stream, "api.test", &["http/1.1"]).await.unwrap();
        let mut client = lab.client(stream, false).await;
        let mut request = get("/");
        let host = "api.test".parse().unwrap();
        request.headers_mut().insert("host", host);
        assert_eq!(client.send(request).await.status, StatusCode::OK);
    }
    assert_eq!(origin.seen.text(), "full resumed full resumed ");
}

#[tokio::test]
async fn a_sandbox_is_sent_no_session_ticket() {
    let origin = Origin::https("api.test", &["http/1.1"], hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    let stream = lab.connect(Way::to("api.test", 443)).await;
    let mut stream = lab.tls(stream, "api.test", &["http/1.1"]).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: api.test\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
    // A ticket comes before an answer, and whoever reads one in one thread may lose what another writes.
    assert_eq!(stream.get_ref().1.tls13_tickets_received(), 0);
}

#[tokio::test]
async fn another_name_on_an_open_http2_connection_is_misdirected_and_the_connection_goes_on() {
    let origin = Origin::https("api.test", &["h2"], hello).await;
    let other = Origin::https("other.test", &["h2"], hello).await;
    let policy = format!("{ALLOW_API}  - {{host: other.test, allow_private: [127.0.0.0/8]}}\n");
    let lab = Arrangement::new(&policy)
        .origin("api.test:443", &origin)
        .origin("other.test:443", &other)
        .lab();
    let mut client = lab.https("api.test", "h2").await;
    // Both names are allowed; this connection is for one of them.
    for (uri, status) in [
        ("https://api.test/", StatusCode::OK),
        ("https://other.test/", StatusCode::MISDIRECTED_REQUEST),
        ("https://api.test:444/", StatusCode::MISDIRECTED_REQUEST),
        ("https://api.test/", StatusCode::OK),
    ] {
        assert_eq!(client.send(get(uri)).await.status, status, "{uri}");
    }
    assert_eq!(origin.seen.requests().len(), 2);
    assert_eq!(other.seen.connections(), 0);
    let denied: Vec<_> = lab
        .records(Event::Request)
        .into_iter()
        .filter_map(|record| record.entry.reason)
        .collect();
    assert_eq!(denied, [DenyReason::NamesDisagree; 2]);
}

#[tokio::test]
async fn http2_in_clear_text_by_prior_knowledge_is_served_and_decided() {
    let origin = Origin::raw(|stream, seen| async move {
        let mut connection = ::h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            seen.octets.lock().extend(request.uri().path().bytes());
            let mut body = respond
                .send_response(http::Response::new(()), false)
                .unwrap();
            body.send_data(bytes::Bytes::from_static(b"clear"), true)
                .unwrap();
        }
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let stream = lab.connect(Way::to("api.test", 80)).await;
    let mut client = lab.client(stream, true).await;
    let answer = client.send(get("http://api.test/a")).await;
    assert_eq!(
        (answer.status, &answer.body[..]),
        (StatusCode::OK, &b"clear"[..])
    );
    let answer = client.send(get("http://evil.test/b")).await;
    assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST);
    let answer = client.send(get("http://api.test/c")).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(origin.seen.text(), "/a/c");
    assert_eq!(origin.seen.connections(), 1);
}

#[tokio::test]
async fn an_origin_connection_is_shared_within_one_sandbox_only() {
    let origin = Origin::https("api.test", &["h2"], hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    let neighbour = lab.neighbour();
    for (subject, connections) in [(&lab.subject, 1), (&lab.subject, 1), (&neighbour, 2)] {
        let stream = lab.connect_as(subject, Way::to("api.test", 443)).await;
        let stream = lab.tls(stream, "api.test", &["h2"]).await.unwrap();
        let mut client = lab.client(stream, true).await;
        client.send(get("https://api.test/")).await;
        assert_eq!(origin.seen.connections(), connections);
    }
}
