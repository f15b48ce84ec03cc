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

    /// A copy of octets that somebody else owns, and wipes.
    #[must_use]
    pub fn copy_of(octets: &[u8]) -> Self {
        Self::new(octets.to_vec())
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

impl Default for SecretBytes {
    /// None.
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

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
