//! A provider's public keys (RFC 7517), and whether one of them signed something.
//!
//! Three algorithms, each bound to its kind of key: RS256, ES256, EdDSA over Ed25519. A key is never
//! tried as another kind, so that nothing signed "by" a public key as if it were a shared secret passes.
//! Keys of other kinds or uses are left out; unknown members are the provider's own business.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;

/// How a token says it is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

/// Those of one provider.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    public: Public,
}

#[derive(Debug)]
enum Public {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// Uncompressed: 4, x, y.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Written>,
}

#[derive(Deserialize)]
struct Written {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Algorithm {
    /// `None` for all others: `none` and the symmetric ones among them.
    pub(super) fn named(word: &str) -> Option<Self> {
        match word {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

impl Keys {
    /// Reads a key set; `None` where it is none, or longer than any provider's.
    pub(super) fn parse(document: &[u8]) -> Option<Self> {
        let document: Document = serde_json::from_slice(document).ok()?;
        if document.keys.len() > MOST {
            return None;
        }
        let keys = document.keys.into_iter();
        Some(Self(keys.filter_map(Key::read).collect()))
    }

    /// Whether a key of this id could have signed it: if not, it may be newer than what is known.
    pub(super) fn knows(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        self.fitting(id, algorithm).next().is_some()
    }

    /// Whether one of them signed it.
    pub(super) fn signed(
        &self,
        (id, algorithm): (Option<&str>, Algorithm),
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let mut fitting = self.fitting(id, algorithm);
        fitting.any(|key| key.public.signed(message, signature))
    }

    /// By id where the token names one.
    fn fitting<'a>(
        &'a self,
        id: Option<&'a str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &'a Key> {
        self.0.iter().filter(move |key| {
            let named = id.is_none() || key.id.as_deref() == id;
            named && key.public.algorithm() == algorithm
        })
    }
}

impl Key {
    fn read(written: Written) -> Option<Self> {
        if written.purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let octets = |text: Option<String>| BASE64_URL_SAFE_NO_PAD.decode(text?).ok();
        let public = match (written.kty.as_str(), written.crv.as_deref()) {
            ("RSA", _) => Public::Rsa {
                modulus: octets(written.n)?,
                exponent: octets(written.e)?,
            },
            ("EC", Some("P-256")) => {
                let (x, y) = (octets(written.x)?, octets(written.y)?);
                Public::P256([&[4][..], &x, &y].concat())
            }
            ("OKP", Some("Ed25519")) => Public::Ed25519(octets(written.x)?),
            _ => return None,
        };
        let algorithm = written.alg.as_deref().map(Algorithm::named);
        let fits = algorithm.is_none_or(|said| said == Some(public.algorithm()));
        let id = written.kid;
        fits.then_some(Self { id, public })
    }
}

impl Public {
    const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
            Self::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let checked = match self {
            Self::Rsa { modulus, exponent } => RsaPublicKeyComponents {
                n: modulus,
                e: exponent,
            }
            .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Self::Ed25519(x) => UnparsedPublicKey::new(&ED25519, x).verify(message, signature),
        };
        checked.is_ok()
    }
}

/// Providers publish a handful.
const MOST: usize = 100;
