//! Letters and digits of the values of a form, one after the other and each up to the sign that ends its pair, without
//! those of the names: on processors that look at sixty-four octets at once.
//!
//! A value that is long, is not over here or holds more than an escape that is undone at a glance, and a pair of one
//! word, are left to the asker, who reads each by itself.

use fearless_simd::{Level, Simd, prelude::*, u8x64};

use super::{BLOCK, Classes, Letters, NEAR, Reading, add_block};

/// Stops where a pair ends, and where an escape may be that is not undone at a glance.
struct Value;

impl Reading for Value {
    const CLASSES: Classes = Classes::stopping(b"%\\&").undoing();
}

impl Letters {
    /// Adds those of the values of all pairs that `octets`, which begin with one, hold with the sign that ends each, and
    /// that are no longer than `most`; gives how much of it that is.
    pub(in crate::credential) fn add_pairs(&mut self, octets: &[u8], most: usize) -> usize {
        self.add_pairs_by(Level::new(), octets, most)
    }

    /// The same as some processor can.
    fn add_pairs_by(&mut self, level: Level, octets: &[u8], most: usize) -> usize {
        #[cfg(target_arch = "x86_64")]
        {
            let room = self.room(octets.len() + BLOCK);
            let (read, taken) = match (level.as_avx512(), level.as_avx2()) {
                (Some(simd), _) => add(simd, octets, most, room),
                (None, Some(simd)) => add(simd, octets, most, room),
                (None, None) => (0, 0),
            };
            self.taken += taken;
            read
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (level, octets, most);
            0
        }
    }
}

/// How much is read, and how much taken of it.
fn add<S: Simd>(simd: S, octets: &[u8], most: usize, room: &mut [u8]) -> (usize, usize) {
    simd.vectorize(
        #[inline(always)]
        || {
            let (mut read, mut taken) = (0, 0);
            while let Some(begin) = behind_name(simd, octets, read)
                && let Some((end, more)) = value(simd, octets, (begin, most), {
                    room.get_mut(taken..).unwrap_or_default()
                })
            {
                read = end + 1;
                taken += more;
            }
            (read, taken)
        },
    )
}

/// Where the value begins of the pair that begins at `at`, if it has one.
#[inline(always)]
fn behind_name<S: Simd>(simd: S, octets: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let block = octets.get(at..)?.first_chunk::<BLOCK>()?;
        let block = u8x64::simd_from(simd, *block);
        let ends = (block.simd_eq(b'=') | block.simd_eq(b'&')).to_bitmask();
        if ends != 0 {
            at += ends.trailing_zeros() as usize;
            return (octets.get(at) == Some(&b'=')).then_some(at + 1);
        }
        at += BLOCK;
    }
}

/// Where the value that begins at `begin` ends, and how many letters it has, which are in `room` then.
#[inline(always)]
fn value<S: Simd>(
    simd: S,
    octets: &[u8],
    (begin, most): (usize, usize),
    room: &mut [u8],
) -> Option<(usize, usize)> {
    let (mut at, mut taken) = (begin, 0);
    while at <= begin + most {
        let near = octets.get(at..)?.first_chunk::<NEAR>()?;
        let slots = room.get_mut(taken..)?.first_chunk_mut::<BLOCK>()?;
        let block = add_block::<_, Value>(simd, near, slots);
        at += block.read;
        taken += block.taken;
        if block.stopped {
            let over = octets.get(at) == Some(&b'&') && at <= begin + most;
            return over.then_some((at, taken));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::credential::{bare::add_bare, lanes::levels};

    /// The letters of the values of so many octets, each read by itself.
    fn each(octets: &[u8]) -> Vec<u8> {
        let (mut view, mut bare) = (Vec::new(), Letters::default());
        for pair in octets.split(|octet| *octet == b'&') {
            if let Some(at) = pair.iter().position(|octet| *octet == b'=') {
                add_bare(&pair[at + 1..], &mut view, &mut bare);
            }
        }
        bare.as_slice().to_vec()
    }

    proptest! {
        #[test]
        fn values_are_taken_as_each_of_them_is(
            parts in prop::collection::vec(prop_oneof![
                6 => "[a-zA-Z0-9+. -]{0,40}", 6 => Just("&".to_owned()), 6 => Just("=".to_owned()),
                3 => Just("%41".to_owned()), 3 => Just("%3D%2f".to_owned()), 1 => Just("%26".to_owned()),
                1 => Just("%".to_owned()), 1 => Just("%4".to_owned()), 1 => Just("\\".to_owned()),
                1 => Just("%2541".to_owned()), 1 => "[a-z%]{60,140}",
            ], 0..40),
            most in 0_usize..300,
        ) {
            let body = parts.concat();
            let octets = body.as_bytes();
            for level in levels() {
                let mut taken = Letters::default();
                taken.push(b'x');
                let read = taken.add_pairs_by(level, octets, most);
                let (before, _) = octets.split_at(read);
                prop_assert!(before.is_empty() || before.ends_with(b"&"));
                prop_assert_eq!(&taken.as_slice()[1..], each(before));
                // None of one word, and none that is long.
                for pair in before.split(|octet| *octet == b'&').rev().skip(1) {
                    let at = pair.iter().position(|octet| *octet == b'=');
                    prop_assert!(at.is_some_and(|at| pair.len() - at - 1 <= most));
                }
            }
        }
    }

    #[test]
    fn ordinary_pairs_are_taken_up_to_the_last() {
        let body = "name=some%20value%2C+more&".repeat(20);
        let level = Level::new();
        if level.as_avx2().is_some() || level.as_avx512().is_some() {
            let read = Letters::default().add_pairs(body.as_bytes(), 100);
            assert!(body.len() - read < 2 * NEAR, "{read}");
        }
    }
}
