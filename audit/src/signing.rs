//! The key that signs checkpoints: Ed25519, from a seed of 32 octets.
//!
//! What is signed says that this gig wrote it; who can change a database but does not have the key
//! cannot say so. The key itself is kept by whoever hands it in.

use std::{fmt, str::FromStr};

use aws_lc_rs::signature::{self, Ed25519KeyPair, KeyPair as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use thiserror::Error;
use zeroize::Zeroizing;

/// Signs checkpoints.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// Tells whether a checkpoint was signed by its owner; 64 hex digits in text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// A text is no key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a key is 64 hexadecimal digits, as `gig audit key` prints them")]
pub struct ParseKeyError;

/// The cryptographic library did not take the key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no Ed25519 key can be made")]
pub struct SigningKeyError;

impl SigningKey {
    /// Length of a seed, in octets.
    pub const SEED: usize = 32;

    /// The key of a seed.
    ///
    /// # Errors
    /// When the library refuses it.
    pub fn from_seed(seed: &[u8; Self::SEED]) -> Result<Self, SigningKeyError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| SigningKeyError)?;
        let public = pair.public_key().as_ref().try_into();
        let public = PublicKey(public.map_err(|_| SigningKeyError)?);
        Ok(Self { pair, public })
    }

    /// A new seed, from the system's randomness; gone from memory when it is dropped.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn new_seed() -> Result<Zeroizing<[u8; Self::SEED]>, SigningKeyError> {
        let mut seed = Zeroizing::new([0; Self::SEED]);
        aws_lc_rs::rand::fill(seed.as_mut_slice()).map_err(|_| SigningKeyError)?;
        Ok(seed)
    }

    /// A seed that was kept as 64 hexadecimal digits.
    #[must_use]
    pub fn seed_of(text: &str) -> Option<Zeroizing<[u8; Self::SEED]>> {
        let octets = Zeroizing::new(octets_of_hex(text)?);
        let mut seed = Zeroizing::new([0; Self::SEED]);
        if octets.len() != seed.len() {
            return None;
        }
        seed.copy_from_slice(&octets);
        Some(seed)
    }

    /// What others check with.
    #[must_use]
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// 64 octets.
    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public)
    }
}

impl PublicKey {
    /// Whether `signature` is its owner's, of `message`.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = signature::UnparsedPublicKey::new(&signature::ED25519, self.0);
        key.verify(message, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let octets = octets_of_hex(&text.to_ascii_lowercase()).ok_or(ParseKeyError)?;
        octets.try_into().map(Self).map_err(|_| ParseKeyError)
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// The octets that lower-case hex digits spell.
pub(crate) fn octets_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let octets = pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    octets
        .collect::<Option<Vec<u8>>>()
        .filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_of_its_message_and_its_key() {
        let key = SigningKey::from_seed(&[7; 32]).unwrap();
        let other = SigningKey::from_seed(&[8; 32]).unwrap();
        let signature = key.sign(b"message");
        assert!(key.public().verifies(b"message", &signature));
        assert!(!key.public().verifies(b"massage", &signature));
        assert!(!other.public().verifies(b"message", &signature));
        assert!(!key.public().verifies(b"message", &[]));
        let text = key.public().to_string();
        assert_eq!(text.to_uppercase().parse(), Ok(key.public()));
        assert!("ab".parse::<PublicKey>().is_err());
        assert!(!format!("{key:?}").contains("0707"));
    }
}
