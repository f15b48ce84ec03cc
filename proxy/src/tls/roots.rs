//! Which authorities an origin's certificate may come from.
//!
//! The system's roots (or, on a machine that has none, Mozilla's as compiled in) and the PEM roots
//! the operator adds. They are read once, on a thread of its own, when the first origin has to be
//! verified: a program that asks nobody neither starts nor ends later for them.

use std::{path::Path, sync::Arc};

use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::CryptoProvider,
};
use rustls_native_certs::CertificateResult;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use thiserror::Error;
use tokio::sync::OnceCell;

use super::verifier::Verifier;

/// What to trust, before it is loaded.
#[derive(Debug, Clone)]
pub struct Roots {
    system: bool,
    extra: Vec<CertificateDer<'static>>,
}

/// A PEM text of roots cannot be used.
#[derive(Debug, Error)]
pub enum ReadRootsError {
    /// It does not parse.
    #[error("the PEM text is damaged")]
    Pem(#[source] rustls_pki_types::pem::Error),
    /// It holds no certificate.
    #[error("the PEM text holds no certificate")]
    Empty,
    /// A certificate is no usable trust anchor.
    #[error("certificate {position} of the PEM text is not usable as a trust anchor")]
    Anchor {
        /// Counted from 1.
        position: usize,
        /// Why.
        #[source]
        source: rustls::Error,
    },
}

/// No verifier could be made.
#[derive(Debug, Clone, Error)]
#[error("no usable root certificates: {0}")]
pub struct LoadRootsError(String);

/// The verifier, made when first asked for.
#[derive(Debug)]
pub struct LazyVerifier {
    roots: Roots,
    provider: Arc<CryptoProvider>,
    cell: OnceCell<Arc<dyn ServerCertVerifier>>,
}

impl Roots {
    /// The system's roots; Mozilla's where the system has none.
    #[must_use]
    pub const fn system() -> Self {
        Self {
            system: true,
            extra: Vec::new(),
        }
    }

    /// No roots but those that are added.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            system: false,
            extra: Vec::new(),
        }
    }

    /// Adds every certificate of a PEM text.
    ///
    /// # Errors
    /// When the text holds no certificate or one that cannot anchor trust.
    pub fn with_pem(mut self, pem: &[u8]) -> Result<Self, ReadRootsError> {
        let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map_err(ReadRootsError::Pem)?;
        if found.is_empty() {
            return Err(ReadRootsError::Empty);
        }
        let mut probe = RootCertStore::empty();
        for (index, certificate) in found.iter().enumerate() {
            probe
                .add(certificate.clone())
                .map_err(|source| ReadRootsError::Anchor {
                    position: index + 1,
                    source,
                })?;
        }
        self.extra.extend(found);
        Ok(self)
    }

    fn load(&self) -> RootCertStore {
        let mut store = RootCertStore::empty();
        if self.system {
            let found = system_roots();
            for error in &found.errors {
                tracing::debug!(%error, "a system root could not be read");
            }
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                tracing::info!("the system has no root certificates: using Mozilla's");
                store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            }
        }
        store.add_parsable_certificates(self.extra.iter().cloned());
        store
    }
}

/// The distribution's bundle, which is one file; as OpenSSL would look for them where the operator's
/// environment says so or there is none.
fn system_roots() -> CertificateResult {
    let asked = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
    if !asked.iter().any(|name| std::env::var_os(name).is_some()) {
        let bundles = BUNDLES.iter().map(Path::new).filter(|file| file.exists());
        for bundle in bundles {
            let found = rustls_native_certs::load_certs_from_paths(Some(bundle), None);
            if !found.certs.is_empty() {
                return found;
            }
        }
    }
    rustls_native_certs::load_native_certs()
}

impl LazyVerifier {
    /// Loads nothing yet.
    #[must_use]
    pub fn new(roots: Roots, provider: Arc<CryptoProvider>) -> Self {
        Self {
            roots,
            provider,
            cell: OnceCell::new(),
        }
    }

    /// The verifier; the first caller loads it on a thread of its own, the others wait.
    ///
    /// # Errors
    /// When there is no root at all. The next call tries again.
    pub async fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, LoadRootsError> {
        let made = self.cell.get_or_try_init(|| async {
            let (roots, provider) = (self.roots.clone(), Arc::clone(&self.provider));
            tokio::task::spawn_blocking(move || {
                let store = Arc::new(roots.load());
                WebPkiServerVerifier::builder_with_provider(store, provider)
                    .build()
                    .map(|chains| {
                        let verifier = Verifier::new(chains, roots.extra);
                        Arc::new(verifier) as Arc<dyn ServerCertVerifier>
                    })
                    .map_err(|error| LoadRootsError(error.to_string()))
            })
            .await
            .map_err(|error| LoadRootsError(error.to_string()))?
        });
        made.await.cloned()
    }
}

/// Where distributions keep the same roots in one file that they also keep in a folder of some 300
/// files and links: Debian and Ubuntu, Fedora and RHEL, openSUSE, Alpine.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::authority_key::Authority;

    #[test]
    fn pem_without_a_certificate_is_refused() {
        assert!(matches!(
            Roots::none().with_pem(b"nothing here"),
            Err(ReadRootsError::Empty)
        ));
    }

    #[tokio::test]
    async fn no_roots_at_all_is_an_error_and_not_trust_in_everyone() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let lazy = LazyVerifier::new(Roots::none(), provider);
        assert!(lazy.verifier().await.is_err());
    }

    #[tokio::test]
    async fn added_roots_are_enough() {
        let authority = Authority::generate().unwrap();
        let roots = Roots::none()
            .with_pem(authority.ca_pem().as_bytes())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        assert!(LazyVerifier::new(roots, provider).verifier().await.is_ok());
    }
}
