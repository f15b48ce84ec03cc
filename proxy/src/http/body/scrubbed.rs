//! An answer's body that is looked at on its way back: steps of bounded size, and how long what may be
//! the beginning of a value is held back. Of one that is coded the beginning is read before its head goes,
//! so that what cannot be undone is told in words; a stream that has nothing to say yet does not wait for it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use gig_policy::DenyReason;
use http::HeaderMap;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::time::{Sleep, timeout};

use super::{DownloadCut, Gathered, credentials::poll_patience};
use crate::{
    credential::scrub::{
        answer::Returning,
        work::{Became, Step, Stopped, Work},
    },
    failure::{Failure, Side},
    http::{
        exchange::Exchange,
        incoming::{BrokenBody, Incoming},
    },
};

/// What one body passes through.
#[derive(Debug)]
pub struct Scrubbed {
    returning: Arc<Returning>,
    work: Box<Work>,
    /// What may go of what was read before the head went.
    begun: Vec<u8>,
    /// How much came until then.
    received: usize,
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
            begun: Vec::new(),
            received: 0,
            trailers: None,
            over: false,
            done: false,
            waiting: None,
        }
    }

    /// Whether nothing more comes.
    pub(super) const fn is_through(&self) -> bool {
        self.done && self.begun.is_empty() && self.trailers.is_none()
    }

    /// Reads the beginning of a coded body, before its head goes: a short one whole, of any other until
    /// something of it can go, and for [`BEGINNING`] at most. Waits for nothing where there is no coding.
    ///
    /// # Errors
    /// The origin broke off, or cannot be read.
    pub(in crate::http) async fn begin(&mut self, incoming: &mut Incoming) -> Result<(), Failure> {
        if !self.work.is_coded() {
            return Ok(());
        }
        // Who says nothing for so long is passed on as it comes.
        let begun = timeout(BEGINNING, self.read_beginning(incoming)).await;
        begun.unwrap_or(Ok(()))
    }

    async fn read_beginning(&mut self, incoming: &mut Incoming) -> Result<(), Failure> {
        let length = incoming.size_hint().upper();
        let short = length.is_some_and(|length| length <= SHORT);
        loop {
            match self.work.step() {
                Ok(Step::Out(data)) => self.begun.extend_from_slice(&data),
                Ok(Step::On) => tokio::task::yield_now().await,
                Ok(Step::Dry) if self.over => {
                    let last = self.work.finish().map_err(|error| self.unread(error))?;
                    self.begun.extend_from_slice(&last);
                    self.note();
                    self.done = true;
                    return Ok(());
                }
                Ok(Step::Dry) => {
                    let frame = match self.begun.is_empty() || short {
                        true => incoming.frame().await,
                        // What is there already costs no wait.
                        false => match incoming.frame().now_or_never() {
                            Some(frame) => frame,
                            None => return Ok(()),
                        },
                    };
                    self.read(frame, incoming)?;
                }
                Err(stopped) => return Err(self.unread(stopped)),
            }
            if self.begun.len() > ENOUGH {
                return Ok(());
            }
        }
    }

    fn read(
        &mut self,
        frame: Option<Result<Frame<Bytes>, BrokenBody>>,
        incoming: &Incoming,
    ) -> Result<(), Failure> {
        match frame {
            Some(Ok(frame)) => self.take(frame, incoming),
            Some(Err(error)) => {
                let gone = DenyReason::DestinationUnavailable;
                return Err(Failure::caused(Side::Upstream, gone, error));
            }
            None => self.over = true,
        }
        Ok(())
    }

    fn unread(&mut self, stopped: Stopped) -> Failure {
        self.note();
        self.returning.untold(&stopped);
        unreadable(stopped)
    }

    /// Tells what was read before the head went.
    pub(in crate::http) fn tell(&self, exchange: &mut Exchange) {
        exchange.received(self.received);
        if let Some(trailers) = &self.trailers {
            exchange.ended_with(trailers);
        }
        if self.done {
            exchange.finish();
        }
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
        if !self.begun.is_empty() {
            let begun = std::mem::take(&mut self.begun);
            return Poll::Ready(Some(Ok(Frame::data(begun.into()))));
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
                Some(Ok(frame)) => {
                    let (before, trailed) = (self.received, self.trailers.is_some());
                    self.take(frame, incoming);
                    match &self.trailers {
                        Some(trailers) if !trailed => exchange.ended_with(trailers),
                        _ => exchange.received(self.received - before),
                    }
                }
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

    fn take(&mut self, frame: Frame<Bytes>, incoming: &Incoming) {
        match frame.into_data() {
            Ok(data) => {
                self.received = self.received.saturating_add(data.len());
                if let Some(newer) = self.returning.newer() {
                    self.work.renew(&newer);
                }
                self.work.feed(data);
            }
            Err(frame) => {
                if let Ok(mut trailers) = frame.into_trailers() {
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
        self.returning.untold(&stopped);
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
        loop {
            ready!(poll_patience(&mut self.waiting, self.work.leaving(), cx));
            match self.work.release() {
                // It was looked at, and may not go.
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(stopped) => return Poll::Ready(Some(Err(self.cut(exchange, stopped)))),
            }
        }
    }
}

/// Reads a short body whole and changes it; gives it, what became of it, and how long it was.
///
/// # Errors
/// The origin broke off, or cannot be read.
pub async fn gather(
    mut incoming: Incoming,
    mut work: Box<Work>,
    returning: &Returning,
) -> Result<(Gathered, Became, usize), Failure> {
    let (mut out, mut received) = (Vec::new(), 0);
    let mut trailers = None;
    let unread = |stopped: Stopped| {
        returning.untold(&stopped);
        unreadable(stopped)
    };
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
                steps(&mut work, &mut out).await.map_err(unread)?;
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    out.extend_from_slice(&work.finish().map_err(unread)?);
    let became = work.became();
    returning.note(work.take_found(), "the body");
    if let Some(trailers) = &mut trailers {
        returning.trailers(trailers, became != Became::Same);
    }
    Ok((Gathered::of(out.into(), trailers), became, received))
}

/// Lets others have their turn: a little that is coded may become much.
async fn steps(work: &mut Work, out: &mut Vec<u8>) -> Result<(), Stopped> {
    loop {
        match work.step()? {
            Step::Out(data) => out.extend_from_slice(&data),
            Step::On => tokio::task::yield_now().await,
            Step::Dry => return Ok(()),
        }
    }
}

fn unreadable(stopped: Stopped) -> Failure {
    Failure::caused(Side::Upstream, stopped.reason(), stopped)
}

/// Nobody notices it, and what is broken at its beginning is seen by then.
const BEGINNING: Duration = Duration::from_millis(250);
/// A coded body that is read whole before its head goes; most answers of an API are shorter.
const SHORT: u64 = 64 * 1024;
/// Octets that are decoded of it before the head goes.
const ENOUGH: usize = 64 * 1024;
/// Steps in one turn: a megabyte decoded.
const TURNS: usize = 32;
