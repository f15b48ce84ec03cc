//! A provider's private keys, for tests: signs tokens of any header and claims, honest or not.

use aws_lc_rs::{
    hmac,
    rand::SystemRandom,
    rsa::{KeyPair as RsaKeyPair, KeySize},
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
        RSA_PKCS1_SHA256,
    },
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as URL};
use serde_json::{Value, json};

/// One key of each kind, with the ids `r`, `e` and `o`.
pub(super) struct Signer {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

impl Signer {
    pub(super) fn new() -> Self {
        Self {
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
            p256: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            ed25519: Ed25519KeyPair::generate().unwrap(),
        }
    }

    /// The key set that a provider publishes.
    pub(super) fn published(&self) -> Value {
        let rsa = self.rsa.public_key();
        let point = self.p256.public_key().as_ref();
        let text = |octets: &[u8]| URL.encode(octets);
        json!({"keys": [
            {"kty": "RSA", "kid": "r", "use": "sig", "alg": "RS256",
             "n": text(rsa.modulus().big_endian_without_leading_zero()),
             "e": text(rsa.exponent().big_endian_without_leading_zero())},
            {"kty": "EC", "kid": "e", "crv": "P-256", "x": text(&point[1..33]), "y": text(&point[33..])},
            {"kty": "OKP", "kid": "o", "crv": "Ed25519", "x": text(self.ed25519.public_key().as_ref())},
            {"kty": "oct", "kid": "s", "k": "c2VjcmV0"},
            {"kty": "RSA", "kid": "c", "use": "enc", "n": "AQ", "e": "AQAB"},
        ]})
    }

    /// What the public RSA key is, as text: with it as a shared secret tokens are forged.
    pub(super) fn public(&self) -> String {
        self.published()["keys"][0]["n"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// A token of these claims, signed as `algorithm` says.
    pub(super) fn token(&self, algorithm: &str, key: &str, claims: &Value) -> String {
        let header = json!({"alg": algorithm, "kid": key, "typ": "JWT"});
        self.signed(algorithm, &header, claims)
    }

    /// With a header of its own.
    pub(super) fn signed(&self, algorithm: &str, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let octets = message.as_bytes();
        let random = SystemRandom::new();
        let signature = match algorithm {
            "RS256" => {
                let mut signature = vec![0; self.rsa.public_modulus_len()];
                let signed = self
                    .rsa
                    .sign(&RSA_PKCS1_SHA256, &random, octets, &mut signature);
                signed.unwrap();
                signature
            }
            "ES256" => self.p256.sign(&random, octets).unwrap().as_ref().to_vec(),
            "EdDSA" => self.ed25519.sign(octets).as_ref().to_vec(),
            "HS256" => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, self.public().as_bytes());
                hmac::sign(&key, octets).as_ref().to_vec()
            }
            _ => Vec::new(),
        };
        format!("{message}.{}", URL.encode(signature))
    }
}
