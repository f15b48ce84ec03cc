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
    /// For each of eight columns an octet, in which each row of the left half of the block has a bit, and above
    /// those each of the right half.
    columns: u64,
}

impl Specials {
    /// Looks at a block.
    #[inline]
    pub(super) fn of(block: &[u8]) -> Self {
        if let Some(block) = block.first_chunk() {
            return Self::of_whole(block);
        }
        let mut whole = [0; ROWS * COLUMNS];
        for (slot, octet) in whole.iter_mut().zip(block) {
            *slot = *octet;
        }
        Self::of_whole(&whole)
    }

    #[inline(always)]
    fn of_whole(block: &[u8; ROWS * COLUMNS]) -> Self {
        // Without branches, so that many octets are compared at once.
        let mut flags = [0_u8; ROWS * COLUMNS];
        for (flag, octet) in flags.iter_mut().zip(block) {
            let is = |special: u8| u8::from(*octet == special);
            *flag = is(b'%') | is(b'\\') | is(b'&') | is(b'\r') | is(b'\n');
        }
        let mut columns = [0_u8; COLUMNS];
        if let (&[one, two, three, four], []) = flags.as_chunks::<COLUMNS>() {
            for (column, ((a, b), (c, d))) in columns
                .iter_mut()
                .zip(one.into_iter().zip(two).zip(three.into_iter().zip(four)))
            {
                *column = a | b << 1 | c << 2 | d << 3;
            }
        }
        let (halves, _) = columns.as_chunks::<8>();
        let mut halves = halves.iter().map(|half| u64::from_le_bytes(*half));
        let [left, right] = [(); 2].map(|()| halves.next().unwrap_or(0));
        Self {
            columns: left | right << ROWS,
        }
    }

    /// Tells where they are, in no order.
    #[inline]
    pub(super) fn each(self, mut found: impl FnMut(u16)) {
        let mut left = self.columns;
        while left != 0 {
            let place = PLACES.get(left.trailing_zeros() as usize);
            left &= left - 1;
            found(place.copied().unwrap_or(0));
        }
    }
}

/// For each bit, which octet of the block it is of.
const PLACES: [u16; 64] = {
    let mut places = [0; 64];
    let mut bit = 0;
    while bit < 64 {
        let (column, half, row) = (bit / 8, bit / 4 % 2, bit % 4);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::indexing_slicing,
            reason = "less than 64"
        )]
        {
            places[bit] = (COLUMNS * row + COLUMNS / 2 * half + column) as u16;
        }
        bit += 1;
    }
    places
};
const COLUMNS: usize = 16;
const ROWS: usize = 4;

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
            Specials::of(&block).each(|at| found.push(usize::from(at)));
            found.sort_unstable();
            let expected = (0..block.len()).filter(|at| is_special(block[*at]));
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
