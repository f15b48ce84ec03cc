//! Many texts looked for at once, as they are written and not otherwise.
//!
//! Minted sentinels begin alike (`gigph-`, `ghp_`): what a few beginnings share is looked for many octets at a
//! time, and which of the texts stands there is seen where one of them does. Where there are more beginnings
//! than a few, [`Needles`] say where to look.

use std::ops::Range;

use memchr::memmem::Finder;

use super::needles::{Needles, SHORTEST};

/// Texts to look for, in order.
#[derive(Debug)]
pub(super) struct Exact {
    texts: Vec<Vec<u8>>,
    longest: usize,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Beginnings(Vec<Beginning>),
    Needles(Needles),
}

/// What some of the texts begin with.
#[derive(Debug)]
struct Beginning {
    finder: Finder<'static>,
    texts: Range<usize>,
}

impl Exact {
    /// Prepares the search. Texts must be in order, and no shorter than [`SHORTEST`].
    pub(super) fn new(texts: Vec<Vec<u8>>) -> Self {
        let alike = |one: &Vec<u8>, other: &Vec<u8>| one.get(..ALIKE) == other.get(..ALIKE);
        let mut end = 0;
        let beginnings = texts.chunk_by(alike).take(FEW + 1).map(|group| {
            let start = end;
            end += group.len();
            Beginning {
                finder: Finder::new(shared(group)).into_owned(),
                texts: start..end,
            }
        });
        let beginnings: Vec<_> = beginnings.collect();
        Self {
            way: if beginnings.len() <= FEW {
                Way::Beginnings(beginnings)
            } else {
                Way::Needles(Needles::new(&texts))
            },
            longest: texts.iter().map(Vec::len).max().unwrap_or(0),
            texts,
        }
    }

    /// The longest text's length; 0 when there is nothing to look for.
    pub(super) const fn longest(&self) -> usize {
        self.longest
    }

    /// Whether some text begins with `octets` and goes on.
    pub(super) fn begins_with(&self, octets: &[u8]) -> bool {
        let after = self.texts.partition_point(|text| text.as_slice() <= octets);
        let next = self.texts.get(after);
        next.is_some_and(|text| text.starts_with(octets))
    }

    /// Tells every occurrence in `octets`, overlapping ones too, in no order: which text, and where.
    pub(super) fn find_each(&self, octets: &[u8], mut found: impl FnMut(usize, Range<usize>)) {
        match &self.way {
            Way::Beginnings(beginnings) => {
                for beginning in beginnings {
                    self.find_begun(beginning, octets, &mut found);
                }
            }
            Way::Needles(needles) => needles.find_each(octets, |at| {
                let place = at.start..at.end;
                let here = octets.get(place.clone());
                if here.is_some() && here == self.texts.get(at.needle).map(Vec::as_slice) {
                    found(at.needle, place);
                }
            }),
        }
    }

    fn find_begun(
        &self,
        beginning: &Beginning,
        octets: &[u8],
        found: &mut impl FnMut(usize, Range<usize>),
    ) {
        let mut from = 0;
        while let Some(rest) = octets.get(from..)
            && let Some(at) = beginning.finder.find(rest)
        {
            self.find_at(beginning, octets, from + at, found);
            from += at + 1;
        }
    }

    /// All that stand at one place: each octet leaves a shorter range of those that begin alike.
    fn find_at(
        &self,
        beginning: &Beginning,
        octets: &[u8],
        start: usize,
        found: &mut impl FnMut(usize, Range<usize>),
    ) {
        let Range {
            start: mut from,
            end: mut to,
        } = beginning.texts;
        for known in beginning.finder.needle().len().. {
            let Some(range) = self.texts.get(from..to).filter(|range| !range.is_empty()) else {
                return;
            };
            // What is over comes first, and before every octet.
            let here = |text: &Vec<u8>| text.get(known).copied();
            let over = range.partition_point(|text| here(text).is_none());
            for number in from..from + over {
                found(number, start..start + known);
            }
            let Some(octet) = octets.get(start + known).copied() else {
                return;
            };
            to = from + range.partition_point(|text| here(text) <= Some(octet));
            from += range.partition_point(|text| here(text) < Some(octet));
        }
    }
}

/// What all of a group in order begin with.
fn shared(group: &[Vec<u8>]) -> &[u8] {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return &[];
    };
    let length = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    first.get(..length.min(SHORTEST)).unwrap_or_default()
}

/// Octets that texts share which are looked for together.
const ALIKE: usize = 4;
/// So many beginnings take less time one after the other than what finds any of many.
const FEW: usize = 3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(mut texts: Vec<String>, hay: &str) -> Result<(), TestCaseError> {
        texts.sort_unstable();
        texts.dedup();
        let exact = Exact::new(texts.iter().map(|text| text.clone().into_bytes()).collect());
        let mut found = Vec::new();
        exact.find_each(hay.as_bytes(), |text, at| {
            found.push((text, at.start, at.end))
        });
        found.sort_unstable();
        let mut expected = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            for start in 0..hay.len() {
                if hay.as_bytes()[start..].starts_with(text.as_bytes()) {
                    expected.push((number, start, start + text.len()));
                }
            }
        }
        prop_assert_eq!(found, expected);
        for at in 0..hay.len() {
            let tail = &hay.as_bytes()[at..];
            let goes_on =
                |text: &String| text.as_bytes().starts_with(tail) && text.len() > tail.len();
            let begun = texts.iter().any(goes_on);
            prop_assert_eq!(exact.begins_with(tail), begun, "{:?}", tail);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn finds_what_the_plain_search_finds_by_few_beginnings(
            texts in prop::collection::vec("(aaaa|aaab)[ab]{4,6}", 1..6),
            hay in "[ab]{0,120}",
        ) {
            check(texts, &hay)?;
        }

        #[test]
        fn finds_what_the_plain_search_finds_by_many(
            texts in prop::collection::vec("[abc]{8,11}", 1..9),
            parts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
            hay in "[abcA]{0,60}",
        ) {
            let parts: String = parts.iter().map(|part| part.get(&texts).as_str()).collect();
            check(texts, &(parts + &hay))?;
        }
    }

    #[test]
    fn octets_that_begin_everywhere_take_no_longer_than_their_number() {
        let texts = ["aaaaaaaaab", "aaaaaaaaac"].map(|text| text.as_bytes().to_vec());
        let exact = Exact::new(texts.to_vec());
        let mut found = 0;
        exact.find_each(&b"a".repeat(1 << 20), |_, _| found += 1);
        assert_eq!(found, 0);
    }
}
