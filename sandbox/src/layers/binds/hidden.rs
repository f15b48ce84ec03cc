//! What no sandbox sees: credentials in anybody's home and the system's, gig's own paths, the host's sockets, views into
//! its kernel.
//!
//! Homes and what is in them are looked through anew when a directory that
//! they were found by has changed, which a start can tell at a fraction of the
//! cost. What a link leads to can change without a trace, and so can what another
//! machine may change, so where either is involved they are looked through every
//! time. A home that is reached by a link is resolved anew each time.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::aliases::Mounts;
use super::places::{CREDENTIALS, DATABASE, HOLDERS, OF_THE_SYSTEM, RUNS, SSH, is_run_file};
use super::sockets::Sockets;
use super::views;
use crate::stamp::{Look, Moment, settled};

/// Where accounts are listed, and where homes usually are.
const ACCOUNTS: &str = "/etc/passwd";
const HOMES: &str = "/home";

/// Folders right in a shown directory that are looked at as homes: more than any
/// host has accounts, and a bound on the work.
const MAX_CHILDREN: usize = 4096;

/// Names that tell whether a folder is that of records.
const MOST_NAMES: usize = 64;

/// What must not be seen, found once per start.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    homes: Homes,
    /// Looked at when they are first asked for.
    mounts: OnceCell<Mounts>,
    private: BTreeSet<PathBuf>,
    private_names: OnceCell<BTreeSet<PathBuf>>,
    /// What there is in the homes, looked for when it is first asked for.
    in_homes: OnceCell<BTreeSet<PathBuf>>,
    /// Unix sockets that are bound to a path, looked for when they are first asked for.
    sockets: OnceCell<Sockets>,
}

#[derive(Debug, Default)]
enum Homes {
    /// Everybody's on this host.
    #[default]
    Host,
    /// These only.
    #[cfg(test)]
    Only(BTreeSet<PathBuf>),
}

impl Hidden {
    /// The homes of every account, the invoking user's, and gig's own paths.
    pub(crate) fn read(private: &[PathBuf]) -> Self {
        let private = private
            .iter()
            .filter_map(|path| fs::canonicalize(path).ok())
            .collect();
        Self {
            private,
            ..Self::default()
        }
    }

    /// With these homes only.
    #[cfg(test)]
    pub(crate) fn of_homes(homes: &[&Path]) -> Self {
        let homes = homes.iter().filter_map(|home| fs::canonicalize(home).ok());
        Self {
            homes: Homes::Only(homes.collect()),
            ..Self::default()
        }
    }

    fn all_names(&self, paths: BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        self.mounts().all_names(paths)
    }

    /// gig's own, by every name.
    pub(super) fn private(&self) -> &BTreeSet<PathBuf> {
        self.private_names
            .get_or_init(|| self.all_names(self.private.clone()))
    }

    /// The host's Unix sockets, by every name where they are known by one.
    pub(super) fn sockets(&self) -> &Sockets {
        self.sockets.get_or_init(|| {
            let mut sockets = Sockets::now();
            sockets.places = self.all_names(std::mem::take(&mut sockets.places));
            sockets
        })
    }

    /// Whatever is hidden below `source`.
    pub(super) fn below(&self, source: &Path) -> BTreeSet<PathBuf> {
        let all = self.credentials(source).into_iter();
        let all = all.chain(self.private().iter().chain(&self.sockets().places).cloned());
        let mut below: BTreeSet<_> = all.filter(|path| path.starts_with(source)).collect();
        below.extend(views::below(self.mounts(), source));
        below
    }

    /// Whether what is seen at a canonical path is the kernel's, or a device.
    pub(super) fn is_view(&self, path: &Path) -> bool {
        views::shows(self.mounts(), path)
    }

    fn mounts(&self) -> &Mounts {
        self.mounts.get_or_init(Mounts::read)
    }

    /// Every home that exists, by every name.
    pub(super) fn homes(&self) -> BTreeSet<PathBuf> {
        self.all_names(match &self.homes {
            Homes::Host => homes()
                .iter()
                .filter_map(|home| fs::canonicalize(home).ok())
                .filter(|home| home.parent().is_some())
                .collect(),
            #[cfg(test)]
            Homes::Only(homes) => homes.clone(),
        })
    }

    /// Every credential path that exists and matters for `source`, by every name.
    pub(super) fn credentials(&self, source: &Path) -> BTreeSet<PathBuf> {
        // A shown directory may be a home that no account lists, or hold some.
        let folder = |entry: &fs::DirEntry| {
            let kind = entry.file_type();
            kind.is_ok_and(|kind| kind.is_dir() || kind.is_symlink())
        };
        let listed = fs::read_dir(source).into_iter().flatten().flatten();
        let children: Vec<PathBuf> = listed
            .filter(folder)
            .take(MAX_CHILDREN)
            .map(|entry| entry.path())
            .collect();
        let looked_at = [source]
            .into_iter()
            .chain(children.iter().map(PathBuf::as_path));
        let gigs = looked_at.clone().filter_map(gigs);
        let here = looked_at.flat_map(in_home).chain(gigs);
        let in_homes = self.in_homes.get_or_init(|| match &self.homes {
            Homes::Host => Known::now(),
            #[cfg(test)]
            Homes::Only(homes) => homes.iter().flat_map(|home| in_home(home)).collect(),
        });
        let system = of_the_system();
        self.all_names(in_homes.iter().cloned().chain(here).chain(system).collect())
    }
}

