//! What rows hold, as the record knows it.

use crate::{record::ChainHash, search::walk::key_of};

/// A hash as it is kept; one of another length is no record's.
pub(super) fn hash_of(octets: &[u8]) -> ChainHash {
    octets.try_into().map_or(ChainHash::NONE, ChainHash)
}

/// All places of a chain, both ends included.
pub(super) fn range_of(chain: u32) -> (i64, i64) {
    (key_of(chain, 0), key_of(chain, u64::MAX))
}
