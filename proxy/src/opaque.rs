//! Passes bytes that are not looked into, both ways, until both sides are done.
//!
//! Bounded: one thread-wide scratch buffer for all connections, and at most that much held for a
//! side that does not take it; an idle connection holds no buffer at all. Half-closes are passed on.
//! When to cut it short (revocation, shutdown) is told by the caller. Once the sandbox's programs have ended nobody
//! reads what an origin says: what they wrote goes to its end, and then the connection is over.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use gig_policy::DenyReason;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep_until},
};

use crate::{seldom::Seldom, subject::Subject};

/// What holds while bytes pass.
#[derive(Debug, Clone)]
pub struct SpliceLimits {
    /// No byte in either direction for this long ends it.
    pub idle: Duration,
    /// Whose upload allowance the bytes count against, and whose programs may end.
    pub subject: Arc<Subject>,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spliced {
    /// Octets passed from the sandbox to the origin.
    pub out: u64,
    /// Octets passed from the origin to the sandbox.
    pub back: u64,
    /// Why it ended.
    pub end: SpliceEnd,
}

/// Why a splice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpliceEnd {
    /// Both sides finished.
    Finished,
    /// The sandbox's side broke.
    DownstreamBroke,
    /// The origin's side broke.
    UpstreamBroke,
    /// Nothing moved for the idle time.
    Idle,
    /// Refused while running: the upload limit.
    Refused(DenyReason),
}

impl SpliceEnd {
    /// Why it was refused, if it was.
    #[must_use]
    pub const fn reason(self) -> Option<DenyReason> {
        match self {
            Self::Refused(reason) => Some(reason),
            Self::Finished | Self::DownstreamBroke | Self::UpstreamBroke | Self::Idle => None,
        }
    }
}

/// Octets passed so far.
#[derive(Debug, Default)]
struct Meter {
    out: u64,
    back: u64,
}

/// Passes bytes until both sides are done, or `cut` completes; `front` was already read from `down`
/// and goes first.
///
/// Half-closes are passed on. `cut` is what revocation and shutdown are told by: the splice stops
/// with its reason and with the octets that passed before. Dropping the future stops at once, too,
/// and loses the count.
pub async fn splice_until<D, U>(
    front: Bytes,
    (mut down, mut up): (D, U),
    limits: &SpliceLimits,
    cut: impl Future<Output = DenyReason>,
) -> Spliced
where
    D: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    let mut meter = Meter::default();
    let passing = pass(front, (&mut down, &mut up), limits, &mut meter);
    let end = tokio::select! {
        // A cut comes first: what was read may not pass any more.
        biased;
        reason = cut => SpliceEnd::Refused(reason),
        end = passing => end,
    };
    Spliced {
        out: meter.out,
        back: meter.back,
        end,
    }
}

async fn pass<D, U>(
    front: Bytes,
    (mut down, mut up): (&mut D, &mut U),
    limits: &SpliceLimits,
    meter: &mut Meter,
) -> SpliceEnd
where
    D: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    let mut out = Pump::new(Bytes::new());
    let mut back = Pump::new(Bytes::new());
    let mut fresh = front;
    let mut last = Instant::now();
    let deadline = sleep_until(last + limits.idle);
    tokio::pin!(deadline);
    let ended = limits.subject.ended();
    tokio::pin!(ended);
    let mut called = Seldom::new(ended);
    let mut unheard = false;
    poll_fn(|context| {
        unheard = unheard || Pin::new(&mut called).poll(context).is_ready();
        let before = (meter.out, meter.back);
        let outward = poll_out(
            &mut out,
            &mut fresh,
            (&mut down, &mut up),
            limits,
            context,
            meter,
        );
        if let Poll::Ready(Err(end)) = outward {
            return Poll::Ready(end);
        }
        if unheard {
            // What is not read would have the origin's connection end with a reset.
            back.discard(&mut up, context);
            if outward.is_ready() {
                return Poll::Ready(SpliceEnd::Finished);
            }
        }
        let backward = match unheard {
            true => Poll::Pending,
            false => back.poll(&mut up, &mut down, context, &mut |count| {
                meter.back += count as u64;
                Ok(())
            }),
        };
        if let Poll::Ready(Err(broke)) = backward {
            return Poll::Ready(
                broke.towards(SpliceEnd::UpstreamBroke, SpliceEnd::DownstreamBroke),
            );
        }
        if outward.is_ready() && backward.is_ready() {
            return Poll::Ready(SpliceEnd::Finished);
        }
        // Who is not read from is heard to break in no other way.
        if !unheard && out.is_deaf() && is_broken(&mut down, context) {
            return Poll::Ready(SpliceEnd::DownstreamBroke);
        }
        if back.is_deaf() && is_broken(&mut up, context) {
            return Poll::Ready(SpliceEnd::UpstreamBroke);
        }
        if (meter.out, meter.back) != before {
            last = Instant::now();
        }
        loop {
            ready!(deadline.as_mut().poll(context));
            let due = last + limits.idle;
            if due <= Instant::now() {
                return Poll::Ready(SpliceEnd::Idle);
            }
            deadline.as_mut().reset(due);
        }
    })
    .await
}

