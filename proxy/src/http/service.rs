//! Serves one HTTP connection of a sandbox until it ends, is cut, drained, or stands still.

use std::{
    convert::Infallible,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{Either, FutureExt as _};
use gig_policy::{AppProtocol, DenyReason, DenyStyle};
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING},
};
use http_body::Body;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    body::Download,
    calm::Calm,
    gather::Gathering,
    heads::Framing,
    incoming::Incoming,
    interject::Interjecting,
    limits,
    listening::Listening,
    outliving::Outliving,
    session::{Aim, Session},
    streams::Streams,
    unread::{self, Unread},
    upgrade::Tunnel,
};
use crate::{
    enforce::{connect::refuse_finding, secret::shown_host},
    failure::words::Words,
    pipeline,
    seldom::Seldom,
    tls::downstream::Application,
};

/// How a connection ended.
#[derive(Debug)]
pub enum Ended {
    /// By HTTP's own rules, or because one side went away.
    Done,
    /// An upgrade was accepted: this follows.
    Upgraded(Tunnel),
    /// It was cut.
    Cut(DenyReason),
}

/// Serves `stream` as the session's protocol has it. Dropping the future cuts the connection.
///
/// Not an `async fn`, which would keep room for `stream` beside the connection made of it.
pub fn serve<S>(session: Arc<Session>, stream: S) -> impl Future<Output = Ended> + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match session.application() {
        Application::Http1 => Either::Left(serve_http1(session, stream)),
        Application::Http2 => {
            // Each stream ends by itself, its answer before it; a connection is closed only when nothing
            // runs on it or for what it sent: then nothing more of it is taken.
            session.ending().plain();
            let stream = Gathering::new(Calm::server(stream, Arc::clone(session.signs())));
            let streams = Box::pin(Streams::new(Arc::clone(&session), stream));
            Either::Right(run(session, streams, |s| s.get_mut().graceful_shutdown()))
        }
    }
}

fn serve_http1<S>(session: Arc<Session>, stream: S) -> impl Future<Output = Ended> + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let theirs = Arc::clone(&session);
    let service = service_fn(move |mut request: Request<hyper::body::Incoming>| {
        let coded = request.headers().contains_key(TRANSFER_ENCODING);
        let framing = theirs.heads().read(coded);
        if framing != Framing::NoLength {
            request.extensions_mut().insert(framing);
        }
        let answered = answer(Arc::clone(&theirs), request.map(Incoming::Http1));
        async { Ok::<_, Infallible>(answered.await) }
    });
    let interjections = Arc::clone(session.interjections());
    let heads = Arc::clone(session.heads());
    let unread = Unread::new(Arc::clone(&session));
    let stream = Listening::new(Seldom::new(stream), Arc::clone(&session));
    let stream = Interjecting::new(stream, interjections, heads, unread);
    let connection = limits::http1_server()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    run(session, Box::pin(connection), |c| c.graceful_shutdown())
}

