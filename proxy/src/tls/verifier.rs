//! Verifies origins: by a chain to a root, or by being one of the roots that the operator added.
//!
//! webpki rightly refuses an authority's certificate as an origin's own. But a certificate that
//! `openssl req -x509` makes is both, and an operator who names it with `--upstream-ca` trusts that
//! very certificate. It is accepted for the names it holds while it is valid, and for nothing else.
//!
//! A chain that was verified is not verified again for [`RECENT`]: a program opens many connections
//! to one origin, and each would check the same signatures. That the certificate is for the very name,
//! and that the origin has its key, is checked every time.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::digest;
use quick_cache::sync::Cache;
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
    /// Chains by their digest, and when each was verified.
    recent: Cache<ChainDigest, UnixTime>,
}

type ChainDigest = [u8; 32];

impl Verifier {
    /// Trusts what `chains` does, and `themselves` as they are.
    pub(super) fn new(
        chains: Arc<dyn ServerCertVerifier>,
        themselves: Vec<CertificateDer<'static>>,
    ) -> Self {
        Self {
            chains,
            themselves,
            recent: Cache::new(REMEMBERED),
        }
    }

    fn is_recent(&self, chain: &ChainDigest, now: UnixTime) -> bool {
        let age = |verified: UnixTime| now.as_secs().checked_sub(verified.as_secs());
        let verified = self.recent.get(chain);
        verified
            .and_then(age)
            .is_some_and(|age| age < RECENT.as_secs())
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
        let chain = digest_of(end_entity, intermediates);
        if let Some(chain) = &chain
            && self.is_recent(chain, now)
        {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let verified = self.chains.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        if let (Ok(_), Some(chain)) = (&verified, chain) {
            self.recent.insert(chain, now);
        }
        verified.or_else(|refused| {
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

/// Of everything that a chain's verification looks at, but for roots and time.
fn digest_of(
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> Option<ChainDigest> {
    let mut context = digest::Context::new(&digest::SHA256);
    for certificate in std::iter::once(end_entity).chain(intermediates) {
        // With its length, so that no two chains look alike.
        context.update(&u64::try_from(certificate.len()).ok()?.to_be_bytes());
        context.update(certificate);
    }
    context.finish().as_ref().try_into().ok()
}

/// By so much may a certificate outlive its end; a resumed session lets it live for hours.
const RECENT: Duration = Duration::from_secs(60);
/// Of 40 octets each.
const REMEMBERED: usize = 1024;

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, SanType};

    use super::*;
    use crate::{
        tls::{
            authority_key::{Authority, Lifetime},
            roots::Roots,
        },
        wall_clock::unix_now,
    };

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
    /// A chain of one leaf for `api.test`, valid for an hour, and a verifier that trusts its root.
    async fn chained() -> (Vec<CertificateDer<'static>>, Arc<dyn ServerCertVerifier>) {
        let authority = Authority::generate().unwrap();
        let lifetime = Lifetime {
            from: unix_now() - HOUR,
            until: unix_now() + HOUR,
        };
        let name = SanType::DnsName("api.test".try_into().unwrap());
        let key = KeyPair::generate().unwrap();
        let leaf = authority.sign(name, &key, lifetime).unwrap();
        let roots = Roots::none()
            .with_pem(authority.ca_pem().as_bytes())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let lazy = crate::tls::roots::LazyVerifier::new(roots, provider);
        (vec![leaf], lazy.verifier().await.unwrap())
    }

    fn accepts(
        verifier: &Arc<dyn ServerCertVerifier>,
        chain: &[CertificateDer<'_>],
        name: &str,
        at: Duration,
    ) -> bool {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let (leaf, intermediates) = chain.split_first().unwrap();
        let now = UnixTime::since_unix_epoch(at);
        let verified = verifier.verify_server_cert(leaf, intermediates, &name, &[], now);
        verified.is_ok()
    }

    #[tokio::test]
    async fn a_chain_that_was_verified_is_still_for_its_own_names_only() {
        let (chain, verifier) = chained().await;
        for _ in 0..2 {
            assert!(accepts(&verifier, &chain, "api.test", unix_now()));
            assert!(!accepts(&verifier, &chain, "evil.test", unix_now()));
        }
    }

    #[tokio::test]
    async fn a_chain_that_was_verified_expires_within_a_minute_of_its_end() {
        let (chain, verifier) = chained().await;
        let before = unix_now() + HOUR - Duration::from_secs(2);
        assert!(accepts(&verifier, &chain, "api.test", before));
        assert!(accepts(
            &verifier,
            &chain,
            "api.test",
            before + Duration::from_secs(9)
        ));
        assert!(!accepts(&verifier, &chain, "api.test", before + RECENT));
        // Nor does what was seen later say anything of earlier.
        assert!(!accepts(
            &verifier,
            &chain,
            "api.test",
            unix_now() - 2 * HOUR
        ));
    }

    #[tokio::test]
    async fn another_chain_gains_nothing_from_one_that_was_verified() {
        let (chain, verifier) = chained().await;
        assert!(accepts(&verifier, &chain, "api.test", unix_now()));
        let (strange, _) = chained().await;
        assert!(!accepts(&verifier, &strange, "api.test", unix_now()));
        let longer = [strange, chain].concat();
        assert!(!accepts(&verifier, &longer, "api.test", unix_now()));
    }

    const HOUR: Duration = Duration::from_secs(3600);
}
