//! The two sockets to the bootstrap: one to the first process, one to the
//! program's until it execs.
//!
//! Messages keep their bounds (SOCK_SEQPACKET) and carry the sender's pid,
//! which the kernel writes (SCM_CREDENTIALS), in our own pid namespace.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
    SocketType, recvmsg, send, socketpair, sockopt,
};
use rustix::process::Pid;

/// The largest message: a failure in words.
const MESSAGE_MAX: usize = 8192;

/// A message and who sent it; no bytes when the peer is gone.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sender: Option<Pid>,
}

/// A pair: ours, which learns pids, and theirs.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_socket_passcred(&ours, true)?;
    Ok((ours, theirs))
}

/// Sends one message whole.
pub(crate) fn tell(socket: impl AsFd, message: &[u8]) -> io::Result<()> {
    send(socket, message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message that is there.
pub(crate) fn hear(socket: impl AsFd) -> io::Result<Message> {
    let mut bytes = vec![0_u8; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [io::IoSliceMut::new(&mut bytes)];
        match recvmsg(&socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            // The peer ended with something of ours unread.
            Err(rustix::io::Errno::CONNRESET) => break 0,
            other => break other?.bytes,
        }
    };
    let sender = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(credentials) => Some(credentials.pid),
        _ => None,
    });
    bytes.truncate(received);
    Ok(Message {
        bytes,
        sender: sender.filter(|_| received > 0),
    })
}

/// Waits until the descriptor is readable or hung up; false when time is over.
pub(crate) fn wait(fd: BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    loop {
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_carries_its_senders_pid() {
        let (ours, theirs) = pair().unwrap();
        tell(&theirs, b"H").unwrap();
        let message = hear(&ours).unwrap();
        assert_eq!(message.bytes, b"H");
        assert_eq!(message.sender, Some(rustix::process::getpid()));
    }

    #[test]
    fn a_peer_that_is_gone_is_an_empty_message() {
        let (ours, theirs) = pair().unwrap();
        drop(theirs);
        let message = hear(&ours).unwrap();
        assert!(message.bytes.is_empty());
        assert_eq!(message.sender, None);
    }
}
