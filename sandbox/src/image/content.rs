//! A directory as one value: copied, and named by what is in it.
//!
//! The digest covers names, kinds, whether a file may be executed, octets and where links lead; not
//! owners, times or other modes, so that the same image has the same digest wherever it is unpacked.
//! Promises that no link is followed and that what is neither file, directory nor link is refused.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, fchmod, mkdirat, openat, readlinkat, statat, symlinkat,
};

use super::digest::{Digest, Digesting};
use super::limits::Limits;
use super::unpack::names;

/// Why a directory has no content.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// It cannot be read or written.
    #[error("cannot take {name:?}")]
    Take {
        /// What of it, cut.
        name: String,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// It holds something else.
    #[error("{name:?} is neither a file, a directory nor a link")]
    Kind {
        /// What, cut.
        name: String,
    },
    /// Too much of something.
    #[error("it holds more than {most} {what}")]
    Large {
        /// Of what.
        what: &'static str,
        /// The bound.
        most: u64,
    },
}

/// A directory or a file that is read whole, and perhaps copied.
#[derive(Debug)]
pub struct Content {
    digesting: Digesting,
    limits: Limits,
    entries: u64,
    octets: u64,
}

const READABLE: Mode = Mode::from_raw_mode(0o444);
const EXECUTABLE: Mode = Mode::from_raw_mode(0o555);
const DIRECTORY: Mode = Mode::from_raw_mode(0o755);
/// Octets at a time.
const CHUNK: usize = 1 << 16;

impl Content {
    /// The digest of what is at a path: a directory, or one file.
    ///
    /// # Errors
    /// If it cannot be read, or is more than content may be.
    pub fn of(path: &Path, limits: Limits) -> Result<Digest, ContentError> {
        Self::taken(path, None, limits)
    }

    /// Copies a directory, or a file, and says what it is. Everybody may read the copy, and nobody write
    /// a file of it.
    ///
    /// # Errors
    /// If it cannot be read or written, or is more than content may be.
    pub fn copy(from: &Path, to: &Path, limits: Limits) -> Result<Digest, ContentError> {
        Self::taken(from, Some(to), limits)
    }

    fn taken(from: &Path, to: Option<&Path>, limits: Limits) -> Result<Digest, ContentError> {
        let mut content = Self {
            digesting: Digesting::default(),
            limits,
            entries: 0,
            octets: 0,
        };
        let name = from.as_os_str().as_bytes();
        let failed = |error: rustix::io::Errno| take_failed(name, error.into());
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let source = openat(CWD, from, flags, Mode::empty()).map_err(failed)?;
        let kind = rustix::fs::fstat(&source).map_err(failed)?.st_mode;
        match FileType::from_raw_mode(kind) {
            FileType::RegularFile => {
                let target = to.map(|to| new_file(CWD, to.as_os_str())).transpose();
                content.file(source, target.map_err(failed)?, b"")?;
            }
            FileType::Directory => {
                let target = to.map(|to| new_directory(CWD, to.as_os_str())).transpose();
                content.directory(&source, target.map_err(failed)?.as_ref(), &mut Vec::new())?;
            }
            _ => return Err(ContentError::Kind { name: shown(name) }),
        }
        Ok(content.digesting.finish())
    }

    fn directory(
        &mut self,
        from: &OwnedFd,
        to: Option<&OwnedFd>,
        path: &mut Vec<Vec<u8>>,
    ) -> Result<(), ContentError> {
        if path.len() > self.limits.depth {
            return Err(self.large("directories within each other", self.limits.depth as u64));
        }
        let mut inner =
            names(from).map_err(|error| take_failed(&path.join(&b'/'), error.into()))?;
        inner.sort();
        for name in inner {
            path.push(name);
            self.entry(from, to, path)?;
            path.pop();
        }
        Ok(())
    }

    fn entry(
        &mut self,
        from: &OwnedFd,
        to: Option<&OwnedFd>,
        path: &mut Vec<Vec<u8>>,
    ) -> Result<(), ContentError> {
        let whole = path.join(&b'/');
        let failed = |error: rustix::io::Errno| take_failed(&whole, error.into());
        self.entries = self.entries.saturating_add(1);
        if self.entries > self.limits.entries {
            return Err(self.large("entries", self.limits.entries));
        }
        let name = path.last().cloned().unwrap_or_default();
        let name = OsStr::from_bytes(&name);
        let about = statat(from, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let open = |flags| {
            let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            openat(from, name, flags, Mode::empty())
        };
        match FileType::from_raw_mode(about.st_mode) {
            FileType::Directory => {
                self.say(b'd', &whole, b"");
                let source = open(OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
                let target = to.map(|to| new_directory(to, name)).transpose();
                self.directory(&source, target.map_err(failed)?.as_ref(), path)
            }
            FileType::RegularFile => {
                let source = open(OFlags::RDONLY).map_err(failed)?;
                let target = to.map(|to| new_file(to, name)).transpose();
                self.file(source, target.map_err(failed)?, &whole)
            }
            FileType::Symlink => {
                let target = readlinkat(from, name, Vec::new()).map_err(failed)?;
                self.say(b'l', &whole, target.as_bytes());
                match to {
                    Some(to) => symlinkat(&target, to, name).map_err(failed),
                    None => Ok(()),
                }
            }
            _ => Err(ContentError::Kind {
                name: shown(&whole),
            }),
        }
    }

    fn file(
        &mut self,
        from: OwnedFd,
        to: Option<OwnedFd>,
        path: &[u8],
    ) -> Result<(), ContentError> {
        let failed = |error: io::Error| take_failed(path, error);
        let about = rustix::fs::fstat(&from).map_err(|error| failed(error.into()))?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(ContentError::Kind { name: shown(path) });
        }
        let executable = about.st_mode & 0o111 != 0;
        let mut own = Digesting::default();
        let (mut from, mut to) = (File::from(from), to.map(File::from));
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = from.read(&mut buffer).map_err(failed)?;
            let Some(octets) = buffer.get(..count).filter(|octets| !octets.is_empty()) else {
                break;
            };
            self.octets = self.octets.saturating_add(count as u64);
            if self.octets > self.limits.unpacked {
                return Err(self.large("octets", self.limits.unpacked));
            }
            own.update(octets);
            if let Some(to) = &mut to {
                to.write_all(octets).map_err(failed)?;
            }
        }
        if let Some(to) = &to {
            let mode = if executable { EXECUTABLE } else { READABLE };
            fchmod(to, mode).map_err(|error| failed(error.into()))?;
        }
        let kind = if executable { b'x' } else { b'f' };
        self.say(kind, path, own.finish().hex().as_bytes());
        Ok(())
    }

