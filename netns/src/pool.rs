//! Which slot is free, ready or leased.
//!
//! Promises that a slot has one holder, that a slot taken back is made anew
//! before it is handed out again, and that it is handed out again as late as
//! possible, so that an address rests between two owners.

use std::collections::{HashMap, VecDeque};

use crate::hub_protocol::{Failure, Step};
use crate::kernel::Kernel;
use crate::plan::HubPlan;

/// Namespaces kept ready ahead of being asked for. A start takes one and the
/// hub makes the next while the program starts, so a few are enough; each
/// costs the kernel about 100 kB.
const AHEAD: usize = 4;

/// How often somebody asks for a link that was cut before it is removed however much else there is to
/// do: that takes some twenty milliseconds, and is done when nothing else is until then.
const PATIENCE: u32 = 4;

/// The slots of one hub.
#[derive(Debug)]
pub(crate) struct Pool<K: Kernel> {
    plan: HubPlan,
    free: VecDeque<u16>,
    ready: VecDeque<(u16, K::Namespace)>,
    leased: HashMap<u16, K::Namespace>,
    cut: HashMap<u16, Cut<K::Namespace>>,
}

/// A slot that is taken still, and from which nothing more is sent.
#[derive(Debug)]
struct Cut<N> {
    /// Until the link is removed: the kernel would do that when the namespace ends, and say that it is
    /// gone when packets of it are still on their way.
    namespace: Option<N>,
    /// How often it was asked for.
    asked: u32,
}

impl<K: Kernel> Pool<K> {
    pub(crate) fn new(plan: HubPlan) -> Self {
        let free = plan.slots.iter().map(|slot| slot.slot).collect();
        Self {
            plan,
            free,
            ready: VecDeque::new(),
            leased: HashMap::new(),
            cut: HashMap::new(),
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

    /// Cuts a slot's link; the slot stays taken. Says whether all that the link carried has come or is
    /// gone; ask again until it has. Of a link that cannot be cut all stays as it was.
    pub(crate) fn cut(&mut self, kernel: &mut K, slot: u16) -> Result<bool, Failure> {
        if let Some(cut) = self.cut.get_mut(&slot) {
            cut.asked += 1;
            if cut.namespace.is_some() && cut.asked >= PATIENCE {
                self.remove(kernel, slot)?;
                return Ok(true);
            }
            return Ok(cut.namespace.is_none());
        }
        let plan = self.plan.slot(slot).ok_or_else(|| not_leased(slot))?;
        kernel.detach(plan, self.leased(slot)?)?;
        let namespace = self.leased.remove(&slot);
        self.cut.insert(
            slot,
            Cut {
                namespace,
                asked: 0,
            },
        );
        Ok(false)
    }

    /// Whether [`Self::remove_one`] has something to do.
    pub(crate) fn wants_removing(&self) -> bool {
        self.cut.values().any(|cut| cut.namespace.is_some())
    }

    /// Removes a link that was cut.
    pub(crate) fn remove_one(&mut self, kernel: &mut K) -> Result<(), Failure> {
        let mut there = self.cut.iter().filter(|(_, cut)| cut.namespace.is_some());
        match there.next().map(|(slot, _)| *slot) {
            Some(slot) => self.remove(kernel, slot),
            None => Ok(()),
        }
    }

    fn remove(&mut self, kernel: &mut K, slot: u16) -> Result<(), Failure> {
        let plan = self.plan.slot(slot).ok_or_else(|| not_leased(slot))?;
        kernel.remove(plan)?;
        if let Some(cut) = self.cut.get_mut(&slot) {
            cut.namespace = None;
        }
        Ok(())
    }

    /// Whether the slot is taken and its link is cut.
    pub(crate) fn is_cut(&self, slot: u16) -> bool {
        self.cut.contains_key(&slot)
    }

    /// Takes a slot back, and cuts its link first where that was not done.
    pub(crate) fn release(&mut self, kernel: &mut K, slot: u16) -> Result<(), Failure> {
        if !self.is_cut(slot) {
            self.cut(kernel, slot)?;
        }
        // The last handle: the kernel takes apart what is left.
        drop(self.cut.remove(&slot));
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
        assert!(!pool.wants_removing());
        assert_eq!(pool.cut(&mut kernel, 0), Ok(false));
        assert!(pool.leased(0).is_err(), "nothing is started in there");
        assert!(pool.lease(&mut kernel).is_err());
        assert_eq!(pool.cut(&mut kernel, 0), Ok(false));
        assert!(pool.wants_removing());
        pool.remove_one(&mut kernel).unwrap();
        assert!(!pool.wants_removing());
        assert_eq!(pool.cut(&mut kernel, 0), Ok(true));
        pool.release(&mut kernel, 0).unwrap();
        assert!(pool.release(&mut kernel, 0).is_err());
        assert!(pool.cut(&mut kernel, 0).is_err());
        assert_eq!(pool.lease(&mut kernel), Ok(0));
        assert_eq!(
            kernel.calls,
            ["attach 0", "detach 0", "remove 0", "attach 0"]
        );
    }

    #[test]
    fn a_link_is_removed_however_busy_the_hub_is() {
        let (mut pool, mut kernel) = (pool(1), Fake::default());
        pool.lease(&mut kernel).unwrap();
        for _ in 0..PATIENCE {
            assert_eq!(pool.cut(&mut kernel, 0), Ok(false));
        }
        assert_eq!(pool.cut(&mut kernel, 0), Ok(true));
        assert_eq!(pool.cut(&mut kernel, 0), Ok(true));
        assert_eq!(kernel.calls, ["attach 0", "detach 0", "remove 0"]);
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
        assert_eq!(pool.cut(&mut kernel, 0), Ok(false));
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
