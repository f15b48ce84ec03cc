//! Which records of one block have a term: a set of places, small to keep and quick to meet.
//!
//! A block is 4,096 places of one chain. A sparse set is kept as its places, two octets each; a
//! dense one as a bit a place. The length tells which: 512 octets are bits, less are places.

/// Places of a block, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places([u64; WORDS]);

impl Places {
    pub(crate) const NONE: Self = Self([0; WORDS]);
    pub(crate) const ALL: Self = Self([u64::MAX; WORDS]);

    /// Adds one; places beyond the block are none.
    pub(crate) fn add(&mut self, place: u16) {
        if let Some(word) = self.0.get_mut(usize::from(place / 64)) {
            *word |= 1 << (place % 64);
        }
    }

    pub(crate) fn meet(&mut self, other: &Self) {
        for (word, theirs) in self.0.iter_mut().zip(other.0) {
            *word &= theirs;
        }
    }

    pub(crate) fn join(&mut self, other: &Self) {
        for (word, theirs) in self.0.iter_mut().zip(other.0) {
            *word |= theirs;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// From the last to the first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = u16> + '_ {
        let ends = (0..BLOCK).step_by(64).rev();
        self.0.iter().rev().zip(ends).flat_map(|(word, first)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.checked_ilog2()?;
                left &= !(1 << bit);
                u16::try_from(bit).ok().map(|bit| first + bit)
            })
        })
    }

    /// Reads what was kept; damaged octets give no places beyond the block.
    pub(crate) fn decode(kept: &[u8]) -> Self {
        let mut places = Self::NONE;
        if kept.len() == WORDS * 8 {
            let (words, _) = kept.as_chunks::<8>();
            for (word, octets) in places.0.iter_mut().zip(words) {
                *word = u64::from_le_bytes(*octets);
            }
        } else {
            let (each, _) = kept.as_chunks::<2>();
            for octets in each {
                places.add(u16::from_le_bytes(*octets));
            }
        }
        places
    }
}

/// A set of places, in ascending order and each once, as it is kept.
pub(crate) fn encode(places: &[u16]) -> Vec<u8> {
    if places.len() < DENSE {
        return places
            .iter()
            .flat_map(|place| place.to_le_bytes())
            .collect();
    }
    let mut set = Places::NONE;
    places.iter().for_each(|place| set.add(*place));
    set.0.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Records a block holds. A block's terms are written once, when it is full: small enough that reading
/// the newest, unfinished one line by line costs milliseconds, large enough that ten million records
/// are some 2,400 look-ups.
pub(crate) const BLOCK: u16 = 4096;
const WORDS: usize = BLOCK as usize / 64;
/// From here on bits are shorter than places.
const DENSE: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_survive_keeping(set in proptest::collection::btree_set(0..BLOCK, 0..700)) {
            let places: Vec<u16> = set.iter().copied().collect();
            let kept = encode(&places);
            prop_assert!(kept.len() <= 512);
            let back = Places::decode(&kept);
            let read: Vec<u16> = back.newest_first().collect();
            let wanted: Vec<u16> = set.into_iter().rev().collect();
            prop_assert_eq!(read, wanted);
        }

        #[test]
        fn damaged_octets_do_no_harm(kept in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(Places::decode(&kept).newest_first().all(|place| place < BLOCK));
        }
    }
}
