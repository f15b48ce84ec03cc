//! The two ways of an extended CONNECT (RFC 8441 §5), as a stream of octets.
//!
//! What is written goes when the other side has room for it. Closing it ends our half of the HTTP/2
//! stream; dropping it before resets the stream. A stream that the other side resets is broken, both
//! ways: reading it fails, and so does flushing it, which is how one hears of that who does not read.
//! What is sent and not written yet counts among that of its connection ([`super::backlog`]).

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
};

use super::backlog::{Backlog, Places};
use crate::upstream::http2::Running;

/// An HTTP/2 stream whose octets are no body.
#[derive(Debug)]
pub struct Duplex {
    send: Option<SendStream<Bytes>>,
    /// Gives `send` when the request is accepted.
    accepted: Option<oneshot::Receiver<SendStream<Bytes>>>,
    receive: RecvStream,
    /// For what is sent.
    places: Places,
    /// Came, and was not read yet.
    rest: Bytes,
    closed: bool,
    /// Nothing more comes.
    ended: bool,
    /// An origin's, and what keeps its connection.
    origin: Option<Running>,
}

/// The request was answered in another way, or is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an extended CONNECT was not accepted")]
pub struct NotAccepted;

impl Duplex {
    /// A program's, to be accepted; `accepted` gives the way back.
    #[must_use]
    pub fn asked(
        receive: RecvStream,
        accepted: oneshot::Receiver<SendStream<Bytes>>,
        backlog: &Backlog,
    ) -> Self {
        Self {
            send: None,
            accepted: Some(accepted),
            receive,
            places: backlog.places(),
            rest: Bytes::new(),
            closed: false,
            ended: false,
            origin: None,
        }
    }

    /// One that an origin accepted.
    #[must_use]
    pub fn open(receive: RecvStream, send: SendStream<Bytes>, running: Running) -> Self {
        Self {
            send: Some(send),
            accepted: None,
            receive,
            places: running.backlog().places(),
            rest: Bytes::new(),
            closed: false,
            ended: false,
            origin: Some(running),
        }
    }

    /// Waits until it is accepted.
    ///
    /// # Errors
    /// [`NotAccepted`].
    pub async fn ready(&mut self) -> Result<(), NotAccepted> {
        if let Some(accepted) = self.accepted.take() {
            self.send = Some(accepted.await.map_err(|_| NotAccepted)?);
        }
        Ok(())
    }

    /// Fails when the other side reset the stream, and wakes when it does.
    fn still_open(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(send) = &mut self.send else {
            return Ok(());
        };
        match send.poll_reset(cx) {
            Poll::Pending => Ok(()),
            // RFC 9113 §8.1: what an origin sent before is whole, if it ended. Who reads it learns that.
            Poll::Ready(Ok(Reason::NO_ERROR)) if self.origin.is_some() && !self.ended => Ok(()),
            Poll::Ready(Ok(reason)) => Err(io::Error::other(h2::Error::from(reason))),
            Poll::Ready(Err(error)) => Err(io::Error::other(error)),
        }
    }
}

impl AsyncRead for Duplex {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(self.receive.poll_data(cx)) {
                Some(Ok(data)) => self.rest = data,
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => {
                    self.ended = true;
                    return Poll::Ready(Ok(()));
                }
            }
        }
        let length = self.rest.len().min(buffer.remaining());
        buffer.put_slice(self.rest.get(..length).unwrap_or_default());
        self.rest.advance(length);
        // Fails only where more is released than came.
        let _same = self.receive.flow_control().release_capacity(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Duplex {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let me = &mut *self;
        let send = match &mut me.send {
            Some(send) if !me.closed => send,
            _ => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        };
        if octets.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if send.capacity() == 0 {
            me.places.leave();
            send.reserve_capacity(octets.len().min(AT_ONCE));
            while send.capacity() == 0 {
                match ready!(send.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                    None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                }
            }
        }
        let length = send.capacity().min(octets.len()).min(AT_ONCE);
        let data = octets.get(..length).unwrap_or_default();
        let data = ready!(me.places.poll_hold(cx, data))?;
        send.send_data(data, false).map_err(io::Error::other)?;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The connection sends by itself.
        Poll::Ready(self.still_open(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = self.closed;
        self.places.leave();
        if let (Some(send), false) = (&mut self.send, closed) {
            // Fails where the stream is over already.
            let _over = send.send_data(Bytes::new(), true);
            self.closed = true;
        }
        Poll::Ready(Ok(()))
    }
}

/// Copied for one write.
const AT_ONCE: usize = 16 * 1024;

#[cfg(test)]
mod tests;
