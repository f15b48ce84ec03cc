//! Octets that may not be what they are: those that begin an escape, and line breaks.

/// Whether an escape may begin with it.
#[inline]
pub(in crate::credential) const fn is_introducer(octet: u8) -> bool {
    matches!(octet, b'%' | b'\\' | b'&')
}

/// Whether it is a line break or a part of one.
#[inline]
pub(super) const fn is_line_break(octet: u8) -> bool {
    matches!(octet, b'\r' | b'\n')
}

/// Whether it is one of both.
#[inline]
pub(super) const fn is_special(octet: u8) -> bool {
    is_introducer(octet) || is_line_break(octet)
}

/// Special octets of a block of at most 64.
#[derive(Debug, Clone, Copy)]
pub(super) struct Specials {
    /// For each of 16 columns an octet, in which each row of the block has a bit.
    columns: [u64; 2],
}

impl Specials {
    /// Looks at a block.
    #[inline]
    pub(super) fn of(block: &[u8]) -> Self {
        let mut columns = [0_u8; COLUMNS];
        if let Some(block) = block.first_chunk::<{ 4 * COLUMNS }>() {
            // Without branches, so that many octets are compared at once.
            let mut flags = [0_u8; 4 * COLUMNS];
            for (flag, octet) in flags.iter_mut().zip(block) {
                let is = |special: u8| u8::from(*octet == special);
                *flag = is(b'%') | is(b'\\') | is(b'&') | is(b'\r') | is(b'\n');
            }
            if let (&[one, two, three, four], []) = flags.as_chunks::<COLUMNS>() {
                for (column, ((a, b), (c, d))) in columns
                    .iter_mut()
                    .zip(one.into_iter().zip(two).zip(three.into_iter().zip(four)))
                {
                    *column = a | b << 1 | c << 2 | d << 3;
                }
            }
        } else {
            for (number, row) in block.chunks(COLUMNS).take(8).enumerate() {
                for (column, octet) in columns.iter_mut().zip(row) {
                    *column |= u8::from(is_special(*octet)) << number;
                }
            }
        }
        let (halves, _) = columns.as_chunks::<8>();
        let mut halves = halves.iter().map(|half| u64::from_le_bytes(*half));
        Self {
            columns: [(); 2].map(|()| halves.next().unwrap_or(0)),
        }
    }

    /// Tells where they are, in no order.
    #[inline]
    pub(super) fn each(self, mut found: impl FnMut(usize)) {
        for (half, mut left) in self.columns.into_iter().enumerate() {
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                found(COLUMNS * (bit % 8) + COLUMNS / 2 * half + bit / 8);
            }
        }
    }
}

const COLUMNS: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_block_is_looked_at_like_its_octets(
            block in prop::collection::vec(prop_oneof![
                any::<u8>(), prop::sample::select(b"%\\&\r\n$'[\x0c\x0b".to_vec()),
            ], 0..=64),
        ) {
            let mut found = Vec::new();
            Specials::of(&block).each(|at| found.push(at));
            found.sort_unstable();
            let expected = (0..block.len()).filter(|at| is_special(block[*at]));
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
