//! Connections to console and API: accepted, bounded, served, and let go at the end.
//!
//! Promises that a peer who sends slowly or reads nothing is dropped, that no connection lives for ever,
//! that no more than [`MOST`] are served at once, not all of them from one place, and that a stop lets
//! requests finish for a bounded time. Two doors: a TCP listener for people and programs, in clear text or by
//! TLS, and a socket in the data directory for this machine's owner. HTTP/1.1 alone is spoken: the deadlines
//! of heads, and that a request has a connection to itself, rest on it.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use futures_util::future::BoxFuture;
use http::Request;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use thiserror::Error;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{
    app::App,
    auth::limits::network,
    counts::{Counts, Place},
    router, webhooks,
};

mod door;
mod owner;

pub use door::Door;
use door::{Knocking, Listener, Stream};
pub use owner::local_user;

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
    let router = router::router(Arc::clone(&app));
    let stopping = CancellationToken::new();
    let mut accepting = JoinSet::new();
    let (connections, mut arrived) = tokio::sync::mpsc::channel::<Arrived>(64);
    for door in doors {
        // Each door has places of its own: strangers at one do not keep the owner from the other.
        let (connections, places) = (connections.clone(), Arc::new(Semaphore::new(MOST)));
        let listener = Listener::open(door).map_err(ServeError::Listener)?;
        let crowds = Crowds::new(&app);
        accepting.spawn(accept(listener, connections, (places, crowds)));
    }
    let mut serving = JoinSet::new();
    if let Some(fresh) = app.held.fresh() {
        serving.spawn(webhooks::tell(Arc::clone(&app), fresh, stopping.clone()));
    }
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(arrived) = arrived.recv() => {
                serving.spawn(attend(arrived, router.clone(), stopping.clone()));
            }
            Some(_) = serving.join_next() => {}
        }
    }
    accepting.shutdown().await;
    app.feed.close();
    app.mcp.close();
    stopping.cancel();
    let finishing = async { while serving.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, finishing).await.is_err() {
        tracing::info!("requests were cut because gig goes down");
    }
    serving.shutdown().await;
    Ok(())
}

/// Serves who has arrived, from the handshake on.
async fn attend(arrived: Arrived, router: Router, stopping: CancellationToken) {
    let Arrived {
        stream,
        peer,
        places,
    } = arrived;
    let opened = tokio::select! {
        opened = stream.open() => opened,
        () = stopping.cancelled() => None,
    };
    if let Some(stream) = opened {
        let service = TowerToHyperService::new(Named { router, peer });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_buf_size(LONGEST_HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        live(connection, stopping).await;
    }
    drop(places);
}

/// One that may become a WebSocket.
type Connection = hyper::server::conn::http1::UpgradeableConnection<
    TokioIo<Box<dyn Stream>>,
    TowerToHyperService<Named>,
>;

/// Serves a connection until it ends, becomes something else or has lived long enough; when gig stops, the
/// request that runs is its last.
async fn live(connection: Connection, stopping: CancellationToken) {
    let mut connection = std::pin::pin!(connection);
    let served = async {
        tokio::select! {
            _ended = &mut connection => return,
            () = stopping.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        // A peer that goes away is no news.
        let _outcome = connection.await;
    };
    let _late = tokio::time::timeout(LIFE, served).await;
}

/// A connection and its places: among all, and among those from where it comes.
struct Arrived {
    stream: Knocking,
    peer: Peer,
    places: (OwnedSemaphorePermit, Option<Place<IpAddr>>),
}

/// How many come from where.
struct Crowds {
    /// These speak for many.
    front: Arc<App>,
    counts: Counts<IpAddr>,
}

impl Crowds {
    fn new(app: &Arc<App>) -> Self {
        Self {
            front: Arc::clone(app),
            counts: Counts::default(),
        }
    }

    /// A place for somebody from there; `Err` where all that may come from there have come. This machine
    /// and what stands in front of gig have all the places there are.
    fn enter(&self, peer: &Peer) -> Result<Option<Place<IpAddr>>, Full> {
        let Some(address) = peer.address().map(|address| address.ip().to_canonical()) else {
            return Ok(None);
        };
        if address.is_loopback() || self.front.is_front(address) {
            return Ok(None);
        }
        // The door has a bound of its own for all.
        let place = self.counts.take(network(address), MOST_OF_ONE, usize::MAX);
        place.map(Some).ok_or(Full)
    }
}

/// As many as may have come from one network.
#[derive(Debug)]
struct Full;

async fn accept(
    listener: Listener,
    to: tokio::sync::mpsc::Sender<Arrived>,
    (places, crowds): (Arc<Semaphore>, Crowds),
) {
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.next().await {
            Ok(Some((stream, peer))) => {
                // Who finds no place is let go at once: a queue would hold the door for all.
                let Ok(crowd) = crowds.enter(&peer) else {
                    continue;
                };
                let arrived = Arrived {
                    stream,
                    peer,
                    places: (place, crowd),
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
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

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
/// Of those, from one IPv4 address or one /64: several browsers behind one address.
const MOST_OF_ONE: usize = 64;
/// Longer than anybody looks at one page; what follows events comes again.
const LIFE: Duration = Duration::from_hours(1);
/// A head that takes longer is not a browser's.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Of a request's head.
const LONGEST_HEAD: usize = 64 * 1024;
/// Requests that run when gig stops may run on for so long.
const DRAIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
