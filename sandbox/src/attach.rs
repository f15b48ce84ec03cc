//! Mounts for a sandbox that has user ids of its own, made by a privileged gig.
//!
//! Such a sandbox may neither reach a private directory of the host nor write
//! anywhere, because its ids own nothing. So the host side, which may, clones
//! the mount, maps the owner of the directory to the program's id (an idmapped
//! mount, Linux 5.12) and attaches it inside while the bootstrap still waits.
//! The mount exists in the sandbox's mount namespace alone and ends with it;
//! what the program writes belongs to the directory's owner on the host. Files
//! of other owners stay as unreachable as they were. A read-only file that
//! everybody may read is attached as it is.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use rustix::process::Pid;
use rustix::thread::{CapabilitySet, LinkNameSpaceType, capabilities, move_into_link_name_space};

use crate::bootstrap::orders::PROGRAM_ID;
use crate::errand::Errand;
use crate::error::StartSandboxError;
use crate::layers::mounts::{FRAME_SIZE, Frame, VettedBind};
use crate::layers::{binds, streams};
use crate::spec::BindMode;
use crate::sys;

/// Attaches all of them, parents before what lies in them, and gives the program its terminal.
pub(crate) fn attach(
    binds: Vec<VettedBind>,
    terminal: Option<OwnedFd>,
    program: Pid,
) -> Result<(), StartSandboxError> {
    if let Some(terminal) = terminal {
        // Root without CAP_CHOWN keeps it: then the program opens it by /dev/tty alone.
        let ids = ProgramIds::of(program);
        let _given = ids.and_then(|ids| streams::give(&terminal, ids.uid));
    }
    let Some(first) = binds.first() else {
        return Ok(());
    };
    let held = capabilities(None).map(|sets| sets.effective);
    if held.is_ok_and(|held| !held.contains(CapabilitySet::SYS_ADMIN)) {
        return Err(StartSandboxError::MayNotMount {
            path: first.source.clone(),
        });
    }
    // A thread of its own: it leaves its file system context and its mount
    // namespace and never comes back.
    std::thread::scope(|scope| {
        scope
            .spawn(move || attach_here(&binds, program))
            .join()
            .unwrap_or_else(|_| Err(failed(Path::new("/"), io::ErrorKind::Other.into())))
    })
}

/// Made before, by the owner that they map: making one takes a process.
type Maps = BTreeMap<(u32, u32), OwnedFd>;

/// A detached mount and where it goes.
struct Detached {
    tree: OwnedFd,
    dest: PathBuf,
    source: PathBuf,
    /// It hides something below this directory.
    hides_below: Option<PathBuf>,
}

fn failed(path: &Path, source: io::Error) -> StartSandboxError {
    StartSandboxError::Attach {
        path: path.to_owned(),
        source,
    }
}

fn attach_here(binds: &[VettedBind], program: Pid) -> Result<(), StartSandboxError> {
    let ids = ProgramIds::of(program).map_err(|error| failed(Path::new("/proc"), error))?;
    let mut detached = Vec::new();
    let mut maps = Maps::new();
    for bind in binds {
        let at = |error: io::Error| match Errno::from_io_error(&error) {
            // Of mount_setattr(2) alone, among what is done here.
            Some(Errno::INVAL) => StartSandboxError::MapsNoIds {
                path: bind.source.clone(),
                source: error,
            },
            _ => failed(&bind.source, error),
        };
        let tree = match &bind.frame {
            Some(frame) => frame_directory(frame),
            None => clone(bind, &ids, &mut maps),
        }
        .map_err(at)?;
        detached.push(Detached {
            tree,
            dest: bind.dest.clone(),
            source: bind.source.clone(),
            hides_below: None,
        });
        for mask in &bind.masks {
            let tree = if mask.directory {
                empty_directory()
            } else {
                closed_file()
            }
            .map_err(at)?;
            let (dest, source) = (bind.dest.join(&mask.below), bind.source.join(&mask.below));
            let hides_below = Some(bind.dest.clone());
            detached.push(Detached {
                tree,
                dest,
                source,
                hides_below,
            });
        }
    }
    enter(program).map_err(|error| failed(Path::new("/"), error))?;
    let mut closed = Vec::new();
    for mount in detached {
        let is_closed = closed.iter().any(|closed| mount.dest.starts_with(closed));
        // What is to be shown in there has no place, and is refused as that.
        if !is_closed || mount.hides_below.is_none() {
            closed.extend(place(&mount)?);
        }
    }
    Ok(())
}

/// The program's ids as the host counts.
struct ProgramIds {
    uid: u32,
    gid: u32,
}

impl ProgramIds {
    fn of(program: Pid) -> io::Result<Self> {
        let pid = program.as_raw_nonzero();
        let outside = |file: &str| {
            let map = fs::read_to_string(format!("/proc/{pid}/{file}"))?;
            map.lines()
                .find_map(|line| {
                    let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
                    let (inside, outside, count) = (
                        numbers.next()?.ok()?,
                        numbers.next()?.ok()?,
                        numbers.next()?.ok()?,
                    );
                    let offset = PROGRAM_ID.checked_sub(inside)?;
                    (offset < count)
                        .then(|| outside.checked_add(offset))
                        .flatten()
                })
                .ok_or_else(|| io::Error::other("the program's id is not in its id map"))
        };
        Ok(Self {
            uid: outside("uid_map")?,
            gid: outside("gid_map")?,
        })
    }
}

