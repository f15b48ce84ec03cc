//! What is allowed goes, in every pairing of protocols.

use std::time::Duration;

use bytes::Bytes;
use gig_audit::{Event, VerdictWord};
use gig_policy::DenyReason;
use http::{Method, Request, Response, StatusCode, Version};
use tokio::io::AsyncWriteExt as _;

use super::lab::{
    ALLOW_API, Arrangement, Way,
    client::{empty, full, get, read_head},
    origin::{Origin, hello},
};

#[tokio::test]
async fn allowed_request_goes_by_connect_and_is_recorded_before_and_after() {
    let origin = Origin::https("api.test", &["h2", "http/1.1"], hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    let (stream, head) = lab.connect_by_proxy("api.test:443").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let stream = lab.tls(stream, "api.test", &["http/1.1"]).await.unwrap();
    let mut client = lab.client(stream, false).await;
    let request = Request::get("/some/path?query=secret")
        .header("host", "api.test")
        .body(empty())
        .unwrap();
    let answer = client.send(request).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.body, "hello");
    let seen = origin.seen.requests();
    assert_eq!(seen[0].uri, "/some/path?query=secret");
    assert_eq!(seen[0].headers["host"], "api.test");
    assert!(!seen[0].headers.contains_key("via"));

    let response = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(response.entry.status, Some(200));
    assert_eq!(response.entry.bytes_in, Some(5));
    assert_eq!(response.entry.dst_ip, Some([127, 0, 0, 1].into()));
    let connect = lab.records(Event::Connect).remove(0);
    let request = lab.records(Event::Request).remove(0);
    assert_eq!(request.entry.verdict, Some(VerdictWord::Allow));
    assert_eq!(request.entry.path.as_deref(), Some("/some/path"));
    assert_eq!(request.entry.method.as_deref(), Some("GET"));
    assert!(connect.seq < request.seq && request.seq < response.seq);
}

#[tokio::test]
async fn every_pairing_of_http_versions_passes() {
    for (client, origin_alpn) in [
        ("http/1.1", "http/1.1"),
        ("http/1.1", "h2"),
        ("h2", "http/1.1"),
        ("h2", "h2"),
    ] {
        let origin = Origin::https("api.test", &[origin_alpn], hello).await;
        let lab = Arrangement::new(ALLOW_API)
            .origin("api.test:443", &origin)
            .lab();
        let mut client_conn = lab.https("api.test", client).await;
        for _ in 0..3 {
            let answer = client_conn.send(get_on(client, "/")).await;
            assert_eq!(answer.body, "hello", "{client} to {origin_alpn}");
        }
        let spoken = origin.seen.requests()[0].version;
        assert_eq!(spoken == Version::HTTP_2, origin_alpn == "h2");
        // A refused offer costs one connection more, and never again.
        assert!(origin.seen.connections() <= 2, "{client} to {origin_alpn}");
    }
}

/// HTTP/1 wants a Host, HTTP/2 an authority.
pub(super) fn get_on(protocol: &str, path: &str) -> Request<super::lab::client::Body> {
    if protocol == "h2" {
        return get(&format!("https://api.test{path}"));
    }
    let mut request = get(path);
    request
        .headers_mut()
        .insert("host", "api.test".parse().unwrap());
    request
}

