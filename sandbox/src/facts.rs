//! What the host has: everything the plan depends on, read once per start.
//!
//! Keeps the plan pure. Nothing here decides; a file that cannot be read is a
//! file that is not there.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use crate::error::StartSandboxError;
use crate::layers::mounts::Mask;
use crate::other_root::{Found, OtherRoot};

/// The host, as far as a plan needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// System directories, in their order of mounting.
    pub(crate) system: Vec<SystemEntry>,
    /// Entries of /etc that programs need and that hold no secret.
    pub(crate) etc: Vec<EtcEntry>,
    /// Whether the other root is an image's, where everybody may read everything.
    pub(crate) image: bool,
    /// What of another root lies among the sandbox's own in /var and /home; only an image has any.
    pub(crate) among: Vec<SystemEntry>,
    /// What is hidden in those, relative to the root; only another root has any.
    pub(crate) masks: Vec<Mask>,
    /// Files and directories of /proc to cover.
    pub(crate) proc_masks: Vec<ProcMask>,
    /// Bytes of memory of the host.
    pub(crate) memory: u64,
}

/// A system directory, or the link that a merged /usr has in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SystemEntry {
    /// Shown read-only.
    Directory {
        /// On the host.
        source: PathBuf,
        /// Inside.
        dest: PathBuf,
    },
    /// The same, a file.
    File {
        /// On the host.
        source: PathBuf,
        /// Inside.
        dest: PathBuf,
    },
    /// Made again.
    Link {
        /// Inside.
        dest: PathBuf,
        /// Where it points.
        target: PathBuf,
    },
}

/// An entry of /etc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EtcEntry {
    /// Below /etc.
    pub(crate) name: PathBuf,
    /// What it is.
    pub(crate) kind: EtcKind,
}

/// What an entry of /etc is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EtcKind {
    /// A file; copied, which is cheaper than a mount.
    File(Vec<u8>),
    /// A directory on the host, shown.
    Directory(PathBuf),
    /// A link, made again.
    Link(PathBuf),
}

/// An entry of /proc that says more about the host than a program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcMask {
    /// Its path.
    pub(crate) path: PathBuf,
    /// Whether it is a directory.
    pub(crate) directory: bool,
}

/// In the order of mounting. /lib32 and /libx32 exist on multi-arch hosts.
const SYSTEM: [&str; 7] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
];

/// Files of /etc that carry configuration of libraries and nothing about the
/// host's people, machines or keys. Not here on purpose: passwd, group, hosts,
/// resolv.conf, nsswitch.conf (built), shadow, machine-id, gitconfig, npmrc,
/// pip.conf, fstab, ssh, profile and bash.bashrc (where proxies and tokens
/// are set for everybody) and whatever else may hold a name or a credential.
const ETC_FILES: [&str; 22] = [
    "alpine-release",
    "bindresvport.blacklist",
    "debian_version",
    "ethertypes",
    "fedora-release",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "locale.alias",
    "localtime",
    "lsb-release",
    "magic",
    "magic.mime",
    "mime.types",
    "networks",
    "os-release",
    "protocols",
    "rpc",
    "services",
    "timezone",
];
/// Directories of /etc likewise; a trailing star matches the rest of a name.
const ETC_DIRECTORIES: [&str; 6] = [
    "alternatives",
    "crypto-policies",
    "fonts",
    "java*",
    "ld.so.conf.d",
    "terminfo",
];

/// Files below directories of /etc that are not shown otherwise, without which a program does not start. Maven's
/// `settings.xml` beside its own holds passwords.
const ETC_BELOW: [&str; 3] = [
    "ssl/openssl.cnf",
    "maven/m2.conf",
    "maven/logging/simplelogger.properties",
];

/// Larger files than any of these are; one that is larger is something else.
const ETC_FILE_MAX: u64 = 4 << 20;
/// Of all files right in another root's /etc together; a whole distribution's has a hundredth.
pub(crate) const ETC_MOST: u64 = 16 << 20;
/// How many may stand there.
pub(crate) const ETC_FILES_MOST: usize = 700;

/// What container engines cover as well: hardware, kernel timers and key rings. And how the host was booted, where
/// installers leave addresses and passwords.
const PROC_MASKS: [&str; 13] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/cmdline",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/kallsyms",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
];

impl Facts {
    /// Only what a sandbox needs whose directories are built by the hub.
    pub(crate) fn of_kernel() -> Self {
        Self {
            system: Vec::new(),
            etc: Vec::new(),
            image: false,
            among: Vec::new(),
            masks: Vec::new(),
            proc_masks: proc_masks(),
            memory: memory(),
        }
    }

    /// Reads the host; with another root its directories in place of the host's.
    pub(crate) fn read(root: Option<&OtherRoot>) -> Self {
        Self {
            system: root.map_or_else(host_system, rootfs_system),
            etc: root.map_or_else(host_etc, whole_etc),
            image: root.is_some_and(OtherRoot::is_image),
            among: root.map_or_else(Vec::new, among_own),
            masks: root.map_or_else(Vec::new, deep_masks),
            proc_masks: proc_masks(),
            memory: memory(),
        }
    }
}

