//! Exchanges with servers on loopback, open and closed, in the clear and by TLS.

use std::{net::SocketAddr, time::Duration};

use gig_proxy::NeverOpen;
use rcgen::{CertificateParams, KeyPair};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that answers one request so and tells what it was sent.
async fn origin(answer: &'static str, tls: Option<TlsAcceptor>) -> (SocketAddr, JoinSet<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let mut served = JoinSet::new();
    served.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        match tls {
            None => serve(stream, answer).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => serve(stream, answer).await,
                Err(_) => String::new(),
            },
        }
    });
    (at, served)
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> String {
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") && !seen.ends_with(b"body") {
        let mut buffer = [0; 1024];
        match stream.read(&mut buffer).await.unwrap() {
            0 => break,
            count => seen.extend_from_slice(&buffer[..count]),
        }
    }
    // Whoever was refused has gone.
    stream.write_all(answer.as_bytes()).await.ok();
    stream.shutdown().await.ok();
    String::from_utf8(seen).unwrap()
}

fn outbound(private: &[&str], roots: Roots, listeners: &[SocketAddr]) -> NetworkOutbound {
    let settings = DialerSettings {
        overrides: Vec::new(),
        upstream_proxy: None,
        never_open: NeverOpen {
            listeners: listeners.to_vec(),
            ..NeverOpen::default()
        },
        deadlines: Deadlines::DEFAULT,
    };
    let private = private.iter().map(|range| (*range).to_owned()).collect();
    NetworkOutbound::with(settings, roots, private)
}

fn loopback() -> NetworkOutbound {
    outbound(&["127.0.0.0/8"], Roots::none(), &[])
}

async fn get(outbound: &NetworkOutbound, url: String) -> Answered {
    outbound.send(OutboundRequest::get(url)).await
}

#[tokio::test]
async fn a_private_address_is_asked_only_where_it_is_open() {
    let (at, mut served) = origin(OK, None).await;
    let url = format!("http://{at}/hook?a=b#c");
    let closed = outbound(&[], Roots::none(), &[]);
    let elsewhere = outbound(&["10.0.0.0/8"], Roots::none(), &[]);
    for shut in [closed, elsewhere] {
        let refused = get(&shut, url.clone()).await.unwrap_err();
        assert!(
            matches!(refused, OutboundError::Private { .. }),
            "{refused}"
        );
    }
    let request = OutboundRequest::post(url, "text/plain", Bytes::from("body"));
    let answer = loopback().send(request).await.unwrap();
    assert_eq!(
        (answer.status.as_u16(), &answer.body[..]),
        (200, &b"ok"[..])
    );
    // It is the first that it saw.
    let seen = served.join_next().await.unwrap().unwrap();
    assert!(seen.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("content-type: text/plain\r\n"), "{seen}");
}

