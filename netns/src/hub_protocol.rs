//! What `gig` and the hub say to each other, and how it is framed.
//!
//! A stream socket; each message is a header (length of the body, number of
//! descriptors), which carries the descriptors, and a JSON body. Promises that
//! sizes are bounded before anything is allocated, that a descriptor count
//! that disagrees is refused, and that descriptors are closed on exec.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::HubSettings;
use crate::tree::Entry;

/// Longest body: arguments and environment of one program, which the kernel
/// itself bounds at 2 MiB by default, escaped at worst threefold.
const MAX_BODY: u32 = 8 * 1024 * 1024;
/// Most descriptors with one message; the kernel's bound is 253.
const MAX_FDS: usize = 64;
const HEADER: usize = 8;

/// `gig` to hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Request {
    /// Answers [`Reply::Unshared`]: the id maps are written; build what is described.
    Build(HubSettings),
    /// Hand out a slot.
    Lease,
    /// Take a slot back.
    Release { slot: u16 },
    /// Start a program; its descriptors come along, in the order of `fds`.
    Spawn(SpawnRequest),
    /// Build a tree of files; a descriptor of the files' contents comes along.
    Tree(TreeRequest),
}

/// A tree to build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TreeRequest {
    pub(crate) name: String,
    pub(crate) entries: Vec<Entry>,
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpawnRequest {
    pub(crate) program: Text,
    pub(crate) args: Vec<Text>,
    pub(crate) env: Vec<(Text, Text)>,
    pub(crate) fds: Vec<RawFd>,
    /// None is a network of its own with `lo` alone.
    pub(crate) slot: Option<u16>,
    pub(crate) id_map: Option<IdMapNumbers>,
}

/// Where the child finds its ends of the two pipes for the id map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IdMapNumbers {
    pub(crate) info: RawFd,
    pub(crate) block: RawFd,
}

/// Hub to `gig`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Reply {
    /// The namespaces are there; the id maps are wanted.
    Unshared,
    /// Built; the four listeners come along.
    Ready,
    /// A slot.
    Leased { slot: u16 },
    /// The slot is free again.
    Released,
    /// Started; a pidfd and the read end of the exit pipe come along.
    Spawned,
    /// The tree stands.
    Grown,
    /// Not done.
    Failed(Failure),
}

/// Why the hub could not do something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{step}: {what}{}", describe(*.errno))]
pub struct Failure {
    /// What was being done.
    pub step: Step,
    /// The kernel's error number, if it was the kernel that refused.
    pub errno: Option<i32>,
    /// The call or object.
    pub what: String,
}

/// What the hub was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Step {
    /// Making the hub's own namespaces.
    #[error("making the hub's namespaces")]
    Unshare,
    /// Taking on the hub's ids.
    #[error("taking on the hub's ids")]
    Identity,
    /// Mounting /proc.
    #[error("mounting the hub's /proc")]
    Proc,
    /// Setting the hub's network parameters.
    #[error("setting network parameters")]
    Sysctl,
    /// Entering a namespace that gig did not make.
    #[error("entering the namespace")]
    Enter,
    /// Looking at what is in it.
    #[error("the namespace cannot be taken")]
    Inspect,
    /// Opening netlink.
    #[error("opening netlink")]
    Netlink,
    /// Opening the listening sockets.
    #[error("opening the listening sockets")]
    Listen,
    /// Loading the firewall.
    #[error("loading the firewall")]
    Firewall,
    /// Making a network namespace.
    #[error("making a network namespace")]
    Namespace,
    /// Making or removing a link.
    #[error("configuring a link")]
    Link,
    /// Finding a slot.
    #[error("finding a slot")]
    Slot,
    /// Starting a program.
    #[error("starting a program")]
    Spawn,
    /// Building a tree of files.
    #[error("building a tree of files")]
    Tree,
    /// Ending what still runs in a slot.
    #[error("ending a slot's processes")]
    Reap,
    /// Understanding a message.
    #[error("understanding a message")]
    Protocol,
}

impl Failure {
    pub(crate) fn new(step: Step, errno: Option<i32>, what: impl Into<String>) -> Self {
        Self {
            step,
            errno,
            what: what.into(),
        }
    }

    pub(crate) fn io(step: Step, error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Self::new(step, Some(errno), "refused"),
            None => Self::new(step, None, error.to_string()),
        }
    }
}

fn describe(errno: Option<i32>) -> String {
    errno.map_or_else(String::new, |errno| {
        format!(": {}", io::Error::from_raw_os_error(errno))
    })
}

