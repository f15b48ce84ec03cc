//! HTTP/2 to an origin: one connection that all requests of a sandbox on this thread share.
//!
//! On h2 itself: hyper's client drops interim responses over HTTP/2, and takes two tasks and two
//! channels for what is one wait here. Frames, header compression and flow control are h2's, with the
//! bounds of [`limits`]; the peer is as untrusted as the program.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use h2::{
    Ping, PingPong, SendStream,
    client::{Connection, ResponseFuture, SendRequest},
};
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_LENGTH};
use http_body::Body;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
    time::{Instant, Sleep, sleep},
};
use tokio_util::task::TaskTracker;

use crate::{
    failure::words::Words,
    http::{
        backlog::Backlog,
        body::{KeptRoom, Lent, Upload},
        duplex::Duplex,
        incoming::{Frames, Incoming},
        interim::{Allowance, Interims, TooMuch},
        limits,
        pipe::{Piped, pipe},
    },
    upstream::dial::Reached,
};

/// An HTTP/2 connection; cloning shares it.
#[derive(Debug, Clone)]
pub struct Http2 {
    sender: SendRequest<Bytes>,
    /// Where it goes.
    pub reached: Reached,
    line: Arc<Line>,
    tasks: TaskTracker,
}

/// What the requests of a connection and its driver tell each other.
#[derive(Debug, Default)]
struct Line {
    running: AtomicUsize,
    heard: AtomicBool,
    backlog: Backlog,
    /// What may have to be sent again.
    kept: KeptRoom,
}

/// Keeps a connection's deadlines those of one that is waited for; dropping it ends the upload, too.
#[derive(Debug)]
pub struct Running {
    line: Arc<Line>,
    /// Dropped, it ends what still sends the request's body.
    sending: Option<oneshot::Sender<()>>,
}

/// A request without an answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// It ended, or what came is not HTTP/2.
    #[error("no answer over HTTP/2")]
    Frames(#[source] h2::Error),
    /// The origin lets as many requests run as do already, or none.
    #[error(
        "the origin lets no more requests run on its connection, and none of them was through within {} s",
        STREAM_WITHIN.as_secs()
    )]
    NoStream,
    /// The origin sends too much before an answer.
    #[error("no answer over HTTP/2")]
    Interim(#[source] TooMuch),
}

impl SendError {
    /// What came is not what the protocol has.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::Frames(error) => error.is_library() && !error.is_io(),
            Self::NoStream => false,
            Self::Interim(_) => true,
        }
    }

    /// The connection ended, or the origin says that it did not look at the request.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        let ended = matches!(self, Self::Frames(error) if error.is_io());
        ended || self.is_unprocessed()
    }

    /// The origin says that it did not look at the request (RFC 9113 §8.7): `REFUSED_STREAM`, or a stream beyond
    /// the last one of its `GOAWAY`.
    #[must_use]
    pub fn is_unprocessed(&self) -> bool {
        match self {
            Self::Frames(error) => {
                error.is_remote()
                    && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
            }
            // It never left; and who waited for it waits no longer.
            Self::NoStream | Self::Interim(_) => false,
        }
    }
}

/// Opens HTTP/2 on `stream`; what drives it is given back.
///
/// # Errors
/// Those of h2.
pub async fn open<S>(
    stream: S,
    reached: Reached,
    tasks: &TaskTracker,
) -> Result<(Http2, Driver<S>), h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (sender, mut connection) = limits::http2_client().handshake(stream).await?;
    let line = Arc::<Line>::default();
    let driver = Driver {
        pings: connection.ping_pong().map(Pings::new),
        connection,
        line: Arc::clone(&line),
    };
    let http2 = Http2 {
        sender,
        reached,
        line,
        tasks: tasks.clone(),
    };
    Ok((http2, driver))
}

