//! Vetting the caller's mounts: what may be shown, and what is hidden in it.
//!
//! Credential directories are never visible, even when a parent is shown: one
//! that lies in a shown directory is covered, one that is shown itself is
//! refused, by whatever link it is reached. So are the caller's own private
//! paths. What appears on the host after the start is not covered.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use crate::bootstrap::orders::Shown;
use crate::layers::mounts::{Mask, VettedBind};
use crate::spec::Bind;

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
    #[error("{dest} is no place for a mount: {link} in another mount is a symbolic link")]
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

/// Below every home: where programs keep credentials.
const CREDENTIALS: [&str; 18] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".kube",
    ".docker",
    ".git-credentials",
    ".vault-token",
    ".terraform.d",
    // Beyond the list that was asked for: the same kind of file.
    ".config/gh",
    ".config/git/credentials",
    ".local/share/keyrings",
    ".netrc",
    ".password-store",
    ".pgpass",
    ".pypirc",
    ".config/op",
];

/// Views into the kernel, and devices.
const HOST_VIEWS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// What must not be seen, found once per start.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    homes: BTreeSet<PathBuf>,
    private: BTreeSet<PathBuf>,
    /// What there is in the homes, looked for when it is first asked for.
    in_homes: OnceCell<BTreeSet<PathBuf>>,
}

impl Hidden {
    /// The homes of every account, the invoking user's, and gig's own paths.
    pub(crate) fn read(private: &[PathBuf]) -> Self {
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let listed = accounts
            .lines()
            .filter_map(|line| line.split(':').nth(5))
            .map(PathBuf::from);
        let own = std::env::var_os("HOME").map(PathBuf::from);
        let beside = fs::read_dir("/home")
            .map(|read| {
                read.filter_map(|entry| Some(entry.ok()?.path()))
                    .collect::<Vec<_>>()
            })
            .unwrap_or_default();
        let homes = listed
            .chain(own)
            .chain(beside)
            .chain([PathBuf::from("/root")])
            .filter(|home| home.is_absolute() && home != Path::new("/"))
            .filter_map(|home| fs::canonicalize(home).ok())
            .collect();
        let private = private
            .iter()
            .filter_map(|path| fs::canonicalize(path).ok())
            .collect();
        Self {
            homes,
            private,
            in_homes: OnceCell::new(),
        }
    }

    /// With these homes only.
    #[cfg(test)]
    pub(crate) fn of_homes(homes: &[&Path]) -> Self {
        Self {
            homes: homes
                .iter()
                .filter_map(|home| fs::canonicalize(home).ok())
                .collect(),
            private: BTreeSet::new(),
            in_homes: OnceCell::new(),
        }
    }

    /// Every credential path that exists and matters for `source`, canonical.
    fn credentials(&self, source: &Path) -> BTreeSet<PathBuf> {
        // A shown directory may be a home that no account lists, or hold some.
        let children = fs::read_dir(source)
            .map(|read| {
                read.take(MAX_CHILDREN)
                    .filter_map(|entry| Some(entry.ok()?.path()))
                    .collect()
            })
            .unwrap_or_else(|_| Vec::new());
        let here = [source]
            .into_iter()
            .chain(children.iter().map(PathBuf::as_path))
            .flat_map(in_home);
        let in_homes = self
            .in_homes
            .get_or_init(|| self.homes.iter().flat_map(|home| in_home(home)).collect());
        in_homes.iter().cloned().chain(here).collect()
    }
}

/// Every credential path that exists in a home, canonical.
fn in_home(home: &Path) -> impl Iterator<Item = PathBuf> {
    CREDENTIALS
        .iter()
        .filter_map(move |name| existing(&home.join(name)))
}

/// Canonical, if there is such a thing. Most there are not: that costs one look.
fn existing(path: &Path) -> Option<PathBuf> {
    fs::symlink_metadata(path).ok()?;
    fs::canonicalize(path).ok()
}

/// Children of a shown directory that are looked at as homes: more than any
/// host has accounts, and a bound on the work.
const MAX_CHILDREN: usize = 4096;

/// Vets all of them.
pub(crate) fn vet(binds: &[Bind], hidden: &Hidden) -> Result<Vec<VettedBind>, RefuseBindError> {
    let vetted = binds
        .iter()
        .map(|bind| vet_one(bind, hidden))
        .collect::<Result<Vec<_>, _>>()?;
    for inner in &vetted {
        for outer in &vetted {
            refuse_link(inner, outer)?;
        }
    }
    Ok(vetted)
}

/// A source alone: canonical, and nothing that must not be seen.
pub(crate) fn vet_source(path: &Path, hidden: &Hidden) -> Result<PathBuf, RefuseBindError> {
    let owned = || path.to_owned();
    let source = fs::canonicalize(path).map_err(|source| RefuseBindError::Unreadable {
        path: owned(),
        source,
    })?;
    if source == Path::new("/") || HOST_VIEWS.iter().any(|view| source.starts_with(view)) {
        return Err(RefuseBindError::Host { path: owned() });
    }
    if let Some(private) = hidden
        .private
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
        .find(|credential| within(&source, credential));
    if let Some(credential) = credential {
        return Err(RefuseBindError::Credential {
            path: owned(),
            credential,
        });
    }
    Ok(source)
}

/// Opens a vetted source by the path that was vetted: whoever may write above it may put a link in its
/// way at any moment, and no link is followed.
pub(crate) fn open_vetted(source: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(CWD, source, flags, Mode::empty(), resolve)?)
}

/// What must stand at each place when the mounts are made. Of several mounts at one place the last
/// is seen; /etc has mounts of its own that come later.
pub(crate) fn identities(binds: &[VettedBind]) -> Result<Vec<Shown>, RefuseBindError> {
    let later = |at: usize, dest: &Path| binds.iter().skip(at + 1).any(|bind| bind.dest == dest);
    binds
        .iter()
        .enumerate()
        .filter(|(at, bind)| !bind.dest.starts_with("/etc") && !later(*at, &bind.dest))
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
        masks(&source, hidden)
    } else {
        Vec::new()
    };
    Ok(VettedBind {
        source,
        dest,
        mode: bind.mode,
        directory: kind.is_dir(),
        masks,
    })
}

/// What is hidden below a directory. One inside another is hidden with it.
fn masks(source: &Path, hidden: &Hidden) -> Vec<Mask> {
    let mut masks: Vec<Mask> = Vec::new();
    for path in hidden.credentials(source).iter().chain(&hidden.private) {
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

/// Whether a path is a hidden one or lies in it, by name or by what it is: a
/// bind mount on the host shows the same directory under another name.
fn within(path: &Path, hidden: &Path) -> bool {
    if path.starts_with(hidden) {
        return true;
    }
    let identity = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let Some(own) = identity(hidden) else {
        return false;
    };
    path.ancestors()
        .any(|ancestor| identity(ancestor) == Some(own))
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

#[cfg(test)]
mod tests;
