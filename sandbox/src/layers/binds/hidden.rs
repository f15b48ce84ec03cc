//! What no sandbox sees: credentials in anybody's home, and gig's own paths.
//!
//! Homes and what is in them are looked through anew when a directory that
//! they were found by has changed, which a start can tell at a fraction of the
//! cost. What a link leads to can change without a trace, so where one is
//! involved they are looked through every time.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::stamp::{Look, settled};

/// Below every home: where programs keep credentials.
pub(super) const CREDENTIALS: [&str; 18] = [
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
/// The directories in a home that hold them, and the home itself.
const HOLDERS: [&str; 5] = ["", ".config", ".config/git", ".local", ".local/share"];

/// Where accounts are listed, and where homes usually are.
const ACCOUNTS: &str = "/etc/passwd";
const HOMES: &str = "/home";

/// Children of a shown directory that are looked at as homes: more than any
/// host has accounts, and a bound on the work.
const MAX_CHILDREN: usize = 4096;

/// What must not be seen, found once per start.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    homes: Homes,
    private: BTreeSet<PathBuf>,
    /// What there is in the homes, looked for when it is first asked for.
    in_homes: OnceCell<BTreeSet<PathBuf>>,
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

    /// gig's own, canonical.
    pub(super) fn private(&self) -> &BTreeSet<PathBuf> {
        &self.private
    }

    /// Every credential path that exists and matters for `source`, canonical.
    pub(super) fn credentials(&self, source: &Path) -> BTreeSet<PathBuf> {
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
        let in_homes = self.in_homes.get_or_init(|| match &self.homes {
            Homes::Host => Known::now(),
            #[cfg(test)]
            Homes::Only(homes) => homes.iter().flat_map(|home| in_home(home)).collect(),
        });
        in_homes.iter().cloned().chain(here).collect()
    }
}

/// What was found in everybody's homes, and where.
#[derive(Debug, Default)]
struct Known {
    looks: Vec<Look>,
    found: BTreeSet<PathBuf>,
    /// Whether a link led to any of it.
    by_link: bool,
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
        let accounts = [ACCOUNTS, HOMES].map(|path| Look::at(path.into()));
        let mut known = Self::find(homes());
        known.looks.extend(accounts);
        let found = known.found.clone();
        *last = known.lasts().then_some(known);
        found
    }

    /// Whether looking again would find the same.
    fn holds(&self) -> bool {
        self.looks.iter().all(Look::holds)
    }

    /// Whether [`Self::holds`] can tell.
    fn lasts(&self) -> bool {
        !self.by_link && settled(&self.looks)
    }

    /// Each directory is stamped before it is looked into.
    fn find(homes: BTreeSet<PathBuf>) -> Self {
        let mut known = Self::default();
        for home in homes {
            let Ok(canonical) = fs::canonicalize(&home) else {
                // One that appears later shows here.
                known.looks.push(Look::at(home));
                continue;
            };
            if canonical != home
                && let Some(parent) = home.parent()
            {
                known.looks.push(Look::at(parent.to_owned()));
            }
            known.looks.extend(
                HOLDERS
                    .iter()
                    .map(|holder| Look::at(canonical.join(holder))),
            );
            for name in CREDENTIALS {
                let literal = canonical.join(name);
                if let Some(path) = existing(&literal) {
                    known.by_link |= path != literal;
                    known.found.insert(path);
                }
            }
        }
        known
    }
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

/// Canonical, if there is such a thing. Most there are not: that costs one look.
pub(super) fn existing(path: &Path) -> Option<PathBuf> {
    fs::symlink_metadata(path).ok()?;
    fs::canonicalize(path).ok()
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
                let known = found_in(&home);
                while !settled(&known.looks) {
                    std::thread::yield_now();
                }
                assert!(known.holds() && known.lasts() && known.found.is_empty());
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
        assert_eq!(known.found, BTreeSet::from([elsewhere]));
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
