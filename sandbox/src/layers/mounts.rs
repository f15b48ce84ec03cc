//! The constructed root, in the order of mounting.
//!
//! System directories; private directories; /etc; the caller's mounts; and last,
//! over whatever lies there, the rest of the fixed isolation: /proc, /dev, the
//! server's program. A caller's mount on or inside /proc, /sys or /dev, on a
//! private directory itself, or on, above or below a built file is covered by
//! it; it is left out and said. Promises that files and links are made in file
//! systems of the sandbox's own alone: through a mount of the caller's they
//! would be made on the host.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::facts::{EtcKind, Facts, ProcMask, SystemEntry};
use crate::layers::env::HOME;
use crate::layers::etc::{self, Built};
use crate::plan::Files;
use crate::spec::{Bind, BindMode};

/// A mount of the caller's, vetted: the source is canonical.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VettedBind {
    /// On the host.
    pub(crate) source: PathBuf,
    /// Inside; absolute, without dots.
    pub(crate) dest: PathBuf,
    /// Whether it may be written.
    pub(crate) mode: BindMode,
    /// Whether the source is a directory.
    pub(crate) directory: bool,
    /// What is hidden below it.
    pub(crate) masks: Vec<Mask>,
    /// Whether everybody may read everything in it, whatever their id.
    pub(crate) public: bool,
    /// Whose owner's files the program may use, where that is not the source itself.
    pub(crate) owned_as: Option<PathBuf>,
    /// It is no mount of the source but made of what that holds.
    pub(crate) frame: Option<Frame>,
}

/// A directory of the sandbox's own, in which what a directory of the host holds is shown piece by piece: what
/// appears on the host later is not there ([`crate::layers::frames`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Names and where they lead.
    pub(crate) links: Vec<(OsString, PathBuf)>,
    /// Names that something is mounted on, and whether it is a directory.
    pub(crate) places: Vec<(OsString, bool)>,
    /// What is mounted there.
    pub(crate) pieces: Vec<VettedBind>,
}

/// Something below a bind that is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mask {
    /// Relative to the bind.
    pub(crate) below: PathBuf,
    /// Whether it is a directory.
    pub(crate) directory: bool,
}

/// Directories of the sandbox alone, writable and gone with it.
const PRIVATE: [(&str, &str); 4] = [
    ("/tmp", "1777"),
    ("/var", "0755"),
    ("/run", "0755"),
    (HOME, "0700"),
];
/// Directories made in them.
const PRIVATE_CHILDREN: [(&str, &str); 7] = [
    ("/var/tmp", "1777"),
    ("/var/cache", "0755"),
    ("/var/lib", "0755"),
    ("/var/log", "0755"),
    ("/var/spool", "0755"),
    ("/run/lock", "0755"),
    ("/var/opt", "0755"),
];
/// Where nothing of the caller's can be, at any depth.
const ISOLATED: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Where nothing of the caller's can be itself; below it may.
const COVERED: [&str; 5] = ["/tmp", "/var", "/run", "/etc", SERVER_PROGRAM];
/// Where a registered server's program is.
pub(crate) const SERVER_PROGRAM: &str = "/app/server";
/// Where its folder is.
const SERVER_FOLDER: &str = "/app";
/// Each private directory may take this part of the host's memory, so that all
/// of them together (with /dev/shm five) stay below two thirds of it.
const PRIVATE_PART: u64 = 8;
/// Bytes for the links of a frame: of its other entries there are names alone.
pub(crate) const FRAME_SIZE: u64 = 1 << 20;

/// Directories that the program owns; a folder of the caller's that is shown at the place of one stays the caller's.
pub(crate) fn owned(binds: &[Bind]) -> Vec<Vec<u8>> {
    let is_shown = |path: &str| binds.iter().any(|bind| bind.dest == Path::new(path));
    PRIVATE
        .iter()
        .chain(&PRIVATE_CHILDREN)
        .filter(|(path, mode)| *mode != "1777" && !is_shown(path))
        .map(|(path, _)| path.as_bytes().to_vec())
        .collect()
}

