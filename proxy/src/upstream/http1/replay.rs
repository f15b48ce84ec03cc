//! A stream on which a request is under way already, for who reads the answer instead.
//!
//! What was sent of the request's header section is taken again and goes nowhere, and must be the same
//! octet by octet, or the connection is over. Then what came is read first. Afterwards, and where
//! nothing is under way, it is the stream itself.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Stream;

/// A stream with a past.
pub(super) struct Replay {
    inner: Box<dyn Stream>,
    /// Sent, and to be written again.
    sent: Bytes,
    /// Came, and to be read again.
    came: Bytes,
    /// Something else was written.
    differs: bool,
    /// Who wants to read before everything was written again.
    early: Option<Waker>,
}

impl Replay {
    pub(super) const fn new(inner: Box<dyn Stream>, sent: Bytes, came: Bytes) -> Self {
        Self {
            inner,
            sent,
            came,
            differs: false,
            early: None,
        }
    }

    /// Takes what was sent before; `None` when all of that was written again.
    fn take(&mut self, octets: &[u8]) -> Option<io::Result<usize>> {
        if self.differs {
            return Some(Err(io::ErrorKind::InvalidData.into()));
        }
        if self.sent.is_empty() {
            return None;
        }
        let length = octets.len().min(self.sent.len());
        if octets.get(..length) != self.sent.get(..length) {
            tracing::error!("a request was written in two ways");
            self.differs = true;
            return Some(Err(io::ErrorKind::InvalidData.into()));
        }
        self.sent.advance(length);
        if self.sent.is_empty()
            && let Some(early) = self.early.take()
        {
            early.wake();
        }
        Some(Ok(length))
    }
}

impl AsyncRead for Replay {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.differs {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        if !self.sent.is_empty() {
            // An answer to what was not asked yet would be none.
            self.early = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if self.came.is_empty() {
            return Pin::new(&mut *self.inner).poll_read(cx, buffer);
        }
        let length = self.came.len().min(buffer.remaining());
        buffer.put_slice(&self.came.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Replay {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.take(octets) {
            Some(taken) => Poll::Ready(taken),
            None => Pin::new(&mut *self.inner).poll_write(cx, octets),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.iter().find(|slice| !slice.is_empty());
        match self.take(first.map_or(&[], |slice| slice)) {
            Some(taken) => Poll::Ready(taken),
            None => Pin::new(&mut *self.inner).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.inner).poll_shutdown(cx)
    }
}
