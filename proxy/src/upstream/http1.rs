//! HTTP/1.1 to an origin, sent and read by whoever waits for the answer.
//!
//! Most requests have no body, and most answers say how long they are. Such an exchange needs no task,
//! channel or copy beside the request's own: its header section is written here, the answer's is read
//! here ([`head`]), and the body is taken from the stream as the program takes it (`rest`). Whatever
//! asks or answers in another way (a body, an upgrade, interim responses, chunks, another version, what
//! is odd or malformed) is hyper's to read: the connection is handed over to it together with what was
//! read (`replay`), and stays with it. What is read here is thus a part of what hyper reads, in the
//! same way, and nothing is decided here about a message that could be read in two ways.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Method, Request, Response};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
    task::unconstrained,
};

use super::last_words::LastWords;
use crate::{
    http::{body::Upload, incoming::Incoming, limits},
    seldom::Seldom,
};

pub mod head;
mod replay;
mod rest;
mod wire;

use head::{Answer, Read};
use replay::Replay;
pub use rest::Rest;
use wire::{ROOM, Wire};

/// What a connection is made of: TCP, or TLS over it.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection of its own for one request at a time.
pub struct Connection(Arc<Held>);

/// What a connection, the rest of its answer and its driver share.
struct Held {
    state: Mutex<State>,
    /// Takes the connection when hyper is to read it; dropped, it ends the driver.
    driver: Mutex<Option<oneshot::Sender<Driven>>>,
}

struct State {
    /// `None` when it was cut, or handed over.
    wire: Option<Wire>,
    /// Who waits for something to be read.
    reader: Waker,
}

type Driven = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// What came of a request.
#[derive(Debug)]
pub enum Sent {
    /// Its answer; the body may follow.
    Answer(Response<Incoming>),
    /// Something that hyper is to read.
    Unusual(Came),
}

/// What hyper has to be told of a request that is under way.
#[derive(Debug, Default)]
pub struct Came {
    /// What was sent.
    sent: Bytes,
    /// What came.
    came: Bytes,
}

