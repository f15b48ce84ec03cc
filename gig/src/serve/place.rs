//! The data directory of an appliance: ours alone, and one appliance's at a time.

use std::{
    fs::{self, File},
    os::unix::{
        fs::{OpenOptionsExt as _, PermissionsExt as _},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};

use crate::data_dir;

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
            .with_context(|| format!("cannot write to {}", dir.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "another gig serves from {}: stop it, or set GIG_DATA_DIR to another directory",
                dir.display()
            );
        }
        Ok(Self { dir, _lock: lock })
    }

    /// Where it is.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
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
                "cannot make the socket {} (a path may have 107 octets): set GIG_DATA_DIR to another \
                 directory",
                path.display()
            )
        };
        let listener = UnixListener::bind(&path).with_context(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).with_context(failed)?;
        Ok(listener)
    }
}

/// In the data directory.
pub(crate) const SOCKET: &str = "control.sock";
const LOCK: &str = "serve.lock";
