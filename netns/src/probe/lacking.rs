//! What a probe says of a step that failed, and of limits that are low.

use crate::cure::{self, Limit, user_namespaces};
use crate::hub_protocol::Step;
use crate::probe::Finding;

/// Sandboxes at once below which a host's namespace limits are worth a word:
/// each takes one network namespace and some three user namespaces.
const FEW: u64 = 256;

/// The finding for the step that failed.
pub(crate) fn missing(step: Option<Step>, errno: Option<i32>, what: String) -> Finding {
    let cost = "sandboxes of the default engine do not start".to_owned();
    let cure = cure::of(step, errno);
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
    of_limits(&Limit::read())
}

fn of_limits(limits: &[Limit]) -> Finding {
    let Some(lowest) = Limit::lowest(limits).filter(|lowest| lowest.most < FEW) else {
        let users = limits.iter().find(|limit| limit.kind == "user");
        let users = users.map_or_else(|| "no".to_owned(), |limit| limit.most.to_string());
        return Finding::Works {
            detail: format!("user namespaces: at most {users}"),
        };
    };
    let what = format!("user.max_{}_namespaces is {}", lowest.kind, lowest.most);
    let cure = lowest.cure();
    if lowest.most == 0 {
        let cost = "sandboxes of the default engine do not start".to_owned();
        return Finding::Missing { what, cost, cure };
    }
    Finding::Limited {
        what,
        cost: "few sandboxes at once, or none".to_owned(),
        cure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_namespace_is_looked_at() {
        for kind in ["user", "net", "pid", "mnt", "ipc", "uts", "cgroup"] {
            let high = Limit {
                kind: "user",
                most: 15_000,
            };
            let none = of_limits(&[high, Limit { kind, most: 0 }]);
            assert!(
                matches!(&none, Finding::Missing { cure, .. } if cure.contains(kind)),
                "{none:?}"
            );
            let few = of_limits(&[high, Limit { kind, most: 100 }]);
            assert!(
                matches!(&few, Finding::Limited { what, .. } if what.contains(kind)),
                "{few:?}"
            );
        }
    }
}
