//! Making what a layer's reader says: below one directory, and within limits.
//!
//! Every directory is opened by the kernel beneath the first one and through no link, so a name cannot
//! lead elsewhere whatever was made before. Files are made new and never opened again. What an archive
//! says about owners, modes and times does not count: everything is gig's own and everybody may read it.

use std::ffi::OsStr;
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::{fmt, fs::File};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fchmod, linkat, mkdirat, openat, openat2,
    statat, symlinkat,
};
use rustix::io::Errno;

use super::limits::Limits;
use super::words::{Kind, Word};

mod remove;
mod seen;

use seen::Seen;

pub(super) use remove::names;

/// Why an image was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// An entry that would leave the directory, or means nothing.
    #[error("the image holds {name:?}, {why}")]
    Entry {
        /// Its name, cut.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Too much of something.
    #[error("the image holds more than {most} {what}")]
    Large {
        /// Of what.
        what: &'static str,
        /// The bound.
        most: u64,
    },
    /// What its reader found.
    #[error("a layer of the image is no archive that gig reads: {why:?}")]
    Layer {
        /// In the reader's words, which may be anybody's.
        why: String,
    },
    /// The reader ended early, or is told no more.
    #[error("a layer of the image breaks off, or is damaged within a file")]
    Broken(#[source] io::Error),
    /// The disk's fault.
    #[error("cannot write {name:?} of the image")]
    Write {
        /// Its name, cut.
        name: String,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
}

/// What was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stock {
    /// Files, directories, links, and what took them away.
    pub entries: u64,
    /// Octets of files.
    pub octets: u64,
    /// Devices and pipes, which are not made.
    pub left_out: u64,
}

/// A directory that becomes an image's root, layer by layer.
pub struct Unpacking {
    root: OwnedFd,
    limits: Limits,
    stock: Stock,
    /// Octets of names and of where links lead.
    names: u64,
    layer: Seen,
    /// The directory that was written to last.
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl fmt::Debug for Unpacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacking")
            .field("stock", &self.stock)
            .finish_non_exhaustive()
    }
}

/// What says in an entry's name that something is taken away.
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Names of a former file system's own.
const ITS_OWN: &[u8] = b".wh..wh.";
/// The kernel's bound of one name (`NAME_MAX`), and of a link's text (`PATH_MAX`, with its end).
const NAME_MAX: usize = 255;
const TARGET_MAX: usize = 4095;
/// Octets at a time.
const CHUNK: usize = 1 << 16;

const READABLE: Mode = Mode::from_raw_mode(0o644);
const EXECUTABLE: Mode = Mode::from_raw_mode(0o755);

