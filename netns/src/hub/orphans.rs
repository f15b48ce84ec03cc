//! Whose the processes are that the hub inherited.
//!
//! Who still runs is in a network, and that says it. Who ends already is in none, and has no files any more: its parent
//! was a child of the hub that has ended, or another orphan. Where that may be of several slots it counts for each, and
//! where nothing is known for every slot: a slot is free when none of its processes can be left, and one that ends
//! slowly holds up no other.

use std::collections::{BTreeSet, HashMap};

use rustix::process::Pid;

/// A process: its number, and when it began, as a number may come again.
pub(crate) type Process = (Pid, u64);

/// What can be seen of an orphan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It is in the network of this slot, or in one of no slot.
    In(Option<u16>),
    /// It is in no network any more.
    Ending,
    /// It cannot be said.
    Unknown,
}

/// The orphans that were there when it was looked last.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    known: HashMap<Process, Owners>,
    /// Slots of children that have ended, as long as orphans of theirs may be seen for the first time.
    ended: Vec<Option<u16>>,
    /// How many of them had before it was looked last.
    seen: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Owners {
    /// Of these slots, or of none.
    Of(BTreeSet<u16>),
    /// Nobody knows.
    Any,
}

impl Orphans {
    /// A child that was in this slot, or in none, was reaped.
    pub(crate) fn ended(&mut self, slot: Option<u16>) {
        self.ended.push(slot);
    }

    /// To be called when the orphans were listed, before children are reaped: who ends in between is of the next
    /// list, too.
    pub(crate) const fn listed(&mut self) {
        self.seen = self.ended.len();
    }

    /// Takes the list in, after children were reaped: parents of all that is listed are among those by now.
    pub(crate) fn take_in(&mut self, listed: &[(Process, Seen)]) {
        let owners = self.owners();
        let before = std::mem::take(&mut self.known);
        let known = listed.iter().map(|(process, seen)| {
            let fresh = || match seen {
                Seen::In(slot) => Owners::Of(slot.iter().copied().collect()),
                Seen::Ending => owners.clone(),
                Seen::Unknown => Owners::Any,
            };
            let owner = before.get(process).cloned().unwrap_or_else(fresh);
            (*process, owner)
        });
        self.known = known.collect();
        self.ended.drain(..self.seen.min(self.ended.len()));
        self.seen = 0;
    }

    /// How many may be a slot's.
    pub(crate) fn of(&self, slot: u16) -> usize {
        let owners = self.known.values();
        owners
            .filter(|owners| match owners {
                Owners::Of(slots) => slots.contains(&slot),
                Owners::Any => true,
            })
            .count()
    }

    /// Whose one is that ends and was never seen before.
    fn owners(&self) -> Owners {
        if self.ended.is_empty() && self.known.is_empty() {
            return Owners::Any;
        }
        let mut slots: BTreeSet<u16> = self.ended.iter().flatten().copied().collect();
        for owners in self.known.values() {
            match owners {
                Owners::Of(theirs) => slots.extend(theirs),
                Owners::Any => return Owners::Any,
            }
        }
        Owners::Of(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(number: i32) -> (Process, Seen) {
        ((Pid::from_raw(number).unwrap(), 1), Seen::Ending)
    }

    fn look(orphans: &mut Orphans, listed: &[i32], then: &[Option<u16>]) {
        orphans.listed();
        for slot in then {
            orphans.ended(*slot);
        }
        let listed: Vec<_> = listed.iter().map(|number| ending(*number)).collect();
        orphans.take_in(&listed);
    }

    #[test]
    fn an_orphan_is_of_the_slot_whose_child_ended() {
        let mut orphans = Orphans::default();
        orphans.ended(Some(3));
        look(&mut orphans, &[20], &[]);
        assert_eq!((orphans.of(3), orphans.of(4)), (1, 0));
        // It ends slowly. What another leaves may be its own, or that one's: nobody else's.
        orphans.ended(Some(5));
        look(&mut orphans, &[20, 21], &[]);
        assert_eq!([3, 4, 5].map(|slot| orphans.of(slot)), [2, 0, 1]);
        look(&mut orphans, &[20], &[]);
        assert_eq!([3, 4, 5].map(|slot| orphans.of(slot)), [1, 0, 0]);
        look(&mut orphans, &[], &[]);
        assert_eq!(orphans.of(3), 0);
    }

    #[test]
    fn whose_parent_is_reaped_after_the_list_is_known_by_it_in_this_list_and_in_the_next() {
        let mut orphans = Orphans::default();
        look(&mut orphans, &[20], &[Some(3)]);
        assert_eq!((orphans.of(3), orphans.of(4)), (1, 0));
        let mut orphans = Orphans::default();
        look(&mut orphans, &[], &[Some(3)]);
        look(&mut orphans, &[20], &[Some(4)]);
        assert_eq!([3, 4, 5].map(|slot| orphans.of(slot)), [1, 1, 0]);
    }

    #[test]
    fn an_orphans_orphan_is_of_the_same_slot_and_one_of_nobody_of_every() {
        let mut orphans = Orphans::default();
        orphans.ended(Some(3));
        look(&mut orphans, &[20], &[]);
        look(&mut orphans, &[20, 21], &[]);
        look(&mut orphans, &[21], &[]);
        assert_eq!((orphans.of(3), orphans.of(4)), (1, 0));
        look(&mut orphans, &[], &[]);
        look(&mut orphans, &[22], &[]);
        assert_eq!((orphans.of(3), orphans.of(4)), (1, 1));
        // The number comes again, and is another's.
        let mut orphans = Orphans::default();
        orphans.ended(Some(3));
        look(&mut orphans, &[20], &[]);
        orphans.ended(Some(4));
        orphans.listed();
        orphans.take_in(&[((Pid::from_raw(20).unwrap(), 2), Seen::Ending)]);
        assert_eq!(orphans.of(4), 1);
    }

    #[test]
    fn who_still_runs_is_where_its_network_is_whoever_ended() {
        let mut orphans = Orphans::default();
        orphans.ended(Some(3));
        orphans.listed();
        let [(one, _), (two, _), (three, _)] = [ending(20), ending(21), ending(22)];
        orphans.take_in(&[
            (one, Seen::In(Some(5))),
            (two, Seen::In(None)),
            (three, Seen::Unknown),
        ]);
        assert_eq!([3, 4, 5].map(|slot| orphans.of(slot)), [1, 1, 2]);
        // Where it was counts on when it ends.
        look(&mut orphans, &[20], &[]);
        assert_eq!([3, 4, 5].map(|slot| orphans.of(slot)), [0, 0, 1]);
    }

    #[test]
    fn who_was_in_no_slot_leaves_orphans_of_none() {
        let mut orphans = Orphans::default();
        orphans.ended(None);
        look(&mut orphans, &[20], &[]);
        assert_eq!(orphans.of(3), 0);
    }
}
