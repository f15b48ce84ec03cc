//! Where a registry may send gig, and what gig takes along.

use std::net::Ipv4Addr;

use gig_proxy::tls::roots::Roots;
use rcgen::{CertificateParams, KeyPair};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};

use super::*;

fn registry(base: &str) -> Registry {
    Registry {
        fetch: NetworkFetch::new(Roots::none(), None),
        proxy: None,
        base: base.to_owned(),
        at: None,
        repository: "a/b".to_owned(),
        login: None,
        authorization: None,
    }
}

#[test]
fn a_registry_points_to_nothing_weaker_than_itself() {
    let led = |base: &str, url: &str| registry(base).refuse_weaker(url).is_ok();
    assert!(led("https://reg.example", "https://cdn.example/blob"));
    assert!(!led("https://reg.example", "http://cdn.example/blob"));
    assert!(!led("https://reg.example", "http://127.0.0.1/blob"));
    assert!(!led("https://reg.example", "file:///etc/passwd"));
    assert!(!led(
        "https://reg.example",
        "https://user:word@cdn.example/"
    ));
    assert!(led("http://127.0.0.1:5000", "http://127.0.0.1:5001/token"));
    assert!(!led("http://127.0.0.1:5000", "http://10.0.0.1/token"));
    assert!(led("http://reg.example", "http://reg.example/x"));
    assert!(!led("http://reg.example", "http://other.example/x"));
    assert!(!led("http://reg.example", "http://127.0.0.1/x"));
}

#[test]
fn the_origin_of_a_url_ends_before_its_path() {
    assert_eq!(
        origin("https://a.example:5000/v2/x"),
        "https://a.example:5000"
    );
    assert_eq!(origin("http://a.example"), "http://a.example");
}

/// A server on loopback that answers each connection so, and what it was sent by all of them.
async fn server(
    answer: fn(&str) -> String,
) -> (
    u16,
    JoinSet<()>,
    std::sync::Arc<std::sync::Mutex<Vec<String>>>,
) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (mut serving, told) = (JoinSet::new(), std::sync::Arc::clone(&seen));
    serving.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 1 << 14];
            let count = stream.read(&mut buffer).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
            stream.write_all(answer(&text).as_bytes()).await.ok();
            stream.shutdown().await.ok();
            told.lock().unwrap().push(text);
        }
    });
    (port, serving, seen)
}

fn nothing() -> Arriving {
    Arriving::new(To::Memory(Vec::new()), 100)
}

#[tokio::test]
async fn a_registry_of_the_internet_leads_nobody_to_loopback() {
    let (port, _serving, seen) = server(|_| "HTTP/1.1 200 OK\r\n\r\n".to_owned()).await;
    let mut registry = registry("https://registry.example");
    for at in [None, Some("11.0.0.1"), Some("10.0.0.1")] {
        registry.at = at.map(|at| at.parse().unwrap());
        for host in [
            "127.0.0.1",
            "localhost",
            "[::ffff:127.0.0.1]",
            "169.254.169.254",
            "0.0.0.0",
        ] {
            for scheme in ["https", "http"] {
                let target = parse(&format!("{scheme}://{host}:{port}/x")).unwrap();
                let refused = registry.open(&target).await.err().unwrap();
                assert!(refused.contains("points there"), "{host}: {refused}");
            }
        }
    }
    assert_eq!(seen.lock().unwrap().len(), 0);
    // One that is there itself does.
    registry.at = Some(Ipv4Addr::LOCALHOST.into());
    let target = parse(&format!("http://localhost:{port}/x")).unwrap();
    let answer = http::get(registry.open(&target), &target, Vec::new(), &mut nothing()).await;
    assert_eq!(answer.unwrap().status, StatusCode::OK);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_token_that_ends_is_asked_for_anew_once_for_each_request() {
    let (port, _serving, seen) = server(|request| {
        if request.starts_with("GET /token") {
            return "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"token\":\"n\"}".to_owned();
        }
        // Good for the one that follows.
        let good = request.contains("authorization: Bearer n") && !request.contains("/never");
        let status = if good { "200 OK" } else { "401 No" };
        let host = request.split("host: ").nth(1).unwrap_or_default();
        let host = host.lines().next().unwrap_or_default();
        format!(
            "HTTP/1.1 {status}\r\nwww-authenticate: Bearer realm=\"http://{host}/token\"\r\ncontent-length: 0\r\n\r\n"
        )
    })
    .await;
    let mut registry = registry(&format!("http://127.0.0.1:{port}"));
    registry.authorization = Some(HeaderValue::from_static("Bearer old"));
    for _ in 0..2 {
        registry.get("/blob", "*/*", &mut nothing()).await.unwrap();
        registry.authorization = Some(HeaderValue::from_static("Bearer old"));
    }
    // The old token, a new one, and with it.
    assert_eq!(seen.lock().unwrap().len(), 6);
    let refused = registry.get("/never", "*/*", &mut nothing()).await;
    assert!(refused.err().unwrap().to_string().contains("does not give"));
    assert_eq!(seen.lock().unwrap().len(), 9);
}

#[tokio::test]
async fn clear_text_is_for_what_answers_without_tls() {
    let key = KeyPair::generate().unwrap();
    let any = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    let any = any.self_signed(&key).unwrap();
    let roots = Roots::none().with_pem(any.pem().as_bytes()).unwrap();
    let says = async |answer: fn(&str) -> String| {
        let (port, _serving, _) = server(answer).await;
        let target = parse(&format!("https://localhost:{port}")).unwrap();
        speaks_no_tls(&NetworkFetch::new(roots.clone(), None), &target).await
    };
    assert!(says(|_| "HTTP/1.1 400 Bad Request\r\n\r\n".to_owned()).await);
    // A handshake's failure (RFC 8446 section 6), and nothing at all.
    assert!(!says(|_| "\x15\x03\x03\0\x02\x02\x28".to_owned()).await);
    assert!(!says(|_| String::new()).await);
}
