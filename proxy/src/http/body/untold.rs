//! A piece of a request body into which a value was put, held until the record tells of it.

use std::{
    fmt,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::Frame;

use super::{Streaming, UploadStopped};
use crate::credential::tally::Telling;

/// A piece, and the record that it waits for.
pub(super) struct Untold {
    telling: Telling,
    frame: Option<Frame<Bytes>>,
}

impl Streaming {
    /// The next frame, once what is in it is recorded. Where that fails nothing of the body goes any more.
    pub(super) fn poll_told(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadStopped>>> {
        if self.untold.is_none() {
            let frame = match ready!(self.poll_next(cx)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            let uses = self.passing.uses.as_ref();
            let Some(telling) = uses.and_then(|uses| uses.telling()) else {
                return Poll::Ready(Some(Ok(frame)));
            };
            let frame = Some(frame);
            self.untold = Some(Untold { telling, frame });
        }
        let Some(untold) = &mut self.untold else {
            return Poll::Pending;
        };
        let told = ready!(untold.telling.as_mut().poll(cx));
        let frame = untold.frame.take();
        Poll::Ready(match (told, frame) {
            (Ok(()), Some(frame)) => {
                self.untold = None;
                Some(Ok(frame))
            }
            // It stays, so that who asks again gets nothing.
            (Ok(()), None) => None,
            (Err(error), _) => {
                untold.telling = Box::pin(std::future::ready(Err(error)));
                Some(Err(self.stopped(error.reason())))
            }
        })
    }
}

impl fmt::Debug for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Untold").finish_non_exhaustive()
    }
}
