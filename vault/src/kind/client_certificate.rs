//! `client_certificate`: a TLS client certificate, presented to the origin by the border.
//!
//! The stored value is PEM: the certificate, the rest of its chain, and the private key, in any order.
//! Nothing of it can be sent by a program: the border presents it on connections that carry requests to
//! which policy grants the secret, and on no other. `NAME` holds a sentinel that stands for nothing. A
//! certificate that has ended is not presented: whoever wants it is told, instead of by every origin. One that
//! the border cannot present is not taken at all.

use std::sync::Arc;

use rustls::{
    Error, SignatureScheme,
    crypto::aws_lc_rs,
    sign::{CertifiedKey, SigningKey},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use self::validity::{ends, is_first_version};
use super::{Kind, MintFuture, MintRequest, Minted, UnusableValueError};
use crate::{
    secret::{Part, Shape, Treatment},
    secret_bytes::SecretBytes,
};

mod validity;

/// The kind.
#[derive(Debug, Clone, Copy)]
pub struct ClientCertificate;

impl Kind for ClientCertificate {
    fn name(&self) -> &'static str {
        "client_certificate"
    }

    fn check(&self, value: &SecretBytes) -> Result<(), UnusableValueError> {
        let unusable = |expected: &str| UnusableValueError {
            kind: self.name(),
            expected: expected.to_owned(),
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(value.expose()).collect();
        let Ok(chain) = chain else {
            return Err(unusable("it has to hold the certificate in PEM"));
        };
        let Some(own) = chain.first().cloned() else {
            return Err(unusable("it has to hold the certificate in PEM"));
        };
        let Ok(key) = PrivateKeyDer::from_pem_slice(value.expose()) else {
            let expected = "it has to hold the private key in PEM, without a passphrase";
            return Err(unusable(expected));
        };
        presentable(own, chain, key).map_err(|why| unusable(&why))
    }

    fn may_be_entrusted(&self) -> bool {
        false
    }

    fn mint<'a>(&'a self, request: MintRequest<'a>) -> MintFuture<'a> {
        Box::pin(async move {
            self.check(request.value)?;
            // The first is its own; the chain's may live longer or be of no matter.
            let own = CertificateDer::pem_slice_iter(request.value.expose()).next();
            let end = own.and_then(Result::ok).and_then(|der| ends(&der));
            if let Some(end) = end.filter(|end| *end <= request.clock.now()) {
                let expected = format!(
                    "the certificate ended at {end}: set another with gig secret rotate {}",
                    request.name
                );
                let kind = self.name();
                return Err(UnusableValueError { kind, expected }.into());
            }
            Ok(Minted {
                parts: vec![Part {
                    variable: Arc::clone(request.name.shared()),
                    value: request.value.duplicate(),
                    shape: Shape::Plain,
                }],
                treatment: Treatment::ClientCertificate,
                expires: end,
                replacement: None,
            })
        })
    }
}

/// Whether the border's TLS library presents it, asked before it is stored; with what helps where not.
fn presentable(
    own: CertificateDer<'static>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<(), String> {
    let provider = aws_lc_rs::default_provider();
    let loaded = provider.key_provider.load_private_key(key.clone_key());
    let of_p521 = |key: Arc<dyn SigningKey>| {
        let scheme = SignatureScheme::ECDSA_NISTP521_SHA512;
        key.choose_scheme(&[scheme]).is_some()
    };
    match loaded.map(of_p521) {
        Ok(false) => {}
        Ok(true) => {
            return Err(format!(
                "its key is of the curve P-521, which servers refuse of whoever does not exchange keys by it: {KEYS}"
            ));
        }
        Err(_) => {
            return Err(format!(
                "its private key cannot be used, for its kind or because it is too short: {KEYS}"
            ));
        }
    }
    match CertifiedKey::from_der(chain, key, &provider) {
        Ok(_) => Ok(()),
        Err(Error::InconsistentKeys(_)) => Err(
            "certificate and private key do not belong together: the first certificate has to be that of the key, \
             its chain behind it"
                .to_owned(),
        ),
        Err(_) if is_first_version(&own) => Err(
            "its certificate is of X.509's first version, which TLS libraries do not present (openssl x509 -req \
             makes such without -extfile): have it made with extensions, by -extfile with the line \
             basicConstraints=CA:FALSE"
                .to_owned(),
        ),
        Err(error) => Err(format!("its certificate cannot be used: {error}")),
    }
}

/// What helps.
const KEYS: &str = "use ECDSA of P-256 or P-384, Ed25519, or RSA of 2048 bits or more";

#[cfg(test)]
mod tests;
