//! Connections to console and API: accepted, bounded, served, and let go at the end.
//!
//! Promises that a peer who sends slowly is dropped, that no more than [`MOST`] are served at once, and
//! that a stop lets requests finish for a bounded time. Two doors: a TCP listener for people and
//! programs, and a socket in the data directory for this machine's owner.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
    sync::Semaphore,
    task::JoinSet,
};
use tower::ServiceExt as _;

use crate::{app::App, router};

/// Where requests come in.
#[derive(Debug)]
pub enum Door {
    /// For people and programs.
    Tcp(std::net::TcpListener),
    /// For the owner of the data directory, whom the kernel names.
    Owner(std::os::unix::net::UnixListener),
}

/// Who is at the other end.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// Somebody, by address.
    Network(SocketAddr),
    /// This machine's own user, by name.
    Owner(Arc<str>),
    /// Nobody that we know of.
    Unknown,
}

/// The appliance cannot serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A listener is unusable.
    #[error("cannot serve a listening socket")]
    Listener(#[source] std::io::Error),
}

impl Peer {
    /// Its address, where it has one.
    pub(crate) const fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Network(address) => Some(*address),
            Self::Owner(_) | Self::Unknown => None,
        }
    }
}

/// Serves until `stop` is done, then lets what runs finish for a while.
///
/// # Errors
/// When a listener cannot be served.
pub async fn serve(
    app: Arc<App>,
    doors: Vec<Door>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let router = router::router(app);
    let graceful = GracefulShutdown::new();
    let mut accepting = JoinSet::new();
    let (connections, mut arrived) = tokio::sync::mpsc::channel::<Arrived>(64);
    for door in doors {
        // Each door has places of its own: strangers at one do not keep the owner from the other.
        let (connections, places) = (connections.clone(), Arc::new(Semaphore::new(MOST)));
        let listener = Listener::open(door).map_err(ServeError::Listener)?;
        accepting.spawn(accept(listener, connections, places));
    }
    let mut serving = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(arrived) = arrived.recv() => {
                let service = TowerToHyperService::new(Named { router: router.clone(), peer: arrived.peer });
                let connection = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_WITHIN)
                    .max_buf_size(LONGEST_HEAD)
                    .serve_connection(TokioIo::new(arrived.stream), service);
                let connection = graceful.watch(connection);
                serving.spawn(async move {
                    // A peer that goes away is no news.
                    let _outcome = connection.await;
                    drop(arrived.place);
                });
            }
            Some(_) = serving.join_next() => {}
        }
    }
    accepting.shutdown().await;
    let finished = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    if finished.is_err() {
        tracing::info!("requests were cut because gig goes down");
    }
    serving.shutdown().await;
    Ok(())
}

/// A connection and its place among them.
struct Arrived {
    stream: Box<dyn Stream>,
    peer: Peer,
    place: tokio::sync::OwnedSemaphorePermit,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A door that is open.
enum Listener {
    Tcp(TcpListener),
    Owner(UnixListener),
}

impl Listener {
    fn open(door: Door) -> std::io::Result<Self> {
        match door {
            Door::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::Tcp)
            }
            Door::Owner(listener) => {
                listener.set_nonblocking(true)?;
                UnixListener::from_std(listener).map(Self::Owner)
            }
        }
    }

    /// The next connection; `None` for somebody who is not let in.
    async fn next(&self) -> std::io::Result<Option<(Box<dyn Stream>, Peer)>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok(Some((Box::new(stream), Peer::Network(address))))
            }
            Self::Owner(listener) => {
                let (stream, _) = listener.accept().await?;
                let Some(peer) = owner(&stream) else {
                    tracing::warn!("somebody else than the owner reached gig's own socket");
                    return Ok(None);
                };
                Ok(Some((Box::new(stream), peer)))
            }
        }
    }
}

async fn accept(
    listener: Listener,
    to: tokio::sync::mpsc::Sender<Arrived>,
    places: Arc<Semaphore>,
) {
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.next().await {
            Ok(Some((stream, peer))) => {
                let arrived = Arrived {
                    stream,
                    peer,
                    place,
                };
                if to.send(arrived).await.is_err() {
                    return;
                }
            }
            Ok(None) => {}
            Err(error) => pause(&error).await,
        }
    }
}

/// Root, or whoever runs gig; the kernel says who it is.
fn owner(stream: &UnixStream) -> Option<Peer> {
    let uid = stream.peer_cred().ok()?.uid();
    let own = rustix::process::geteuid().as_raw();
    (uid == 0 || uid == own).then(|| Peer::Owner(format!("uid {uid} on this machine").into()))
}

/// Out of descriptors, mostly: until some are given back.
async fn pause(error: &std::io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// The router, which tells each request who is at the other end.
#[derive(Clone)]
struct Named {
    router: Router,
    peer: Peer,
}

impl tower::Service<Request<Incoming>> for Named {
    type Response = axum::response::Response;
    type Error = std::convert::Infallible;
    type Future = futures_util::future::BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let mut request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(self.peer.clone());
        Box::pin(self.router.clone().oneshot(request))
    }
}

/// People, their browsers' six connections each, and gateways: far below the descriptors of a process.
const MOST: usize = 512;
/// A head that takes longer is not a browser's.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Of a request's head.
const LONGEST_HEAD: usize = 64 * 1024;
/// Requests that run when gig stops may run on for so long.
const DRAIN: Duration = Duration::from_secs(5);
