//! AES-256-GCM and key derivation, as the vault uses them: one way each, no choices.
//!
//! Every sealing takes a fresh random 96-bit nonce. A key seals few messages (a data key exactly one,
//! a master key some per secret version), far below the 2^32 at which random nonces might meet
//! (NIST SP 800-38D §8.3).

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf, hmac, rand,
};
use zeroize::Zeroize as _;

use crate::secret_bytes::SecretBytes;

/// 256 bits, in locked memory.
#[derive(Debug)]
pub(crate) struct Key(SecretBytes);

/// A nonce and what was sealed with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Random, 96 bits.
    pub nonce: [u8; NONCE_LEN],
    /// The sealed octets and the 128-bit tag.
    pub octets: Vec<u8>,
}

/// The cryptographic library refused: no randomness, or a text longer than the cipher takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cryptographic library cannot do it")]
pub struct CipherError;

/// What was sealed was changed, or belongs elsewhere, or was sealed with another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it was changed, moved here from elsewhere, or sealed with another key")]
pub struct OpenError;

impl Key {
    /// A fresh one.
    pub(crate) fn random() -> Result<Self, CipherError> {
        let mut octets = SecretBytes::zeroed(KEY);
        rand::fill(octets.expose_mut()).map_err(|_| CipherError)?;
        Ok(Self(octets))
    }

    /// A key of these octets; `None` when they are not 32.
    pub(crate) fn of(octets: SecretBytes) -> Option<Self> {
        (octets.len() == KEY).then_some(Self(octets))
    }

    /// The octets, to be sealed themselves or written to a key file.
    pub(crate) const fn octets(&self) -> &SecretBytes {
        &self.0
    }

    /// Another key, for one purpose (HKDF-SHA256, RFC 5869).
    pub(crate) fn derive(&self, purpose: &[u8]) -> Result<Self, CipherError> {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, b"gig vault").extract(self.0.expose());
        let mut octets = SecretBytes::zeroed(KEY);
        root.expand(&[purpose], hkdf::HKDF_SHA256)
            .and_then(|material| material.fill(octets.expose_mut()))
            .map_err(|_| CipherError)?;
        Ok(Self(octets))
    }

    /// Seals `plain` so that it opens only together with `context`.
    pub(crate) fn seal(&self, plain: &SecretBytes, context: &[u8]) -> Result<Sealed, CipherError> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| CipherError)?;
        // Encrypted in place: what is plain never leaves locked memory.
        let mut space = SecretBytes::zeroed(plain.len());
        space.expose_mut().copy_from_slice(plain.expose());
        let tag = self
            .cipher()?
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(context),
                space.expose_mut(),
            )
            .map_err(|_| CipherError)?;
        let mut octets = space.expose().to_vec();
        octets.extend_from_slice(tag.as_ref());
        Ok(Sealed { nonce, octets })
    }

    /// Opens what [`Key::seal`] sealed with the same context.
    pub(crate) fn open(&self, sealed: &Sealed, context: &[u8]) -> Result<SecretBytes, OpenError> {
        let mut space = SecretBytes::copy_of(&sealed.octets);
        let length = self
            .cipher()
            .map_err(|CipherError| OpenError)?
            .open_in_place(
                Nonce::assume_unique_for_key(sealed.nonce),
                Aad::from(context),
                space.expose_mut(),
            )
            .map_err(|_| OpenError)?
            .len();
        Ok(space.shortened(length))
    }

    /// HMAC-SHA256 of `message`.
    pub(crate) fn authenticate(&self, message: &[u8]) -> [u8; 32] {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, self.0.expose()), message);
        let mut octets = [0; 32];
        // HMAC-SHA256 has 32 octets.
        octets
            .iter_mut()
            .zip(tag.as_ref())
            .for_each(|(to, from)| *to = *from);
        octets
    }

    /// Whether `tag` authenticates `message`; takes the same time wherever they differ.
    pub(crate) fn is_authentic(&self, message: &[u8], tag: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.expose());
        hmac::verify(&key, message, tag).is_ok()
    }

    fn cipher(&self) -> Result<LessSafeKey, CipherError> {
        // The name warns of reused nonces; here each is random.
        UnboundKey::new(&AES_256_GCM, self.0.expose())
            .map(LessSafeKey::new)
            .map_err(|_| CipherError)
    }
}

