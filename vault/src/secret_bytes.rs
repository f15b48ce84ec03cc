//! Octets that are never shown: wiped when they go, absent from every `Debug`.

use std::fmt;

use zeroize::Zeroizing;

/// A secret's octets. Cloning is deliberate work ([`SecretBytes::duplicate`]); comparing takes the
/// same time wherever the difference is.
pub struct SecretBytes(Zeroizing<Vec<u8>>);

impl SecretBytes {
    /// Takes the octets over.
    #[must_use]
    pub fn new(octets: Vec<u8>) -> Self {
        Self(Zeroizing::new(octets))
    }

    /// The octets themselves, for as long as they are looked at.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// A second copy.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self::new(self.0.to_vec())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(..)")
    }
}