/// A request without an answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// The connection was cut, by us.
    #[error("the connection to the origin was cut")]
    Cut,
    /// It ended before any octet of an answer.
    #[error("the origin closed the connection before an answer")]
    Nothing(#[source] Option<io::Error>),
    /// It ended within one.
    #[error("the origin closed the connection within its answer's header section")]
    Part(#[source] Option<io::Error>),
}

/// Takes `stream` as a connection; what is given beside it is to be run until it ends. Dropping that cuts
/// the connection.
pub fn open(
    stream: Box<dyn Stream>,
) -> (
    Connection,
    impl Future<Output = hyper::Result<()>> + Send + 'static,
) {
    let (hand, handed) = oneshot::channel::<Driven>();
    let held = Arc::new(Held {
        state: Mutex::new(State {
            wire: Some(Wire::new(stream)),
            reader: Waker::noop().clone(),
        }),
        driver: Mutex::new(Some(hand)),
    });
    let cut = Cut(Arc::downgrade(&held));
    let driving = async move {
        let _cut = cut;
        match handed.await {
            Ok(connection) => connection.await,
            // Nobody holds it any more.
            Err(_) => Ok(()),
        }
    };
    (Connection(held), driving)
}

impl Connection {
    /// Sends `request` and waits for the answer's header section; `None` where hyper must send it. The
    /// request stays where it is. Dropping the future ends the connection.
    ///
    /// # Errors
    /// [`NoAnswer`].
    #[must_use]
    pub fn send(
        &self,
        request: &Request<Upload>,
    ) -> Option<impl Future<Output = Result<Sent, NoAnswer>> + Send + use<'_>> {
        if !matches!(request.body(), Upload::Empty) || !self.0.begin(request) {
            return None;
        }
        let to_head = request.method() == Method::HEAD;
        Some(poll_fn(move |cx| self.0.poll_answer(cx, to_head)))
    }

    /// Gives the connection to hyper, with what it is to find on it.
    ///
    /// # Errors
    /// hyper's; `None` where the connection was cut.
    pub async fn hand_over(
        self,
        came: Came,
    ) -> Result<http1::SendRequest<Upload>, Option<hyper::Error>> {
        let wire = self.0.state.lock().wire.take().ok_or(None)?;
        let driver = self.0.driver.lock().take().ok_or(None)?;
        let stream = Replay::new(wire.stream, came.sent, came.came);
        let stream = TokioIo::new(LastWords::new(Seldom::new(stream)));
        let (sender, connection) = limits::http1_client()
            .handshake::<_, Upload>(stream)
            .await
            .map_err(Some)?;
        let driven: Driven = Box::pin(connection.with_upgrades());
        // Who should drive it is gone when it was cut.
        driver.send(driven).map_err(|_| None)?;
        Ok(sender)
    }

    /// Whether it may carry another request, as far as its last answer says.
    #[must_use]
    pub fn is_reusable(&self) -> bool {
        let state = self.0.state.lock();
        state.wire.as_ref().is_some_and(Wire::is_idle)
    }

    /// Whether it can take a request: nothing runs on it, and its origin neither closed it nor said
    /// anything that nobody asked for.
    #[must_use]
    pub fn is_free(&self) -> bool {
        let mut state = self.0.state.lock();
        let Some(wire) = &mut state.wire else {
            return false;
        };
        if !wire.is_idle() {
            return false;
        }
        // Nobody is to be woken: whoever sends next reads.
        let mut nobody = Context::from_waker(Waker::noop());
        // A task that is to make way would take every connection for a silent one.
        let read = pin!(unconstrained(poll_fn(|cx| wire.poll_read(cx, ROOM))));
        read.poll(&mut nobody).is_pending()
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Held {
    /// Readies `request` to be written; false where its header section is none for here.
    fn begin(&self, request: &Request<Upload>) -> bool {
        let mut state = self.state.lock();
        let Some(wire) = &mut state.wire else {
            // Told by who waits.
            return true;
        };
        wire.begin(request)
    }

    fn poll_answer(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        to_head: bool,
    ) -> Poll<Result<Sent, NoAnswer>> {
        let mut state = self.state.lock();
        let State { wire, reader } = &mut *state;
        let Some(wire) = wire else {
            return Poll::Ready(Err(NoAnswer::Cut));
        };
        let all_sent = wire.poll_send(cx).is_ready();
        loop {
            let came = match all_sent {
                true => wire.read_head(to_head),
                false => wire.read_early(),
            };
            match came {
                Some(Read::Answer(answer)) => {
                    return Poll::Ready(Ok(Sent::Answer(self.answered(wire, answer))));
                }
                Some(Read::Unusual(came)) => {
                    // What is not written yet is for hyper to write.
                    wire.sent.truncate(wire.written);
                    let sent = std::mem::take(&mut wire.sent).into();
                    return Poll::Ready(Ok(Sent::Unusual(Came { sent, came })));
                }
                None => {}
            }
            let Poll::Ready(read) = wire.poll_read(cx, ROOM) else {
                reader.clone_from(cx.waker());
                return Poll::Pending;
            };
            match read {
                Ok(1..) => {}
                ended => {
                    wire.spent = true;
                    let source = ended.err();
                    return Poll::Ready(Err(if wire.buffer.is_empty() {
                        NoAnswer::Nothing(source)
                    } else {
                        NoAnswer::Part(source)
                    }));
                }
            }
        }
    }

    fn answered(self: &Arc<Self>, wire: &mut Wire, answer: Answer) -> Response<Incoming> {
        let Answer {
            head,
            mut first,
            length,
            keeps,
        } = answer;
        let here = u64::try_from(first.len()).unwrap_or(u64::MAX);
        // What follows an answer belongs to none.
        wire.spent |= !keeps || here > length;
        if here >= length {
            first.truncate(usize::try_from(length).unwrap_or(usize::MAX));
            wire.busy = false;
        }
        let body = if length == 0 {
            Incoming::Nothing
        } else if here >= length {
            Incoming::Here(first)
        } else {
            Incoming::Rest(Box::new(Rest::new(Arc::clone(self), first, length)))
        };
        head.map(|()| body)
    }
}

/// Ends a connection when nobody drives it any more.
struct Cut(Weak<Held>);

impl Drop for Cut {
    fn drop(&mut self) {
        let Some(held) = self.0.upgrade() else {
            return;
        };
        let (wire, reader) = {
            let mut state = held.state.lock();
            (state.wire.take(), state.reader.clone())
        };
        drop(wire);
        reader.wake();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(wire) = &mut self.state.get_mut().wire
            && !wire.busy
        {
            // It said all that it had to say: its origin is told, as far as that needs no waiting.
            let mut nobody = Context::from_waker(Waker::noop());
            let _told = Pin::new(&mut *wire.stream).poll_shutdown(&mut nobody);
        }
    }
}
