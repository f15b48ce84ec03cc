//! Interim responses (103 Early Hints, 102 Processing) to an HTTP/1.1 program.
//!
//! hyper's server has no way to send them, so they are written beneath it, into the stream, and only
//! where that is certainly between two messages: hyper has handed over everything it had, and has
//! begun no answer since the origin's interim response came. Otherwise it comes too late and is left
//! out. 100 is hyper's to send ([`super::interim`]); 101 is final.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::task::AtomicWaker;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{heads::Heads, unread::Unread};
use crate::failure::words::Words;

/// Where interim responses wait until the stream can take them; shared by stream and requests.
#[derive(Debug, Default)]
pub struct Interjections {
    waiting: AtomicBool,
    queued: Mutex<Option<Queued>>,
    /// Counts hyper's writes.
    writes: AtomicU64,
    /// Nothing was written since the last complete flush.
    flushed: AtomicBool,
    waker: AtomicWaker,
}

#[derive(Debug)]
struct Queued {
    octets: BytesMut,
    writes: u64,
    flushed: bool,
}

impl Interjections {
    /// Has the connection's task look again when an interim response came.
    pub fn register(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
    }

    /// Queues an interim response behind those that wait. Who calls bounds how many there are.
    pub fn offer(&self, status: StatusCode, headers: &HeaderMap) {
        let mut queued = self.queued.lock();
        let queued = queued.get_or_insert_with(|| Queued {
            octets: BytesMut::new(),
            writes: self.writes.load(Ordering::Acquire),
            flushed: self.flushed.load(Ordering::Acquire),
        });
        write(&mut queued.octets, status, headers);
        self.waiting.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// What may go now. `emptied`: hyper has just handed over everything it had.
    fn take(&self, emptied: bool) -> Option<Bytes> {
        if !self.waiting.swap(false, Ordering::AcqRel) {
            return None;
        }
        let queued = self.queued.lock().take()?;
        let untouched = queued.writes == self.writes.load(Ordering::Acquire);
        (untouched && (emptied || queued.flushed)).then(|| queued.octets.freeze())
    }
}

/// RFC 9112 §4.
pub(super) fn write(octets: &mut BytesMut, status: StatusCode, headers: &HeaderMap) {
    let reason = status.canonical_reason().unwrap_or("Interim");
    octets.put_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
    for (name, value) in headers {
        octets.put_slice(name.as_str().as_bytes());
        octets.put_slice(b": ");
        // Parsed once: it holds no line end.
        octets.put_slice(value.as_bytes());
        octets.put_slice(b"\r\n");
    }
    octets.put_slice(b"\r\n");
}

/// A stream that interim responses can be written into, and that is heard while hyper reads it.
#[derive(Debug)]
pub struct Interjecting<S> {
    inner: S,
    shared: Arc<Interjections>,
    heads: Arc<Heads>,
    /// What of one is not written yet.
    rest: Bytes,
    unread: Unread,
}

impl<S: AsyncWrite + Unpin> Interjecting<S> {
    /// Wraps the stream beneath hyper.
    pub const fn new(
        inner: S,
        shared: Arc<Interjections>,
        heads: Arc<Heads>,
        unread: Unread,
    ) -> Self {
        Self {
            inner,
            shared,
            heads,
            rest: Bytes::new(),
            unread,
        }
    }

    /// Takes what hyper wrote by itself to a request that it could not read: there are better words.
    fn takes(&mut self, octets: &[u8]) -> bool {
        let Some(instead) = self.unread.instead_of(octets) else {
            return false;
        };
        self.rest = instead;
        true
    }

    /// Writes what is due before anything else.
    fn poll_interject(&mut self, cx: &mut Context<'_>, emptied: bool) -> Poll<io::Result<()>> {
        if self.rest.is_empty()
            && self.shared.waiting.load(Ordering::Acquire)
            && let Some(octets) = self.shared.take(emptied)
        {
            self.rest = octets;
        }
        while !self.rest.is_empty() {
            let n = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.rest))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.rest.advance(n);
        }
        Poll::Ready(Ok(()))
    }

    fn wrote(&self) {
        self.shared.writes.fetch_add(1, Ordering::AcqRel);
        self.shared.flushed.store(false, Ordering::Release);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Interjecting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let fresh = buffer.filled().get(before..).unwrap_or_default();
        self.heads.heard(fresh);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Interjecting<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_interject(cx, false))?;
        self.wrote();
        if self.takes(octets) {
            return Poll::Ready(Ok(octets.len()));
        }
        Pin::new(&mut self.inner).poll_write(cx, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_interject(cx, false))?;
        self.wrote();
        if slices.first().is_some_and(|first| self.takes(first)) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes the stream only when it has written everything.
        ready!(self.poll_interject(cx, true))?;
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.shared.flushed.store(true, Ordering::Release);
        self.heads.written();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_interject(cx, false))?;
        if let Err(error) = ready!(Pin::new(&mut self.inner).poll_shutdown(cx)) {
            // A program that is gone needs no farewell. To hyper it would be what ended the connection, in
            // place of what could not be read in it.
            tracing::trace!(error = %Words::of(&error), "a connection was closed from the other side first");
        }
        Poll::Ready(Ok(()))
    }
}

impl<S> Interjecting<S> {
    /// The stream beneath; hyper is done with it.
    pub fn into_inner(self) -> S {
        self.inner
    }
}
