//! From what was refused to what a person can do about it.
//!
//! Looks at the switches by which hosts forbid user namespaces, most specific
//! first, and names the one that is thrown.

use std::fs;

use crate::covered;
use crate::hub_protocol::Step;
use crate::probe::{Finding, in_container, says};

/// Sandboxes at once below which a host's namespace limits are worth a word:
/// each takes one network namespace and some three user namespaces.
const FEW: u64 = 256;

const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
const DEBIAN: &str = "/proc/sys/kernel/unprivileged_userns_clone";

/// The cure for the step that failed.
pub(crate) fn missing(step: Option<Step>, what: String) -> Finding {
    let cost = "sandboxes of the default engine do not start".to_owned();
    let cure = match step {
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
    };
    Finding::Missing { what, cost, cure }
}

/// The cure when the hub's user namespace is allowed, but not one inside it.
pub(crate) fn nested(what: String) -> Finding {
    Finding::Missing {
        what,
        cost: "bwrap cannot start inside the hub".to_owned(),
        cure: user_namespaces(),
    }
}

/// Which switch forbids user namespaces.
fn user_namespaces() -> String {
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

/// Whether the host allows namespaces in number.
pub(crate) fn limits() -> Finding {
    let limit = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/user/max_{name}_namespaces"));
        text.ok().and_then(|text| text.trim().parse::<u64>().ok())
    };
    for name in ["user", "net", "pid", "mnt"] {
        if let Some(found) = limit(name).filter(|found| *found < FEW) {
            return Finding::Limited {
                what: format!("user.max_{name}_namespaces is {found}"),
                cost: "few sandboxes at once".to_owned(),
                cure: format!("sysctl -w user.max_{name}_namespaces=15000"),
            };
        }
    }
    let users = limit("user").map_or_else(|| "no".to_owned(), |limit| limit.to_string());
    Finding::Works {
        detail: format!("user namespaces: at most {users}"),
    }
}