impl Http2 {
    /// Whether it takes requests, now or when one that runs is through.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.clone().is_ready().is_ok()
    }

    /// Whether the origin lets one more request run on it (RFC 9113 §5.1.2).
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.line.running.load(Ordering::Relaxed) < self.sender.current_max_send_streams()
    }

    /// No request runs on it.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.line.running.load(Ordering::Relaxed) == 0
    }

    /// Fails when the connection is gone or going.
    ///
    /// # Errors
    /// Why.
    pub fn is_ready(&mut self) -> Result<(), h2::Error> {
        let mut idle = Context::from_waker(Waker::noop());
        match self.sender.poll_ready(&mut idle) {
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// Room for what its requests keep of their bodies.
    #[must_use]
    pub fn kept(&self) -> KeptRoom {
        Arc::clone(&self.line.kept)
    }

    /// Whether extended CONNECT may be sent (RFC 8441 §3): the origin's first SETTINGS say so, and they
    /// may still be on their way.
    pub async fn takes_websockets(&self) -> bool {
        let asked = Instant::now();
        while self.sender.current_max_send_streams() == limits::STREAMS_BEFORE_SETTINGS
            && asked.elapsed() < PATIENCE
        {
            sleep(LOOK_AGAIN).await;
        }
        self.sender.is_extended_connect_protocol_enabled()
    }

    /// Takes one request, sends it and waits for the answer's header section. To be called when it is
    /// ready. Of a request that the origin says it did not look at, a body that was kept ([`Upload::keep`]) is put
    /// back. Dropping the future resets the stream.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send(
        &mut self,
        request: &mut Request<Upload>,
        interims: &Interims,
    ) -> Result<Response<Incoming>, SendError> {
        let connect = request.method() == Method::CONNECT;
        let (answer, stream, body) = self.begin(std::mem::take(request))?;
        let empty = body.is_end_stream();
        let mut running = Running::new(&self.line);
        let (mut tunnel, mut lent) = (None, None);
        // As many streams may be open as the origin allows; until it is, nothing of a body is read.
        let opened = self.opened().await?;
        if connect {
            tunnel = Some(stream);
            opened.map_err(SendError::Frames)?;
        } else if empty {
            opened.map_err(SendError::Frames)?;
        } else {
            running.sending = if Lent::takes(&body) {
                let body = lent.insert(Lent::new(body)).clone();
                if let Err(error) = opened {
                    return Err(unanswered(SendError::Frames(error), lent.as_ref(), request));
                }
                self.upload(body, stream).await
            } else {
                opened.map_err(SendError::Frames)?;
                self.upload(body, stream).await
            };
        }
        let response = match answered(answer, interims).await {
            Ok(response) => response,
            Err(error) => return Err(unanswered(error, lent.as_ref(), request)),
        };
        if let Some(lent) = lent {
            lent.settle();
        }
        running.heard();
        Ok(incoming(response, tunnel, running))
    }

    /// Waits until the stream that was begun last is open: the outer error is that nothing of it went.
    async fn opened(&mut self) -> Result<Result<(), h2::Error>, SendError> {
        let mut opened = pin!(poll_fn(|cx| self.sender.poll_ready(cx)));
        // Nearly always it is, and costs no clock.
        let at_once = poll_fn(|cx| Poll::Ready(opened.as_mut().poll(cx))).await;
        if let Poll::Ready(opened) = at_once {
            return Ok(opened);
        }
        let opened = tokio::time::timeout(STREAM_WITHIN, opened).await;
        opened.map_err(|_| SendError::NoStream)
    }

    /// Sends the header section.
    fn begin(
        &mut self,
        request: Request<Upload>,
    ) -> Result<(ResponseFuture, SendStream<Bytes>, Upload), SendError> {
        let (parts, body) = request.into_parts();
        let mut request = Request::from_parts(parts, ());
        let connect = request.method() == Method::CONNECT;
        let empty = body.is_end_stream();
        if let Some(length) = body.size_hint().exact()
            && !connect
            && (length > 0 || has_defined_content(request.method()))
        {
            let length = || HeaderValue::from(length);
            let headers = request.headers_mut();
            headers.entry(CONTENT_LENGTH).or_insert_with(length);
        }
        let sent = self.sender.send_request(request, empty && !connect);
        let (answer, stream) = sent.map_err(SendError::Frames)?;
        Ok((answer, stream, body))
    }

    /// Sends a body: what is here at once, the rest beside the answer.
    async fn upload<B>(&self, body: B, mut stream: SendStream<Bytes>) -> Option<oneshot::Sender<()>>
    where
        B: Piped<Error: std::error::Error + Send + 'static> + Send + 'static,
    {
        let backlog = self.line.backlog.clone();
        let mut piped = Box::pin(async move { pipe(body, &mut stream, &backlog).await });
        if poll_fn(|cx| Poll::Ready(piped.as_mut().poll(cx).is_ready())).await {
            return None;
        }
        let (held, dropped) = oneshot::channel::<()>();
        drop(self.tasks.spawn(async move {
            tokio::select! {
                piped = piped => if let Err(error) = piped {
                    tracing::debug!(error = %Words::of(&error), "a request body did not go to its end");
                },
                _ = dropped => {}
            }
        }));
        Some(held)
    }
}

/// Puts the body of a request back that its origin did not look at.
fn unanswered(error: SendError, lent: Option<&Lent>, request: &mut Request<Upload>) -> SendError {
    if error.is_unprocessed()
        && let Some(body) = lent.and_then(Lent::take_back)
    {
        *request.body_mut() = body;
    }
    error
}

