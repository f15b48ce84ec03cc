//! The Unix sockets of this network namespace that have a place in the file system, and FIFOs.
//!
//! A folder that is shown shows the sockets in it, and whoever connects to one speaks to a program of the
//! host: a container engine, a session bus, an agent that signs. A network namespace of one's own is no
//! wall there. So they are covered like credentials; one that a program shall reach is shown by its own
//! path. The kernel tells the name that each was bound by; one that has another by now, or several, or whose name was
//! relative, is looked for in what is shown, as far as a look goes. So are the FIFOs of what is shown to be read: they
//! would take what is written into them. Not known here: a socket of another network namespace, and what is made after
//! the start.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    fs::{self, Metadata},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use gig_netns::{BoundSocket, bound_sockets};
use rustix::fs::{Access, access};

use super::hidden::is_own;

/// Those of this moment.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// Where there is one, canonical but for itself.
    pub(super) places: BTreeSet<PathBuf>,
    /// The lower halves of their inodes' numbers.
    inodes: HashSet<u32>,
    /// Some have other names, or may have.
    astray: bool,
}

impl Sockets {
    pub(super) fn now() -> Self {
        // Where the kernel does not tell, which is not so since Linux 3.3 but for kernels that were built without, all
        // sockets that lie in what is shown are taken for somebody's.
        let Ok(bound) = bound_sockets() else {
            return Self {
                astray: true,
                ..Self::default()
            };
        };
        let found: Vec<Option<PathBuf>> = bound.iter().map(place).collect();
        Self {
            astray: found.iter().any(Option::is_none),
            places: found.into_iter().flatten().collect(),
            inodes: bound.iter().map(|one| one.inode).collect(),
        }
    }

    /// What lies in a folder that is shown and must not be reached: sockets by whatever name, and FIFOs, if those too.
    /// Not looked into is what `hidden` says.
    pub(super) fn among(
        &self,
        source: &Path,
        fifos: bool,
        hidden: impl Fn(&Path) -> bool,
    ) -> Vec<PathBuf> {
        let own = |found: Metadata| is_own(&found);
        let mut found = Vec::new();
        if !self.astray && !fifos {
            return found;
        }
        // What is not deep comes first.
        let mut waiting = VecDeque::from([source.to_owned()]);
        let mut left = MOST_LOOKED_AT;
        while let Some(folder) = waiting.pop_front() {
            let listed = match fs::read_dir(&folder) {
                Ok(listed) => listed,
                // What lies there can be reached all the same, by who knows its name.
                Err(_) if access(&folder, Access::EXEC_OK).is_ok() && folder != source => {
                    found.push(folder);
                    continue;
                }
                // Closed to the caller, whose program may open it.
                Err(_) if folder != source && fs::symlink_metadata(&folder).is_ok_and(own) => {
                    found.push(folder);
                    continue;
                }
                Err(_) => continue,
            };
            let mut fifos_here = Vec::new();
            for entry in listed.flatten() {
                left -= 1;
                if left == 0 {
                    found.append(&mut fifos_here);
                    return found;
                }
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                let path = entry.path();
                if kind.is_dir() {
                    if !hidden(&path) {
                        waiting.push_back(path);
                    }
                } else if fifos && kind.is_fifo() {
                    fifos_here.push(path);
                } else if kind.is_socket() && self.is_bound(&path) {
                    found.push(path);
                }
            }
            // Each cover is a mount of its own, which takes its time.
            match fifos_here.len() > MOST_FIFOS && folder != source {
                true => found.push(folder),
                false => found.append(&mut fifos_here),
            }
        }
        found
    }

    fn is_bound(&self, path: &Path) -> bool {
        let known = |found: Metadata| self.inodes.contains(&half(&found));
        self.inodes.is_empty() || fs::symlink_metadata(path).is_ok_and(known)
    }
}

/// Where it is, if it is there still and nowhere else.
fn place(bound: &BoundSocket) -> Option<PathBuf> {
    let name = bound.name.as_deref().filter(|name| name.is_absolute())?;
    let place = fs::canonicalize(name.parent()?)
        .ok()?
        .join(name.file_name()?);
    let found = fs::symlink_metadata(&place).ok()?;
    let same = found.file_type().is_socket() && half(&found) == bound.inode;
    (same && found.nlink() == 1).then_some(place)
}

fn half(found: &Metadata) -> u32 {
    u32::try_from(found.ino() & u64::from(u32::MAX)).unwrap_or_default()
}

/// In one folder: one that has more is covered whole.
const MOST_FIFOS: usize = 64;
/// Entries of one shown folder: some twenty milliseconds.
const MOST_LOOKED_AT: usize = 20_000;

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    fn real() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        (dir, real)
    }

    #[test]
    fn what_is_bound_is_found_where_it_really_is() {
        let (_dir, real) = real();
        fs::create_dir(real.join("folder")).unwrap();
        std::os::unix::fs::symlink("folder", real.join("link")).unwrap();
        let listening = UnixListener::bind(real.join("link/one")).unwrap();
        let datagrams = UnixDatagram::bind(real.join("two")).unwrap();
        let gone = UnixListener::bind(real.join("three")).unwrap();
        fs::remove_file(real.join("three")).unwrap();
        let places = Sockets::now().places;
        let found: Vec<_> = places
            .iter()
            .filter(|path| path.starts_with(&real))
            .collect();
        assert_eq!(found, [&real.join("folder/one"), &real.join("two")]);
        drop((listening, datagrams, gone));
    }

    #[test]
    fn a_socket_is_found_by_the_name_that_it_has_now() {
        let (_dir, real) = real();
        for folder in ["before", "shown/deep"] {
            fs::create_dir_all(real.join(folder)).unwrap();
        }
        let renamed = UnixListener::bind(real.join("before/one")).unwrap();
        fs::rename(real.join("before/one"), real.join("shown/deep/one")).unwrap();
        let linked = UnixListener::bind(real.join("before/two")).unwrap();
        fs::hard_link(real.join("before/two"), real.join("shown/two")).unwrap();
        drop(UnixListener::bind(real.join("shown/nobodys")).unwrap());
        let mut found = Sockets::now().among(&real.join("shown"), false, |_| false);
        found.sort();
        assert_eq!(found, [real.join("shown/deep/one"), real.join("shown/two")]);
        let found = Sockets::now().among(&real.join("shown"), false, |path| path.ends_with("deep"));
        assert_eq!(found, [real.join("shown/two")]);
        drop((renamed, linked));
    }

    #[test]
    fn a_folder_with_many_fifos_is_covered_whole() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let (_dir, real) = real();
        let many = real.join("many");
        fs::create_dir(&many).unwrap();
        for number in 0..=MOST_FIFOS {
            let path = many.join(number.to_string());
            mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        }
        let found = Sockets::default().among(&real, true, |_| false);
        assert_eq!(found, [many]);
    }

    #[test]
    fn fifos_are_found_where_they_are_asked_for() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let (_dir, real) = real();
        mknodat(CWD, real.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let sockets = Sockets::default();
        assert_eq!(sockets.among(&real, true, |_| false), [real.join("fifo")]);
        assert!(sockets.among(&real, false, |_| false).is_empty());
    }
}
