//! What cannot be read as a request is told and recorded alike, wherever on its connection it stands.

use std::time::Duration;

use gig_audit::Event;
use gig_policy::DenyReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    origin::{Origin, hello},
};

/// What goes before it on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// A request whose answer was read.
    Answered,
    /// A request that comes in one piece with it.
    Asked,
}

const READABLE: &[u8] = b"GET /before HTTP/1.1\r\nHost: api.test\r\n\r\n";

/// Sends it by `way`: the head and the body of what it is answered with.
async fn told(lab: &Lab, way: Way, before: Before, octets: &[u8]) -> (String, serde_json::Value) {
    let mut stream = lab.connect(way).await;
    match before {
        Before::Nothing => stream.write_all(octets).await.unwrap(),
        Before::Answered => {
            stream.write_all(READABLE).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\nhello") {
                answer.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(octets).await.unwrap();
        }
        Before::Asked => {
            let all = [READABLE, octets].concat();
            stream.write_all(&all).await.unwrap();
        }
    }
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
    let read = read.unwrap_or_else(|_| panic!("{:.200?}", String::from_utf8_lossy(octets)));
    read.unwrap_or_else(|error| panic!("{error}: {:.200?}", String::from_utf8_lossy(octets)));
    let answer = String::from_utf8(answer).unwrap();
    let before = usize::from(before == Before::Asked);
    assert_eq!(answer.matches("hello").count(), before, "{answer}");
    let last = answer.rfind("HTTP/1.").expect("an answer");
    let (head, body) = answer.get(last..).unwrap().split_once("\r\n\r\n").unwrap();
    let body = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
    (head.to_owned(), body)
}

/// What cannot be read, with the status of its answer and the method that can be made out.
fn cases() -> Vec<(&'static str, &'static str, String)> {
    let fields = |fields: String| format!("GET /it HTTP/1.1\r\nHost: api.test\r\n{fields}\r\n");
    let many: String = (0..101).map(|n| format!("x-{n}: y\r\n")).collect();
    vec![
        ("400", "GET", fields("X : a\r\n".to_owned())),
        ("400", "GET", fields("X: a\rb\r\n".to_owned())),
        ("400", "GET", fields("X: a\r\n\tfolded\r\n".to_owned())),
        (
            "400",
            "",
            "G{T /it HTTP/1.1\r\nHost: api.test\r\n\r\n".to_owned(),
        ),
        (
            "400",
            "GET",
            "GET /it HTTP/7.1\r\nHost: api.test\r\n\r\n".to_owned(),
        ),
        (
            "400",
            "GET",
            "GET /it?\" HTTP/1.1\r\nHost: api.test\r\n\r\n".to_owned(),
        ),
        ("400", "", "half of a body\r\n\r\n".to_owned()),
        ("431", "GET", fields(many)),
        (
            "431",
            "GET",
            fields(format!("X: {}\r\n", "a".repeat(300_000))),
        ),
    ]
}

#[tokio::test]
async fn what_cannot_be_read_is_told_and_recorded_wherever_it_stands() {
    let cases = cases();
    for ((status, method, octets), before) in cases.iter().flat_map(|case| {
        [Before::Nothing, Before::Answered, Before::Asked].map(|before| (case.clone(), before))
    }) {
        let origin = Origin::http(hello).await;
        let arrangement = Arrangement::new(ALLOW_API);
        let lab = arrangement.origin("api.test:80", &origin).lab();
        if before == Before::Nothing && method.is_empty() {
            // The first octets of a connection are told from HTTP elsewhere.
            continue;
        }
        let what = format!("{before:?}: {:.60}", octets);
        let way = Way::to("api.test", 80);
        let (head, told) = told(&lab, way, before, octets.as_bytes()).await;
        let reason = match status {
            "431" => DenyReason::TooLarge,
            _ => DenyReason::MalformedRequest,
        };
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{what}: {head}"
        );
        assert!(head.contains("\r\nproxy-status: gig; "), "{what}: {head}");
        assert!(head.contains("\r\nconnection: close"), "{what}: {head}");
        assert_eq!(told["reason"], reason.as_str(), "{what}");
        assert_eq!(told["host"], "api.test", "{what}");
        assert!(told["hint"].is_string(), "{what}");
        lab.until_denied().await;
        lab.assert_denied_once(reason);
        let entry = lab.records(Event::Request).pop().expect("a record").entry;
        assert_eq!(
            entry.request.as_deref(),
            told["request_id"].as_str(),
            "{what}"
        );
        assert_eq!(entry.host.as_deref(), Some("api.test"), "{what}");
        if before != Before::Asked {
            let path = if method.is_empty() && !octets.contains("/it") {
                ""
            } else {
                "/it"
            };
            let known = |word: &'static str| (!word.is_empty()).then_some(word);
            assert_eq!(told["method"], method, "{what}");
            assert_eq!(told["path"], path, "{what}");
            assert_eq!(entry.method.as_deref(), known(method), "{what}");
            assert_eq!(entry.path.as_deref(), known(path), "{what}");
        }
        let paths: Vec<_> = origin
            .seen
            .requests()
            .iter()
            .map(|got| got.uri.path().to_owned())
            .collect();
        let wanted = if before == Before::Nothing {
            &[][..]
        } else {
            &["/before"]
        };
        assert_eq!(paths, wanted, "{what}");
    }
}

/// What an origin answers is its own, also where it reads like what stands for hyper's words.
#[tokio::test]
async fn what_an_origin_answers_is_not_taken_for_words_of_ours() {
    let own = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let bodies = [
        ("0", String::new()),
        ("4", "none".to_owned()),
        ("chunked", format!("{:x}\r\n{own}\r\n0\r\n\r\n", own.len())),
    ];
    for (length, body) in bodies {
        let field = match length {
            "chunked" => "transfer-encoding: chunked".to_owned(),
            length => format!("content-length: {length}"),
        };
        let answer = format!("HTTP/1.1 400 Bad Request\r\n{field}\r\n\r\n");
        let sent = (answer, body.clone());
        let origin = Origin::raw(move |mut stream, _| {
            let (head, body) = sent.clone();
            async move {
                super::lab::client::read_head(&mut stream).await;
                stream.write_all(head.as_bytes()).await.unwrap();
                // By itself, so that it is written by itself.
                tokio::time::sleep(Duration::from_millis(50)).await;
                stream.write_all(body.as_bytes()).await.unwrap();
            }
        })
        .await;
        let arrangement = Arrangement::new(ALLOW_API);
        let lab = arrangement.origin("api.test:80", &origin).lab();
        let mut stream = lab.connect(Way::to("api.test", 80)).await;
        let request = b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
            "{answer}"
        );
        assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
        assert!(!answer.contains("malformed"), "{answer}");
    }
}