/// Waits for the answer and passes on what comes before it.
async fn answered(
    answer: ResponseFuture,
    interims: &Interims,
) -> Result<Response<h2::RecvStream>, SendError> {
    let mut answer = pin!(answer);
    let allowance = Allowance::default();
    poll_fn(|cx| {
        while let Poll::Ready(Some(interim)) = answer.poll_informational(cx) {
            let interim = interim.map_err(SendError::Frames)?;
            interims
                .heard(&allowance, interim.status(), interim.headers())
                .map_err(SendError::Interim)?;
        }
        answer.as_mut().poll(cx).map_err(SendError::Frames)
    })
    .await
}

/// The answer as the pipeline takes it; one to an extended CONNECT may open both ways.
fn incoming(
    response: Response<h2::RecvStream>,
    tunnel: Option<SendStream<Bytes>>,
    running: Running,
) -> Response<Incoming> {
    let (parts, stream) = response.into_parts();
    let body = match tunnel {
        Some(send) if parts.status == StatusCode::OK => {
            Incoming::Tunnel(Box::new(Duplex::open(stream, send, running)))
        }
        _ => Incoming::Http2(Frames::of_answer(stream, &parts.headers, running)),
    };
    Response::from_parts(parts, body)
}

/// RFC 9110 §8.6: these have a length even where it is nothing.
fn has_defined_content(method: &Method) -> bool {
    !matches!(
        *method,
        Method::GET | Method::HEAD | Method::DELETE | Method::CONNECT
    )
}

impl Running {
    fn new(line: &Arc<Line>) -> Self {
        line.running.fetch_add(1, Ordering::Relaxed);
        Self {
            line: Arc::clone(line),
            sending: None,
        }
    }

    /// One of a connection that is not there.
    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        Self::new(&Arc::default())
    }

    /// Of its connection.
    #[must_use]
    pub fn backlog(&self) -> &Backlog {
        &self.line.backlog
    }

    /// The origin was heard.
    pub fn heard(&self) {
        self.line.heard.store(true, Ordering::Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.line.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a connection until nobody needs it, it breaks, or its origin is gone.
#[derive(Debug)]
pub struct Driver<S: AsyncRead + AsyncWrite + Unpin> {
    connection: Connection<S, Bytes>,
    pings: Option<Pings>,
    line: Arc<Line>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    /// Runs it.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn run(self) -> Result<(), h2::Error> {
        let Self {
            mut connection,
            mut pings,
            line,
        } = self;
        // h2 wakes this when the last request and the last sender are gone, and closes the connection.
        poll_fn(|cx| {
            if let Some(pings) = &mut pings
                && pings.poll(cx, &line).is_ready()
            {
                return Poll::Ready(Ok(()));
            }
            Pin::new(&mut connection).poll(cx)
        })
        .await
    }
}

/// Finds an origin that went away before more requests wait on it.
#[derive(Debug)]
struct Pings {
    pings: PingPong,
    clock: Pin<Box<Sleep>>,
    asked: bool,
    /// The last answer to a PING, since when nothing else came.
    quiet: bool,
}

impl Pings {
    fn new(pings: PingPong) -> Self {
        Self {
            pings,
            clock: Box::pin(sleep(PING_AFTER)),
            asked: false,
            quiet: false,
        }
    }

    /// Ready when the origin does not answer.
    fn poll(&mut self, cx: &mut Context<'_>, line: &Line) -> Poll<()> {
        loop {
            if self.asked && self.pings.poll_pong(cx).is_ready() {
                self.asked = false;
                self.quiet = true;
                self.wait(PING_AGAIN);
            }
            if self.quiet && line.heard.swap(false, Ordering::Relaxed) {
                self.quiet = false;
                self.wait(PING_AFTER);
            }
            ready!(self.clock.as_mut().poll(cx));
            if self.asked {
                tracing::debug!("an origin answers no PING");
                return Poll::Ready(());
            }
            let heard = line.heard.swap(false, Ordering::Relaxed);
            let waited_for = line.running.load(Ordering::Relaxed) > 0;
            if heard || !waited_for || self.pings.send_ping(Ping::opaque()).is_err() {
                self.quiet = false;
                self.wait(PING_AFTER);
            } else {
                self.asked = true;
                self.wait(PING_ANSWER);
            }
        }
    }

    fn wait(&mut self, long: Duration) {
        self.clock.as_mut().reset(Instant::now() + long);
    }
}

/// h2 tells nobody that SETTINGS came: while somebody waits, it is looked again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// SETTINGS are the first thing that an origin sends (RFC 9113 §3.4).
const PATIENCE: Duration = Duration::from_secs(10);
/// Half of the minute after which common NATs forget.
const PING_AFTER: Duration = Duration::from_secs(30);
/// gRPC's servers take it for abuse when they are asked more often than every five minutes while they
/// have nothing to send.
const PING_AGAIN: Duration = Duration::from_secs(330);
/// Others of the sandbox run on the connection, each with deadlines of its own: a few may be waited for.
const STREAM_WITHIN: Duration = Duration::from_secs(30);
/// Slower than any network that works.
const PING_ANSWER: Duration = Duration::from_secs(20);
