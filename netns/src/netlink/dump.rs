//! Whole lists from the kernel, and being told what becomes of them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, bind, sendto, socket_with,
};

use super::{HEADER, Message, NLMSG_ERROR, Netlink, NetlinkError, field, from_kernel};

const NLMSG_DONE: u16 = 3;
/// `NLM_F_ROOT | NLM_F_MATCH`.
const NLM_F_DUMP: u16 = 0x300;
/// The list was changed while it was read.
const NLM_F_DUMP_INTERRUPTED: u16 = 0x10;

/// One message of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) kind: u16,
    flags: u16,
    sequence: u32,
    /// With its header, as [`super::find_attribute`] takes it.
    pub(crate) bytes: Vec<u8>,
}

impl Message {
    /// A request for all there is of a kind.
    pub(crate) fn all(what: &'static str, kind: u16) -> Self {
        Self::unacknowledged(what, kind, NLM_F_DUMP)
    }
}

impl Told {
    /// Bytes of the message behind its header.
    pub(crate) fn body(&self, at: usize, length: usize) -> Option<&[u8]> {
        let begin = HEADER.checked_add(at)?;
        self.bytes.get(begin..begin.checked_add(length)?)
    }
}

impl Netlink {
    /// Everything that the kernel lists for `message`, which [`Message::all`] made.
    pub(crate) fn dump(&mut self, mut message: Message) -> Result<Vec<Told>, NetlinkError> {
        let what = message.what;
        let failed = |source: io::Error| NetlinkError { what, source };
        self.sequence = self.sequence.wrapping_add(1);
        let kernel = SocketAddrNetlink::new(0, 0);
        let datagram = message.finish(self.sequence);
        sendto(&self.fd, datagram, SendFlags::empty(), &kernel)
            .map_err(|error| failed(error.into()))?;
        let mut listed = Vec::new();
        loop {
            let answer = from_kernel(&self.fd).map_err(|error| failed(error.into()))?;
            for told in messages(&answer) {
                // Of another question, which nobody waits for any more.
                if told.sequence != self.sequence {
                    continue;
                }
                if told.flags & NLM_F_DUMP_INTERRUPTED != 0 {
                    return Err(failed(io::ErrorKind::Interrupted.into()));
                }
                match told.kind {
                    NLMSG_DONE => return Ok(listed),
                    NLMSG_ERROR => {
                        let number = told.body(0, 4).and_then(|bytes| field(bytes, 0));
                        let number = number.map_or(0, i32::from_ne_bytes);
                        let source = io::Error::from_raw_os_error(number.saturating_neg());
                        return Err(failed(source));
                    }
                    _ => listed.push(told),
                }
            }
        }
    }
}

/// A socket on which the kernel tells what changes; it belongs to the network namespace it was
/// opened in. Never blocks.
#[derive(Debug)]
pub(crate) struct Listening(OwnedFd);

impl Listening {
    /// Of these groups of the protocol (bits, as `struct sockaddr_nl` has them).
    pub(crate) fn open(protocol: Option<Protocol>, groups: u32) -> io::Result<Self> {
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            protocol,
        )?;
        bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self(fd))
    }

    /// One that came from another process.
    pub(crate) fn of(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// What it was told and nobody has read yet.
    ///
    /// # Errors
    /// When something that it was told was lost.
    pub(crate) fn read(&self) -> io::Result<Vec<Told>> {
        let mut all = Vec::new();
        loop {
            match from_kernel(&self.0) {
                Ok(answer) => all.extend(messages(&answer)),
                Err(rustix::io::Errno::AGAIN) => return Ok(all),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The messages of a datagram; what is cut off is left out.
fn messages(mut datagram: &[u8]) -> Vec<Told> {
    let mut found = Vec::new();
    while let Some(length) = field(datagram, 0).map(u32::from_ne_bytes) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (Some(message), true) = (datagram.get(..length), length >= HEADER) else {
            break;
        };
        if let (Some([a, b, c, d]), Some(sequence)) = (field(message, 4), field(message, 8)) {
            found.push(Told {
                sequence: u32::from_ne_bytes(sequence),
                kind: u16::from_ne_bytes([a, b]),
                flags: u16::from_ne_bytes([c, d]),
                bytes: message.to_vec(),
            });
        }
        datagram = datagram
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    found
}

/// A message as if the kernel had told it.
#[cfg(test)]
pub(crate) fn told_for_test(mut message: Message) -> Told {
    messages(message.finish(1)).remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_for_the_kernel_is_not_heard() {
        use rustix::net::getsockname;
        let mut asking = Netlink::route().unwrap();
        bind(&asking.fd, &SocketAddrNetlink::new(0, 0)).unwrap();
        let own = SocketAddrNetlink::try_from(getsockname(&asking.fd).unwrap()).unwrap();
        let other = Netlink::route().unwrap();
        // "That was all", to its first question.
        let mut done = Message::unacknowledged("lie", NLMSG_DONE, 0);
        done.put(&[0; 4]);
        match sendto(&other.fd, done.finish(1), SendFlags::empty(), &own) {
            // Only who administers the namespace can.
            Err(rustix::io::Errno::PERM) => return,
            sent => assert!(sent.unwrap() > 0),
        }
        const RTM_GETLINK: u16 = 18;
        let mut all = Message::all("list links", RTM_GETLINK);
        all.put(&[0; 16]);
        assert!(!asking.dump(all).unwrap().is_empty(), "there is always lo");
    }

    #[test]
    fn messages_are_read_from_any_bytes() {
        let mut first = Message::unacknowledged("test", 77, 0);
        first.put(&[1, 2, 3, 4]);
        let mut second = Message::all("test", 78);
        let mut bytes = first.finish(1).to_vec();
        bytes.extend_from_slice(second.finish(2));
        let told = messages(&bytes);
        assert_eq!(told.len(), 2);
        assert_eq!((told[0].kind, told[1].kind), (77, 78));
        assert_eq!(told[0].body(0, 4), Some(&[1, 2, 3, 4][..]));
        assert_eq!(told[0].body(1, 4), None);
        assert_ne!(told[1].flags & NLM_F_DUMP, 0);
        for cut in 0..bytes.len() {
            assert!(messages(&bytes[..cut]).len() < 2, "{cut}");
        }
    }
}
