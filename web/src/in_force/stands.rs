//! Where one policy stands: for whom it is in force and whom it bounds, as somebody is shown it before they decide.

use crate::store::{Assignment, Store, StoreError};

/// Where a policy stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stands {
    /// Where it is in force.
    pub(crate) assigned: Vec<Assignment>,
    /// Where it is the floor.
    pub(crate) floors: Vec<Assignment>,
}

impl Stands {
    /// As the store says it now.
    pub(crate) fn of(store: &dyn Store, policy: &str) -> Result<Self, StoreError> {
        let of_it = |mut all: Vec<Assignment>| {
            all.retain(|one| one.policy == policy);
            all
        };
        Ok(Self {
            assigned: of_it(store.assignments()?),
            floors: of_it(store.floors()?),
        })
    }

    /// By which it is known whether what was shown is what is so now.
    pub(crate) fn mark(&self) -> String {
        let [assigned, floors] = [&self.assigned, &self.floors].map(|at| Assignment::tag(at));
        format!("{assigned}:{floors}")
    }
}