/// A copy of the mount, owned inside by the program where the owner of the
/// source owns it outside.
fn clone(bind: &VettedBind, ids: &ProgramIds, maps: &mut Maps) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let source = File::from(binds::open_vetted(&bind.source)?);
    let tree = open_tree(&source, "", flags)?;
    let owner = match &bind.owned_as {
        Some(path) => File::from(binds::open_vetted(path)?).metadata()?,
        None => source.metadata()?,
    };
    if bind.mode == BindMode::Ro && (bind.public || as_good_as_owned(&owner)) {
        sys::confine_mount(&tree)?;
        return Ok(tree);
    }
    let map = match maps.entry((owner.uid(), owner.gid())) {
        Entry::Occupied(map) => map.into_mut(),
        Entry::Vacant(none) => none.insert(id_map((owner.uid(), ids.uid), (owner.gid(), ids.gid))?),
    };
    sys::map_mount(&tree, map, bind.mode == BindMode::Ro)?;
    Ok(tree)
}

/// A file that everybody may do with what its owner may, short of writing,
/// needs no map: a server's program is one. Making a map takes a process.
fn as_good_as_owned(file: &Metadata) -> bool {
    const READ_AND_EXECUTE: u32 = 0o5;
    let (owners, others) = (file.mode() >> 6, file.mode());
    file.is_file() && owners & READ_AND_EXECUTE & !others == 0
}

/// A user namespace that exists for its map: first id here, second there.
fn id_map(uid: (u32, u32), gid: (u32, u32)) -> io::Result<OwnedFd> {
    let holder = Errand::hold_ids()?;
    let own = |name: &str| format!("/proc/{}/{name}", holder.id());
    fs::write(own("gid_map"), format!("{} {} 1\n", gid.0, gid.1))?;
    fs::write(own("uid_map"), format!("{} {} 1\n", uid.0, uid.1))?;
    Ok(File::open(own("ns/user"))?.into())
}

fn empty_directory() -> io::Result<OwnedFd> {
    let tree = directory("4096", "0000")?;
    sys::confine_mount(&tree)?;
    Ok(tree)
}

/// With links and places for what is mounted in it.
fn frame_directory(frame: &Frame) -> io::Result<OwnedFd> {
    let tree = directory(&FRAME_SIZE.to_string(), "0755")?;
    for (name, target) in &frame.links {
        symlinkat(target, &tree, name)?;
    }
    for (name, directory) in &frame.places {
        if *directory {
            mkdirat(&tree, name, Mode::from_raw_mode(0o755))?;
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let _made = openat(&tree, name, flags, Mode::from_raw_mode(0o444))?;
        }
    }
    sys::confine_mount(&tree)?;
    Ok(tree)
}

/// A directory in memory, mounted nowhere yet.
fn directory(size: &str, mode: &str) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "size", size)?;
    fsconfig_set_string(context.as_fd(), "mode", mode)?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// A device where devices cannot be opened.
fn closed_file() -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, "/dev/null", flags)?;
    sys::close_mount(&tree)?;
    Ok(tree)
}

/// Into the sandbox's mount namespace.
fn enter(program: Pid) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{}/ns/mnt", program.as_raw_nonzero()))?;
    sys::leave_shared_root()?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
    Ok(())
}

/// Mounts it where it goes. What is to hide lies perhaps where nobody gets who is not its owner, and in a mapped mount
/// that is also root: then the directory that does not let anybody in is closed whole, and answered.
fn place(mount: &Detached) -> Result<Option<PathBuf>, StartSandboxError> {
    let error = match find(&mount.dest) {
        Ok(target) => return move_to(mount, &mount.tree, &target).map(|()| None),
        Err(error) => error,
    };
    if error == Errno::ACCESS
        && let Some(top) = &mount.hides_below
    {
        let above = mount.dest.ancestors().skip(1);
        for dest in above.take_while(|dest| dest.starts_with(top)) {
            if let Ok(target) = find(dest) {
                let tree = empty_directory().map_err(|error| failed(&mount.source, error))?;
                return move_to(mount, &tree, &target).map(|()| Some(dest.to_owned()));
            }
        }
    }
    Err(match error {
        Errno::NOENT | Errno::NOTDIR => StartSandboxError::NoPlace {
            dest: mount.dest.clone(),
            source: error.into(),
        },
        _ => failed(&mount.source, error.into()),
    })
}

/// No link inside leads the way.
fn find(dest: &Path) -> rustix::io::Result<OwnedFd> {
    openat2(
        CWD,
        dest,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

fn move_to(mount: &Detached, tree: &OwnedFd, target: &OwnedFd) -> Result<(), StartSandboxError> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree.as_fd(), "", target.as_fd(), "", flags)
        .map_err(|error| failed(&mount.source, error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_not_there_is_not_the_owners_fault() {
        let mount = Detached {
            tree: File::open("/").unwrap().into(),
            dest: "/absent-place/x".into(),
            source: "/".into(),
            hides_below: None,
        };
        let told = place(&mount).unwrap_err().to_string();
        assert!(told.contains("/absent-place/x: it is not there"), "{told}");
        assert!(!told.contains("owner"), "{told}");
    }
}
