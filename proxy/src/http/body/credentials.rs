//! Secrets in a request body: looked at, swapped in, and how long what may be one is held back.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use gig_policy::DenyReason;
use http::HeaderMap;
use tokio::time::Sleep;

use super::announced::Announced;
use crate::credential::{
    body::{BodyPlan, Passes},
    inject::{
        Stopped,
        trailers::{carry_trailers, look_at_trailers},
    },
    rewrite::{Rewrite, RewriteError},
    written::{Hashing, Written},
};
use crate::http::digests;

/// What one body passes through.
pub struct Credentials {
    plan: Option<BodyPlan>,
    passes: Passes,
    /// What a treatment adds, after all else.
    after: Option<Box<dyn Rewrite>>,
    /// What came is not all done with.
    more: bool,
    /// It goes on as it is, when all that it decodes to was looked at.
    kept: Option<Bytes>,
    digests: Digests,
    /// What it hashes to as it comes, where somebody asks.
    hashing: Option<Hashing>,
    waiting: Option<Pin<Box<Sleep>>>,
}

/// What becomes of digests in the trailer section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digests {
    /// Who reads the body whole makes them anew.
    Made,
    LeftOut,
}

impl Credentials {
    /// For a body with this plan.
    #[must_use]
    pub fn new(plan: BodyPlan) -> Self {
        Self {
            passes: plan.passes(),
            plan: Some(plan),
            after: None,
            more: false,
            kept: None,
            digests: Digests::Made,
            hashing: None,
            waiting: None,
        }
    }

    /// Tells there what the body hashes to as it comes, when it is over.
    #[must_use]
    pub(in crate::http) fn hashed(mut self, told: &Written) -> Self {
        self.hashing = Some(Hashing::new(told));
        self
    }

    /// For a body that a treatment alone changes.
    pub(super) fn only(after: Box<dyn Rewrite>) -> Self {
        Self {
            passes: Passes {
                guard: None,
                rewrite: None,
                aside: None,
            },
            plan: None,
            after: Some(after),
            more: false,
            kept: None,
            digests: Digests::Made,
            hashing: None,
            waiting: None,
        }
    }

    /// Adds what changes the body last.
    pub fn then(&mut self, after: Box<dyn Rewrite>) {
        self.after = Some(after);
    }

    /// Leaves digests out of the trailer section of a body that was changed: it is gone when they come.
    pub(super) const fn leave_digests_out(&mut self) {
        self.digests = Digests::LeftOut;
    }

    /// Whether the body may come out with another length.
    #[must_use]
    pub const fn may_change(&self) -> bool {
        self.passes.rewrite.is_some() || self.after.is_some()
    }

    /// The next octets; gives what may go on now. All that is left of others must have been done.
    pub(super) fn pass(&mut self, data: Bytes) -> Result<Option<Bytes>, DenyReason> {
        self.waiting = None;
        if let Some(hashing) = &mut self.hashing {
            hashing.push(&data);
        }
        self.passed(data).map_err(RewriteError::reason)
    }

    fn passed(&mut self, data: Bytes) -> Result<Option<Bytes>, RewriteError> {
        if let Some(guard) = &mut self.passes.guard {
            guard.look(&data)?;
        }
        if let Some(aside) = &mut self.passes.aside {
            let fed = aside.feed(&data, &mut Vec::new());
            self.kept = Some(data);
            return self.looked(fed);
        }
        let Some(rewrite) = &mut self.passes.rewrite else {
            return self.treated(data);
        };
        let mut out = Vec::with_capacity(data.len());
        self.more = rewrite.feed(&data, &mut out)?;
        self.changed(out)
    }

    /// Whether some of what came is left to be done, before anything else is taken.
    pub(super) const fn has_more(&self) -> bool {
        self.more
    }

    /// Does a part of what is left; gives what may go on now.
    pub(super) fn more(&mut self) -> Result<Option<Bytes>, DenyReason> {
        self.next_part().map_err(RewriteError::reason)
    }

    fn next_part(&mut self) -> Result<Option<Bytes>, RewriteError> {
        if let Some(aside) = &mut self.passes.aside {
            let looked = aside.more(&mut Vec::new());
            return self.looked(looked);
        }
        let mut out = Vec::new();
        self.more = match &mut self.passes.rewrite {
            Some(rewrite) => rewrite.more(&mut out)?,
            None => false,
        };
        self.changed(out)
    }

