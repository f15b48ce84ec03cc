//! That a restore is under way: a mark in the data directory, there before anything is moved and gone when
//! everything is in its place. Whoever finds it there looks at half of an appliance, and makes no other of it.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// A restore that has begun to move things.
#[derive(Debug)]
pub(crate) struct UnderWay(PathBuf);

impl UnderWay {
    /// From here on nothing but a restore uses `dir`, until [`Self::done`].
    ///
    /// # Errors
    /// When it cannot be written to the disk.
    pub(crate) fn begin(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(FILE);
        let failed = || format!("cannot write {}", path.display());
        let file = File::create(&path).with_context(failed)?;
        file.sync_all().with_context(failed)?;
        settle(dir).with_context(failed)?;
        Ok(Self(path))
    }

    /// Everything is in its place.
    ///
    /// # Errors
    /// When that cannot be written to the disk.
    pub(crate) fn done(self) -> anyhow::Result<()> {
        let failed = || format!("cannot remove {}", self.0.display());
        fs::remove_file(&self.0).with_context(failed)?;
        settle(self.0.parent().unwrap_or(&self.0)).with_context(failed)
    }
}

/// Whether one did not come to its end in `dir`.
pub(crate) fn is_half(dir: &Path) -> bool {
    dir.join(FILE).exists()
}

/// # Errors
/// When a restore did not come to its end in `dir`: says what to do.
pub(crate) fn refuse_half(dir: &Path) -> anyhow::Result<()> {
    if is_half(dir) {
        bail!(
            "a restore into {} did not come to its end, and half of an appliance is none: run gig restore FILE \
             --replace again; what stood there is in its replaced-… folders",
            dir.display()
        );
    }
    Ok(())
}

/// Removes what restores that were killed had unpacked in `dir`, and what backups had copied there. The caller has its
/// lock.
pub(crate) fn sweep(dir: &Path) {
    for folder in folders(dir, UNPACKED) {
        remove(&folder);
    }
    sweep_copies(dir);
}

/// A folder in which a backup copies whole databases; gone with its handle. Whoever sweeps leaves it alone meanwhile.
#[derive(Debug)]
pub(crate) struct Copies {
    folder: TempDir,
    /// Held by who copies.
    _lock: File,
}

impl Copies {
    /// Makes one in `parent`, where those of backups that were killed are removed first.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn make(parent: &Path) -> anyhow::Result<Self> {
        sweep_copies(parent);
        let failed = || format!("cannot make a folder in {}", parent.display());
        let folder = tempfile::Builder::new().prefix(COPIES).tempdir_in(parent);
        let folder = folder.with_context(failed)?;
        let lock = File::open(folder.path()).with_context(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).with_context(failed)?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes what backups that were killed had copied in `dir`: ours, of a while ago, and held by nobody.
fn sweep_copies(dir: &Path) {
    for folder in folders(dir, COPIES) {
        let Ok(found) = File::open(&folder) else {
            continue;
        };
        let is_old = found.metadata().is_ok_and(|found| {
            let ours = found.uid() == rustix::process::geteuid().as_raw();
            let age = found.modified().ok().and_then(|at| at.elapsed().ok());
            ours && age.is_some_and(|age| age >= OLD)
        });
        if is_old && flock(&found, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(&folder);
        }
    }
}

/// Folders in `dir` that begin so; no links to any.
fn folders(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let found = entries.filter(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && entry.file_name().to_string_lossy().starts_with(prefix)
    });
    found.map(|entry| entry.path()).collect()
}

fn remove(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Ok(()) => tracing::info!("removed {}, left by what was killed", folder.display()),
        Err(error) => tracing::warn!(%error, "cannot remove {}", folder.display()),
    }
}

/// Of a folder: what was renamed in it.
fn settle(dir: &Path) -> io::Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all())
}

/// In the data directory.
const FILE: &str = "restoring";
/// Folders that a backup is unpacked in begin with it.
pub(crate) const UNPACKED: &str = ".gig-restore-";
/// Folders in which a backup copies begin with it.
const COPIES: &str = ".gig-backup-";
/// Whoever has just made one is about to hold it; and a network's file system may not tell who on another machine does.
const OLD: Duration = Duration::from_hours(24);
