//! A stream to an origin, and how far the exchange on it is.
//!
//! A write that fails is not told: what follows goes nowhere, and the end is learnt where the answer is, by
//! reading ([`crate::upstream::last_words`]). A connection on which anything was out of order is spent.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use http::Request;
use tokio_util::io::poll_read_buf;

use super::{
    Stream,
    head::{self, Read},
};
use crate::failure::words::Words;

/// The stream, and what is known of it.
pub(super) struct Wire {
    pub(super) stream: Box<dyn Stream>,
    /// Read and not looked at yet.
    pub(super) buffer: BytesMut,
    /// The header section of the request.
    pub(super) sent: Vec<u8>,
    pub(super) written: usize,
    sending: Sending,
    /// A request runs.
    pub(super) busy: bool,
    /// It carries no further request.
    pub(super) spent: bool,
    /// How often more of a header section was waited for.
    waits: u8,
}

/// How far the request's header section is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// It is not all written and flushed.
    UnderWay,
    /// It went.
    Through,
    /// The origin takes no more: what it says is heard all the same.
    Refused,
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
            sent: Vec::new(),
            written: 0,
            sending: Sending::Through,
            busy: false,
            spent: false,
            waits: 0,
        }
    }

    /// Readies `request` to be written; false where its header section is none for here.
    pub(super) fn begin<B>(&mut self, request: &Request<B>) -> bool {
        if !head::write(request, &mut self.sent) {
            return false;
        }
        (self.written, self.sending, self.waits) = (0, Sending::UnderWay, 0);
        self.busy = true;
        true
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.busy && !self.spent && self.buffer.is_empty()
    }

    /// Writes what is left of the request.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.sending == Sending::UnderWay {
            let left = self.sent.get(self.written..).unwrap_or_default();
            let stream = Pin::new(&mut *self.stream);
            let went = if left.is_empty() {
                stream.poll_flush(cx).map_ok(|()| None)
            } else {
                stream.poll_write(cx, left).map_ok(Some)
            };
            match ready!(went) {
                Ok(None) => self.sending = Sending::Through,
                Ok(Some(written @ 1..)) => self.written += written,
                Ok(Some(0)) => self.sending = Sending::Refused,
                Err(error) => {
                    tracing::debug!(error = %Words::of(&error), "an origin takes no more");
                    self.sending = Sending::Refused;
                }
            }
        }
        self.spent |= self.sending == Sending::Refused;
        Poll::Ready(())
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        if self.buffer.capacity() - self.buffer.len() < room / 2 {
            // Takes what it had again, where nobody holds anything of that any more.
            self.buffer.reserve(room);
        }
        poll_read_buf(Pin::new(&mut *self.stream), cx, &mut self.buffer)
    }

    /// What is here of the answer, if that is a header section.
    pub(super) fn read_head(&mut self, to_head: bool) -> Option<Read> {
        if self.buffer.is_empty() {
            return None;
        }
        let waits = self.waits < MOST_WAITS && self.buffer.len() < head::LONGEST;
        if waits && head::is_begun(&self.buffer) {
            self.waits += 1;
            return None;
        }
        Some(head::read(self.buffer.split().freeze(), to_head))
    }

    /// What is here though not all was sent yet: who writes on while reading reads it.
    pub(super) fn read_early(&mut self) -> Option<Read> {
        (!self.buffer.is_empty()).then(|| Read::Unusual(self.buffer.split().freeze()))
    }
}

/// Most answers fit, header section and body.
pub(super) const ROOM: usize = 8 * 1024;
/// A header section that comes in more pieces than this is read by who remembers how far it was read.
const MOST_WAITS: u8 = 8;