/// An `OsString` whose JSON form is a string: bytes outside printable ASCII,
/// and `%`, are written `%XX`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) OsString);

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Self {
        Self(text.to_owned())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const HEX: [char; 16] = [
            '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
        ];
        let bytes = self.0.as_bytes();
        let mut text = String::with_capacity(bytes.len());
        for byte in bytes {
            if matches!(byte, b' '..=b'~') && *byte != b'%' {
                text.push(char::from(*byte));
            } else {
                text.push('%');
                text.extend(HEX.get(usize::from(byte >> 4)));
                text.extend(HEX.get(usize::from(byte & 0xf)));
            }
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            if byte != b'%' {
                bytes.push(byte);
                continue;
            }
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            let (Some(high), Some(low)) = (digit(), digit()) else {
                return Err(serde::de::Error::custom("an escape that is not %XX"));
            };
            let value = u8::try_from(high * 16 + low).map_err(serde::de::Error::custom)?;
            bytes.push(value);
        }
        Ok(Self(OsString::from_vec(bytes)))
    }
}

/// Sends a message and its descriptors.
pub(crate) fn send<M: Serialize>(
    mut socket: &UnixStream,
    message: &M,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|length| *length <= MAX_BODY);
    let (Some(length), true) = (length, fds.len() <= MAX_FDS) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a message beyond the bounds",
        ));
    };
    let mut frame = Vec::with_capacity(HEADER + body.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&u32::try_from(fds.len()).unwrap_or(u32::MAX).to_le_bytes());
    frame.extend_from_slice(&body);
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let sent = sendmsg(
        socket.as_fd(),
        &[IoSlice::new(&frame)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    socket.write_all(frame.get(sent..).unwrap_or_default())
}

/// Receives a message and its descriptors. `UnexpectedEof` when the other side is gone.
pub(crate) fn receive<M: DeserializeOwned>(
    mut socket: &UnixStream,
) -> io::Result<(M, Vec<OwnedFd>)> {
    let mut header = [0_u8; HEADER];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let received = loop {
        let mut slices = [IoSliceMut::new(&mut header)];
        match recvmsg(
            socket.as_fd(),
            &mut slices,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    socket.read_exact(header.get_mut(received.bytes..).unwrap_or_default())?;
    let [a, b, c, d, e, f, g, h] = header;
    let length = u32::from_le_bytes([a, b, c, d]);
    let announced = u32::from_le_bytes([e, f, g, h]);
    let truncated = received.flags.contains(rustix::net::ReturnFlags::CTRUNC);
    if length > MAX_BODY || truncated || usize::try_from(announced) != Ok(fds.len()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a message beyond the bounds",
        ));
    }
    let mut body = vec![0; usize::try_from(length).unwrap_or_default()];
    socket.read_exact(&mut body)?;
    Ok((serde_json::from_slice(&body)?, fds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawn_request() -> Request {
        let odd = OsString::from_vec((0..=255).collect());
        Request::Spawn(SpawnRequest {
            program: Text("/bin/true".into()),
            args: vec![Text(odd.clone()), Text(OsString::new())],
            env: vec![(Text("A".into()), Text(odd))],
            fds: vec![0, 77],
            slot: Some(3),
            id_map: None,
        })
    }

    #[test]
    fn messages_and_descriptors_arrive_as_sent() {
        let (left, right) = UnixStream::pair().unwrap();
        let fds = [left.as_fd(), right.as_fd()];
        send(&left, &spawn_request(), &fds).unwrap();
        send(&left, &Request::Lease, &[]).unwrap();
        let (request, fds) = receive::<Request>(&right).unwrap();
        assert_eq!((request, fds.len()), (spawn_request(), 2));
        for fd in fds {
            let flags = rustix::io::fcntl_getfd(&fd).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        assert_eq!(receive::<Request>(&right).unwrap().0, Request::Lease);
        drop(left);
        let end = receive::<Request>(&right).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn frames_that_disagree_with_themselves_are_refused() {
        let frames: [&[u8]; 4] = [
            b"\xff\xff\xff\xff\0\0\0\0",
            b"\x07\0\0\0\x01\0\0\0\"Lease\"",
            b"\x02\0\0\0\0\0\0\0{}",
            b"\x10\0\0\0\0\0\0\0{\"Lease\":1,\"x\":2}",
        ];
        for frame in frames {
            let (mut left, right) = UnixStream::pair().unwrap();
            left.write_all(frame).unwrap();
            drop(left);
            assert!(receive::<Request>(&right).is_err(), "{frame:?}");
        }
    }

    #[test]
    fn broken_escapes_are_refused() {
        for text in ["\"%\"", "\"%4\"", "\"%zz\""] {
            assert!(serde_json::from_str::<Text>(text).is_err(), "{text}");
        }
        assert_eq!(serde_json::from_str::<Text>("\"%25\"").unwrap().0, "%");
    }
}
