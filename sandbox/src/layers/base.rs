//! The root that all sandboxes see the same: system directories and /etc.
//!
//! Described once and built by the hub, so that a start shows it by one mount
//! in place of some forty. It is what [`mounts`] would
//! build for each, but for two things: directories of /etc, save large ones, are copied as they
//! were when it was described, and the files that name the sandbox's addresses
//! are links to its own. It is described anew when what it was read from has
//! changed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use gig_netns::Tree;

use crate::facts::{self, EtcEntry, EtcKind, SystemEntry};
use crate::layers::etc::{self, Built, Trust};
use crate::layers::mounts::{self, SERVER_PROGRAM};
use crate::stamp::{Look, Moment, settled};

/// What makes one base differ from another.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Roots to trust.
    pub(crate) trust: Arc<Trust>,
    /// Whether there is a place for a server's program.
    pub(crate) server: bool,
}

/// A base, and what it was read from.
struct Kept {
    wanted: Wanted,
    read: Vec<Look>,
    tree: Arc<Tree>,
}

/// Bases kept: with and without a server, for this authority and the last.
const KEPT: usize = 4;
/// A directory of /etc with more entries or bytes than these is shown as it is
/// in place of being copied.
const COPIED_ENTRIES: usize = 2000;
const COPIED_BYTES: usize = 8 << 20;
/// So is one of nothing but links and readable files, if more than these: a mount costs less than to read and to
/// make them (/etc/alternatives).
const COPIED_LINKS: usize = 100;

/// The base for these wishes.
///
/// # Errors
/// If it cannot be written down.
pub(crate) fn of(wanted: &Wanted) -> io::Result<Arc<Tree>> {
    static KEEP: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
    let mut keep = KEEP.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |kept: &Kept| {
        Arc::ptr_eq(&kept.wanted.trust, &wanted.trust) && kept.wanted.server == wanted.server
    };
    if let Some(at) = keep.iter().position(same) {
        if let Some(kept) = keep.get(at)
            && kept.read.iter().all(Look::holds)
        {
            return Ok(Arc::clone(&kept.tree));
        }
        keep.remove(at);
    }
    let began = Moment::now();
    let (tree, read) = describe(wanted)?;
    let tree = Arc::new(tree);
    if keep.len() >= KEPT {
        keep.remove(0);
    }
    if !settled(&read, began) {
        return Ok(tree);
    }
    keep.push(Kept {
        wanted: wanted.clone(),
        read,
        tree: Arc::clone(&tree),
    });
    Ok(tree)
}

/// A tree in the making.
#[derive(Debug, Default)]
struct Base {
    tree: Tree,
    made: BTreeSet<PathBuf>,
    /// Directories that were copied, and those that are shown in place of that, as they were before.
    copied: Vec<Look>,
}

fn describe(wanted: &Wanted) -> io::Result<(Tree, Vec<Look>)> {
    // Everything is stamped before it is read: a change in between shows later.
    let mut read: Vec<_> = facts::etc_sources().into_iter().map(Look::at).collect();
    let mut built = etc::common();
    built.extend(etc::trust(&wanted.trust));
    built.extend(etc::OWN.map(|name| {
        let target = Path::new(etc::OWN_PLACE).join(name);
        Built::Link(Path::new("/etc").join(name), target)
    }));
    let mut base = Base::default();
    for entry in facts::host_system() {
        base.system(&entry);
    }
    for place in mounts::places_of_own() {
        base.directory(Path::new(place));
    }
    for entry in facts::host_etc() {
        if !etc::takes_place(&built, &Path::new("/etc").join(&entry.name)) {
            base.etc(&entry);
        }
    }
    for entry in &built {
        base.built(entry);
    }
    if wanted.server {
        base.file(Path::new(SERVER_PROGRAM), &[], false);
    }
    let Base {
        mut tree, copied, ..
    } = base;
    read.extend(copied);
    let mut name = String::new();
    for byte in digest(&SHA256, &tree.description()?).as_ref() {
        // Writing to a text does not fail.
        let _ = write!(name, "{byte:02x}");
    }
    tree.name(name);
    Ok((tree, read))
}