impl Unpacking {
    /// Into this directory, which is empty.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn into_directory(path: &Path, limits: Limits) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty())?;
        fchmod(&root, EXECUTABLE)?;
        Ok(Self {
            root,
            limits,
            stock: Stock::default(),
            names: 0,
            layer: Seen::default(),
            last: None,
        })
    }

    /// Makes what the reader of the next layer says.
    ///
    /// # Errors
    /// If it says what must not be, or ends early. The directory is worth nothing then.
    pub fn layer(&mut self, mut from: impl Read) -> Result<(), UnpackError> {
        self.layer = Seen::default();
        loop {
            let word = Word::read(&mut from).map_err(UnpackError::Broken)?;
            match word.kind {
                Kind::End => return Ok(()),
                Kind::Failed => {
                    let why = String::from_utf8_lossy(&word.name)
                        .chars()
                        .take(300)
                        .collect();
                    return Err(UnpackError::Layer { why });
                }
                Kind::LeftOut => {
                    self.count_names(&word)?;
                    self.count(0)?;
                    self.stock.left_out = self.stock.left_out.saturating_add(1);
                }
                Kind::Directory | Kind::File | Kind::Link | Kind::Same => {
                    self.count_names(&word)?;
                    self.count(word.size)?;
                    self.make(&word, &mut from)?;
                }
            }
        }
    }

    /// What was made so far.
    #[must_use]
    pub const fn stock(&self) -> Stock {
        self.stock
    }

    /// Waits until all of it is on the disk.
    ///
    /// # Errors
    /// If the disk does not keep it.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.root)?)
    }

    /// One entry more, before anything is made of it.
    fn count(&mut self, octets: u64) -> Result<(), UnpackError> {
        self.stock.entries = self.stock.entries.saturating_add(1);
        self.stock.octets = self.stock.octets.saturating_add(octets);
        if self.stock.entries > self.limits.entries {
            let most = self.limits.entries;
            return Err(UnpackError::Large {
                what: "entries",
                most,
            });
        }
        if self.stock.octets > self.limits.unpacked {
            let most = self.limits.unpacked;
            return Err(UnpackError::Large {
                what: "octets",
                most,
            });
        }
        Ok(())
    }

    /// Directories and links are on the disk too.
    fn count_names(&mut self, word: &Word) -> Result<(), UnpackError> {
        let octets = word.name.len().saturating_add(word.target.len());
        self.names = self
            .names
            .saturating_add(u64::try_from(octets).unwrap_or(u64::MAX));
        if self.names > self.limits.names {
            return Err(UnpackError::Large {
                what: "octets of names",
                most: self.limits.names,
            });
        }
        Ok(())
    }

    fn make(&mut self, word: &Word, from: &mut impl Read) -> Result<(), UnpackError> {
        let place = self.place(&word.name)?;
        let Some((name, above)) = place.split_last() else {
            // The root itself.
            return match word.kind {
                Kind::Directory => Ok(()),
                _ => Err(refused(&word.name, "which would be the root itself")),
            };
        };
        if name.starts_with(WHITEOUT) {
            if word.size > 0 {
                return Err(refused(&word.name, "which takes away and has content"));
            }
            return self.take_away(name, above, &word.name);
        }
        let parent = self.parent(above, &word.name)?;
        let path = place.join(&b'/');
        self.layer.made(&place);
        let failed = |error: Errno| write_failed(&word.name, error);
        match word.kind {
            Kind::Directory => {
                if kind_at(&parent, name) != Some(FileType::Directory) {
                    self.clear(&parent, name).map_err(failed)?;
                    make_directory(&parent, name).map_err(failed)?;
                }
            }
            Kind::File => {
                self.clear(&parent, name).map_err(failed)?;
                file(&parent, name, word, from)?;
            }
            Kind::Link => {
                let target = link_target(word)?;
                self.clear(&parent, name).map_err(failed)?;
                symlinkat(OsStr::from_bytes(target), &parent, OsStr::from_bytes(name))
                    .map_err(failed)?;
            }
            Kind::Same => self.same(word, &parent, name, &path)?,
            Kind::LeftOut | Kind::End | Kind::Failed => {}
        }
        self.last = Some((above.join(&b'/'), parent));
        Ok(())
    }

    /// Another name of a file that an entry made.
    fn same(
        &mut self,
        word: &Word,
        parent: &OwnedFd,
        name: &[u8],
        path: &[u8],
    ) -> Result<(), UnpackError> {
        let nothing = || refused(&word.name, "a link to a file that is not there");
        let target = self.place(&word.target)?;
        if target.join(&b'/') == path {
            return Ok(());
        }
        let (file, above) = target.split_last().ok_or_else(nothing)?;
        let there = open_directory(&self.root, above).map_err(|_| nothing())?;
        let kind = kind_at(&there, file);
        if !matches!(kind, Some(FileType::RegularFile | FileType::Symlink)) {
            return Err(nothing());
        }
        let failed = |error: Errno| write_failed(&word.name, error);
        self.clear(parent, name).map_err(failed)?;
        let (old, new) = (OsStr::from_bytes(file), OsStr::from_bytes(name));
        linkat(&there, old, parent, new, AtFlags::empty()).map_err(|error| match error {
            Errno::NOENT => nothing(),
            error => failed(error),
        })
    }

    /// A whiteout: of one name, or of all that lower layers have in a directory.
    fn take_away(
        &mut self,
        name: &[u8],
        above: &[Vec<u8>],
        said: &[u8],
    ) -> Result<(), UnpackError> {
        self.last = None;
        let failed = |error: Errno| write_failed(said, error);
        let parent = match open_directory(&self.root, above) {
            Ok(parent) => parent,
            // Nothing to take anything from.
            Err(Errno::NOENT) => return Ok(()),
            Err(_) => return Err(refused(said, BELOW_A_LINK)),
        };
        if name == OPAQUE {
            return self.prune(&parent, above).map_err(failed);
        }
        let gone = name.strip_prefix(WHITEOUT).unwrap_or_default();
        if name.starts_with(ITS_OWN) {
            return Ok(());
        }
        if gone.is_empty() || gone == b"." || gone == b".." {
            return Err(refused(said, "which takes nothing away that has a name"));
        }
        let mut path = above.to_vec();
        path.push(gone.to_owned());
        if !self.layer.has_made(&seen::mark(&path)) {
            return self.clear(&parent, gone).map_err(failed);
        }
        match open_directory(&self.root, &path) {
            Ok(directory) => self.prune(&directory, &path).map_err(failed),
            Err(_) => Ok(()),
        }
    }

    /// The parts of a name: none of them leads up.
    fn place(&self, name: &[u8]) -> Result<Vec<Vec<u8>>, UnpackError> {
        if name.len() > self.limits.path {
            return Err(refused(name, "which is too long a name"));
        }
        let mut place = Vec::new();
        for part in name.split(|octet| *octet == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(refused(name, "which leads out of it")),
                part if part.len() > NAME_MAX => {
                    return Err(refused(name, "which is too long a name"));
                }
                part if part.contains(&0) => return Err(refused(name, "which is no name")),
                part => place.push(part.to_owned()),
            }
        }
        if place.len() > self.limits.depth {
            return Err(refused(name, "which is too deep"));
        }
        Ok(place)
    }

    /// The directory above an entry, made where it is not there.
    fn parent(&mut self, above: &[Vec<u8>], said: &[u8]) -> Result<OwnedFd, UnpackError> {
        if let Some((path, directory)) = self.last.take()
            && path == above.join(&b'/')
        {
            return Ok(directory);
        }
        match open_directory(&self.root, above) {
            Ok(directory) => return Ok(directory),
            Err(Errno::NOENT) => {}
            Err(Errno::LOOP) => return Err(refused(said, BELOW_A_LINK)),
            Err(_) => {
                return Err(refused(
                    said,
                    "which lies below something that is no directory",
                ));
            }
        }
        let mut directory = open_directory(&self.root, &[]).map_err(|e| write_failed(said, e))?;
        for part in above {
            match make_directory(&directory, part) {
                Ok(()) => self.count(0)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(write_failed(said, error)),
            }
            let one = std::slice::from_ref(part);
            directory = open_directory(&directory, one).map_err(|_| refused(said, BELOW_A_LINK))?;
        }
        Ok(directory)
    }
}

