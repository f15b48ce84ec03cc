//! Vetting the caller's mounts: what may be shown, and what is hidden in it.
//!
//! Credential directories are never visible, even when a parent is shown: one
//! that lies in a shown directory is covered, one that is shown itself is
//! refused, by whatever link or mount it is reached. So are the caller's own private
//! paths. Unix sockets of the host are covered in what is shown around them, and
//! shown where they are named. So is a view into the host's kernel that is mounted in what is shown. A home that is shown to be read is made of what it
//! holds at the start. What appears in other folders after it is not covered; a
//! cover that comes away there is noticed ([`crate::watch`]).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

pub(crate) use hidden::Hidden;
use hidden::{existing, gigs};
use places::CREDENTIALS;
pub use places::{IMAGES, RUNS, is_run_file};

use crate::bootstrap::orders::Shown;
use crate::facts;
use crate::layers::mounts::{Mask, VettedBind};
use crate::other_root::OtherRoot;
use crate::spec::{Bind, BindMode};

mod aliases;
mod hidden;
mod home;
mod places;
mod sockets;
mod views;

/// Why a mount is refused.
#[derive(Debug, thiserror::Error)]
pub enum RefuseBindError {
    /// It cannot be looked at.
    #[error("{path} cannot be shown in the sandbox")]
    Unreadable {
        /// As it was given.
        path: PathBuf,
        /// The kernel's reason.
        #[source]
        source: io::Error,
    },
    /// It is the whole host, or a view into the kernel.
    #[error(
        "{path} cannot be shown in the sandbox: it would show the host; name the directories that the program needs"
    )]
    Host {
        /// As it was given.
        path: PathBuf,
    },
    /// It holds credentials.
    #[error(
        "{path} cannot be shown in the sandbox: {credential} holds credentials; copy the one file that the program needs elsewhere, or hand a secret over by --secret"
    )]
    Credential {
        /// As it was given.
        path: PathBuf,
        /// What it is or lies in.
        credential: PathBuf,
    },
    /// As a root it would show a home.
    #[error(
        "{path} cannot be the sandbox's root: it would show {home}, which is somebody's home; name a directory made for it, or show what the program needs by --ro"
    )]
    Home {
        /// As it was given.
        path: PathBuf,
        /// What it is or what it shows.
        home: PathBuf,
    },
    /// It is gig's.
    #[error("{path} cannot be shown in the sandbox: {private} is gig's own")]
    Private {
        /// As it was given.
        path: PathBuf,
        /// What it is or lies in.
        private: PathBuf,
    },
    /// The place inside is not a place.
    #[error(
        "{dest} is no place for a mount: it must be an absolute path without dots, and not the root"
    )]
    Destination {
        /// As it was given.
        dest: PathBuf,
    },
    /// The place inside leads elsewhere.
    #[error("{dest} is no place for a mount: {link} is a symbolic link in what it would lie in")]
    Link {
        /// As it was given.
        dest: PathBuf,
        /// The link, on the host.
        link: PathBuf,
    },
    /// It is not a directory, a file or a socket.
    #[error("{path} cannot be shown in the sandbox: only directories, files and Unix sockets can")]
    Kind {
        /// As it was given.
        path: PathBuf,
    },
}

/// Views into the kernel, and devices.
const HOST_VIEWS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Vets all of them.
pub(crate) fn vet(binds: &[Bind], hidden: &Hidden) -> Result<Vec<VettedBind>, RefuseBindError> {
    let mut vetted = binds
        .iter()
        .map(|bind| vet_one(bind, hidden))
        .collect::<Result<Vec<_>, _>>()?;
    // What is shown at the very place of a hidden file covers that by itself.
    let places: Vec<PathBuf> = vetted.iter().map(|bind| bind.dest.clone()).collect();
    for VettedBind { dest, masks, .. } in &mut vetted {
        masks.retain(|mask| mask.directory || !places.contains(&dest.join(&mask.below)));
    }
    for inner in &vetted {
        for outer in &vetted {
            refuse_link(inner, outer)?;
        }
    }
    for bind in &mut vetted {
        bind.frame = home::frame(bind, hidden);
        if bind.frame.is_some() {
            // In its pieces; and what lies right in it is not there.
            bind.masks.clear();
        }
    }
    Ok(vetted)
}

