//! An answer's body that is looked at on its way back: steps of bounded size, and how long what may be
//! the beginning of a value is held back.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use gig_policy::DenyReason;
use http::HeaderMap;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::time::Sleep;

use super::{DownloadCut, Gathered, credentials::patience};
use crate::{
    credential::scrub::{
        answer::Returning,
        work::{Step, Stopped, Work},
    },
    failure::{Failure, Side},
    http::{exchange::Exchange, incoming::Incoming},
};

/// What one body passes through.
#[derive(Debug)]
pub struct Scrubbed {
    returning: Arc<Returning>,
    work: Box<Work>,
    trailers: Option<HeaderMap>,
    /// All of it came.
    over: bool,
    /// All of it went, trailers aside.
    done: bool,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Scrubbed {
    /// For a body that `work` is done on.
    #[must_use]
    pub const fn new(returning: Arc<Returning>, work: Box<Work>) -> Self {
        Self {
            returning,
            work,
            trailers: None,
            over: false,
            done: false,
            waiting: None,
        }
    }

    /// Whether nothing more comes.
    pub(super) const fn is_through(&self) -> bool {
        self.done && self.trailers.is_none()
    }

    /// The next frame.
    pub(super) fn poll(
        &mut self,
        incoming: &mut Incoming,
        exchange: &mut Exchange,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DownloadCut>>> {
        if let Some(reason) = exchange.standing().cut_for() {
            exchange.cut(reason);
            return Poll::Ready(Some(Err(DownloadCut::Over(reason))));
        }
        for _ in 0..TURNS {
            if self.done {
                return Poll::Ready(self.trailers.take().map(|t| Ok(Frame::trailers(t))));
            }
            match self.work.step() {
                Ok(Step::Out(data)) => return Poll::Ready(Some(self.out(data, exchange))),
                Ok(Step::On) => continue,
                Ok(Step::Dry) => {}
                Err(stopped) => return Poll::Ready(Some(Err(self.cut(exchange, stopped)))),
            }
            if self.over {
                match self.last(exchange) {
                    Ok(last) if last.is_empty() => continue,
                    Ok(last) => return Poll::Ready(Some(Ok(Frame::data(last)))),
                    Err(cut) => return Poll::Ready(Some(Err(cut))),
                }
            }
            let Poll::Ready(frame) = Pin::new(&mut *incoming).poll_frame(cx) else {
                return self.poll_waiting(exchange, cx);
            };
            self.waiting = None;
            match frame {
                Some(Ok(frame)) => self.take(frame, incoming, exchange),
                Some(Err(error)) => {
                    exchange.cut(DenyReason::DestinationUnavailable);
                    return Poll::Ready(Some(Err(DownloadCut::Origin(error))));
                }
                None => self.over = true,
            }
        }
        // Much was decoded that is not to go: others shall have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn take(&mut self, frame: Frame<Bytes>, incoming: &Incoming, exchange: &mut Exchange) {
        match frame.into_data() {
            Ok(data) => {
                exchange.received(data.len());
                if let Some(newer) = self.returning.newer() {
                    self.work.renew(&newer);
                }
                self.work.feed(data);
            }
            Err(frame) => {
                if let Ok(mut trailers) = frame.into_trailers() {
                    exchange.ended_with(&trailers);
                    self.returning.trailers(&mut trailers, true);
                    self.trailers = Some(trailers);
                }
            }
        }
        self.over = incoming.is_end_stream();
    }

    /// What may go. With the end of it, where that is known: who was told a length asks for nothing after
    /// its last octet.
    fn out(&mut self, data: Bytes, exchange: &mut Exchange) -> Result<Frame<Bytes>, DownloadCut> {
        if !self.over || !self.work.is_dry() {
            return Ok(Frame::data(data));
        }
        let last = self.last(exchange)?;
        Ok(Frame::data(if last.is_empty() {
            data
        } else {
            [data, last].concat().into()
        }))
    }

    /// What was held back when the body ended.
    fn last(&mut self, exchange: &mut Exchange) -> Result<Bytes, DownloadCut> {
        let last = self.work.finish();
        let last = last.map_err(|stopped| self.cut(exchange, stopped))?;
        self.note();
        self.done = true;
        exchange.finish();
        Ok(last)
    }

    fn cut(&mut self, exchange: &mut Exchange, stopped: Stopped) -> DownloadCut {
        self.note();
        exchange.cut(stopped.reason());
        DownloadCut::Unreadable(stopped)
    }

    fn note(&mut self) {
        self.returning.note(self.work.take_found(), "the body");
    }

    /// Nothing came: what is held back goes after a while, and the policy is watched.
    fn poll_waiting(
        &mut self,
        exchange: &mut Exchange,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DownloadCut>>> {
        if let Poll::Ready(over) = exchange.poll_over(cx) {
            let cut = DownloadCut::over(exchange, over, DenyReason::OriginTimeout);
            return Poll::Ready(Some(Err(cut)));
        }
        let Some(patience) = patience(self.work.leaving()) else {
            return Poll::Pending;
        };
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(Some(match self.work.release() {
            Ok(data) => Ok(Frame::data(data)),
            Err(stopped) => Err(self.cut(exchange, stopped)),
        }))
    }
}

/// Reads a short body whole and changes it; gives it, whether it was changed, and how long it was.
///
/// # Errors
/// The origin broke off, or cannot be read.
pub async fn gather(
    mut incoming: Incoming,
    mut work: Box<Work>,
    returning: &Returning,
) -> Result<(Gathered, bool, usize), Failure> {
    let (mut out, mut received) = (Vec::new(), 0);
    let mut trailers = None;
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| {
            Failure::caused(Side::Upstream, DenyReason::DestinationUnavailable, error)
        })?;
        match frame.into_data() {
            Ok(data) => {
                received += data.len();
                if let Some(newer) = returning.newer() {
                    work.renew(&newer);
                }
                work.feed(data);
                steps(&mut work, &mut out).map_err(unreadable)?;
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    out.extend_from_slice(&work.finish().map_err(unreadable)?);
    let found = work.take_found();
    let changed = !found.is_empty();
    returning.note(found, "the body");
    if let Some(trailers) = &mut trailers {
        returning.trailers(trailers, changed);
    }
    Ok((Gathered::of(out.into(), trailers), changed, received))
}

fn steps(work: &mut Work, out: &mut Vec<u8>) -> Result<(), Stopped> {
    loop {
        match work.step()? {
            Step::Out(data) => out.extend_from_slice(&data),
            Step::On => {}
            Step::Dry => return Ok(()),
        }
    }
}

fn unreadable(stopped: Stopped) -> Failure {
    Failure::caused(Side::Upstream, stopped.reason(), stopped)
}

/// Steps in one turn: a megabyte decoded.
const TURNS: usize = 32;
