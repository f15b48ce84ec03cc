//! A tree of files that many sandboxes see the same: described once, built
//! once by the hub, shown to each by one mount.
//!
//! Promises that what a description does not name is not in the tree, and that
//! nothing is made through a link or in a directory of the host: the parent of
//! every entry is a directory of the tree's own. Says nothing of what the
//! files are for.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::hub_protocol::Text;

/// Where programs that the hub starts find trees. Nothing in the hub or of a
/// sandbox needs what the host has there, and every host has it.
pub(crate) const TREES: &str = "/sys";

/// The most bytes of files in one tree.
pub(crate) const MAX_CONTENTS: usize = 64 << 20;

/// A tree, described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    name: String,
    pub(crate) entries: Vec<Entry>,
    /// What is in the files, in their order.
    pub(crate) contents: Vec<u8>,
}

/// One entry, at a path below the tree's root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) path: Text,
    pub(crate) kind: EntryKind,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum EntryKind {
    /// A directory that everybody may pass.
    Directory,
    /// A file that everybody may read: so many bytes of the contents.
    File { length: usize, executable: bool },
    /// A link.
    Link { target: Text },
    /// A directory or file of the host, and what is mounted below it.
    Host { source: Text },
}

/// Why a description is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefuseTreeError {
    #[error("a tree's name is not one")]
    Name,
    #[error("{path} is no path of a tree")]
    Path { path: PathBuf },
    #[error("{path} is there twice")]
    Twice { path: PathBuf },
    #[error("{path} is in no directory of the tree's own")]
    Parent { path: PathBuf },
    #[error("the contents are not as long as the files")]
    Length,
}

impl Tree {
    /// An empty one. Two with the same name are taken for the same.
    #[must_use]
    pub fn new() -> Self {
        Self {
            name: String::new(),
            entries: Vec::new(),
            contents: Vec::new(),
        }
    }

    /// Adds a directory. Its parent comes first.
    pub fn directory(&mut self, path: &Path) {
        self.push(path, EntryKind::Directory);
    }

    /// Adds a file that everybody may read.
    pub fn file(&mut self, path: &Path, bytes: &[u8], executable: bool) {
        self.contents.extend_from_slice(bytes);
        let length = bytes.len();
        self.push(path, EntryKind::File { length, executable });
    }

    /// Adds a link.
    pub fn link(&mut self, path: &Path, target: &Path) {
        let target = Text::from(target.as_os_str());
        self.push(path, EntryKind::Link { target });
    }

    /// Shows a directory or file of the host.
    pub fn host(&mut self, path: &Path, source: &Path) {
        let source = Text::from(source.as_os_str());
        self.push(path, EntryKind::Host { source });
    }

    fn push(&mut self, path: &Path, kind: EntryKind) {
        self.entries.push(Entry {
            path: Text::from(path.as_os_str()),
            kind,
        });
    }

    /// Everything that makes it what it is: a digest of this is a good name.
    ///
    /// # Errors
    /// If the description cannot be written down.
    pub fn description(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(&self.entries)?;
        bytes.extend_from_slice(&self.contents);
        Ok(bytes)
    }

    /// Gives it its name: letters and digits.
    pub fn name(&mut self, name: String) {
        self.name = name;
    }

    /// Its name.
    #[must_use]
    pub fn named(&self) -> &str {
        &self.name
    }

    /// Where programs that the hub starts find it.
    #[must_use]
    pub fn place(&self) -> PathBuf {
        Path::new(TREES).join(&self.name)
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self::new()
    }
}

/// Checks a description before anything of it is made.
pub(crate) fn check(name: &str, entries: &[Entry], contents: usize) -> Result<(), RefuseTreeError> {
    if name.is_empty() || name.len() > 64 || !name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return Err(RefuseTreeError::Name);
    }
    let mut own = BTreeSet::from([Path::new("")]);
    let mut seen = BTreeSet::new();
    let mut length = 0_usize;
    for entry in entries {
        let path = Path::new(&entry.path.0);
        let names = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let zero = entry.path.0.as_encoded_bytes().contains(&0);
        if !names || zero || path.as_os_str() != collected(path) || path.as_os_str().is_empty() {
            return Err(RefuseTreeError::Path { path: path.into() });
        }
        if !seen.insert(path) {
            return Err(RefuseTreeError::Twice { path: path.into() });
        }
        if !path.parent().is_some_and(|parent| own.contains(parent)) {
            return Err(RefuseTreeError::Parent { path: path.into() });
        }
        match &entry.kind {
            EntryKind::Directory => drop(own.insert(path)),
            EntryKind::File { length: bytes, .. } => length = length.saturating_add(*bytes),
            EntryKind::Link { .. } => {}
            EntryKind::Host { source } => {
                if !Path::new(&source.0).is_absolute() {
                    return Err(RefuseTreeError::Path {
                        path: PathBuf::from(&source.0),
                    });
                }
            }
        }
    }
    if length == contents && length <= MAX_CONTENTS {
        Ok(())
    } else {
        Err(RefuseTreeError::Length)
    }
}

/// The path as its components make it: no doubled or trailing slash.
fn collected(path: &Path) -> std::ffi::OsString {
    let parts: Vec<&OsStr> = path.iter().collect();
    parts.join(OsStr::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(add: impl FnOnce(&mut Tree)) -> Result<(), RefuseTreeError> {
        let mut tree = Tree::new();
        add(&mut tree);
        check("abc1", &tree.entries, tree.contents.len())
    }

    #[test]
    fn a_tree_is_made_in_its_own_directories_only() {
        let whole = checked(|tree| {
            tree.directory(Path::new("etc"));
            tree.file(Path::new("etc/hosts"), b"127.0.0.1", false);
            tree.link(Path::new("bin"), Path::new("usr/bin"));
            tree.host(Path::new("usr"), Path::new("/usr"));
        });
        assert_eq!(whole, Ok(()));
        for path in ["usr/x", "bin/x", "etc/hosts/x", "no/x"] {
            let refused = checked(|tree| {
                tree.directory(Path::new("etc"));
                tree.file(Path::new("etc/hosts"), b"", false);
                tree.link(Path::new("bin"), Path::new("usr/bin"));
                tree.host(Path::new("usr"), Path::new("/usr"));
                tree.file(Path::new(path), b"", false);
            });
            let path = path.into();
            assert_eq!(refused, Err(RefuseTreeError::Parent { path }));
        }
    }

    #[test]
    fn a_path_is_relative_clean_and_there_once() {
        for path in ["", "/etc", "..", "etc/..", "./etc", "etc/", "a\0b"] {
            let refused = checked(|tree| tree.directory(Path::new(path)));
            assert!(
                matches!(refused, Err(RefuseTreeError::Path { .. })),
                "{path}"
            );
        }
        let refused = checked(|tree| {
            tree.directory(Path::new("etc"));
            tree.link(Path::new("etc"), Path::new("/"));
        });
        assert!(matches!(refused, Err(RefuseTreeError::Twice { .. })));
    }

    #[test]
    fn names_and_lengths_that_do_not_hold_are_refused() {
        for name in ["", "..", "a/b", "a b"] {
            assert_eq!(check(name, &[], 0), Err(RefuseTreeError::Name), "{name}");
        }
        assert_eq!(check("a", &[], 1), Err(RefuseTreeError::Length));
        let mut tree = Tree::new();
        tree.file(Path::new("f"), b"12", false);
        assert_eq!(check("a", &tree.entries, 1), Err(RefuseTreeError::Length));
        assert_eq!(check("a", &tree.entries, 2), Ok(()));
    }
}
