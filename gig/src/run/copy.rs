//! Octets from one descriptor to another, until one of them ends.

use std::{ops::ControlFlow, os::fd::BorrowedFd};

use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno, read, write},
};

/// Reads into `buffer` until the source ends; a pty whose near end is closed ends with EIO. What is read goes to
/// `take`, which may end it.
pub(super) fn each(
    from: BorrowedFd<'_>,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
) {
    loop {
        match read(from, &mut *buffer) {
            Ok(0) => return,
            Ok(n) => {
                if take(buffer.get(..n).unwrap_or_default()).is_break() {
                    return;
                }
            }
            Err(error) if goes_on(error, from, PollFlags::IN) => {}
            Err(_) => return,
        }
    }
}

/// The same, with `turn` held while something that was read is not yet taken. Nobody else reads there.
pub(super) fn each_within(
    from: BorrowedFd<'_>,
    buffer: &mut [u8],
    turn: &Mutex<()>,
    mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
) {
    let mut ended = false;
    while !ended && goes_on(Errno::AGAIN, from, PollFlags::IN) {
        let _turn = turn.lock();
        // What is there is read, and nothing is waited for.
        ended = true;
        let once = |octets: &[u8]| {
            ended = take(octets).is_break();
            ControlFlow::Break(())
        };
        each(from, &mut *buffer, once);
    }
}

/// Writes all of it, however long that takes.
///
/// # Errors
/// When the other end is gone.
pub(super) fn write_all(to: BorrowedFd<'_>, octets: &[u8]) -> rustix::io::Result<()> {
    write_telling(to, octets, |_| {})
}

/// The same, and tells how many went each time that some did.
///
/// # Errors
/// When the other end is gone.
pub(super) fn write_telling(
    to: BorrowedFd<'_>,
    mut octets: &[u8],
    mut went: impl FnMut(usize),
) -> rustix::io::Result<()> {
    while !octets.is_empty() {
        match write(to, octets) {
            Ok(n) => {
                octets = octets.get(n..).unwrap_or_default();
                went(n);
            }
            Err(error) if goes_on(error, to, PollFlags::OUT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether to try again; waits for what somebody left non-blocking: the person's shell its terminal, a service
/// manager its socket.
fn goes_on(error: Errno, on: BorrowedFd<'_>, flags: PollFlags) -> bool {
    match error {
        Errno::INTR => true,
        Errno::AGAIN => {
            let mut wait = [PollFd::new(&on, flags)];
            matches!(poll(&mut wait, None), Ok(_) | Err(Errno::INTR))
        }
        _ => false,
    }
}

/// A pty moves at most 4 KiB at a time (N_TTY_BUF_SIZE); a little more saves a wake-up or two.
pub(super) const COPY_BUFFER: usize = 16 * 1024;
