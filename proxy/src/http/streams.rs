//! Serves HTTP/2 to a program: each stream one request, each in a task of its own.
//!
//! hyper's server has no way to send interim responses over HTTP/2, so requests are taken from h2
//! itself. Frames, header compression, flow control and the bounds on what a peer may send stay h2's
//! ([`super::limits`]); what is done here is what stands between a stream and the pipeline.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use h2::{
    Ping, PingPong, Reason, RecvStream, SendStream,
    server::{Connection, Handshake, SendResponse},
};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{CONNECTION, CONTENT_LENGTH},
};
use http_body::Body;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
};

use super::{
    backlog::Backlog,
    body::Download,
    duplex::Duplex,
    incoming::{Frames, Incoming},
    limits,
    pipe::pipe,
    service::{answer, boxed},
    session::Session,
};
use crate::failure::words::Words;

/// One HTTP/2 connection of a program, until it ends.
pub struct Streams<S> {
    session: Arc<Session>,
    backlog: Backlog,
    nudge: Arc<Nudge>,
    pings: Option<PingPong>,
    state: State<S>,
    finishing: bool,
}

/// Asks for a frame on a connection that has nothing to say.
#[derive(Debug, Default)]
struct Nudge {
    wanted: AtomicBool,
    connection: AtomicWaker,
}

impl Nudge {
    fn ask(&self) {
        self.wanted.store(true, Ordering::Relaxed);
        self.connection.wake();
    }

    /// Whether one is asked for; who asks later wakes this task.
    fn is_wanted(&self, cx: &Context<'_>) -> bool {
        self.connection.register(cx.waker());
        self.wanted.swap(false, Ordering::Relaxed)
    }
}

enum State<S> {
    Opening(Handshake<S, Bytes>),
    Open(Connection<S, Bytes>),
}

/// The answer to one request, while it may still have interim ones before it.
#[derive(Debug, Clone)]
pub struct Reply(Arc<Replying>);

#[derive(Debug)]
struct Replying {
    unanswered: Mutex<Option<Unanswered>>,
    /// All of the request came.
    whole: AtomicBool,
}

#[derive(Debug)]
struct Unanswered {
    reply: SendResponse<Bytes>,
    /// Who waits for a reset. h2 keeps one waker: each look at the stream leaves this one there.
    waiting: Waker,
}

/// An extended CONNECT was accepted: what follows this answer is no body.
#[derive(Debug, Clone, Copy)]
pub struct Accepted;

impl<S> Streams<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    /// Serves `stream` as the session's requests.
    #[must_use]
    pub fn new(session: Arc<Session>, stream: S) -> Self {
        Self {
            session,
            backlog: Backlog::default(),
            nudge: Arc::default(),
            pings: None,
            state: State::Opening(limits::http2_server().handshake(stream)),
            finishing: false,
        }
    }

    /// Takes no new requests; completes when the running ones are through.
    pub fn graceful_shutdown(&mut self) {
        self.finishing = true;
        if let State::Open(connection) = &mut self.state {
            connection.graceful_shutdown();
        }
    }
}

impl<S> Future for Streams<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    type Output = Result<(), h2::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let me = self.get_mut();
        loop {
            match &mut me.state {
                State::Opening(opening) => {
                    let mut connection = ready!(Pin::new(opening).poll(cx))?;
                    if me.finishing {
                        connection.graceful_shutdown();
                    }
                    me.pings = connection.ping_pong();
                    me.state = State::Open(connection);
                }
                State::Open(connection) => {
                    match poll_accept(connection, &mut me.pings, (&me.nudge, cx)) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Some(accepted)) => {
                            let (request, reply) = accepted?;
                            let backlog = (me.backlog.clone(), Arc::clone(&me.nudge));
                            let session = Arc::clone(&me.session);
                            // The runtime moves what it is given several times.
                            let served = boxed(|| serve((session, backlog), request, reply));
                            drop(me.session.worker().tasks.spawn(served));
                        }
                        Poll::Ready(None) => return Poll::Ready(Ok(())),
                    }
                }
            }
        }
    }
}

