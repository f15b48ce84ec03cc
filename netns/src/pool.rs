//! Which slot is free, ready or leased.
//!
//! Promises that a slot has one holder, that a slot taken back is made anew
//! before it is handed out again, and that it is handed out again as late as
//! possible, so that an address rests between two owners.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::hub_protocol::{Failure, Step};
use crate::kernel::Kernel;
use crate::plan::HubPlan;

/// Namespaces kept ready ahead of being asked for. A start takes one and the
/// hub makes the next while the program starts, so a few are enough; each
/// costs the kernel about 100 kB.
const AHEAD: usize = 4;

/// The slots of one hub.
#[derive(Debug)]
pub(crate) struct Pool<K: Kernel> {
    plan: HubPlan,
    free: VecDeque<u16>,
    ready: VecDeque<(u16, K::Namespace)>,
    leased: HashMap<u16, K::Namespace>,
    /// Taken still, and nothing comes from there any more.
    cut: HashSet<u16>,
}

impl<K: Kernel> Pool<K> {
    pub(crate) fn new(plan: HubPlan) -> Self {
        let free = plan.slots.iter().map(|slot| slot.slot).collect();
        Self {
            plan,
            free,
            ready: VecDeque::new(),
            leased: HashMap::new(),
            cut: HashSet::new(),
        }
    }

    /// Whether [`Self::prepare`] has something to do.
    pub(crate) fn wants_preparing(&self) -> bool {
        self.ready.len() < AHEAD && !self.free.is_empty()
    }

    /// Makes the next free slot ready. A slot that cannot be made stays free.
    pub(crate) fn prepare(&mut self, kernel: &mut K) -> Result<(), Failure> {
        let Some(slot) = self.free.pop_front() else {
            return Ok(());
        };
        let Some(plan) = self.plan.slot(slot) else {
            return Ok(());
        };
        match kernel.attach(plan) {
            Ok(namespace) => {
                self.ready.push_back((slot, namespace));
                Ok(())
            }
            Err(failure) => {
                self.free.push_back(slot);
                Err(failure)
            }
        }
    }

    /// Hands out a slot.
    pub(crate) fn lease(&mut self, kernel: &mut K) -> Result<u16, Failure> {
        if self.ready.is_empty() {
            self.prepare(kernel)?;
        }
        let (slot, namespace) = self.ready.pop_front().ok_or_else(none_free)?;
        self.leased.insert(slot, namespace);
        Ok(slot)
    }

    /// Takes a slot for its ids alone: for a child without a network.
    pub(crate) fn reserve(&mut self, kernel: &mut K) -> Result<u16, Failure> {
        if let Some(slot) = self.free.pop_front() {
            return Ok(slot);
        }
        let (slot, namespace) = self.ready.pop_back().ok_or_else(none_free)?;
        let plan = self.plan.slot(slot).ok_or_else(none_free)?;
        if let Err(failure) = kernel.detach(plan, &namespace) {
            self.ready.push_back((slot, namespace));
            return Err(failure);
        }
        Ok(slot)
    }

    /// Ends reservations.
    pub(crate) fn give_back(&mut self, slots: impl IntoIterator<Item = u16>) {
        self.free.extend(slots);
    }

    /// The namespace of a leased slot.
    pub(crate) fn leased(&self, slot: u16) -> Result<&K::Namespace, Failure> {
        self.leased.get(&slot).ok_or_else(|| not_leased(slot))
    }

    /// Cuts a slot's link; the slot stays taken. Says whether the kernel has let go of all that it
    /// carried; ask again until it has. Of a link that cannot be cut all stays as it was.
    pub(crate) fn cut(&mut self, kernel: &mut K, slot: u16) -> Result<bool, Failure> {
        let plan = self.plan.slot(slot).ok_or_else(|| not_leased(slot))?;
        if !self.cut.contains(&slot) {
            kernel.detach(plan, self.leased(slot)?)?;
            self.cut.insert(slot);
            // The last handle: from here on the kernel takes namespace and link apart.
            drop(self.leased.remove(&slot));
        }
        kernel.is_gone(plan)
    }

    /// Whether the slot is taken and its link is cut.
    pub(crate) fn is_cut(&self, slot: u16) -> bool {
        self.cut.contains(&slot)
    }