/// Random octets that need not be secret.
pub(crate) fn salt() -> Result<[u8; 16], CipherError> {
    let mut octets = [0; 16];
    rand::fill(&mut octets).map_err(|_| CipherError)?;
    Ok(octets)
}

/// A list of fields as octets, each with its length, so that no two lists are written alike.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<u8>);

impl Fields {
    /// Begins with what the list is for.
    pub(crate) fn of(purpose: &str) -> Self {
        Self::default().octets(purpose.as_bytes())
    }

    /// Adds octets.
    pub(crate) fn octets(mut self, octets: &[u8]) -> Self {
        self.0
            .extend_from_slice(&(octets.len() as u64).to_be_bytes());
        self.0.extend_from_slice(octets);
        self
    }

    /// Adds text.
    pub(crate) fn text(self, text: &str) -> Self {
        self.octets(text.as_bytes())
    }

    /// Adds a number.
    pub(crate) fn number(self, number: u64) -> Self {
        self.octets(&number.to_be_bytes())
    }

    /// Adds a moment, or that there is none.
    pub(crate) fn moment(self, at: Option<i64>) -> Self {
        match at {
            Some(at) => self.octets(&at.to_be_bytes()),
            None => self.octets(&[]),
        }
    }

    /// All of them.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl Sealed {
    /// As one field of a row: nonce, then the sealed octets.
    pub(crate) fn to_row(&self) -> Vec<u8> {
        [&self.nonce[..], &self.octets].concat()
    }

    /// Reads [`Sealed::to_row`].
    pub(crate) fn from_row(row: &[u8]) -> Option<Self> {
        let (nonce, octets) = row.split_first_chunk::<NONCE_LEN>()?;
        Some(Self {
            nonce: *nonce,
            octets: octets.to_vec(),
        })
    }
}

impl Drop for Fields {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// 256 bits.
pub(crate) const KEY: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_changed_octet_or_context_does_not_open() {
        let key = Key::random().unwrap();
        let sealed = key.seal(&SecretBytes::from("hunter2"), b"here").unwrap();
        assert_eq!(
            key.open(&sealed, b"here").unwrap(),
            SecretBytes::from("hunter2")
        );
        assert!(key.open(&sealed, b"there").is_err());
        assert!(Key::random().unwrap().open(&sealed, b"here").is_err());
        let row = sealed.to_row();
        for at in 0..row.len() {
            let mut changed = row.clone();
            changed[at] ^= 1;
            let changed = Sealed::from_row(&changed).unwrap();
            assert!(key.open(&changed, b"here").is_err(), "octet {at}");
        }
        assert!(Sealed::from_row(&row[..5]).is_none());
    }

    #[test]
    fn nonces_are_fresh() {
        let key = Key::random().unwrap();
        let one = key.seal(&SecretBytes::from("a"), b"").unwrap();
        let two = key.seal(&SecretBytes::from("a"), b"").unwrap();
        assert_ne!(one.nonce, two.nonce);
        assert_ne!(one.octets, two.octets);
    }

    proptest! {
        #[test]
        fn everything_opens_again(plain in proptest::collection::vec(any::<u8>(), 0..3000)) {
            let key = Key::random().unwrap();
            let plain = SecretBytes::copy_of(&plain);
            let sealed = key.seal(&plain, b"here").unwrap();
            prop_assert_eq!(key.open(&sealed, b"here").unwrap(), plain);
        }

        #[test]
        fn no_two_lists_of_fields_are_written_alike(
            one in proptest::collection::vec(".{0,3}", 0..4),
            two in proptest::collection::vec(".{0,3}", 0..4),
        ) {
            let written = |list: &[String]| {
                list.iter().fold(Fields::of("x"), |fields, text| fields.text(text)).as_slice().to_vec()
            };
            prop_assert_eq!(one == two, written(&one) == written(&two));
        }
    }
}
