//! Taking away what lower layers made.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Dir, FileType, unlinkat};
use rustix::io::Errno;

use super::seen::{self, Mark};
use super::{Unpacking, kind_at, open_directory};

impl Unpacking {
    /// Removes whatever has this name; that there is nothing is fine.
    pub(super) fn clear(&mut self, parent: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        match kind_at(parent, name) {
            None => Ok(()),
            Some(FileType::Directory) => {
                // It may be what is written to next.
                self.last = None;
                tree(parent, name)
            }
            Some(_) => unlinkat(parent, OsStr::from_bytes(name), AtFlags::empty()),
        }
    }

    /// Removes from a directory, at any depth, what this layer did not make. Once: what comes later is this
    /// layer's.
    pub(super) fn prune(&mut self, directory: &OwnedFd, path: &[Vec<u8>]) -> Result<(), Errno> {
        match self.layer.prunes(path) {
            Some(mark) => self.prune_below(directory, &mark),
            None => Ok(()),
        }
    }

    fn prune_below(&mut self, directory: &OwnedFd, above: &Mark) -> Result<(), Errno> {
        for name in names(directory)? {
            let mark = seen::below(above, &name);
            if !self.layer.has_made(&mark) {
                self.clear(directory, &name)?;
            } else if kind_at(directory, &name) == Some(FileType::Directory)
                && self.layer.prunes_below(mark)
            {
                let inner = open_directory(directory, std::slice::from_ref(&name))?;
                self.prune_below(&inner, &mark)?;
            }
        }
        Ok(())
    }
}

/// A directory with all that is in it; how deep it may be is bounded where it is made.
fn tree(parent: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let directory = open_directory(parent, &[name.to_owned()])?;
    for inner in names(&directory)? {
        match kind_at(&directory, &inner) {
            Some(FileType::Directory) => tree(&directory, &inner)?,
            _ => unlinkat(&directory, OsStr::from_bytes(&inner), AtFlags::empty())?,
        }
    }
    unlinkat(parent, OsStr::from_bytes(name), AtFlags::REMOVEDIR)
}

/// What is in a directory, in no order.
pub(in crate::image) fn names(directory: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}
