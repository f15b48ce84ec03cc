//! Standard streams: what may be handed in, so that none of them is a door past the layers.
//!
//! A descriptor brings along what it stands for: from a directory one gets to the host's files by `..`, from a
//! socket to the network that it was made in, from a device to whatever its driver does. Files, pipes, terminals
//! and the kernel's own empty devices (null, zero, full, random, urandom) stand for themselves alone. That a
//! person's own terminal does not go in, and that sockets come by way of a pipe, is the caller's.
//!
//! A program opens its streams by name, too (`>/dev/stderr`, a log that is a link to /dev/stdout), and then the
//! kernel looks at whose they are. Where a sandbox has ids of its own, pipes are opened to it ([`open_by_name`])
//! and its terminal is given to it ([`give`]); a file stays its owner's, whom writing through a handed
//! descriptor does not ask.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Gid, Mode, Uid, fchmod, fchown, fstat, fstatfs, major, minor};
use rustix::termios::isatty;

use crate::spec::Stdio;

/// A standard stream may not be handed in.
#[derive(Debug, thiserror::Error)]
#[error(
    "{name} is {what}, through which the program would reach what is outside the sandbox: give it a file, or put a \
     pipe between (`... | gig run ... | ...`)"
)]
pub struct RefuseStreamError {
    /// Which.
    name: &'static str,
    /// What it is instead.
    what: &'static str,
}

/// Looks at all three.
///
/// # Errors
/// Which of them may not be handed in.
pub(crate) fn vet(stdio: &Stdio) -> Result<(), RefuseStreamError> {
    let named = [
        ("standard input", &stdio.stdin),
        ("standard output", &stdio.stdout),
        ("standard error", &stdio.stderr),
    ];
    for (name, stream) in named {
        if let Some(what) = refused(stream.as_fd()) {
            return Err(RefuseStreamError { name, what });
        }
    }
    Ok(())
}

/// Lets others than their owner open pipes by name, each in its own direction. Nobody finds a pipe who does not have
/// it, or may look into who has it.
pub(crate) fn open_by_name(stdio: &Stdio) {
    let directions = [
        (&stdio.stdin, Mode::ROTH),
        (&stdio.stdout, Mode::WOTH),
        (&stdio.stderr, Mode::WOTH),
    ];
    for (stream, others) in directions {
        if is_nameless_pipe(stream.as_fd())
            && let Ok(found) = fstat(stream)
        {
            let mode = Mode::from_raw_mode(found.st_mode);
            // Somebody else's pipe stays as it is, and works but by name.
            let _opened = fchmod(stream, mode | others);
        }
    }
}

/// The first terminal among them.
pub(crate) fn terminal(stdio: &Stdio) -> Option<&OwnedFd> {
    let streams = [&stdio.stdin, &stdio.stdout, &stdio.stderr];
    streams.into_iter().find(|stream| isatty(stream))
}

/// Gives a terminal that was made for the sandbox to its program, as signing in gives one to a person; its group and
/// mode stay.
pub(crate) fn give(terminal: &OwnedFd, uid: u32) -> io::Result<()> {
    Ok(fchown(terminal, Some(Uid::from_raw(uid)), None::<Gid>)?)
}

/// A FIFO has a name on the host, by which anybody would find it.
fn is_nameless_pipe(stream: BorrowedFd<'_>) -> bool {
    fstatfs(stream).is_ok_and(|found| found.f_type == PIPEFS_MAGIC)
}

/// What it is, where it may not be handed in.
fn refused(stream: BorrowedFd<'_>) -> Option<&'static str> {
    let Ok(found) = fstat(stream) else {
        return Some("nothing that can be looked at");
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile | FileType::Fifo => None,
        FileType::CharacterDevice => {
            let (major, minor) = (major(found.st_rdev), minor(found.st_rdev));
            let own = major == MEMORY_DEVICES && EMPTY.contains(&minor);
            (!own && !isatty(stream)).then_some("a device")
        }
        FileType::Directory => Some("a directory"),
        FileType::Socket => Some("a socket"),
        FileType::BlockDevice => Some("a block device"),
        _ => Some("neither a file nor a pipe"),
    }
}

/// linux/magic.h.
const PIPEFS_MAGIC: rustix::fs::FsWord = 0x5049_5045;
/// Linux's allocated devices: `mem`.
const MEMORY_DEVICES: u32 = 1;
/// null, zero, full, random, urandom.
const EMPTY: [u32; 5] = [3, 5, 7, 8, 9];

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn told(stdin: impl Into<OwnedFd>) -> Option<String> {
        let null = || OwnedFd::from(File::options().write(true).open("/dev/null").unwrap());
        let stdio = Stdio {
            stdin: stdin.into(),
            stdout: null(),
            stderr: null(),
            controlling_terminal: false,
        };
        vet(&stdio).err().map(|error| error.to_string())
    }

    #[test]
    fn files_pipes_and_empty_devices_go_in() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(told(file), None);
        assert_eq!(told(io::pipe().unwrap().0), None);
        for device in ["null", "zero", "full", "random", "urandom"] {
            assert_eq!(told(File::open(format!("/dev/{device}")).unwrap()), None);
        }
    }

    #[test]
    fn a_pipe_is_opened_to_others_in_its_direction_and_nothing_else_is() {
        let (reader, writer) = io::pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        let before = fstat(&file).unwrap().st_mode;
        let stdio = Stdio {
            stdin: reader.into(),
            stdout: writer.try_clone().unwrap().into(),
            stderr: file.into(),
            controlling_terminal: false,
        };
        let mode = |fd: &OwnedFd| Mode::from_raw_mode(fstat(fd).unwrap().st_mode);
        open_by_name(&stdio);
        assert_eq!(fstat(&stdio.stderr).unwrap().st_mode, before);
        // Both ends are one inode.
        let others = mode(&stdio.stdin) & Mode::RWXO;
        assert_eq!(others, Mode::ROTH | Mode::WOTH);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        let own = Mode::RUSR | Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, own).unwrap();
        let named = File::options().read(true).write(true).open(&path).unwrap();
        let alone = Stdio {
            stdin: named.into(),
            ..stdio
        };
        open_by_name(&alone);
        assert_eq!(mode(&alone.stdin) & Mode::RWXO, Mode::empty());
    }

    #[test]
    fn what_opens_more_than_itself_is_refused() {
        let folder = told(File::open("/").unwrap()).unwrap();
        assert!(
            folder.starts_with("standard input is a directory"),
            "{folder}"
        );
        let socket = told(UnixStream::pair().unwrap().0).unwrap();
        assert!(socket.starts_with("standard input is a socket"), "{socket}");
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        assert!(told(event).unwrap().contains("neither a file nor a pipe"));
    }
}
