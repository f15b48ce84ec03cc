//! Standard streams that are never handed in as they are, but copied by way of a pipe, or refused.
//!
//! The file that the record is written to: whoever holds it open can open it anew and empty it. Where the record goes
//! to standard error by wish, the program's own goes there by way of a pipe; an audit file that is a stream of the
//! program's, too, is refused, since what it writes would stand between the records.
//!
//! A socket belongs to the network namespace that it was made in: whoever holds one made on the host can ask it
//! for the host's interfaces, and one that speaks TCP can be unbound and connected anew, past the proxy. Service
//! managers (inetd, systemd's `StandardInput=socket`) and runtimes (Node's `child_process`) start programs so. The
//! program gets a pipe, and gig copies between the two; what is no connected stream is refused. What else may be
//! handed in is [`gig_sandbox`]'s.

use std::{
    ops::ControlFlow,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::{
    fs::{FileType, Stat, fstat, stat},
    net::{SocketType, getpeername, sockopt::socket_type},
    pipe::{PipeFlags, pipe_with},
    stdio,
};

use super::{copy, settings::AuditPlace};
use crate::record_place::RecordPlace;

/// Which way a standard stream goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Towards the program.
    In,
    /// From the program.
    Out,
}

/// Where the record is written to, by device and inode, as far as there are such files before it is opened.
#[derive(Debug, Default)]
pub(super) struct RecordFiles {
    files: Vec<(u64, u64)>,
    /// It goes to standard error by wish.
    is_stream: bool,
}

impl RecordFiles {
    /// Of a record that goes there.
    pub(super) fn of(place: &AuditPlace) -> Self {
        let AuditPlace::Named(place) = place else {
            return Self::default();
        };
        let of_kind = |found: Stat, kinds: &[FileType]| {
            let kind = FileType::from_raw_mode(found.st_mode);
            kinds
                .contains(&kind)
                .then_some((found.st_dev, found.st_ino))
        };
        let own = [FileType::RegularFile, FileType::Fifo];
        let named = |path: &Path| of_kind(stat(path).ok()?, &own);
        // A pipe or a terminal cannot be emptied.
        let emptied = || of_kind(fstat(stdio::stderr()).ok()?, &own[..1]);
        let (files, is_stream) = match place {
            RecordPlace::Stream => (emptied(), true),
            RecordPlace::Lines(path) | RecordPlace::Sqlite(path) => (named(path), false),
            RecordPlace::Shared => (None, false),
        };
        Self {
            files: files.into_iter().collect(),
            is_stream,
        }
    }
}

/// What the program wrote, on its way to a socket, or to the file that the record goes to.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Ends when the last octet is with the kernel, or the other side is gone.
    ended: Receiver<()>,
    moved: Arc<AtomicU64>,
}

/// What the program gets for a stream of gig's own that is no terminal; with it what copies, where something that
/// is written has to be waited for.
///
/// # Errors
/// When the stream is closed, a socket that is no connected stream, or the audit file.
pub(super) fn handed_in(
    own: BorrowedFd<'_>,
    (name, way): (&str, Way),
    record: &RecordFiles,
) -> anyhow::Result<(OwnedFd, Option<Relay>)> {
    let own = own
        .try_clone_to_owned()
        .with_context(|| format!("{name} is closed; give the program /dev/null instead"))?;
    let found = fstat(&own).with_context(|| format!("cannot look at {name}"))?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    let is_record = record.files.contains(&(found.st_dev, found.st_ino));
    if !is_socket && !is_record {
        return Ok((own, None));
    }
    if is_record && !record.is_stream {
        bail!(
            "{name} is the audit file: what the program writes there would stand between the records, and it could \
             empty the file; send {name} elsewhere, or name another audit file"
        );
    }
    let stream = || socket_type(&own).is_ok_and(|kind| kind == SocketType::STREAM);
    if is_socket && (!stream() || getpeername(&own).is_err()) {
        bail!(
            "{name} is a socket that is no connection of a stream: the program could reach through it what the \
             policy does not see; connect it first, or put a pipe between (`... | gig run ... | ...`)"
        );
    }
    let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    Ok(match way {
        Way::In => {
            drop(copying(own, write_end)?);
            (read_end, None)
        }
        Way::Out => (write_end, Some(copying(read_end, own)?)),
    })
}

/// Copies on a thread of its own until one side ends; then both are closed.
fn copying(from: OwnedFd, to: OwnedFd) -> anyhow::Result<Relay> {
    let (alive, ended) = channel();
    let moved = Arc::<AtomicU64>::default();
    let count = Arc::clone(&moved);
    thread::Builder::new()
        .name("stream-relay".to_owned())
        .spawn(move || relayed(&from, &to, &count, &alive))
        .context("cannot start what copies a standard stream")?;
    Ok(Relay { ended, moved })
}

