//! Somebody's WebSocket joined to the standard streams of a program.
//!
//! Promises that octets pass unchanged and in order, that a reader who stands still holds the program up
//! instead of filling memory, that each stream ends by itself, that who is gone or may no more is let go,
//! and that the end is told with its reason. What follows from the end is the caller's.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::Notify,
    time::Instant,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error, Message, error::ProtocolError, protocol::CloseFrame},
};

use crate::control::{Attached, EndCause, Ended};

pub mod protocol;

/// Why it is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Over {
    /// The sandbox ended.
    Ended(Ended),
    /// The other side went away, with or without a word.
    Gone,
    /// It sent what is no message of ours.
    NotUnderstood,
    /// It sent a message that is too long.
    TooLong,
    /// Nothing was heard of it for too long.
    Silent,
    /// The sandbox ended, and what it had printed was not read in time.
    Unread,
    /// It may be attached no more.
    Lapsed,
}

impl Over {
    /// In words, for the record.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Ended(ended) => format!("{}, status {}", ended.words(), ended.status),
            Self::Gone => "the client went away".to_owned(),
            Self::NotUnderstood => "the client sent what is not understood".to_owned(),
            Self::TooLong => "the client sent a message that is too long".to_owned(),
            Self::Silent => "nothing was heard of the client".to_owned(),
            Self::Unread => "the sandbox ended and the client did not read the rest".to_owned(),
            Self::Lapsed => "the client may be attached no more".to_owned(),
        }
    }

    fn code(&self) -> u16 {
        match self {
            Self::Ended(ended) => match ended.cause {
                EndCause::Program if ended.starved => protocol::STARVED,
                EndCause::Program => protocol::ENDED,
                EndCause::Stopped => protocol::STOPPED,
                EndCause::Shutdown => protocol::SHUTDOWN,
                EndCause::Idle
                | EndCause::Detached
                | EndCause::Changed
                | EndCause::Uncovered
                | EndCause::NotBegun
                | EndCause::Lost => protocol::FAILED,
            },
            Self::NotUnderstood => protocol::NOT_UNDERSTOOD,
            Self::TooLong => protocol::TOO_LONG,
            Self::Silent | Self::Unread => protocol::SILENT,
            Self::Lapsed => protocol::LAPSED,
            Self::Gone => protocol::ENDED,
        }
    }
}

/// Both halves of the other side's connection.
pub(crate) struct Joined<S> {
    sink: SplitSink<WebSocketStream<S>, Message>,
    stream: SplitStream<WebSocketStream<S>>,
    pulse: Pulse,
}

/// What is known of the other side.
struct Pulse {
    begun: Instant,
    /// When something came, in milliseconds since then.
    heard: AtomicU64,
    /// The program takes nothing: nothing is read, so nothing can be heard.
    held_up: AtomicBool,
    ask: Notify,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Joined<S> {
    pub(crate) fn new(socket: WebSocketStream<S>) -> Self {
        let (sink, stream) = socket.split();
        Self {
            sink,
            stream,
            pulse: Pulse {
                begun: Instant::now(),
                heard: AtomicU64::new(0),
                held_up: AtomicBool::new(false),
                ask: Notify::new(),
            },
        }
    }

    /// Passes octets until one side is done, or `lapsed` says that the other side may no more. Dropping the future loses
    /// what is on its way.
    pub(crate) async fn pass(
        &mut self,
        attached: &mut Attached,
        lapsed: impl Future<Output = ()>,
    ) -> Over {
        let Self {
            sink,
            stream,
            pulse,
        } = self;
        let stdin = attached.stdin.take();
        let ended = attached.ended.clone();
        let outgoing = outgoing(sink, attached, pulse);
        tokio::select! {
            // Before anything else that is there.
            biased;
            () = lapsed => Over::Lapsed,
            over = incoming(stream, stdin, pulse) => over,
            over = outgoing => over,
            over = watch(pulse) => over,
            () = unread(ended) => Over::Unread,
        }
    }

    /// Tells the other side that it is over, if it still listens.
    pub(crate) async fn end(mut self, over: &Over) {
        if *over == Over::Gone {
            return;
        }
        let told = async {
            if let Over::Ended(ended) = over {
                let exit = format!("{{\"exit\": {}}}", ended.status);
                self.sink.feed(Message::text(exit)).await?;
            }
            let frame = CloseFrame {
                code: protocol::close_code(over.code()),
                reason: over.words().into(),
            };
            self.sink.send(Message::Close(Some(frame))).await?;
            // The other side's own close, so that what was sent is not lost with the connection.
            while let Some(Ok(_)) = self.stream.next().await {}
            Ok::<(), Error>(())
        };
        // Whoever does not listen any more is told nothing.
        let _told = tokio::time::timeout(FAREWELL, told).await;
    }
}

impl Pulse {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn beats(&self) {
        self.heard.store(self.now(), Relaxed);
    }

