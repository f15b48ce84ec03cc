//! The rows in which line breaks and escapes of a block are, told where their neighbours do not tell that nothing
//! comes of them: what stands there, one octet behind the other, is looked up as texts written as they are would be.

use fearless_simd::{Simd, mask8x64, prelude::*, u8x64};

use super::marks::{Escapes, NEAR};
use crate::credential::{
    heads::{Heads, ROW, Row},
    lanes::BLOCK,
};

/// What stands in a block when escapes are undone and line breaks are left out.
pub(super) struct Units {
    octets: [u8; BLOCK],
    /// Of which of them it has to be asked what they are.
    unclear: [u8; BLOCK],
    /// Where they are.
    kept: u64,
}

impl Units {
    /// Of these octets, with what `escapes` stand for, without what is `left_out`; what is `unclear` is.
    #[inline(always)]
    pub(super) fn of<S: Simd>(
        octets: u8x64<S>,
        escapes: &Escapes,
        (left_out, unclear): (u64, u64),
    ) -> Self {
        let simd = octets.simd;
        let mask = |bits| mask8x64::from_bitmask(simd, bits);
        let left_out = left_out | escapes.breaks & !escapes.signs;
        let kept = !(left_out | escapes.all << 1 | escapes.all << 2);
        let unclear = mask(unclear).select(u8x64::splat(simd, 1), u8x64::splat(simd, 0));
        Self {
            octets: octets.compress(mask(kept)).to_array(),
            unclear: unclear.compress(mask(kept)).to_array(),
            kept,
        }
    }

    /// Which of these line breaks and escapes are in a row that a text may begin with, or in one that is not told
    /// here. The block is in `near`, behind one octet.
    #[inline(always)]
    pub(super) fn likely(&self, marks: u64, near: &[u8; NEAR], heads: &Heads) -> u64 {
        let (mut left, mut likely) = (marks, 0);
        while left != 0 {
            let at = left.trailing_zeros();
            let bit = left & left.wrapping_neg();
            left &= left - 1;
            if self.is_likely(at, bit, near, heads) {
                likely |= bit;
            }
        }
        likely
    }

    #[inline(always)]
    fn is_likely(&self, at: u32, bit: u64, near: &[u8; NEAR], heads: &Heads) -> bool {
        let first = (self.kept & (bit - 1)).count_ones() as usize;
        if first + ROW > self.kept.count_ones() as usize {
            return true;
        }
        let row = |of: &[u8; BLOCK]| {
            of.get(first..)
                .and_then(<[u8]>::first_chunk::<ROW>)
                .copied()
        };
        let (Some(row), Some([0, 0, 0, 0])) = (row(&self.octets), row(&self.unclear)) else {
            return true;
        };
        // What goes on there is written as it is before.
        let before = (at as usize)
            .checked_sub(ROW - 2)
            .and_then(|from| near.get(from..));
        // Four octets are one look.
        let Some(&[a, b, c, _]) = before.and_then(<[u8]>::first_chunk::<ROW>) else {
            return true;
        };
        let [octet, ..] = row;
        heads.may_have(Row::of(row)) | heads.may_have(Row::of([a, b, c, octet]))
    }
}
