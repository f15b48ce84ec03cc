//! Signing keys: derived from a secret access key, for a day and a scope (4) or for everywhere (4A).

use aws_lc_rs::{
    agreement::{self, ECDH_P256},
    constant_time, hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair,
        UnparsedPublicKey,
    },
};
use zeroize::Zeroizing;

use crate::credential::digits::{hex, unhex};

/// How a request is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// Version 4: for one region.
    Hmac,
    /// Version 4A: for a set of regions.
    Ecdsa,
}

impl Algorithm {
    /// As requests name it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Hmac => "AWS4-HMAC-SHA256",
            Self::Ecdsa => LABEL,
        }
    }

    pub(super) fn of(word: &str) -> Option<Self> {
        [Self::Hmac, Self::Ecdsa]
            .into_iter()
            .find(|algorithm| algorithm.word() == word)
    }
}

/// A derived key.
pub(super) enum Key {
    Hmac(Box<hmac::Key>),
    Ecdsa(Box<EcdsaKeyPair>),
}

impl Key {
    /// Version 4: for a day, a region and a service.
    pub(super) fn hmac(secret: &[u8], (day, region, service): (&str, &str, &str)) -> Self {
        let first = Zeroizing::new([b"AWS4", secret].concat());
        let mut key = hmac::Key::new(hmac::HMAC_SHA256, &first);
        for word in [day, region, service, "aws4_request"] {
            let tag = hmac::sign(&key, word.as_bytes());
            key = hmac::Key::new(hmac::HMAC_SHA256, tag.as_ref());
        }
        Self::Hmac(Box::new(key))
    }

    /// Version 4A: AWS's key derivation after NIST SP 800-108 in counter mode. `None` when no counter
    /// gives a key, which has not been seen.
    pub(super) fn ecdsa(id: &str, secret: &[u8]) -> Option<Self> {
        let scalar = scalar(id, secret)?;
        let private = agreement::PrivateKey::from_private_key(&ECDH_P256, &*scalar).ok()?;
        let public = private.compute_public_key().ok()?;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            &*scalar,
            public.as_ref(),
        );
        Some(Self::Ecdsa(Box::new(pair.ok()?)))
    }

    /// The signature of `text`, in hexadecimal digits.
    pub(super) fn sign(&self, text: &str) -> Option<String> {
        match self {
            Self::Hmac(key) => Some(hex(hmac::sign(key, text.as_bytes()).as_ref())),
            Self::Ecdsa(pair) => {
                let signature = pair.sign(&SystemRandom::new(), text.as_bytes()).ok()?;
                Some(hex(signature.as_ref()))
            }
        }
    }

    /// Whether `signature` is one of `text` with this key; takes the same time wherever it differs.
    pub(super) fn verifies(&self, text: &str, signature: &str) -> bool {
        let Some(signature) = unhex(signature.as_bytes()) else {
            return false;
        };
        match self {
            Self::Hmac(key) => {
                let expected = hmac::sign(key, text.as_bytes());
                constant_time::verify_slices_are_equal(expected.as_ref(), &signature).is_ok()
            }
            Self::Ecdsa(pair) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, pair.public_key().as_ref())
                    .verify(text.as_bytes(), &signature)
                    .is_ok()
            }
        }
    }
}

/// The private scalar: the first candidate that is at most the curve's order less two, plus one.
fn scalar(id: &str, secret: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let input = Zeroizing::new([b"AWS4A", secret].concat());
    let key = hmac::Key::new(hmac::HMAC_SHA256, &input);
    for counter in 1..=254_u8 {
        let mut context = hmac::Context::with_key(&key);
        context.update(&1_u32.to_be_bytes());
        context.update(LABEL.as_bytes());
        context.update(&[0]);
        context.update(id.as_bytes());
        context.update(&[counter]);
        context.update(&256_u32.to_be_bytes());
        let mut candidate = Zeroizing::new([0_u8; 32]);
        candidate.copy_from_slice(context.sign().as_ref().get(..32)?);
        if *candidate <= ORDER_LESS_TWO {
            for octet in candidate.iter_mut().rev() {
                let (sum, carry) = octet.overflowing_add(1);
                *octet = sum;
                if !carry {
                    break;
                }
            }
            return Some(candidate);
        }
    }
    None
}

const LABEL: &str = "AWS4-ECDSA-P256-SHA256";
/// P-256's order (SEC 2 §2.4.2) less two, big-endian.
const ORDER_LESS_TWO: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x4f,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The pair that AWS's own libraries are tested with.
    #[test]
    fn the_key_of_version_4a_is_aws_s_own() {
        let (id, secret) = (
            "AKISORANDOMAASORANDOM",
            b"q+jcrXGc+0zWN6uzclKVhvMmUsIfRPa4rlRandom",
        );
        let scalar = scalar(id, secret).unwrap();
        assert_eq!(
            hex(&*scalar),
            "7fd3bd010c0d9c292141c2b77bfbde1042c92e6836fff749d1269ec890fca1bd"
        );
        let Some(Key::Ecdsa(pair)) = Key::ecdsa(id, secret) else {
            panic!("no key");
        };
        assert_eq!(
            hex(pair.public_key().as_ref()),
            "0415d242ceebf8d8169fd6a8b5a746c41140414c3b07579038da06af89190fffcb\
             0515242cedd82e94799482e4c0514b505afccf2c0c98d6a553bf539f424c5ec0"
        );
    }

    #[test]
    fn a_signature_of_version_4a_is_taken_by_its_own_key_alone() {
        let one = Key::ecdsa("AKIAONEONEONEONEONE1", b"one").unwrap();
        let other = Key::ecdsa("AKIAONEONEONEONEONE1", b"other").unwrap();
        let signature = one.sign("text").unwrap();
        assert!(one.verifies("text", &signature));
        assert!(!one.verifies("texts", &signature));
        assert!(!other.verifies("text", &signature));
        assert!(!one.verifies("text", "zz"));
    }
}