/// Whether a sandbox sees this path of the host's by itself: it is the system's.
#[must_use]
pub fn is_shown(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// The host's system directories.
pub(crate) fn host_system() -> Vec<SystemEntry> {
    SYSTEM
        .iter()
        .filter_map(|path| system_entry(Path::new(path)))
        .collect()
}

fn system_entry(path: &Path) -> Option<SystemEntry> {
    let kind = fs::symlink_metadata(path).ok()?.file_type();
    let dest = path.to_owned();
    if kind.is_symlink() {
        return Some(SystemEntry::Link {
            dest,
            target: fs::read_link(path).ok()?,
        });
    }
    let source = path.to_owned();
    if kind.is_file() {
        return Some(SystemEntry::File { source, dest });
    }
    kind.is_dir()
        .then_some(SystemEntry::Directory { source, dest })
}

/// What is never another root's.
const BUILT: [&str; 9] = [
    "etc", "proc", "sys", "dev", "tmp", "var", "run", "app", "home",
];

/// What is never an image's: file systems of the kernel, and what is empty at each start.
const NEVER_AN_IMAGES: [&str; 5] = ["proc", "sys", "dev", "tmp", "run"];

/// Directories of the sandbox's own among which an image's entries are shown. Those in which they are
/// hold nothing else of the image.
const AMONG: [&str; 6] = [
    "var",
    "var/lib",
    "var/cache",
    "var/spool",
    "var/opt",
    "home",
];
/// What is in those and always the sandbox's own: mutable by what it is for.
const OWN_AMONG: [&str; 9] = [
    "var/lib",
    "var/cache",
    "var/spool",
    "var/opt",
    "var/log",
    "var/tmp",
    "var/run",
    "var/lock",
    "home/sandbox",
];

/// Whether what a program sees at a place, if anything is there, is what its image has. In directories where it is
/// not the sandbox has its own, each of which is there itself.
#[must_use]
pub fn is_an_images(path: &Path) -> bool {
    let among = OWN_AMONG.iter().filter(|own| !AMONG.contains(own));
    let mut own = NEVER_AN_IMAGES.iter().chain(among);
    let plain = !path.components().any(|part| part == Component::ParentDir);
    plain
        && !own.any(|own| {
            let own = Path::new("/").join(own);
            path.starts_with(&own) && path != own
        })
}

/// Whether nothing of an image is at a place or above it, but the root.
pub(crate) fn is_never_an_images(dest: &Path) -> bool {
    NEVER_AN_IMAGES
        .iter()
        .any(|name| dest.starts_with(Path::new("/").join(name)))
}

/// Whether nothing of another root is at a place or above it, but the root.
pub(crate) fn is_own(dest: &Path) -> bool {
    BUILT
        .iter()
        .any(|name| *name != "etc" && dest.starts_with(Path::new("/").join(name)))
}

/// Top-level entries of another root, but for those that are built or hidden.
fn rootfs_system(root: &OtherRoot) -> Vec<SystemEntry> {
    let built = |name: &std::ffi::OsString| {
        let own = BUILT.iter().any(|built| name == *built);
        own && !(root.is_image() && name == "app")
    };
    root.names(Path::new("."))
        .into_iter()
        .filter(|name| !built(name))
        .map(PathBuf::from)
        .filter(|name| !root.hides(name))
        .filter_map(|name| shown_entry(root, &name))
        .collect()
}

fn shown_entry(root: &OtherRoot, below: &Path) -> Option<SystemEntry> {
    let (source, dest) = (root.path().join(below), Path::new("/").join(below));
    Some(match root.look(below)? {
        Found::Link(target) => SystemEntry::Link { dest, target },
        Found::Directory => SystemEntry::Directory { source, dest },
        Found::File => SystemEntry::File { source, dest },
    })
}

/// What an image has in directories that are the sandbox's own. Through a link that stands for one of
/// them nothing is looked at.
fn among_own(root: &OtherRoot) -> Vec<SystemEntry> {
    if !root.is_image() {
        return Vec::new();
    }
    let mut entries = Vec::new();
    for above in AMONG {
        let whole = Path::new(above).ancestors().all(|above| {
            above.as_os_str().is_empty() || root.look(above) == Some(Found::Directory)
        });
        if !whole {
            continue;
        }
        for name in root.names(Path::new(above)) {
            let below = Path::new(above).join(name);
            if !OWN_AMONG.iter().any(|own| below == Path::new(own)) {
                entries.extend(shown_entry(root, &below));
            }
        }
    }
    entries
}

/// What is hidden inside of what is shown of another root; an entry that is
/// hidden whole is not shown at all.
fn deep_masks(root: &OtherRoot) -> Vec<Mask> {
    let deep = |mask: &&Mask| {
        let shown = if mask.below.starts_with("etc") { 2 } else { 1 };
        mask.below.components().count() > shown
    };
    root.masks().iter().filter(deep).cloned().collect()
}

/// What [`host_etc`] looks at first: when none of these has changed, neither
/// has what it finds, but for what is deeper in directories.
pub(crate) fn etc_sources() -> Vec<PathBuf> {
    let etc = Path::new("/etc");
    SYSTEM
        .iter()
        .map(PathBuf::from)
        .chain([etc.to_owned()])
        .chain(ETC_FILES.iter().map(|name| etc.join(name)))
        .chain(ETC_BELOW.iter().map(|name| etc.join(name)))
        .collect()
}

/// What of the host's /etc is shown.
pub(crate) fn host_etc() -> Vec<EtcEntry> {
    let etc = Path::new("/etc");
    let mut entries: Vec<EtcEntry> = ETC_FILES
        .iter()
        .map(|name| PathBuf::from(*name))
        .chain(ETC_BELOW.iter().map(PathBuf::from))
        .filter_map(|name| etc_file(etc, name))
        .collect();
    let mut names: Vec<_> = fs::read_dir(etc)
        .map(|read| {
            read.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .collect()
        })
        .unwrap_or_default();
    names.sort();
    for name in names {
        let wanted = ETC_DIRECTORIES.iter().any(|pattern| {
            pattern
                .strip_suffix('*')
                .map_or(name == *pattern, |start| name.starts_with(start))
        });
        let path = etc.join(&name);
        if wanted && fs::metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            entries.push(EtcEntry {
                name: name.into(),
                kind: EtcKind::Directory(path),
            });
        }
    }
    entries
}

