//! Interim responses (RFC 9110 §15.2) from an origin to a program, by either HTTP on either side.
//!
//! 100 opens the gate that holds a body back (`Expect: 100-continue`): hyper's server tells an HTTP/1.1
//! program to go on when the body is first read, and over HTTP/2 we do. An origin that says nothing is
//! waited for a little (RFC 9110 §10.1.1 lets the client go on by itself, and asks nobody to wait for
//! ever). Others are passed on as they come, without what may not cross the proxy. What an origin may
//! send of them is bounded: they cost us and the program, and no flow control holds them.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, Request, StatusCode, header::CONTENT_LENGTH};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::{headers, interject::Interjections, streams::Reply};
use crate::credential::scrub::answer::Returning;

/// Opened when the origin asks for the body.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl Gate {
    /// A closed gate, and what opens with it. If the gate is dropped, that never opens.
    #[must_use]
    pub fn new() -> (Self, oneshot::Receiver<()>) {
        let (open, opened) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(open)))), opened)
    }

    /// Lets the body pass; false where it did already.
    pub fn open(&self) -> bool {
        let open = self.0.lock().take();
        // Nobody waits any more when the upload is gone.
        open.is_some_and(|open| open.send(()).is_ok())
    }
}

/// Where the interim responses to one request go.
#[derive(Debug, Clone)]
pub struct Interims {
    way: Way,
    /// Held back until the origin asks for it.
    gate: Option<Gate>,
    /// What the sandbox must not see.
    returning: Option<Arc<Returning>>,
    /// Only the final answer is looked into as it must be.
    leave_only: bool,
}

#[derive(Debug, Clone)]
enum Way {
    Http1(Arc<Interjections>),
    Http2(Reply),
}

/// More interim responses to one request than any honest origin sends, or one that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an origin sends interim responses that cannot be passed on")]
pub struct TooMuch;

/// Counts what one origin sends for one request.
#[derive(Debug, Default)]
pub struct Allowance(AtomicUsize);

impl Interims {
    /// To where `reply` leads, or to the HTTP/1.1 program of the connection.
    #[must_use]
    pub fn new(
        reply: Option<&Reply>,
        interjections: &Arc<Interjections>,
        gate: Option<Gate>,
        returning: Option<&Arc<Returning>>,
    ) -> Self {
        let way = match reply {
            Some(reply) => Way::Http2(reply.clone()),
            None => Way::Http1(Arc::clone(interjections)),
        };
        Self {
            way,
            gate,
            returning: returning.cloned(),
            leave_only: false,
        }
    }

    /// Passes nothing on but leave to send the body: what is in the answer is for gig alone at first.
    #[must_use]
    pub fn leave_only(mut self) -> Self {
        self.leave_only = true;
        self
    }

    /// Whether a body waits for leave.
    #[must_use]
    pub const fn is_gated(&self) -> bool {
        self.gate.is_some()
    }

    /// Passes one on.
    ///
    /// # Errors
    /// [`TooMuch`]: the origin is not heard any further.
    pub fn heard(
        &self,
        allowance: &Allowance,
        status: StatusCode,
        fields: &HeaderMap,
    ) -> Result<(), TooMuch> {
        allowance.take(fields)?;
        if status == StatusCode::SWITCHING_PROTOCOLS {
            // RFC 9113 §8.6: HTTP/2 has none; HTTP/1.1's is a final answer.
            return Err(TooMuch);
        }
        if status == StatusCode::CONTINUE {
            self.go_on();
            return Ok(());
        }
        if self.leave_only {
            return Ok(());
        }
        let mut fields = fields.clone();
        headers::incoming(&mut fields);
        // RFC 9110 §8.6: it has no body, and nobody shall look for one.
        fields.remove(CONTENT_LENGTH);
        if let Some(returning) = &self.returning {
            returning.fields(&mut fields);
        }
        match &self.way {
            Way::Http1(interjections) => interjections.offer(status, &fields),
            Way::Http2(reply) => reply.interim(status, fields),
        }
        Ok(())
    }

    /// Lets the body pass, and tells the program to send it.
    pub fn go_on(&self) {
        if let Some(gate) = &self.gate
            && gate.open()
            && let Way::Http2(reply) = &self.way
        {
            reply.interim(StatusCode::CONTINUE, HeaderMap::new());
        }
    }

    /// Has what an HTTP/1.1 origin sends before its answer to `request` passed on, for as long as what
    /// is given is kept.
    pub fn watch<B>(&self, request: &mut Request<B>) -> Watching {
        let watched = Arc::new(Watched {
            interims: self.clone(),
            allowance: Allowance::default(),
            over: Notify::new(),
        });
        // hyper may hold the callback for longer than anybody waits for the answer.
        let watching = Arc::downgrade(&watched);
        hyper::ext::on_informational(request, move |response| {
            let Some(watched) = watching.upgrade() else {
                return;
            };
            let (status, fields) = (response.status(), response.headers());
            if watched
                .interims
                .heard(&watched.allowance, status, fields)
                .is_err()
            {
                watched.over.notify_one();
            }
        });
        Watching(watched)
    }

    /// Waits for `answer`, and goes on when it takes long.
    pub async fn going_on_late<F: Future>(&self, answer: F) -> F::Output {
        tokio::pin!(answer);
        tokio::select! {
            answered = &mut answer => answered,
            () = tokio::time::sleep(PATIENCE) => {
                self.go_on();
                answer.await
            }
        }
    }
}

/// An HTTP/1.1 origin is heard for as long as this is kept.
#[derive(Debug)]
pub struct Watching(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    interims: Interims,
    allowance: Allowance,
    over: Notify,
}

impl Watching {
    /// Completes when the origin sends too much.
    pub async fn too_much(&self) {
        self.0.over.notified().await;
    }
}

impl Allowance {
    fn take(&self, fields: &HeaderMap) -> Result<(), TooMuch> {
        let octets = fields
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + FIELD)
            .sum::<usize>();
        let before = self.0.fetch_add(FIELD + octets, Ordering::Relaxed);
        if before + FIELD + octets > MOST_OCTETS {
            return Err(TooMuch);
        }
        Ok(())
    }
}

/// curl, too, goes on by itself after one second: an origin that does not know 100 costs no more here
/// than it does without us.
const PATIENCE: Duration = Duration::from_secs(1);
/// RFC 9113 §6.5.2: what a field costs beside its octets.
const FIELD: usize = 32;
/// All interim responses to one request: some header sections full of links, or a sign of life every
/// second for an hour.
const MOST_OCTETS: usize = 128 * 1024;
