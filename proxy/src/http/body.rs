//! Bodies on their way through: counted, bounded, never held.
//!
//! A frame is passed on when the other side has room for it, so that a slow reader slows the writer
//! and nothing piles up here. An upload is charged before it goes, and the policy in force is asked
//! whether it still may; who waits for its answer cuts one that stands still.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{FutureExt, task::AtomicWaker};
use gig_policy::DenyReason;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{
    activity::Activity, headers::field_octets, incoming::Incoming, meant::forget_overrides,
    pipe::Piped, standing::Standing,
};
use crate::{
    credential::{
        memory::Memory,
        rewrite::{Rewrite, RewriteError},
    },
    enforce::uses::Uses,
    subject::Subject,
};

mod announced;
mod broken;
mod credentials;
mod download;
mod gathered;
mod kept;
mod lent;
mod scrubbed;
mod untold;

use announced::Announced;
use broken::broken;
pub use credentials::Credentials;
pub use download::{Download, DownloadCut};
pub(super) use gathered::Begun;
pub use gathered::{GatherError, Gathered};
pub use kept::KeptRoom;
use kept::{Kept, with_more};
pub use lent::Lent;
pub use scrubbed::{Scrubbed, gather};
use untold::Untold;

/// A request body on its way to the origin.
#[derive(Debug, Default)]
pub enum Upload {
    /// There is none.
    #[default]
    Empty,
    /// There is one.
    Streaming(Box<Streaming>),
    /// There is one, and it is here.
    Whole(Gathered),
}

/// A request body that is being read from the sandbox.
#[derive(Debug)]
pub struct Streaming {
    incoming: Incoming,
    progress: Arc<Progress>,
    passing: Passing,
    /// Closed until the origin asks for the body (`Expect: 100-continue`).
    gate: Option<oneshot::Receiver<()>>,
    /// The gate will not open any more.
    barred: bool,
    credentials: Option<Credentials>,
    /// What was read of it before it was sent, or is sent again.
    read: Option<Bytes>,
    /// What went, while it may have to go again.
    kept: Option<Box<Kept>>,
    /// Which trailer fields go to its origin.
    announced: Announced,
    /// A trailer section that waits for the last octets before it.
    trailers: Option<HeaderMap>,
    /// What waits until the use of the secrets in it is recorded.
    untold: Option<Untold>,
    ended: bool,
}

/// Under what an upload goes on its way.
#[derive(Debug)]
pub struct Passing {
    /// Whose allowance it counts against.
    pub subject: Arc<Subject>,
    /// That of its connection.
    pub activity: Arc<Activity>,
    /// That of its exchange.
    pub standing: Arc<Standing>,
    /// Where a value may go into it.
    pub uses: Option<Arc<Uses>>,
}

/// How far an upload is; shared with the exchange that waits for the answer.
#[derive(Debug, Default)]
pub struct Progress {
    sent: AtomicU64,
    finished: AtomicBool,
    stopped: Mutex<Option<DenyReason>>,
    abandoned: AtomicBool,
    waker: AtomicWaker,
}

/// The upload was stopped; the exchange knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UploadStopped {
    /// A limit of the policy.
    #[error("the request body was stopped: {0}")]
    Limit(DenyReason),
    /// A secret on its way to where it is not bound, or one that cannot be had, or whose use cannot be recorded.
    #[error("the request body was stopped: {0}")]
    Secret(DenyReason),
    /// The policy no longer allows it.
    #[error("the request body was stopped: {0}")]
    Revoked(DenyReason),
    /// The sandbox broke off, or sent what is none.
    #[error("the sandbox broke off its request body: {0}")]
    Downstream(DenyReason),
    /// The answer is complete: nobody needs the rest.
    #[error("the exchange is over")]
    Abandoned,
}

impl Progress {
    /// Octets that went towards the origin.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether all of it went.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Why it was stopped, if it was.
    #[must_use]
    pub fn stopped(&self) -> Option<DenyReason> {
        *self.stopped.lock()
    }

    /// Ends the upload: its answer is complete, or was cut.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn abandoned(&self, cx: &Context<'_>) -> bool {
        self.waker.register(cx.waker());
        self.abandoned.load(Ordering::Acquire)
    }

    fn stop(&self, reason: DenyReason) {
        *self.stopped.lock() = Some(reason);
    }
}