/// What was found in everybody's homes, and where.
#[derive(Debug, Default)]
struct Known {
    looks: Vec<Look>,
    found: BTreeSet<PathBuf>,
    /// When the first look was about to be taken.
    began: Moment,
    /// Homes that are reached by a link, and where that led.
    linked: Vec<(PathBuf, PathBuf)>,
    /// Whether a link led to any of it, or may.
    by_link: bool,
    /// Whether any of it is where others than this kernel change it.
    remote: bool,
}

impl Known {
    /// As it is, from the last time where that still holds.
    fn now() -> BTreeSet<PathBuf> {
        static LAST: Mutex<Option<Known>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*last
            && known.holds()
        {
            return known.found.clone();
        }
        let began = Moment::now();
        let accounts = [ACCOUNTS, HOMES].map(|path| Look::at(path.into()));
        let mut known = Self {
            began,
            ..Self::find(homes())
        };
        known.looks.extend(accounts);
        known.remote |= !is_local(Path::new(HOMES));
        let found = known.found.clone();
        *last = known.lasts().then_some(known);
        found
    }

    /// Whether looking again would find the same.
    fn holds(&self) -> bool {
        let led = |(home, to): &(PathBuf, PathBuf)| {
            fs::canonicalize(home).is_ok_and(|canonical| canonical == *to)
        };
        self.looks.iter().all(Look::holds) && self.linked.iter().all(led)
    }

    /// Whether [`Self::holds`] can tell.
    fn lasts(&self) -> bool {
        !self.by_link && !self.remote && settled(&self.looks, self.began)
    }

    /// Each directory is stamped before it is looked into.
    fn find(homes: BTreeSet<PathBuf>) -> Self {
        let mut known = Self {
            began: Moment::now(),
            ..Self::default()
        };
        for home in homes {
            known.remote |= !is_local(&home);
            let Ok(canonical) = fs::canonicalize(&home) else {
                // One that appears later shows here.
                known.looks.push(Look::at(home));
                continue;
            };
            for holder in HOLDERS.map(|holder| canonical.join(holder)) {
                known.remote |= !is_local(&holder);
                known.looks.push(Look::at(holder));
            }
            if canonical != home {
                known.linked.push((home, canonical.clone()));
            }
            for name in CREDENTIALS {
                let literal = canonical.join(name);
                // One that leads nowhere yet may lead somewhere later.
                known.by_link |= fs::symlink_metadata(&literal).is_ok_and(|meta| meta.is_symlink());
                if let Some(path) = existing(&literal) {
                    known.by_link |= path != literal;
                    known.found.insert(path);
                }
            }
        }
        known
    }
}

/// Whether only this kernel changes what is at a path, or will be: stamps on
/// file systems of other machines are cached, and of other clocks.
fn is_local(path: &Path) -> bool {
    // ext, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS, and /proc, where nobody keeps anything.
    const LOCAL: [u32; 8] = [
        0xEF53,
        0x5846_5342,
        0x9123_683E,
        0x0102_1994,
        0x794C_7630,
        0x2FC1_2FC1,
        0xF2F5_2010,
        0x9FA0,
    ];
    path.ancestors()
        .find_map(|path| rustix::fs::statfs(path).ok())
        .and_then(|found| u32::try_from(found.f_type & 0xFFFF_FFFF).ok())
        .is_some_and(|kind| LOCAL.contains(&kind))
}

/// Every account's, the invoking user's, and what is where homes usually are.
fn homes() -> BTreeSet<PathBuf> {
    let accounts = fs::read_to_string(ACCOUNTS).unwrap_or_default();
    let listed = accounts
        .lines()
        .filter_map(|line| line.split(':').nth(5))
        .map(PathBuf::from);
    let own = std::env::var_os("HOME").map(PathBuf::from);
    let beside = fs::read_dir(HOMES)
        .map(|read| {
            read.filter_map(|entry| Some(entry.ok()?.path()))
                .collect::<Vec<_>>()
        })
        .unwrap_or_default();
    listed
        .chain(own)
        .chain(beside)
        .chain([PathBuf::from("/root")])
        .filter(|home| home.is_absolute() && home != Path::new("/"))
        .collect()
}

/// Every credential path that exists in a home, canonical.
fn in_home(home: &Path) -> impl Iterator<Item = PathBuf> {
    CREDENTIALS
        .iter()
        .filter_map(move |name| existing(&home.join(name)))
}

/// A folder in which a gig keeps its files, canonical: known by its database, or by the records of its runs. The
/// others in it come and go under other names, so it is hidden whole.
pub(super) fn gigs(folder: &Path) -> Option<PathBuf> {
    if existing(&folder.join(DATABASE)).is_none() && !has_records(&folder.join(RUNS)) {
        return None;
    }
    fs::canonicalize(folder).ok()
}

