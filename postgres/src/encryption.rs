//! TLS towards a PostgreSQL: rustls, the certificate always verified for the name that was dialled.
//!
//! The roots are the system's, or those of the file that `sslrootcert` names and no others.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, InvalidDnsNameError, ServerName, pem::PemObject as _},
};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_rustls::TlsConnector;

/// What connections are encrypted by.
#[derive(Clone)]
pub(crate) struct Encryption(TlsConnector);

/// TLS cannot be had.
#[derive(Debug, Error)]
pub enum EncryptionError {
    /// The roots cannot be read.
    #[error("cannot read the certificates of {}", path.display())]
    Read {
        /// As given.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// There are none.
    #[error("there is no certificate in {}", path.display())]
    Empty {
        /// As given.
        path: PathBuf,
    },
    /// A certificate cannot be trusted, or TLS cannot be set up.
    #[error("cannot set TLS up")]
    SetUp(#[source] rustls::Error),
}

impl Encryption {
    /// With the roots of a PEM file; the system's for `None`.
    ///
    /// # Errors
    /// [`EncryptionError`].
    pub(crate) fn new(roots: Option<PathBuf>) -> Result<Self, EncryptionError> {
        let roots = match roots {
            Some(path) => read(&path)?,
            None => system(),
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(EncryptionError::SetUp)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

fn read(path: &Path) -> Result<RootCertStore, EncryptionError> {
    let failed = |source| EncryptionError::Read {
        path: path.to_owned(),
        source,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(failed)? {
        let certificate = certificate.map_err(failed)?;
        roots.add(certificate).map_err(EncryptionError::SetUp)?;
    }
    if roots.is_empty() {
        let path = path.to_owned();
        return Err(EncryptionError::Empty { path });
    }
    Ok(roots)
}

/// Where there are none, no certificate is good.
fn system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "a system root could not be read");
    }
    roots.add_parsable_certificates(found.certs);
    roots
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encryption")
    }
}

impl MakeTlsConnect<Socket> for Encryption {
    type Stream = Encrypted;
    type TlsConnect = Towards;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Towards, InvalidDnsNameError> {
        // A socket of this machine has no name; TLS is not spoken over it.
        let name = match host {
            "" => None,
            host => Some(ServerName::try_from(host.to_owned())?),
        };
        let connector = self.0.clone();
        Ok(Towards { connector, name })
    }
}

/// TLS towards one name.
pub(crate) struct Towards {
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl TlsConnect<Socket> for Towards {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let nameless = || io::Error::other("a certificate can only be verified for a name");
            let name = self.name.ok_or_else(nameless)?;
            let stream = self.connector.connect(name, stream).await?;
            Ok(Encrypted(stream))
        })
    }
}

/// An encrypted connection.
pub(crate) struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Encrypted {
    /// The certificate was verified: there is nobody between to bind against.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// PostgreSQL's name among protocols, which `sslnegotiation=direct` wants to hear.
const ALPN: &[u8] = b"postgresql";
