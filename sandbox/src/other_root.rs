//! Another root file system: reading it without ever leaving it.
//!
//! Whoever made it chose its links, and gig may read more of the host than the
//! sandbox may. So it is opened once, and everything in it is opened beneath
//! that directory, as the kernel would if it were the root: an absolute link, or
//! one with dots, leads to where it will lead inside. What is shown of it is
//! mounted by name, later and by others, so [`OtherRoot::identities`] says what
//! must stand there then. What is hidden in it is decided by `binds`.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, ResolveFlags, openat2, readlinkat};
use rustix::io::Errno;

use crate::bootstrap::orders::Shown;
use crate::error::StartSandboxError;
use crate::facts;
use crate::layers::binds::{self, Hidden};
use crate::layers::mounts::Mask;

/// A directory that is to be a sandbox's root.
#[derive(Debug)]
pub(crate) struct OtherRoot {
    /// On the host; canonical.
    path: PathBuf,
    /// Itself.
    directory: OwnedFd,
    /// What is not shown of it.
    masks: Vec<Mask>,
    /// Whether the caller unpacked it from an image.
    image: bool,
}

/// What is at a place, not following a link there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A link, and where it points.
    Link(PathBuf),
}

/// A rename anywhere on the host makes the kernel give up a path with dots; how
/// often it is asked again. Each time takes another rename within microseconds.
const ATTEMPTS: u32 = 1000;

/// Where one distribution keeps its certificates, of all that is not shown of a
/// root; its /etc has links there.
const PUBLIC_ROOTS: &str = "/var/lib/ca-certificates";

/// File systems that tell of the kernel and of who reads, gig: proc, sysfs,
/// cgroup, cgroup2, debugfs, tracefs, securityfs, configfs, bpf, pstore, efivarfs,
/// selinuxfs, smackfs, binfmt_misc, mqueue, devpts, nsfs, fusectl.
const KERNELS: [u32; 18] = [
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0xcafe_4a11,
    0x6165_676c,
    0xde5e_81e4,
    0xf97c_ff8c,
    0x4341_5d53,
    0x4249_4e4d,
    0x1980_0202,
    0x1cd1,
    0x6e73_6673,
    0x6573_5543,
];

impl OtherRoot {
    /// Vets a directory as a root: nobody's home, and something to run in it.
    pub(crate) fn vet(path: &Path, hidden: &Hidden) -> Result<Self, StartSandboxError> {
        let (canonical, masks) = binds::vet_root(path, hidden)?;
        let not_one = || StartSandboxError::Rootfs {
            path: path.to_owned(),
        };
        let directory = binds::open_vetted(&canonical).map_err(|_| not_one())?;
        let root = Self {
            path: canonical,
            directory,
            masks,
            image: false,
        };
        if root.is_directory("usr") || root.is_directory("bin") {
            Ok(root)
        } else {
            Err(not_one())
        }
    }

    /// A root that the caller unpacked. It is the caller's own and was a stranger's: nothing in it is
    /// anybody's credential, and its links are as little trusted as any root's.
    pub(crate) fn of_image(path: &Path) -> Result<Self, StartSandboxError> {
        let not_one = || StartSandboxError::Rootfs {
            path: path.to_owned(),
        };
        let canonical = fs::canonicalize(path).map_err(|_| not_one())?;
        let directory = binds::open_vetted(&canonical).map_err(|_| not_one())?;
        let root = Self {
            path: canonical,
            directory,
            masks: Vec::new(),
            image: true,
        };
        root.is_directory(".").then_some(root).ok_or_else(not_one)
    }

    /// Whether it is an image's.
    pub(crate) const fn is_image(&self) -> bool {
        self.image
    }

    /// Whether nothing of it is shown at a place or above it.
    pub(crate) fn has_nothing_at(&self, dest: &Path) -> bool {
        if self.image {
            facts::is_never_an_images(dest)
        } else {
            facts::is_own(dest)
        }
    }

    /// On the host; canonical.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is hidden in it, but for what is not shown anyway.
    pub(crate) fn masks(&self) -> &[Mask] {
        &self.masks
    }

    /// Whether something below it is not to be shown.
    pub(crate) fn hides(&self, below: &Path) -> bool {
        self.masks.iter().any(|mask| below.starts_with(&mask.below))
    }

