//! Views into the kernel, and devices, wherever they are mounted: a chroot has a /proc of its own, and a bind mount
//! (mount(8)) shows the host's /dev under any name.
//!
//! Known by the kind of their file system, or because a part of what is mounted at or below [`HOST_VIEWS`] is what is
//! seen there. Promises nothing of what another file system passes on (FUSE), nor of a view that is mounted while the program runs: what is mounted later on the host does
//! not come into a sandbox that shows the folder already.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, major, minor, statx};

use super::HOST_VIEWS;
use super::aliases::{Mount, Mounts};
use super::hidden::existing;

/// Whether what is seen at a path is one.
pub(super) fn shows(mounts: &Mounts, path: &Path) -> bool {
    // By its number where the kernel tells it (Linux 5.8): a name may be of a mount that another one covers.
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok();
    let id = found.filter(|found| found.stx_mask & StatxFlags::MNT_ID.bits() != 0);
    let by_id = id.and_then(|found| mounts.all().find(|mount| mount.id == found.stx_mnt_id));
    let found = by_id.or_else(|| mounts.at(path));
    found.is_some_and(|mount| is_view(mounts, mount))
}

/// Where they are seen below a folder.
pub(super) fn below(mounts: &Mounts, folder: &Path) -> BTreeSet<PathBuf> {
    let inside = mounts.all().filter(|mount| mount.point.starts_with(folder));
    let views = inside.filter(|mount| is_view(mounts, mount));
    views.filter_map(seen).collect()
}

fn is_view(mounts: &Mounts, mount: &Mount) -> bool {
    let of_the_host = |other: &Mount| HOST_VIEWS.iter().any(|view| other.point.starts_with(view));
    let is_part =
        |whole: &Mount| whole.device == mount.device && mount.root.starts_with(&whole.root);
    KINDS.iter().any(|kind| mount.kind == kind.as_bytes())
        || overlays_one(mount)
        || mounts
            .all()
            .any(|other| of_the_host(other) && is_part(other))
}

/// Whether a layer of an overlay is one.
fn overlays_one(mount: &Mount) -> bool {
    let options = String::from_utf8_lossy(&mount.options);
    let mut layers = options
        .split(',')
        .filter_map(|option| option.split_once("dir"))
        .flat_map(|(_, layers)| layers.split([':', '=', '+']));
    mount.kind == b"overlay"
        && layers.any(|layer| {
            HOST_VIEWS
                .iter()
                .any(|view| Path::new(layer).starts_with(view))
        })
}

/// Where it is seen, if no mount that came later covers it; or the closed folder that it may be seen in.
fn seen(mount: &Mount) -> Option<PathBuf> {
    let Ok(found) = fs::symlink_metadata(&mount.point) else {
        return existing(&mount.point);
    };
    let seen = format!("{}:{}", major(found.dev()), minor(found.dev()));
    // An overlay's files have its layers' devices.
    let is_it = seen.as_bytes() == mount.device || mount.kind == b"overlay";
    is_it.then(|| mount.point.clone())
}

/// File systems of the kernel's own making (filesystems(5)), that hold no files of anybody's.
const KINDS: [&str; 25] = [
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "mqueue",
    "cgroup",
    "cgroup2",
    "cpuset",
    "debugfs",
    "tracefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "configfs",
    "pstore",
    "efivarfs",
    "bpf",
    "binfmt_misc",
    "binder",
    "fusectl",
    "functionfs",
    "nsfs",
    "nfsd",
    "rpc_pipefs",
    "resctrl",
];

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        21 20 0:5 / /dev rw - devtmpfs udev rw\n\
        22 21 0:24 / /dev/shm rw - tmpfs tmpfs rw\n\
        23 20 8:1 /pods/log /dev/log rw - ext4 /dev/sda1 rw\n\
        30 20 0:22 / /srv/root/proc rw shared:1 - proc proc rw\n\
        31 20 0:24 /mine /srv/root/memory rw - tmpfs tmpfs rw\n\
        32 20 8:1 /pods/volume /srv/root/volume rw - ext4 /dev/sda1 rw\n\
        33 20 0:30 / /srv/root/tmp rw - tmpfs tmpfs rw\n\
        34 20 8:1 /pods/log/part /srv/root/part rw - ext4 /dev/sda1 rw\n\
        35 20 0:50 / /srv/root/over rw - overlay over rw,lowerdir=/sys:/srv/a,upperdir=/srv/b\n\
        36 20 0:51 / /srv/root/plain rw - overlay over rw,lowerdir=/srv/sys,workdir=/srv/dev\n";

    #[test]
    fn a_view_is_known_by_its_kind_or_by_what_is_seen_in_it() {
        let mounts = Mounts::of(LIST.as_bytes());
        for (path, is_one) in [
            ("/srv/root/proc", true),
            ("/srv/root/proc/1/comm", true),
            ("/srv/root/memory/x", true),
            ("/srv/root/part", true),
            ("/srv/root/over/kernel", true),
            ("/srv/root/plain", false),
            ("/srv/root", false),
            ("/srv/root/volume", false),
            ("/srv/root/tmp/x", false),
            ("/srv/root/processes", false),
        ] {
            assert_eq!(shows(&mounts, path.as_ref()), is_one, "{path}");
        }
    }

    #[test]
    fn views_below_a_folder_are_those_that_are_seen() {
        let mounts = Mounts::read();
        let found = below(&mounts, "/".as_ref());
        assert!(found.contains(Path::new("/proc")), "{found:?}");
        // Of this list nothing is mounted here.
        let mounts = Mounts::of(LIST.as_bytes());
        assert!(below(&mounts, "/srv".as_ref()).is_empty());
    }
}
