//! Reads much at once beneath TLS.
//!
//! rustls asks its stream for 4 KiB at a time, so that each record of a download would cost five system
//! calls. Where a read fills what was asked for there is probably more: from then on what is there is
//! read into a buffer of ours, from which rustls is served. A connection on which little passes has no
//! such buffer and notices nothing.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

/// A stream beneath TLS.
#[derive(Debug)]
pub struct Wide<S> {
    inner: S,
    /// Read and not handed on; without room while nothing flows.
    held: Vec<u8>,
    /// How much of it is handed on.
    given: usize,
    /// The last read filled what there was room for, or nearly.
    much: bool,
}

impl<S> Wide<S> {
    /// Around a stream that TLS is to read.
    pub const fn new(inner: S) -> Self {
        Self {
            inner,
            held: Vec::new(),
            given: 0,
            much: false,
        }
    }

    /// The stream beneath, for its options.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Hands on what is held.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) {
        let held = self.held.get(self.given..).unwrap_or_default();
        let length = held.len().min(buffer.remaining());
        buffer.put_slice(held.get(..length).unwrap_or_default());
        self.given += length;
        if self.given >= self.held.len() {
            self.given = 0;
            self.held.clear();
            if !self.much {
                // Nobody knows when more will come.
                self.held = Vec::new();
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wide<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let asked = buffer.remaining();
        if this.held.is_empty() && !this.much {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
            this.much = asked >= LEAST && buffer.filled().len() - before == asked;
            return Poll::Ready(Ok(()));
        }
        if this.held.is_empty() {
            this.held.reserve_exact(ROOM);
            let read = poll_read_buf(Pin::new(&mut this.inner), cx, &mut this.held);
            this.much = match &read {
                Poll::Ready(Ok(length)) => *length >= LEAST,
                Poll::Ready(Err(_)) => false,
                Poll::Pending => this.much,
            };
            if this.held.is_empty() {
                this.held = Vec::new();
            }
            ready!(read)?;
        }
        this.give(buffer);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wide<S> {
    crate::writes::pass_writes!();
}

/// What rustls asks for at once: a shorter read is the end of what is there.
const LEAST: usize = 4096;
/// Four records: more at once would only leave the cache again before it is decrypted.
const ROOM: usize = 64 * 1024;
