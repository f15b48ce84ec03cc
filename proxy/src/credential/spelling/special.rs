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

/// A bit for each of at most 64 octets, the first the lowest.
#[inline]
pub(super) fn specials(block: &[u8]) -> u64 {
    let Some(block) = block.first_chunk::<64>() else {
        let bits = block.iter().take(64).enumerate();
        return bits.fold(0, |mask, (n, octet)| {
            mask | u64::from(is_special(*octet)) << n
        });
    };
    // Without branches, so that many octets are compared at once.
    let mut flags = [0_u8; 64];
    for (flag, octet) in flags.iter_mut().zip(block) {
        let is = |special: u8| u8::from(*octet == special);
        *flag = is(b'%') | is(b'\\') | is(b'&') | is(b'\r') | is(b'\n');
    }
    if flags.iter().fold(0, |any, flag| any | flag) == 0 {
        return 0;
    }
    let (eights, _) = flags.as_chunks::<8>();
    let mut mask = 0;
    for (number, eight) in eights.iter().enumerate() {
        // Gathers the lowest bit of each octet in the highest octet.
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= bits << (8 * number);
    }
    mask
}

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
            let mask = specials(&block);
            for at in 0..64 {
                let expected = block.get(at).is_some_and(|octet| is_special(*octet));
                prop_assert_eq!(mask >> at & 1 == 1, expected, "{}", at);
            }
        }
    }
}