impl Upload {
    /// Wraps a request body. With `gate`, nothing is read until it opens or its sender is gone.
    pub fn new(
        incoming: Incoming,
        passing: Passing,
        gate: Option<oneshot::Receiver<()>>,
        credentials: Option<Credentials>,
    ) -> (Self, Option<Arc<Progress>>) {
        if incoming.is_end_stream() {
            return (Self::Empty, None);
        }
        let progress = Arc::new(Progress::default());
        let streaming = Streaming {
            incoming,
            progress: Arc::clone(&progress),
            passing,
            gate,
            barred: false,
            credentials,
            read: None,
            kept: None,
            announced: Announced::default(),
            trailers: None,
            untold: None,
            ended: false,
        };
        (Self::Streaming(Box::new(streaming)), Some(progress))
    }
}

impl Upload {
    /// Has what goes of it kept, within `room`, until somebody says that it was looked at; false where it does not
    /// come from the program as it goes.
    pub fn keep(&mut self, room: KeptRoom) -> bool {
        let Self::Streaming(streaming) = self else {
            return false;
        };
        streaming.kept = Some(Box::new(Kept::new(room)));
        true
    }

    /// Adds what changes the body last. One that is here whole is changed at once, in `memory`.
    ///
    /// # Errors
    /// What `after` says of a whole body: its request must not be sent.
    pub fn then(
        &mut self,
        after: Box<dyn Rewrite>,
        memory: &Arc<Memory>,
    ) -> Result<(), RewriteError> {
        match self {
            Self::Empty => {
                let made = gathered::changed(after, &[], memory)?;
                if !made.is_empty() {
                    *self = Self::Whole(Gathered::of(made, None));
                }
            }
            Self::Streaming(streaming) => match &mut streaming.credentials {
                Some(credentials) => credentials.then(after),
                None => streaming.credentials = Some(Credentials::only(after)),
            },
            Self::Whole(gathered) => gathered.change(after, memory)?,
        }
        Ok(())
    }
}

impl Streaming {
    /// Leaves digests out of the trailer section of a body that was changed.
    pub(super) fn leave_digests_out(&mut self) {
        if let Some(credentials) = &mut self.credentials {
            credentials.leave_digests_out();
        }
    }

    /// Charges `octets` before they go.
    fn charge(&self, octets: u64) -> Result<(), UploadStopped> {
        let policy = self.passing.subject.policy();
        let limits = policy.limits();
        let total = self.progress.sent.load(Ordering::Relaxed) + octets;
        let over = limits.request_body.is_some_and(|most| total > most.0);
        let charged = if over {
            Err(DenyReason::RequestBodyLimit)
        } else {
            self.passing.subject.budget().upload(limits, octets)
        };
        charged.map_err(|reason| self.limited(reason))?;
        self.progress.sent.store(total, Ordering::Relaxed);
        self.passing.activity.touch();
        self.passing.standing.touch();
        Ok(())
    }

    /// The same for a trailer section: it leaves, and is none of the body.
    fn charge_fields(&self, trailers: &HeaderMap) -> Result<(), UploadStopped> {
        let policy = self.passing.subject.policy();
        let budget = self.passing.subject.budget();
        let charged = budget.upload(policy.limits(), field_octets(trailers));
        charged.map_err(|reason| self.limited(reason))
    }

    fn limited(&self, reason: DenyReason) -> UploadStopped {
        self.progress.stop(reason);
        UploadStopped::Limit(reason)
    }
}

