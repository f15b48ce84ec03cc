//! Many texts looked for at once, letter case aside.
//!
//! What is looked for is long (eight octets at least) and rarely there: `heads` says where one
//! may begin, and only there is looked closer. Adding a text costs what its first octets do.

use std::ops::Range;

use gig_vault::SecretBytes;
use zeroize::Zeroizing;

use super::heads::{ANY, Heads};

/// Texts to look for.
#[derive(Debug, Default)]
pub struct Needles {
    /// All texts, one after the other.
    octets: Octets,
    /// Where in them each is.
    texts: Vec<Range<usize>>,
    /// Those that can be found, letter case aside.
    order: Vec<usize>,
    longest: usize,
    heads: Heads,
}

/// Where texts are kept.
#[derive(Debug)]
enum Octets {
    /// Anybody may see them.
    Open(Box<[u8]>),
    /// They are values.
    Secret(SecretBytes),
}

impl Default for Octets {
    fn default() -> Self {
        Self::Open(Box::default())
    }
}

/// One occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    /// Which text, in the order they were given.
    pub needle: usize,
    /// Where it begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

impl Needles {
    /// Prepares the search. Texts shorter than [`SHORTEST`] are never found.
    #[must_use]
    pub fn new<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Self {
        let texts: Vec<T> = texts.into_iter().collect();
        let texts: Vec<&[u8]> = texts.iter().map(AsRef::as_ref).collect();
        Self::kept(&texts, Octets::Open(texts.concat().into()))
    }

    /// The same for texts that are values, or hold one.
    #[must_use]
    pub fn of_values(texts: &[Zeroizing<Vec<u8>>]) -> Self {
        let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_slice()).collect();
        let all = Zeroizing::new(texts.concat());
        Self::kept(&texts, Octets::Secret(SecretBytes::compared(&all)))
    }

    fn kept(texts: &[&[u8]], octets: Octets) -> Self {
        let sound = |text: &&&[u8]| text.len() >= SHORTEST;
        let lengths = texts.iter().filter(sound);
        let heads = texts
            .iter()
            .map(|text| if sound(&text) { text } else { &[][..] });
        let lower = |text: &usize| {
            let octets: &[u8] = texts.get(*text).copied().unwrap_or_default();
            octets.iter().map(u8::to_ascii_lowercase)
        };
        let sound_ones = texts.iter().enumerate();
        let sound_ones = sound_ones.filter(|(_, text)| text.len() >= SHORTEST);
        let mut order: Vec<usize> = sound_ones.map(|(number, _)| number).collect();
        order.sort_unstable_by(|one, other| lower(one).cmp(lower(other)));
        let mut end = 0;
        let ranges = texts.iter().map(|text| {
            let start = end;
            end += text.len();
            start..end
        });
        Self {
            order,
            longest: lengths.map(|text| text.len()).max().unwrap_or(0),
            heads: Heads::new(heads),
            texts: ranges.collect(),
            octets,
        }
    }

    /// One of the texts.
    fn text(&self, number: usize) -> Option<&[u8]> {
        let octets = match &self.octets {
            Octets::Open(octets) => octets,
            Octets::Secret(octets) => octets.expose(),
        };
        octets.get(self.texts.get(number)?.clone())
    }

    /// The longest text's length; 0 when there is nothing to look for.
    #[must_use]
    pub const fn longest(&self) -> usize {
        self.longest
    }

    /// Tells every occurrence in `octets`, overlapping ones too, in no order.
    pub fn find_each(&self, octets: &[u8], mut found: impl FnMut(Occurrence)) {
        self.heads.each(octets, |needle, start| {
            if needle == ANY {
                return self.each_at(octets, start, &mut found);
            }
            let Some(text) = self.text(needle) else {
                return;
            };
            let end = start + text.len();
            let here = octets.get(start..end);
            if here.is_some_and(|here| here.eq_ignore_ascii_case(text)) {
                found(Occurrence { needle, start, end });
            }
        });
    }

    /// All that stand at one place: each octet leaves a shorter range of those that begin alike.
    fn each_at(&self, octets: &[u8], start: usize, found: &mut impl FnMut(Occurrence)) {
        let mut range = self.order.as_slice();
        for known in 0..=self.longest {
            let here = |text: &usize| {
                let octet = self.text(*text).and_then(|text| text.get(known));
                octet.map(u8::to_ascii_lowercase)
            };
            let whole = range.partition_point(|text| here(text).is_none());
            let (over, longer) = range.split_at_checked(whole).unwrap_or((range, &[]));
            for needle in over {
                let (needle, end) = (*needle, start + known);
                found(Occurrence { needle, start, end });
            }
            let Some(octet) = octets.get(start + known) else {
                return;
            };
            let octet = Some(octet.to_ascii_lowercase());
            let from = longer.partition_point(|text| here(text) < octet);
            let to = longer.partition_point(|text| here(text) <= octet);
            range = longer.get(from..to).unwrap_or_default();
            if range.is_empty() {
                return;
            }
        }
    }
}

