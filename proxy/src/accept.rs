//! Takes connections in and gives each to a thread and to its sandbox.
//!
//! Every thread accepts on its own handle of the same sockets; a thread that holds more connections
//! than another hands the next one over. Whose a connection is follows from the socket that it came by and
//! its source address, and is found as it comes out of the socket: it stays that sandbox's wherever it goes then.
//! An address that is nobody's is dropped; a sandbox over its limit is refused, and that is recorded.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use gig_policy::{AppProtocol, DenyReason, Handling, Host, Port, Verdict};
use rustix::io::Errno;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use crate::{
    authority::Destination,
    caller::Caller,
    connection,
    enforce::connect::{Attempt, refuse_connect},
    http::refuse::proxy_status,
    queues::accept_waiting,
    subject::{Arriving, Subject},
    worker::{Identities, Worker},
};

/// By which door a connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// It was redirected.
    Redirect,
    /// It came to the explicit proxy.
    Explicit,
}

/// Sockets of one network: whose their connections are, and where its explicit proxy is.
pub struct Entrance {
    /// Finds who calls.
    pub identity: Identities,
    /// The explicit proxy's port, as sandboxes know it.
    pub explicit_port: Port,
    /// Takes no more when this is cancelled.
    pub closed: CancellationToken,
}

impl fmt::Debug for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entrance")
            .field("explicit_port", &self.explicit_port)
            .finish_non_exhaustive()
    }
}

/// A connection on its way to another thread.
#[derive(Debug)]
pub struct Handed {
    stream: std::net::TcpStream,
    arrived: Arrived,
}

/// What is known of a connection that came out of a socket.
#[derive(Debug, Clone)]
struct Arrived {
    arriving: Arriving,
    source: SocketAddr,
    door: Door,
    entrance: Arc<Entrance>,
}

/// What an accept loop knows of all threads.
#[derive(Debug, Clone)]
pub struct Crew {
    /// This thread.
    pub worker: Arc<Worker>,
    /// All of them, this one included, with the way to each.
    pub others: Arc<[(Arc<Worker>, mpsc::Sender<Handed>)]>,
}

/// Accepts until the entrance is closed, as it is when gig goes down.
pub async fn accept(crew: Crew, listener: Arc<TcpListener>, door: Door, entrance: Arc<Entrance>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = entrance.closed.cancelled() => return,
        };
        match accepted {
            Ok((stream, source)) => crew.take_in(stream, (source, door), &entrance),
            Err(error) if is_gone(&error) => {
                tracing::warn!(%error, "a listener was closed by somebody else");
                return entrance.closed.cancel();
            }
            Err(error) => {
                // Out of descriptors, or the peer is gone already: neither is helped by haste.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
}

/// Whether it will never accept again: whoever administers a network that gig did not make can destroy its
/// sockets.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::INVAL, Errno::BADF, Errno::NOTSOCK].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|number| gone.contains(&number))
}

/// Takes in what other threads hand over.
pub async fn take_over(crew: Crew, mut handed: mpsc::Receiver<Handed>) {
    loop {
        let one = tokio::select! {
            one = handed.recv() => one,
            () = crew.worker.drain.cancelled() => return,
        };
        let Some(one) = one else { return };
        match TcpStream::from_std(one.stream) {
            Ok(stream) => admit(&crew, stream, one.arrived),
            Err(error) => tracing::warn!(%error, "a connection could not be handed over"),
        }
    }
}

impl Crew {
    /// Finds whose it is, and gives it to the thread that serves it.
    fn take_in(
        &self,
        stream: TcpStream,
        (source, door): (SocketAddr, Door),
        entrance: &Arc<Entrance>,
    ) {
        let subject = match source.ip().to_canonical() {
            IpAddr::V4(source) => entrance.identity.subject(source),
            IpAddr::V6(_) => None,
        };
        let Some(subject) = subject else {
            tracing::error!(%source, "a connection from nobody's address was dropped");
            return;
        };
        let arrived = Arrived {
            arriving: subject.arriving(),
            source,
            door,
            entrance: Arc::clone(entrance),
        };
        if let Some(here) = self.hand_over(stream, &arrived) {
            admit(self, here, arrived);
        }
    }

    /// Takes in what waits at a door: see [`crate::queues`].
    pub(crate) async fn empty(&self, listener: &TcpListener, door: Door, entrance: &Arc<Entrance>) {
        let take = |stream, source| match TcpStream::from_std(stream) {
            Ok(stream) => self.take_in(stream, (source, door), entrance),
            // That one alone is lost.
            Err(error) => tracing::warn!(%error, "a connection could not be taken in"),
        };
        accept_waiting(listener, take).await;
    }

    /// Gives the connection to the thread with the least to do; returns it if that is this one.
    fn hand_over(&self, stream: TcpStream, arrived: &Arrived) -> Option<TcpStream> {
        let own = self.worker.load.load(Ordering::Relaxed);
        let (least, way) = self
            .others
            .iter()
            .min_by_key(|(worker, _)| worker.load.load(Ordering::Relaxed))?;
        if least.load.load(Ordering::Relaxed) >= own {
            return Some(stream);
        }
        let Ok(room) = way.try_reserve() else {
            return Some(stream);
        };
        match stream.into_std() {
            Ok(stream) => room.send(Handed {
                stream,
                arrived: arrived.clone(),
            }),
            Err(error) => tracing::warn!(%error, "a connection could not be handed over"),
        }
        None
    }
}

