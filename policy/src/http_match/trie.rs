//! All path patterns of one host and port in one tree, so that a request is compared with what its own
//! segments lead to, however many patterns there are.
//!
//! A set of tree positions advances segment by segment (no backtracking): the cost grows with the
//! path's length and with the number of patterns that fit so far, not with those that do not; but for globs that
//! begin and end alike, which differ between their first and last `*` alone and are tried one by one.

use std::collections::HashMap;

use crate::{
    http_match::{PathPattern, SegmentPattern, glob_matches},
    path,
};

/// Patterns, each with one `L`.
#[derive(Debug, Default)]
pub(crate) struct PathTrie<L> {
    nodes: Vec<Node>,
    leaves: Vec<L>,
    /// The leaf of the pattern `*`, which is no path.
    asterisk: Option<usize>,
}

#[derive(Debug, Default)]
struct Node {
    literals: HashMap<Box<str>, usize>,
    globs: GlobChildren,
    deep: Option<usize>,
    is_deep: bool,
    leaf: Option<usize>,
}

/// Children behind globs, by the text before the first `*` and the text behind the last, so that few are tried.
#[derive(Debug, Default)]
struct GlobChildren {
    by_prefix: HashMap<Box<str>, BySuffix>,
    /// The lengths of the texts before.
    lengths: Vec<usize>,
}

/// Those with one text before their first `*`.
#[derive(Debug, Default)]
struct BySuffix {
    globs: HashMap<Box<str>, HashMap<Box<str>, usize>>,
    /// The lengths of the texts behind.
    lengths: Vec<usize>,
}

impl GlobChildren {
    fn child(&mut self, glob: &str, next: usize) -> usize {
        let prefix = glob.split('*').next().unwrap_or("");
        let suffix = glob.rsplit('*').next().unwrap_or("");
        if !self.lengths.contains(&prefix.len()) {
            self.lengths.push(prefix.len());
        }
        let behind = self.by_prefix.entry(prefix.into()).or_default();
        if !behind.lengths.contains(&suffix.len()) {
            behind.lengths.push(suffix.len());
        }
        let bucket = behind.globs.entry(suffix.into()).or_default();
        *bucket.entry(glob.into()).or_insert(next)
    }

    fn matching<'a>(&'a self, segment: &'a str) -> impl Iterator<Item = usize> {
        let ambiguous = !self.lengths.is_empty() && path::is_ambiguous(segment);
        let prefixes = self
            .lengths
            .iter()
            .filter_map(|length| segment.get(..*length));
        let fitting = prefixes.filter_map(|prefix| self.by_prefix.get(prefix));
        let buckets = fitting.flat_map(move |behind| {
            let suffixes = behind.lengths.iter().filter_map(|length| {
                let begin = segment.len().checked_sub(*length)?;
                segment.get(begin..)
            });
            suffixes.filter_map(|suffix| behind.globs.get(suffix))
        });
        buckets.flatten().filter_map(move |(glob, child)| {
            glob_matches(glob, segment, ambiguous).then_some(*child)
        })
    }
}

/// A position; a `**` accepts only after it took a segment.
#[derive(Clone, Copy)]
struct Position {
    node: usize,
    took: bool,
}

impl<L: Default> PathTrie<L> {
    /// The leaf of `pattern`, made when it is new.
    pub(crate) fn leaf_mut(&mut self, pattern: &PathPattern) -> Option<&mut L> {
        let slot = if pattern.segments().is_empty() {
            let next = self.leaves.len();
            *self.asterisk.get_or_insert(next)
        } else {
            if self.nodes.is_empty() {
                self.nodes.push(Node::default());
            }
            let mut at = 0;
            for segment in pattern.segments() {
                at = self.child(at, segment)?;
            }
            let next = self.leaves.len();
            *self.nodes.get_mut(at)?.leaf.get_or_insert(next)
        };
        if slot == self.leaves.len() {
            self.leaves.push(L::default());
        }
        self.leaves.get_mut(slot)
    }

    fn child(&mut self, at: usize, segment: &SegmentPattern) -> Option<usize> {
        let next = self.nodes.len();
        let node = self.nodes.get_mut(at)?;
        let child = match segment {
            SegmentPattern::Literal(text) => *node.literals.entry(text.clone()).or_insert(next),
            SegmentPattern::Deep => *node.deep.get_or_insert(next),
            SegmentPattern::Glob(glob) => node.globs.child(glob, next),
        };
        if child == next {
            let is_deep = matches!(segment, SegmentPattern::Deep);
            self.nodes.push(Node {
                is_deep,
                ..Node::default()
            });
        }
        Some(child)
    }
}

impl<L> PathTrie<L> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Calls `seen` with the leaf of every pattern that speaks of the normalised `path`.
    pub(crate) fn visit<'a>(&'a self, path: &str, mut seen: impl FnMut(&'a L)) {
        if path == "*" {
            if let Some(leaf) = self.asterisk.and_then(|slot| self.leaves.get(slot)) {
                seen(leaf);
            }
            return;
        }
        let Some(rest) = path.strip_prefix('/') else {
            return;
        };
        let mut now = Vec::with_capacity(8);
        let mut next = Vec::with_capacity(8);
        self.enter(&mut now, 0, false);
        for segment in rest.split('/') {
            self.advance(&now, segment, &mut next);
            std::mem::swap(&mut now, &mut next);
            next.clear();
            if now.is_empty() {
                return;
            }
        }
        for position in now {
            let Some(node) = self.nodes.get(position.node) else {
                continue;
            };
            let leaf = node.leaf.and_then(|slot| self.leaves.get(slot));
            if let Some(leaf) = leaf.filter(|_| position.took || !node.is_deep) {
                seen(leaf);
            }
        }
    }

    fn advance(&self, now: &[Position], segment: &str, next: &mut Vec<Position>) {
        let ambiguous = path::is_ambiguous(segment);
        for position in now {
            let Some(node) = self.nodes.get(position.node) else {
                continue;
            };
            if let Some(child) = node.literals.get(segment) {
                self.enter(next, *child, true);
            }
            for child in node.globs.matching(segment) {
                self.enter(next, child, true);
            }
            if node.is_deep && !ambiguous {
                self.enter(next, position.node, true);
            }
        }
    }

    /// Adds a position once, and the `**` below it, which may take no segment at all.
    fn enter(&self, set: &mut Vec<Position>, node: usize, took: bool) {
        let Some(found) = self.nodes.get(node) else {
            return;
        };
        match set.iter_mut().find(|p| p.node == node) {
            Some(known) => {
                known.took |= took;
                return;
            }
            None => set.push(Position { node, took }),
        }
        if let Some(deep) = found.deep {
            self.enter(set, deep, false);
        }
    }
}
