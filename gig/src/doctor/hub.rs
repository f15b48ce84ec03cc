//! The hub's mechanisms, as `netns` tried them.

use gig_netns::{Finding, Probe, probe_all};

use crate::doctor::{Check, State};

/// In the order in which a hub needs them.
pub(super) fn examine() -> Vec<Check> {
    probe_all().into_iter().map(check).collect()
}

fn check(probe: Probe) -> Check {
    let name = probe.name;
    match probe.finding {
        Finding::Works { detail } if detail.is_empty() => Check::works(name, "tried"),
        Finding::Works { detail } => Check::works(name, detail),
        Finding::Limited { what, cost, cure } => {
            Check::limited(name, what).costs(&cost).cure(&cure)
        }
        Finding::Missing { what, cost, cure } => {
            Check::missing(name, what).costs(&cost).cure(&cure)
        }
        Finding::NotTried { needs } => Check {
            state: State::NotTried,
            ..Check::works(name, format!("needs {needs}"))
        },
    }
}
