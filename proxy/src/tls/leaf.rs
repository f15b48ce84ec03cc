//! Leaves for the names that sandboxes connect to, minted when first needed.
//!
//! All leaves share one key, so that a new name costs one signature. A leaf is back-dated for skewed
//! clocks, short-lived, kept in a bounded cache, and minted again when half of its life is over. Who
//! may have a leaf is decided before anybody asks here.

use std::{net::IpAddr, sync::Arc, time::Duration};

use gig_policy::Host;
use quick_cache::sync::Cache;
use rcgen::{KeyPair, SanType};
use rustls::{
    crypto::CryptoProvider,
    sign::{CertifiedKey, SigningKey},
};
use rustls_pki_types::PrivateKeyDer;
use thiserror::Error;

use super::authority_key::{Authority, BACK_DATED, Lifetime};
use crate::wall_clock::unix_now;

/// Mints and keeps leaves.
pub struct Minter {
    authority: Authority,
    key: KeyPair,
    signing: Arc<dyn SigningKey>,
    leaves: Cache<Host, Leaf>,
}

/// A leaf could not be minted.
#[derive(Debug, Error)]
pub enum MintError {
    /// Signing failed, or the name fits no certificate.
    #[error("cannot mint a certificate for {host}")]
    Sign {
        /// For whom.
        host: Host,
        /// What the signer says.
        #[source]
        source: rcgen::Error,
    },
    /// The shared key could not be made.
    #[error("cannot make the key that minted certificates share")]
    Key(#[source] rcgen::Error),
    /// The TLS library does not take the key.
    #[error("the TLS library refuses the key that minted certificates share")]
    SigningKey(#[source] rustls::Error),
}

#[derive(Clone)]
struct Leaf {
    certified: Arc<CertifiedKey>,
    renew_at: Duration,
}

impl Minter {
    /// A minter with a fresh key and an empty cache.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new(authority: Authority, provider: &CryptoProvider) -> Result<Self, MintError> {
        let key = KeyPair::generate().map_err(MintError::Key)?;
        let der = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let signing = provider
            .key_provider
            .load_private_key(der)
            .map_err(MintError::SigningKey)?;
        Ok(Self {
            authority,
            key,
            signing,
            leaves: Cache::new(CACHED_LEAVES),
        })
    }

    /// The leaf for `host`, minted if there is none or its renewal is due. Several callers at once
    /// for one new name wait for one minting (some 20 µs).
    ///
    /// # Errors
    /// When signing fails.
    pub fn mint(&self, host: &Host) -> Result<Arc<CertifiedKey>, MintError> {
        self.mint_at(host, unix_now())
    }

    fn mint_at(&self, host: &Host, now: Duration) -> Result<Arc<CertifiedKey>, MintError> {
        let leaf = self
            .leaves
            .get_or_insert_with(host, || self.sign(host, now))?;
        if now < leaf.renew_at {
            return Ok(leaf.certified);
        }
        let fresh = self.sign(host, now)?;
        self.leaves.insert(host.clone(), fresh.clone());
        Ok(fresh.certified)
    }

    fn sign(&self, host: &Host, now: Duration) -> Result<Leaf, MintError> {
        let failed = |source| MintError::Sign {
            host: host.clone(),
            source,
        };
        let lifetime = Lifetime {
            from: now.saturating_sub(BACK_DATED),
            until: now + LEAF_LIFE,
        };
        let subject = subject_name(host).map_err(failed)?;
        let certificate = self
            .authority
            .sign(subject, &self.key, lifetime)
            .map_err(failed)?;
        let chain = vec![certificate, self.authority.certificate().clone()];
        Ok(Leaf {
            certified: Arc::new(CertifiedKey::new(chain, Arc::clone(&self.signing))),
            renew_at: now + LEAF_LIFE / 2,
        })
    }
}

impl std::fmt::Debug for Minter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Minter")
            .field("leaves", &self.leaves.len())
            .finish_non_exhaustive()
    }
}

fn subject_name(host: &Host) -> Result<SanType, rcgen::Error> {
    Ok(match host {
        Host::Name(name) => SanType::DnsName(name.as_str().try_into()?),
        Host::Ip(IpAddr::V4(ip)) => SanType::IpAddress(IpAddr::V4(*ip)),
        Host::Ip(IpAddr::V6(ip)) => SanType::IpAddress(IpAddr::V6(*ip)),
    })
}

/// Short, since a leaf cannot be revoked; long enough for a client whose clock runs days ahead.
const LEAF_LIFE: Duration = Duration::from_secs(7 * 86_400);
/// Some 1.2 KiB each, of all sandboxes together: one that asks for more names evicts others' too, which costs
/// them a minting. Which names are here, a handshake's time tells (SECURITY.md, covert channels).
const CACHED_LEAVES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn minter() -> Minter {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        Minter::new(Authority::generate().unwrap(), &provider).unwrap()
    }

    #[test]
    fn leaf_is_back_dated_and_short_lived() {
        let host = Host::parse("api.example.com").unwrap();
        let leaf = minter().mint(&host).unwrap();
        let (_, parsed) = x509_parser::parse_x509_certificate(&leaf.cert[0]).unwrap();
        let now = i64::try_from(unix_now().as_secs()).unwrap();
        let validity = parsed.validity();
        assert!(validity.not_before.timestamp() <= now - 86_400);
        assert!(validity.not_after.timestamp() <= now + 8 * 86_400);
        assert!(!parsed.is_ca());
    }

    #[test]
    fn leaf_is_kept_and_renewed_at_half_its_life() {
        let (minter, host) = (minter(), Host::parse("api.example.com").unwrap());
        let first = minter.mint_at(&host, unix_now()).unwrap();
        let again = minter.mint_at(&host, unix_now()).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let later = minter.mint_at(&host, unix_now() + LEAF_LIFE / 2).unwrap();
        assert!(!Arc::ptr_eq(&first, &later));
    }

    #[test]
    fn serials_differ_between_leaves() {
        let minter = minter();
        let serial = |host: &str| {
            let leaf = minter.mint(&Host::parse(host).unwrap()).unwrap();
            let (_, parsed) = x509_parser::parse_x509_certificate(&leaf.cert[0]).unwrap();
            parsed.raw_serial().to_vec()
        };
        assert_ne!(serial("one.example.com"), serial("two.example.com"));
    }

    #[test]
    fn leaf_for_an_address_names_the_address() {
        let leaf = minter().mint(&Host::parse("203.0.113.7").unwrap()).unwrap();
        let (_, parsed) = x509_parser::parse_x509_certificate(&leaf.cert[0]).unwrap();
        let names = parsed.subject_alternative_name().unwrap().unwrap();
        assert!(format!("{:?}", names.value).contains("IPAddress"));
    }
}
