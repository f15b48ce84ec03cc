//! Under which other paths the host shows the same: file systems that are mounted more than once, whole or in part.
//!
//! What must not be seen is known by one path; a bind mount (mount(8)) of it, or of what lies around it, shows it by
//! another, and nothing in either path tells. The kernel lists which part of which file system is mounted where
//! (proc_pid_mountinfo(5)). Promises that a path is named only where the very same is found.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

/// What is mounted, in the kernel's order: of two at one place the later is seen.
#[derive(Debug, Default)]
pub(super) struct Mounts(Vec<Mount>);

/// One of them.
#[derive(Debug)]
pub(super) struct Mount {
    /// Of the file system, as the list has it.
    pub(super) device: Vec<u8>,
    /// The part of the file system that is seen there.
    pub(super) root: PathBuf,
    pub(super) point: PathBuf,
    /// Which file system: `ext4`, `proc` …
    pub(super) kind: Vec<u8>,
    /// Its options: of an overlay what lies in it.
    pub(super) options: Vec<u8>,
    /// As statx(2) has it.
    pub(super) id: u64,
}

impl Mounts {
    /// In this mount namespace, now.
    pub(super) fn read() -> Self {
        Self::of(&fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    pub(super) fn of(list: &[u8]) -> Self {
        let lines = list.split(|octet| *octet == b'\n');
        Self(lines.filter_map(mount).collect())
    }

    /// All, in the kernel's order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Mount> {
        self.0.iter()
    }

    /// The one that a canonical path lies in.
    pub(super) fn at(&self, path: &Path) -> Option<&Mount> {
        let around = |mount: &&Mount| path.starts_with(&mount.point);
        let depth = |mount: &&Mount| mount.point.components().count();
        // The last of those that are as deep.
        self.0.iter().filter(around).max_by_key(depth)
    }

    /// The paths, canonical, and all others by which the same is reached, or a piece of it.
    pub(super) fn all_names(&self, paths: BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        let others: Vec<PathBuf> = paths
            .iter()
            .flat_map(|path| {
                let same = self
                    .others(path)
                    .filter(|(inside, other)| is_same(&joined(path, inside), other));
                same.map(|(_, other)| other)
            })
            .collect();
        let mut all = paths;
        all.extend(others);
        all
    }

    /// Where it, or what lies at a path in it, would be seen as well, if nothing is mounted over it there.
    fn others(&self, path: &Path) -> impl Iterator<Item = (PathBuf, PathBuf)> {
        let place = self.at(path).and_then(|own| {
            let inside = path.strip_prefix(&own.point).ok()?;
            Some((own, joined(&own.root, inside)))
        });
        place.into_iter().flat_map(move |(own, place)| {
            self.0.iter().filter_map(move |mount| {
                if mount.device != own.device || mount.point == own.point {
                    return None;
                }
                if let Ok(inside) = place.strip_prefix(&mount.root) {
                    return Some((PathBuf::new(), joined(&mount.point, inside)));
                }
                let piece = mount.root.strip_prefix(&place).ok()?;
                Some((piece.to_owned(), mount.point.clone()))
            })
        })
    }
}

/// Without a slash at the end where there is nothing to join.
fn joined(path: &Path, inside: &Path) -> PathBuf {
    path.components().chain(inside.components()).collect()
}

fn is_same(path: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let found = fs::symlink_metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    identity(path).is_some_and(|own| identity(other) == Some(own))
}

/// Of a line: number, parent, device, root, place, options, more until a dash, kind, source, options.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|octet| *octet == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let mut fields = fields.skip(1);
    let device = fields.next()?.to_vec();
    let (root, point) = (fields.next()?, fields.next()?);
    let mut more = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = more.next()?.to_vec();
    let options = more.nth(1).unwrap_or_default().to_vec();
    Some(Mount {
        kind,
        options,
        id,
        device,
        root: unescaped(root),
        point: unescaped(point),
    })
}

/// Blanks, line ends and backslashes stand as three octal digits behind a backslash.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, more)) = rest.split_first() {
        let octal = more
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(octet) => {
                path.push(octet);
                rest = more.get(3..).unwrap_or_default();
            }
            None => {
                path.push(*first);
                rest = more;
            }
        }
    }
    PathBuf::from(OsStr::from_bytes(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        21 20 8:1 /srv/vol/home /home rw shared:1 - ext4 /dev/sda1 rw\n\
        22 20 0:40 / /scratch rw - tmpfs tmpfs rw\n\
        23 20 0:40 /a\\040b /b rw - tmpfs tmpfs rw\n\
        24 20 0:41 / /alone rw - tmpfs tmpfs rw\n";

    fn others(path: &str) -> Vec<PathBuf> {
        let mounts = Mounts::of(LIST.as_bytes());
        mounts
            .others(path.as_ref())
            .map(|(_, other)| other)
            .collect()
    }

    #[test]
    fn what_is_mounted_twice_has_another_name() {
        for (path, expected) in [
            ("/home/ana/.ssh", "/srv/vol/home/ana/.ssh"),
            ("/home", "/srv/vol/home"),
            ("/srv/vol/home/ana", "/home/ana"),
            ("/srv/vol/home", "/home"),
            ("/b/key", "/scratch/a b/key"),
            ("/scratch/a b", "/b"),
        ] {
            assert_eq!(others(path), [PathBuf::from(expected)], "{path}");
        }
        // A piece of it is mounted elsewhere.
        assert_eq!(others("/srv/vol"), [PathBuf::from("/home")]);
        for path in ["/alone/key", "/srv/other", "/scratch/a", "/etc/shadow"] {
            assert_eq!(others(path), Vec::<PathBuf>::new(), "{path}");
        }
    }

    #[test]
    fn a_name_where_something_else_is_found_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        for name in ["one/key", "two/key"] {
            let path = root.join(name);
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::write(path, "k").unwrap();
        }
        let list = format!(
            "1 0 9:9 / {root}/one rw - x x rw\n2 0 9:9 / {root}/two rw - x x rw\n",
            root = root.display()
        );
        let mounts = Mounts::of(list.as_bytes());
        let known = BTreeSet::from([root.join("one/key")]);
        assert_eq!(mounts.all_names(known.clone()), known);
        fs::remove_file(root.join("two/key")).unwrap();
        fs::hard_link(root.join("one/key"), root.join("two/key")).unwrap();
        let both = ["one/key", "two/key"].map(|name| root.join(name));
        assert_eq!(mounts.all_names(known), BTreeSet::from(both));
    }

    #[test]
    fn a_piece_that_is_mounted_elsewhere_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(root.join("keys")).unwrap();
        fs::write(root.join("keys/one"), "k").unwrap();
        fs::hard_link(root.join("keys/one"), root.join("shown")).unwrap();
        let list = format!(
            "1 0 9:9 / {root} rw - x x rw\n2 0 9:9 /keys/one {root}/shown rw - x x rw\n",
            root = root.display()
        );
        let all = Mounts::of(list.as_bytes()).all_names(BTreeSet::from([root.join("keys")]));
        assert_eq!(
            all,
            BTreeSet::from(["keys", "shown"].map(|name| root.join(name)))
        );
    }

    #[test]
    fn escapes_are_undone_and_what_is_none_stays() {
        for (field, path) in [
            ("a\\040b\\134c", "a b\\c"),
            ("\\9", "\\9"),
            ("\\04", "\\04"),
        ] {
            assert_eq!(unescaped(field.as_bytes()), PathBuf::from(path));
        }
    }
}