const BELOW_A_LINK: &str = "which lies below a link";

/// A name for a person to read: cut, and escaped by how it is shown.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(200).collect()
}

fn refused(name: &[u8], why: &'static str) -> UnpackError {
    UnpackError::Entry {
        name: shown(name),
        why,
    }
}

fn write_failed(name: &[u8], error: Errno) -> UnpackError {
    UnpackError::Write {
        name: shown(name),
        source: error.into(),
    }
}

/// A directory beneath another, through no link.
fn open_directory(from: &OwnedFd, below: &[Vec<u8>]) -> Result<OwnedFd, Errno> {
    let path = match below.is_empty() {
        true => b".".to_vec(),
        false => below.join(&b'/'),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(
        from,
        OsStr::from_bytes(&path),
        flags,
        Mode::empty(),
        resolve,
    )
}

/// What has this name, not following it.
fn kind_at(directory: &OwnedFd, name: &[u8]) -> Option<FileType> {
    let found = statat(
        directory,
        OsStr::from_bytes(name),
        AtFlags::SYMLINK_NOFOLLOW,
    )
    .ok()?;
    Some(FileType::from_raw_mode(found.st_mode))
}

fn make_directory(parent: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    mkdirat(parent, OsStr::from_bytes(name), EXECUTABLE)?;
    // Whatever mask of modes gig was started with.
    let made = open_directory(parent, &[name.to_owned()])?;
    fchmod(&made, EXECUTABLE)
}

/// A new file with as many octets as were announced.
fn file(
    parent: &OwnedFd,
    name: &[u8],
    word: &Word,
    from: &mut impl Read,
) -> Result<(), UnpackError> {
    let failed = |error: Errno| write_failed(&word.name, error);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = if word.executable {
        EXECUTABLE
    } else {
        READABLE
    };
    let made = openat(parent, OsStr::from_bytes(name), flags, mode).map_err(failed)?;
    fchmod(&made, mode).map_err(failed)?;
    let mut file = File::from(made);
    let mut left = word.size;
    let mut buffer = vec![0; CHUNK];
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let part = buffer.get_mut(..most).unwrap_or_default();
        from.read_exact(part).map_err(UnpackError::Broken)?;
        file.write_all(part).map_err(|source| UnpackError::Write {
            name: shown(&word.name),
            source,
        })?;
        left = left.saturating_sub(most as u64);
    }
    Ok(())
}

/// Where a symbolic link leads is the sandbox's affair; that it is a text is ours.
fn link_target(word: &Word) -> Result<&[u8], UnpackError> {
    let target = word.target.as_slice();
    if target.is_empty() || target.len() > TARGET_MAX || target.contains(&0) {
        return Err(refused(&word.name, "a link to what is no path"));
    }
    Ok(target)
}

#[cfg(test)]
mod tests;
