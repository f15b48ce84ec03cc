//! Which clients say that they do not trust the leaf.

use gig_policy::Host;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio_rustls::TlsConnector;

use super::*;
use crate::tls::authority_key::Authority;

/// Whose authority a client trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trusts {
    Ours,
    AnotherRuns,
    Nobodys,
}

/// A real client's handshake with a terminator.
async fn handshake(trusts: Trusts) -> Result<(), TerminateError> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let (own, other) = (
        Authority::generate().unwrap(),
        Authority::generate().unwrap(),
    );
    let mut roots = RootCertStore::empty();
    match trusts {
        Trusts::Ours => roots.add(own.certificate().clone()).unwrap(),
        Trusts::AnotherRuns => roots.add(other.certificate().clone()).unwrap(),
        Trusts::Nobodys => {}
    }
    let terminator = Terminator::new(Minter::new(own, &provider).unwrap(), &provider);
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (near, far) = tokio::io::duplex(64 * 1024);
    let name = ServerName::try_from("git.test").unwrap();
    let client = TlsConnector::from(Arc::new(config)).connect(name, near);
    let host = Host::parse("git.test").unwrap();
    let served = terminator.terminate(far, &host, Duration::from_secs(20));
    let (connected, served) = tokio::join!(client, served);
    assert_eq!(connected.is_ok(), trusts == Trusts::Ours);
    served.map(drop)
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_leaf_is_told_from_one_that_goes_away() {
    handshake(Trusts::Ours).await.unwrap();
    for trusts in [Trusts::AnotherRuns, Trusts::Nobodys] {
        let error = handshake(trusts).await.unwrap_err();
        assert!(error.is_distrust(), "{trusts:?}: {error:?}");
        assert_eq!(error.reason(), None, "{trusts:?}");
    }
    let gone = TerminateError::Handshake(std::io::ErrorKind::UnexpectedEof.into());
    assert!(!gone.is_distrust());
    assert!(!TerminateError::Slow.is_distrust());
}
