//! Sessions, process groups and the terminal that they share.

use libc::{c_int, c_long};

use super::{Result, done};

/// A session of its own.
pub fn new_session() -> Result<()> {
    // SAFETY: touches no memory.
    done(c_long::from(unsafe { libc::setsid() }))
}

/// A process group of its own, in the same session.
pub fn new_group() -> Result<()> {
    // SAFETY: touches no memory.
    done(c_long::from(unsafe { libc::setpgid(0, 0) }))
}

/// Makes a terminal this session's controlling one.
pub fn take_terminal(fd: c_int) -> Result<()> {
    // SAFETY: TIOCSCTTY takes an integer.
    done(c_long::from(unsafe { libc::ioctl(fd, libc::TIOCSCTTY, 0) }))
}

/// Puts a process group in the foreground of the session's terminal.
pub fn give_terminal(fd: c_int, group: c_int) -> Result<()> {
    // SAFETY: passes plain integers.
    done(c_long::from(unsafe { libc::tcsetpgrp(fd, group) }))
}