    /// Whether there is a directory, also by a link.
    pub(crate) fn is_directory(&self, below: impl AsRef<Path>) -> bool {
        self.open(below.as_ref(), OFlags::PATH | OFlags::DIRECTORY)
            .is_ok()
    }

    /// What there is, if it is one of the three.
    pub(crate) fn look(&self, below: &Path) -> Option<Found> {
        let file = File::from(self.open(below, OFlags::PATH | OFlags::NOFOLLOW).ok()?);
        let kind = file.metadata().ok()?.file_type();
        if kind.is_symlink() {
            let target = readlinkat(&file, "", Vec::new()).ok()?;
            return Some(Found::Link(OsString::from_vec(target.into_bytes()).into()));
        }
        let directory = kind.is_dir().then_some(Found::Directory);
        directory.or_else(|| kind.is_file().then_some(Found::File))
    }

    /// The names in a directory that no link leads to, in order.
    pub(crate) fn names(&self, below: &Path) -> Vec<OsString> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let listed = self.open(below, flags).ok().and_then(|directory| {
            let entries = Dir::new(directory).ok()?.filter_map(Result::ok);
            let names =
                entries.map(|entry| OsString::from_vec(entry.file_name().to_bytes().into()));
            Some(names.filter(|name| name != "." && name != "..").collect())
        });
        let mut names: Vec<_> = listed.unwrap_or_default();
        names.sort();
        names
    }

    /// A file's bytes, also by a link, if it is no larger than that and stands
    /// where it could be shown: a link may lead to what is hidden. A hard link to
    /// something hidden is a file of the root's own. As root gig could read what
    /// nobody in the sandbox may: then only what everybody may.
    pub(crate) fn read(&self, below: &Path, at_most: u64) -> Option<Vec<u8>> {
        // Opening a pipe must not wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.open(below, flags).ok()?);
        if !self.shows(&file) {
            return None;
        }
        let meta = file.metadata().ok()?;
        if !meta.is_file() || meta.len() > at_most || !may_be_seen(&meta) {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(at_most.saturating_add(1))
            .read_to_end(&mut bytes)
            .ok()?;
        u64::try_from(bytes.len())
            .is_ok_and(|size| size <= at_most)
            .then_some(bytes)
    }

    /// How long a file is, in octets; `None` where it is none, or a link.
    pub(crate) fn size_of_file(&self, below: &Path) -> Option<u64> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let meta = File::from(self.open(below, flags).ok()?).metadata().ok()?;
        meta.is_file().then_some(meta.len())
    }

    /// Whether the place of an open file is one that is shown, and its bytes the
    /// root's rather than the kernel's.
    fn shows(&self, file: &File) -> bool {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let Ok(path) = path else { return false };
        let Ok(below) = path.strip_prefix(&self.path) else {
            return false;
        };
        let dest = Path::new("/").join(below);
        let own = facts::is_own(&dest) && !dest.starts_with(PUBLIC_ROOTS);
        !own && !self.hides(below) && is_stored(file)
    }

    /// What must stand at each of these places, which show what it has there.
    pub(crate) fn identities(&self, places: &[PathBuf]) -> io::Result<Vec<Shown>> {
        places.iter().map(|place| self.identity(place)).collect()
    }

    fn identity(&self, dest: &Path) -> io::Result<Shown> {
        let found = File::from(self.open(dest, OFlags::PATH | OFlags::NOFOLLOW)?).metadata()?;
        Ok(Shown {
            path: dest.as_os_str().as_encoded_bytes().to_vec(),
            device: found.dev(),
            inode: found.ino(),
        })
    }

    fn open(&self, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let mut outcome = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS {
            outcome = openat2(&self.directory, below, flags, Mode::empty(), resolve);
            if !matches!(outcome, Err(Errno::AGAIN)) {
                break;
            }
        }
        Ok(outcome?)
    }
}

/// Whether a file's bytes are kept, not made up by the kernel as they are read.
fn is_stored(file: &File) -> bool {
    let Ok(found) = rustix::fs::fstatfs(file) else {
        return false;
    };
    let is = |magic: &u32| i128::from(found.f_type) & 0xffff_ffff == i128::from(*magic);
    !KERNELS.iter().any(is)
}

