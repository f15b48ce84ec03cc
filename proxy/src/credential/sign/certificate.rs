//! A client certificate: presented on connections that carry requests to which policy grants it.

use std::sync::Arc;

use aws_lc_rs::digest;
use gig_policy::{DenyReason, SecretName};
use gig_vault::Secret;
use http::{HeaderMap, uri::PathAndQuery};
use rustls::{
    ClientConfig, ConfigBuilder,
    client::WantsClientCert,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::untreatable;
use crate::credential::{
    rewrite::Rewrite,
    treat::{Signable, Treat, Untreatable},
};

/// The certificate that a request's connection has to be opened with.
#[derive(Debug, Clone)]
pub struct ClientIdentity {
    secret: Arc<Secret>,
}

/// Which certificate and key a connection was opened with; connections of different ones are never shared. By what
/// they are: another may take the name and the version of one that was forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdentityKey {
    name: SecretName,
    digest: Arc<[u8]>,
}

/// A certificate cannot be presented.
#[derive(Debug, thiserror::Error)]
pub enum PresentError {
    /// Its PEM does not hold what it should.
    #[error("the client certificate {0} does not hold a certificate and its key")]
    Unreadable(SecretName),
    /// The TLS library does not take it.
    #[error(
        "the client certificate {0} and its key do not belong together, or are of an unknown kind"
    )]
    Refused(SecretName, #[source] rustls::Error),
}

impl ClientIdentity {
    /// Of a secret whose one part is certificate, chain and key in PEM.
    #[must_use]
    pub const fn new(secret: Arc<Secret>) -> Self {
        Self { secret }
    }

    /// Whose it is.
    #[must_use]
    pub fn key(&self) -> IdentityKey {
        let digest = digest::digest(&digest::SHA256, self.pem());
        IdentityKey {
            name: self.secret.name.clone(),
            digest: digest.as_ref().into(),
        }
    }

    /// Certificate, chain and key.
    fn pem(&self) -> &[u8] {
        let part = self.secret.parts.first();
        part.map_or(&[], |part| part.value.expose())
    }

    /// The secret.
    #[must_use]
    pub const fn secret(&self) -> &Arc<Secret> {
        &self.secret
    }

    /// Has `builder`'s connections present it.
    ///
    /// # Errors
    /// [`PresentError`].
    pub fn present(
        &self,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    ) -> Result<ClientConfig, PresentError> {
        let name = || self.secret.name.clone();
        let pem = self.pem();
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let chain = chain.map_err(|_| PresentError::Unreadable(name()))?;
        let key = PrivateKeyDer::from_pem_slice(pem);
        let key = key.map_err(|_| PresentError::Unreadable(name()))?;
        builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| PresentError::Refused(name(), error))
    }
}

/// A certificate's sentinel in a request: it stands for nothing that could be sent.
#[derive(Debug)]
pub struct Nowhere(Arc<Secret>);

impl Nowhere {
    /// For a client certificate.
    #[must_use]
    pub fn new(secret: &Arc<Secret>) -> Self {
        Self(Arc::clone(secret))
    }
}

impl Treat for Nowhere {
    fn secret(&self) -> &Arc<Secret> {
        &self.0
    }

    fn wants_body(&self, _: &HeaderMap, _: &PathAndQuery) -> Option<usize> {
        None
    }

    fn treat(&self, _: Signable<'_>) -> Result<Option<Box<dyn Rewrite>>, Untreatable> {
        Err(untreatable(
            &self.0,
            DenyReason::SecretUnplaceable,
            "a client certificate is presented by gig and has no place in a request",
        ))
    }
}

#[cfg(test)]
mod tests {
    use gig_vault::{Part, SecretBytes, Shape, Treatment};

    use super::*;

    fn identity(name: &str, version: u64, pem: &str) -> ClientIdentity {
        ClientIdentity::new(Arc::new(Secret {
            name: name.parse().unwrap(),
            version,
            parts: vec![Part {
                variable: name.into(),
                value: SecretBytes::from(pem),
                shape: Shape::Plain,
            }],
            treatment: Treatment::ClientCertificate,
            entrusted: false,
        }))
    }

    #[test]
    fn a_certificate_is_known_by_itself_whatever_its_version() {
        let first = identity("CLIENT", 1, "first").key();
        assert_eq!(first, identity("CLIENT", 1, "first").key());
        // Forgotten, and set anew: it counts from 1 again.
        assert_ne!(first, identity("CLIENT", 1, "second").key());
        assert_ne!(first, identity("OTHER", 1, "first").key());
    }
}
