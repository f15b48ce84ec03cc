//! Hears a program out that has said all it has to say, and notices one that goes.
//!
//! Who has sent a request may close its sending half and still read the answer (RFC 9112 §9.6): `nc -N`, or
//! TLS whose input is at its end. hyper takes that end for the program's, or, told not to, reads nothing while a
//! request runs and so notices nothing. It is told not to, and what it leaves is read here, once the request is
//! whole: a reset ends it at once; what comes early waits, a little of it, for its turn; an end is handed on with it. Somebody who has
//! gone looks the same until something is written to them: after an end, a request for which nothing moves ends soon.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::session::Session;

/// A stream that is heard while a request is answered.
pub struct Listening<S> {
    inner: S,
    session: Arc<Session>,
    /// What came early.
    ahead: Bytes,
    /// Nothing more comes.
    ended: bool,
    /// Something was written since all of it was.
    moved: bool,
    gone: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Listening<S> {
    /// Around the stream of `session`.
    pub const fn new(inner: S, session: Arc<Session>) -> Self {
        Self {
            inner,
            session,
            ahead: Bytes::new(),
            ended: false,
            moved: false,
            gone: None,
        }
    }

    /// What came early, and the stream beneath; hyper is done with it.
    pub fn into_parts(self) -> (Bytes, S) {
        (self.ahead, self.inner)
    }
}

impl<S: AsyncRead + Unpin> Listening<S> {
    /// Fails when the program is gone, or is taken to be.
    fn listen(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let moved = std::mem::take(&mut self.moved);
        if !self.session.is_answering() {
            if moved && (self.ended || !self.ahead.is_empty()) {
                // Whoever waits for it was told by nobody.
                cx.waker().wake_by_ref();
            }
            return Ok(());
        }
        if !self.ended && self.ahead.is_empty() {
            let mut room = [0; AHEAD];
            let mut octets = ReadBuf::new(&mut room);
            let Poll::Ready(read) = Pin::new(&mut self.inner).poll_read(cx, &mut octets) else {
                return Ok(());
            };
            read?;
            self.ahead = Bytes::copy_from_slice(octets.filled());
            self.ended = self.ahead.is_empty();
        }
        if !self.ended {
            return Ok(());
        }
        let session = &self.session;
        let gone = self.gone.get_or_insert_with(|| gone(Arc::clone(session)));
        if session.is_asking() || gone.as_mut().poll(cx).is_ready() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

/// Completes when the program of a connection that says nothing more is taken to be gone.
fn gone(session: Arc<Session>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let most = session.worker().deadlines().half_closed;
        tokio::select! {
            // Nobody is left who could read.
            () = session.caller().subject().ended() => {}
            () = session.activity().stalled(most, most) => {}
        }
    })
}

impl<S: AsyncRead + Unpin> AsyncRead for Listening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let length = self.ahead.len().min(buffer.remaining());
            buffer.put_slice(self.ahead.get(..length).unwrap_or_default());
            self.ahead.advance(length);
            return Poll::Ready(Ok(()));
        }
        if self.ended {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Listening<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.moved = true;
        Pin::new(&mut self.inner).poll_write(cx, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.moved = true;
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper asks this whenever it was woken and has nothing left to write.
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        Poll::Ready(self.listen(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S> std::fmt::Debug for Listening<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening")
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// Read before its turn: as much as tells that something came.
const AHEAD: usize = 512;
