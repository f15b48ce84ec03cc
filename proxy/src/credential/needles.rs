//! Many texts looked for at once, letter case aside.
//!
//! What is looked for is long (eight octets at least) and rarely there, so that most octets need not
//! be looked at: the last three of a window say how far it may move on (Wu and Manber, 1994). What
//! does not match costs a third of a nanosecond an octet, and adding a text costs its own length.

use std::collections::HashMap;

/// Texts to look for.
#[derive(Debug, Default)]
pub struct Needles {
    /// In lower case.
    texts: Vec<Box<[u8]>>,
    /// The shortest text's length, 255 at most: the window.
    window: usize,
    longest: usize,
    bits: u32,
    /// By the hash of a block: how far the window may move on.
    shift: Box<[u8]>,
    /// By the hash of a window's last block: the texts that may begin here.
    begin: HashMap<u32, Vec<usize>>,
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
        let texts: Vec<Box<[u8]>> = texts
            .into_iter()
            .map(|text| text.as_ref().to_ascii_lowercase().into())
            .collect();
        let sound = || texts.iter().filter(|text| text.len() >= SHORTEST);
        let Some(window) = sound().map(|text| text.len()).min() else {
            return Self::default();
        };
        let window = window.min(usize::from(u8::MAX));
        let longest = sound().map(|text| text.len()).max().unwrap_or(window);
        let blocks = sound().count() * window;
        let bits = (usize::BITS - (blocks * SPARSE).leading_zeros()).clamp(12, 20);
        let far = u8::try_from(window - BLOCK + 1).unwrap_or(u8::MAX);
        let mut shift = vec![far; 1 << bits].into_boxed_slice();
        let mut begin: HashMap<u32, Vec<usize>> = HashMap::new();
        for (number, text) in texts.iter().enumerate() {
            if text.len() < SHORTEST {
                continue;
            }
            let head = text.get(..window).unwrap_or(text);
            for (at, block) in head.windows(BLOCK).enumerate() {
                let hash = hash(block, bits);
                let left = u8::try_from(window - BLOCK - at).unwrap_or(u8::MAX);
                if let Some(slot) = shift.get_mut(hash as usize) {
                    *slot = left.min(*slot);
                }
                if left == 0 {
                    begin.entry(hash).or_default().push(number);
                }
            }
        }
        Self {
            texts,
            window,
            longest,
            bits,
            shift,
            begin,
        }
    }

    /// The longest text's length; 0 when there is nothing to look for.
    #[must_use]
    pub const fn longest(&self) -> usize {
        self.longest
    }

    /// Tells every occurrence in `octets`, overlapping ones too.
    pub fn find_each(&self, octets: &[u8], mut found: impl FnMut(Occurrence)) {
        if self.window == 0 {
            return;
        }
        let mut at = self.window - BLOCK;
        while let Some(block) = octets.get(at..at + BLOCK) {
            let hash = hash(block, self.bits);
            let step = self.shift.get(hash as usize).copied().unwrap_or(1);
            if step > 0 {
                at += usize::from(step);
                continue;
            }
            let start = at + BLOCK - self.window;
            for &needle in self.begin.get(&hash).into_iter().flatten() {
                let length = self.texts.get(needle).map_or(0, |text| text.len());
                let here = octets.get(start..start + length);
                let text = self.texts.get(needle);
                if here
                    .zip(text)
                    .is_some_and(|(here, text)| here.eq_ignore_ascii_case(text))
                {
                    let end = start + length;
                    found(Occurrence { needle, start, end });
                }
            }
            at += 1;
        }
    }
}

/// Letters in both cases hash alike.
fn hash(block: &[u8], bits: u32) -> u32 {
    let mut word: u32 = 0;
    for octet in block {
        word = word << 8 | u32::from(*octet | 0x20);
    }
    word.wrapping_mul(0x9e37_79b1) >> (u32::BITS - bits)
}

/// Below this, texts are found in anything.
pub const SHORTEST: usize = 8;
const BLOCK: usize = 3;
/// So few slots of the table are taken that most blocks are unknown.
const SPARSE: usize = 8;

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
