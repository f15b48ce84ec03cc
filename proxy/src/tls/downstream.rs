//! TLS with the sandbox: terminated with a minted leaf.
//!
//! TLS 1.2 and 1.3, ALPN `h2` and `http/1.1`. No session tickets: OpenSSL, as far as 3.1, loses what one
//! thread writes while another reads a ticket, without an error on either side, and behind a veth a ticket
//! comes just as the first request is written. The server configuration of a host is kept beside its leaf.
//! The host is fixed before the handshake begins: the ClientHello was read, and what it names was agreed
//! and decided.

use std::{sync::Arc, time::Duration};

use gig_audit::TlsFacts;
use gig_policy::{DenyReason, Host};
use quick_cache::sync::Cache;
use rustls::{
    AlertDescription, NamedGroup, ProtocolVersion, ServerConfig,
    crypto::CryptoProvider,
    server::NoServerSessionStorage,
    sign::{CertifiedKey, SingleCertAndKey},
};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    leaf::{MintError, Minter},
    upstream::tls_error,
    wide::Wide,
};

/// Terminates TLS for every sandbox.
#[derive(Debug)]
pub struct Terminator {
    minter: Minter,
    provider: Arc<CryptoProvider>,
    configs: Cache<Host, Arc<Configured>>,
}

#[derive(Debug)]
struct Configured {
    leaf: Arc<CertifiedKey>,
    config: Arc<ServerConfig>,
}

/// A TLS session that could not be set up with a sandbox.
#[derive(Debug, Error)]
pub enum TerminateError {
    /// There is no leaf.
    #[error("no certificate to show")]
    Mint(#[from] MintError),
    /// The TLS library refuses the configuration.
    #[error("the TLS library refuses its configuration")]
    Configure(#[source] rustls::Error),
    /// The client broke it off, does not trust the leaf, or speaks no common version.
    #[error("the TLS handshake with the sandbox failed")]
    Handshake(#[source] std::io::Error),
    /// It took too long.
    #[error("the TLS handshake with the sandbox was not finished in time")]
    Slow,
}

impl TerminateError {
    /// Why the sandbox is refused; `None` where it went away or does not trust the leaf.
    #[must_use]
    pub fn reason(&self) -> Option<DenyReason> {
        match self {
            Self::Mint(_) | Self::Configure(_) => Some(DenyReason::Internal),
            Self::Slow => Some(DenyReason::RequestTimeout),
            Self::Handshake(error) => match tls_error(error)? {
                // It offers no version of HTTP, or none of TLS, that is ours.
                rustls::Error::NoApplicationProtocol | rustls::Error::PeerIncompatible(_) => {
                    Some(DenyReason::UnsupportedProtocol)
                }
                rustls::Error::InvalidMessage(_)
                | rustls::Error::InappropriateMessage { .. }
                | rustls::Error::InappropriateHandshakeMessage { .. }
                | rustls::Error::PeerMisbehaved(_)
                | rustls::Error::DecryptError => Some(DenyReason::MalformedRequest),
                _ => None,
            },
        }
    }

    /// Whether the sandbox's client says that it does not trust the leaf, in the alerts that clients have for it
    /// (RFC 8446 §6.2). One that checks after the handshake, or closes without a word, cannot be told from one
    /// that went away.
    #[must_use]
    pub fn is_distrust(&self) -> bool {
        let Self::Handshake(error) = self else {
            return false;
        };
        matches!(
            tls_error(error),
            Some(rustls::Error::AlertReceived(
                AlertDescription::UnknownCA
                    | AlertDescription::BadCertificate
                    | AlertDescription::UnsupportedCertificate
                    | AlertDescription::CertificateRevoked
                    | AlertDescription::CertificateExpired
                    | AlertDescription::CertificateUnknown
                    | AlertDescription::AccessDenied
                    // It trusts another run's authority, which has the same name.
                    | AlertDescription::DecryptError
            ))
        )
    }
}

/// The application protocol of a terminated session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Application {
    /// HTTP/1.1 or 1.0, negotiated or for want of ALPN.
    Http1,
    /// HTTP/2.
    Http2,
}

impl Terminator {
    /// A terminator that shows `minter`'s leaves.
    #[must_use]
    pub fn new(minter: Minter, provider: &CryptoProvider) -> Self {
        let mut provider = provider.clone();
        // This leg is a veth inside one machine: a hybrid key exchange would protect nothing and
        // cost more than everything else in the handshake.
        provider
            .kx_groups
            .retain(|group| group.name() != NamedGroup::X25519MLKEM768);
        Self {
            minter,
            provider: Arc::new(provider),
            configs: Cache::new(CACHED_CONFIGS),
        }
    }

    /// Completes the handshake for `host` within `deadline`.
    ///
    /// # Errors
    /// When there is no leaf for the host or the handshake fails.
    pub async fn terminate<S>(
        &self,
        stream: S,
        host: &Host,
        deadline: Duration,
    ) -> Result<TlsStream<Wide<S>>, TerminateError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(self.config(host)?);
        // Boxed, so that what follows holds no room for the handshake.
        match Box::pin(tokio::time::timeout(
            deadline,
            acceptor.accept(Wide::new(stream)),
        ))
        .await
        {
            Ok(session) => session.map_err(TerminateError::Handshake),
            Err(_) => Err(TerminateError::Slow),
        }
    }

    fn config(&self, host: &Host) -> Result<Arc<ServerConfig>, TerminateError> {
        let leaf = self.minter.mint(host)?;
        if let Some(known) = self.configs.get(host)
            && Arc::ptr_eq(&known.leaf, &leaf)
        {
            return Ok(Arc::clone(&known.config));
        }
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(TerminateError::Configure)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&leaf))));
        config.alpn_protocols = vec![H2.to_vec(), HTTP1.to_vec(), HTTP10.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // Both ends are one processor: ours knows what it does fast.
        config.ignore_client_order = true;
        config.send_tls13_tickets = 0;
        let config = Arc::new(config);
        let configured = Configured {
            leaf,
            config: Arc::clone(&config),
        };
        self.configs.insert(host.clone(), Arc::new(configured));
        Ok(config)
    }
}

/// What was negotiated, and how it stands in records.
#[must_use]
pub fn negotiated<S>(session: &TlsStream<S>, host: &Host) -> (Application, TlsFacts) {
    let (_, connection) = session.get_ref();
    let alpn = connection.alpn_protocol();
    let application = if alpn == Some(H2) {
        Application::Http2
    } else {
        Application::Http1
    };
    let facts = TlsFacts {
        version: version_word(connection.protocol_version()).map(Into::into),
        alpn: alpn.map(|alpn| String::from_utf8_lossy(alpn).into()),
        sni: host.name().map(|name| name.as_str().into()),
    };
    (application, facts)
}

fn version_word(version: Option<ProtocolVersion>) -> Option<&'static str> {
    match version {
        Some(ProtocolVersion::TLSv1_2) => Some("1.2"),
        Some(ProtocolVersion::TLSv1_3) => Some("1.3"),
        _ => None,
    }
}

/// RFC 7301 identifier of HTTP/2 over TLS.
pub(super) const H2: &[u8] = b"h2";
/// RFC 7301 identifier of HTTP/1.1.
pub(super) const HTTP1: &[u8] = b"http/1.1";
/// RFC 7301 identifier of HTTP/1.0: all that some clients offer that are asked for it.
const HTTP10: &[u8] = b"http/1.0";
/// As many as there are cached leaves.
const CACHED_CONFIGS: usize = 4096;

#[cfg(test)]
mod tests;
