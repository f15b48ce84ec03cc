//! One request is one request: whatever a client writes, the origin sees what policy decided.
//!
//! Each case writes raw octets in which a second request for `evil.test` (or a forbidden path) hides.
//! The origin records raw octets and must never see `smuggled`.

use std::time::Duration;

use gig_audit::Event;
use gig_policy::DenyReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::lab::{
    Arrangement, Lab, Way,
    client::{get, raw},
    h2,
    origin::Origin,
};

const OPEN_ONLY: &str = "
version: 1
egress:
  - host: api.test
    ports: [80, 443]
    allow_private: [127.0.0.0/8]
    rules: [{paths: [/open]}]
";

/// Answers every chunk of input with one whole answer, and keeps what it got.
async fn recording() -> (Lab, Origin) {
    let origin = Origin::raw(|mut stream, seen| async move {
        let mut octets = [0; 8192];
        while let Ok(n @ 1..) = stream.read(&mut octets).await {
            seen.octets.lock().extend_from_slice(&octets[..n]);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    })
    .await;
    let lab = Arrangement::new(OPEN_ONLY)
        .origin("api.test:80", &origin)
        .lab();
    (lab, origin)
}

/// Sends raw octets and gives the origin's view of them.
async fn origin_sees(octets: &[u8]) -> (String, Option<String>) {
    let (lab, origin) = recording().await;
    let stream = lab.connect(Way::to("api.test", 80)).await;
    let answer = raw(stream, octets).await;
    (origin.seen.text(), answer)
}

#[tokio::test]
async fn two_framings_in_one_request_are_refused_or_read_one_way() {
    let cases: &[&str] = &[
        // CL.TE and TE.CL
        "POST /open HTTP/1.1\r\nHost: api.test\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "POST /open HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n\
         0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n",
        // Two lengths, equal or not, and a list
        "POST /open HTTP/1.1\r\nHost: api.test\r\nContent-Length: 3\r\nContent-Length: 44\r\n\r\n\
         abcGET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "POST /open HTTP/1.1\r\nHost: api.test\r\nContent-Length: 3, 44\r\n\r\n\
         abcGET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n",
        // Lengths that parsers read in different ways
        "POST /open HTTP/1.1\r\nHost: api.test\r\nContent-Length: +3\r\n\r\nabcGET /smuggled HTTP/1.1\r\n\r\n",
        "POST /open HTTP/1.1\r\nHost: api.test\r\nContent-Length: 0x3\r\n\r\nabcGET /smuggled HTTP/1.1\r\n\r\n",
        // Codings that are not quite chunked
        "POST /open HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: xchunked\r\n\r\n\
         0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "POST /open HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked, identity\r\n\r\n\
         0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "POST /open HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n\
         0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "POST /open HTTP/1.0\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "POST /open HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding:\x0bchunked\r\n\r\n\
         0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
    ];
    for case in cases {
        let (seen, answer) = origin_sees(case.as_bytes()).await;
        assert!(!seen.contains("smuggled"), "{case:?}\n{seen}\n{answer:?}");
    }
}

#[tokio::test]
async fn bare_line_ends_folded_lines_and_odd_names_are_refused() {
    let cases: &[&str] = &[
        "GET /open HTTP/1.1\r\nHost: api.test\r\nX: a\rGET /smuggled HTTP/1.1\r\n\r\n",
        "GET /open HTTP/1.1\r\nHost: api.test\r\nX: a\r\n folded: /smuggled\r\n\r\n",
        "GET /open HTTP/1.1\r\nHost : api.test\r\nX: smuggled\r\n\r\n",
        "GET /open HTTP/1.1\r\nHost: api.test\r\nContent-Length : 3\r\nX: smuggled\r\n\r\nabc",
        "GET /open HTTP/1.1\r\nHost: api.test\r\nX Y: smuggled\r\n\r\n",
        "GET /open HTTP/1.1\r\nHost: api.test\r\nX: \0smuggled\r\n\r\n",
        "GET /open\u{0}smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "GET /open HTTP/1.1 smuggled\r\nHost: api.test\r\n\r\n",
        "GET /open HTTP/1.1\r\nHost: api.test\r\nHost: smuggled.test\r\n\r\n",
        "GET /open HTTP/1.1\r\nHost: api.test@smuggled.test\r\n\r\n",
        "GET /open HTTP/1.1\r\nHost: api.test:80smuggled\r\n\r\n",
        "GET http://smuggled.test/open HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "GET http://api.test/open HTTP/1.1\r\nHost: smuggled.test\r\n\r\n",
        "GET //smuggled.test/open HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "GET /open HTTP/1.1\r\nX: smuggled\r\n\r\n",
        "CONNECT smuggled.test:80 HTTP/1.1\r\nHost: api.test\r\n\r\n",
    ];
    for case in cases {
        let (seen, answer) = origin_sees(case.as_bytes()).await;
        assert!(!seen.contains("smuggled"), "{case:?}\n{seen}\n{answer:?}");
        let refused = answer
            .as_ref()
            .is_none_or(|a| a.is_empty() || a.starts_with("HTTP/1.1 4"));
        assert!(refused, "{case:?}\n{answer:?}");
    }
}

#[tokio::test]
async fn chunked_bodies_are_read_strictly_and_written_anew() {
    let head = "POST /open HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "2\r\nabX\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "-1\r\nab\r\n0\r\n\r\nsmuggled",
        "0x2\r\nab\r\n0\r\n\r\nsmuggled",
        "ffffffffffffffff1\r\nsmuggled",
        "2 \n\r\nab\r\n0\r\n\r\nsmuggled",
        "2;ext=\"smuggled\"\r\nab\r\n0\r\n\r\n",
        "0\r\nHost: smuggled.test\r\n\r\n",
    ] {
        let (seen, answer) = origin_sees(format!("{head}{body}").as_bytes()).await;
        assert!(!seen.contains("smuggled"), "{body:?}\n{seen}\n{answer:?}");
    }
}

