//! Which namespace is meant: found by a process or by a name, held by a handle, and told from gig's own.
//!
//! What is named is hostile: a process may end and its number be another's, a path may lead anywhere. A
//! process is held before its namespace is opened, and looked at again afterwards; a path is opened without
//! following a link and without any effect, and the kernel is asked what it is.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fstat, fstatfs, open};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{EnterNamespaceError, Life};
use crate::listener::Listeners;
use crate::sys::nsfs;

/// `linux/magic.h`: where handles of namespaces are.
const NSFS_MAGIC: u64 = 0x6e73_6673;

/// Tells one namespace from all others, for as long as something holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NamespaceId {
    device: u64,
    inode: u64,
}

/// A network namespace, held.
#[derive(Debug)]
pub struct Found {
    handle: OwnedFd,
    id: NamespaceId,
    life: Life,
    /// Of the process, if it is a process's.
    pid: Option<u32>,
}

/// The namespaces that are gig's own: the one around it, and the hub's with all that the hub owns.
#[derive(Debug)]
pub struct Home {
    around: NamespaceId,
    hub: NamespaceId,
    hubs_user: NamespaceId,
}

impl NamespaceId {
    fn of(handle: impl AsFd) -> io::Result<Self> {
        let told = fstat(handle)?;
        Ok(Self {
            device: told.st_dev,
            inode: told.st_ino,
        })
    }
}

impl fmt::Display for NamespaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net:[{}]", self.inode)
    }
}

impl Home {
    /// As seen by the process that holds the hub's sockets.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn of(hub: &Listeners) -> io::Result<Self> {
        let network = nsfs::network_of(&hub.redirect)?;
        Ok(Self {
            around: NamespaceId::of(File::open("/proc/self/ns/net")?)?,
            hub: NamespaceId::of(&network)?,
            hubs_user: NamespaceId::of(nsfs::owner(&network)?)?,
        })
    }
}

