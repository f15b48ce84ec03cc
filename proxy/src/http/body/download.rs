//! A response body on its way to the sandbox. It tells its exchange when it is through or was cut.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use gig_policy::DenyReason;
use http_body::{Body, Frame, SizeHint};

use super::{Gathered, Scrubbed};
use crate::{
    credential::scrub::work::Stopped,
    http::{
        exchange::Exchange,
        incoming::{BrokenBody, Incoming},
        pipe::Piped,
        standing::Over,
    },
};

/// A response body on its way to the sandbox.
#[derive(Debug)]
pub enum Download {
    /// Our own answer.
    Told(Option<Bytes>),
    /// The origin's.
    Origin {
        /// What is read from the origin.
        incoming: Incoming,
        /// Told when it is through.
        exchange: Box<Exchange>,
    },
    /// The origin's, looked at on the way.
    Scrubbed {
        /// What is read from the origin.
        incoming: Incoming,
        /// Told when it is through.
        exchange: Box<Exchange>,
        /// What it passes through.
        scrubbed: Box<Scrubbed>,
    },
    /// The origin's, and it is here.
    Whole(Gathered),
}

/// The response body broke or was cut.
#[derive(Debug, thiserror::Error)]
pub enum DownloadCut {
    /// The origin broke off.
    #[error("the origin broke off its response body")]
    Origin(#[source] BrokenBody),
    /// The policy no longer allows it, or nothing moves.
    #[error("the response was cut: {0}")]
    Over(DenyReason),
    /// It may hold a secret's value, or nobody can say whether it does.
    #[error("the response was cut, because it may hold a secret's value")]
    Unreadable(#[source] Stopped),
}

impl Body for Download {
    type Data = Bytes;
    type Error = DownloadCut;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DownloadCut>>> {
        let (incoming, exchange) = match self.get_mut() {
            Self::Told(bytes) => {
                let left = bytes.take().filter(|bytes| !bytes.is_empty());
                return Poll::Ready(left.map(|bytes| Ok(Frame::data(bytes))));
            }
            Self::Origin { incoming, exchange } => (incoming, exchange),
            Self::Scrubbed {
                incoming,
                exchange,
                scrubbed,
            } => return scrubbed.poll(incoming, exchange, cx),
            Self::Whole(gathered) => return Poll::Ready(gathered.next().map(Ok)),
        };
        if let Some(reason) = exchange.standing().cut_for() {
            exchange.cut(reason);
            return Poll::Ready(Some(Err(DownloadCut::Over(reason))));
        }
        let Poll::Ready(frame) = Pin::new(&mut *incoming).poll_frame(cx) else {
            // Only an answer that takes its time is watched: most are whole at once.
            let over = ready!(exchange.poll_over(cx));
            let cut = DownloadCut::over(exchange, over, DenyReason::OriginTimeout);
            return Poll::Ready(Some(Err(cut)));
        };
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    exchange.received(data.len());
                }
                if let Some(trailers) = frame.trailers_ref() {
                    exchange.ended_with(trailers);
                }
                if incoming.is_end_stream() {
                    exchange.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                exchange.cut(DenyReason::DestinationUnavailable);
                Poll::Ready(Some(Err(DownloadCut::Origin(error))))
            }
            None => {
                exchange.finish();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Told(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Origin { incoming, .. } => incoming.is_end_stream(),
            Self::Scrubbed { scrubbed, .. } => scrubbed.is_through(),
            Self::Whole(gathered) => gathered.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Told(bytes) => {
                let left = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(left).unwrap_or(u64::MAX))
            }
            Self::Origin { incoming, .. } => incoming.size_hint(),
            // Its length stands in the header section, if it has one.
            Self::Scrubbed { .. } => SizeHint::default(),
            Self::Whole(gathered) => gathered.size_hint(),
        }
    }
}

impl DownloadCut {
    /// Ends the exchange; `late` is whom it waited for in vain.
    pub(super) fn over(exchange: &mut Exchange, over: Over, late: DenyReason) -> Self {
        let reason = match over {
            Over::Revoked(reason) => reason,
            Over::Stalled => late,
        };
        exchange.cut(reason);
        Self::Over(reason)
    }
}

impl Download {
    /// Whether it ends by itself when nobody takes it.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        matches!(self, Self::Origin { .. } | Self::Scrubbed { .. })
    }
}

impl Piped for Download {
    fn poll_over(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<DownloadCut> {
        let exchange = match self.get_mut() {
            Self::Told(_) | Self::Whole(_) => return Poll::Pending,
            Self::Origin { exchange, .. } | Self::Scrubbed { exchange, .. } => exchange,
        };
        let over = ready!(exchange.poll_over(cx));
        Poll::Ready(DownloadCut::over(
            exchange,
            over,
            DenyReason::RequestTimeout,
        ))
    }
}
