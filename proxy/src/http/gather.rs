//! Gathers what HTTP/2 writes, so that many frames travel in one TLS record and one system call.
//!
//! h2 writes and flushes the stream once for each DATA frame. Between h2 and TLS, frames are put
//! together here instead, and go when h2 flushes without having written anything new: it has then
//! nothing left to send. A flush that comes directly after a write is answered at once and the
//! connection's task is woken, so that this second flush follows within the same round of the thread;
//! `LONGEST` bounds how often one may follow another. Large writes pass untouched, and so does
//! everything before the peer was heard, when h2 is still shaking hands and flushes only once.
//! An idle connection keeps no buffer.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

/// A stream beneath h2.
#[derive(Debug)]
pub struct Gathering<S> {
    inner: S,
    gathered: Vec<u8>,
    /// How much of it is written already.
    written: usize,
    /// When the oldest of it came.
    since: Option<Instant>,
    /// Something came since the last flush.
    fresh: bool,
    /// The peer was heard.
    heard: bool,
}

impl<S: AsyncWrite + Unpin> Gathering<S> {
    /// Wraps the stream beneath h2.
    pub const fn new(inner: S) -> Self {
        Self {
            inner,
            gathered: Vec::new(),
            written: 0,
            since: None,
            fresh: false,
            heard: false,
        }
    }

    /// Writes all that was gathered.
    fn poll_let_go(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.gathered.get(self.written..)
            && !rest.is_empty()
        {
            let n = ready!(Pin::new(&mut self.inner).poll_write(cx, rest))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += n;
        }
        self.gathered = Vec::new();
        self.written = 0;
        self.since = None;
        self.fresh = false;
        Poll::Ready(Ok(()))
    }

    /// Takes small writes in; what is left over goes straight through.
    fn take_in(&mut self, pieces: &[IoSlice<'_>]) -> Option<usize> {
        let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if !self.heard || self.gathered.len() + length > ROOM {
            return None;
        }
        if self.gathered.is_empty() {
            self.gathered.reserve_exact(ROOM);
            self.since = Some(Instant::now());
        }
        for piece in pieces {
            self.gathered.extend_from_slice(piece);
        }
        self.fresh = true;
        Some(length)
    }

    fn may_wait(&mut self) -> bool {
        std::mem::take(&mut self.fresh) && self.since.is_some_and(|since| since.elapsed() < LONGEST)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        self.heard = true;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(taken) = self.take_in(&[IoSlice::new(octets)]) {
            return Poll::Ready(Ok(taken));
        }
        ready!(self.poll_let_go(cx))?;
        Pin::new(&mut self.inner).poll_write(cx, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(taken) = self.take_in(pieces) {
            return Poll::Ready(Ok(taken));
        }
        ready!(self.poll_let_go(cx))?;
        Pin::new(&mut self.inner).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.may_wait() {
            cx.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_let_go(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_let_go(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// One TLS record.
const ROOM: usize = 16 * 1024;
/// Far below what anybody notices; a round of a busy thread takes less.
const LONGEST: Duration = Duration::from_micros(500);

#[cfg(test)]
mod tests;