impl Base {
    fn system(&mut self, entry: &SystemEntry) {
        match entry {
            SystemEntry::Directory { source, dest } | SystemEntry::File { source, dest } => {
                self.above(dest);
                self.tree.host(below_root(dest), source);
            }
            SystemEntry::Link { dest, target } => self.link(dest, target),
        }
    }

    fn etc(&mut self, entry: &EtcEntry) {
        let path = Path::new("/etc").join(&entry.name);
        match &entry.kind {
            EtcKind::File(bytes) => self.file(&path, bytes, false),
            EtcKind::Link(target) => self.link(&path, target),
            EtcKind::Directory(source) => self.folder(&path, source),
        }
    }

    fn folder(&mut self, path: &Path, source: &Path) {
        let look = Look::at(source.to_owned());
        match Copied::of(source) {
            Some(copied) => self.copy(path, copied),
            None => {
                self.above(path);
                self.tree.host(below_root(path), source);
                // What is put there later may be for fewer eyes.
                self.copied.push(look);
            }
        }
    }

    fn built(&mut self, entry: &Built) {
        match entry {
            Built::File(path, bytes) => self.file(path, bytes, false),
            Built::Link(path, target) => self.link(path, target),
        }
    }

    fn copy(&mut self, at: &Path, copied: Copied) {
        self.directory(at);
        for (below, kind) in copied.entries {
            let path = at.join(below);
            match kind {
                CopiedKind::Directory => self.directory(&path),
                CopiedKind::File { bytes, executable } => self.file(&path, &bytes, executable),
                CopiedKind::Link(target) => self.link(&path, &target),
            }
        }
        self.copied.extend(copied.directories);
    }

    fn above(&mut self, path: &Path) {
        if let Some(parent) = path.parent().filter(|parent| parent.parent().is_some()) {
            self.directory(parent);
        }
    }

    fn directory(&mut self, path: &Path) {
        if self.made.insert(path.to_owned()) {
            self.above(path);
            self.tree.directory(below_root(path));
        }
    }

    fn file(&mut self, path: &Path, bytes: &[u8], executable: bool) {
        self.above(path);
        self.tree.file(below_root(path), bytes, executable);
    }

    fn link(&mut self, path: &Path, target: &Path) {
        self.above(path);
        self.tree.link(below_root(path), target);
    }
}

fn below_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// A directory, read whole: what everybody may read of it.
#[derive(Debug, Default)]
struct Copied {
    entries: Vec<(PathBuf, CopiedKind)>,
    directories: Vec<Look>,
    bytes: usize,
}

#[derive(Debug)]
enum CopiedKind {
    Directory,
    File { bytes: Vec<u8>, executable: bool },
    Link(PathBuf),
}

const EVERYBODY_MAY_READ: u32 = 0o004;
const EVERYBODY_MAY_PASS: u32 = 0o005;

impl Copied {
    /// None if it is too large or cannot be read, by everybody.
    fn of(source: &Path) -> Option<Self> {
        let mode = fs::metadata(source).ok()?.permissions().mode();
        if mode & EVERYBODY_MAY_PASS != EVERYBODY_MAY_PASS {
            return None;
        }
        if has_many_links(source)? {
            return None;
        }
        let mut copied = Self::default();
        copied.read(source, Path::new(""))?;
        Some(copied)
    }

    fn read(&mut self, source: &Path, below: &Path) -> Option<()> {
        self.directories.push(Look::at(source.to_owned()));
        let mut names: Vec<_> = fs::read_dir(source)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.file_name()))
            .collect();
        names.sort();
        for name in names {
            let (path, below) = (source.join(&name), below.join(&name));
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            let mode = meta.permissions().mode();
            if meta.is_symlink() {
                let target = fs::read_link(&path).ok()?;
                self.entries.push((below, CopiedKind::Link(target)));
            } else if meta.is_dir() && mode & EVERYBODY_MAY_PASS == EVERYBODY_MAY_PASS {
                self.entries.push((below.clone(), CopiedKind::Directory));
                self.read(&path, &below)?;
            } else if meta.is_file() && mode & EVERYBODY_MAY_READ != 0 {
                let size = usize::try_from(meta.size()).ok()?;
                self.bytes = self.bytes.saturating_add(size);
                if self.bytes > COPIED_BYTES {
                    return None;
                }
                let (bytes, executable) = (fs::read(&path).ok()?, mode & 0o001 != 0);
                self.entries
                    .push((below, CopiedKind::File { bytes, executable }));
            }
            if self.entries.len() > COPIED_ENTRIES {
                return None;
            }
        }
        Some(())
    }
}

