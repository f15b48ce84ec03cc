//! The messages of a WebSocket whose sandbox has secrets: sentinels to values on the way out, values to
//! sentinels on the way back.

use std::sync::Arc;

use gig_policy::DenyReason;

use crate::credential::{
    body::{BodyPlan, Passes},
    rewrite::{Rewrite, RewriteError},
    scrub::{Fit, Scrubber, answer::Returning},
    websocket::{FrameError, Frames, Sender},
};

/// What the program sends: guarded, and with values for sentinels.
pub(super) fn outgoing(plan: Option<BodyPlan>) -> Frames {
    let make = move |_| -> Box<dyn Rewrite> {
        match &plan {
            Some(plan) => Box::new(Outgoing(plan.passes())),
            None => Box::new(Unchanged),
        }
    };
    Frames::new(Sender::Client, Box::new(make))
}

/// What the origin sends: with sentinels for values. A binary message keeps its length.
pub(super) fn incoming(returning: Option<Arc<Returning>>) -> Frames {
    let make = move |binary: bool| -> Box<dyn Rewrite> {
        let Some(returning) = &returning else {
            return Box::new(Unchanged);
        };
        let fit = if binary { Fit::Exact } else { Fit::Free };
        Box::new(Incoming {
            scrubber: returning.scrub().scrubber(fit),
            returning: Arc::clone(returning),
        })
    };
    Frames::new(Sender::Server, Box::new(make))
}

/// The word that a stopped direction is recorded by.
pub(super) const fn reason(sender: Sender, stopped: FrameError) -> DenyReason {
    match (stopped, sender) {
        (FrameError::Rewrite(RewriteError::Misuse), _) => DenyReason::SecretMisuse,
        (FrameError::Rewrite(RewriteError::Unavailable), _) => DenyReason::SecretUnavailable,
        (FrameError::NoRandomness, _) => DenyReason::Internal,
        (_, Sender::Client) => DenyReason::MalformedRequest,
        (_, Sender::Server) => DenyReason::OriginProtocol,
    }
}

struct Unchanged;

impl Rewrite for Unchanged {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        out.extend_from_slice(octets);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), RewriteError> {
        Ok(())
    }

    fn held(&self) -> usize {
        0
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
    scrubber: Scrubber,
    returning: Arc<Returning>,
}

impl Rewrite for Incoming {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.scrubber.push(octets, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.scrubber.finish(out)?;
        self.returning
            .note(self.scrubber.take_found(), "a WebSocket message");
        Ok(())
    }

    fn held(&self) -> usize {
        self.scrubber.held()
    }
}
