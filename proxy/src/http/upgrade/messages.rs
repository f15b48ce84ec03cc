//! The messages of a WebSocket whose sandbox has secrets: sentinels to values on the way out, values to
//! sentinels on the way back.

use std::sync::Arc;

use gig_policy::DenyReason;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::http::live::Live;
use crate::{
    credential::{
        body::{BodyPlan, Passes},
        rewrite::{Rewrite, RewriteError, Unchanged},
        room::begins_as_text,
        scrub::{Fit, Scrubbers, answer::Returning},
        websocket::{self, CloseCode, FrameError, Frames, Kind, Sender, stream::RewrittenStream},
    },
    deadlines::Deadlines,
};

/// What the program sends: guarded, and with values for sentinels. A binary message that is no text keeps its
/// length, or is refused.
pub(super) fn outgoing(plan: Option<BodyPlan>, live: Option<Live>) -> Frames {
    let binary = plan.as_ref().map(BodyPlan::of_binary);
    // A control frame may stand within a message: what follows it there is the next of its own.
    let (strand, controls) = (Arc::default(), Arc::default());
    let make = move |kind: Kind| -> Box<dyn Rewrite> {
        let plan = if kind == Kind::Binary { &binary } else { &plan };
        let mut passes = match (plan, &live) {
            (Some(plan), Some(live)) => live.passes(plan),
            (Some(plan), None) => plan.passes(),
            (None, _) => return Box::new(Unchanged),
        };
        // What is between two messages and in none is not between pieces of a value.
        let before = match kind {
            Kind::Control => &controls,
            _ => &strand,
        };
        passes.guard = passes.guard.map(|guard| guard.behind(before));
        Box::new(Outgoing(passes))
    };
    Frames::new(Sender::Client, Box::new(make))
}

/// What the origin sends: with sentinels for values. A binary message that does not begin as text keeps its length.
pub(super) fn incoming(returning: Option<Arc<Returning>>) -> Frames {
    let make = move |kind: Kind| -> Box<dyn Rewrite> {
        let Some(returning) = &returning else {
            return Box::new(Unchanged);
        };
        Box::new(Incoming {
            kind,
            scrubbers: None,
            returning: Arc::clone(returning),
        })
    };
    Frames::new(Sender::Server, Box::new(make))
}

/// Tells both sides why it ends, where we ended it and a frame may follow what was sent: the one that
/// caused it what it was, the other one that it is over.
pub(super) async fn close<D, U>(
    down: &mut RewrittenStream<D>,
    up: &mut RewrittenStream<U>,
    deadlines: &Deadlines,
) where
    D: AsyncWrite + Unpin,
    U: AsyncWrite + Unpin,
{
    let (to_program, to_origin) = match (down.stopped(), up.stopped()) {
        (Some(why), _) => (why.close_code(), CloseCode::GoingAway),
        (None, Some(why)) => (CloseCode::GoingAway, why.close_code()),
        (None, None) => return,
    };
    let (program, origin) = (down.is_between(up), up.is_between(down));
    let told = async {
        // Frames towards the origin are a client's, those towards the program a server's.
        let origin = async {
            if origin {
                tell(up, Sender::Client, to_origin).await;
            }
        };
        let program = async {
            if program {
                tell(down, Sender::Server, to_program).await;
            }
        };
        tokio::join!(origin, program);
    };
    // Who does not read is told nothing.
    drop(tokio::time::timeout(deadlines.detect, told).await);
}

async fn tell<S: AsyncWrite + Unpin>(stream: &mut S, sender: Sender, code: CloseCode) {
    if let Ok(frame) = websocket::close(sender, code)
        && stream.write_all(&frame).await.is_ok()
    {
        stream.shutdown().await.ok();
    }
}

/// The word that a stopped direction is recorded by.
pub(super) const fn reason(sender: Sender, stopped: FrameError) -> DenyReason {
    match (stopped, sender) {
        (FrameError::Rewrite(RewriteError::Misuse), _) => DenyReason::SecretMisuse,
        (FrameError::Rewrite(RewriteError::Unavailable), _) => DenyReason::SecretUnavailable,
        (FrameError::Rewrite(RewriteError::Unplaceable), _) => DenyReason::SecretUnplaceable,
        (FrameError::Rewrite(RewriteError::Unrecorded), _) => DenyReason::RecordUnavailable,
        (FrameError::Rewrite(RewriteError::NoMemory(_)), _) => DenyReason::DecoderLimit,
        (FrameError::Rewrite(RewriteError::Bomb), _) => DenyReason::DecompressionBomb,
        (FrameError::NoRandomness, _) => DenyReason::Internal,
        (_, Sender::Client) => DenyReason::MalformedRequest,
        (_, Sender::Server) => DenyReason::OriginProtocol,
    }
}

struct Outgoing(Passes);

impl Rewrite for Outgoing {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        if let Some(guard) = &mut self.0.guard {
            guard.look(octets)?;
        }
        match &mut self.0.rewrite {
            Some(rewrite) => rewrite.push(octets, out),
            None => Unchanged.push(octets, out),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        match &mut self.0.rewrite {
            Some(rewrite) => rewrite.finish(out),
            None => Ok(()),
        }
    }

    fn held(&self) -> usize {
        self.0.rewrite.as_ref().map_or(0, |rewrite| rewrite.held())
    }
}

struct Incoming {
    kind: Kind,
    /// From the first octet on, by which a binary message shows what it is.
    scrubbers: Option<Scrubbers>,
    returning: Arc<Returning>,
}

impl Rewrite for Incoming {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        if octets.is_empty() {
            return Ok(());
        }
        let (kind, returning) = (self.kind, &self.returning);
        let scrubbers = self.scrubbers.get_or_insert_with(|| {
            let fit = match kind {
                Kind::Binary if !begins_as_text(octets) => Fit::Exact,
                Kind::Binary | Kind::Text | Kind::Control => Fit::Free,
            };
            returning.scrubbers(fit)
        });
        if let Some(newer) = returning.newer() {
            scrubbers.renew(&newer);
        }
        scrubbers.push(octets, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let Some(scrubbers) = &mut self.scrubbers else {
            return Ok(());
        };
        scrubbers.finish(out)?;
        let found = scrubbers.take_found();
        self.returning.note(found, "a WebSocket message");
        Ok(())
    }

    fn held(&self) -> usize {
        self.scrubbers.as_ref().map_or(0, |all| all.held())
    }
}
