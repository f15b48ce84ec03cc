//! Hears an origin out that no longer listens.
//!
//! An origin that answers before it has read a whole request may close at once: what we then write
//! fails while its answer is already here, unread. hyper gives the connection up at the first failed
//! write. So a failed write is not told: what follows goes nowhere, and the end of the connection is
//! learnt where the answer is, by reading.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::failure::words::Words;

/// A stream to an origin whose writes fail in silence.
#[derive(Debug)]
pub struct LastWords<S> {
    inner: S,
    deaf: bool,
}

impl<S> LastWords<S> {
    /// Around the stream beneath hyper.
    pub const fn new(inner: S) -> Self {
        Self { inner, deaf: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LastWords<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> LastWords<S> {
    fn poll<T>(
        &mut self,
        instead: T,
        work: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.deaf {
            return Poll::Ready(Ok(instead));
        }
        Poll::Ready(Ok(ready!(work(Pin::new(&mut self.inner))).unwrap_or_else(
            |error| {
                tracing::debug!(error = %Words::of(&error), "an origin takes no more");
                self.deaf = true;
                instead
            },
        )))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LastWords<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(octets.len(), |inner| inner.poll_write(cx, octets))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = slices.iter().map(|slice| slice.len()).sum();
        self.poll(all, |inner| inner.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll((), |inner| inner.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll((), |inner| inner.poll_shutdown(cx))
    }
}