/// A file that everybody may read; a link to one outside /etc stays a link.
fn etc_file(etc: &Path, name: PathBuf) -> Option<EtcEntry> {
    let path = etc.join(&name);
    if let Ok(target) = fs::read_link(&path)
        && (target.starts_with("/usr") || target.starts_with("../usr"))
    {
        return Some(EtcEntry {
            name,
            kind: EtcKind::Link(target),
        });
    }
    let meta = fs::metadata(&path).ok()?;
    let public = meta.is_file() && meta.permissions().mode() & 0o004 != 0;
    if !public || meta.size() > ETC_FILE_MAX {
        return None;
    }
    Some(EtcEntry {
        name,
        kind: EtcKind::File(fs::read(&path).ok()?),
    })
}

/// All of another root's /etc: it is the sandbox's own.
fn whole_etc(root: &OtherRoot) -> Vec<EtcEntry> {
    let etc = Path::new("etc");
    root.names(etc)
        .into_iter()
        .filter(|name| !root.hides(&etc.join(name)))
        .filter_map(|name| whole_etc_entry(root, name.into()))
        .collect()
}

/// Refuses a root of whose /etc more would be copied than is reasonable: it is a stranger's, and what is copied is
/// gig's own memory.
///
/// # Errors
/// [`StartSandboxError::RootfsEtc`].
pub(crate) fn refuse_large_etc(root: &OtherRoot) -> Result<(), StartSandboxError> {
    let etc = Path::new("etc");
    let (mut files, mut octets) = (0, 0_u64);
    for name in root.names(etc) {
        let Some(size) = root.size_of_file(&etc.join(name)) else {
            continue;
        };
        files += 1;
        // Larger ones are not taken over.
        octets = octets.saturating_add(if size > ETC_FILE_MAX { 0 } else { size });
        if files > ETC_FILES_MOST || octets > ETC_MOST {
            return Err(StartSandboxError::RootfsEtc {
                path: root.path().to_owned(),
                files,
                octets,
            });
        }
    }
    Ok(())
}

fn whole_etc_entry(root: &OtherRoot, name: PathBuf) -> Option<EtcEntry> {
    let below = Path::new("etc").join(&name);
    let kind = match root.look(&below)? {
        Found::Link(target) => EtcKind::Link(target),
        Found::File => EtcKind::File(root.read(&below, ETC_FILE_MAX)?),
        Found::Directory if name == Path::new("ssl") || name == Path::new("pki") => {
            // Built files go in here, so only a file of the first level is taken over.
            let name = name.join("openssl.cnf");
            let below = below.join("openssl.cnf");
            let kind = match root.look(&below).filter(|_| !root.hides(&below))? {
                Found::Link(target) if target.starts_with("/usr") => EtcKind::Link(target),
                Found::Link(_) | Found::File => EtcKind::File(root.read(&below, ETC_FILE_MAX)?),
                Found::Directory => return None,
            };
            return Some(EtcEntry { name, kind });
        }
        Found::Directory => EtcKind::Directory(root.path().join(&below)),
    };
    Some(EtcEntry { name, kind })
}

fn proc_masks() -> Vec<ProcMask> {
    PROC_MASKS
        .iter()
        .filter_map(|path| {
            let directory = fs::symlink_metadata(path).ok()?.is_dir();
            Some(ProcMask {
                path: PathBuf::from(*path),
                directory,
            })
        })
        .collect()
}

/// Total memory.
fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}