/// A registered server's own folder, which the caller keeps.
pub(crate) fn kept_folder(source: PathBuf) -> VettedBind {
    VettedBind {
        source,
        dest: PathBuf::from(SERVER_FOLDER),
        mode: BindMode::Ro,
        directory: true,
        masks: Vec::new(),
        public: true,
        owned_as: None,
        frame: None,
    }
}

/// Bytes in each private directory.
pub(crate) fn private_size(wanted: Option<u64>, memory: u64) -> u64 {
    wanted.unwrap_or(memory / PRIVATE_PART).max(4096)
}

/// Mount points that a base has ready: of everything that is each sandbox's own.
pub(crate) fn places_of_own() -> impl Iterator<Item = &'static str> {
    PRIVATE
        .iter()
        .map(|(path, _)| *path)
        .chain(["/proc", "/dev", "/etc"])
}

/// Whether a mount at `dest` needs no place that a base would have to have:
/// it goes below a private directory.
pub(crate) fn is_private(dest: &Path) -> bool {
    PRIVATE.iter().any(|(path, _)| dest.starts_with(path))
}

/// Whether the fixed isolation covers a mount at `dest`.
pub(crate) fn covered(dest: &Path, built: &[Built]) -> bool {
    ISOLATED.iter().any(|path| dest.starts_with(path))
        || COVERED.iter().any(|path| dest == Path::new(path))
        || built.iter().any(|built| match built {
            Built::File(path, _) | Built::Link(path, _) => {
                path.starts_with(dest) || dest.starts_with(path)
            }
        })
}

/// Arguments in the making.
#[derive(Debug)]
pub(crate) struct Mounts<'a> {
    pub(crate) args: Vec<OsString>,
    pub(crate) files: &'a mut Files,
    /// Where directories of the host or another root are shown.
    pub(crate) shown: Vec<PathBuf>,
    /// What of another root is attached later, by the host; `None` where the engine mounts it.
    pub(crate) later: Option<Vec<VettedBind>>,
    /// Directories that are there already.
    made: BTreeSet<PathBuf>,
}

