//! Covers that come away while a sandbox runs, and what is shown read-only in a writable mount, noticed.
//!
//! The kernel takes a mount away when another mount namespace removes its place or renames something over it
//! (`mount_namespaces(7)`), and leaves it where its place is moved to. What was covered, or what is new in its
//! place, is then seen inside, or may be written. So each directory between a mount and what is covered in it, or
//! mounted read-only in it, is watched, for the names that lead there. Promises that whoever waits for the sandbox
//! ends it then; not that nothing was read before. Sockets and FIFOs come and go with their programs and are not watched.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::layers::mounts::{Mask, VettedBind};
use crate::spec::BindMode;
use crate::sys;

/// The directories in which covers, and what is to stay as it is, have their places.
#[derive(Debug)]
pub(crate) struct Watch {
    queue: OwnedFd,
    places: BTreeMap<i32, (PathBuf, BTreeSet<OsString>)>,
}

/// A directory that cannot be watched.
#[derive(Debug)]
pub(crate) struct Unwatched {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

impl Watch {
    /// Of what is covered in these mounts and in another root, and of what is read-only within what is not; none if
    /// nothing is.
    pub(crate) fn over(
        binds: &[VettedBind],
        root: Option<(&Path, &[Mask])>,
    ) -> Result<Option<Self>, Unwatched> {
        let mut names: BTreeMap<PathBuf, BTreeSet<OsString>> = BTreeMap::new();
        let mut lead = |source: &Path, place: &Path| {
            let mut above = source.to_owned();
            for name in place {
                names.entry(above.clone()).or_default().insert(name.into());
                above.push(name);
            }
        };
        let mut among = |source: &Path, masks: &[Mask]| {
            for mask in masks {
                let whole = source.join(&mask.below);
                let kind = fs::symlink_metadata(&whole).map(|meta| meta.file_type());
                if kind.is_ok_and(|kind| kind.is_socket() || kind.is_fifo()) {
                    continue;
                }
                lead(source, &mask.below);
            }
        };
        let mut waiting: Vec<&VettedBind> = binds.iter().collect();
        while let Some(bind) = waiting.pop() {
            match &bind.frame {
                Some(frame) => waiting.extend(&frame.pieces),
                None => among(&bind.source, &bind.masks),
            }
        }
        if let Some((path, masks)) = root {
            among(path, masks);
        }
        for (whole, place) in kept(binds) {
            // Where there is no place, its mount says so.
            let above = whole.join(place);
            if above.parent().is_some_and(Path::is_dir) {
                lead(whole, place);
            }
        }
        if names.is_empty() {
            return Ok(None);
        }
        let unwatched = |path: &Path| {
            let path = path.to_owned();
            move |error: Errno| Unwatched {
                path,
                source: error.into(),
            }
        };
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let queue = inotify::init(flags).map_err(unwatched(Path::new("/")))?;
        let mut places = BTreeMap::new();
        let flags = WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        for (path, names) in names {
            let watch = inotify::add_watch(&queue, &path, flags).map_err(unwatched(&path))?;
            // One directory by two names is watched once.
            let (_, all) = places
                .entry(watch)
                .or_insert_with(|| (path, BTreeSet::new()));
            all.extend(names);
        }
        Ok(Some(Self { queue, places }))
    }

    /// Waits until something is uncovered, and says what. Dropping the future is safe.
    pub(crate) async fn uncovered(&self) -> io::Result<PathBuf> {
        loop {
            sys::readable(&self.queue).await?;
            if let Some(path) = self.look()? {
                return Ok(path);
            }
        }
    }

    /// What has been uncovered by now.
    pub(crate) fn look(&self) -> io::Result<Option<PathBuf>> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&self.queue, &mut buffer);
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                return Err(io::Error::other("more changed than the kernel tells of"));
            }
            let Some((path, names)) = self.places.get(&event.wd()) else {
                continue;
            };
            let name = event
                .file_name()
                .map(|name| OsStr::from_bytes(name.to_bytes()));
            if let Some(name) = name.filter(|name| names.contains(*name)) {
                return Ok(Some(path.join(name)));
            }
        }
    }
}

/// What is read-only right within a writable mount, and what of such mounts lies in another one: that one's source, and
/// where in it.
fn kept(binds: &[VettedBind]) -> Vec<(&Path, &Path)> {
    let mut kept = Vec::new();
    for read_only in binds.iter().filter(|bind| bind.mode == BindMode::Ro) {
        let mut inner = read_only;
        while let Some((whole, place)) = around(binds, inner)
            && whole.mode == BindMode::Rw
            && whole.directory
        {
            kept.push((&*whole.source, place));
            inner = whole;
        }
    }
    kept
}

