//! Octets that are never shown: in locked memory, wiped when they go, absent from every `Debug`.

use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

use crate::{
    memory::{self, Lent},
    sys::Block,
};

/// A secret's octets. Cloning is deliberate work ([`SecretBytes::duplicate`]); comparing takes the
/// same time wherever the difference is.
#[derive(Default)]
pub struct SecretBytes(Place);

#[derive(Default)]
enum Place {
    /// No octets need no place.
    #[default]
    Nowhere,
    Block(Block),
    /// In pages of its own.
    Lent {
        block: Block,
        /// Octets of the block.
        length: usize,
        /// What the pages take of what may be locked; given back after them.
        _lent: Lent,
    },
    /// The system gave no mapping at all. [`memory::locked`] refuses their use.
    Heap(Zeroizing<Vec<u8>>),
}

impl SecretBytes {
    /// Moves the octets to where secrets are kept, and wipes where they were.
    #[must_use]
    pub fn new(mut octets: Vec<u8>) -> Self {
        let moved = Self::copy_of(&octets);
        octets.zeroize();
        moved
    }

    /// A copy of octets that somebody else owns, and wipes.
    #[must_use]
    pub fn copy_of(octets: &[u8]) -> Self {
        let mut copy = Self::zeroed(octets.len());
        copy.expose_mut().copy_from_slice(octets);
        copy
    }

    /// A copy that traffic is compared with: undumpable and wiped, and locked as far as the system's limit
    /// leaves room beside the secrets themselves.
    #[must_use]
    pub fn compared(octets: &[u8]) -> Self {
        if octets.is_empty() {
            return Self::default();
        }
        let place = match memory::lend(octets.len()) {
            Some((block, lent)) => Place::Lent {
                block,
                length: octets.len(),
                _lent: lent,
            },
            None => Place::Heap(Zeroizing::new(vec![0; octets.len()])),
        };
        let mut copy = Self(place);
        copy.expose_mut().copy_from_slice(octets);
        copy
    }

    /// `length` octets, all zero, to be written in place.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        if length == 0 {
            return Self(Place::Nowhere);
        }
        Self(memory::take(length).map_or_else(
            || Place::Heap(Zeroizing::new(vec![0; length])),
            Place::Block,
        ))
    }

    /// A copy where nothing may be locked any more.
    #[cfg(test)]
    pub(crate) fn unlocked(octets: &[u8]) -> Self {
        let block = memory::take_unlocked(octets.len()).unwrap();
        let mut copy = Self(Place::Block(block));
        copy.expose_mut()[..octets.len()].copy_from_slice(octets);
        copy
    }

    /// The octets themselves, for as long as they are looked at.
    #[must_use]
    #[inline]
    pub fn expose(&self) -> &[u8] {
        match &self.0 {
            Place::Nowhere => &[],
            Place::Block(block) => block.octets(),
            Place::Lent { block, length, .. } => block.octets().get(..*length).unwrap_or_default(),
            Place::Heap(octets) => octets,
        }
    }

    /// The octets themselves, to be written in place.
    #[must_use]
    pub fn expose_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Place::Nowhere => &mut [],
            Place::Block(block) => block.octets_mut(),
            Place::Lent { block, length, .. } => {
                block.octets_mut().get_mut(..*length).unwrap_or_default()
            }
            Place::Heap(octets) => octets,
        }
    }

    /// A second copy.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self::copy_of(self.expose())
    }

    /// The first `length` of them; all where there are fewer.
    #[must_use]
    pub fn shortened(&self, length: usize) -> Self {
        Self::copy_of(self.expose().get(..length).unwrap_or_else(|| self.expose()))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.expose().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether they are never written to swap.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        match &self.0 {
            Place::Nowhere => true,
            Place::Block(block) | Place::Lent { block, .. } => block.is_locked(),
            Place::Heap(_) => false,
        }
    }
}

impl PartialEq for SecretBytes {
    fn eq(&self, other: &Self) -> bool {
        self.expose().ct_eq(other.expose()).into()
    }
}

impl Eq for SecretBytes {}

impl From<&str> for SecretBytes {
    fn from(text: &str) -> Self {
        Self::copy_of(text.as_bytes())
    }
}

impl From<Vec<u8>> for SecretBytes {
    fn from(octets: Vec<u8>) -> Self {
        Self::new(octets)
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shown() {
        let secret = SecretBytes::from("hunter2");
        assert_eq!(format!("{secret:?}"), "SecretBytes(..)");
        assert_eq!(secret, secret.duplicate());
        assert_ne!(secret, SecretBytes::from("hunter3"));
        assert!(SecretBytes::default().is_empty() && SecretBytes::default().is_locked());
    }
}
