//! The certificate authority of the lab's origins.
//!
//! Promises: a key and a root of its own for each lab, leaves for any names; nothing trusts it unless
//! a test says so (`--upstream-ca`).

use std::{net::IpAddr, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// A root that signs the lab's leaves.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The chain, leaf first.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl Authority {
    /// A new root.
    ///
    /// # Panics
    /// When no key can be made.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "Lab origins");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        Self {
            issuer: CertifiedIssuer::self_signed(params, key).expect("a root"),
        }
    }

    /// The root, as PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A leaf for these names (or addresses).
    ///
    /// # Panics
    /// When a name is not ASCII.
    #[must_use]
    pub fn leaf(&self, names: &[&str]) -> Leaf {
        self.signed(names, CertificateParams::default())
    }

    /// A leaf that nobody should take: it ended when the year 2020 began.
    ///
    /// # Panics
    /// When a name is not ASCII.
    #[must_use]
    pub fn ended_leaf(&self, names: &[&str]) -> Leaf {
        let mut params = CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        self.signed(names, params)
    }

    fn signed(&self, names: &[&str], mut params: CertificateParams) -> Leaf {
        params.subject_alt_names = names
            .iter()
            .map(|name| match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName((*name).try_into().expect("an ASCII name")),
            })
            .collect();
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a leaf");
        Leaf {
            certificate: certificate.pem() + &self.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Leaf {
    /// What a TLS server with this leaf and these application protocols is configured with.
    ///
    /// # Panics
    /// When the PEM is not what [`Authority::leaf`] made.
    #[must_use]
    pub fn server_config(&self, alpn: &[&str]) -> Arc<ServerConfig> {
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .expect("certificates");
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a matching key");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}
