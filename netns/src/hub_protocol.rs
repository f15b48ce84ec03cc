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
use std::thread;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hub::refusals::RefusedPacket;
use crate::plan::HubSettings;
use crate::tree::Entry;

/// Longest body: arguments and environment of one program, which the kernel
/// itself bounds at 2 MiB by default, escaped at worst threefold.
const MAX_BODY: u32 = 8 * 1024 * 1024;
/// Most descriptors with one message: a root of somebody else's may have many files that are handed in.
const MAX_FDS: usize = 1024;
/// Most that go at once; the kernel's bound is 253.
const AT_ONCE: usize = 128;
/// How often what has begun is tried again: ten seconds, with the pause below. The other side takes
/// what came meanwhile, so that only others of the user's are in its way.
const TRIES: u32 = 1000;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);
const HEADER: usize = 8;
/// Comes with more descriptors, between the header and the body.
const MORE: u8 = b'+';
const BEYOND: &str = "a message beyond the bounds: 8 MiB, and 1024 files that are handed in";

/// `gig` to hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Request {
    /// Answers [`Reply::Unshared`]: the id maps are written; build what is described.
    Build(HubSettings),
    /// Hand out a slot.
    Lease,
    /// End what runs in a slot and cut its link; it stays taken.
    Cut { slot: u16 },
    /// Take a slot back.
    Release { slot: u16 },
    /// Start a program; its descriptors come along, in the order of `fds`.
    Spawn(SpawnRequest),
    /// Build a tree of files; a descriptor of the files' contents comes along.
    Tree(TreeRequest),
    /// Whether somebody inside waits in a read of a terminal: its near end's device number.
    Readers { terminal: u64 },
    /// What the firewall refused since this was asked last.
    Refused,
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
    /// Nothing more is sent from the slot; whether what was sent has come or is gone.
    Cut { gone: bool },
    /// The slot is free again.
    Released,
    /// Started; a pidfd and the read end of the exit pipe come along.
    Spawned,
    /// The tree stands.
    Grown,
    /// Whether anybody waits there.
    Readers { any: bool },
    /// What was refused, as far as there was room to keep it.
    Refused { packets: Vec<RefusedPacket> },
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
    /// Reading what the firewall refused.
    #[error("reading what was refused")]
    Refused,
    /// Ending what still runs in a slot.
    #[error("ending a slot's processes")]
    Reap,
    /// Handing descriptors over.
    #[error("handing descriptors over")]
    Handing,
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
        return Err(io::Error::new(io::ErrorKind::InvalidInput, BEYOND));
    };
    let (first, rest) = fds.split_at(fds.len().min(AT_ONCE));
    let mut frame = Vec::with_capacity(HEADER + body.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&u32::try_from(fds.len()).unwrap_or(u32::MAX).to_le_bytes());
    if !rest.is_empty() {
        // What carries descriptors is read by itself: the kernel joins no two of these.
        send_first(socket, &frame, first)?;
        let mut parts = rest.chunks(AT_ONCE);
        parts.try_for_each(|part| send_later(socket, part))?;
        return socket.write_all(&body);
    }
    frame.extend_from_slice(&body);
    send_first(socket, &frame, first)
}

/// Why nothing at all was sent: descriptors cannot travel at the moment. As many of this user's are on their way as
/// may be, which whoever shares the user's id can bring about, or there is no memory.
pub(crate) fn unsent(error: &io::Error) -> Option<Failure> {
    let unsent = error.get_ref()?.downcast_ref::<Unsent>()?;
    Some(Failure::io(Step::Handing, &unsent.0))
}

#[derive(Debug, thiserror::Error)]
#[error("descriptors cannot travel at the moment")]
struct Unsent(#[source] io::Error);

fn cannot_travel(error: &io::Error) -> bool {
    let want = [libc::ETOOMANYREFS, libc::ENOBUFS, libc::ENOMEM];
    error
        .raw_os_error()
        .is_some_and(|number| want.contains(&number))
}

/// The part that a message begins with.
fn send_first(mut socket: &UnixStream, octets: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    match send_some(socket, octets, fds) {
        Ok(rest) => socket.write_all(rest),
        Err(error) if cannot_travel(&error) => Err(io::Error::other(Unsent(error))),
        Err(error) => Err(error),
    }
}

/// A later part: what has begun must go on, and may have to wait for it.
fn send_later(socket: &UnixStream, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match send_some(socket, &[MORE], fds) {
            Err(error) if cannot_travel(&error) && tries < TRIES => tries += 1,
            sent => return sent.map(|_| ()),
        }
        thread::sleep(BETWEEN_TRIES);
    }
}

/// Octets, and descriptors with the first of them; returns those that did not go.
fn send_some<'a>(
    socket: &UnixStream,
    octets: &'a [u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<&'a [u8]> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let sent = sendmsg(
        socket.as_fd(),
        &[IoSlice::new(octets)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(octets.get(sent..).unwrap_or_default())
}

/// Receives a message and its descriptors. `UnexpectedEof` when the other side is gone.
pub(crate) fn receive<M: DeserializeOwned>(
    mut socket: &UnixStream,
) -> io::Result<(M, Vec<OwnedFd>)> {
    let mut header = [0_u8; HEADER];
    let mut fds = Vec::new();
    receive_part(socket, &mut header, &mut fds)?;
    let [a, b, c, d, e, f, g, h] = header;
    let length = u32::from_le_bytes([a, b, c, d]);
    let announced = usize::try_from(u32::from_le_bytes([e, f, g, h])).unwrap_or(usize::MAX);
    let beyond = || io::Error::new(io::ErrorKind::InvalidData, BEYOND);
    if length > MAX_BODY || announced > MAX_FDS {
        return Err(beyond());
    }
    while fds.len() < announced {
        let (mut more, before) = ([0], fds.len());
        receive_part(socket, &mut more, &mut fds)?;
        if more != [MORE] || fds.len() == before {
            return Err(beyond());
        }
    }
    if fds.len() != announced {
        return Err(beyond());
    }
    let mut body = vec![0; usize::try_from(length).unwrap_or_default()];
    socket.read_exact(&mut body)?;
    Ok((serde_json::from_slice(&body)?, fds))
}

/// Octets, and the descriptors that come with the first of them.
fn receive_part(
    mut socket: &UnixStream,
    octets: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let received = loop {
        let mut slices = [IoSliceMut::new(octets)];
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
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if received.flags.contains(rustix::net::ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, BEYOND));
    }
    socket.read_exact(octets.get_mut(received.bytes..).unwrap_or_default())
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
    fn any_number_of_descriptors_up_to_the_bound_arrives_in_order() {
        let (left, right) = UnixStream::pair().unwrap();
        let kept: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap().0).collect();
        for count in [0, 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE, 700] {
            let fds: Vec<_> = (0..count).map(|n| kept[n % 3].as_fd()).collect();
            send(&left, &spawn_request(), &fds).unwrap();
            send(&left, &Request::Lease, &fds[..count.min(1)]).unwrap();
            let (request, got) = receive::<Request>(&right).unwrap();
            assert_eq!((request, got.len()), (spawn_request(), count));
            let inode = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).unwrap().st_ino;
            let same = got.iter().zip(&fds);
            assert!(
                same.into_iter()
                    .all(|(got, sent)| inode(got.as_fd()) == inode(*sent))
            );
            let (next, one) = receive::<Request>(&right).unwrap();
            assert_eq!((next, one.len()), (Request::Lease, count.min(1)));
        }
        let many = vec![left.as_fd(); MAX_FDS + 1];
        assert!(send(&left, &Request::Lease, &many).is_err());
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
