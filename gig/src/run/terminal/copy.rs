//! Octets from one descriptor to another, until one of them ends.

use std::os::fd::BorrowedFd;

use rustix::{
    event::{PollFd, PollFlags},
    io::{Errno, read, write},
};

/// Reads until the source ends; a pty whose near end is closed ends with EIO. What is read goes to
/// `take`.
pub(super) fn each(from: BorrowedFd<'_>, mut take: impl FnMut(&[u8])) {
    let mut buffer = [0_u8; COPY_BUFFER];
    loop {
        match read(from, &mut buffer) {
            Ok(0) => return,
            Ok(n) => take(buffer.get(..n).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Writes all of it, however long that takes.
///
/// # Errors
/// When the other end is gone.
pub(super) fn write_all(to: BorrowedFd<'_>, mut octets: &[u8]) -> rustix::io::Result<()> {
    while !octets.is_empty() {
        match write(to, octets) {
            Ok(n) => octets = octets.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // The person's shell may have left its terminal non-blocking.
                let mut wait = [PollFd::new(&to, PollFlags::OUT)];
                rustix::event::poll(&mut wait, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A pty moves at most 4 KiB at a time (N_TTY_BUF_SIZE); a little more saves a wake-up or two.
pub(super) const COPY_BUFFER: usize = 16 * 1024;
