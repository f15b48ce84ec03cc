//! That a restore is under way: a mark in the data directory, there before anything is moved and gone when
//! everything is in its place. Whoever finds it there looks at half of an appliance, and makes no other of it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

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

/// Removes what restores that were killed had unpacked in `dir`. The caller has its lock.
pub(crate) fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    let stale = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && name.to_string_lossy().starts_with(UNPACKED)
    });
    for folder in stale {
        if let Err(error) = fs::remove_dir_all(folder.path()) {
            tracing::warn!(%error, "cannot remove {}", folder.path().display());
        }
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
