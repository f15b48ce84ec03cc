//! How gig's standard streams are open: what a program changes of that is changed for everybody who has them.
//!
//! Whoever holds a stream may have it not block, or append no more (`F_SETFL`): the shell's next command would find
//! its terminal or pipe so, and would write over a log that it was to append to. At the end all is as it was. Not
//! after gig was killed.

use std::os::fd::BorrowedFd;

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    stdio,
};

/// The status flags of the standard streams; as they were when it is dropped.
#[derive(Debug)]
pub(super) struct StreamFlags([Option<OFlags>; 3]);

impl StreamFlags {
    /// As they are now.
    pub(super) fn now() -> Self {
        // One that is closed has none.
        Self(streams().map(|stream| fcntl_getfl(stream).ok()))
    }
}

impl Drop for StreamFlags {
    fn drop(&mut self) {
        for (stream, before) in streams().into_iter().zip(self.0) {
            let Some(before) = before else { continue };
            if fcntl_getfl(stream).is_ok_and(|now| now != before) {
                let _of_a_closed_one = fcntl_setfl(stream, before);
            }
        }
    }
}

fn streams() -> [BorrowedFd<'static>; 3] {
    [stdio::stdin(), stdio::stdout(), stdio::stderr()]
}
