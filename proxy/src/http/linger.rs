//! Closing a connection so that its last answer is read (RFC 9112 §9.6).
//!
//! An answer may be ready while the program still sends: a refusal, a limit, an origin that failed. A
//! socket that is closed over octets that nobody read resets the connection, and a program that is
//! writing then sees a broken pipe instead of the answer. So the sending half is closed first, and
//! what still comes is thrown away until the program closes too, falls silent, or has used up the
//! time or the octets it is given. It stands beneath TLS: nothing is decrypted to be thrown away.
//! Where a policy wants no explanation (`deny: reset`), the reset is made here as well; so is that of an
//! answer which its connection's end alone would end (HTTP/1.0), and which did not come to it.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

use crate::detect::Rewind;

/// How long a connection lingers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lingering {
    /// All of it.
    pub whole: Duration,
    /// Without an octet from the program.
    pub silence: Duration,
}

/// Tells a connection how it ends; it lingers unless told otherwise.
#[derive(Debug, Clone, Default)]
pub struct Ending(Arc<Told>);

#[derive(Debug, Default)]
struct Told {
    how: AtomicU8,
    lingers: AtomicBool,
    unframed: AtomicBool,
}

impl Ending {
    /// It is no longer HTTP: from now on a shutdown closes the sending half and nothing else.
    pub fn plain(&self) {
        self.0.how.store(PLAIN, Ordering::Release);
    }

    /// With a reset, instead of whatever would be written next.
    pub fn abrupt(&self) {
        self.0.how.store(ABRUPT, Ordering::Release);
    }

    /// Whether all that was to be said is said, and the rest is waiting.
    #[must_use]
    pub fn lingers(&self) -> bool {
        self.0.lingers.load(Ordering::Acquire)
    }

    /// An answer begins whose end is the connection's: until a shutdown, any other end is a reset, whoever
    /// makes it, or it would look like that.
    pub fn unframed(&self) {
        self.0.unframed.store(true, Ordering::Release);
    }

    /// Nothing is waited for any more.
    pub fn at_once(&self) {
        self.0.how.store(HURRIED, Ordering::Release);
    }

    /// Whether it is no longer HTTP.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.is(PLAIN)
    }

    fn is(&self, how: u8) -> bool {
        self.0.how.load(Ordering::Acquire) == how
    }
}

const PLAIN: u8 = 1;
const ABRUPT: u8 = 2;
const HURRIED: u8 = 3;

/// A stream that can be closed with a reset.
pub trait Abort {
    /// Has a close be a reset, or no longer.
    fn abort(&self, reset: bool);
}

impl Abort for TcpStream {
    fn abort(&self, reset: bool) {
        let linger = reset.then_some(Duration::ZERO);
        if let Err(error) = socket2::SockRef::from(self).set_linger(linger) {
            tracing::debug!(%error, reset, "a connection is not closed as it should be");
        }
    }
}

impl<S: Abort> Abort for Rewind<S> {
    fn abort(&self, reset: bool) {
        self.get_ref().abort(reset);
    }
}

/// A stream whose shutdown lingers.
#[derive(Debug)]
pub struct Linger<S> {
    inner: S,
    most: Lingering,
    ending: Ending,
    /// The other side has closed, or was waited for long enough.
    ended: bool,
    /// Whatever closes the stream now resets it.
    armed: bool,
    farewell: Option<Box<Farewell>>,
}

#[derive(Debug)]
struct Farewell {
    until: Instant,
    clock: Pin<Box<Sleep>>,
    discarded: u64,
}

impl<S> Linger<S> {
    /// Lingers for as long as `most`, unless `ending` says otherwise by then.
    pub const fn new(inner: S, most: Lingering, ending: Ending) -> Self {
        Self {
            inner,
            most,
            ending,
            ended: false,
            armed: false,
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

impl<S: Abort> Linger<S> {
    fn check(&mut self) -> io::Result<()> {
        if self.ending.is(ABRUPT) {
            self.inner.abort(true);
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if !self.armed && self.ending.0.unframed.load(Ordering::Acquire) {
            self.inner.abort(true);
            self.armed = true;
        }
        Ok(())
    }
}

impl<S: AsyncRead + AsyncWrite + Abort + Unpin> AsyncWrite for Linger<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.inner).poll_write(cx, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        if self.farewell.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
            if self.armed {
                self.inner.abort(false);
            }
        }
        let waits = !self.ending.is_plain() && !self.ending.is(HURRIED);
        if !self.ended && waits {
            self.ending.0.lingers.store(true, Ordering::Release);
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
