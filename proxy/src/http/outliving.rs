//! A request whose program closed its connection, or ended, without waiting for the answer.
//!
//! What was written before an orderly close is delivered, as a kernel would have it: a request that came
//! whole goes on though nobody waits for it any more, until its answer begins, or until it was handed to its
//! origin's connection and has had the time to leave it. One that was handed over long ago ends with its
//! program: origins stop working for who has gone ([`super::listening`] says when that is). What waits for a person's word ends at once, too, and so
//! does whatever the policy or gig's own end cuts.
//!
//! HTTP/1.1 alone: over HTTP/2 a connection's end cannot be told from a body's.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::sleep;

use super::session::Session;

/// Answers a request; dropped, it goes on if its program left it behind.
pub(super) struct Outliving<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    session: Arc<Session>,
    rest: Option<Pin<Box<F>>>,
}

impl<F> Outliving<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    /// Around what answers a request of `session`.
    pub(super) const fn new(session: Arc<Session>, rest: Pin<Box<F>>) -> Self {
        Self {
            session,
            rest: Some(rest),
        }
    }
}

impl<F> Future for Outliving<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(rest) = &mut self.rest else {
            return Poll::Pending;
        };
        let answered = ready!(rest.as_mut().poll(cx));
        self.rest = None;
        Poll::Ready(answered)
    }
}

impl<F> Drop for Outliving<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn drop(&mut self) {
        let Some(rest) = self.rest.take() else { return };
        let worker = Arc::clone(self.session.worker());
        if !self.session.leaves_requests() || worker.drain.is_cancelled() {
            return;
        }
        let session = Arc::clone(&self.session);
        drop(worker.tasks.spawn(go_on(session, rest)));
    }
}

/// Dropping what it answers records how far it came.
async fn go_on(session: Arc<Session>, rest: Pin<Box<impl Future>>) {
    let caller = session.caller();
    tokio::select! {
        biased;
        _ = caller.guard.revoked() => {}
        () = caller.worker.drain.cancelled() => {}
        _answer = rest => {}
        () = session.activity().gone(TO_LEAVE) => {}
        () = sleep(MOST) => tracing::debug!("a request that was left behind did not leave in time"),
    }
}

/// For what hyper and TLS hold of a request when all of it was handed over: as much as a quarter of a megabyte.
const TO_LEAVE: Duration = Duration::from_secs(1);
/// For a name to be resolved, an origin to be reached, and a body to be taken.
const MOST: Duration = Duration::from_secs(5);
