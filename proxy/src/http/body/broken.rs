//! What a request body that cannot be read is told as.

use std::{error::Error as _, io};

use gig_policy::DenyReason;

use crate::http::incoming::BrokenBody;

/// Why a request body cannot be read to its end: what is here is no body, or no more comes.
pub(super) fn broken(error: &BrokenBody) -> DenyReason {
    let malformed = match error {
        BrokenBody::Http1(error) => {
            let cause = error.source();
            let chunks = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
            chunks.is_some_and(|error| {
                // hyper's words for a chunk that is none; an early end is `UnexpectedEof`.
                matches!(
                    error.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
                )
            })
        }
        BrokenBody::Http2(error) => error.is_library() && !error.is_io(),
        // An origin's.
        BrokenBody::Rest(_) => false,
    };
    if malformed {
        DenyReason::MalformedRequest
    } else {
        DenyReason::RequestIncomplete
    }
}