/// Whether it is flat, large and hides nothing: all that shows of it may be seen by everybody.
fn has_many_links(source: &Path) -> Option<bool> {
    let entries: Vec<_> = fs::read_dir(source).ok()?.collect::<Result<_, _>>().ok()?;
    let is_readable = |entry: &fs::DirEntry| {
        let meta = entry.metadata();
        meta.is_ok_and(|meta| meta.permissions().mode() & EVERYBODY_MAY_READ != 0)
    };
    // A link is told without another call.
    let is_open = |entry: &fs::DirEntry| {
        let kind = entry.file_type();
        kind.is_ok_and(|kind| kind.is_symlink() || kind.is_file() && is_readable(entry))
    };
    Some(entries.len() > COPIED_LINKS && entries.iter().all(is_open))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_what_everybody_may_read_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        mode(root, 0o750);
        assert!(Copied::of(root).is_none());
        mode(root, 0o755);
        for name in ["open", "closed"] {
            fs::create_dir(root.join(name)).unwrap();
            fs::write(root.join(name).join("file"), name).unwrap();
            fs::write(root.join(name).join("secret"), name).unwrap();
            mode(&root.join(name).join("secret"), 0o640);
        }
        mode(&root.join("open/file"), 0o755);
        mode(&root.join("closed"), 0o750);
        symlink("/somewhere", root.join("link")).unwrap();
        let copied = Copied::of(root).unwrap();
        let told: Vec<_> = copied
            .entries
            .iter()
            .map(|(path, kind)| format!("{} {kind:?}", path.display()))
            .collect();
        assert_eq!(
            told,
            [
                "link Link(\"/somewhere\")",
                "open Directory",
                "open/file File { bytes: [111, 112, 101, 110], executable: true }",
            ]
        );
        assert_eq!(copied.directories.len(), 2);
    }

    #[test]
    fn many_links_are_shown_as_they_are_unless_something_is_hidden_among_them() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        mode(root, 0o755);
        for number in 0..COPIED_LINKS {
            symlink("/somewhere", root.join(number.to_string())).unwrap();
        }
        assert!(Copied::of(root).is_some());
        fs::write(root.join("README"), "open").unwrap();
        mode(&root.join("README"), 0o644);
        assert!(Copied::of(root).is_none());
        fs::write(root.join("secret"), "closed").unwrap();
        mode(&root.join("secret"), 0o640);
        let copied = Copied::of(root).unwrap();
        assert_eq!(copied.entries.len(), COPIED_LINKS + 1);
    }

    #[test]
    fn what_is_large_is_not_copied() {
        let dir = tempfile::tempdir().unwrap();
        mode(dir.path(), 0o755);
        let large = fs::File::create(dir.path().join("large")).unwrap();
        large.set_len(COPIED_BYTES as u64 + 1).unwrap();
        assert!(Copied::of(dir.path()).is_none());
        assert!(Copied::of(&dir.path().join("large")).is_none());
    }

    #[test]
    fn a_base_is_described_once_for_each_trust_and_server() {
        let wanted = Wanted {
            trust: Arc::default(),
            server: false,
        };
        let first = of(&wanted).unwrap();
        let again = of(&wanted).unwrap();
        // The same one, or, had the host changed just now, one like it.
        assert_eq!(first, again);
        let server = Wanted {
            server: true,
            ..wanted
        };
        assert_ne!(first.named(), of(&server).unwrap().named());
        let other = Wanted {
            trust: Arc::new(Trust {
                authority: Some("another".into()),
                ..Trust::default()
            }),
            server: false,
        };
        assert_ne!(first.named(), of(&other).unwrap().named());
    }
}
