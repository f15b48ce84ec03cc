//! What the hub asks of the kernel, as a trait, so that the pool's rules can be
//! tested where no namespace may be made.

use std::os::fd::BorrowedFd;

use crate::hub_protocol::Failure;
use crate::plan::SlotPlan;

#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod linux;

/// Makes and removes slots.
pub(crate) trait Kernel {
    /// A network namespace.
    type Namespace;

    /// Makes a slot's namespace with its link, addresses and route.
    fn attach(&mut self, slot: &SlotPlan) -> Result<Self::Namespace, Failure>;

    /// Cuts a slot's link. From here on nothing in its namespace reaches the hub but what is on its
    /// way; what is left of it is gone before the slot is attached again.
    fn detach(&mut self, slot: &SlotPlan, namespace: &Self::Namespace) -> Result<(), Failure>;

    /// Removes a link that was cut, and with it all that was on its way.
    fn remove(&mut self, slot: &SlotPlan) -> Result<(), Failure>;

    /// Makes a namespace with `lo` and nothing else.
    fn disconnected(&mut self) -> Result<Self::Namespace, Failure>;

    /// What a child enters.
    fn handle<'a>(&self, namespace: &'a Self::Namespace) -> Option<BorrowedFd<'a>>;
}
