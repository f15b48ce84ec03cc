//! Origins that count: how many connections, which requests, which octets.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri, Version};
use hyper::{body::Incoming, server, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::task::TaskTracker;

use super::client::{Body, empty};
use crate::{
    http::upgrade,
    tls::{authority_key::Authority, leaf::Minter},
};

pub(in crate::tests) struct Origin {
    pub(in crate::tests) address: SocketAddr,
    pub(in crate::tests) authority: Option<Authority>,
    pub(in crate::tests) seen: Arc<Seen>,
    _tasks: TaskTracker,
}

/// What reached an origin.
#[derive(Default)]
pub(in crate::tests) struct Seen {
    pub(in crate::tests) connections: AtomicUsize,
    pub(in crate::tests) requests: Mutex<Vec<Got>>,
    pub(in crate::tests) octets: Mutex<Vec<u8>>,
}

#[derive(Debug, Clone)]
pub(in crate::tests) struct Got {
    pub(in crate::tests) uri: Uri,
    pub(in crate::tests) version: Version,
    pub(in crate::tests) headers: HeaderMap,
}

impl Got {
    pub(in crate::tests) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
}

impl Seen {
    pub(in crate::tests) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(in crate::tests) fn requests(&self) -> Vec<Got> {
        self.requests.lock().clone()
    }

    pub(in crate::tests) fn text(&self) -> String {
        String::from_utf8_lossy(&self.octets.lock()).into_owned()
    }

    /// Waits until the octets that came are these.
    pub(in crate::tests) async fn until_text(&self, text: &str) {
        let arriving = async {
            while self.text() != text {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let arrived = tokio::time::timeout(Duration::from_secs(60), arriving).await;
        assert!(arrived.is_ok(), "{:?} and not {text:?}", self.text());
    }
}

impl Origin {
    /// HTTP over TLS for `name`, with the application protocols of `alpn`.
    pub(in crate::tests) async fn https<H, F>(name: &str, alpn: &[&str], handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        Self::mutual(name, alpn, WebPkiClientVerifier::no_client_auth(), handler).await
    }

    /// The same, with clients that show a certificate.
    pub(in crate::tests) async fn mutual<H, F>(
        name: &str,
        alpn: &[&str],
        clients: Arc<dyn ClientCertVerifier>,
        handler: H,
    ) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let (acceptor, authority) = acceptor(name, alpn, clients);
        let seen = Arc::new(Seen::default());
        let theirs = Arc::clone(&seen);
        let mut origin = Self::each(seen, move |stream| {
            let (acceptor, seen, handler) =
                (acceptor.clone(), Arc::clone(&theirs), handler.clone());
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    serve(stream, h2, seen, handler).await;
                }
            }
        })
        .await;
        origin.authority = Some(authority);
        origin
    }

    /// TLS for `name`, and within it what `script` wants.
    pub(in crate::tests) async fn tls<S, F>(name: &str, alpn: &[&str], script: S) -> Self
    where
        S: Fn(TlsStream<TcpStream>, Arc<Seen>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let nobody = WebPkiClientVerifier::no_client_auth();
        let (acceptor, authority) = acceptor(name, alpn, nobody);
        let seen = Arc::new(Seen::default());
        let theirs = Arc::clone(&seen);
        let mut origin = Self::each(seen, move |stream| {
            let (acceptor, seen, script) = (acceptor.clone(), Arc::clone(&theirs), script.clone());
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    script(stream, seen).await;
                }
            }
        })
        .await;
        origin.authority = Some(authority);
        origin
    }

    /// HTTP in clear text.
    pub(in crate::tests) async fn http<H, F>(handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let seen = Arc::new(Seen::default());
        let theirs = Arc::clone(&seen);
        Self::each(seen, move |stream| {
            serve(stream, false, Arc::clone(&theirs), handler.clone())
        })
        .await
    }

    /// Octets, as `script` wants them.
    pub(in crate::tests) async fn raw<S, F>(script: S) -> Self
    where
        S: Fn(TcpStream, Arc<Seen>) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let seen = Arc::new(Seen::default());
        let theirs = Arc::clone(&seen);
        Self::each(seen, move |stream| script(stream, Arc::clone(&theirs))).await
    }

    async fn each<S, F>(seen: Arc<Seen>, serve: S) -> Self
    where
        S: Fn(TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tasks = TaskTracker::new();
        let (counted, spawner) = (Arc::clone(&seen), tasks.clone());
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.connections.fetch_add(1, Ordering::SeqCst);
                stream.set_nodelay(true).unwrap();
                spawner.spawn(serve(stream));
            }
        });
        Self {
            address,
            authority: None,
            seen,
            _tasks: tasks,
        }
    }
}

fn acceptor(
    name: &str,
    alpn: &[&str],
    clients: Arc<dyn ClientCertVerifier>,
) -> (TlsAcceptor, Authority) {
    let authority = Authority::generate().unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let minter = Minter::new(authority.clone(), &provider).unwrap();
    let leaf = minter
        .mint(&gig_policy::Host::parse(name).unwrap())
        .unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(leaf)));
    config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), authority)
}

async fn serve<S, H, F>(stream: S, h2: bool, seen: Arc<Seen>, handler: H)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        seen.requests.lock().push(Got {
            uri: request.uri().clone(),
            version: request.version(),
            headers: request.headers().clone(),
        });
        let key = request.headers().get("sec-websocket-key").cloned();
        let answering = handler(request);
        async move {
            let mut answer = answering.await;
            if let Some(accepted) = answer.headers_mut().get_mut("sec-websocket-accept")
                && accepted == PROOF
            {
                *accepted = upgrade::proof(&key.unwrap()).try_into().unwrap();
            }
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let io = TokioIo::new(stream);
    // How a connection ends is for the client to see.
    if h2 {
        let mut builder = server::conn::http2::Builder::new(TokioExecutor::new());
        drop(
            builder
                .enable_connect_protocol()
                .serve_connection(io, service)
                .await,
        );
    } else {
        let builder = server::conn::http1::Builder::new();
        drop(builder.serve_connection(io, service).with_upgrades().await);
    }
}

/// Says hello to everybody.
pub(in crate::tests) async fn hello(_: Request<Incoming>) -> Response<Body> {
    std::future::ready(Response::new(super::client::full(Bytes::from_static(
        b"hello",
    ))))
    .await
}

/// Stands where the proof of a handshake goes.
const PROOF: &str = "x";

/// Agrees to a WebSocket.
pub(in crate::tests) fn switching() -> Response<Body> {
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-accept", PROOF)
        .body(empty())
        .unwrap()
}

/// Sends the body back as it comes, trailers included.
pub(in crate::tests) async fn echo(request: Request<Incoming>) -> Response<Body> {
    use http_body_util::BodyExt;
    let body = request.into_body().map_err(std::io::Error::other).boxed();
    std::future::ready(Response::new(body)).await
}
