//! From what was refused to what a person can do about it.
//!
//! Looks at the switches by which hosts forbid user namespaces, most specific
//! first, and names the one that is thrown.

use std::fs;
use std::path::Path;

use crate::covered;
use crate::hub_protocol::Step;

const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
const DEBIAN: &str = "/proc/sys/kernel/unprivileged_userns_clone";

/// The cure for the step that failed.
pub(crate) fn of(step: Option<Step>) -> String {
    match step {
        Some(Step::Unshare) | None => user_namespaces(),
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
            | Step::Reap
            | Step::Handing
            | Step::Protocol,
        ) => "see what was refused; a seccomp profile or security module of the host's is likely"
            .to_owned(),
    }
}

/// Which switch forbids user namespaces.
pub(crate) fn user_namespaces() -> String {
    if says("/proc/sys/user/max_user_namespaces", "0") {
        return "sysctl -w user.max_user_namespaces=15000".to_owned();
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
