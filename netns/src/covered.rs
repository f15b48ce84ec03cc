//! A /proc whose parts are covered, as containers and service managers cover them.
//!
//! Linux lets whoever has a user namespace mount a /proc only where they see one that nothing covers
//! (`mount_too_revealing`, fs/namespace.c): a fresh one would show what somebody hid. A gig that is root and may
//! mount has one laid over it first, in mounts that nobody else sees; anybody else is told what is in the way. The
//! covered one itself is shown to no sandbox: it holds the host's processes.

use std::{fmt, fs, io};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::sys;

/// What covers parts of /proc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covers(Vec<String>);

impl Covers {
    /// What there is for this process.
    pub(crate) fn found() -> Option<Self> {
        Self::within(&fs::read_to_string("/proc/self/mountinfo").ok()?)
    }

    /// The mounts on the /proc that is seen: proc_pid_mountinfo(5).
    fn within(mounts: &str) -> Option<Self> {
        let mounts = || {
            mounts.lines().filter_map(|line| {
                let mut fields = line.split(' ');
                let (own, parent) = (fields.next()?, fields.next()?);
                Some((own, parent, fields.nth(2)?))
            })
        };
        // The last one lies on top.
        let (seen, ..) = mounts().rfind(|(.., place)| *place == "/proc")?;
        let covers = mounts()
            .filter(|(_, parent, place)| *parent == seen && *place != HARMLESS)
            .map(|(.., place)| place.to_owned());
        let covers: Vec<String> = covers.collect();
        (!covers.is_empty()).then_some(Self(covers))
    }
}

impl fmt::Display for Covers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (told, rest) = self.0.split_at(self.0.len().min(TOLD));
        f.write_str(&told.join(", "))?;
        if rest.is_empty() {
            return Ok(());
        }
        write!(f, " and {} more", rest.len())
    }
}

/// Has root's process see a /proc that nothing covers, where it may mount one. Others, and those who may not, keep
/// what they have: making the hub's own tells.
pub(crate) fn uncover() {
    if rustix::process::geteuid().is_root() && Covers::found().is_some() {
        // Told when the hub mounts its own.
        let _refused = lay_over();
    }
}

fn lay_over() -> io::Result<()> {
    sys::unshare_mounts()?;
    mount_fresh()
}

/// A /proc of this pid namespace's own over the one that is there, in a mount namespace of one's own: nobody else
/// sees it.
pub(crate) fn mount_fresh() -> io::Result<()> {
    let apart = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", apart)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None)?;
    Ok(())
}

/// What a person can do about it.
pub(crate) const CURE: &str = "in a container, run it with an unmasked /proc (docker run --security-opt \
     systempaths=unconfined; podman run --security-opt unmask=ALL; Kubernetes: procMount: Unmasked); in a systemd unit, \
     ProtectKernelTunables=no and ProtectKernelLogs=no; else umount what covers it";
/// Nearly every host mounts something there. The kernel keeps the place empty, and what covers an empty one does not
/// count.
const HARMLESS: &str = "/proc/sys/fs/binfmt_misc";
/// Containers cover a dozen.
const TOLD: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_the_proc_that_is_seen_covers_it() {
        let host = "22 1 0:20 / / rw - ext4 /dev/vda rw\n\
                    23 22 0:21 / /proc rw,nosuid - proc proc rw\n\
                    24 23 0:22 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n\
                    25 22 0:23 / /process/x rw - tmpfs tmpfs rw\n";
        assert_eq!(Covers::within(host), None);
        let container = format!(
            "{host}26 23 0:24 /null /proc/kcore rw - devtmpfs none rw\n\
             27 23 0:21 /sys /proc/sys ro - proc proc rw\n"
        );
        let covers = Covers::within(&container).unwrap();
        assert_eq!(covers.to_string(), "/proc/kcore, /proc/sys");
        let many = format!(
            "{container}28 23 0:1 / /proc/acpi ro - tmpfs none rw\n\
             29 23 0:1 / /proc/keys ro - tmpfs none rw\n30 23 0:1 / /proc/scsi ro - tmpfs none rw\n"
        );
        let covers = Covers::within(&many).unwrap();
        assert_eq!(
            covers.to_string(),
            "/proc/kcore, /proc/sys, /proc/acpi and 2 more"
        );
        // A fresh one over it.
        let laid = format!("{many}31 23 0:30 / /proc rw - proc proc rw\n");
        assert_eq!(Covers::within(&laid), None);
        assert_eq!(Covers::within("no mounts\n"), None);
    }
}