/// What a program sent cannot be read as HTTP.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("no HTTP/1.1")]
    Http1(#[from] hyper::Error),
    #[error("no HTTP/2")]
    Http2(#[from] h2::Error),
}

async fn run<C, E>(
    session: Arc<Session>,
    mut connection: Pin<Box<C>>,
    finish: impl Fn(Pin<&mut C>),
) -> Ended
where
    C: Future<Output = Result<(), E>>,
    Unreadable: From<E>,
{
    let deadlines = session.worker().deadlines();
    let mut slow = pin!(session.heads().slow(deadlines.request_headers));
    let mut watched = pin!(watch(&session, false));
    let mut called = Seldom::new(watched.as_mut());
    loop {
        let interruption = tokio::select! {
            biased;
            ended = &mut connection => {
                if ended.is_err() && session.application() == Application::Http1 {
                    session.set_left();
                }
                record_refused(&session, ended.err().map(Unreadable::from)).await;
                return session.take_tunnel().map_or(Ended::Done, Ended::Upgraded);
            }
            interruption = &mut called => interruption,
            () = &mut slow => {
                refuse(&session, DenyReason::RequestTimeout, None).await;
                return Ended::Cut(DenyReason::RequestTimeout);
            }
        };
        match interruption {
            Interruption::Cut(reason) => {
                // What cannot be read was answered, and only the program's own close is waited for:
                // that it was refused is recorded even so.
                let mut error = None;
                if session.ending().lingers() {
                    session.ending().at_once();
                    let ended = connection.as_mut().now_or_never();
                    error = ended.and_then(Result::err).map(Unreadable::from);
                }
                record_refused(&session, error).await;
                return Ended::Cut(reason);
            }
            Interruption::Drain => {
                finish(connection.as_mut());
                watched.set(watch(&session, true));
                called = Seldom::new(watched.as_mut());
            }
        }
    }
}

/// A connection ended: what of it could not be read is refused on the record.
async fn record_refused(session: &Session, error: Option<Unreadable>) {
    let told = error.as_ref().and_then(|error| {
        tracing::debug!(error = %Words::of(error), "a connection from a sandbox ended badly");
        unreadable(session, error)
    });
    if let Some(reason) = told.or_else(|| malformed(session)) {
        if unread::record(session, reason).await {
            return;
        }
        refuse(session, reason, violation(error.as_ref())).await;
    }
}

/// What ends a connection from outside.
enum Interruption {
    /// At once.
    Cut(DenyReason),
    /// After its running requests: gig goes down.
    Drain,
}

/// Waits for an interruption; `draining` when that of a drain was heard.
async fn watch(session: &Session, draining: bool) -> Interruption {
    let deadlines = session.worker().deadlines();
    // An answer that is late has its own deadline, and is told as 504.
    let running = deadlines.idle.max(deadlines.response_headers + TELLING);
    tokio::select! {
        biased;
        reason = session.caller().guard.revoked() => Interruption::Cut(reason),
        reason = session.answer_revoked() => Interruption::Cut(reason),
        () = session.activity().stalled(running, deadlines.keep_alive) => {
            Interruption::Cut(DenyReason::RequestTimeout)
        }
        () = session.worker().drain.cancelled(), if !draining => Interruption::Drain,
    }
}

/// hyper itself answers what it cannot read as a request (400, 431), and h2 what is none or too much
/// (GOAWAY): nothing was forwarded, and the record says so.
fn unreadable(session: &Session, error: &Unreadable) -> Option<DenyReason> {
    match error {
        Unreadable::Http1(error) if error.is_parse_too_large() => Some(DenyReason::TooLarge),
        Unreadable::Http1(error) if error.is_parse() => Some(DenyReason::MalformedRequest),
        Unreadable::Http1(_) => None,
        Unreadable::Http2(_) if session.signs().flooded() => Some(DenyReason::TooLarge),
        Unreadable::Http2(error) if !error.is_library() => None,
        Unreadable::Http2(error) => Some(match error.reason()? {
            // Resets, CONTINUATION, empty DATA, a header section without an end.
            h2::Reason::ENHANCE_YOUR_CALM => DenyReason::TooLarge,
            _ => DenyReason::MalformedRequest,
        }),
    }
}

/// How HTTP/2 was violated (RFC 9113 §7), as a finding: of a connection that h2 ended, or of streams that it reset
/// for what was no message.
fn violation(error: Option<&Unreadable>) -> Option<Arc<str>> {
    let code = match error {
        Some(Unreadable::Http1(_)) => return None,
        Some(Unreadable::Http2(error)) => error.reason()?,
        None => h2::Reason::PROTOCOL_ERROR,
    };
    Some(format!("http2:{code:?}").into())
}

/// Streams were reset for what they are: nothing was forwarded of them, and the record says so once.
fn malformed(session: &Session) -> Option<DenyReason> {
    let malformed = session.signs().malformed();
    malformed.then_some(DenyReason::MalformedRequest)
}

/// Records that the connection itself is refused.
async fn refuse(session: &Session, reason: DenyReason, finding: Option<Arc<str>>) {
    let (caller, at) = (session.caller(), session.nominal());
    let attempt = caller.attempt(
        &at.host,
        at.port,
        Some(session.protocol()),
        session.tls().cloned(),
    );
    let denial = refuse_finding(
        caller.ledger(),
        &attempt,
        reason,
        finding.into_iter().collect(),
    )
    .await;
    tracing::info!(
        deny.reason = %denial.reason, server.address = %shown_host(caller.subject(), &at.host.to_string()),
        server.port = %at.port, "denied"
    );
}

/// Answers one request, by either HTTP. Begun at the call: what is never polled is not dropped either, if its
/// program left it behind.
pub(super) fn answer(
    session: Arc<Session>,
    request: Request<Incoming>,
) -> impl Future<Output = Response<Download>> + Send {
    let busy = session.activity().enter();
    if !matches!(session.aim(), Aim::Denied(..)) {
        // What becomes of a request is recorded, whatever that is.
        session.set_told();
    }
    let http1 = session.application() == Application::Http1;
    let unread = http1 && !request.body().is_end_stream();
    let unseen = request.extensions().get() == Some(&Framing::Unseen);
    let old = request.version() == Version::HTTP_10;
    if http1 {
        session.activity().begin(!unread);
    }
    let asked = boxed(|| pipeline::exchange(Arc::clone(&session), request));
    let asked = Outliving::new(Arc::clone(&session), asked);
    async move {
        let _busy = busy;
        match asked.await {
            Ok(mut response) => {
                if unseen && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    // RFC 9112 §6.1: it may have had a length beside its coding.
                    close(response.headers_mut());
                }
                if old && !has_length(&response) {
                    session.ending().unframed();
                }
                response
            }
            Err(refusal) => {
                if resets(&session, refusal.denial.reason) {
                    session.ending().abrupt();
                }
                let mut told = refusal.response();
                if unread {
                    // The rest of the body is not waited for: no request can follow it.
                    close(told.headers_mut());
                }
                told.map(|told| Download::Told(Some(told)))
            }
        }
    }
}

/// Boxes what takes a request, so that a connection that waits for its next one holds no room for it, and
/// whoever runs it moves a pointer.
/// Made where it stays, after its place: `Box::pin` would make it on the stack and copy all of its
/// kilobytes, most of which are not yet used.
pub(super) fn boxed<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}

/// Whether where an answer ends is known before it does (RFC 9112 §6.3). HTTP/1.0 has no chunks.
fn has_length(response: &Response<Download>) -> bool {
    let body = response.body();
    body.is_end_stream()
        || body.size_hint().exact().is_some()
        || response.headers().contains_key(CONTENT_LENGTH)
}

fn close(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
}

/// `deny: reset`: a destination that is denied is as one that is not there, by every door. Inside TLS
/// the name was allowed (or reset before its handshake), and a denied method or path is told.
fn resets(session: &Session, reason: DenyReason) -> bool {
    let denied = matches!(
        reason,
        DenyReason::HostNotAllowed
            | DenyReason::PortNotAllowed
            | DenyReason::ProtocolNotAllowed
            | DenyReason::IpNotAllowed
            | DenyReason::NameMissing
            | DenyReason::PrivateAddress
            | DenyReason::PublicAddress
            | DenyReason::NeverOpenable
    );
    let clear = session.protocol() == AppProtocol::Http;
    let policy = session.caller().subject().policy();
    denied && clear && policy.deny_style() == DenyStyle::Reset
}

/// For a refusal to reach the program before its connection is cut.
const TELLING: Duration = Duration::from_secs(60);
