//! The certificate authority that sandboxes trust, and the only signer of leaves.
//!
//! A P-256 key, made in memory for one run or loaded from PEM. The certificate may sign leaves and no
//! further authorities (path length 0). It carries no name constraints: it has to speak for whatever
//! name policy allows, and nothing outside the sandboxes trusts it. Where the key is kept between
//! runs is left to the caller.

use std::{fmt, sync::Arc, time::Duration};

use aws_lc_rs::rand;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use thiserror::Error;

use crate::wall_clock::unix_now;

/// A certificate authority. Cloning shares it; the key cannot be read back.
#[derive(Clone)]
pub struct Authority(Arc<Inner>);

struct Inner {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// The authority could not be made or loaded.
#[derive(Debug, Error)]
pub enum OpenAuthorityError {
    /// Key generation or signing failed.
    #[error("cannot make a certificate authority")]
    Make(#[source] rcgen::Error),
    /// The PEM texts are not a certificate and its private key.
    #[error("the certificate authority's PEM files are not a certificate and its private key")]
    Parse(#[source] rcgen::Error),
    /// The certificate's PEM holds no certificate.
    #[error("the certificate authority's PEM holds no certificate")]
    NoCertificate,
    /// The key belongs to another certificate.
    #[error("the certificate authority's key does not belong to its certificate")]
    KeyMismatch,
    /// The host gave no random numbers.
    #[error("the system gave no random numbers")]
    Random,
}

impl Authority {
    /// Makes an authority that lives in memory only.
    ///
    /// # Errors
    /// When the key cannot be generated.
    pub fn generate() -> Result<Self, OpenAuthorityError> {
        let key = KeyPair::generate().map_err(OpenAuthorityError::Make)?;
        let now = unix_now();
        let mut params = CertificateParams::default();
        params.distinguished_name = name("gig egress authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = rcgen::date_time_ymd(1970, 1, 1) + now.saturating_sub(BACK_DATED);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + (now + AUTHORITY_LIFE);
        params.serial_number = Some(random_serial().ok_or(OpenAuthorityError::Random)?);
        let certificate = params.self_signed(&key).map_err(OpenAuthorityError::Make)?;
        let pem = certificate.pem();
        Ok(Self(Arc::new(Inner {
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
            pem,
        })))
    }

    /// Loads an authority: one PEM certificate and its PKCS#8 key.
    ///
    /// # Errors
    /// When either text does not parse or they do not belong together.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, OpenAuthorityError> {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|_| OpenAuthorityError::NoCertificate)?;
        let key = KeyPair::from_pem(key).map_err(OpenAuthorityError::Parse)?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&der)
            .map_err(|_| OpenAuthorityError::NoCertificate)?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(OpenAuthorityError::KeyMismatch);
        }
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(OpenAuthorityError::Parse)?;
        Ok(Self(Arc::new(Inner {
            issuer,
            certificate: der,
            pem: certificate.to_owned(),
        })))
    }

    /// The certificate, for trust stores.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.0.pem
    }

    /// The private key in PKCS#8 PEM, for a caller that keeps the authority between runs.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.0.issuer.key().serialize_pem()
    }

    /// The certificate in DER, as it is sent after a leaf.
    pub(super) fn certificate(&self) -> &CertificateDer<'static> {
        &self.0.certificate
    }

    /// Signs a leaf for one subject with `key`'s public half.
    pub(super) fn sign(
        &self,
        subject: SanType,
        key: &KeyPair,
        lifetime: Lifetime,
    ) -> Result<CertificateDer<'static>, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name("gig");
        params.subject_alt_names = vec![subject];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = rcgen::date_time_ymd(1970, 1, 1) + lifetime.from;
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + lifetime.until;
        // All leaves share one key: without a serial of its own each would get the same number
        // (rcgen derives it from the key), which NSS refuses (RFC 5280 §4.1.2.2).
        params.serial_number = Some(random_serial().ok_or(rcgen::Error::RingUnspecified)?);
        Ok(params.signed_by(key, &self.0.issuer)?.into())
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// When a leaf is valid, since the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lifetime {
    pub(super) from: Duration,
    pub(super) until: Duration,
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn random_serial() -> Option<SerialNumber> {
    let mut octets = [0; SERIAL_OCTETS];
    rand::fill(&mut octets).ok()?;
    // Positive and never shorter than its length (RFC 5280 §4.1.2.2).
    octets[0] = octets[0] & 0x7f | 0x40;
    Some(SerialNumber::from_slice(&octets))
}

/// Sandboxes (virtual machines, restored snapshots) may run behind by some hours.
pub(super) const BACK_DATED: Duration = Duration::from_secs(25 * 3600);
/// An in-memory authority dies with its process; no process runs for five years.
const AUTHORITY_LIFE: Duration = Duration::from_secs(5 * 365 * 86_400);
/// 127 random bits; RFC 5280 §4.1.2.2 allows up to 20 octets.
const SERIAL_OCTETS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authority_signs_leaves_and_no_further_authorities() {
        let authority = Authority::generate().unwrap();
        let (_, parsed) = x509_parser::parse_x509_certificate(authority.certificate()).unwrap();
        let constraints = parsed.basic_constraints().unwrap().unwrap();
        assert!(constraints.value.ca);
        assert_eq!(constraints.value.path_len_constraint, Some(0));
        assert!(parsed.name_constraints().unwrap().is_none());
        assert!(parsed.validity().is_valid());
    }

    #[test]
    fn authority_survives_its_pem_form() {
        let made = Authority::generate().unwrap();
        let loaded = Authority::from_pem(made.ca_pem(), &made.key_pem()).unwrap();
        assert_eq!(made.certificate(), loaded.certificate());
    }

    #[test]
    fn key_of_another_authority_is_refused() {
        let (one, other) = (
            Authority::generate().unwrap(),
            Authority::generate().unwrap(),
        );
        assert!(matches!(
            Authority::from_pem(one.ca_pem(), &other.key_pem()),
            Err(OpenAuthorityError::KeyMismatch)
        ));
    }
}
