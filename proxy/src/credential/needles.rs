//! Many texts looked for at once, letter case aside.
//!
//! What is looked for is long (eight octets at least) and rarely there: `heads` says where one
//! may begin, and only there is looked closer. Adding a text costs what its first octets do.

use super::heads::Heads;

/// Texts to look for.
#[derive(Debug, Default)]
pub struct Needles {
    texts: Vec<Box<[u8]>>,
    longest: usize,
    heads: Heads,
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
        let texts = texts.into_iter().map(|text| text.as_ref().into());
        let texts: Vec<Box<[u8]>> = texts.collect();
        let sound = |text: &&[u8]| text.len() >= SHORTEST;
        let lengths = texts.iter().map(|text| &**text).filter(sound);
        let heads = texts.iter().map(|text| {
            let text = &**text;
            if sound(&text) { text } else { &[] }
        });
        Self {
            longest: lengths.map(<[u8]>::len).max().unwrap_or(0),
            heads: Heads::new(heads),
            texts,
        }
    }

    /// The longest text's length; 0 when there is nothing to look for.
    #[must_use]
    pub const fn longest(&self) -> usize {
        self.longest
    }

    /// Tells every occurrence in `octets`, overlapping ones too, in no order.
    pub fn find_each(&self, octets: &[u8], mut found: impl FnMut(Occurrence)) {
        self.heads.each(octets, |needle, start| {
            let Some(text) = self.texts.get(needle) else {
                return;
            };
            let end = start + text.len();
            let here = octets.get(start..end);
            if here.is_some_and(|here| here.eq_ignore_ascii_case(text)) {
                found(Occurrence { needle, start, end });
            }
        });
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

    proptest! {
        #[test]
        fn finds_what_the_plain_search_finds(
            texts in prop::collection::vec("[ab]{8,12}", 1..6),
            hay in "[abAB]{0,200}",
        ) {
            let needles = Needles::new(&texts);
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
        }
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
