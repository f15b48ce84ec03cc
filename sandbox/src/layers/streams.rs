//! Standard streams: what may be handed in, so that none of them is a door past the layers.
//!
//! A descriptor brings along what it stands for: from a directory one gets to the host's files by `..`, from a
//! socket to the network that it was made in, from a device to whatever its driver does. Files, pipes, terminals
//! and the kernel's own empty devices (null, zero, full, random, urandom) stand for themselves alone. That a
//! person's own terminal does not go in, and that sockets come by way of a pipe, is the caller's.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, fstat, major, minor};
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
        assert_eq!(told(std::io::pipe().unwrap().0), None);
        for device in ["null", "zero", "full", "random", "urandom"] {
            assert_eq!(told(File::open(format!("/dev/{device}")).unwrap()), None);
        }
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
