//! Serves one HTTP connection of a sandbox until it ends, is cut, drained, or stands still.

use std::{
    convert::Infallible,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures_util::future::Either;
use gig_policy::DenyReason;
use http::{HeaderValue, Request, Response, header::CONNECTION};
use hyper::{
    body::{Body, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    body::Download, gather::Gathering, interject::Interjecting, limits, session::Session,
    upgrade::Tunnel,
};
use crate::{enforce::connect::refuse_connect, pipeline, tls::downstream::Application};

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
    let worker = Arc::clone(session.worker());
    let theirs = Arc::clone(&session);
    let service = service_fn(move |request| answer(Arc::clone(&theirs), request));
    match session.application() {
        Application::Http1 => {
            let stream = Interjecting::new(stream, Arc::clone(session.interjections()));
            let connection = limits::http1_server(worker.deadlines())
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            Either::Left(run(session, Box::pin(connection), |c| {
                c.graceful_shutdown()
            }))
        }
        Application::Http2 => {
            let connection = limits::http2_server(&worker.tasks)
                .serve_connection(TokioIo::new(Gathering::new(stream)), service);
            Either::Right(run(session, Box::pin(connection), |c| {
                c.graceful_shutdown()
            }))
        }
    }
}

async fn run<C>(
    session: Arc<Session>,
    mut connection: Pin<Box<C>>,
    finish: impl Fn(Pin<&mut C>),
) -> Ended
where
    C: Future<Output = hyper::Result<()>>,
{
    let deadlines = session.worker().deadlines();
    let drain = &session.worker().drain;
    let mut draining = false;
    let mut revoked = pin!(session.caller().guard.revoked());
    // An answer that is late has its own deadline, and is told as 504.
    let running = deadlines.idle.max(deadlines.response_headers + TELLING);
    let mut stalled = pin!(session.activity().stalled(running, deadlines.keep_alive));
    loop {
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection from a sandbox ended badly");
                    unreadable(&session, &error).await;
                }
                return session.take_tunnel().map_or(Ended::Done, Ended::Upgraded);
            }
            reason = &mut revoked => return Ended::Cut(reason),
            () = &mut stalled => return Ended::Cut(DenyReason::RequestTimeout),
            () = drain.cancelled(), if !draining => {
                draining = true;
                finish(connection.as_mut());
            }
        }
    }
}

/// hyper itself answers what it cannot read as a request (400, 431): nothing was forwarded, and the
/// record says so.
async fn unreadable(session: &Session, error: &hyper::Error) {
    let reason = if error.is_parse_too_large() {
        DenyReason::TooLarge
    } else if error.is_parse() {
        DenyReason::MalformedRequest
    } else {
        return;
    };
    let (caller, at) = (session.caller(), session.nominal());
    let attempt = caller.attempt(
        &at.host,
        at.port,
        Some(session.protocol()),
        session.tls().cloned(),
    );
    let denial = refuse_connect(caller.recorder(), &attempt, reason).await;
    tracing::info!(
        deny.reason = %denial.reason, server.address = %at.host, server.port = %at.port, "denied"
    );
}

async fn answer(
    session: Arc<Session>,
    request: Request<Incoming>,
) -> Result<Response<Download>, Infallible> {
    let unread = session.application() == Application::Http1 && !request.body().is_end_stream();
    // Boxed, so that a connection that waits for its next request holds no room for it.
    Ok(
        match Box::pin(pipeline::exchange(&session, request)).await {
            Ok(response) => response,
            Err(refusal) => {
                let mut told = refusal.response();
                if unread {
                    // The rest of the body is not waited for: no request can follow it.
                    told.headers_mut()
                        .insert(CONNECTION, HeaderValue::from_static("close"));
                }
                told.map(|told| Download::Told(Some(told)))
            }
        },
    )
}

/// For a refusal to reach the program before its connection is cut.
const TELLING: Duration = Duration::from_secs(60);