impl Streaming {
    /// The next frame, as it goes to the origin.
    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadStopped>>> {
        if let Some(read) = self.read.take() {
            return Poll::Ready(Some(Ok(Frame::data(read))));
        }
        // What is left of what came is done before more is read, and no more of it than is asked for.
        for _ in 0..TURNS {
            if let Some(credentials) = self.credentials.as_mut().filter(|c| c.has_more()) {
                match credentials.more() {
                    Ok(Some(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                    Ok(None) => continue,
                    Err(reason) => return Poll::Ready(Some(Err(self.stopped(reason)))),
                }
            }
            if let Some(trailers) = self.trailers.take() {
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
                return self.poll_held(cx);
            };
            let passed = match frame {
                None => {
                    self.ended = true;
                    self.finish();
                    self.last_octets()
                }
                Some(Err(error)) => {
                    let reason = broken(&error);
                    self.progress.stop(reason);
                    return Poll::Ready(Some(Err(UploadStopped::Downstream(reason))));
                }
                Some(Ok(frame)) => self.frame(frame),
            };
            match passed {
                Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                Ok(None) => {}
                Err(stopped) => return Poll::Ready(Some(Err(stopped))),
            }
        }
        // Others shall have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// One frame on its way; `None` when nothing of it goes yet.
    fn frame(&mut self, mut frame: Frame<Bytes>) -> Result<Option<Frame<Bytes>>, UploadStopped> {
        if let Some(data) = frame.data_ref() {
            let octets = u64::try_from(data.len()).unwrap_or(u64::MAX);
            self.charge(octets)?;
        }
        if let Some(trailers) = frame.trailers_mut() {
            forget_overrides(trailers);
            self.charge_fields(trailers)?;
        }
        let whole = self.incoming.is_end_stream();
        if whole {
            self.finish();
        }
        let Some(credentials) = &mut self.credentials else {
            return Ok(Some(frame));
        };
        let passed = match frame.into_data() {
            Ok(data) => credentials.pass(data).map(|data| data.map(Frame::data)),
            Err(frame) => match frame.into_trailers() {
                Ok(mut trailers) => credentials
                    .trailers(&mut trailers, &self.announced)
                    .and_then(|()| {
                        self.trailers = Some(trailers);
                        credentials.finish().map(|data| data.map(Frame::data))
                    }),
                Err(frame) => Ok(Some(frame)),
            },
        };
        passed.map_err(|reason| self.stopped(reason))
    }

    /// All of it came and is on its way.
    fn finish(&self) {
        self.progress.finished.store(true, Ordering::Release);
        self.passing.activity.hand();
    }

    /// What was held back when the body ended.
    fn last_octets(&mut self) -> Result<Option<Frame<Bytes>>, UploadStopped> {
        let last = self.credentials.as_mut().map(Credentials::finish);
        let last = last.unwrap_or(Ok(None));
        last.map(|data| data.map(Frame::data))
            .map_err(|reason| self.stopped(reason))
    }

    /// Nothing came: an interactive stream does not wait for ever for what is held back.
    fn poll_held(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadStopped>>> {
        let Some(credentials) = &mut self.credentials else {
            return Poll::Pending;
        };
        let released = ready!(credentials.poll_release(cx));
        Poll::Ready(match released {
            Ok(data) => Some(Ok(Frame::data(data))),
            Err(reason) => Some(Err(self.stopped(reason))),
        })
    }

    fn stopped(&self, reason: DenyReason) -> UploadStopped {
        self.progress.stop(reason);
        UploadStopped::Secret(reason)
    }

    /// Whether nothing more comes. What changes a body may hold its end back.
    fn is_through(&self) -> bool {
        if self.read.is_some() || self.untold.is_some() {
            return false;
        }
        match &self.credentials {
            Some(credentials) if credentials.may_change() => self.ended && self.trailers.is_none(),
            Some(credentials) if credentials.has_more() => false,
            _ => self.trailers.is_none() && self.incoming.is_end_stream(),
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadStopped;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadStopped>>> {
        let streaming = match self.get_mut() {
            Self::Streaming(streaming) => streaming,
            Self::Empty => return Poll::Ready(None),
            Self::Whole(gathered) => return Poll::Ready(gathered.next().map(Ok)),
        };
        if streaming.progress.abandoned(cx) {
            return Poll::Ready(Some(Err(UploadStopped::Abandoned)));
        }
        if let Some(reason) = streaming.passing.standing.cut_for() {
            streaming.progress.stop(reason);
            return Poll::Ready(Some(Err(UploadStopped::Revoked(reason))));
        }
        if streaming.barred {
            return Poll::Pending;
        }
        if let Some(gate) = &mut streaming.gate {
            match gate.poll_unpin(cx) {
                Poll::Ready(Ok(())) => streaming.gate = None,
                // The answer came without the origin asking for the body: it is never read, so that
                // nobody tells the program to send it.
                Poll::Ready(Err(_)) => {
                    (streaming.gate, streaming.barred) = (None, true);
                    return Poll::Pending;
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        let passed = ready!(streaming.poll_told(cx));
        if let Some(kept) = &mut streaming.kept
            && !kept.note(passed.as_ref())
        {
            streaming.kept = None;
        }
        Poll::Ready(passed)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Streaming(streaming) => streaming.is_through(),
            Self::Whole(gathered) => gathered.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Streaming(streaming) => match &streaming.credentials {
                Some(credentials) if credentials.may_change() => SizeHint::default(),
                _ => with_more(streaming.incoming.size_hint(), streaming.read.as_ref()),
            },
            Self::Whole(gathered) => gathered.size_hint(),
        }
    }
}

/// Steps in one turn: a megabyte decoded.
const TURNS: usize = 32;

/// Ends with its exchange, whose answer is waited for or read at the same time.
impl Piped for Upload {}
