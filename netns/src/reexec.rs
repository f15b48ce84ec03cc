//! This program again, as one of its own small processes.
//!
//! It has nothing of its caller's but a socket, which is its standard input: no environment, no other
//! descriptors, no signals of the caller's group. What it is told to be is its arguments.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starts it; an answer on the socket is waited for no longer than `answer_within`.
///
/// # Errors
/// When there is no socket or no process.
pub(crate) fn start(
    arguments: &[&str],
    answer_within: Duration,
) -> io::Result<(UnixStream, Child)> {
    let (socket, theirs) = UnixStream::pair()?;
    socket.set_read_timeout(Some(answer_within))?;
    socket.set_write_timeout(Some(answer_within))?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the one home of gig's own processes"
    )]
    let process = Command::new("/proc/self/exe")
        .args(arguments)
        .env_clear()
        .current_dir("/")
        // A signal to the caller's group is not for it, at no moment.
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()?;
    Ok((socket, process))
}