/// The direction that counts against the upload allowance.
fn poll_out<D, U>(
    pump: &mut Pump,
    fresh: &mut Bytes,
    (down, up): (&mut D, &mut U),
    limits: &SpliceLimits,
    context: &mut Context<'_>,
    meter: &mut Meter,
) -> Poll<Result<(), SpliceEnd>>
where
    D: AsyncRead + Unpin,
    U: AsyncWrite + Unpin,
{
    let subject = &limits.subject;
    let mut admit = |count: usize| {
        let count = count as u64;
        subject.budget().upload(subject.policy().limits(), count)?;
        meter.out += count;
        Ok(())
    };
    if !fresh.is_empty() {
        if let Err(reason) = admit(fresh.len()) {
            return Poll::Ready(Err(SpliceEnd::Refused(reason)));
        }
        pump.pending = std::mem::take(fresh);
    }
    pump.poll(down, up, context, &mut admit)
        .map_err(|broke| broke.towards(SpliceEnd::DownstreamBroke, SpliceEnd::UpstreamBroke))
}

/// One direction.
#[derive(Debug)]
struct Pump {
    /// Read and not yet taken by the other side.
    pending: Bytes,
    unflushed: bool,
    ended: bool,
    shut: bool,
}

/// Why a direction stopped.
enum Broke {
    Reading,
    Writing,
    Refused(DenyReason),
}

impl Broke {
    const fn towards(self, reading: SpliceEnd, writing: SpliceEnd) -> SpliceEnd {
        match self {
            Self::Reading => reading,
            Self::Writing => writing,
            Self::Refused(reason) => SpliceEnd::Refused(reason),
        }
    }
}

type Admit<'a> = &'a mut dyn FnMut(usize) -> Result<(), DenyReason>;

impl Pump {
    const fn new(pending: Bytes) -> Self {
        Self {
            pending,
            unflushed: false,
            ended: false,
            shut: false,
        }
    }

    /// Nothing is read now: all came, or what came does not go on.
    fn is_deaf(&self) -> bool {
        self.ended || !self.pending.is_empty()
    }

    /// Reads what comes, for nobody.
    fn discard<R: AsyncRead + Unpin>(&mut self, from: &mut R, context: &mut Context<'_>) {
        self.pending = Bytes::new();
        let mut room = [0; DISCARDED_AT_ONCE];
        while !self.ended {
            let mut buffer = ReadBuf::new(&mut room);
            match Pin::new(&mut *from).poll_read(context, &mut buffer) {
                Poll::Ready(read) => self.ended = read.is_err() || buffer.filled().is_empty(),
                Poll::Pending => return,
            }
        }
    }

    /// Moves what can be moved; ready when the reader ended and the writer was shut.
    fn poll<R, W>(
        &mut self,
        from: &mut R,
        to: &mut W,
        context: &mut Context<'_>,
        admit: Admit<'_>,
    ) -> Poll<Result<(), Broke>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        if self.shut {
            return Poll::Ready(Ok(()));
        }
        SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
            Ok(mut scratch) => self.run(from, to, context, admit, &mut scratch),
            // A stream that itself splices within its poll: rare enough to pay for.
            Err(_) => self.run(from, to, context, admit, &mut Vec::new()),
        })
    }

    fn run<R, W>(
        &mut self,
        from: &mut R,
        to: &mut W,
        context: &mut Context<'_>,
        admit: Admit<'_>,
        scratch: &mut Vec<u8>,
    ) -> Poll<Result<(), Broke>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        scratch.resize(SCRATCH_SIZE, 0);
        loop {
            while !self.pending.is_empty() {
                let wrote = Pin::new(&mut *to).poll_write(context, &self.pending);
                let count = ready!(wrote)
                    .and_then(nonzero)
                    .map_err(|_| Broke::Writing)?;
                self.pending.advance(count);
                self.unflushed = true;
            }
            if self.ended {
                ready!(Pin::new(&mut *to).poll_shutdown(context)).map_err(|_| Broke::Writing)?;
                self.shut = true;
                return Poll::Ready(Ok(()));
            }
            // Lets a block that was written go.
            self.pending = Bytes::new();
            let mut buffer = ReadBuf::new(scratch);
            match Pin::new(&mut *from).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Broke::Reading)),
                Poll::Pending => {
                    if self.unflushed {
                        ready!(Pin::new(&mut *to).poll_flush(context))
                            .map_err(|_| Broke::Writing)?;
                        self.unflushed = false;
                    }
                    return Poll::Pending;
                }
            }
            let read = buffer.filled();
            if read.is_empty() {
                self.ended = true;
                continue;
            }
            admit(read.len()).map_err(Broke::Refused)?;
            let wrote = match Pin::new(&mut *to).poll_write(context, read) {
                Poll::Ready(wrote) => wrote.and_then(nonzero).map_err(|_| Broke::Writing)?,
                Poll::Pending => 0,
            };
            self.unflushed = true;
            self.pending = Bytes::copy_from_slice(read.get(wrote..).unwrap_or_default());
        }
    }
}

/// Whether nothing that is written to it can arrive; wakes when that is so, where the stream knows.
fn is_broken<S: AsyncWrite + Unpin>(stream: &mut S, context: &mut Context<'_>) -> bool {
    matches!(Pin::new(stream).poll_flush(context), Poll::Ready(Err(_)))
}

fn nonzero(count: usize) -> io::Result<usize> {
    if count == 0 {
        Err(io::ErrorKind::WriteZero.into())
    } else {
        Ok(count)
    }
}

/// Large enough that system calls do not decide the speed, small enough for a second-level cache.
const SCRATCH_SIZE: usize = 64 * 1024;
/// For the short while that nobody listens.
const DISCARDED_AT_ONCE: usize = 4096;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests;
