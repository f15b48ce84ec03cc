//! Where control groups can be made on this host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// What a group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    /// Bytes, file cache and private file systems included.
    Memory,
    /// Processes and threads.
    Pids,
    /// Processor time: microseconds of each tenth of a second.
    Cpu,
}

/// A place for groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// Groups are made in here.
    pub(crate) parent: PathBuf,
    /// What they can limit.
    pub(crate) controllers: Vec<Controller>,
    unified: bool,
}

/// A mounted hierarchy, as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mounted {
    root: PathBuf,
    point: PathBuf,
    unified: bool,
    options: Vec<String>,
}

impl Controller {
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }
}

/// Places that together hold the wanted controllers, as far as there are any.
pub(crate) fn writable(wanted: &[Controller]) -> Vec<Hierarchy> {
    let mounts = mounted(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let unified = mounts
        .iter()
        .filter(|mount| mount.unified)
        .find_map(|mount| unified(mount, &own, wanted));
    if let Some(place) = unified {
        return vec![place];
    }
    wanted
        .iter()
        .filter_map(|controller| separate(&mounts, &own, *controller))
        .collect()
}

/// The nearest group above our own whose children have the controllers and
/// that we may write: groups with processes in them, like our own, cannot hand
/// controllers on.
fn unified(mount: &Mounted, own: &str, wanted: &[Controller]) -> Option<Hierarchy> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let start = below(mount, path)?;
    start
        .ancestors()
        .take_while(|parent| parent.starts_with(&mount.point))
        .find(|parent| {
            let handed =
                fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
            let has = |one: &Controller| {
                handed
                    .split_ascii_whitespace()
                    .any(|name| name == one.name())
            };
            wanted.iter().all(has) && writable_group(parent)
        })
        .map(|parent| Hierarchy {
            parent: parent.to_owned(),
            controllers: wanted.to_vec(),
            unified: true,
        })
}

fn separate(mounts: &[Mounted], own: &str, controller: Controller) -> Option<Hierarchy> {
    let named = |list: &str| list.split(',').any(|name| name == controller.name());
    let mount = mounts.iter().find(|mount| {
        !mount.unified && mount.options.iter().any(|name| name == controller.name())
    })?;
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        named(controllers).then_some(path)
    })?;
    let parent = below(mount, path)?;
    writable_group(&parent).then(|| Hierarchy {
        parent,
        controllers: vec![controller],
        unified: false,
    })
}

/// Our own group under the mount, which may show a part of the tree only.
fn below(mount: &Mounted, path: &str) -> Option<PathBuf> {
    let inside = Path::new(path).strip_prefix(&mount.root).ok()?;
    let group = mount.point.join(inside);
    group.is_dir().then_some(group)
}

fn writable_group(path: &Path) -> bool {
    let may = |path: &Path| rustix::fs::access(path, Access::WRITE_OK).is_ok();
    may(path) && may(&path.join("cgroup.procs"))
}

fn mounted(mountinfo: &str) -> Vec<Mounted> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut fields = before.split(' ').skip(3);
            let (root, point) = (fields.next()?, fields.next()?);
            let mut fields = after.split(' ');
            let kind = fields.next()?;
            let options = fields.nth(1)?.split(',').map(str::to_owned).collect();
            matches!(kind, "cgroup" | "cgroup2").then(|| Mounted {
                root: root.into(),
                point: point.into(),
                unified: kind == "cgroup2",
                options,
            })
        })
        .collect()
}

impl Hierarchy {
    /// Sets a limit of a group made here.
    pub(crate) fn set(&self, group: &Path, controller: Controller, value: u64) -> io::Result<()> {
        let write = |file: &str, text: String| fs::write(group.join(file), text);
        match (controller, self.unified) {
            (Controller::Pids, _) => write("pids.max", value.to_string()),
            (Controller::Memory, true) => {
                write("memory.max", value.to_string())?;
                // Swap would only make it slow before the limit shows.
                if_there(write("memory.swap.max", "0".to_owned()))?;
                // All or nothing: half a program is none.
                if_there(write("memory.oom.group", "1".to_owned()))
            }
            (Controller::Memory, false) => {
                write("memory.limit_in_bytes", value.to_string())?;
                if_there(write("memory.memsw.limit_in_bytes", value.to_string()))
            }
            (Controller::Cpu, true) => write("cpu.max", format!("{value} {}", super::CPU_PERIOD)),
            (Controller::Cpu, false) => {
                write("cpu.cfs_period_us", super::CPU_PERIOD.to_string())?;
                write("cpu.cfs_quota_us", value.to_string())
            }
        }
    }
}

/// A file that a kernel without swap accounting does not have.
fn if_there(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_mounts_are_read() {
        let text = "30 1 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                    31 1 0:28 /a /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw\n\
                    32 1 0:29 / /proc rw - proc proc rw\n";
        let found = mounted(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].options, ["rw", "memory"]);
        assert!(found[1].unified);
        assert_eq!(found[1].root, Path::new("/a"));
    }
}