/// Of what is shown and is nobody's home, such as a project, the places where programs keep credentials: whoever reads
/// such a file there (git, npm) fails, though it may hold none. Where each is, and where it would be inside.
pub(crate) fn covered_in_projects(
    binds: &[VettedBind],
    hidden: &Hidden,
) -> Vec<(PathBuf, PathBuf)> {
    let homes = hidden.homes();
    let is_credential = |path: &Path| CREDENTIALS.iter().any(|name| path.ends_with(name));
    let in_a_home = |path: &Path| {
        let mut below = homes.iter().filter_map(|home| path.strip_prefix(home).ok());
        below.any(|below| CREDENTIALS.iter().any(|name| below == Path::new(name)))
    };
    let masked = binds.iter().flat_map(|bind| {
        let masks = bind.masks.iter();
        masks.map(|mask| (bind.source.join(&mask.below), bind.dest.join(&mask.below)))
    });
    masked
        .filter(|(path, _)| is_credential(path) && !in_a_home(path))
        .collect()
}

/// A source alone: canonical, and nothing that must not be seen.
pub(crate) fn vet_source(path: &Path, hidden: &Hidden) -> Result<PathBuf, RefuseBindError> {
    let owned = || path.to_owned();
    let source = fs::canonicalize(path).map_err(|source| RefuseBindError::Unreadable {
        path: owned(),
        source,
    })?;
    let of_the_host = HOST_VIEWS.iter().any(|view| source.starts_with(view));
    if source == Path::new("/") || of_the_host || hidden.is_view(&source) {
        return Err(RefuseBindError::Host { path: owned() });
    }
    if let Some(private) = hidden
        .private()
        .iter()
        .find(|private| within(&source, private))
    {
        return Err(RefuseBindError::Private {
            path: owned(),
            private: private.clone(),
        });
    }
    let own_homes = source
        .ancestors()
        .flat_map(|home| CREDENTIALS.iter().map(|name| home.join(name)));
    let credential = hidden
        .credentials(&source)
        .into_iter()
        .chain(own_homes.filter_map(|path| existing(&path)))
        .chain(source.ancestors().filter_map(gigs))
        .find(|credential| within(&source, credential));
    if let Some(credential) = credential {
        return Err(RefuseBindError::Credential {
            path: owned(),
            credential,
        });
    }
    Ok(source)
}

/// Another root: canonical, nobody's home and showing none, and what is hidden in it.
pub(crate) fn vet_root(
    path: &Path,
    hidden: &Hidden,
) -> Result<(PathBuf, Vec<Mask>), RefuseBindError> {
    let root = vet_source(path, hidden)?;
    // What is not the root's own inside is not shown of it either.
    let shows = |below: &Path| !facts::is_own(&Path::new("/").join(below));
    for home in hidden.homes() {
        if below(&home, &root).is_some_and(|below| shows(&below)) {
            return Err(RefuseBindError::Home {
                path: path.to_owned(),
                home,
            });
        }
    }
    let mut masks = masks(&root, &hidden.below(&root));
    masks.retain(|mask| shows(&mask.below));
    Ok((root, masks))
}

/// Opens a vetted source by the path that was vetted: whoever may write above it may put a link in its
/// way at any moment, and no link is followed.
pub(crate) fn open_vetted(source: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(CWD, source, flags, Mode::empty(), resolve)?)
}

/// What must stand at each place when the mounts are made. Of several mounts at one place the last
/// is seen.
pub(crate) fn identities(binds: &[VettedBind]) -> Result<Vec<Shown>, RefuseBindError> {
    let later = |at: usize, dest: &Path| binds.iter().skip(at + 1).any(|bind| bind.dest == dest);
    binds
        .iter()
        .enumerate()
        .filter(|(at, bind)| bind.frame.is_none() && !later(*at, &bind.dest))
        .map(|(_, bind)| {
            let found = open_vetted(&bind.source).and_then(|fd| File::from(fd).metadata());
            let found = found.map_err(|source| RefuseBindError::Unreadable {
                path: bind.source.clone(),
                source,
            })?;
            Ok(Shown {
                path: bind.dest.as_os_str().as_encoded_bytes().to_vec(),
                device: found.dev(),
                inode: found.ino(),
            })
        })
        .collect()
}