fn may_be_seen(meta: &Metadata) -> bool {
    const EVERYBODY_MAY_READ: u32 = 0o004;
    meta.permissions().mode() & EVERYBODY_MAY_READ != 0 || !rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::facts::{EtcKind, Facts, SystemEntry};

    /// A root with a way out by every kind of link, and the key outside of it.
    fn leaky() -> (tempfile::TempDir, OtherRoot) {
        let dir = tempfile::tempdir().unwrap();
        let outside = fs::canonicalize(dir.path()).unwrap();
        let root = outside.join("root");
        for name in ["usr/bin", "etc/ssl", "etc/real", "lib"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(outside.join("key"), "secret").unwrap();
        fs::write(root.join("etc/own"), "own").unwrap();
        for (link, target) in [
            ("etc/ssl/openssl.cnf", "key"),
            ("etc/absolute", "key"),
            ("etc/directory", ""),
        ] {
            symlink(outside.join(target), root.join(link)).unwrap();
        }
        symlink("../../key", root.join("etc/relative")).unwrap();
        symlink("../../etc/own", root.join("etc/inside")).unwrap();
        symlink(format!("/proc/self/fd/{}", 0), root.join("etc/magic")).unwrap();
        let root = OtherRoot::vet(&root, &Hidden::of_homes(&[])).unwrap();
        (dir, root)
    }

    #[test]
    fn nothing_is_read_but_what_is_in_it() {
        let (_dir, root) = leaky();
        for name in [
            "etc/ssl/openssl.cnf",
            "etc/absolute",
            "etc/relative",
            "etc/magic",
        ] {
            assert_eq!(root.read(Path::new(name), 99), None, "{name}");
        }
        assert!(!root.is_directory("etc/directory"));
        for name in ["etc/own", "etc/inside", "/etc/own", "../../etc/own"] {
            assert_eq!(root.read(Path::new(name), 99).unwrap(), b"own", "{name}");
        }
        assert_eq!(root.read(Path::new("etc/own"), 2), None);
        assert_eq!(root.read(Path::new("etc/real"), 99), None);
    }

    #[test]
    fn a_link_to_what_is_hidden_in_it_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap();
        for name in [
            "usr",
            "etc",
            "people/.aws",
            "home/x/.ssh",
            "proc",
            "var/lib/ca-certificates",
        ] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        let hidden = ["people/.aws/credentials", "home/x/.ssh/id", "proc/version"];
        let shown = ["usr/file", "var/lib/ca-certificates/ca-bundle.pem"];
        for (number, target) in hidden.iter().chain(&shown).enumerate() {
            fs::write(path.join(target), "text").unwrap();
            let link = path.join(format!("etc/{number}"));
            symlink(Path::new("/").join(target), link).unwrap();
        }
        let root = OtherRoot::vet(&path, &Hidden::of_homes(&[])).unwrap();
        let read = |number| root.read(Path::new(&format!("etc/{number}")), 99);
        assert_eq!([read(0), read(1), read(2)], [None, None, None]);
        assert_eq!(read(3).unwrap(), b"text");
        assert_eq!(read(4).unwrap(), b"text");
    }

    #[test]
    fn what_the_kernel_says_is_nothing_of_it() {
        for path in ["/proc", "/sys"].map(PathBuf::from) {
            let root = OtherRoot {
                directory: binds::open_vetted(&path).unwrap(),
                path,
                masks: Vec::new(),
                image: false,
            };
            for name in ["version", "self/status", "kernel/uevent_seqnum"] {
                assert_eq!(root.read(Path::new(name), 9999), None, "{name}");
            }
        }
    }

    #[test]
    fn what_is_shown_of_it_is_its_own() {
        let (dir, root) = leaky();
        let facts = Facts::read(Some(&root));
        for entry in &facts.etc {
            match &entry.kind {
                EtcKind::File(bytes) => assert_eq!(bytes, b"own", "{entry:?}"),
                EtcKind::Directory(source) => assert_eq!(*source, root.path().join("etc/real")),
                EtcKind::Link(_) => {}
            }
        }
        assert!(
            !facts
                .etc
                .iter()
                .any(|entry| entry.name == Path::new("ssl/openssl.cnf"))
        );
        assert_eq!(facts.system.len(), 2);
        // Exchanged for a link, there is nothing to show any more.
        fs::remove_dir(root.path().join("lib")).unwrap();
        symlink(dir.path(), root.path().join("lib")).unwrap();
        let exchanged = Facts::read(Some(&root)).system;
        let link = |entry: &SystemEntry| matches!(entry, SystemEntry::Link { .. });
        assert_eq!(exchanged.iter().filter(|entry| link(entry)).count(), 1);
    }

    #[test]
    fn an_etc_that_is_a_link_shows_nothing() {
        let (dir, root) = leaky();
        fs::rename(root.path().join("etc"), dir.path().join("etc")).unwrap();
        symlink(dir.path().join("etc"), root.path().join("etc")).unwrap();
        assert_eq!(Facts::read(Some(&root)).etc, []);
    }

    #[test]
    fn no_more_of_an_etc_is_copied_than_is_reasonable() {
        use crate::facts::{ETC_FILES_MOST, refuse_large_etc};
        let (_dir, root) = leaky();
        let etc = root.path().join("etc");
        let before = fs::read_dir(&etc).unwrap().count();
        for number in before..ETC_FILES_MOST {
            fs::write(etc.join(format!("more-{number}")), "x").unwrap();
        }
        refuse_large_etc(&root).unwrap();
        // Links to one file are as many copies of it.
        let whole = etc.join("whole");
        fs::write(&whole, vec![b'x'; 4 << 20]).unwrap();
        for number in 0..4 {
            fs::hard_link(&whole, etc.join(format!("link-{number}"))).unwrap();
        }
        for number in before..before + 10 {
            fs::remove_file(etc.join(format!("more-{number}"))).unwrap();
        }
        let refused = refuse_large_etc(&root).unwrap_err().to_string();
        assert!(refused.contains("at most 700 files"), "{refused}");
        fs::remove_file(whole).unwrap();
        for number in 0..4 {
            fs::remove_file(etc.join(format!("link-{number}"))).unwrap();
        }
        refuse_large_etc(&root).unwrap();
        for number in 0..20 {
            fs::write(etc.join(format!("last-{number}")), "").unwrap();
        }
        assert!(refuse_large_etc(&root).is_err());
    }

    #[test]
    fn a_pipe_in_it_is_not_waited_for() {
        let (_dir, root) = leaky();
        let pipe = root.path().join("etc/pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::ROTH).unwrap();
        assert_eq!(root.read(Path::new("etc/pipe"), 99), None);
    }

    #[test]
    fn a_home_is_no_root_and_neither_is_what_shows_one() {
        let dir = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(dir.path()).unwrap().join("srv/alice");
        for name in ["bin", "home/bob", ".ssh"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        fs::create_dir_all(home.with_file_name("bin")).unwrap();
        let other = home.join("home/bob");
        for root in [home.as_path(), home.parent().unwrap()] {
            let refused = OtherRoot::vet(root, &Hidden::of_homes(&[&home]));
            let words = refused.unwrap_err();
            let words = std::error::Error::source(&words).unwrap().to_string();
            assert!(words.contains("somebody's home"), "{words}");
        }
        // Where the sandbox has a directory of its own, nothing of the root is shown.
        let root = OtherRoot::vet(&home, &Hidden::of_homes(&[&other])).unwrap();
        assert!(root.hides(Path::new(".ssh/id")) && !root.hides(Path::new("bin")));
    }

    #[test]
    fn credentials_in_it_are_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap();
        for name in [
            "bin",
            ".ssh",
            ".config/gcloud",
            "people/.aws",
            "etc/.kube",
            "etc/.config/gh",
            "var/.ssh",
        ] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        fs::write(path.join(".netrc"), "").unwrap();
        let facts = Facts::read(Some(
            &OtherRoot::vet(&path, &Hidden::of_homes(&[])).unwrap(),
        ));
        let shown: Vec<_> = facts
            .system
            .iter()
            .map(|entry| format!("{entry:?}"))
            .collect();
        assert_eq!(shown.len(), 3, "{shown:?}");
        assert_eq!(facts.etc.len(), 1, "{:?}", facts.etc);
        let masks: Vec<_> = facts
            .masks
            .iter()
            .map(|mask| mask.below.as_path())
            .collect();
        assert_eq!(
            masks,
            [".config/gcloud", "etc/.config/gh", "people/.aws"].map(Path::new)
        );
    }
}
