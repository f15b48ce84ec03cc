//! Verifies origins: by a chain to a root, or by being one of the roots that the operator added.
//!
//! webpki rightly refuses an authority's certificate as an origin's own. But a certificate that
//! `openssl req -x509` makes is both, and an operator who names it with `--upstream-ca` trusts that
//! very certificate. It is accepted for the names it holds while it is valid, and for nothing else.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    server::ParsedCertificate,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// The verifier of chains, and certificates that are trusted as themselves.
#[derive(Debug)]
pub(super) struct Verifier {
    chains: Arc<dyn ServerCertVerifier>,
    themselves: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Trusts what `chains` does, and `themselves` as they are.
    pub(super) fn new(
        chains: Arc<dyn ServerCertVerifier>,
        themselves: Vec<CertificateDer<'static>>,
    ) -> Self {
        Self { chains, themselves }
    }

    fn verify_itself(
        &self,
        end_entity: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.themselves.iter().any(|known| known == end_entity) {
            return Err(CertificateError::UnknownIssuer.into());
        }
        let (_, parsed) = x509_parser::parse_x509_certificate(end_entity)
            .map_err(|_| Error::from(CertificateError::BadEncoding))?;
        let now =
            i64::try_from(now.as_secs()).map_err(|_| Error::from(CertificateError::BadEncoding))?;
        if now > parsed.validity().not_after.timestamp() {
            return Err(CertificateError::Expired.into());
        }
        if now < parsed.validity().not_before.timestamp() {
            return Err(CertificateError::NotValidYet.into());
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.chains
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .or_else(|refused| {
                self.verify_itself(end_entity, server_name, now)
                    .map_err(|_| refused)
            })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;
    use crate::tls::{authority_key::unix_now, roots::Roots};

    fn self_signed() -> (CertificateDer<'static>, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["api.test".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2100, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        (certificate.der().clone(), certificate.pem())
    }

    async fn verify(roots: Roots, shown: &CertificateDer<'_>, name: &str, at: Duration) -> bool {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let lazy = crate::tls::roots::LazyVerifier::new(roots, provider);
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(at);
        let verifier = lazy.verifier().await.unwrap();
        verifier
            .verify_server_cert(shown, &[], &name, &[], now)
            .is_ok()
    }

    #[tokio::test]
    async fn a_certificate_that_was_named_is_trusted_for_its_names_while_it_is_valid() {
        let (certificate, pem) = self_signed();
        let roots = || Roots::none().with_pem(pem.as_bytes()).unwrap();
        let now = unix_now();
        assert!(verify(roots(), &certificate, "api.test", now).await);
        assert!(!verify(roots(), &certificate, "evil.test", now).await);
        let later = Duration::from_secs(5_000_000_000);
        assert!(!verify(roots(), &certificate, "api.test", later).await);
        let (other, _) = self_signed();
        assert!(!verify(roots(), &other, "api.test", now).await);
    }
}
