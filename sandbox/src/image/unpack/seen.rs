//! What one layer made and took away: what takes away takes from lower layers alone.
//!
//! Names are a stranger's, thousands of octets each: of every one only a digest is kept, in a few dozen
//! octets. That two names had the same would spare a file of that stranger's own.

use std::collections::HashSet;

use aws_lc_rs::digest::{Context, SHA256};

/// Stands for a path.
pub(super) type Mark = [u8; 16];

/// Stands for the root.
const ROOT: Mark = [0; 16];

/// What a layer did so far.
#[derive(Default)]
pub(super) struct Seen {
    /// What it made, with all directories above.
    made: HashSet<Mark>,
    /// Directories in which nothing of lower layers is left, at any depth.
    pruned: HashSet<Mark>,
}

impl Seen {
    /// It made this, and all that is above.
    pub(super) fn made(&mut self, place: &[Vec<u8>]) {
        self.made.extend(marks(place));
    }

    /// Whether it made what has this mark, or something below.
    pub(super) fn has_made(&self, mark: &Mark) -> bool {
        self.made.contains(mark)
    }

    /// Whether this directory is to be looked through: not if that was done for it or one above. Each entry
    /// is looked at once in a layer, however often the layer says so.
    pub(super) fn prunes(&mut self, place: &[Vec<u8>]) -> Option<Mark> {
        let above = std::iter::once(ROOT).chain(marks(place));
        let mut last = ROOT;
        for mark in above {
            if self.pruned.contains(&mark) {
                return None;
            }
            last = mark;
        }
        self.prunes_below(last).then_some(last)
    }

    /// The same for a directory in one that is being looked through.
    pub(super) fn prunes_below(&mut self, mark: Mark) -> bool {
        self.pruned.insert(mark)
    }
}

/// The mark of a path.
pub(super) fn mark(place: &[Vec<u8>]) -> Mark {
    marks(place).last().unwrap_or(ROOT)
}

/// The mark of a name in a directory.
pub(super) fn below(above: &Mark, name: &[u8]) -> Mark {
    let mut digest = Context::new(&SHA256);
    digest.update(above);
    digest.update(name);
    let digest = digest.finish();
    digest.as_ref().first_chunk().copied().unwrap_or(ROOT)
}

/// Those of a path and of all directories above it, but the root.
fn marks(place: &[Vec<u8>]) -> impl Iterator<Item = Mark> {
    place.iter().scan(ROOT, |above, name| {
        *above = below(above, name);
        Some(*above)
    })
}
