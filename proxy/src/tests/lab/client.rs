//! Clients as programs use them: hyper over rustls, by CONNECT or as if redirected.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full, combinators::BoxBody};
use hyper::{body::Incoming, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{Lab, Way};

pub(in crate::tests) type Body = BoxBody<Bytes, std::io::Error>;

pub(in crate::tests) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}

pub(in crate::tests) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed()
}

pub(in crate::tests) fn get(uri: &str) -> Request<Body> {
    Request::get(uri).body(empty()).unwrap()
}

/// A connection that sends requests.
pub(in crate::tests) enum Client {
    H1(conn::http1::SendRequest<Body>),
    H2(conn::http2::SendRequest<Body>),
}

/// An answer, whole.
#[derive(Debug)]
pub(in crate::tests) struct Answer {
    pub(in crate::tests) status: StatusCode,
    pub(in crate::tests) headers: HeaderMap,
    pub(in crate::tests) body: Bytes,
    pub(in crate::tests) trailers: Option<HeaderMap>,
}

impl Answer {
    pub(in crate::tests) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(in crate::tests) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
}

impl Lab {
    /// TLS with the proxy for `name`, offering `alpn`.
    pub(in crate::tests) async fn tls(
        &self,
        stream: TcpStream,
        name: &str,
        alpn: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.authority.ca_pem().as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    /// An HTTPS client to `host`, as if redirected.
    pub(in crate::tests) async fn https(&self, host: &str, alpn: &str) -> Client {
        let stream = self.connect(Way::to(host, 443)).await;
        let stream = self.tls(stream, host, &[alpn]).await.unwrap();
        self.client(stream, alpn == "h2").await
    }

    /// A client in clear text to `host`, as if redirected.
    pub(in crate::tests) async fn http(&self, host: &str) -> Client {
        let stream = self.connect(Way::to(host, 80)).await;
        self.client(stream, false).await
    }

    pub(in crate::tests) async fn client<S>(&self, stream: S, h2: bool) -> Client
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(stream);
        if h2 {
            let (sender, connection) = conn::http2::handshake(TokioExecutor::new(), io)
                .await
                .unwrap();
            self.tasks.spawn(connection);
            Client::H2(sender)
        } else {
            let (sender, connection) = conn::http1::handshake(io).await.unwrap();
            self.tasks.spawn(connection.with_upgrades());
            Client::H1(sender)
        }
    }

    /// Sends `CONNECT` and reads the answer's header section and body.
    pub(in crate::tests) async fn connect_by_proxy(&self, target: &str) -> (TcpStream, String) {
        let mut stream = self.connect(Way::Explicit).await;
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        (stream, head)
    }
}

/// Reads up to the end of a header section.
pub(in crate::tests) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(octet) => head.push(octet),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// Sends raw octets and reads until the other side closes or says nothing more; `None` at a reset.
pub(in crate::tests) async fn raw(mut stream: TcpStream, octets: &[u8]) -> Option<String> {
    stream.write_all(octets).await.ok()?;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    // A busy machine has long for the first octet; what follows it comes with it.
    let mut silence = std::time::Duration::from_secs(10);
    loop {
        match tokio::time::timeout(silence, stream.read(&mut chunk)).await {
            Ok(Ok(0)) => break,
            Ok(Ok(n)) => {
                answer.extend_from_slice(&chunk[..n]);
                silence = std::time::Duration::from_millis(300);
            }
            Ok(Err(_)) if answer.is_empty() => return None,
            Ok(Err(_)) | Err(_) => break,
        }
    }
    Some(String::from_utf8_lossy(&answer).into_owned())
}

impl Client {
    pub(in crate::tests) async fn start(
        &mut self,
        request: Request<Body>,
    ) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::H1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::H2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    pub(in crate::tests) async fn send(&mut self, request: Request<Body>) -> Answer {
        let response = self.start(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let collected = body.collect().await.unwrap();
        let trailers = collected.trailers().cloned();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: collected.to_bytes(),
            trailers,
        }
    }
}
