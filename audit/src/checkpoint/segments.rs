//! The checkpoints of one chain, put together: its segments, and what was removed of each.

use std::{collections::BTreeSet, sync::Arc};

use super::{Checkpoint, CheckpointFault, digest, open};
use crate::{chain::Head, record::ChainHash, signing::PublicKey};

/// All that a chain's checkpoints say.
#[derive(Debug, Clone)]
pub struct Segments {
    node: Option<Arc<str>>,
    /// In order, each beginning where the one before ends.
    all: Vec<Segment>,
    /// How many checkpoints there are.
    number: u64,
    /// The digest of the last of them.
    prev: ChainHash,
    /// Everybody who signed.
    keys: BTreeSet<PublicKey>,
    /// Only these may have signed; empty for anybody.
    trusted: BTreeSet<PublicKey>,
}

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Of the last record.
    pub(crate) hash: ChainHash,
    /// Up to here who signed it found it.
    pub(crate) inherited: Option<u64>,
    /// Runs of removed places, in order, none touching the next.
    pub(crate) pruned: Vec<(u64, u64)>,
    /// Digest of what is kept; only where something was removed.
    pub(crate) kept: Option<ChainHash>,
}

impl Segment {
    /// What a checkpoint says of it; `None` where that cannot be.
    pub(crate) fn of(said: &Checkpoint) -> Option<Self> {
        let segment = Self {
            first: said.first,
            last: said.last,
            hash: said.hash,
            inherited: said.inherited,
            pruned: said.pruned.clone(),
            kept: said.kept,
        };
        segment.is_sound().then_some(segment)
    }

    /// Whether its runs lie inside of it, in order, and do not touch.
    fn is_sound(&self) -> bool {
        let mut next = self.first;
        for (first, last) in &self.pruned {
            if *first < next || last < first || *last > self.last {
                return false;
            }
            next = last.saturating_add(2);
        }
        let is_said = self.pruned.is_empty() == self.kept.is_none();
        let within = |place: u64| self.first <= place && place <= self.last;
        is_said && self.inherited.is_none_or(within) && self.first > 0 && self.first <= self.last
    }

    /// Whether nothing is left of it.
    pub(crate) fn is_gone(&self) -> bool {
        self.pruned == [(self.first, self.last)]
    }

    /// Its last record.
    pub(crate) const fn end(&self) -> Head {
        Head {
            seq: self.last,
            hash: self.hash,
        }
    }
}

impl Segments {
    /// No checkpoint yet. `trusted` may have signed, or anybody where it is empty.
    #[must_use]
    pub fn new(trusted: &[PublicKey]) -> Self {
        Self {
            node: None,
            all: Vec::new(),
            number: 0,
            prev: ChainHash::NONE,
            keys: BTreeSet::new(),
            trusted: trusted.iter().copied().collect(),
        }
    }

    /// One segment alone.
    pub(crate) fn only(segment: Segment) -> Self {
        let mut only = Self::new(&[]);
        only.all.push(segment);
        only
    }

    /// Takes the next checkpoint, a line without its newline.
    ///
    /// # Errors
    /// When it is not the next one, not signed by who may sign, or contradicts those before it.
    pub fn take(&mut self, line: &str) -> Result<(), CheckpointFault> {
        let checkpoint = open(line)?;
        if !self.trusted.is_empty() && !self.trusted.contains(&checkpoint.key) {
            return Err(CheckpointFault::ForeignKey(checkpoint.key));
        }
        if checkpoint.number != self.number + 1 || checkpoint.prev != self.prev {
            return Err(CheckpointFault::Order {
                expected: self.number + 1,
                prev: self.prev,
            });
        }
        let node = self
            .node
            .get_or_insert_with(|| Arc::clone(&checkpoint.node));
        if *node != checkpoint.node {
            return Err(CheckpointFault::Elsewhere(checkpoint.node));
        }
        let key = checkpoint.key;
        let contradiction = CheckpointFault::Contradiction {
            first: checkpoint.first,
            last: checkpoint.last,
        };
        if !self.place(&checkpoint) {
            return Err(contradiction);
        }
        self.keys.insert(key);
        self.number += 1;
        self.prev = digest(line);
        Ok(())
    }

    /// Puts what a checkpoint says into its place; false when it cannot be.
    fn place(&mut self, checkpoint: &Checkpoint) -> bool {
        let Some(segment) = Segment::of(checkpoint) else {
            return false;
        };
        let Segment {
            first, last, hash, ..
        } = segment;
        if first == self.covered() + 1 {
            // What is new was not removed before it was signed.
            let whole = segment.pruned.is_empty() && segment.kept.is_none();
            if whole {
                self.all.push(segment);
            }
            return whole;
        }
        let found = self.all.binary_search_by_key(&first, |known| known.first);
        let Some(known) = found.ok().and_then(|place| self.all.get_mut(place)) else {
            return false;
        };
        let same = (known.last, known.hash, known.inherited) == (last, hash, segment.inherited);
        let more = known.pruned.iter().all(|run| covers(&segment.pruned, *run));
        let fits = same && more && segment.kept.is_some();
        if fits {
            *known = segment;
        }
        fits
    }

    /// The last place that a checkpoint speaks of; 0 for none.
    #[must_use]
    pub fn covered(&self) -> u64 {
        self.all.last().map_or(0, |segment| segment.last)
    }

    /// How many checkpoints there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.number
    }

    /// How many records were removed.
    #[must_use]
    pub fn pruned(&self) -> u64 {
        let runs = self.all.iter().flat_map(|segment| &segment.pruned);
        runs.map(|(first, last)| last - first + 1).sum()
    }

    /// How many records were written by a run that ended without signing them, and signed by another.
    #[must_use]
    pub fn inherited(&self) -> u64 {
        let found = |segment: &Segment| segment.inherited.map(|last| last + 1 - segment.first);
        self.all.iter().filter_map(found).sum()
    }

    /// Whether a record was removed.
    pub(crate) fn has_pruned(&self, seq: u64) -> bool {
        let place = self.all.partition_point(|segment| segment.last < seq);
        let segment = self.all.get(place);
        segment.is_some_and(|segment| covers(&segment.pruned, (seq, seq)))
    }

    /// Whether a record was removed, and its hash with it: that of a segment's last one is signed and stays.
    pub(crate) fn has_lost(&self, seq: u64) -> bool {
        let end = self.all.binary_search_by_key(&seq, |segment| segment.last);
        self.has_pruned(seq) && end.is_err()
    }

    /// Everybody who signed.
    #[must_use]
    pub const fn keys(&self) -> &BTreeSet<PublicKey> {
        &self.keys
    }

    /// Whose chain, once a checkpoint said so.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    pub(crate) fn all(&self) -> &[Segment] {
        &self.all
    }
}

fn covers(runs: &[(u64, u64)], run: (u64, u64)) -> bool {
    let place = runs.partition_point(|(_, last)| *last < run.0);
    let found = runs.get(place);
    found.is_some_and(|(first, last)| *first <= run.0 && run.1 <= *last)
}
