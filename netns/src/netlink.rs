//! Netlink, as far as the hub needs it: requests that are acknowledged.
//!
//! A blocking socket and a message builder. Promises that an answer is matched
//! to its request and that the kernel's error number reaches the caller. Does
//! not read tables, only single objects.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, sendto,
    socket_with,
};

pub(crate) mod dump;

/// Header of every message (`struct nlmsghdr`).
const HEADER: usize = 16;
/// The port of the other end; nobody else has it.
const KERNEL: u32 = 0;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
/// Marks an attribute that holds attributes.
const NLA_F_NESTED: u16 = 0x8000;
/// An acknowledgement repeats at most the request's header; errors carry the request.
const ANSWER_ROOM: usize = 64 * 1024;

/// A message being built.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: Vec<u8>,
    what: &'static str,
    acknowledged: bool,
}

/// The kernel's refusal of one message.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refused to {what}")]
pub(crate) struct NetlinkError {
    pub(crate) what: &'static str,
    #[source]
    pub(crate) source: io::Error,
}

/// A socket that belongs to the network namespace it was opened in, whichever
/// thread uses it later.
#[derive(Debug)]
pub(crate) struct Netlink {
    fd: OwnedFd,
    sequence: u32,
}

impl Message {
    /// A request of this kind; `what` completes "the kernel refused to …".
    pub(crate) fn new(what: &'static str, kind: u16, flags: u16) -> Self {
        Self::with_flags(what, kind, flags | NLM_F_ACK)
    }

    /// The same, but the kernel answers only if it refuses.
    pub(crate) fn unacknowledged(what: &'static str, kind: u16, flags: u16) -> Self {
        Self::with_flags(what, kind, flags)
    }

    fn with_flags(what: &'static str, kind: u16, flags: u16) -> Self {
        let mut message = Self {
            bytes: Vec::with_capacity(256),
            what,
            acknowledged: flags & NLM_F_ACK != 0,
        };
        message.put(&[0; 4]);
        message.put(&kind.to_ne_bytes());
        message.put(&(flags | NLM_F_REQUEST).to_ne_bytes());
        message.put(&[0; 8]);
        message
    }

    /// Appends raw bytes: the family's own header.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends one attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.nested_as(kind, |message| {
            message.put(value);
        })
    }

    /// Appends an attribute that is a text with its end.
    pub(crate) fn text(&mut self, kind: u16, text: &str) -> &mut Self {
        self.nested_as(kind, |message| {
            message.put(text.as_bytes()).put(&[0]);
        })
    }

    /// Appends an attribute that is a number in network order.
    pub(crate) fn number(&mut self, kind: u16, number: u32) -> &mut Self {
        self.attribute(kind, &number.to_be_bytes())
    }

    /// Appends an attribute that holds attributes.
    pub(crate) fn nested(&mut self, kind: u16, inner: impl FnOnce(&mut Self)) -> &mut Self {
        self.nested_as(kind | NLA_F_NESTED, inner)
    }

    fn nested_as(&mut self, kind: u16, inner: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.put(&[0; 2]).put(&kind.to_ne_bytes());
        inner(self);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        if let Some(field) = self.bytes.get_mut(start..start + 2) {
            field.copy_from_slice(&length.to_ne_bytes());
        }
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
        self
    }

    /// Bytes it will take.
    #[cfg(test)]
    pub(crate) fn length(&mut self) -> usize {
        self.bytes.len()
    }

    fn finish(&mut self, sequence: u32) -> &[u8] {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        if let Some(field) = self.bytes.get_mut(0..4) {
            field.copy_from_slice(&length.to_ne_bytes());
        }
        if let Some(field) = self.bytes.get_mut(8..12) {
            field.copy_from_slice(&sequence.to_ne_bytes());
        }
        &self.bytes
    }
}

impl Netlink {
    /// A socket for links, addresses and routes of the calling thread's namespace.
    pub(crate) fn route() -> io::Result<Self> {
        Self::open(None)
    }

    /// A socket for the firewall of the calling thread's namespace.
    pub(crate) fn netfilter() -> io::Result<Self> {
        Self::open(Some(rustix::net::netlink::NETFILTER))
    }

    /// A socket that tells of the sockets of the calling thread's namespace.
    pub(crate) fn sock_diag() -> io::Result<Self> {
        Self::open(Some(rustix::net::netlink::SOCK_DIAG))
    }

    fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        Ok(Self { fd, sequence: 0 })
    }

    /// Sends the messages in order, as one datagram, and waits until each is done.
    pub(crate) fn request(&mut self, messages: &mut [Message]) -> Result<(), NetlinkError> {
        self.exchange(messages).map(drop)
    }

    /// As [`Self::request`], and returns the messages that came beside the
    /// acknowledgements.
    pub(crate) fn exchange(
        &mut self,
        messages: &mut [Message],
    ) -> Result<Vec<Vec<u8>>, NetlinkError> {
        let what = messages
            .first()
            .map_or("do nothing", |message| message.what);
        let mut datagram = Vec::with_capacity(1024);
        let first = self.sequence.wrapping_add(1);
        for message in messages.iter_mut() {
            self.sequence = self.sequence.wrapping_add(1);
            datagram.extend_from_slice(message.finish(self.sequence));
        }
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.fd, &datagram, SendFlags::empty(), &kernel).map_err(|source| {
            NetlinkError {
                what,
                source: source.into(),
            }
        })?;
        let mut told = Vec::new();
        let mut outcome = Ok(());
        let mut waiting = messages.iter().filter(|one| one.acknowledged).count();
        while waiting > 0 && outcome.is_ok() {
            let answer = from_kernel(&self.fd).map_err(|source| NetlinkError {
                what,
                source: source.into(),
            })?;
            let acknowledged = acknowledgements(&answer);
            if acknowledged.is_empty() {
                told.push(answer);
            }
            for (sequence, error) in acknowledged {
                let index = usize::try_from(sequence.wrapping_sub(first)).unwrap_or(usize::MAX);
                let Some(message) = messages.get(index) else {
                    continue;
                };
                waiting = waiting.saturating_sub(usize::from(message.acknowledged));
                if error != 0 && outcome.is_ok() {
                    let source = io::Error::from_raw_os_error(error.saturating_neg());
                    outcome = Err(NetlinkError {
                        what: message.what,
                        source,
                    });
                }
            }
        }
        outcome.map(|()| told)
    }
}

/// The next datagram of the kernel's. In a namespace of strangers whoever may administer it can send to any
/// netlink socket there, and would tell what it likes.
fn from_kernel(fd: impl AsFd) -> rustix::io::Result<Vec<u8>> {
    let mut room = vec![MaybeUninit::<u8>::uninit(); ANSWER_ROOM];
    loop {
        let ((answer, _), _, sender) = recvfrom(&fd, &mut *room, RecvFlags::empty())?;
        let sender = sender.map(SocketAddrNetlink::try_from);
        if matches!(sender, Some(Ok(sender)) if sender.pid() == KERNEL) {
            return Ok(answer.to_vec());
        }
    }
}

/// The value of an attribute among those that begin at `start` of a message.
pub(crate) fn find_attribute(message: &[u8], start: usize, wanted: u16) -> Option<&[u8]> {
    let mut all = attributes(message.get(HEADER.checked_add(start)?..)?);
    all.find_map(|(kind, value)| (kind == wanted).then_some(value))
}

/// Kind and value of each attribute; what is cut off is left out.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [a, b, c, d] = field(rest, 0)?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([c, d]) & !NLA_F_NESTED, value))
    })
}

/// Sequence and error number of every acknowledgement in a datagram.
fn acknowledgements(mut datagram: &[u8]) -> Vec<(u32, i32)> {
    let mut found = Vec::new();
    while let Some(length) = field(datagram, 0).map(u32::from_ne_bytes) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (Some(message), true) = (datagram.get(..length), length >= HEADER) else {
            break;
        };
        let kind = message
            .get(4..6)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u16::from_ne_bytes);
        if kind == Some(NLMSG_ERROR)
            && let (Some(sequence), Some(error)) = (field(message, 8), field(message, HEADER))
        {
            found.push((u32::from_ne_bytes(sequence), i32::from_ne_bytes(error)));
        }
        datagram = datagram
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    found
}

fn field(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nested_lengths_counted() {
        let mut message = Message::new("test", 16, 0);
        message.nested(18, |inner| {
            inner.attribute(1, b"veth\0");
        });
        let bytes = message.finish(7);
        assert_eq!(bytes.len(), HEADER + 4 + 4 + 8);
        assert_eq!(bytes[16..18], 16_u16.to_ne_bytes());
        assert_eq!(bytes[20..22], 9_u16.to_ne_bytes());
    }

    #[test]
    fn attributes_are_found_and_broken_ones_are_not() {
        let mut message = Message::new("test", 16, 0);
        message
            .put(&[0; 16])
            .attribute(3, b"gig0\0")
            .attribute(16, &[6]);
        let bytes = message.finish(1).to_vec();
        assert_eq!(find_attribute(&bytes, 16, 16), Some(&[6_u8][..]));
        assert_eq!(find_attribute(&bytes, 16, 17), None);
        for cut in 0..bytes.len() - 4 {
            assert_eq!(find_attribute(&bytes[..cut], 16, 16), None, "{cut}");
        }
        assert_eq!(find_attribute(&[0; 64], 16, 3), None);
    }

    #[test]
    fn acknowledgements_are_read_from_any_bytes() {
        let mut ack = Vec::new();
        ack.extend_from_slice(&36_u32.to_ne_bytes());
        ack.extend_from_slice(&NLMSG_ERROR.to_ne_bytes());
        ack.extend_from_slice(&[0; 2]);
        ack.extend_from_slice(&9_u32.to_ne_bytes());
        ack.extend_from_slice(&[0; 4]);
        ack.extend_from_slice(&(-17_i32).to_ne_bytes());
        ack.extend_from_slice(&[0; 16]);
        assert_eq!(acknowledgements(&ack), [(9, -17)]);
        for cut in 0..ack.len() {
            assert!(acknowledgements(&ack[..cut]).is_empty());
        }
    }
}