    /// Each part with its length: no two contents are told alike.
    fn say(&mut self, kind: u8, path: &[u8], what: &[u8]) {
        self.digesting.update(&[kind]);
        for part in [path, what] {
            self.digesting.update(&(part.len() as u64).to_le_bytes());
            self.digesting.update(part);
        }
    }

    fn large(&self, what: &'static str, most: u64) -> ContentError {
        ContentError::Large { what, most }
    }
}

fn new_directory(at: impl std::os::fd::AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let at = at.as_fd();
    mkdirat(at, name, DIRECTORY)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(at, name, flags, Mode::empty())?;
    fchmod(&made, DIRECTORY)?;
    Ok(made)
}

fn new_file(at: impl std::os::fd::AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::RUSR | Mode::WUSR)
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(200).collect()
}

fn take_failed(name: &[u8], source: io::Error) -> ContentError {
    ContentError::Take {
        name: shown(name),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("from/sub")).unwrap();
        fs::write(dir.path().join("from/run"), "#!").unwrap();
        fs::write(dir.path().join("from/sub/file"), "text").unwrap();
        symlink("/etc/shadow", dir.path().join("from/link")).unwrap();
        let mode = fs::Permissions::from_mode(0o4700);
        fs::set_permissions(dir.path().join("from/run"), mode).unwrap();
        dir
    }

    fn of(path: &Path) -> String {
        Content::of(path, Limits::DEFAULT).unwrap().to_string()
    }

    #[test]
    fn a_copy_has_the_content_of_what_was_copied() {
        let dir = folder();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let copied = Content::copy(&from, &to, Limits::DEFAULT)
            .unwrap()
            .to_string();
        assert_eq!((of(&from), of(&to)), (copied.clone(), copied));
        let mode = |name: &str| fs::metadata(to.join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(
            (mode("run"), mode("sub/file"), mode("sub")),
            (0o555, 0o444, 0o755)
        );
        assert_eq!(
            fs::read_link(to.join("link")).unwrap(),
            Path::new("/etc/shadow")
        );
        assert!(
            Content::copy(&from, &to, Limits::DEFAULT).is_err(),
            "it is there"
        );
    }

    #[test]
    fn every_change_is_another_content() {
        let dir = folder();
        let from = dir.path().join("from");
        let mut seen = vec![of(&from)];
        let mut changed = |what: &str| {
            let now = of(&from);
            assert!(!seen.contains(&now), "{what}");
            seen.push(now);
        };
        fs::write(from.join("sub/file"), "texT").unwrap();
        changed("an octet");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(from.join("sub/file"), mode).unwrap();
        changed("whether it is executed");
        fs::rename(from.join("sub/file"), from.join("sub/other")).unwrap();
        changed("a name");
        fs::remove_file(from.join("link")).unwrap();
        symlink("/etc/passwd", from.join("link")).unwrap();
        changed("where a link leads");
        fs::create_dir(from.join("empty")).unwrap();
        changed("a directory");
        // Two files are not one with both texts.
        fs::write(from.join("sub/two"), "").unwrap();
        changed("an empty file");
    }

    #[test]
    fn what_is_no_content_is_refused() {
        let dir = folder();
        let from = dir.path().join("from");
        let small = Limits {
            unpacked: 5,
            ..Limits::DEFAULT
        };
        assert!(Content::of(&from, small).is_err());
        let few = Limits {
            entries: 3,
            ..Limits::DEFAULT
        };
        assert!(Content::of(&from, few).is_err());
        rustix::fs::mkfifoat(CWD, from.join("pipe"), Mode::RUSR).unwrap();
        assert!(matches!(
            Content::of(&from, Limits::DEFAULT),
            Err(ContentError::Kind { .. })
        ));
        assert!(
            Content::of(&from.join("link"), Limits::DEFAULT).is_err(),
            "a link"
        );
    }
}
