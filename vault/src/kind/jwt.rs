//! Signed assertions: what a service takes as proof of a private key (RFC 7515, 7519, 7523).

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::KeyPair as RsaKeyPair,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};

use crate::secret_bytes::SecretBytes;

/// A private key that signs assertions. `Debug` shows its algorithm alone.
pub(super) enum SigningKey {
    /// RS256: every service takes it.
    Rsa(Box<RsaKeyPair>),
    /// ES256: P-256.
    P256(Box<EcdsaKeyPair>),
}

/// A text is no private key that can sign here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReadKeyError {
    /// No PEM block of a private key.
    #[error(
        "it has to hold a private key in PEM (-----BEGIN PRIVATE KEY-----), without a passphrase"
    )]
    NoKey,
    /// A key of another kind, or a broken one.
    #[error("its private key has to be RSA of 2048 bits or more, or elliptic over P-256")]
    Unusable,
}

impl SigningKey {
    /// Reads PEM: PKCS#8, PKCS#1 (RSA) or SEC1 (elliptic).
    ///
    /// # Errors
    /// [`ReadKeyError`].
    pub(super) fn from_pem(pem: &SecretBytes) -> Result<Self, ReadKeyError> {
        let key = PrivateKeyDer::from_pem_slice(pem.expose()).map_err(|_| ReadKeyError::NoKey)?;
        let unusable = |_| ReadKeyError::Unusable;
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        match &key {
            PrivateKeyDer::Pkcs8(der) => {
                let der = der.secret_pkcs8_der();
                RsaKeyPair::from_pkcs8(der)
                    .map(|key| Self::Rsa(Box::new(key)))
                    .or_else(|_| {
                        EcdsaKeyPair::from_pkcs8(algorithm, der)
                            .map(|key| Self::P256(Box::new(key)))
                    })
                    .map_err(unusable)
            }
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der())
                .map(|key| Self::Rsa(Box::new(key)))
                .map_err(unusable),
            PrivateKeyDer::Sec1(der) => {
                EcdsaKeyPair::from_private_key_der(algorithm, der.secret_sec1_der())
                    .map(|key| Self::P256(Box::new(key)))
                    .map_err(unusable)
            }
            _ => Err(ReadKeyError::Unusable),
        }
    }

    /// The algorithm's name (RFC 7518 §3.1).
    pub(super) const fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
        }
    }

    /// Signs `claims`; `key_id` becomes `kid`. `None` when the system gives no random numbers.
    pub(super) fn sign(&self, claims: &Value, key_id: Option<&str>) -> Option<SecretBytes> {
        let mut header = json!({"alg": self.algorithm(), "typ": "JWT"});
        if let (Some(id), Some(fields)) = (key_id, header.as_object_mut()) {
            fields.insert("kid".to_owned(), id.into());
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let mut token = format!("{}.{}", part(&header), part(claims)).into_bytes();
        let signature = self.signature(&token)?;
        token.push(b'.');
        token.extend(URL_SAFE_NO_PAD.encode(signature).into_bytes());
        Some(SecretBytes::new(token))
    }

    fn signature(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .ok()?;
                Some(signature)
            }
            Self::P256(key) => Some(key.sign(&random, message).ok()?.as_ref().to_vec()),
        }
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.algorithm())
    }
}
