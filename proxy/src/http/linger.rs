//! Closing a connection so that its last answer is read (RFC 9112 §9.6).
//!
//! An answer may be ready while the program still sends: a refusal, a limit, an origin that failed. A
//! socket that is closed over octets that nobody read resets the connection, and a program that is
//! writing then sees a broken pipe instead of the answer. So the sending half is closed first, and
//! what still comes is thrown away until the program closes too, falls silent, or has used up the
//! time or the octets it is given. It stands beneath TLS: nothing is decrypted to be thrown away.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// How long a connection lingers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lingering {
    /// All of it.
    pub whole: Duration,
    /// Without an octet from the program.
    pub silence: Duration,
}

/// Tells a connection that what ends it is no longer HTTP: each half then closes by itself.
#[derive(Debug, Clone, Default)]
pub struct HalfClose(Arc<AtomicBool>);

impl HalfClose {
    /// From now on a shutdown closes the sending half and nothing else.
    pub fn plain(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_plain(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A stream whose shutdown lingers.
#[derive(Debug)]
pub struct Linger<S> {
    inner: S,
    most: Lingering,
    half_close: HalfClose,
    /// The other side has closed, or was waited for long enough.
    ended: bool,
    farewell: Option<Box<Farewell>>,
}

#[derive(Debug)]
struct Farewell {
    until: Instant,
    clock: Pin<Box<Sleep>>,
    discarded: u64,
}

impl<S> Linger<S> {
    /// Lingers for as long as `most`, unless `half_close` says otherwise by then.
    pub const fn new(inner: S, most: Lingering, half_close: HalfClose) -> Self {
        Self {
            inner,
            most,
            half_close,
            ended: false,
            farewell: None,
        }
    }

    /// The stream beneath.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: AsyncRead + Unpin> Linger<S> {
    /// Throws away what comes; ready at the end, at a failure, or at a bound.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let most = self.most;
        let farewell = self
            .farewell
            .get_or_insert_with(|| Box::new(Farewell::new(most)));
        let mut room = [0; AT_ONCE];
        loop {
            let mut octets = ReadBuf::new(&mut room);
            match Pin::new(&mut self.inner).poll_read(cx, &mut octets) {
                Poll::Ready(Ok(())) if !octets.filled().is_empty() => {
                    farewell.discarded += octets.filled().len() as u64;
                    farewell.heard(most.silence);
                }
                Poll::Ready(_) => break,
                Poll::Pending => {
                    ready!(farewell.clock.as_mut().poll(cx));
                    break;
                }
            }
            if farewell.discarded > MOST_OCTETS || Instant::now() >= farewell.until {
                break;
            }
        }
        self.ended = true;
        Poll::Ready(())
    }
}

impl Farewell {
    fn new(most: Lingering) -> Self {
        let now = Instant::now();
        Self {
            until: now + most.whole,
            clock: Box::pin(sleep_until(now + most.silence.min(most.whole))),
            discarded: 0,
        }
    }

    fn heard(&mut self, silence: Duration) {
        let due = (Instant::now() + silence).min(self.until);
        self.clock.as_mut().reset(due);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Linger<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let had_room = buffer.remaining() > 0;
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.ended |= match &read {
            Poll::Ready(Ok(())) => had_room && buffer.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Linger<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.farewell.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        }
        if !self.ended && !self.half_close.is_plain() {
            ready!(self.poll_discard(cx));
        }
        Poll::Ready(Ok(()))
    }
}

/// Thrown away by one read.
const AT_ONCE: usize = 16 * 1024;
/// A program that goes on for longer than this does not look for an answer.
const MOST_OCTETS: u64 = 256 * 1024 * 1024;

#[cfg(test)]
mod tests;
