//! Words for the person, on standard error.
//!
//! The program inside shares that open file and may make it non-blocking, or fill it: gig waits a while
//! for room and then goes on without having spoken. It never ends because of it.

use std::time::Duration;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, write},
    stdio::stderr,
};

/// Writes all of it, or as much as is taken in time.
pub(crate) fn tell(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match write(stderr(), rest) {
            Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if has_room() => {}
            // Nobody reads it any more, or not in time: there is nobody to be told.
            Err(_) => return,
        }
    }
}

fn has_room() -> bool {
    let patience = Timespec {
        tv_sec: PATIENCE.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    let stderr = stderr();
    let mut watched = [PollFd::new(&stderr, PollFlags::OUT)];
    matches!(poll(&mut watched, Some(&patience)), Ok(1..))
}

/// A reader that stands still for longer is not a person's terminal.
const PATIENCE: Duration = Duration::from_secs(5);
