//! The data directory of an appliance: ours alone, and one appliance's at a time.

use std::{
    fs::{self, File},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{
            fs::{OpenOptionsExt as _, PermissionsExt as _},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use crate::{backup::under_way, data_dir};

/// The directory, held.
#[derive(Debug)]
pub(crate) struct Place {
    dir: PathBuf,
    _lock: File,
}

impl Place {
    /// Makes the directory if need be, checks whose it is, and takes it.
    ///
    /// # Errors
    /// When it is not ours alone, or another appliance has it.
    pub(crate) fn take() -> anyhow::Result<Self> {
        let dir = data_dir::path()?;
        data_dir::make_private(&dir)?;
        data_dir::refuse_shared(&dir)?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(dir.join(LOCK))
            .with_context(|| {
                format!(
                    "cannot write to {}: make it writable or set GIG_DATA_DIR",
                    dir.display()
                )
            })?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "another gig serves from {}: stop it, or set GIG_DATA_DIR to another directory",
                dir.display()
            );
        }
        under_way::sweep(&dir);
        Ok(Self { dir, _lock: lock })
    }

    /// Where it is.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Puts the certificate of this start in the place of the former one's, for `gig ca show`. Where it cannot be
    /// written, as on a full disk, none is there and that is told: the appliance serves without.
    ///
    /// # Errors
    /// When the former one stays.
    pub(crate) fn show_authority(&self, pem: Option<&str>) -> anyhow::Result<()> {
        let path = self.dir.join(AUTHORITY);
        if let Some(pem) = pem {
            let beside = self.dir.join(format!("{AUTHORITY}.new"));
            let written = fs::write(&beside, pem).and_then(|()| fs::rename(&beside, &path));
            let Err(error) = written else { return Ok(()) };
            tracing::warn!(%error, file = %path.display(), "gig ca show shows nothing until the next start: it cannot be written");
            let _half = fs::remove_file(&beside);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot replace {}", path.display()))
            }
            _gone => Ok(()),
        }
    }

    /// The socket by which this machine's commands reach the appliance; only its owner can open it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn socket(&self) -> anyhow::Result<UnixListener> {
        let path = self.dir.join(SOCKET);
        // The lock is ours: whoever made it is gone.
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot replace {}", path.display()));
            }
        }
        let failed = || {
            format!(
                "cannot make the socket {}: set GIG_DATA_DIR to another directory",
                path.display()
            )
        };
        let short = SocketPath::of(path.clone()).with_context(failed)?;
        let listener = UnixListener::bind(short.path()).with_context(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).with_context(failed)?;
        Ok(listener)
    }
}

/// A socket's path as the kernel takes it: 107 octets at most (unix(7)). A longer one goes by a descriptor
/// of its directory.
#[derive(Debug)]
pub(crate) struct SocketPath {
    path: PathBuf,
    _directory: Option<OwnedFd>,
}

impl SocketPath {
    /// Of the socket at `path`, which need not be there yet.
    ///
    /// # Errors
    /// When its directory cannot be opened.
    pub(crate) fn of(path: PathBuf) -> std::io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Self::plain(path));
        };
        if path.as_os_str().len() <= LONGEST_PATH {
            return Ok(Self::plain(path));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty())?;
        let short = format!("/proc/self/fd/{}", directory.as_raw_fd());
        Ok(Self {
            path: Path::new(&short).join(name),
            _directory: Some(directory),
        })
    }

    const fn plain(path: PathBuf) -> Self {
        Self {
            path,
            _directory: None,
        }
    }

    /// For bind(2) and connect(2), as long as this lives.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Of `sun_path`, without the NUL.
const LONGEST_PATH: usize = 107;
/// In the data directory.
pub(crate) const SOCKET: &str = "control.sock";
/// In the data directory, while an appliance serves.
pub(crate) const AUTHORITY: &str = "ca.pem";
/// In the data directory, held while an appliance serves.
pub(crate) const LOCK: &str = "serve.lock";

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_in_a_deep_directory_is_made_and_reached() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(100)).join("e".repeat(100));
        fs::create_dir_all(&deep).unwrap();
        let path = deep.join(SOCKET);
        assert!(UnixListener::bind(&path).is_err());
        let listener = UnixListener::bind(SocketPath::of(path.clone()).unwrap().path()).unwrap();
        assert!(path.exists());
        let _stream = UnixStream::connect(SocketPath::of(path).unwrap().path()).unwrap();
        listener.accept().unwrap();
    }
}
