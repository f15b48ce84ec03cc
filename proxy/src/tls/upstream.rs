//! TLS with origins: the certificate is verified for the very name that policy decided on.
//!
//! Session resumption is kept per sandbox: an [`OriginTls`] belongs to one and is never shared, so
//! that no origin can link two sandboxes by a ticket and no sandbox profits from another's session.

use std::{io, sync::Arc, time::Duration};

use gig_policy::{DenyReason, Host};
use rustls::{
    AlertDescription, ClientConfig,
    client::{Resumption, danger::ServerCertVerifier},
    crypto::CryptoProvider,
};
use rustls_pki_types::{InvalidDnsNameError, ServerName};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    downstream::{Application, H2, HTTP1},
    wide::Wide,
};
use crate::credential::sign::certificate::{ClientIdentity, PresentError};

/// What is offered to an origin by ALPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Offer {
    /// `http/1.1` alone: the client speaks it, or an upgrade needs it.
    Http1,
    /// `h2`, then `http/1.1`: the client speaks HTTP/2.
    Either,
    /// `h2` alone: the origin refused `http/1.1`.
    Http2,
}

/// The client side of TLS for one sandbox.
#[derive(Debug)]
pub struct OriginTls {
    http1: Arc<ClientConfig>,
    either: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

/// No TLS session with an origin.
#[derive(Debug, Error)]
pub enum OriginTlsError {
    /// The host fits no certificate.
    #[error("the host is not a name that a certificate can hold")]
    Name(#[source] InvalidDnsNameError),
    /// The TLS library refuses the configuration.
    #[error("the TLS library refuses its configuration")]
    Configure(#[source] rustls::Error),
    /// The client certificate for it is unusable.
    #[error("the client certificate cannot be presented")]
    Identity(#[source] PresentError),
    /// Certificate, version or alert.
    #[error("the TLS handshake with the origin failed")]
    Handshake(#[source] io::Error),
    /// It took too long.
    #[error("the TLS handshake with the origin was not finished in time")]
    Slow,
}

impl OriginTls {
    /// For one sandbox, with an empty session store; with `identity`, for requests that it is granted to
    /// alone.
    ///
    /// # Errors
    /// When the TLS library refuses the provider.
    pub fn new(
        provider: &Arc<CryptoProvider>,
        verifier: &Arc<dyn ServerCertVerifier>,
        identity: Option<&ClientIdentity>,
    ) -> Result<Self, OriginTlsError> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(OriginTlsError::Configure)?
            .dangerous() // the verifier is webpki's, built once instead of once a sandbox
            .with_custom_certificate_verifier(Arc::clone(verifier));
        let mut base = match identity {
            Some(identity) => identity
                .present(builder)
                .map_err(OriginTlsError::Identity)?,
            None => builder.with_no_client_auth(),
        };
        base.resumption = Resumption::in_memory_sessions(SESSIONS);
        let with = |protocols: &[&[u8]]| {
            let mut config = base.clone();
            config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
            Arc::new(config)
        };
        Ok(Self {
            http1: with(&[HTTP1]),
            either: with(&[H2, HTTP1]),
            http2: with(&[H2]),
        })
    }

    /// Completes a handshake with `host` and verifies its certificate for that name or address.
    ///
    /// # Errors
    /// When it fails; [`OriginTlsError::reason`] says how the program is told.
    pub async fn connect<S>(
        &self,
        stream: S,
        host: &Host,
        offer: Offer,
        deadline: Duration,
    ) -> Result<(TlsStream<Wide<S>>, Application), OriginTlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match host {
            Host::Name(name) => {
                ServerName::try_from(name.as_str().to_owned()).map_err(OriginTlsError::Name)?
            }
            Host::Ip(ip) => ServerName::from(*ip),
        };
        let config = match offer {
            Offer::Http1 => &self.http1,
            Offer::Either => &self.either,
            Offer::Http2 => &self.http2,
        };
        let connector = TlsConnector::from(Arc::clone(config));
        let session = tokio::time::timeout(deadline, connector.connect(name, Wide::new(stream)))
            .await
            .map_err(|_| OriginTlsError::Slow)?
            .map_err(OriginTlsError::Handshake)?;
        let application = match session.get_ref().1.alpn_protocol() {
            Some(alpn) if alpn == H2 => Application::Http2,
            _ => Application::Http1,
        };
        Ok((session, application))
    }
}

impl OriginTlsError {
    /// What the program is told.
    #[must_use]
    pub fn reason(&self) -> DenyReason {
        match self {
            Self::Name(_) => DenyReason::TlsCertificate,
            Self::Configure(_) => DenyReason::Internal,
            Self::Identity(_) => DenyReason::SecretUnplaceable,
            Self::Slow => DenyReason::ConnectionTimeout,
            Self::Handshake(error) => match tls_error(error) {
                Some(
                    rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented,
                ) => DenyReason::TlsCertificate,
                _ => DenyReason::TlsProtocol,
            },
        }
    }

    /// Whether the origin speaks none of the offered application protocols (RFC 7301 §3.2).
    #[must_use]
    pub fn refused_offer(&self) -> bool {
        let Self::Handshake(error) = self else {
            return false;
        };
        matches!(
            tls_error(error),
            Some(rustls::Error::AlertReceived(
                AlertDescription::NoApplicationProtocol
            ))
        )
    }
}

/// What the TLS library has to say of a stream's error.
pub(super) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Sessions remembered per sandbox; rustls's own default is 256, a sandbox speaks to few origins.
const SESSIONS: usize = 64;
