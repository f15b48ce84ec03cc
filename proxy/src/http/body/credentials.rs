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

use crate::credential::{
    body::{BodyPlan, Passes},
    inject::{Stopped, carry_trailers},
    rewrite::{Rewrite, RewriteError},
};

/// What one body passes through.
pub struct Credentials {
    plan: Option<BodyPlan>,
    passes: Passes,
    /// What a treatment adds, after all else.
    after: Option<Box<dyn Rewrite>>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Credentials {
    /// For a body with this plan.
    #[must_use]
    pub fn new(plan: BodyPlan) -> Self {
        Self {
            passes: plan.passes(),
            plan: Some(plan),
            after: None,
            waiting: None,
        }
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
            waiting: None,
        }
    }

    /// Adds what changes the body last.
    pub fn then(&mut self, after: Box<dyn Rewrite>) {
        self.after = Some(after);
    }

    /// Whether the body may come out with another length.
    #[must_use]
    pub const fn may_change(&self) -> bool {
        self.passes.rewrite.is_some() || self.after.is_some()
    }

    /// The next octets; gives what may go on now.
    pub(super) fn pass(&mut self, data: Bytes) -> Result<Option<Bytes>, DenyReason> {
        self.waiting = None;
        if let Some(guard) = &mut self.passes.guard {
            guard.look(&data).map_err(RewriteError::reason)?;
        }
        if let Some(aside) = &mut self.passes.aside {
            match aside.push(&data, &mut Vec::new()) {
                Ok(()) => {}
                Err(RewriteError::Undecodable) => self.passes.aside = None,
                Err(error) => return Err(error.reason()),
            }
        }
        let mut data = data;
        for rewrite in [&mut self.passes.rewrite, &mut self.after]
            .into_iter()
            .flatten()
        {
            let mut out = Vec::with_capacity(data.len());
            rewrite
                .push(&data, &mut out)
                .map_err(RewriteError::reason)?;
            data = out.into();
        }
        Ok((!data.is_empty()).then_some(data))
    }

    /// The body is over; gives what was held back.
    pub(super) fn finish(&mut self) -> Result<Option<Bytes>, DenyReason> {
        let mut out = Vec::new();
        if let Some(rewrite) = &mut self.passes.rewrite {
            rewrite.finish(&mut out).map_err(RewriteError::reason)?;
        }
        if let Some(after) = &mut self.after {
            let mut last = Vec::new();
            after.push(&out, &mut last).map_err(RewriteError::reason)?;
            after.finish(&mut last).map_err(RewriteError::reason)?;
            out = last;
        }
        Ok((!out.is_empty()).then(|| out.into()))
    }

    /// Readies a trailer section.
    pub(super) fn trailers(&self, trailers: &mut HeaderMap) -> Result<(), DenyReason> {
        let Some(plan) = &self.plan else {
            return Ok(());
        };
        carry_trailers(plan, trailers).map_err(|stopped| match stopped {
            Stopped::Misuse(misuses) => {
                for misuse in misuses {
                    plan.tally().misused(misuse);
                }
                DenyReason::SecretMisuse
            }
            Stopped::Unavailable(_) => DenyReason::SecretUnavailable,
            Stopped::Unplaceable(_) => DenyReason::SecretUnplaceable,
        })
    }

    /// Ready with what was held back, when nothing more came for so long that it is rather the end of
    /// a message than the beginning of a sentinel.
    pub(super) fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, DenyReason>> {
        let Some(rewrite) = &mut self.passes.rewrite else {
            return Poll::Pending;
        };
        let Some(patience) = patience(rewrite.held()) else {
            return Poll::Pending;
        };
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
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

/// How long so many octets wait for more; `None`: there is nothing to wait with.
pub(super) const fn patience(held: usize) -> Option<Duration> {
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
