//! The cryptography of both sides.
//!
//! aws-lc-rs as rustls has it, post-quantum key exchange included, with AES-128-GCM before AES-256:
//! browsers' order too, and the one suite that RFC 8446 §9.1 asks of everybody. Its SHA-256 key
//! schedule has instructions of its own in most processors, where SHA-384's, some 130 blocks a
//! handshake, costs as much as the key exchange. Who asks for AES-256 alone still gets it.

use rustls::{CipherSuite, SupportedCipherSuite, crypto::CryptoProvider};

/// The provider that both sides use.
#[must_use]
pub fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| !is_first(*suite));
    provider
}

fn is_first(suite: SupportedCipherSuite) -> bool {
    matches!(
        suite.suite(),
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aes_128_comes_first_and_no_suite_is_lost() {
        let usual = rustls::crypto::aws_lc_rs::default_provider().cipher_suites;
        let ours = provider().cipher_suites;
        assert_eq!(ours.len(), usual.len());
        assert!(usual.iter().all(|suite| ours.contains(suite)));
        let first = ours.iter().filter(|suite| is_first(**suite)).count();
        assert_eq!(first, 3);
        assert!(ours.iter().take(first).all(|suite| is_first(*suite)));
    }
}