/// Whether the first of what lies there are called as records of runs are.
fn has_records(runs: &Path) -> bool {
    let names = fs::read_dir(runs).into_iter().flatten().flatten();
    names
        .take(MOST_NAMES)
        .any(|entry| entry.file_name().to_str().is_some_and(is_run_file))
}

/// Whatever of the system's own credentials exists, canonical.
fn of_the_system() -> impl Iterator<Item = PathBuf> {
    let keys = fs::read_dir(SSH).into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let name = name.to_str()?;
        let key = name.starts_with("ssh_host_") && name.ends_with("_key");
        key.then(|| entry.path())
    });
    let listed = OF_THE_SYSTEM.iter().map(PathBuf::from);
    listed.chain(keys).filter_map(|path| existing(&path))
}

/// Canonical, if there is such a thing. Most there are not: that costs one look. Where a folder of the caller's lets not
/// even them look, it is that folder: a program before this one may have closed it, and this one may open it.
pub(super) fn existing(path: &Path) -> Option<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(_) => fs::canonicalize(path).ok(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => closed(path),
        Err(_) => None,
    }
}

/// The folder above it that could be looked at, and not into; if it is the caller's own.
fn closed(path: &Path) -> Option<PathBuf> {
    let mut above = path.ancestors().skip(1);
    let (folder, found) = above.find_map(|folder| Some((folder, fs::metadata(folder).ok()?)))?;
    is_own(&found)
        .then(|| fs::canonicalize(folder).ok())
        .flatten()
}

/// Whether it is the caller's, whose program may change who gets in.
pub(super) fn is_own(found: &fs::Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn found_in(home: &Path) -> Known {
        Known::find(BTreeSet::from([home.to_owned()]))
    }

    #[test]
    fn whatever_credential_appears_is_looked_for_again() {
        for name in CREDENTIALS {
            let dir = tempfile::tempdir().unwrap();
            let home = fs::canonicalize(dir.path()).unwrap();
            let parents: Vec<_> = Path::new(name).ancestors().skip(1).collect();
            // With ever more of the directories that lead to it there before.
            for parent in parents.iter().rev() {
                fs::create_dir_all(home.join(parent)).unwrap();
                let known = loop {
                    let known = found_in(&home);
                    if settled(&known.looks, known.began) {
                        break known;
                    }
                    std::thread::yield_now();
                };
                assert!(
                    known.holds() && known.lasts() && known.found.is_empty(),
                    "{name} in {}: {:?}",
                    parent.display(),
                    known.found
                );
                fs::create_dir_all(home.join(name)).unwrap();
                assert!(!known.holds(), "{name} in {}", parent.display());
                assert!(found_in(&home).found.contains(&home.join(name)));
                fs::remove_dir(home.join(name)).unwrap();
            }
        }
    }

    #[test]
    fn what_a_link_leads_to_is_looked_for_every_time() {
        let dir = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(dir.path()).unwrap().join("alice");
        let elsewhere = home.with_file_name("elsewhere");
        fs::create_dir(&home).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, home.join(".ssh")).unwrap();
        let known = found_in(&home);
        assert!(known.by_link && !known.lasts());
        assert_eq!(known.found, BTreeSet::from([elsewhere.clone()]));
        fs::remove_dir(&elsewhere).unwrap();
        let known = found_in(&home);
        assert!(known.found.is_empty() && known.by_link && !known.lasts());
    }

    #[test]
    fn a_home_by_a_link_is_looked_into_again_when_that_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        for name in ["one/alice", "two/alice"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        symlink("one", root.join("real")).unwrap();
        symlink("../real/alice", root.join("two/home")).unwrap();
        let known = found_in(&root.join("two/home"));
        assert!(known.holds());
        fs::remove_file(root.join("real")).unwrap();
        symlink("two", root.join("real")).unwrap();
        assert!(!known.holds());
    }

    #[test]
    fn a_folder_that_was_closed_stands_for_what_may_be_in_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(home.join(".config/gh")).unwrap();
        let set =
            |mode| fs::set_permissions(home.join(".config"), fs::Permissions::from_mode(mode));
        set(0o000).unwrap();
        // Nothing is closed to root.
        let expected = match rustix::process::geteuid().is_root() {
            true => home.join(".config/gh"),
            false => home.join(".config"),
        };
        assert_eq!(existing(&home.join(".config/gh")), Some(expected));
        set(0o755).unwrap();
        assert_eq!(existing(&home.join(".config/absent")), None);
    }

    #[test]
    fn only_local_file_systems_are_remembered() {
        assert!(is_local(Path::new("/proc/self")) && !is_local(Path::new("/sys")));
    }

    #[test]
    fn a_home_that_appears_is_looked_into() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("later");
        let known = found_in(&home);
        assert!(known.holds());
        fs::create_dir(&home).unwrap();
        assert!(!known.holds());
    }
}
