//! Descriptors that cannot travel, because others of the user's are on their way.

use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use gig_netns::{Spawn, SpawnError, SpawnNetwork};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, Rlimit, geteuid, setrlimit};

use crate::Test;
use crate::lab::{self, shell_says};

pub(crate) const TESTS: &[Test] = &[(
    "hub_outlives_an_answer_whose_descriptors_cannot_travel",
    descriptors_in_flight,
)];

/// The kernel counts descriptors on their way for each user, and lets nobody send more of them who may not have as
/// many open. A sandbox with its user's own id can use that up.
fn descriptors_in_flight() {
    if geteuid().is_root() {
        // Neither counted against root nor shared with the hub's ids: `user::` of this test shows it.
        return;
    }
    let few = Rlimit {
        // The hub moves descriptors above number 255.
        current: Some(512),
        maximum: Some(512),
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let (hub, _listeners) = lab::start(2);
    let lease = hub.lease().unwrap();
    let (from, to) = UnixStream::pair().unwrap();
    while send_descriptors(&from) {}
    let sleep = |fds| Spawn {
        program: PathBuf::from("/bin/sleep"),
        args: vec!["1000".into()],
        env: Vec::new(),
        fds,
        network: SpawnNetwork::Leased(lease.slot()),
        id_map: None,
    };
    // The hub's answer has two descriptors; a request with some does not even go.
    let null = || vec![(OwnedFd::from(File::open("/dev/null").unwrap()), 0)];
    for fds in [Vec::new(), null()] {
        let refused = hub.spawn(sleep(fds)).unwrap_err();
        assert!(matches!(refused, SpawnError::Refused { .. }), "{refused:?}");
    }
    assert!(hub.is_alive());
    drop((from, to));
    assert_eq!(
        shell_says(&hub, &lease, "sleep 0.3; pgrep -xc sleep || true").trim(),
        "0"
    );
}

/// Whether a hundred more are on their way.
fn send_descriptors(socket: &UnixStream) -> bool {
    let many = [socket.as_fd(); 100];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(100))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    control.push(SendAncillaryMessage::ScmRights(&many));
    let sent = sendmsg(
        socket,
        &[IoSlice::new(b"x")],
        &mut control,
        SendFlags::NOSIGNAL,
    );
    match sent {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, Errno::TOOMANYREFS);
            false
        }
    }
}
