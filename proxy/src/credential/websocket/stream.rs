//! A stream whose WebSocket messages are rewritten while they are read.
//!
//! It reads like the stream beneath and gives frames of its own making; writing is the stream's. What
//! values make of what was read, and what waits for the rest of a frame, is counted in what the sandbox's
//! bodies may hold: a stream that needs more is stopped.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{FrameError, Frames};
use crate::credential::{memory::Memory, rewrite::RewriteError, tally::Telling, wallet::Readying};

/// What has to be waited for before what was read is rewritten.
pub type MakeReady = Box<dyn FnMut() -> Option<Readying> + Send>;
/// What has to be waited for before what was rewritten goes; where it fails, nothing does.
pub type MakeTelling = Box<dyn FnMut() -> Option<Telling> + Send>;

/// A stream with rewritten messages.
pub struct RewrittenStream<S> {
    inner: S,
    frames: Frames,
    make_ready: Option<MakeReady>,
    /// Was read, and waits.
    unready: Option<(Readying, Vec<u8>)>,
    make_telling: Option<MakeTelling>,
    /// What is ready waits for it.
    untold: Option<Telling>,
    ready: BytesMut,
    ended: bool,
    /// Octets of rewritten frames that were read, and octets that were written to the stream beneath.
    given: u64,
    written: u64,
    /// Told once what was ready before has been read.
    stopped: Option<FrameError>,
}

impl<S> RewrittenStream<S> {
    /// Rewrites what is read from `inner`.
    pub fn new(inner: S, frames: Frames) -> Self {
        Self {
            inner,
            frames,
            make_ready: None,
            unready: None,
            make_telling: None,
            untold: None,
            ready: BytesMut::new(),
            ended: false,
            given: 0,
            written: 0,
            stopped: None,
        }
    }

    /// Asks `make_ready` whenever something was read, and waits for what it says.
    #[must_use]
    pub fn when(mut self, make_ready: MakeReady) -> Self {
        self.make_ready = Some(make_ready);
        self
    }

    /// Asks `make_telling` whenever something was rewritten, and waits for what it says.
    #[must_use]
    pub fn telling(mut self, make_telling: MakeTelling) -> Self {
        self.make_telling = Some(make_telling);
        self
    }

    /// Counts what it holds in `memory`.
    #[must_use]
    pub fn counted(mut self, memory: &Arc<Memory>) -> Self {
        self.frames.count_in(memory);
        self
    }

    /// Why it was stopped, if it was.
    pub const fn stopped(&self) -> Option<FrameError> {
        self.stopped
    }

    /// Whether everything that was read from `other` was written here, so that a frame may follow.
    pub fn is_between<T>(&self, other: &RewrittenStream<T>) -> bool {
        other.ready.is_empty() && other.given == self.written
    }

    fn take(&mut self, octets: &[u8]) {
        let mut out = Vec::with_capacity(octets.len());
        if let Err(error) = self.frames.push(octets, &mut out) {
            self.stopped = Some(error);
        }
        if self.counts(out.len()) {
            self.ready.extend_from_slice(&out);
        }
        self.untold = self.make_telling.as_mut().and_then(|make| make());
    }

    /// What is ready is told, or goes nowhere.
    fn told(&mut self, told: Result<(), RewriteError>) {
        self.untold = None;
        if let Err(error) = told {
            self.stopped.get_or_insert(FrameError::Rewrite(error));
            self.ready = BytesMut::new();
            self.counts(0);
        }
    }

    /// Counts what is held with `ready` octets of frames that wait to be read; stops where that is more
    /// than there is.
    fn counts(&mut self, ready: usize) -> bool {
        let counted = self.frames.counts(ready);
        if let Err(error) = counted {
            self.stopped.get_or_insert(error);
        }
        counted.is_ok()
    }
}

impl<S: fmt::Debug> fmt::Debug for RewrittenStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RewrittenStream")
            .field("inner", &self.inner)
            .field("frames", &self.frames)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RewrittenStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if let Some(telling) = &mut this.untold {
                let told = ready!(telling.as_mut().poll(cx));
                this.told(told);
            }
            if !this.ready.is_empty() {
                break;
            }
            if let Some(error) = this.stopped {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
            if let Some((readying, _)) = &mut this.unready {
                ready!(readying.as_mut().poll(cx));
                let octets = this.unready.take().map(|(_, octets)| octets);
                this.take(&octets.unwrap_or_default());
                continue;
            }
            if this.ended {
                return Poll::Ready(Ok(()));
            }
            let mut room = [0; AT_ONCE];
            let mut octets = ReadBuf::new(&mut room);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut octets))?;
            if octets.filled().is_empty() {
                // What is held back in the middle of a frame goes nowhere: its message is not whole.
                this.ended = true;
            } else {
                match this.make_ready.as_mut().and_then(|make| make()) {
                    Some(readying) => this.unready = Some((readying, octets.filled().to_vec())),
                    None => this.take(octets.filled()),
                }
            }
        }
        let length = this.ready.len().min(buffer.remaining());
        buffer.put_slice(this.ready.get(..length).unwrap_or_default());
        this.ready.advance(length);
        this.given += length as u64;
        if this.ready.is_empty() {
            // Lets a large block go.
            this.ready = BytesMut::new();
            this.counts(0);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RewrittenStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = ready!(Pin::new(&mut self.inner).poll_write(cx, octets))?;
        self.written += wrote as u64;
        Poll::Ready(Ok(wrote))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Read by one call.
const AT_ONCE: usize = 16 * 1024;
