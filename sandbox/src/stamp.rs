//! Whether what was read from a file or directory still holds.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};

/// What changes when a file, or what is in a directory, does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the last change, as the kernel stamps it.
    changed: (i64, i64),
}

/// A path and what was there before it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    path: PathBuf,
    stamp: Option<Stamp>,
}

impl Stamp {
    /// Of what the path leads to; none if there is nothing.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|meta| Self::new(&meta))
    }

    fn new(meta: &fs::Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

impl Look {
    /// Now.
    pub(crate) fn at(path: PathBuf) -> Self {
        let stamp = Stamp::of(&path);
        Self { path, stamp }
    }

    /// Whether nothing has changed there since.
    pub(crate) fn holds(&self) -> bool {
        Stamp::of(&self.path) == self.stamp
    }
}

/// The kernel's own time for files; none if it is not to be had.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment(Option<(i64, i64)>);

impl Moment {
    /// That of a new file.
    pub(crate) fn now() -> Self {
        let new = memfd_create("gig-now", MemfdFlags::CLOEXEC).ok();
        let meta = new.and_then(|file| File::from(file).metadata().ok());
        Self(meta.map(|meta| Stamp::new(&meta).changed))
    }
}

/// Whether a change after any of these would show, when the first was taken
/// after `began`. A change gets the time of the kernel's last tick: one that
/// follows another within a tick has the same stamp, so what was changed in the
/// tick of the looks tells nothing.
pub(crate) fn settled(looks: &[Look], began: Moment) -> bool {
    let Moment(Some(began)) = began else {
        return false;
    };
    looks
        .iter()
        .filter_map(|look| look.stamp.as_ref())
        .all(|stamp| is_before(stamp.changed, began))
}

/// Whether a change now would get another time than this one. File systems
/// that keep whole seconds, or pairs of them, have no fraction to show.
fn is_before((seconds, fraction): (i64, i64), now: (i64, i64)) -> bool {
    const COARSE: i64 = 2;
    if fraction == 0 {
        seconds.saturating_add(COARSE) < now.0
    } else {
        (seconds, fraction) < now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_holds_until_something_is_made_removed_or_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, absent) = (dir.path().join("inside"), dir.path().join("absent"));
        fs::create_dir(&inside).unwrap();
        let looks = [
            Look::at(dir.path().into()),
            Look::at(inside.clone()),
            Look::at(absent.clone()),
        ];
        // What counts is a change in a later tick.
        while !settled(&looks, Moment::now()) {
            std::thread::yield_now();
        }
        assert!(looks.iter().all(Look::holds));
        fs::create_dir(&absent).unwrap();
        assert_eq!(looks.each_ref().map(Look::holds), [false, true, false]);
        fs::remove_dir(&inside).unwrap();
        assert_eq!(looks.each_ref().map(Look::holds), [false, false, false]);
    }

    #[test]
    fn a_time_in_whole_seconds_is_given_time_to_pass() {
        assert!(is_before((10, 5), (10, 6)));
        assert!(!is_before((10, 5), (10, 5)));
        assert!(!is_before((10, 0), (10, 900)));
        assert!(!is_before((10, 0), (12, 900)));
        assert!(is_before((10, 0), (13, 0)));
    }

    #[test]
    fn what_has_changed_since_the_looks_began_is_not_settled() {
        let began = Moment::now();
        let dir = tempfile::tempdir().unwrap();
        let looks = [Look::at(dir.path().into())];
        while !settled(&looks, Moment::now()) {
            std::thread::yield_now();
        }
        assert!(!settled(&looks, began));
    }

    #[test]
    fn what_has_changed_this_very_moment_is_not_settled() {
        let dir = tempfile::tempdir().unwrap();
        // A tick may end between the two lines, and many in a row on a busy
        // machine, but not every time.
        let fresh = || {
            fs::write(dir.path().join("file"), "").unwrap();
            fs::remove_file(dir.path().join("file")).unwrap();
            settled(&[Look::at(dir.path().into())], Moment::now())
        };
        assert!((0..10_000).any(|_| !fresh()));
    }
}
