//! What looking came to: what stands there, where more octets may make it so, and how many have to come before
//! there is anything new to see.

use std::sync::Arc;

use super::{Hit, Waiting, waiting::LITTLE};
use crate::credential::needles::SHORTEST;

/// What was found; kept between uses, so that its room is.
#[derive(Debug, Default)]
pub(in crate::credential) struct Finds {
    /// Leftmost first, of those that begin alike the longest first; also such as lie over one another.
    pub(in crate::credential) hits: Vec<Hit>,
    /// Where something begins that more octets may make a hit, or a longer one.
    pub(in crate::credential::spelling) open: Vec<usize>,
    /// Such of these as begin a text that is worth a wait.
    pub(in crate::credential::spelling) waits: Vec<usize>,
    /// Octets that may be shown of each of those.
    few: usize,
    /// Octets that have to come before there may be another hit.
    needed: usize,
    /// Which texts are; none where it is not said.
    pub(in crate::credential::spelling) waiting: Option<Arc<Waiting>>,
}

impl Finds {
    /// Nothing yet.
    pub(in crate::credential) const fn empty() -> Self {
        Self {
            hits: Vec::new(),
            open: Vec::new(),
            waits: Vec::new(),
            few: usize::MAX,
            needed: 0,
            waiting: None,
        }
    }

    /// Nothing yet; beginnings of these texts are worth a wait.
    pub(in crate::credential) fn waiting(waiting: Arc<Waiting>) -> Self {
        Self {
            waiting: Some(waiting),
            ..Self::empty()
        }
    }

    /// The first place from `from` on where more octets may make a hit.
    pub(in crate::credential) fn open_from(&self, from: usize) -> Option<usize> {
        first_from(&self.open, from)
    }

    /// The first place from `from` on where more octets may make a hit that is worth a wait.
    pub(in crate::credential) fn waits_from(&self, from: usize) -> Option<usize> {
        first_from(&self.waits, from)
    }

    pub(in crate::credential::spelling) fn clear(&mut self) {
        self.hits.clear();
        self.open.clear();
        self.waits.clear();
        self.few = usize::MAX;
        self.needed = SHORTEST;
    }

    /// How many octets may be shown of every text that is worth a wait and may have begun.
    pub(in crate::credential) const fn few(&self) -> usize {
        match self.few {
            usize::MAX => LITTLE,
            few => few,
        }
    }

    /// How many octets have to come at least before there is another hit: what does not begin yet is no shorter than
    /// [`SHORTEST`], and of what has begun so many are left.
    pub(in crate::credential) const fn needed(&self) -> usize {
        self.needed
    }

    /// So many more octets may make a hit.
    pub(in crate::credential::spelling) fn opens_for(&mut self, at: usize, needed: usize) {
        self.open.push(at);
        self.needed = self.needed.min(needed);
    }

    /// So many more octets may make a hit of this text.
    pub(in crate::credential::spelling) fn opens(&mut self, at: usize, text: usize, needed: usize) {
        self.opens_for(at, needed);
        let few = self.waiting.as_ref().and_then(|waiting| waiting.few(text));
        if let Some(few) = few {
            self.waits.push(at);
            self.few = self.few.min(few);
        }
    }

    pub(in crate::credential::spelling) fn settle(&mut self) {
        if self.hits.len() > 1 {
            self.hits
                .sort_unstable_by_key(|hit| (hit.start, usize::MAX - hit.end, hit.text));
            self.hits.dedup();
        }
        for places in [&mut self.open, &mut self.waits] {
            if places.len() > 1 {
                places.sort_unstable();
                places.dedup();
            }
        }
    }
}

fn first_from(places: &[usize], from: usize) -> Option<usize> {
    let before = places.partition_point(|at| *at < from);
    places.get(before).copied()
}