#[tokio::test]
async fn gig_itself_and_metadata_services_are_asked_by_nobody() {
    let (at, _served) = origin(OK, None).await;
    let ours = outbound(&["127.0.0.0/8"], Roots::none(), &[at]);
    for url in [
        format!("http://{at}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "https://[fd00:ec2::254]/".to_owned(),
    ] {
        let refused = get(&ours, url.clone()).await.unwrap_err();
        let never = matches!(refused, OutboundError::NeverOpenable { .. });
        assert!(never, "{url}: {refused}");
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (other, mut unasked) = origin(OK, None).await;
    let moved =
        format!("HTTP/1.1 302 Found\r\nLocation: http://{other}/\r\nContent-Length: 0\r\n\r\n");
    let (at, _served) = origin(Box::leak(moved.into_boxed_str()), None).await;
    let answer = get(&loopback(), format!("http://{at}/")).await.unwrap();
    assert_eq!(answer.status.as_u16(), 302);
    assert!(unasked.try_join_next().is_none());
}

#[tokio::test]
async fn answers_that_are_too_large_late_or_none_are_errors() {
    let (at, _served) = origin(
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789",
        None,
    )
    .await;
    let mut request = OutboundRequest::get(format!("http://{at}/"));
    request.largest = 8;
    let large = loopback().send(request).await.unwrap_err();
    assert!(matches!(large, OutboundError::Large { largest: 8, .. }));

    let (at, _served) = origin("SSH-2.0-server\r\n", None).await;
    let none = get(&loopback(), format!("http://{at}/")).await.unwrap_err();
    assert!(matches!(none, OutboundError::Exchange { .. }), "{none}");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let mut request = OutboundRequest::get(format!("http://{at}/"));
    request.deadline = Duration::from_millis(50);
    let late = loopback().send(request).await.unwrap_err();
    assert!(matches!(late, OutboundError::Slow { .. }), "{late}");
    drop(listener);
    let nobody = get(&loopback(), format!("http://{at}/")).await.unwrap_err();
    assert!(
        matches!(nobody, OutboundError::Unreached { .. }),
        "{nobody}"
    );
    assert!(!nobody.to_string().contains("refused:"), "{nobody}");
}

#[tokio::test]
async fn a_certificate_is_checked_against_the_roots_that_were_named() {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(
        vec![certificate.der().clone()],
        key.serialize_der().try_into().unwrap(),
    )
    .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let trusting = Roots::none()
        .with_pem(certificate.pem().as_bytes())
        .unwrap();
    let another = CertificateParams::new(vec!["other.example".to_owned()]).unwrap();
    let another = another.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let other = Roots::none().with_pem(another.pem().as_bytes()).unwrap();

    let (at, _served) = origin(OK, Some(acceptor.clone())).await;
    let trusted = outbound(&["127.0.0.0/8"], trusting, &[]);
    let answer = get(&trusted, format!("https://{at}/")).await.unwrap();
    assert_eq!(answer.status.as_u16(), 200);
    let (at, _served) = origin(OK, Some(acceptor)).await;
    let distrusting = outbound(&["127.0.0.0/8"], other, &[]);
    let refused = get(&distrusting, format!("https://{at}/"))
        .await
        .unwrap_err();
    let word = "tls_certificate";
    assert!(matches!(refused, OutboundError::Unreached { word: w, .. } if w == word));
}

#[tokio::test]
async fn what_is_no_url_of_a_place_is_refused_before_anything_is_asked() {
    for url in [
        "ftp://a.example/",
        "file:///etc/passwd",
        "https://user:pass@a.example/",
        "https:///",
        "https://*.example.com/",
        "https://a.example:0/",
        "https://a.example/\r\nX: y",
    ] {
        let refused = get(&loopback(), url.to_owned()).await.unwrap_err();
        assert!(matches!(refused, OutboundError::Url(_)), "{url}: {refused}");
    }
}

#[test]
fn what_can_never_be_reached_is_known_from_its_url() {
    let said = |private: &[&str], url: &str| {
        let outbound = outbound(private, Roots::none(), &[]);
        outbound.refuses(url).map(|error| error.to_string())
    };
    for (url, why) in [
        ("ftp://a.example/", "neither https:// nor http://"),
        ("https://u:p@a.example/", "credentials"),
        ("https:///x", "names no host"),
        ("https://169.254.169.254/x", "nothing opens"),
        ("https://10.1.2.3/x", "--outbound-private"),
        ("https://[::1]:8443/x", "not public"),
        ("http://8.8.8.8/x", "https://"),
        ("http://hooks.example/x", "https://"),
    ] {
        let said = said(&[], url).unwrap_or_default();
        assert!(said.contains(why), "{url}: {said}");
    }
    for url in ["https://8.8.8.8/x", "https://hooks.example/x"] {
        assert_eq!(said(&[], url), None, "{url}");
    }
    for url in ["http://10.1.2.3:8080/x", "http://hooks.example/x"] {
        assert_eq!(said(&["10.0.0.0/8"], url), None, "{url}");
    }
}
