//! How gig's standard streams are open: what a program changes of that is changed for everybody who has them.
//!
//! Whoever holds a stream may have it not block, or append no more (`F_SETFL`): the shell's next command would find
//! its terminal or pipe so, and would write over a log that it was to append to. What the run added or took away of
//! the two is as before at its end: it never makes a stream not block, as others may have wanted it so since, and
//! leaves a terminal alone that is another job's by then. Not after gig was killed.

use std::os::fd::BorrowedFd;

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    process::getpgrp,
    stdio,
    termios::tcgetpgrp,
};

/// The status flags of the standard streams; what matters of them is as it was when this is dropped.
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
            let (Some(before), Ok(now)) = (before, fcntl_getfl(stream)) else {
                continue;
            };
            // Of what is no terminal there is no foreground.
            if tcgetpgrp(stream).is_ok_and(|job| job != getpgrp()) {
                continue;
            }
            let wanted = restored(before, now);
            if wanted != now {
                let _of_a_closed_one = fcntl_setfl(stream, wanted);
            }
        }
    }
}

const fn restored(before: OFlags, now: OFlags) -> OFlags {
    let wanted = now.union(before.intersection(OFlags::APPEND));
    match before.contains(OFlags::NONBLOCK) {
        true => wanted,
        false => wanted.difference(OFlags::NONBLOCK),
    }
}

fn streams() -> [BorrowedFd<'static>; 3] {
    [stdio::stdin(), stdio::stdout(), stdio::stderr()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_appends_and_waits_as_before_and_no_more_is_made_not_to() {
        let (none, append, nonblock) = (OFlags::empty(), OFlags::APPEND, OFlags::NONBLOCK);
        for (before, now, wanted) in [
            (append, nonblock, append),
            (none, nonblock, none),
            (nonblock, none, none),
            (nonblock, nonblock, nonblock),
            (none, append, append),
            (append, append, append),
        ] {
            assert_eq!(restored(before, now), wanted, "{before:?} {now:?}");
        }
    }
}
