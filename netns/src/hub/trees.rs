//! Building trees in the hub's own mount namespace.
//!
//! Each tree is a file system of its own in memory, read-only for everybody
//! once it stands, the hub included. It goes with the hub and with the last
//! sandbox that shows it. Only the newest few can be shown anew.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, UnmountFlags, mount, mount_bind_recursive, mount_remount, unmount,
};

use crate::hub_protocol::{Failure, Step, TreeRequest};
use crate::tree::{self, Entry, EntryKind, TREES};

/// Trees that can be shown at a time. They differ when the host's files or the
/// authority have changed, so one is usual.
pub(crate) const KEPT: usize = 8;

/// The trees of one hub, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    names: VecDeque<String>,
    /// Whether there is a place for them.
    placed: bool,
}

impl Trees {
    /// Builds one. The oldest makes room; sandboxes that show it keep it.
    pub(crate) fn build(
        &mut self,
        request: &TreeRequest,
        contents: Vec<OwnedFd>,
    ) -> Result<(), Failure> {
        let contents = <[OwnedFd; 1]>::try_from(contents)
            .map_err(|_| Failure::new(Step::Protocol, None, "a tree has one file of contents"))?;
        let [contents] = contents.map(File::from);
        let refused = |error: &io::Error| Failure::io(Step::Tree, error);
        let length = contents.metadata().map_err(|error| refused(&error))?.len();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        tree::check(&request.name, &request.entries, length)
            .map_err(|error| Failure::new(Step::Protocol, None, error.to_string()))?;
        if self.names.contains(&request.name) {
            return Ok(());
        }
        self.place().map_err(|error| refused(&error))?;
        let root = Path::new(TREES).join(&request.name);
        make(&root, &request.entries, &contents).map_err(|(path, error)| {
            // What stands of it is of no use; it is gone with its mount.
            let _ = unmount(&root, UnmountFlags::DETACH);
            drop(fs::remove_dir(&root));
            let what = path.display().to_string();
            Failure::new(Step::Tree, error.raw_os_error(), what)
        })?;
        self.names.push_back(request.name.clone());
        while self.names.len() > KEPT {
            self.forget_oldest().map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    /// A place for trees, over what the host has there.
    fn place(&mut self) -> io::Result<()> {
        if !self.placed {
            mount_memory(Path::new(TREES))?;
            self.placed = true;
        }
        Ok(())
    }

    fn forget_oldest(&mut self) -> io::Result<()> {
        if let Some(name) = self.names.pop_front() {
            let root = Path::new(TREES).join(name);
            unmount(&root, UnmountFlags::DETACH)?;
            fs::remove_dir(root)?;
        }
        Ok(())
    }
}

fn mount_memory(at: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", at, "tmpfs", flags, c"mode=0755")?;
    Ok(())
}

/// All of it; or the path that failed.
fn make(root: &Path, entries: &[Entry], contents: &File) -> Result<(), (PathBuf, io::Error)> {
    let at_root = |error| (root.to_owned(), error);
    fs::create_dir(root).map_err(at_root)?;
    mount_memory(root).map_err(at_root)?;
    let mut offset = 0;
    for entry in entries {
        let path = root.join(&entry.path.0);
        make_one(&path, &entry.kind, contents, &mut offset).map_err(|error| (path, error))?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
    mount_remount(root, flags, c"").map_err(|error| at_root(error.into()))
}

fn make_one(path: &Path, kind: &EntryKind, contents: &File, offset: &mut u64) -> io::Result<()> {
    match kind {
        EntryKind::Directory => directory(path),
        EntryKind::Link { target } => symlink(&target.0, path),
        EntryKind::File { length, executable } => {
            let mut bytes = vec![0; *length];
            contents.read_exact_at(&mut bytes, *offset)?;
            *offset = offset.saturating_add(u64::try_from(*length).unwrap_or(u64::MAX));
            file(path, &bytes, if *executable { 0o555 } else { 0o444 })
        }
        EntryKind::Host { source } => {
            let source = Path::new(&source.0);
            if fs::metadata(source)?.is_dir() {
                directory(path)?;
            } else {
                file(path, &[], 0o444)?;
            }
            Ok(mount_bind_recursive(source, path)?)
        }
    }
}

fn directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))
}
