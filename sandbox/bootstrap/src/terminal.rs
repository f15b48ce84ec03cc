//! The terminal of a sandbox, and whose it is.
//!
//! The first process leads the session, and the program is a process group of its own in it, as a shell has its
//! jobs: a group whose parents are all elsewhere is orphaned, and the kernel does not stop it for a Ctrl-Z.

use crate::orders::{PROGRAM_FD, STDIO_FD};
use crate::sys::{self, Errno};

/// Where the first process keeps it: the place of a socket that is not its own.
pub const TERMINAL_FD: i32 = PROGRAM_FD;

/// Begins a session at the first of the standard streams that is a terminal, whose descriptor it gives: the others
/// may be files and pipes.
pub fn lead() -> sys::Result<i32> {
    sys::new_session()?;
    // Its own group is in the background from the program's start on, and gives the terminal away all the same.
    sys::ignore(libc::SIGTTOU);
    let mut refused = Errno(libc::ENOTTY);
    for stream in STDIO_FD..STDIO_FD + 3 {
        match sys::take_terminal(stream) {
            Ok(()) => return Ok(stream),
            Err(Errno(libc::ENOTTY)) => {}
            Err(errno) => refused = errno,
        }
    }
    Err(refused)
}

/// Makes the process a group of its own, in the foreground of that terminal.
pub fn sit_at(terminal: i32) -> sys::Result<()> {
    sys::new_group()?;
    sys::give_terminal(terminal, sys::own_id())?;
    sys::heed(libc::SIGTTOU);
    Ok(())
}
