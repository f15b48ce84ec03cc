//! One connection of a sandbox, from accept to its end.
//!
//! Its destination is learnt first. If policy lets bytes pass to it without a look, none is read here
//! (the server may be the one to speak first). Otherwise its first bytes say what it speaks and whom
//! it names; all names must agree; what is neither TLS nor HTTP is reset, unless the policy only observes.

use std::{net::IpAddr, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use gig_policy::{AppProtocol, ConnectPermit, Denial, DenyReason, Handling, Host, Port, Verdict};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use crate::{
    authority::Destination,
    caller::Caller,
    detect::{FirstBytes, Patience, Rewind, sniff},
    enforce::{
        connect::{refuse_connect, refuse_other_bytes},
        secret::shown_host,
    },
    http::{
        explicit::Tunnelled,
        interject::Interjecting,
        linger::{Abort, Ending, Linger},
        listening::Listening,
        service::{Ended, serve},
        session::{Aim, Session},
        upgrade::Tunnel,
    },
    orig_dst::original_destination,
    seldom::Seldom,
    tls::downstream::Application,
};

mod held;
mod passing;
mod secure;

/// A connection as it is passed from stage to stage.
type Stream = Rewind<TcpStream>;
type Sniffed = Rewind<Stream>;

/// Serves a redirected connection: where it goes is what the program dialled.
pub async fn transparent(caller: Arc<Caller>, stream: TcpStream) {
    let original = match original_destination(&stream) {
        Ok(original) => original,
        Err(error) => {
            tracing::error!(%error, "a connection was dropped");
            return;
        }
    };
    let Some(port) = Port::new(original.port()) else {
        return;
    };
    let host = Host::from(IpAddr::V4(*original.ip()));
    let destination = caller.destination(host, port);
    to_destination(caller, Rewind::new(Bytes::new(), stream), destination).await;
}

/// Serves a connection to the explicit proxy; `nominal` is the proxy's own address.
pub async fn explicit(caller: Arc<Caller>, stream: TcpStream, nominal: Destination) {
    let aim = Aim::Explicit(nominal);
    let session = Session::new(&caller, aim, AppProtocol::Http, Application::Http1);
    let ended = Serving::plain(session, stream).ended.await;
    if let Some(Tunnel::Connect(tunnelled)) = follow(ended).await {
        tunnel(caller, *tunnelled).await;
    }
}

/// Carries an accepted CONNECT.
async fn tunnel(caller: Arc<Caller>, tunnelled: Tunnelled) {
    let deadline = caller.worker.deadlines().detect;
    let Ok(Ok(upgraded)) = tokio::time::timeout(deadline, tunnelled.down).await else {
        return;
    };
    let Ok(parts) =
        upgraded.downcast::<TokioIo<Interjecting<Listening<Seldom<Linger<TcpStream>>>>>>()
    else {
        tracing::error!("a tunnel is not made of what it was made of");
        return;
    };
    let (ahead, stream) = parts.io.into_inner().into_inner().into_parts();
    let stream = stream.into_inner().into_inner();
    let read = [parts.read_buf, ahead].concat();
    let stream = Rewind::new(read.into(), stream);
    match tunnelled.opaque {
        Some((permit, dialed)) => {
            let attempt = caller.attempt(permit.host(), permit.port(), None, None);
            let sides = (permit.clone(), dialed);
            Box::pin(passing::pass(&caller, stream, sides, &attempt)).await;
        }
        None => to_destination(caller, stream, tunnelled.destination).await,
    }
}

/// Serves a connection whose destination is known.
pub async fn to_destination(caller: Arc<Caller>, stream: Stream, destination: Destination) {
    // Boxed, so that a connection that is served holds no room for how it got there.
    let Some(serving) = Box::pin(prepare(caller, stream, destination)).await else {
        return;
    };
    serving.run().await;
}

/// Everything up to the first HTTP request; `None` when there will be none.
async fn prepare(caller: Arc<Caller>, stream: Stream, at: Destination) -> Option<Serving> {
    let deadlines = caller.worker.deadlines();
    let verdict = caller
        .subject()
        .policy()
        .decide_connect(&at.host, at.port, None);
    let silence = match (&verdict, &at.host) {
        (Verdict::Allow(permit), _) if permit.handling() == Handling::Opaque => {
            Box::pin(passing::opaque(&caller, stream, &at)).await;
            return None;
        }
        (Verdict::Allow(_), _) if at.port.is_of_the_web() => deadlines.first_octet,
        // No rule says that it is HTTP.
        (Verdict::Allow(permit), _) if permit.would_deny().is_some() => {
            deadlines.server_first_grace
        }
        (Verdict::Allow(_), _) => deadlines.first_octet_elsewhere,
        // A name may follow that is allowed.
        (Verdict::Deny(_), Host::Ip(_)) => deadlines.detect,
        (Verdict::Deny(_), Host::Name(_)) => deadlines.server_first_grace,
    };
    let patience = Patience {
        silence,
        complete: deadlines.detect,
    };
    let sniffed = tokio::select! {
        sniffed = sniff(stream, patience) => sniffed.ok(),
        _ = caller.guard.revoked() => None,
        () = caller.worker.drain.cancelled() => None,
    };
    let Some(sniffed) = sniffed else {
        // It went before it said anything: where it wanted to go is recorded all the same.
        if let Verdict::Deny(denial) = verdict {
            refuse(&caller, &at, (Some(AppProtocol::Tcp), denial.reason)).await;
        }
        return None;
    };
    let unheard = match sniffed.first {
        FirstBytes::Tls(hello) => {
            return Box::pin(secure::tls(&caller, sniffed.stream, at, hello)).await;
        }
        FirstBytes::Http { h2c } => {
            let mut serving = clear_text(&caller, sniffed.stream, at, h2c);
            if let Verdict::Deny(denial) = verdict {
                serving.denied = Some(denial.reason);
            }
            return Some(serving);
        }
        FirstBytes::Silent => DenyReason::RequestTimeout,
        FirstBytes::BadTls | FirstBytes::Other => DenyReason::UnsupportedProtocol,
    };
    let broken = matches!(sniffed.first, FirstBytes::BadTls);
    let spare = sniffed.first == FirstBytes::Silent && at.port.is_of_the_web();
    let stream = sniffed.stream;
    match verdict {
        Verdict::Deny(denial) => {
            let why = (Some(AppProtocol::Tcp), denial.reason);
            let stream = match broken {
                true => stream,
                false => Box::pin(held::wait(&caller, stream, &at, denial)).await?,
            };
            refuse(&caller, &at, why).await;
            reset(stream)
        }
        Verdict::Allow(permit) => {
            let stream = match broken || spare {
                true => stream,
                false => Box::pin(passing::observed(&caller, stream, &at)).await?,
            };
            refuse_permitted(&caller, &at, (&permit, unheard)).await;
            reset(stream)
        }
    }
}

/// HTTP in clear text.
fn clear_text(caller: &Arc<Caller>, stream: Sniffed, at: Destination, h2c: bool) -> Serving {
    let application = if h2c {
        Application::Http2
    } else {
        Application::Http1
    };
    let aim = match &at.host {
        Host::Name(_) => Aim::Fixed(at),
        Host::Ip(_) => Aim::ByHost(at),
    };
    let session = Session::new(caller, aim, AppProtocol::Http, application);
    Serving::plain(session, stream)
}

/// An HTTP connection, about to be served.
struct Serving {
    session: Arc<Session>,
    ended: Pin<Box<dyn Future<Output = Ended> + Send>>,
    /// Why the destination itself is denied, where a request may name one that is not.
    denied: Option<DenyReason>,
}

impl Serving {
    fn new<S>(session: Session, stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let session = Arc::new(session);
        let ended = Box::pin(serve(Arc::clone(&session), stream));
        Self {
            session,
            ended,
            denied: None,
        }
    }

    /// In clear text.
    fn plain<S>(session: Session, stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Abort + Unpin + Send + 'static,
    {
        let ending = Ending::default();
        let most = session.worker().deadlines().linger;
        let stream = Linger::new(stream, most, ending.clone());
        Self::new(session.with_ending(ending), stream)
    }

    /// Serves it to its end, and what it was upgraded to.
    async fn run(self) {
        let ended = self.ended.await;
        let denied = match self.session.aim() {
            Aim::Denied(_, denial) => Some(denial.reason),
            _ => self.denied,
        };
        if let Some(reason) = denied
            && !self.session.told()
        {
            // Nothing was asked, so that nothing was told: the connection itself is recorded.
            let why = (Some(self.session.protocol()), reason);
            refuse(self.session.caller(), self.session.nominal(), why).await;
        }
        drop(self.session);
        follow(ended).await;
    }
}

/// Runs what follows an HTTP connection; gives back what only an explicit proxy accepts.
async fn follow(ended: Ended) -> Option<Tunnel> {
    match ended {
        Ended::Upgraded(Tunnel::WebSocket(websocket)) => {
            Box::pin(websocket.run()).await;
            None
        }
        Ended::Upgraded(tunnel) => Some(tunnel),
        Ended::Done | Ended::Cut(_) => None,
    }
}

/// Records a refusal.
async fn refuse(
    caller: &Caller,
    at: &Destination,
    (protocol, reason): (Option<AppProtocol>, DenyReason),
) {
    let attempt = caller.attempt(&at.host, at.port, protocol, None);
    let denial = refuse_connect(caller.ledger(), &attempt, reason).await;
    log_refusal(caller, at, &denial);
}

/// Records that what a rule lets pass was none of what that rule lets pass; the record names the rule.
async fn refuse_permitted(
    caller: &Caller,
    at: &Destination,
    (permit, reason): (&ConnectPermit, DenyReason),
) {
    let attempt = caller.attempt(&at.host, at.port, Some(AppProtocol::Tcp), None);
    let denial = refuse_other_bytes(caller.ledger(), &attempt, permit, reason).await;
    log_refusal(caller, at, &denial);
}

fn log_refusal(caller: &Caller, at: &Destination, denial: &Denial) {
    tracing::info!(
        deny.reason = %denial.reason, server.address = %shown_host(caller.subject(), &at.host.to_string()),
        server.port = %at.port, "denied"
    );
}

/// Closes with a reset, so that a program does not take the end for an answer.
fn reset<T>(stream: Sniffed) -> Option<T> {
    let (_, stream) = stream.into_parts();
    reset_plain(stream);
    None
}

fn reset_plain(stream: Stream) {
    let (_, stream) = stream.into_parts();
    let socket = socket2::SockRef::from(&stream);
    if let Err(error) = socket.set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "a refused connection is closed without a reset");
    }
}