/// Takes its place, and serves it in a task of its own.
fn admit(crew: &Crew, stream: TcpStream, arrived: Arrived) {
    // Before anything is written: Nagle against delayed ACK costs 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was gone before it was served");
        return;
    }
    let Arrived {
        arriving,
        source,
        door,
        entrance,
    } = arrived;
    let subject = Arc::clone(arriving.subject());
    let worker = &crew.worker;
    let full = subject.connections() >= worker.shared.descriptors.for_sandbox();
    let accepted = if full {
        Err(DenyReason::ConnectionLimit)
    } else {
        subject.accept()
    };
    match accepted {
        Ok(guard) => {
            let load = Load::new(Arc::clone(worker));
            let caller = Caller::new(Arc::clone(worker), guard, source);
            let port = entrance.explicit_port;
            drop(worker.tasks.spawn(async move {
                let _load = load;
                match door {
                    Door::Redirect => Box::pin(connection::transparent(caller, stream)).await,
                    Door::Explicit => {
                        let gateway = IpAddr::V4(caller.subject().gateway());
                        let own = Destination {
                            host: Host::from(gateway),
                            port,
                        };
                        Box::pin(connection::explicit(caller, stream, own)).await;
                    }
                }
            }));
        }
        Err(reason) => {
            let port = entrance.explicit_port;
            let refused = Refused {
                subject,
                reason,
                port,
            };
            let refusing = refuse(Arc::clone(worker), stream, (source, door), refused);
            drop(worker.tasks.spawn(refusing));
        }
    }
}

/// Whose connection was refused and why; the port is the explicit proxy's.
struct Refused {
    subject: Arc<Subject>,
    reason: DenyReason,
    port: Port,
}

/// Records a refused connection, and tells who speaks HTTP.
async fn refuse(
    worker: Arc<Worker>,
    stream: TcpStream,
    (source, door): (SocketAddr, Door),
    refused: Refused,
) {
    let Refused {
        subject,
        reason,
        port: explicit_port,
    } = refused;
    let told = worker.refusing.clone().try_acquire_owned();
    let original = match door {
        Door::Redirect => crate::orig_dst::original_destination(&stream)
            .ok()
            .map(|original| (IpAddr::V4(*original.ip()), original.port())),
        Door::Explicit => None,
    };
    let own = (IpAddr::V4(subject.gateway()), explicit_port.get());
    let (ip, port) = original.unwrap_or(own);
    let port = Port::new(port).unwrap_or(explicit_port);
    let at = subject.destination(Host::from(ip), port);
    let reads_http = door == Door::Explicit || speaks_http(&subject, &at);
    let attempt = Attempt {
        subject: &subject,
        conn: 0,
        src: source,
        host: at.host,
        port: at.port,
        protocol: None,
        tls: None,
        heard: None,
    };
    let denial = refuse_connect(worker.ledger(), &attempt, reason).await;
    tracing::info!(sandbox.id = %subject.id(), deny.reason = %denial.reason, "denied");
    if reads_http && told.is_ok() {
        if let Err(error) = tell(stream, denial.reason).await {
            tracing::debug!(%error, "a refused client did not wait for the answer");
        }
    } else if let Err(error) = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "a refused connection is closed without a reset");
    }
}

/// Whether what is allowed there is HTTP in clear text, so that its program reads an answer.
fn speaks_http(subject: &Subject, at: &Destination) -> bool {
    if at.port != Port::HTTP {
        return false;
    }
    let policy = subject.policy();
    match policy.decide_connect(&at.host, at.port, Some(AppProtocol::Http)) {
        Verdict::Allow(permit) => permit.handling() == Handling::Inspect,
        Verdict::Deny(_) => false,
    }
}

/// The shortest answer, before any request was read.
async fn tell(mut stream: TcpStream, reason: DenyReason) -> io::Result<()> {
    let status = http::StatusCode::from_u16(reason.http_status()).unwrap_or_default();
    let body = format!("{{\"error\":\"egress_denied\",\"reason\":\"{reason}\"}}\n");
    let proxy_status = proxy_status(reason);
    let answer = format!(
        "HTTP/1.1 {status}\r\nproxy-status: {}\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        proxy_status.to_str().unwrap_or("gig"),
        body.len(),
    );
    let telling = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Until the client has read it: closing over unread octets would reset the connection.
        let mut unread = [0; 512];
        while stream.read(&mut unread).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(TELLING, telling)
        .await
        .unwrap_or(Ok(()))
}

/// Counts a connection while it is served.
struct Load(Arc<Worker>);

impl Load {
    fn new(worker: Arc<Worker>) -> Self {
        worker.load.fetch_add(1, Ordering::Relaxed);
        Self(worker)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Long enough for other connections to end, short enough to go unnoticed.
const AFTER_ERROR: Duration = Duration::from_millis(50);
/// A client over its limit gets the answer within this or not at all.
const TELLING: Duration = Duration::from_secs(1);
