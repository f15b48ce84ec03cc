//! Exchanges with servers on loopback that answer well, badly, too much, or not at all.

use std::sync::Arc;

use gig_vault::FetchMethod;
use rcgen::{CertificateParams, KeyPair};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::*;

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Reads a request with its body, answers, closes.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &[u8]) -> String {
    let mut seen = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&seen).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse::<usize>().unwrap());
            if body.len() >= length {
                stream.write_all(answer).await.unwrap();
                stream.shutdown().await.ok();
                return text;
            }
        }
        let mut buffer = [0; 1024];
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the request ended early: {text}");
        seen.extend_from_slice(&buffer[..count]);
    }
}

/// Runs beside the test, and ends with it.
fn serving<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinSet<T> {
    let mut served = JoinSet::new();
    served.spawn(future);
    served
}

async fn end<T: 'static>(mut served: JoinSet<T>) -> T {
    served.join_next().await.unwrap().unwrap()
}

async fn plain(answer: &'static [u8]) -> (JoinSet<String>, u16) {
    let (listener, port) = listen().await;
    let served = serving(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream, answer).await
    });
    (served, port)
}

fn fetch() -> NetworkFetch {
    NetworkFetch::new(Roots::none(), None)
}

#[tokio::test]
async fn a_request_arrives_as_it_was_made() {
    let answer = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 2\r\n\r\nok";
    let (served, port) = plain(answer).await;
    let url = format!("http://127.0.0.1:{port}/v1/a?b=c#d");
    let request = FetchRequest::new(FetchMethod::Post, url)
        .header("x-vault-token", "hvs.x")
        .body("application/json", "{}");
    let answer = fetch().fetch(request).await.unwrap();
    assert_eq!(
        (answer.status, answer.header("location")),
        (302, Some("/elsewhere"))
    );
    assert_eq!(answer.body, SecretBytes::from("ok"));
    let seen = end(served).await;
    assert!(seen.starts_with("POST /v1/a?b=c HTTP/1.1\r\n"), "{seen}");
    for line in [
        "x-vault-token: hvs.x",
        "content-type: application/json",
        "content-length: 2",
    ] {
        assert!(seen.contains(line), "{seen}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_or_late_or_none_is_refused() {
    let (_served, port) = plain(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789").await;
    let mut request = FetchRequest::new(FetchMethod::Get, format!("http://127.0.0.1:{port}/"));
    request.largest = 8;
    assert!(matches!(
        fetch().fetch(request).await,
        Err(FetchError::Large { .. })
    ));

    let (listener, port) = listen().await;
    let mut request = FetchRequest::new(FetchMethod::Get, format!("http://127.0.0.1:{port}/"));
    request.deadline = Duration::from_millis(50);
    assert!(matches!(
        fetch().fetch(request).await,
        Err(FetchError::Slow { .. })
    ));
    drop(listener);

    let request = FetchRequest::new(FetchMethod::Get, format!("http://127.0.0.1:{port}/"));
    assert!(matches!(
        fetch().fetch(request).await,
        Err(FetchError::Connect { .. })
    ));
    for url in [
        "ftp://a.example/",
        "https://user:pass@a.example/",
        "https://",
        "a.example",
    ] {
        let request = FetchRequest::new(FetchMethod::Get, url);
        assert!(
            matches!(
                fetch().fetch(request).await,
                Err(FetchError::Request { .. })
            ),
            "{url}"
        );
    }
    let request =
        FetchRequest::new(FetchMethod::Get, "http://127.0.0.1:1/").header("a", "b\r\nc: d");
    assert!(matches!(
        fetch().fetch(request).await,
        Err(FetchError::Request { .. })
    ));
}

#[tokio::test]
async fn a_certificate_is_verified_against_the_roots_of_the_request() {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(
        vec![certificate.der().clone()],
        rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
    )
    .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (listener, port) = listen().await;
    let served = serving(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // Who does not trust the certificate hangs up.
            if let Ok(stream) = acceptor.accept(stream).await {
                return serve(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            }
        }
    });
    let request = || FetchRequest::new(FetchMethod::Get, format!("https://localhost:{port}/x"));
    let untrusted = NetworkFetch::new(Roots::system(), None)
        .fetch(request())
        .await;
    assert!(
        matches!(untrusted, Err(FetchError::Connect { .. })),
        "{untrusted:?}"
    );
    let mut trusting = request();
    trusting.roots = Some(certificate.pem().into_bytes().into());
    let answer = fetch().fetch(trusting).await.unwrap();
    assert_eq!(answer.status, 200);
    assert!(end(served).await.starts_with("GET /x "));
}

#[tokio::test]
async fn the_hosts_own_proxy_is_used() {
    let (listener, port) = listen().await;
    let served = serving(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            seen.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let inside = serve(stream, b"HTTP/1.1 204 No Content\r\n\r\n").await;
        (String::from_utf8(seen).unwrap(), inside)
    });
    let variable = |name: &str| (name == "HTTPS_PROXY").then(|| format!("http://127.0.0.1:{port}"));
    let proxy = UpstreamProxy::from_env(variable).unwrap();
    let fetch = NetworkFetch::new(Roots::none(), proxy);
    let request = FetchRequest::new(FetchMethod::Get, "http://kv.example:8200/v1/x");
    assert_eq!(fetch.fetch(request).await.unwrap().status, 204);
    let (outside, inside) = end(served).await;
    assert!(
        outside.starts_with("CONNECT kv.example:8200 HTTP/1.1\r\n"),
        "{outside}"
    );
    assert!(inside.starts_with("GET /v1/x HTTP/1.1\r\n"), "{inside}");
}

/// What goes out through a proxy, and that.
async fn with_a_proxy() -> (TcpListener, NetworkFetch) {
    let (proxy, asked) = listen().await;
    let set = |name: &str| (name == "HTTPS_PROXY").then(|| format!("http://127.0.0.1:{asked}"));
    let through = UpstreamProxy::from_env(set).unwrap().unwrap();
    let fetch = NetworkFetch::new(Roots::none(), Some(through));
    (proxy, fetch)
}

async fn assert_not_asked(proxy: &TcpListener) {
    let waiting = tokio::time::timeout(Duration::from_millis(50), proxy.accept()).await;
    assert!(waiting.is_err(), "the proxy was asked");
}

#[tokio::test]
async fn this_machines_own_names_are_never_asked_of_a_proxy() {
    let (proxy, fetch) = with_a_proxy().await;
    for host in ["localhost", "LOCALHOST", "127.0.0.1"] {
        let (served, port) = plain(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        let request = FetchRequest::new(FetchMethod::Get, format!("http://{host}:{port}/"));
        let answer = fetch.fetch(request).await.unwrap();
        assert_eq!(answer.status, 200, "{host}");
        assert!(end(served).await.starts_with("GET / "));
    }
    assert_not_asked(&proxy).await;
}

#[tokio::test]
async fn no_proxy_is_asked_for_the_core_that_nothing_opens() {
    let (proxy, fetch) = with_a_proxy().await;
    for host in [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "metadata.google.internal",
    ] {
        let request = FetchRequest::new(FetchMethod::Get, format!("http://{host}/token"));
        let error = fetch.fetch(request).await.unwrap_err().to_string();
        assert!(error.contains("never opened"), "{host}: {error}");
    }
    assert_not_asked(&proxy).await;
}

#[test]
fn the_core_that_nothing_opens_is_not_asked_for_a_token() {
    for (address, is_core) in [
        ("169.254.169.254", true),
        ("::ffff:169.254.169.254", true),
        ("fd00:ec2::254", true),
        ("127.0.0.1", false),
        ("10.1.2.3", false),
        ("192.0.2.1", false),
    ] {
        let ip: IpAddr = address.parse().unwrap();
        assert_eq!(never_open(ip).is_some(), is_core, "{address}");
    }
}