/// Below this, texts are found in anything.
pub const SHORTEST: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(needles: &Needles, text: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        needles.find_each(text, |o| found.push((o.needle, o.start)));
        found.sort_unstable();
        found
    }

    /// Every occurrence is told, and nothing else.
    fn check(texts: &[String], hay: &str) -> Result<(), TestCaseError> {
        let needles = Needles::new(texts);
        let lower = hay.to_ascii_lowercase();
        let mut expected = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            for start in 0..lower.len() {
                if lower.as_bytes()[start..].starts_with(text.as_bytes()) {
                    expected.push((number, start));
                }
            }
        }
        expected.sort_unstable();
        prop_assert_eq!(all(&needles, hay.as_bytes()), expected);
        Ok(())
    }

    proptest! {
        #[test]
        fn finds_what_the_plain_search_finds(
            texts in prop::collection::vec("[ab]{8,12}", 1..6),
            hay in "[abAB]{0,200}",
        ) {
            check(&texts, &hay)?;
        }

        #[test]
        fn finds_what_the_plain_search_finds_where_all_are_long(
            texts in prop::collection::vec("a{0,11}b[ab]{11,13}", 1..6),
            hay in "[aA]{0,12}([aA]{3}[abAB]{12}){0,20}",
        ) {
            check(&texts, &hay)?;
        }
    }

    #[test]
    fn many_that_begin_alike_are_found_each() {
        let texts = (0..300_u32).map(|n| format!("gigph-{:08x}", n.wrapping_mul(0x9e37_79b1)));
        let texts: Vec<String> = texts.collect();
        let needles = Needles::new(
            texts
                .iter()
                .map(|text| text.as_str())
                .chain(["gigph-00", "gigph-000000"]),
        );
        for (number, text) in texts.iter().enumerate() {
            for before in ["", "g", "gi", "gigph-", "GIGPH-0"] {
                let hay = format!("{before}{}", text.to_uppercase());
                let found = all(&needles, hay.as_bytes());
                assert!(found.contains(&(number, before.len())), "{hay}");
                let shorter = ["gigph-00", "gigph-000000"];
                let also = shorter
                    .iter()
                    .filter(|head| text.starts_with(**head))
                    .count();
                assert_eq!(found.len(), 1 + also, "{hay}");
            }
        }
        let mut tries = 0;
        needles
            .heads
            .each("gigph-".repeat(6).as_bytes(), |_, _| tries += 1);
        assert!(tries <= 12, "{tries}");
    }

    #[test]
    fn nothing_to_look_for_finds_nothing() {
        assert!(all(&Needles::new::<&[u8]>([]), b"whatever it is").is_empty());
        assert!(all(&Needles::new(["short"]), b"short short short").is_empty());
    }

    #[test]
    fn long_texts_are_found_whole() {
        let long = "x".repeat(300) + "end";
        let needles = Needles::new([long.as_str(), "somewhere"]);
        let hay = format!("  {long} somewhere");
        assert_eq!(all(&needles, hay.as_bytes()), [(0, 2), (1, 306)]);
        assert!(all(&needles, &hay.as_bytes()[..304]).is_empty());
    }
}
