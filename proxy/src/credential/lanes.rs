//! Many octets at once, on processors that compare as many in a few instructions and find what each is in a
//! table of sixteen. Which of them this is shows when it is asked (`Level::new`); others do one by one what is
//! done here, and come to the same.

use fearless_simd::{Level, Simd, mask8x64, prelude::*, u8x64};

/// A set of octets, by the low half of each: which high halves go with it, the lower eight and the others.
pub(super) struct Set {
    low: Table,
    high: Table,
}

/// Sixteen octets, four times.
type Table = [u8; BLOCK];

/// What octets are as hexadecimal digits, and which of them are.
#[inline(always)]
pub(super) fn digits<S: Simd>(octets: u8x64<S>) -> (u8x64<S>, mask8x64<S>) {
    let letter = ((octets | 0x20) - b'a').simd_lt(6);
    let number = (octets - b'0').simd_lt(10);
    let low = octets & 0x0f;
    (letter.select(low + 9, low), letter | number)
}

impl Set {
    /// Of those that it has.
    pub(super) fn of(has: impl Fn(u8) -> bool) -> Self {
        let mut tables = [[0; BLOCK]; 2];
        for octet in (0..=u8::MAX).filter(|octet| has(*octet)) {
            let [low, high] = &mut tables;
            let table = if octet < 0x80 { low } else { high };
            let places = table.iter_mut().skip(usize::from(octet & 0x0f));
            for place in places.step_by(16) {
                *place |= 1 << (octet >> 4 & 7);
            }
        }
        let [low, high] = tables;
        Self { low, high }
    }

    /// Whether this octet is in it.
    #[inline]
    pub(super) fn has_one(&self, octet: u8) -> bool {
        let table = if octet < 0x80 { &self.low } else { &self.high };
        let row = table.get(usize::from(octet & 0x0f));
        row.is_some_and(|row| row >> (octet >> 4 & 7) & 1 == 1)
    }

    /// Which octets are in it.
    #[inline(always)]
    pub(super) fn has<S: Simd>(&self, octets: u8x64<S>) -> mask8x64<S> {
        let simd = octets.simd;
        let table = |table: &Table| u8x64::simd_from(simd, *table);
        let place = octets & 0x0f;
        let low = table(&self.low).swizzle_dyn_within_blocks(place);
        let high = table(&self.high).swizzle_dyn_within_blocks(place);
        let row = octets.simd_lt(0x80).select(low, high);
        let bit = table(&BITS).swizzle_dyn_within_blocks(octets >> 4);
        (row & bit).simd_ne(0)
    }
}

/// Where in a block the first line break is behind which another one is, with or without a carriage return between
/// them; `None` where that is in none of these octets, or cannot be told at once.
pub(super) fn empty_line(octets: &[u8; BLOCK]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    {
        let level = Level::new();
        let breaks = match (level.as_avx512(), level.as_avx2()) {
            (Some(simd), _) => line_breaks(simd, octets),
            (None, Some(simd)) => line_breaks(simd, octets),
            (None, None) => return None,
        };
        let [feeds, returns] = breaks;
        let empty = feeds & (feeds >> 1 | returns >> 1 & feeds >> 2);
        (empty != 0).then_some(empty.trailing_zeros() as usize)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = octets;
        None
    }
}

/// Which octets are line feeds, and which carriage returns.
#[cfg(target_arch = "x86_64")]
fn line_breaks<S: Simd>(simd: S, octets: &[u8; BLOCK]) -> [u64; 2] {
    simd.vectorize(
        #[inline(always)]
        || {
            let octets = u8x64::simd_from(simd, *octets);
            [b'\n', b'\r'].map(|octet| octets.simd_eq(octet).to_bitmask())
        },
    )
}

/// Where these octets are in one block after the other, and where each begins, as long as `goes_on`. The last one is
/// filled up with zeros.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn each_block<S: Simd, const N: usize>(
    simd: S,
    octets: &[u8],
    wanted: [u8; N],
    mut goes_on: impl FnMut(usize, [u64; N]) -> bool,
) {
    let (blocks, rest) = octets.as_chunks::<BLOCK>();
    let mut last = [0; BLOCK];
    if let Some(last) = last.get_mut(..rest.len()) {
        last.copy_from_slice(rest);
    }
    for (number, block) in blocks.iter().chain([&last]).enumerate() {
        let octets = u8x64::simd_from(simd, *block);
        let found = wanted.map(|octet| octets.simd_eq(octet).to_bitmask());
        if !goes_on(number * BLOCK, found) {
            break;
        }
    }
}

/// Octets that are looked at at once.
pub(super) const BLOCK: usize = 64;
/// For each high half of an octet, its bit.
const BITS: Table = {
    let mut bits = [0; BLOCK];
    let mut at = 0;
    while at < BLOCK {
        #[expect(
            clippy::indexing_slicing,
            reason = "less than its length, when the program is compiled"
        )]
        {
            bits[at] = 1 << (at & 7);
        }
        at += 1;
    }
    bits
};

/// What this processor can be asked for, the least first.
#[cfg(test)]
pub(super) fn levels() -> Vec<Level> {
    let best = Level::new();
    #[cfg(target_arch = "x86_64")]
    let between = best.as_avx2().map(Level::Avx2);
    #[cfg(not(target_arch = "x86_64"))]
    let between = None;
    let levels = [Some(Level::baseline()), between, Some(best)];
    levels.into_iter().flatten().collect()
}