    /// A part of what goes on as it came was looked at.
    fn looked(&mut self, more: Result<bool, RewriteError>) -> Result<Option<Bytes>, RewriteError> {
        self.more = match more {
            // To whom it is not what its coding says, a sentinel in it means nothing.
            Err(RewriteError::Undecodable) => {
                self.passes.aside = None;
                false
            }
            Err(error) => {
                // Nobody asks again; and who does gets nothing.
                self.kept = None;
                return Err(error);
            }
            Ok(more) => more,
        };
        if self.more {
            return Ok(None);
        }
        match self.kept.take() {
            Some(data) => self.treated(data),
            None => Ok(None),
        }
    }

    /// What a value makes much longer is counted for as long as it lives.
    fn changed(&mut self, out: Vec<u8>) -> Result<Option<Bytes>, RewriteError> {
        let out = match &self.plan {
            Some(plan) => plan.memory().keep(out)?,
            None => out.into(),
        };
        self.treated(out)
    }

    fn treated(&mut self, mut data: Bytes) -> Result<Option<Bytes>, RewriteError> {
        if let Some(after) = &mut self.after {
            let mut out = Vec::with_capacity(data.len());
            after.push(&data, &mut out)?;
            data = out.into();
        }
        Ok((!data.is_empty()).then_some(data))
    }

    /// The body is over; gives what was held back.
    pub(super) fn finish(&mut self) -> Result<Option<Bytes>, DenyReason> {
        if let Some(hashing) = &mut self.hashing {
            hashing.finish();
        }
        self.last().map_err(RewriteError::reason)
    }

    fn last(&mut self) -> Result<Option<Bytes>, RewriteError> {
        let mut out = Vec::new();
        if let Some(rewrite) = &mut self.passes.rewrite {
            rewrite.finish(&mut out)?;
        }
        if let Some(after) = &mut self.after {
            let mut last = Vec::new();
            after.push(&out, &mut last)?;
            after.finish(&mut last)?;
            out = last;
        }
        Ok((!out.is_empty()).then(|| out.into()))
    }

    /// Readies a trailer section, of which those fields go that are announced.
    pub(super) fn trailers(
        &self,
        trailers: &mut HeaderMap,
        announced: &Announced,
    ) -> Result<(), DenyReason> {
        let Some(plan) = &self.plan else {
            return Ok(());
        };
        let changed = plan.undoes_coding() || plan.tally().body_changed();
        if changed && self.digests == Digests::LeftOut {
            digests::forget(trailers, plan.tally());
        }
        // What goes nowhere is looked at as well.
        let looked = look_at_trailers(plan, trailers);
        announced.keep(trailers);
        let carried = looked.and_then(|()| carry_trailers(plan, trailers));
        carried.map_err(|stopped| match stopped {
            Stopped::Misuse(misuses) => {
                for misuse in misuses {
                    plan.tally().misused(misuse);
                }
                DenyReason::SecretMisuse
            }
            Stopped::Unavailable(_) => DenyReason::SecretUnavailable,
            Stopped::Unplaceable(unplaced) => {
                plan.tally().unplaced(unplaced.to_string());
                DenyReason::SecretUnplaceable
            }
        })
    }

    /// Ready with what was held back, when nothing more came for so long that it is rather the end of
    /// a message than the beginning of a sentinel.
    pub(super) fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, DenyReason>> {
        let Some(rewrite) = &mut self.passes.rewrite else {
            return Poll::Pending;
        };
        ready!(poll_patience(&mut self.waiting, rewrite.held(), cx));
        let mut out = Vec::new();
        if let Err(error) = rewrite.release(&mut out) {
            return Poll::Ready(Err(error.reason()));
        }
        if let Some(after) = &mut self.after {
            let mut last = Vec::new();
            if let Err(error) = after.push(&out, &mut last) {
                return Poll::Ready(Err(error.reason()));
            }
            out = last;
        }
        if out.is_empty() {
            return Poll::Pending;
        }
        Poll::Ready(Ok(out.into()))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)
    }
}

/// Ready when so many octets have waited long enough for more; never where there are none.
pub(super) fn poll_patience(
    waiting: &mut Option<Pin<Box<Sleep>>>,
    held: usize,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let Some(patience) = patience(held) else {
        return Poll::Pending;
    };
    let sleep = waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
    ready!(sleep.as_mut().poll(cx));
    *waiting = None;
    Poll::Ready(())
}

/// How long so many octets wait for more; `None`: there is nothing to wait with.
const fn patience(held: usize) -> Option<Duration> {
    match held {
        0 => None,
        1..=FEW => Some(SHORT),
        _ => Some(LONG),
    }
}

/// So little is held back at the end of many messages, and begins hardly any sentinel.
const FEW: usize = 5;
/// A person at a terminal hardly notices it.
const SHORT: Duration = Duration::from_millis(300);
/// No sentinel takes so long to arrive.
const LONG: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