type NextRequest = Option<Result<(Request<RecvStream>, SendResponse<Bytes>), h2::Error>>;

/// The next request; in between a PING goes where one is asked for.
fn poll_accept<S>(
    connection: &mut Connection<S, Bytes>,
    pings: &mut Option<PingPong>,
    (nudge, cx): (&Nudge, &mut Context<'_>),
) -> Poll<NextRequest>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if let Some(pings) = pings {
        // One at a time goes: the last one's answer makes room.
        let _answered = pings.poll_pong(cx);
        if nudge.is_wanted(cx) && pings.send_ping(Ping::opaque()).is_err() {
            tracing::debug!("a PING was not sent");
        }
    }
    connection.poll_accept(cx)
}

impl<S> std::fmt::Debug for Streams<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams")
            .field("finishing", &self.finishing)
            .finish_non_exhaustive()
    }
}

impl Reply {
    fn new(reply: SendResponse<Bytes>, whole: bool) -> Self {
        Self(Arc::new(Replying {
            unanswered: Mutex::new(Some(Unanswered {
                reply,
                waiting: Waker::noop().clone(),
            })),
            whole: AtomicBool::new(whole),
        }))
    }

    /// All of the request came.
    pub fn set_whole(&self) {
        self.0.whole.store(true, Ordering::Relaxed);
    }

    fn is_whole(&self) -> bool {
        self.0.whole.load(Ordering::Relaxed)
    }

    /// Sends an interim response, unless the answer has begun or the program wants none any more.
    pub fn interim(&self, status: StatusCode, headers: HeaderMap) {
        let mut unanswered = self.0.unanswered.lock();
        let Some(Unanswered { reply, waiting }) = unanswered.as_mut() else {
            return;
        };
        if reply
            .poll_reset(&mut Context::from_waker(waiting))
            .is_ready()
        {
            return;
        }
        let mut interim = Response::new(());
        *interim.status_mut() = status;
        *interim.headers_mut() = headers;
        if let Err(error) = reply.send_informational(interim) {
            tracing::debug!(error = %Words::of(&error), "an interim response was not sent");
        }
    }

    /// Completes when the program resets the stream or is gone.
    fn poll_reset(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.0.unanswered.lock().as_mut() {
            Some(Unanswered { reply, waiting }) => {
                waiting.clone_from(cx.waker());
                reply.poll_reset(cx).map(drop)
            }
            None => Poll::Ready(()),
        }
    }

    /// From here on there are no interim responses.
    fn take(&self) -> Option<SendResponse<Bytes>> {
        let unanswered = self.0.unanswered.lock().take();
        unanswered.map(|unanswered| unanswered.reply)
    }
}

/// One request and its answer.
async fn serve(
    (session, (backlog, nudge)): (Arc<Session>, (Backlog, Arc<Nudge>)),
    request: Request<RecvStream>,
    reply: SendResponse<Bytes>,
) {
    let reply = Reply::new(reply, request.body().is_end_stream());
    let head_only = request.method() == Method::HEAD;
    let (request, accepting) = incoming(request, &reply, &backlog);
    let answered = {
        let mut answer = pin!(answer(Arc::clone(&session), request));
        poll_fn(|cx| {
            if let Poll::Ready(answered) = answer.as_mut().poll(cx) {
                return Poll::Ready(Some(answered));
            }
            // Also wakes when the program gives up: what is done for it then ends here.
            reply.poll_reset(cx).map(|()| None)
        })
        .await
    };
    // Taken in either case: somebody may still hold the other end.
    let (Some(response), Some(mut sender)) = (answered, reply.take()) else {
        return;
    };
    let (mut parts, body) = response.into_parts();
    // Ours; an origin's is gone already ([`super::headers::incoming`]).
    parts.headers.remove(CONNECTION);
    if let Some(accepting) = accepting {
        if parts.extensions.remove::<Accepted>().is_some() {
            parts.headers.remove(CONTENT_LENGTH);
            if let Some(send) = begin(&mut sender, Response::from_parts(parts, ()), false) {
                // Who waits for it may be gone: then the stream is reset.
                let _gone = accepting.send(send);
            }
            return;
        }
        if parts.status.is_success() {
            // RFC 9110 §9.3.6: the program would take it for a tunnel, and there is none.
            return sender.send_reset(Reason::INTERNAL_ERROR);
        }
    }
    let (length, empty) = (body.size_hint().exact(), body.is_end_stream());
    if let (Some(length), false) = (length, empty) {
        let length = || HeaderValue::from(length);
        parts.headers.entry(CONTENT_LENGTH).or_insert_with(length);
    }
    let last = empty || head_only;
    let Some(mut send) = begin(&mut sender, Response::from_parts(parts, ()), last) else {
        return;
    };
    if !last && !pass(&session, body, (&mut send, &backlog)).await {
        tracing::debug!("an answer did not go to its end");
    } else if !reply.is_whole() {
        linger(&mut send, &nudge).await;
    }
}