    fn is_silent(&self) -> bool {
        let since = self.now().saturating_sub(self.heard.load(Relaxed));
        !self.held_up.load(Relaxed) && u128::from(since) > SILENCE.as_millis()
    }
}

/// What the other side sends, to the program.
async fn incoming<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut SplitStream<WebSocketStream<S>>,
    mut stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pulse: &Pulse,
) -> Over {
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(Error::Capacity(_))) => return Over::TooLong,
            Some(Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => {
                return Over::Gone;
            }
            Some(Err(Error::Protocol(_) | Error::Utf8(_))) => return Over::NotUnderstood,
            Some(Err(_)) | None => return Over::Gone,
        };
        pulse.beats();
        let octets = match message {
            Message::Binary(octets) => octets,
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => return Over::Gone,
            Message::Text(_) | Message::Frame(_) => return Over::NotUnderstood,
        };
        match octets.split_first() {
            Some((&protocol::STDIN, [])) => stdin = None,
            Some((&protocol::STDIN, octets)) => {
                if let Some(open) = &mut stdin {
                    pulse.held_up.store(true, Relaxed);
                    let written = open.write_all(octets).await;
                    pulse.beats();
                    pulse.held_up.store(false, Relaxed);
                    // The program reads no more; that is its own affair.
                    if written.is_err() {
                        stdin = None;
                    }
                }
            }
            _ => return Over::NotUnderstood,
        }
    }
}

/// What the program prints, to the other side; then, how it ended.
async fn outgoing<S: AsyncRead + AsyncWrite + Unpin>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    attached: &mut Attached,
    pulse: &Pulse,
) -> Over {
    let Attached {
        stdout,
        stderr,
        ended,
        ..
    } = attached;
    let (mut out_open, mut err_open) = (true, true);
    let mut out = protocol::message(protocol::STDOUT);
    loop {
        let message = tokio::select! {
            read = stdout.read_buf(&mut out), if out_open => {
                out_open = matches!(read, Ok(1..));
                let next = protocol::message(protocol::STDOUT);
                Message::Binary(std::mem::replace(&mut out, next).freeze())
            }
            chunk = stderr.recv(), if err_open => {
                err_open = chunk.is_some();
                let mut message = protocol::message(protocol::STDERR);
                message.extend_from_slice(&chunk.unwrap_or_default());
                Message::Binary(message.freeze())
            }
            ended = &mut *ended, if !out_open && !err_open => return Over::Ended(ended),
            () = pulse.ask.notified() => Message::Ping(Bytes::new()),
        };
        if sink.send(message).await.is_err() {
            return Over::Gone;
        }
    }
}

/// Ends when the other side is silent.
async fn watch(pulse: &Pulse) -> Over {
    loop {
        tokio::time::sleep(BEAT).await;
        if pulse.is_silent() {
            return Over::Silent;
        }
        pulse.ask.notify_one();
    }
}

/// Ends some time after the sandbox has: who reads slowly keeps nothing for ever, and a gig that goes down
/// waits for nobody.
async fn unread(ended: impl Future<Output = Ended>) {
    let left = match ended.await.cause {
        EndCause::Shutdown => SECOND,
        EndCause::Program
        | EndCause::Stopped
        | EndCause::Idle
        | EndCause::Detached
        | EndCause::Changed
        | EndCause::NotBegun
        | EndCause::Uncovered
        | EndCause::Lost => HALF_A_MINUTE,
    };
    tokio::time::sleep(left).await;
}

/// Between two questions whether the other side is there.
const BEAT: Duration = Duration::from_secs(15);
/// Three questions without an answer.
const SILENCE: Duration = Duration::from_secs(50);
/// For the rest of what a program printed.
const HALF_A_MINUTE: Duration = Duration::from_secs(30);
/// The same, when gig goes down.
const SECOND: Duration = Duration::from_secs(1);
/// For the last word.
const FAREWELL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
