//! `client_certificate`: a TLS client certificate, presented to the origin by the border.
//!
//! The stored value is PEM: the certificate, the rest of its chain, and the private key, in any order.
//! Nothing of it can be sent by a program: the border presents it on connections that carry requests to
//! which policy grants the secret, and on no other. `NAME` holds a sentinel that stands for nothing. A
//! certificate that has ended is not presented: whoever wants it is told, instead of by every origin.

use std::sync::Arc;

use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use self::validity::ends;
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
        match chain {
            Ok(chain) if !chain.is_empty() => {}
            _ => return Err(unusable("it has to hold the certificate in PEM")),
        }
        PrivateKeyDer::from_pem_slice(value.expose())
            .map(drop)
            .map_err(|_| unusable("it has to hold the private key in PEM, without a passphrase"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_needs_its_key() {
        let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let check = |text: &str| ClientCertificate.check(&text.into());
        assert!(check(&format!("{certificate}{key}")).is_ok());
        assert!(check(&format!("{key}{certificate}{certificate}")).is_ok());
        assert!(check(certificate).is_err());
        assert!(check(key).is_err());
        assert!(check("").is_err());
    }
}
