//! What a probe says of a step that failed, and of limits that are low.

use std::fs;

use crate::cure::{self, user_namespaces};
use crate::hub_protocol::Step;
use crate::probe::Finding;

/// Sandboxes at once below which a host's namespace limits are worth a word:
/// each takes one network namespace and some three user namespaces.
const FEW: u64 = 256;

/// The finding for the step that failed.
pub(crate) fn missing(step: Option<Step>, what: String) -> Finding {
    let cost = "sandboxes of the default engine do not start".to_owned();
    let cure = cure::of(step);
    Finding::Missing { what, cost, cure }
}

/// The finding when the hub's user namespace is allowed, but not one inside it.
pub(crate) fn nested(what: String) -> Finding {
    Finding::Missing {
        what,
        cost: "bwrap cannot start inside the hub".to_owned(),
        cure: user_namespaces(),
    }
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
