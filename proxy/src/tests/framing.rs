//! Messages that could be read in two ways, and bodies that are none: refused, told, recorded.

use std::time::Duration;

use gig_audit::{Event, VerdictWord};
use gig_policy::DenyReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    client::read_head,
    origin::{Origin, hello},
};

async fn clear() -> (Lab, Origin) {
    let origin = Origin::http(hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    (lab, origin)
}

/// Sends octets and reads until the proxy closes.
async fn until_closed(lab: &Lab, octets: &[u8]) -> String {
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    stream.write_all(octets).await.unwrap();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    tokio::time::timeout(Duration::from_secs(60), reading)
        .await
        .expect("the connection is closed")
        .expect("not with a reset");
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_request_with_two_readings_is_answered_400_closed_and_recorded() {
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "content-length:4\r\nX: y\r\nTRANSFER-ENCODING:chunked",
        "Content-Length: 3\r\nContent-Length: 4",
        "Content-Length: 3, 4",
        "Content-Length: +4",
        "Content-Length: -4",
        "Content-Length: 0x4",
        "Content-Length: 4 4",
        "Content-Length:",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding:\r\n chunked",
        "X: a\r\n folded",
        "X: a\r\n\tfolded",
        "X: a\rb",
        "X: a\0b",
        "X : a",
        "X\t: a",
        " X: a",
        "X Y: a",
        ": a",
        "X",
    ] {
        let (lab, origin) = clear().await;
        let request = format!("POST / HTTP/1.1\r\nHost: api.test\r\n{fields}\r\n\r\n0\r\n\r\n");
        let answer = until_closed(&lab, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{fields:?}: {answer}");
        assert_eq!(origin.seen.connections(), 0, "{fields:?}");
        lab.until_denied().await;
        lab.assert_denied_once(DenyReason::MalformedRequest);
    }
}

#[tokio::test]
async fn an_unreadable_request_is_recorded_though_its_sandbox_ends_while_the_connection_lingers() {
    let (lab, origin) = clear().await;
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    let request = b"GET / HTTP/1.1\r\nHost: api.test\r\nX : a\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let answer = read_head(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    // Its end is still open here: what lingers is cut by the sandbox's end.
    tokio::time::timeout(Duration::from_secs(60), lab.subject.close())
        .await
        .expect("the sandbox's connections end with it");
    assert_eq!(origin.seen.connections(), 0);
    lab.until_denied().await;
    lab.assert_denied_once(DenyReason::MalformedRequest);
    drop(stream);
}

#[tokio::test]
async fn a_length_beside_a_coding_that_came_with_another_request_ends_the_connection() {
    let (lab, origin) = clear().await;
    let answer = until_closed(
        &lab,
        b"GET /first HTTP/1.1\r\nHost: api.test\r\n\r\n\
          POST /second HTTP/1.1\r\nHost: api.test\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n\
          0\r\n\r\nGET /third HTTP/1.1\r\nHost: api.test\r\n\r\n",
    )
    .await;
    let paths: Vec<_> = origin
        .seen
        .requests()
        .iter()
        .map(|got| got.uri.path().to_owned())
        .collect();
    assert_eq!(paths, ["/first", "/second"], "{answer}");
    assert!(
        !origin.seen.requests()[1]
            .headers
            .contains_key("content-length"),
    );
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert_eq!(answer.matches("connection: close").count(), 1, "{answer}");
}

#[tokio::test]
async fn bare_line_feeds_end_lines_here_and_nowhere_else() {
    // RFC 9112 §2.2 allows it; what is sent on is written anew.
    let origin = Origin::raw(|mut stream, seen| async move {
        let head = read_head(&mut stream).await;
        seen.octets.lock().extend(head.bytes());
        stream
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .await
            .unwrap();
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let request = b"GET / HTTP/1.1\nHost: api.test\nX: y\nConnection: close\n\n";
    let answer = until_closed(&lab, request).await;
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    let seen = origin.seen.text();
    assert_eq!(seen.matches('\n').count(), seen.matches("\r\n").count());
}

#[tokio::test]
async fn an_answer_with_two_readings_is_the_origins_fault() {
    for fields in [
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 2",
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: 2, 3",
        "Content-Length: +2",
        "Content-Length: -2",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "X: a\r\n folded",
        "X : a",
        "X: a\0b",
        "X: a\rb",
    ] {
        let origin = Origin::raw(move |mut stream, _| async move {
            read_head(&mut stream).await;
            let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n2\r\nab\r\n0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.ok();
        })
        .await;
        let lab = Arrangement::new(ALLOW_API)
            .origin("api.test:80", &origin)
            .lab();
        let request = b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n";
        let answer = until_closed(&lab, request).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{fields:?}: {answer}");
        assert!(answer.contains("origin_protocol"), "{fields:?}: {answer}");
        let response = lab.until_records(Event::Response, 1).await.remove(0);
        assert_eq!(response.entry.reason, Some(DenyReason::OriginProtocol));
    }
}

#[tokio::test]
async fn a_chunk_that_is_none_is_told_and_recorded_as_malformed() {
    for body in [
        "Z\r\nab\r\n",
        "-2\r\nab\r\n",
        "2\r\nabc\r\n",
        "ffffffffffffffff1\r\n",
        "2;a\nb\r\nab\r\n",
        "2\nab\r\n",
        "0\r\nX Y: z\r\n\r\n",
    ] {
        let (lab, _origin) = clear().await;
        let request = format!(
            "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n{body}0\r\n\r\n"
        );
        let answer = until_closed(&lab, request.as_bytes()).await;
        // hello answers without reading: what it says may be sooner than what is wrong.
        let told = answer.starts_with("HTTP/1.1 400 ") && answer.contains("malformed_request");
        assert!(told || answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

/// Reads the whole request before it answers.
async fn listening() -> (Lab, Origin) {
    use http_body_util::BodyExt;
    let origin = Origin::http(|request: http::Request<hyper::body::Incoming>| async {
        request.into_body().collect().await.ok();
        http::Response::new(super::lab::client::full("heard"))
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    (lab, origin)
}

#[tokio::test]
async fn a_malformed_chunk_is_the_programs_fault_in_the_record() {
    let (lab, _origin) = listening().await;
    let request = b"POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n\
        2\r\nab\r\nZ\r\n";
    let answer = until_closed(&lab, request).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("malformed_request"), "{answer}");
    let response = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(response.entry.reason, Some(DenyReason::MalformedRequest));
    assert_eq!(response.entry.status, Some(400));
}

#[tokio::test]
async fn a_program_that_leaves_in_the_middle_was_refused_nothing() {
    let (lab, origin) = listening().await;
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    let request = b"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 100\r\n\r\nhalf";
    stream.write_all(request).await.unwrap();
    while origin.seen.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stream);
    let response = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(response.entry.reason, Some(DenyReason::RequestIncomplete));
    assert_eq!(response.entry.verdict, Some(VerdictWord::Allow));
}
