//! A stream with bytes put back in front of it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads give `front` first, then the stream beneath; writes go straight through.
#[derive(Debug)]
pub struct Rewind<S> {
    front: Bytes,
    inner: S,
}

impl<S> Rewind<S> {
    /// Puts `front` before what `inner` will read.
    pub fn new(front: Bytes, inner: S) -> Self {
        // Nothing may still hold on to what something was read into.
        let front = if front.is_empty() {
            Bytes::new()
        } else {
            front
        };
        Self { front, inner }
    }

    /// What is still in front, and the stream beneath.
    pub fn into_parts(self) -> (Bytes, S) {
        (self.front, self.inner)
    }

    /// The stream beneath, for its addresses and options.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewind<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.front.is_empty() {
            return Pin::new(&mut self.inner).poll_read(context, into);
        }
        let count = self.front.len().min(into.remaining());
        into.put_slice(self.front.get(..count).unwrap_or_default());
        self.front.advance(count);
        if self.front.is_empty() {
            // Lets the memory go: the connection may live for days.
            self.front = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewind<S> {
    crate::writes::pass_writes!();
}