/// The mount in which another one has its place: the nearest above it.
fn around<'a>(
    binds: &'a [VettedBind],
    inner: &'a VettedBind,
) -> Option<(&'a VettedBind, &'a Path)> {
    let above = binds.iter().filter_map(|whole| {
        let place = inner.dest.strip_prefix(&whole.dest).ok()?;
        (!place.as_os_str().is_empty()).then_some((whole, place))
    });
    above.max_by_key(|(whole, _)| whole.dest.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(source: &Path) -> Watch {
        let below = [".config/gcloud", ".npmrc"];
        let bind = VettedBind {
            source: source.to_owned(),
            dest: "/w".into(),
            mode: BindMode::Rw,
            directory: true,
            masks: below
                .map(|below| Mask {
                    below: below.into(),
                    directory: false,
                })
                .into(),
            public: false,
            owned_as: None,
            frame: None,
        };
        Watch::over(&[bind], None).unwrap().unwrap()
    }

    fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".config/gcloud")).unwrap();
        fs::write(home.path().join(".npmrc"), "").unwrap();
        home
    }

    #[test]
    fn whatever_takes_a_cover_away_is_noticed() {
        type Change = fn(&Path) -> io::Result<()>;
        let changes: [(&str, Change); 4] = [
            (".npmrc", |home| {
                fs::write(home.join(".npmrc.new"), "")?;
                fs::rename(home.join(".npmrc.new"), home.join(".npmrc"))
            }),
            (".npmrc", |home| fs::remove_file(home.join(".npmrc"))),
            (".config", |home| {
                fs::rename(home.join(".config"), home.join(".config.old"))
            }),
            (".config/gcloud", |home| {
                fs::rename(home.join(".config/gcloud"), home.join("gcloud"))
            }),
        ];
        for (uncovered, change) in changes {
            let home = home();
            let watch = watched(home.path());
            change(home.path()).unwrap();
            let seen = watch.look().unwrap();
            assert_eq!(seen, Some(home.path().join(uncovered)));
        }
    }

    #[test]
    fn what_takes_a_read_only_mount_out_of_a_writable_one_is_noticed() {
        let home = home();
        let git = home.path().join(".git");
        fs::create_dir(&git).unwrap();
        fs::write(git.join("config"), "").unwrap();
        let bind = |below: &str, mode| VettedBind {
            source: home.path().join(below),
            dest: Path::new("/w").join(below),
            mode,
            directory: mode == BindMode::Rw,
            masks: Vec::new(),
            public: false,
            owned_as: None,
            frame: None,
        };
        let watch = |inner, outer| {
            let binds = [bind("", outer), bind(".git/config", inner)];
            Watch::over(&binds, None).unwrap()
        };
        let (read, write) = (BindMode::Ro, BindMode::Rw);
        for (inner, outer) in [(read, read), (write, write), (write, read)] {
            assert!(watch(inner, outer).is_none());
        }
        // Within another one that is read-only nothing can be written, whatever becomes of it.
        let binds = [
            bind("", write),
            bind(".git", read),
            bind(".git/config", read),
        ];
        let nested = Watch::over(&binds, None).unwrap().unwrap();
        fs::write(git.join("other"), "").unwrap();
        fs::rename(git.join("other"), git.join("config")).unwrap();
        assert_eq!(nested.look().unwrap(), None);
        let watch = watch(read, write).unwrap();
        fs::write(git.join("config"), "in its place").unwrap();
        fs::write(git.join("config.lock"), "").unwrap();
        assert_eq!(watch.look().unwrap(), None);
        fs::rename(git.join("config.lock"), git.join("config")).unwrap();
        assert_eq!(watch.look().unwrap(), Some(git.join("config")));
        fs::rename(&git, home.path().join("g")).unwrap();
        assert_eq!(watch.look().unwrap(), Some(git));
    }

    #[test]
    fn what_changes_no_cover_is_nothing() {
        let home = home();
        let watch = watched(home.path());
        fs::write(home.path().join(".npmrc"), "changed in its place").unwrap();
        fs::write(home.path().join("other"), "").unwrap();
        fs::rename(home.path().join("other"), home.path().join("another")).unwrap();
        fs::write(home.path().join(".config/gcloud/token"), "").unwrap();
        assert_eq!(watch.look().unwrap(), None);
    }
}