    /// Takes a slot back, and cuts its link first where that was not done.
    pub(crate) fn release(&mut self, kernel: &mut K, slot: u16) -> Result<(), Failure> {
        if !self.is_cut(slot) {
            self.cut(kernel, slot)?;
        }
        self.cut.remove(&slot);
        self.free.push_back(slot);
        Ok(())
    }
}

fn none_free() -> Failure {
    Failure::new(Step::Slot, None, "every slot is taken")
}

fn not_leased(slot: u16) -> Failure {
    Failure::new(Step::Slot, None, format!("slot {slot} is not leased"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::Fake;
    use crate::plan::{HubIds, HubSettings};

    fn pool(slots: u16) -> Pool<Fake> {
        let settings = HubSettings {
            slots,
            subnet: "10.200.0.0/16".parse().unwrap(),
            explicit_port: 8081,
            ids: HubIds::Single,
        };
        Pool::new(HubPlan::new(&settings).unwrap())
    }

    #[test]
    fn a_slot_has_one_holder_and_the_last_is_refused() {
        let (mut pool, mut kernel) = (pool(2), Fake::default());
        assert_eq!(pool.lease(&mut kernel), Ok(0));
        assert_eq!(pool.lease(&mut kernel), Ok(1));
        assert_eq!(pool.lease(&mut kernel).unwrap_err().step, Step::Slot);
        assert!(pool.release(&mut kernel, 7).is_err());
        pool.release(&mut kernel, 0).unwrap();
        assert!(pool.release(&mut kernel, 0).is_err());
        assert_eq!(pool.lease(&mut kernel), Ok(0));
        assert_eq!(
            kernel.calls,
            ["attach 0", "attach 1", "detach 0", "attach 0"]
        );
    }

    #[test]
    fn an_address_rests_as_long_as_others_are_free() {
        let (mut pool, mut kernel) = (pool(3), Fake::default());
        assert_eq!(pool.lease(&mut kernel), Ok(0));
        pool.release(&mut kernel, 0).unwrap();
        assert_eq!(pool.lease(&mut kernel), Ok(1));
        assert_eq!(pool.lease(&mut kernel), Ok(2));
        assert_eq!(pool.lease(&mut kernel), Ok(0));
    }

    #[test]
    fn a_slot_that_is_cut_stays_taken_until_it_is_released() {
        let (mut pool, mut kernel) = (pool(1), Fake::default());
        pool.lease(&mut kernel).unwrap();
        kernel.takes_its_time = true;
        assert_eq!(pool.cut(&mut kernel, 0), Ok(false));
        assert!(pool.leased(0).is_err(), "nothing is started in there");
        assert!(pool.lease(&mut kernel).is_err());
        assert_eq!(pool.cut(&mut kernel, 0), Ok(false));
        kernel.takes_its_time = false;
        assert_eq!(pool.cut(&mut kernel, 0), Ok(true));
        pool.release(&mut kernel, 0).unwrap();
        assert!(pool.release(&mut kernel, 0).is_err());
        assert!(pool.cut(&mut kernel, 0).is_err());
        assert_eq!(pool.lease(&mut kernel), Ok(0));
        assert_eq!(kernel.calls, ["attach 0", "detach 0", "attach 0"]);
    }

    #[test]
    fn a_slot_whose_link_cannot_be_cut_is_not_handed_out_again_until_it_can() {
        let (mut pool, mut kernel) = (pool(1), Fake::default());
        pool.lease(&mut kernel).unwrap();
        kernel.refuse_detach = true;
        assert!(pool.cut(&mut kernel, 0).is_err());
        assert!(pool.release(&mut kernel, 0).is_err());
        kernel.refuse_detach = false;
        assert!(pool.lease(&mut kernel).is_err());
        assert_eq!(pool.cut(&mut kernel, 0), Ok(true));
        pool.release(&mut kernel, 0).unwrap();
        assert_eq!(pool.lease(&mut kernel), Ok(0));
    }

    #[test]
    fn the_pool_prepares_only_a_few_ahead() {
        let (mut pool, mut kernel) = (pool(100), Fake::default());
        while pool.wants_preparing() {
            pool.prepare(&mut kernel).unwrap();
        }
        assert_eq!(kernel.calls.len(), AHEAD);
    }
}