/// `alive` is held for as long as it runs.
fn relayed(from: &OwnedFd, to: &OwnedFd, moved: &AtomicU64, _alive: &Sender<()>) {
    let mut buffer = vec![0; BUFFER];
    copy::each(from.as_fd(), &mut buffer, |octets| {
        let went = |count| {
            moved.fetch_add(count as u64, Ordering::Relaxed);
        };
        match copy::write_telling(to.as_fd(), octets, went) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
}

impl Relay {
    /// Waits until what the program wrote is with the kernel; not for ever, where nobody reads it. To be called
    /// when the program's last process is dead: the pipe ends then.
    pub(crate) fn finish(self) {
        let mut seen = self.moved.load(Ordering::Relaxed);
        while self.ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let now = self.moved.load(Ordering::Relaxed);
            if now == seen {
                tracing::warn!("nobody reads what the program wrote last to a socket: it is lost");
                return;
            }
            seen = now;
        }
    }
}

/// What a pipe holds.
const BUFFER: usize = 64 * 1024;
/// Without an octet moving.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{Shutdown, TcpListener, UdpSocket},
        os::unix::net::{UnixListener, UnixStream},
    };

    use super::*;

    #[test]
    fn a_connected_stream_comes_as_a_pipe() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let (given, relay) = handed_in(
            theirs.as_fd(),
            ("standard input", Way::In),
            &RecordFiles::default(),
        )
        .unwrap();
        assert!(relay.is_none());
        drop(theirs);
        ours.write_all(b"in").unwrap();
        ours.shutdown(Shutdown::Write).unwrap();
        let mut read = String::new();
        std::fs::File::from(given)
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, "in");
    }

    #[test]
    fn what_is_written_is_there_when_it_is_waited_for() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (given, relay) = handed_in(
            theirs.as_fd(),
            ("standard output", Way::Out),
            &RecordFiles::default(),
        )
        .unwrap();
        drop(theirs);
        let reader = thread::spawn(move || {
            let mut read = Vec::new();
            ours.read_to_end(&mut read).unwrap();
            read.len()
        });
        let mut given = std::fs::File::from(given);
        assert_eq!(
            FileType::from_raw_mode(fstat(&given).unwrap().st_mode),
            FileType::Fifo
        );
        given.write_all(&vec![7; 1 << 20]).unwrap();
        drop(given);
        relay.unwrap().finish();
        assert_eq!(reader.join().unwrap(), 1 << 20);
    }

    #[test]
    fn other_sockets_are_refused() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let unix = tempfile::tempdir().unwrap();
        let local = UnixListener::bind(unix.path().join("socket")).unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        datagrams.connect(datagrams.local_addr().unwrap()).unwrap();
        for socket in [listening.as_fd(), local.as_fd(), datagrams.as_fd()] {
            let refused = handed_in(socket, ("standard input", Way::In), &RecordFiles::default())
                .unwrap_err();
            assert!(refused.to_string().contains("standard input"), "{refused}");
        }
    }

    #[test]
    fn anything_else_goes_in_as_it_is() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let (given, relay) = handed_in(
            null.as_fd(),
            ("standard input", Way::In),
            &RecordFiles::default(),
        )
        .unwrap();
        assert!(relay.is_none());
        let (given, null) = (fstat(&given).unwrap(), fstat(&null).unwrap());
        assert_eq!((given.st_dev, given.st_ino), (null.st_dev, null.st_ino));
    }

    #[test]
    fn the_audit_file_is_refused_and_a_record_on_standard_error_is_shared_by_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let file = std::fs::File::create(&path).unwrap();
        let place = AuditPlace::Named(RecordPlace::Lines(path.clone()));
        let mut record = RecordFiles::of(&place);
        for (name, way) in [("standard input", Way::In), ("standard error", Way::Out)] {
            let refused = handed_in(file.as_fd(), (name, way), &record).unwrap_err();
            assert!(refused.to_string().contains(name), "{refused}");
        }
        record.is_stream = true;
        let (given, relay) =
            handed_in(file.as_fd(), ("standard error", Way::Out), &record).unwrap();
        let found = fstat(&given).unwrap();
        assert_eq!(FileType::from_raw_mode(found.st_mode), FileType::Fifo);
        std::fs::File::from(given).write_all(b"told").unwrap();
        relay.unwrap().finish();
        assert_eq!(std::fs::read(&path).unwrap(), b"told");
    }
}