impl Mounts<'_> {
    pub(crate) fn push<const N: usize>(&mut self, args: [&dyn AsOs; N]) {
        self.args.extend(args.iter().map(|arg| arg.os()));
    }

    /// None yet, with files numbered on from those that are there.
    pub(crate) fn new(files: &mut Files) -> Mounts<'_> {
        Mounts {
            args: Vec::new(),
            files,
            shown: Vec::new(),
            later: None,
            made: BTreeSet::from([PathBuf::from("/")]),
        }
    }

    /// Makes the directories above a path, for everybody to pass: bwrap would
    /// make them for their owner alone, which with a range of ids is not the
    /// program.
    fn above(&mut self, path: &Path) {
        let ancestors: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_owned).collect();
        for directory in ancestors.into_iter().rev() {
            if self.made.insert(directory.clone()) {
                self.push([&"--perms", &"0755", &"--dir", &directory]);
            }
        }
    }

    /// A root that the hub has built, with everything that sandboxes share.
    pub(crate) fn base(&mut self, place: &Path) {
        self.push([&"--ro-bind", &place, &"/"]);
        for place in places_of_own().chain([SERVER_PROGRAM]) {
            let ancestors = Path::new(place).ancestors();
            self.made.extend(ancestors.map(Path::to_owned));
        }
    }

    /// The files that are a sandbox's own where the rest of /etc is shared.
    pub(crate) fn own_files(&mut self, contents: [Vec<u8>; 2]) {
        for (name, bytes) in etc::OWN.iter().zip(contents) {
            self.file(&Path::new(etc::OWN_PLACE).join(name), bytes, "0444");
        }
    }

    /// The host's or another root's directories.
    pub(crate) fn system(&mut self, facts: &Facts) {
        for entry in &facts.system {
            self.entry(entry);
        }
    }

    /// What an image has among the sandbox's own directories.
    pub(crate) fn among(&mut self, facts: &Facts) {
        for entry in &facts.among {
            self.entry(entry);
        }
    }

    fn entry(&mut self, entry: &SystemEntry) {
        match entry {
            SystemEntry::Directory { source, dest } => self.show(source, dest, true),
            SystemEntry::File { source, dest } => self.show(source, dest, false),
            SystemEntry::Link { dest, target } => self.push([&"--symlink", target, dest]),
        }
    }

    /// Shows something of the host's or another root's, now or later.
    fn show(&mut self, source: &Path, dest: &Path, directory: bool) {
        if self.later.is_none() {
            self.push([&"--ro-bind", &source, &dest]);
            self.shown.push(dest.to_owned());
            return;
        }
        if directory {
            self.above(dest);
            self.push([&"--perms", &"0755", &"--dir", &dest]);
        } else {
            self.file(dest, Vec::new(), "0444");
        }
        if let Some(later) = &mut self.later {
            later.push(VettedBind {
                source: source.to_owned(),
                dest: dest.to_owned(),
                mode: BindMode::Ro,
                directory,
                masks: Vec::new(),
                public: true,
                owned_as: None,
                frame: None,
            });
        }
    }

    /// Private, writable directories of `size` bytes each.
    pub(crate) fn private(&mut self, size: u64) {
        let size = size.to_string();
        for (path, mode) in PRIVATE {
            self.above(Path::new(path));
            self.made.insert(path.into());
            self.push([&"--perms", &mode, &"--size", &size, &"--tmpfs", &path]);
        }
        for (path, mode) in PRIVATE_CHILDREN {
            self.push([&"--perms", &mode, &"--dir", &path]);
        }
        self.push([&"--symlink", &"/run", &"/var/run"]);
        self.push([&"--symlink", &"/run/lock", &"/var/lock"]);
    }

    /// An /etc of the sandbox's own.
    pub(crate) fn own_etc(&mut self) {
        self.push([&"--perms", &"0755", &"--tmpfs", &"/etc"]);
        self.made.insert("/etc".into());
    }

    /// The caller's, parents before what lies in them.
    pub(crate) fn binds(&mut self, binds: &[VettedBind]) {
        for bind in binds {
            let flag = match bind.mode {
                BindMode::Ro => "--ro-bind",
                BindMode::Rw => "--bind",
            };
            self.above(&bind.dest);
            if let Some(frame) = &bind.frame {
                self.frame(&bind.dest, frame);
                continue;
            }
            self.push([&flag, &bind.source, &bind.dest]);
            for mask in &bind.masks {
                self.mask(&bind.dest.join(&mask.below), mask.directory);
            }
        }
        // When everything has its place in them.
        for bind in binds.iter().filter(|bind| bind.frame.is_some()) {
            self.push([&"--remount-ro", &bind.dest]);
        }
    }

    fn frame(&mut self, dest: &Path, frame: &Frame) {
        let size = FRAME_SIZE.to_string();
        self.push([&"--perms", &"0755", &"--size", &size, &"--tmpfs", &dest]);
        self.made.insert(dest.to_owned());
        for (name, target) in &frame.links {
            self.push([&"--symlink", target, &dest.join(name)]);
        }
    }

    /// Places for mounts that are attached later. One that lies in a mount is
    /// expected to be there.
    pub(crate) fn places(&mut self, binds: &[VettedBind], facts: &Facts) {
        for bind in binds {
            // Below a link nothing is made either: attaching follows none.
            let mut entries = facts.system.iter().chain(&facts.among);
            let inside = entries.any(|entry| match entry {
                SystemEntry::Directory { dest, .. }
                | SystemEntry::File { dest, .. }
                | SystemEntry::Link { dest, .. } => bind.dest.starts_with(dest),
            }) || facts.etc.iter().any(|entry| {
                let path = Path::new("/etc").join(&entry.name);
                matches!(entry.kind, EtcKind::Directory(_))
                    && bind.dest != path
                    && bind.dest.starts_with(path)
            }) || binds
                .iter()
                .any(|other| bind.dest != other.dest && bind.dest.starts_with(&other.dest));
            if inside || self.made.contains(&bind.dest) {
                continue;
            }
            self.above(&bind.dest);
            if bind.directory {
                self.push([&"--perms", &"0755", &"--dir", &bind.dest]);
            } else {
                self.file(&bind.dest, Vec::new(), "0444");
            }
        }
    }

    /// Covers what is hidden in another root.
    pub(crate) fn masks(&mut self, masks: &[Mask]) {
        for mask in masks {
            self.mask(&Path::new("/").join(&mask.below), mask.directory);
        }
    }

    fn mask(&mut self, path: &Path, directory: bool) {
        if directory {
            self.push([&"--perms", &"0000", &"--size", &"4096", &"--tmpfs", &path]);
            self.push([&"--remount-ro", &path]);
        } else {
            let number = self.files.add(Vec::new());
            self.push([&"--perms", &"0000", &"--ro-bind-data", &number, &path]);
        }
    }

    fn file(&mut self, path: &Path, bytes: Vec<u8>, mode: &str) {
        self.above(path);
        let number = self.files.add(bytes);
        self.push([&"--perms", &mode, &"--file", &number, &path]);
    }

    /// What of /etc comes from the host or the other root. Built entries win,
    /// and so do the caller's mounts: what they cover is not made, nor a file or
    /// a link that stands in their way.
    pub(crate) fn etc(&mut self, facts: &Facts, built: &[Built], binds: &[VettedBind]) {
        let etc = Path::new("/etc");
        for entry in &facts.etc {
            let path = etc.join(&entry.name);
            let directory = matches!(entry.kind, EtcKind::Directory(_));
            let callers = binds.iter().any(|bind| {
                path.starts_with(&bind.dest) || (!directory && bind.dest.starts_with(&path))
            });
            if callers || etc::takes_place(built, &path) {
                continue;
            }
            self.above(&path);
            match &entry.kind {
                EtcKind::File(bytes) => self.file(&path, bytes.clone(), "0444"),
                EtcKind::Directory(source) => self.show(source, &path, true),
                EtcKind::Link(target) => self.push([&"--symlink", target, &path]),
            }
        }
    }

    /// The built files.
    pub(crate) fn built(&mut self, built: Vec<Built>) {
        for entry in built {
            match entry {
                Built::File(path, bytes) => self.file(&path, bytes, "0444"),
                Built::Link(path, target) => {
                    self.above(&path);
                    self.push([&"--symlink", &target, &path]);
                }
            }
        }
    }

    /// Kernel file systems.
    pub(crate) fn kernel(&mut self, size: u64, console: Option<&Path>) {
        self.push([&"--proc", &"/proc"]);
        self.push([&"--dev", &"/dev"]);
        self.made.insert("/dev".into());
        let size = size.to_string();
        self.push([
            &"--perms",
            &"1777",
            &"--size",
            &size,
            &"--tmpfs",
            &"/dev/shm",
        ]);
        if let Some(console) = console {
            self.push([&"--dev-bind", &console, &"/dev/console"]);
        }
    }

    /// Covers what /proc says about the host, where the bootstrap may not.
    pub(crate) fn proc_masks(&mut self, masks: &[ProcMask]) {
        for mask in masks {
            if mask.directory {
                self.push([
                    &"--perms", &"0555", &"--size", &"4096", &"--tmpfs", &mask.path,
                ]);
                self.push([&"--remount-ro", &mask.path]);
            } else {
                // Bound without the right to open devices: it cannot be opened at all.
                self.push([&"--ro-bind", &"/dev/null", &mask.path]);
            }
        }
    }

    /// The end of all writing to these.
    pub(crate) fn read_only<const N: usize>(&mut self, paths: [&str; N]) {
        for path in paths {
            self.push([&"--remount-ro", &path]);
        }
    }
}

/// Something that can be an argument.
pub(crate) trait AsOs {
    fn os(&self) -> OsString;
}

impl AsOs for &str {
    fn os(&self) -> OsString {
        OsString::from(self)
    }
}

impl AsOs for String {
    fn os(&self) -> OsString {
        OsString::from(self)
    }
}

impl AsOs for PathBuf {
    fn os(&self) -> OsString {
        self.clone().into_os_string()
    }
}

impl AsOs for &Path {
    fn os(&self) -> OsString {
        self.as_os_str().to_owned()
    }
}

impl AsOs for i32 {
    fn os(&self) -> OsString {
        OsString::from(self.to_string())
    }
}
