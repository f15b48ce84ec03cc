//! From what was refused to what a person can do about it.
//!
//! Looks at limits that are at their end and at the switches by which hosts forbid user
//! namespaces, most specific first, and names the one that is thrown.

use std::fs;
use std::path::Path;

use crate::covered;
use crate::hub_protocol::Step;
use crate::id_map::is_powerless_root;

/// For a root that may not even map its own id.
pub(crate) const POWERLESS_ROOT: &str = "run gig as another user than root, or leave root CAP_SETUID, CAP_SETGID and \
                                         CAP_SETFCAP (in a container, --cap-add each)";
const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
const DEBIAN: &str = "/proc/sys/kernel/unprivileged_userns_clone";

/// The cure for what failed at a step, where one is known.
pub(crate) fn of(step: Option<Step>, errno: Option<i32>) -> String {
    if let Some(cure) = of_limit(errno, &Limit::read()) {
        return cure;
    }
    match step {
        Some(Step::Unshare) | None => user_namespaces(),
        Some(Step::Identity) if is_powerless_root() => POWERLESS_ROOT.to_owned(),
        Some(Step::Identity) => {
            "apt-get install uidmap, and give the user 65,536 ids in /etc/subuid and /etc/subgid"
                .to_owned()
        }
        Some(Step::Proc) => covered::CURE.to_owned(),
        Some(Step::Link) => "modprobe veth".to_owned(),
        Some(Step::Firewall) => {
            "modprobe -a nf_tables nft_chain_nat nft_redir nft_reject_ipv4 nft_connlimit nf_conntrack"
                .to_owned()
        }
        Some(Step::Namespace) => "sysctl -w user.max_net_namespaces=15000".to_owned(),
        Some(
            Step::Sysctl
            | Step::Enter
            | Step::Inspect
            | Step::Netlink
            | Step::Listen
            | Step::Slot
            | Step::Spawn
            | Step::Tree
            | Step::Refused
            | Step::Reap
            | Step::Handing
            | Step::Protocol,
        ) => "see what was refused; a seccomp profile or security module of the host's is likely"
            .to_owned(),
    }
}

/// How many namespaces of one kind this user may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    /// As in `user.max_KIND_namespaces`.
    pub(crate) kind: &'static str,
    pub(crate) most: u64,
}

impl Limit {
    /// Of each kind that a hub and its sandboxes have.
    pub(crate) fn read() -> Vec<Self> {
        let of = |kind: &'static str| {
            let text = fs::read_to_string(format!("/proc/sys/user/max_{kind}_namespaces")).ok()?;
            let most = text.trim().parse().ok()?;
            Some(Self { kind, most })
        };
        KINDS.into_iter().filter_map(of).collect()
    }

    /// The lowest.
    pub(crate) fn lowest(all: &[Self]) -> Option<Self> {
        all.iter().copied().min_by_key(|limit| limit.most)
    }

    /// What raises it.
    pub(crate) fn cure(self) -> String {
        let Self { kind, most } = self;
        let more = most.saturating_mul(2).max(15_000);
        format!("sysctl -w user.max_{kind}_namespaces={more}")
    }
}

/// The limit that is at its end, by what the kernel said or by how low it is.
fn of_limit(errno: Option<i32>, limits: &[Limit]) -> Option<String> {
    match errno {
        Some(libc::EMFILE) => {
            return Some("raise the number of open files: ulimit -n 4096, or LimitNOFILE=".into());
        }
        Some(libc::EFBIG) => {
            return Some("raise the size of files: ulimit -f unlimited, or LimitFSIZE=".into());
        }
        _ => {}
    }
    // user_namespaces(7): that is what the kernel says of a limit that is reached.
    let reached = errno == Some(libc::ENOSPC);
    let lowest = Limit::lowest(limits)?;
    (reached || lowest.most < AT_LEAST).then(|| lowest.cure())
}

/// Which switch forbids user namespaces.
pub(crate) fn user_namespaces() -> String {
    if let Some(cure) = of_limit(None, &Limit::read()) {
        return cure;
    }
    if says(DEBIAN, "0") {
        return "sysctl -w kernel.unprivileged_userns_clone=1".to_owned();
    }
    if says(APPARMOR, "1") {
        return "give gig an AppArmor profile that has `userns,` (deploy/HARDENING.md), or \
                sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
            .to_owned();
    }
    if in_container() {
        return "let the container make user namespaces: docker run --security-opt \
                seccomp=unconfined --security-opt apparmor=unconfined --security-opt \
                systempaths=unconfined"
            .to_owned();
    }
    "look for a seccomp profile or security module that forbids unshare(CLONE_NEWUSER)".to_owned()
}

/// Whether a file of the kernel's says so.
fn says(file: &str, value: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.trim() == value)
}

/// Kinds of namespaces of a hub and its sandboxes.
const KINDS: [&str; 7] = ["user", "net", "pid", "mnt", "ipc", "uts", "cgroup"];
/// With fewer no sandbox starts: the hub has one of most kinds, and a sandbox one to three of each.
const AT_LEAST: u64 = 4;

/// Whether this looks like the inside of a container.
fn in_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"]
        .iter()
        .any(|file| Path::new(file).exists())
        || fs::read("/proc/1/environ").is_ok_and(|environment| {
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable.starts_with(b"container="))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_at_its_end_is_named() {
        let with = |low: &'static str, most| -> Vec<Limit> {
            let limits = KINDS.map(|kind| Limit {
                kind,
                most: if kind == low { most } else { 60_000 },
            });
            limits.into()
        };
        for kind in KINDS {
            for most in [0, 1] {
                let cure = of_limit(Some(libc::EPERM), &with(kind, most)).unwrap();
                assert_eq!(cure, format!("sysctl -w user.max_{kind}_namespaces=15000"));
            }
            // In use up to the last one.
            let cure = of_limit(Some(libc::ENOSPC), &with(kind, 50_000)).unwrap();
            assert_eq!(cure, format!("sysctl -w user.max_{kind}_namespaces=100000"));
            assert_eq!(of_limit(Some(libc::EPERM), &with(kind, 50_000)), None);
        }
        let files = of_limit(Some(libc::EMFILE), &with("user", 0)).unwrap();
        assert!(files.contains("ulimit -n"), "{files}");
    }
}
