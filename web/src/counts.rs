//! So many of each and no more: a place is counted where it is taken and given back when it is dropped.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;

/// How many places each has.
#[derive(Debug)]
pub(crate) struct Counts<K>(Arc<Mutex<Taken<K>>>);

#[derive(Debug)]
struct Taken<K> {
    of: HashMap<K, usize>,
    all: usize,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Place<K: Eq + Hash> {
    counts: Arc<Mutex<Taken<K>>>,
    whose: K,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        let (of, all) = (HashMap::new(), 0);
        Self(Arc::new(Mutex::new(Taken { of, all })))
    }
}

impl<K: Eq + Hash + Clone> Counts<K> {
    /// A place, unless `whose` has as many as one may have, or all together as many as may be.
    pub(crate) fn take(&self, whose: K, of_one: usize, of_all: usize) -> Option<Place<K>> {
        let mut taken = self.0.lock();
        let own = taken.of.get(&whose).copied().unwrap_or_default();
        if own >= of_one || taken.all >= of_all {
            return None;
        }
        taken.of.insert(whose.clone(), own + 1);
        taken.all += 1;
        drop(taken);
        let counts = Arc::clone(&self.0);
        Some(Place { counts, whose })
    }

    /// Whether nobody has any.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let taken = self.0.lock();
        taken.of.is_empty() && taken.all == 0
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.counts.lock();
        taken.all = taken.all.saturating_sub(1);
        let Some(own) = taken.of.get_mut(&self.whose) else {
            return;
        };
        *own = own.saturating_sub(1);
        if *own == 0 {
            taken.of.remove(&self.whose);
        }
    }
}