/// Sends the answer's body; false when it did not go to its end.
async fn pass(
    session: &Session,
    body: Download,
    (send, backlog): (&mut SendStream<Bytes>, &Backlog),
) -> bool {
    if body.is_watched() {
        return pipe(body, send, backlog).await.is_ok();
    }
    // It is short, and here: nobody but the program is waited for.
    let idle = session.worker().deadlines().idle;
    let piped = tokio::time::timeout(idle, pipe(body, send, backlog)).await;
    matches!(piped, Ok(Ok(())))
}

/// RFC 9113 §8.1: who has answered may reset a stream so that no more of its request is sent. curl
/// 7.88 overlooks an answer that the reset comes in one piece with; and one that it reads while it sends, until the
/// next frame comes, whatever that says.
async fn linger(send: &mut SendStream<Bytes>, nudge: &Nudge) {
    // Ends at once when the program resets the stream itself.
    let mut over = pin!(poll_fn(|cx| send.poll_reset(cx)));
    for moment in NUDGES {
        if tokio::time::timeout(moment, over.as_mut()).await.is_ok() {
            return;
        }
        nudge.ask();
    }
    // Either way there is nothing more to do for it.
    let _over = tokio::time::timeout(LINGER, over).await;
}

/// The request as the pipeline takes it; for an extended CONNECT with what accepts it.
fn incoming(
    request: Request<RecvStream>,
    reply: &Reply,
    backlog: &Backlog,
) -> (
    Request<Incoming>,
    Option<oneshot::Sender<SendStream<Bytes>>>,
) {
    let (parts, stream) = request.into_parts();
    if parts.method == Method::CONNECT {
        let (accept, accepted) = oneshot::channel();
        let duplex = Box::new(Duplex::asked(stream, accepted, backlog));
        let request = Request::from_parts(parts, Incoming::Tunnel(duplex));
        return (request, Some(accept));
    }
    let frames = Frames::of_request(stream, &parts.headers, reply.clone());
    (Request::from_parts(parts, Incoming::Http2(frames)), None)
}

/// Sends the header section of the answer.
fn begin(
    reply: &mut SendResponse<Bytes>,
    head: Response<()>,
    last: bool,
) -> Option<SendStream<Bytes>> {
    match reply.send_response(head, last) {
        Ok(send) => Some(send),
        Err(error) => {
            tracing::debug!(error = %Words::of(&error), "an answer was not sent");
            reply.send_reset(Reason::INTERNAL_ERROR);
            None
        }
    }
}

/// Long enough for a program to find its answer; what it sends in the meantime is thrown away.
const LINGER: Duration = Duration::from_secs(3);

/// Between an answer and frames that say nothing: a program that sends may read any of them as it sends.
const NUDGES: [Duration; 3] = [
    Duration::from_millis(20),
    Duration::from_millis(200),
    Duration::from_secs(1),
];

#[cfg(test)]
mod tests;
