//! Terms of a block with their places, many in one row.
//!
//! A row of a PostgreSQL costs some forty octets beside what it holds, and a block has some ten thousand
//! terms that mostly have one place each. So they are kept in 256 drawers by their hash: a search reads one
//! drawer for each term and block. In a drawer stands each term (eight octets), how many octets its places
//! take (two), and the places.

use std::collections::BTreeMap;

use crate::search::posting::Places;

/// Where a term is kept.
pub(super) fn drawer_of(term: i64) -> i16 {
    // The hash ends with a multiplication: its highest octet is well mixed.
    let [.., octet] = term.to_le_bytes();
    i16::from(octet)
}

/// Drawers of a block's postings; each term once.
pub(super) fn put(postings: &[(i64, Vec<u8>)]) -> BTreeMap<i16, Vec<u8>> {
    let mut drawers: BTreeMap<i16, Vec<u8>> = BTreeMap::new();
    for (term, places) in postings {
        // A set of places has 512 octets at most.
        let Ok(octets) = u16::try_from(places.len()) else {
            continue;
        };
        let drawer = drawers.entry(drawer_of(*term)).or_default();
        drawer.extend_from_slice(&term.to_le_bytes());
        drawer.extend_from_slice(&octets.to_le_bytes());
        drawer.extend_from_slice(places);
    }
    drawers
}

/// What stands in a drawer; a damaged one ends early.
pub(super) fn terms(drawer: &[u8]) -> impl Iterator<Item = (i64, Places)> + '_ {
    let mut rest = drawer;
    std::iter::from_fn(move || {
        let (term, behind) = rest.split_first_chunk::<8>()?;
        let (octets, behind) = behind.split_first_chunk::<2>()?;
        let (places, behind) = behind.split_at_checked(u16::from_le_bytes(*octets).into())?;
        rest = behind;
        Some((i64::from_le_bytes(*term), Places::decode(places)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::posting::encode;

    #[test]
    fn what_is_put_in_is_found_and_damage_does_no_harm() {
        let postings: Vec<(i64, Vec<u8>)> = (0..2000_i64)
            .map(|n| {
                let term = n.wrapping_mul(0x1234_5678_9abc_def1);
                let few = u16::try_from(n % 600).unwrap();
                (term, encode(&(0..=few).collect::<Vec<_>>()))
            })
            .collect();
        let drawers = put(&postings);
        assert!(drawers.len() > 200, "{}", drawers.len());
        for (term, places) in &postings {
            let drawer = &drawers[&drawer_of(*term)];
            let mut found = terms(drawer).filter(|(other, _)| other == term);
            assert_eq!(found.next().unwrap().1, Places::decode(places));
            assert!(found.next().is_none());
        }
        for drawer in drawers.values().take(3) {
            let all = terms(drawer).count();
            assert!((0..drawer.len()).all(|cut| terms(&drawer[..cut]).count() < all));
        }
    }
}
