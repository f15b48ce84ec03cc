//! What is told once however often it was, and no more of it than a person reads.

use std::collections::BTreeMap;

/// How often each was, in order; beyond [`MOST`] different ones how many.
#[derive(Debug)]
pub(super) struct Lines<T> {
    counts: BTreeMap<T, u64>,
    more: u64,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
            more: 0,
        }
    }
}

impl<T: Ord> Lines<T> {
    /// It was so many times more.
    pub(super) fn add(&mut self, one: T, times: u64) {
        if let Some(count) = self.counts.get_mut(&one) {
            *count += times;
        } else if self.counts.len() < MOST {
            self.counts.insert(one, times);
        } else {
            self.more += times;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&T, u64)> {
        self.counts.iter().map(|(one, count)| (one, *count))
    }

    /// The last line, where there were more.
    pub(super) fn rest(&self) -> String {
        match self.more {
            0 => String::new(),
            more => format!("  and {more} more; the audit record has them all\n"),
        }
    }
}

/// A person reads a screen or two.
const MOST: usize = 40;