#[tokio::test]
async fn a_pipelined_second_request_is_decided_by_itself() {
    let (seen, answer) = origin_sees(
        b"GET /open HTTP/1.1\r\nHost: api.test\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n\
          GET /open HTTP/1.1\r\nHost: smuggled.test\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert_eq!(seen.matches("GET ").count(), 1, "{seen}");
    assert!(!seen.contains("smuggled"));
    let answer = answer.unwrap();
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("path_not_allowed"), "{answer}");
    assert!(answer.contains("names_disagree"), "{answer}");
}

#[tokio::test]
async fn http2_fields_cannot_become_http1_lines() {
    let origin = Origin::https("api.test", &["http/1.1"], super::lab::origin::hello).await;
    let lab = Arrangement::new(OPEN_ONLY)
        .origin("api.test:443", &origin)
        .lab();
    let bad: [(&[u8], &[u8]); 8] = [
        (b"x", b"a\r\nsmuggled: 1"),
        (b"x", b"a\nsmuggled: 1"),
        (b"x", b"a\0smuggled"),
        (b"x\r\nsmuggled", b"1"),
        (b"x y", b"smuggled"),
        (b"X-Upper", b"smuggled"),
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"smuggled"),
    ];
    for (name, value) in bad {
        let stream = lab.connect(Way::to("api.test", 443)).await;
        let mut stream = lab.tls(stream, "api.test", &["h2"]).await.unwrap();
        // What h2's own client refuses to send is sent by hand.
        let mut octets = h2::preface();
        octets.extend(h2::request(1, "/open", &[(name, value)]));
        stream.write_all(&octets).await.unwrap();
        let mut answer = Vec::new();
        let reading = stream.read_to_end(&mut answer);
        drop(tokio::time::timeout(Duration::from_millis(300), reading).await);
        for got in origin.seen.requests() {
            let text = format!("{:?}", got.headers);
            assert!(
                !text.contains("smuggled") && !text.contains("chunked"),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn http2_cookie_crumbs_are_one_field_for_an_http1_origin() {
    let origin = Origin::https("api.test", &["http/1.1"], super::lab::origin::hello).await;
    let lab = Arrangement::new(OPEN_ONLY)
        .origin("api.test:443", &origin)
        .lab();
    let mut client = lab.https("api.test", "h2").await;
    let mut request = get("https://api.test/open");
    request
        .headers_mut()
        .append("cookie", "a=1".parse().unwrap());
    request
        .headers_mut()
        .append("cookie", "b=2".parse().unwrap());
    client.send(request).await;
    assert_eq!(origin.seen.requests()[0].headers["cookie"], "a=1; b=2");
}

#[tokio::test]
async fn what_cannot_be_read_as_a_request_is_recorded() {
    for (octets, reason) in [
        (
            b"GET /open HTTP/1.1\r\nHost : api.test\r\n\r\n".to_vec(),
            DenyReason::MalformedRequest,
        ),
        (
            format!("GET /open HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(200_000)).into_bytes(),
            DenyReason::TooLarge,
        ),
    ] {
        let (lab, origin) = recording().await;
        let stream = lab.connect(Way::to("api.test", 80)).await;
        let answer = raw(stream, &octets).await.unwrap_or_default();
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
        lab.until_denied().await;
        lab.assert_denied_once(reason);
        assert_eq!(origin.seen.text(), "");
    }
}

/// What lax clients leave bare in a URL is refused, told like other refusals and recorded with what it was for.
#[tokio::test]
async fn a_target_that_cannot_be_read_is_told_and_recorded_with_what_it_names() {
    for way in [Way::to("api.test", 80), Way::Explicit] {
        let (lab, origin) = recording().await;
        let place = match way {
            Way::Explicit => "http://api.test",
            Way::To(_) => "",
        };
        let stream = lab.connect(way).await;
        let request = format!("GET {place}/s?q={{\"a\":1}} HTTP/1.1\r\nHost: api.test\r\n\r\n");
        let answer = raw(stream, request.as_bytes()).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        let told: serde_json::Value = serde_json::from_str(body).unwrap();
        let words = ["reason", "host", "method", "path"].map(|word| told[word].clone());
        assert_eq!(words, ["malformed_request", "api.test", "GET", "/s"]);
        lab.until_denied().await;
        lab.assert_denied_once(DenyReason::MalformedRequest);
        let entry = lab.until_records(Event::Request, 1).await.remove(0).entry;
        assert_eq!(entry.request.as_deref(), told["request_id"].as_str());
        assert_eq!(entry.host.as_deref(), Some("api.test"));
        assert_eq!((entry.port, entry.path.as_deref()), (Some(80), Some("/s")));
        assert_eq!(origin.seen.text(), "");
    }
}
