//! Of a body that its origin does not read, nothing becomes a request there.
//!
//! The origin answers each header section and takes what follows for the next one, as many do that expect no body;
//! told that a request is the last of its connection, it ends it.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::lab::{Arrangement, Lab, Way, client::raw, origin::Origin};

/// What each of its header sections begins with is kept.
async fn careless(rule: &str) -> (Lab, Origin) {
    let origin = Origin::raw(|mut stream, seen| async move {
        let (mut kept, mut octets) = (Vec::new(), [0; 8192]);
        while let Ok(n @ 1..) = stream.read(&mut octets).await {
            kept.extend_from_slice(&octets[..n]);
            while let Some(at) = kept.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = kept.drain(..at + 4).collect();
                let head = String::from_utf8_lossy(&head).to_lowercase();
                let line = head.lines().next().unwrap_or_default();
                seen.octets
                    .lock()
                    .extend_from_slice(format!("{line}\n").as_bytes());
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                if stream.write_all(answer).await.is_err() || head.contains("connection: close") {
                    return;
                }
            }
        }
    })
    .await;
    let policy = format!(
        "version: 1\negress:\n  - host: api.test\n    ports: [80]\n    allow_private: [127.0.0.0/8]\n{rule}"
    );
    let lab = Arrangement::new(&policy)
        .origin("api.test:80", &origin)
        .lab();
    (lab, origin)
}

/// A request whose body is another one, and one behind it.
fn with_another_inside(method: &str, chunked: bool) -> String {
    let inside = "GET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n";
    let (field, body) = match chunked {
        true => (
            "Transfer-Encoding: chunked".to_owned(),
            format!("{:x}\r\n{inside}\r\n0\r\n\r\n", inside.len()),
        ),
        false => (
            format!("Content-Length: {}", inside.len()),
            inside.to_owned(),
        ),
    };
    format!(
        "{method} /open HTTP/1.1\r\nHost: api.test\r\n{field}\r\n\r\n{body}\
         GET /open?behind HTTP/1.1\r\nHost: api.test\r\n\r\n"
    )
}

#[tokio::test]
async fn what_an_origin_leaves_unread_is_no_request_there() {
    let narrow = "    rules: [{paths: [/open]}]\n";
    // Where every path may be asked for, content that means nothing.
    for (rule, methods) in [
        (narrow, &["GET", "POST", "DELETE", "PUT"][..]),
        ("", &["GET", "DELETE", "OPTIONS"][..]),
    ] {
        for (method, chunked) in methods.iter().flat_map(|one| [(one, false), (one, true)]) {
            let (lab, origin) = careless(rule).await;
            let stream = lab.connect(Way::to("api.test", 80)).await;
            let answer = raw(stream, with_another_inside(method, chunked).as_bytes()).await;
            let answer = answer.unwrap_or_default();
            let seen = origin.seen.text();
            let sent = format!("{} /open http/1.1\n", method.to_lowercase());
            assert!(seen.starts_with(&sent), "{method} {chunked}: {seen}");
            assert!(!seen.contains("smuggled"), "{method} {chunked}: {seen}");
            // What is asked next is answered, by a connection of its own.
            assert!(seen.contains("get /open?behind"), "{method}: {seen}");
            assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
        }
    }
}

/// Nothing is lost where it is not needed: content that means something goes by a connection that is kept.
#[tokio::test]
async fn content_that_any_rule_would_let_pass_costs_no_connection() {
    let origin = Origin::http(super::lab::origin::hello).await;
    let policy =
        "version: 1\negress:\n  - {host: api.test, ports: [80], allow_private: [127.0.0.0/8]}\n";
    let lab = Arrangement::new(policy)
        .origin("api.test:80", &origin)
        .lab();
    let stream = lab.connect(Way::to("api.test", 80)).await;
    let one = "POST /a HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2\r\n\r\nhi";
    let answer = raw(stream, format!("{one}{one}").as_bytes()).await.unwrap();
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert_eq!(
        origin
            .seen
            .connections
            .load(std::sync::atomic::Ordering::SeqCst),
        1
    );
}