fn vet_one(bind: &Bind, hidden: &Hidden) -> Result<VettedBind, RefuseBindError> {
    let dest = vet_dest(&bind.dest)?;
    let source = vet_source(&bind.source, hidden)?;
    let meta = fs::metadata(&source).map_err(|error| RefuseBindError::Unreadable {
        path: bind.source.clone(),
        source: error,
    })?;
    let kind = meta.file_type();
    let socket = std::os::unix::fs::FileTypeExt::is_socket(&kind);
    if !(kind.is_dir() || kind.is_file() || socket) {
        return Err(RefuseBindError::Kind {
            path: bind.source.clone(),
        });
    }
    let masks = if kind.is_dir() {
        // Whoever knows a name in it would find what nobody could look for.
        fs::read_dir(&source).map_err(|error| RefuseBindError::Unreadable {
            path: bind.source.clone(),
            source: error,
        })?;
        let mut paths = hidden.below(&source);
        let is_hidden = |path: &Path| paths.contains(path);
        let found = (hidden.sockets()).among(&source, bind.mode == BindMode::Ro, is_hidden);
        paths.extend(found);
        masks(&source, &paths)
    } else {
        Vec::new()
    };
    Ok(VettedBind {
        source,
        dest,
        mode: bind.mode,
        directory: kind.is_dir(),
        masks,
        public: false,
        owned_as: None,
        frame: None,
    })
}

/// What covers these paths below a directory. One inside another is hidden with it, and not on its own: what keeps a
/// mask inside from being moved away would show the directory around it.
fn masks(source: &Path, paths: &BTreeSet<PathBuf>) -> Vec<Mask> {
    let mut masks: Vec<Mask> = Vec::new();
    // In order: what is around comes first.
    for path in paths {
        let Ok(below) = path.strip_prefix(source) else {
            continue;
        };
        if masks
            .iter()
            .any(|mask| mask.directory && below.starts_with(&mask.below))
        {
            continue;
        }
        masks.push(Mask {
            below: below.to_owned(),
            directory: path.is_dir(),
        });
    }
    masks
}

/// Whether a path is a hidden one or lies in it.
fn within(path: &Path, hidden: &Path) -> bool {
    below(path, hidden).is_some()
}

/// Where in a directory a path lies, by name or by what it is: a bind mount on
/// the host shows the same directory under another name.
fn below(path: &Path, directory: &Path) -> Option<PathBuf> {
    if let Ok(below) = path.strip_prefix(directory) {
        return Some(below.to_owned());
    }
    let identity = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let own = identity(directory)?;
    let found = path
        .ancestors()
        .find(|ancestor| identity(ancestor) == Some(own))?;
    path.strip_prefix(found).ok().map(Path::to_owned)
}

fn vet_dest(dest: &Path) -> Result<PathBuf, RefuseBindError> {
    let refused = || RefuseBindError::Destination {
        dest: dest.to_owned(),
    };
    let mut clean = PathBuf::new();
    for component in dest.components() {
        match component {
            Component::RootDir => clean.push("/"),
            Component::Normal(name) => clean.push(name),
            // A leading dot of a relative path; others vanish by themselves.
            Component::CurDir | Component::ParentDir | Component::Prefix(_) => {
                return Err(refused());
            }
        }
    }
    if clean.is_absolute() && clean.parent().is_some() {
        Ok(clean)
    } else {
        Err(refused())
    }
}

/// A mount inside another must not be led away by a link there, which a
/// former run may have made.
fn refuse_link(inner: &VettedBind, outer: &VettedBind) -> Result<(), RefuseBindError> {
    if inner.dest == outer.dest {
        return Ok(());
    }
    let Ok(below) = inner.dest.strip_prefix(&outer.dest) else {
        return Ok(());
    };
    let mut path = outer.source.clone();
    let names: Vec<OsString> = below.iter().map(ToOwned::to_owned).collect();
    for name in names {
        path.push(name);
        if fs::symlink_metadata(&path).is_ok_and(|meta| meta.file_type().is_symlink()) {
            return Err(RefuseBindError::Link {
                dest: inner.dest.clone(),
                link: path,
            });
        }
    }
    Ok(())
}

/// A mount inside another root must not be led out of it by a link there,
/// neither its place be made where that leads. A merged directory's is none.
pub(crate) fn refuse_led_out(
    binds: &[VettedBind],
    root: &OtherRoot,
) -> Result<(), RefuseBindError> {
    let has = |bind: &&VettedBind| !root.has_nothing_at(&bind.dest);
    let root_path = root.path();
    for bind in binds.iter().filter(has) {
        let mut path = root_path.to_owned();
        for (depth, name) in bind.dest.iter().skip(1).enumerate() {
            path.push(name);
            let Ok(target) = fs::read_link(&path) else {
                continue;
            };
            // Links at the first level of /etc make way for a mount.
            let makes_way = depth == 1 && bind.dest.starts_with("/etc");
            let merged = depth == 0
                && fs::canonicalize(&path).is_ok_and(|found| found == root_path.join(&target));
            if makes_way {
                break;
            }
            if target.is_absolute() || !merged {
                return Err(RefuseBindError::Link {
                    dest: bind.dest.clone(),
                    link: path,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