#[tokio::test]
async fn connections_to_an_origin_are_kept_for_the_next_client_connection() {
    let origin = Origin::https("api.test", &["http/1.1"], hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    for _ in 0..4 {
        let mut client = lab.https("api.test", "http/1.1").await;
        assert_eq!(client.send(get_on("http/1.1", "/")).await.body, "hello");
    }
    assert_eq!(origin.seen.connections(), 1);
}

#[tokio::test]
async fn a_kept_connection_that_died_is_replaced() {
    let origin = Origin::raw(|mut stream, _| async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        // Answers one request, then closes without a word.
        let mut request = [0; 4096];
        if stream.read(&mut request).await.unwrap_or(0) > 0 {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await
                .unwrap();
        }
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut client = lab.http("api.test").await;
    for _ in 0..5 {
        let answer = client.send(get_on("http/1.1", "/")).await;
        assert_eq!(answer.status, StatusCode::OK);
    }
    assert_eq!(origin.seen.connections(), 5);
}

#[tokio::test]
async fn absolute_form_and_clear_text_pass() {
    let origin = Origin::http(hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let stream = lab.connect(Way::Explicit).await;
    let mut client = lab.client(stream, false).await;
    let mut request = get("http://api.test/plain");
    request
        .headers_mut()
        .insert("host", "api.test".parse().unwrap());
    request
        .headers_mut()
        .insert("proxy-connection", "keep-alive".parse().unwrap());
    assert_eq!(client.send(request).await.body, "hello");
    let mut client = lab.http("api.test").await;
    assert_eq!(client.send(get_on("http/1.1", "/two")).await.body, "hello");
    let seen = origin.seen.requests();
    assert_eq!(seen[0].uri, "/plain");
    assert!(!seen[0].headers.contains_key("proxy-connection"));
    assert_eq!(seen[1].uri, "/two");
}

/// As axios asks a proxy: for `https` itself, without CONNECT. gig opens TLS to the origin.
#[tokio::test]
async fn absolute_form_for_https_goes_on_by_tls_and_is_decided_as_https() {
    let secure = Origin::https("api.test", &["http/1.1"], hello).await;
    let clear = Origin::http(hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &secure)
        .origin("api.test:80", &clear)
        .lab();
    let stream = lab.connect(Way::Explicit).await;
    let mut client = lab.client(stream, false).await;
    for target in [
        "https://api.test/one",
        "http://api.test/two",
        "https://api.test:443/three",
    ] {
        let mut request = get(target);
        let host = target.split('/').nth(2).unwrap();
        request.headers_mut().insert("host", host.parse().unwrap());
        assert_eq!(client.send(request).await.body, "hello");
    }
    let seen = |origin: &Origin| {
        let seen = origin.seen.requests();
        seen.iter()
            .map(|seen| seen.uri.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(seen(&secure), ["/one", "/three"]);
    assert_eq!(seen(&clear), ["/two"]);
    let recorded = lab.records(Event::Request);
    let recorded = recorded.iter().map(|record| {
        let entry = &record.entry;
        (entry.protocol.as_deref().unwrap().to_owned(), entry.port)
    });
    let https = ("https".to_owned(), Some(443));
    let http = ("http".to_owned(), Some(80));
    assert_eq!(recorded.collect::<Vec<_>>(), [https.clone(), http, https]);
}

/// As node's `http` does by itself, and tunnel-agent with it: the Host is that of the proxy.
#[tokio::test]
async fn a_host_that_names_the_proxy_itself_says_nothing() {
    let clear = Origin::http(hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &clear)
        .lab();
    for (line, host, answer) in [
        ("CONNECT api.test:80", "127.0.0.1:8081", "HTTP/1.1 200"),
        ("CONNECT api.test:80", "127.0.0.1", "HTTP/1.1 200"),
        ("GET http://api.test/", "127.0.0.1:8081", "HTTP/1.1 200"),
        ("GET http://api.test/", "127.0.0.1:81", "HTTP/1.1 421"),
        ("CONNECT api.test:80", "other.test:80", "HTTP/1.1 421"),
    ] {
        let mut stream = lab.connect(Way::Explicit).await;
        let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.starts_with(answer), "{line} {host}: {head}");
    }
    let seen = clear.seen.requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].headers["host"], "api.test");
}

#[tokio::test]
async fn raw_address_with_a_name_in_host_is_decided_and_dialled_by_name() {
    let origin = Origin::http(hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let stream = lab.connect(Way::to("203.0.113.9", 80)).await;
    let mut client = lab.client(stream, false).await;
    assert_eq!(client.send(get_on("http/1.1", "/")).await.body, "hello");
    let connect = lab.records(Event::Connect).remove(0);
    assert_eq!(connect.entry.host.as_deref(), Some("api.test"));
}

#[tokio::test]
async fn head_no_content_and_not_modified_have_no_body_and_keep_the_connection() {
    let origin = Origin::http(|request: Request<_>| async move {
        let status = match request.uri().path() {
            "/204" => StatusCode::NO_CONTENT,
            "/304" => StatusCode::NOT_MODIFIED,
            _ => StatusCode::OK,
        };
        let body = if request.method() == Method::HEAD || status != StatusCode::OK {
            empty()
        } else {
            full("12345")
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        if request.method() == Method::HEAD {
            response
                .headers_mut()
                .insert("content-length", "5".parse().unwrap());
        }
        response
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut client = lab.http("api.test").await;
    let mut head = get_on("http/1.1", "/");
    *head.method_mut() = Method::HEAD;
    let answer = client.send(head).await;
    assert_eq!(answer.header("content-length"), "5");
    assert_eq!(answer.body, "");
    for (path, status) in [("/204", 204), ("/304", 304), ("/", 200)] {
        let answer = client.send(get_on("http/1.1", path)).await;
        assert_eq!(answer.status.as_u16(), status);
    }
    assert_eq!(origin.seen.connections(), 1);
}

#[tokio::test]
async fn sandbox_that_is_closed_has_no_connection_left_anywhere() {
    let origin = Origin::http(|_| async {
        let (_keep, body) = http_body_util::channel::Channel::<Bytes, std::io::Error>::new(1);
        tokio::time::sleep(Duration::from_secs(300)).await;
        Response::new(http_body_util::BodyExt::boxed(body))
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut client = lab.http("api.test").await;
    let waiting = client.start(get_on("http/1.1", "/"));
    let closing = async {
        lab.until_records(Event::Request, 1).await;
        tokio::time::timeout(Duration::from_secs(60), lab.subject.close())
            .await
            .expect("every guard is given up");
    };
    let (answer, ()) = tokio::join!(waiting, closing);
    assert!(answer.is_err() || !answer.unwrap().status().is_success());
    let response = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(response.entry.reason, Some(DenyReason::ShuttingDown));
}