impl Found {
    /// That of a process.
    ///
    /// # Errors
    /// When there is no such process, or its namespace is not for gig to open.
    pub fn of_process(number: u32) -> Result<Self, EnterNamespaceError> {
        let gone = EnterNamespaceError::NoProcess(number);
        let pid = i32::try_from(number).ok().filter(|pid| *pid > 0);
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            return Err(gone);
        };
        // First: from here on it is this process that is asked about, or none.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            return Err(gone);
        };
        let handle = match File::open(format!("/proc/{number}/ns/net")) {
            Ok(file) => OwnedFd::from(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone),
            Err(source) => return Err(cannot_open(format!("process {number}"), source)),
        };
        let found = Self::held(handle, Life::Process(process), Some(number))?;
        found.still()?;
        Ok(found)
    }

    /// The one that a path names, such as `/run/netns/NAME`.
    ///
    /// # Errors
    /// When it is none, or not for gig to open.
    pub fn at(path: &Path) -> Result<Self, EnterNamespaceError> {
        let named = path.display().to_string();
        let failed = |error: Errno| match error {
            Errno::NOENT | Errno::NOTDIR => EnterNamespaceError::NoPath(named.clone()),
            error => cannot_open(named.clone(), error.into()),
        };
        // A path alone: opening it has no effect, whatever it is.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let at = open(path, flags, Mode::empty()).map_err(failed)?;
        let is_namespace = fstatfs(&at)
            .is_ok_and(|told| u64::try_from(told.f_type).is_ok_and(|kind| kind == NSFS_MAGIC));
        if !is_namespace {
            return Err(EnterNamespaceError::NoNetwork(named));
        }
        let itself = format!("/proc/self/fd/{}", at.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let handle = open(itself, flags, Mode::empty()).map_err(failed)?;
        Self::held(handle, Life::Path(path.to_owned()), None)
    }

    fn held(handle: OwnedFd, life: Life, pid: Option<u32>) -> Result<Self, EnterNamespaceError> {
        let named = || match (&life, pid) {
            (Life::Path(path), _) => path.display().to_string(),
            (Life::Process(_), pid) => format!("process {}", pid.unwrap_or_default()),
        };
        match nsfs::kind(&handle) {
            Ok(libc::CLONE_NEWNET) => {}
            _ => return Err(EnterNamespaceError::NoNetwork(named())),
        }
        let id = NamespaceId::of(&handle).map_err(|source| cannot_open(named(), source))?;
        Ok(Self {
            handle,
            id,
            life,
            pid,
        })
    }

    /// Which one it is.
    #[must_use]
    pub fn id(&self) -> NamespaceId {
        self.id
    }

    /// Refuses those that are gig's own, a sandbox's among them.
    ///
    /// # Errors
    /// When it is one.
    pub fn refuse_own(&self, home: &Home) -> Result<(), EnterNamespaceError> {
        let whose = if self.id == home.around {
            Some("this machine, or of whatever gig itself runs in")
        } else if self.id == home.hub {
            Some("gig's hub")
        } else {
            // One whose owner is not told to us is not entered either.
            let owner = nsfs::owner(&self.handle).and_then(NamespaceId::of);
            let is_hubs = owner.is_ok_and(|owner| owner == home.hubs_user);
            is_hubs.then_some("a sandbox of gig's")
        };
        whose.map_or(Ok(()), |whose| Err(EnterNamespaceError::Own(whose)))
    }

    /// Refuses a process that has ended: what was opened may be another's.
    pub(super) fn still(&self) -> Result<(), EnterNamespaceError> {
        match (&self.life, self.pid) {
            (Life::Process(process), Some(pid)) if has_ended(process) => {
                Err(EnterNamespaceError::NoProcess(pid))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn into_life(self) -> Life {
        self.life
    }
}

impl AsFd for Found {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Life {
    /// Whether a name still names `id`; a process says itself when it has ended.
    #[must_use]
    pub fn holds(&self, id: NamespaceId) -> bool {
        match self {
            Self::Process(process) => !has_ended(process),
            Self::Path(path) => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let now = open(path, flags, Mode::empty());
                now.is_ok_and(|now| NamespaceId::of(now).is_ok_and(|now| now == id))
            }
        }
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut looked = [PollFd::new(process, PollFlags::IN)];
    let at_once = Timespec::default();
    // What cannot be looked at is not trusted to live.
    !matches!(poll(&mut looked, Some(&at_once)), Ok(0))
}

fn cannot_open(of: String, source: io::Error) -> EnterNamespaceError {
    EnterNamespaceError::Open { of, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_network_namespace_is_refused_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/proc/self/ns/net", &link).unwrap();
        for path in [
            file.as_path(),
            &link,
            folder.path(),
            Path::new("/proc/self/ns/net"),
            Path::new("/dev/null"),
        ] {
            let refused = Found::at(path).unwrap_err();
            assert!(
                matches!(refused, EnterNamespaceError::NoNetwork(_)),
                "{path:?}: {refused}"
            );
        }
        let missing = Found::at(&folder.path().join("none")).unwrap_err();
        assert!(matches!(missing, EnterNamespaceError::NoPath(_)));
    }

    #[test]
    fn a_process_that_is_none_has_no_namespace_and_ones_own_is_found() {
        for number in [0, u32::MAX, 0x7fff_fff0] {
            let refused = Found::of_process(number).unwrap_err();
            assert!(matches!(refused, EnterNamespaceError::NoProcess(_)));
        }
        let own = Found::of_process(std::process::id()).unwrap();
        let around = NamespaceId::of(File::open("/proc/self/ns/net").unwrap()).unwrap();
        assert_eq!(own.id(), around);
        assert!(own.life.holds(around));
        let home = Home {
            around,
            hub: around,
            hubs_user: around,
        };
        let refused = own.refuse_own(&home).unwrap_err();
        assert!(matches!(refused, EnterNamespaceError::Own(_)));
    }

    #[test]
    fn a_process_that_has_ended_holds_nothing() {
        #[expect(clippy::disallowed_methods, reason = "any process does")]
        let mut child = std::process::Command::new("/bin/sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let found = Found::of_process(child.id()).unwrap();
        assert!(found.still().is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        let refused = found.still().unwrap_err();
        assert!(matches!(refused, EnterNamespaceError::NoProcess(_)));
        assert!(!found.life.holds(found.id()));
    }
}
