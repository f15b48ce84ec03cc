//! A body as it comes, from a program or from an origin, by either HTTP.
//!
//! Reading it makes room for more (RFC 9113 §6.9): who reads slowly slows the sender. What HTTP/2
//! carries after an accepted extended CONNECT (RFC 8441) is no body and is not read here.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::{duplex::Duplex, headers, streams::Reply, trailers};
use crate::upstream::{http1::Rest, http2::Running};

/// A body that comes.
#[derive(Debug)]
pub enum Incoming {
    /// By HTTP/1.1.
    Http1(hyper::body::Incoming),
    /// An origin's, by HTTP/1.1, that came whole with its header section.
    Here(Bytes),
    /// An origin's, by HTTP/1.1, of an announced length.
    Rest(Box<Rest>),
    /// By HTTP/2.
    Http2(Frames),
    /// The two ways of an extended CONNECT: no body.
    Tunnel(Box<Duplex>),
    /// None, or it was taken away.
    Nothing,
}

/// A body could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BrokenBody {
    /// By HTTP/1.1.
    #[error("a body ended early or is none")]
    Http1(#[source] hyper::Error),
    /// By HTTP/2.
    #[error("a body ended early or is none")]
    Http2(#[source] h2::Error),
    /// By HTTP/1.1, of an announced length.
    #[error("a body ended early")]
    Rest(#[source] std::io::Error),
}

/// The body of one HTTP/2 stream.
#[derive(Debug)]
pub struct Frames {
    // Goes before `running`, which tells the connection to look whether anybody is left.
    stream: RecvStream,
    /// What is announced and not here yet.
    left: Option<u64>,
    /// Nothing but trailers can come.
    data_done: bool,
    side: Side,
}

/// Whose body.
#[derive(Debug)]
enum Side {
    /// A program's, and where its answer goes.
    Request(Reply),
    /// An origin's.
    Answer(Running),
}

impl Incoming {
    /// Where the answer to an HTTP/2 request goes.
    #[must_use]
    pub const fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Http2(Frames {
                side: Side::Request(reply),
                ..
            }) => Some(reply),
            _ => None,
        }
    }

    /// Takes the two ways of an extended CONNECT out.
    pub fn take_tunnel(&mut self) -> Option<Box<Duplex>> {
        match std::mem::replace(self, Self::Nothing) {
            Self::Tunnel(duplex) => Some(duplex),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl Frames {
    /// A request's, answered by `reply`.
    #[must_use]
    pub fn of_request(stream: RecvStream, headers: &HeaderMap, reply: Reply) -> Self {
        Self::new(stream, headers, Side::Request(reply))
    }

    /// An answer's.
    #[must_use]
    pub fn of_answer(stream: RecvStream, headers: &HeaderMap, running: Running) -> Self {
        Self::new(stream, headers, Side::Answer(running))
    }

    fn new(stream: RecvStream, headers: &HeaderMap, side: Side) -> Self {
        let nothing = stream.is_end_stream().then_some(0);
        Self {
            left: headers::content_length(headers).or(nothing),
            stream,
            data_done: false,
            side,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        if !self.data_done {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => return Poll::Ready(Some(Ok(self.data(data)))),
                Some(Err(error)) => return Poll::Ready(self.broken(error)),
                None => self.data_done = true,
            }
        }
        Poll::Ready(match ready!(self.stream.poll_trailers(cx)) {
            Ok(trailers) => {
                self.note_end();
                trailers.map(|trailers| Ok(Frame::trailers(trailers)))
            }
            Err(error) => self.broken(error),
        })
    }

    fn data(&mut self, data: Bytes) -> Frame<Bytes> {
        // Fails only where more is released than came.
        let _same = self.stream.flow_control().release_capacity(data.len());
        let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
        self.left = self.left.map(|left| left.saturating_sub(length));
        match &self.side {
            Side::Answer(running) => running.heard(),
            // h2 lets nothing follow what was announced.
            Side::Request(_) if self.stream.is_end_stream() || self.left == Some(0) => {
                self.note_end();
            }
            Side::Request(_) => {}
        }
        Frame::data(data)
    }

    fn note_end(&self) {
        if let Side::Request(reply) = &self.side {
            reply.set_whole();
        }
    }

    /// RFC 9113 §8.1: an origin that has answered in full asks in this way for no more of the request.
    /// h2 tells nothing of a reset after END_STREAM to who reads; what did not end so is whole only if
    /// all that was announced is here. A program has no such way to end a request.
    fn broken<T>(&self, error: h2::Error) -> Option<Result<T, BrokenBody>> {
        let answer = matches!(self.side, Side::Answer(_));
        let enough = answer && error.is_reset() && error.reason() == Some(Reason::NO_ERROR);
        if enough && self.left == Some(0) {
            return None;
        }
        Some(Err(BrokenBody::Http2(error)))
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let mut polled = match self.get_mut() {
            Self::Http1(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(BrokenBody::Http1))),
            Self::Here(data) if data.is_empty() => Poll::Ready(None),
            Self::Here(data) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(data))))),
            Self::Rest(rest) => rest
                .poll(cx)
                .map(|piece| piece.map(|piece| piece.map(Frame::data).map_err(BrokenBody::Rest))),
            Self::Http2(frames) => frames.poll(cx),
            Self::Tunnel(_) | Self::Nothing => Poll::Ready(None),
        };
        if let Poll::Ready(Some(Ok(frame))) = &mut polled
            && let Some(fields) = frame.trailers_mut()
        {
            trailers::forget_unfit(fields);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Here(data) => data.is_empty(),
            Self::Rest(rest) => rest.left() == 0,
            Self::Http2(frames) => frames.stream.is_end_stream(),
            Self::Tunnel(_) | Self::Nothing => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Here(data) => SizeHint::with_exact(u64::try_from(data.len()).unwrap_or(u64::MAX)),
            Self::Rest(rest) => SizeHint::with_exact(rest.left()),
            Self::Http2(frames) => frames
                .left
                .map_or_else(SizeHint::default, SizeHint::with_exact),
            Self::Tunnel(_) | Self::Nothing => SizeHint::with_exact(0),
        }
    }
}
