//! Connections of the load agent: TCP, an optional CONNECT, TLS without session resumption.
//!
//! Certificates are not verified: each proxy has a CA of its own and what the client's check costs
//! is not what is measured. Key exchange is X25519 alone, which every contender speaks, so that all
//! of them do the same handshake.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    order::{Dial, Route},
    outcome::{Outcome, doing},
};

/// Opens connections by one route.
#[derive(Clone)]
pub(crate) struct Opener {
    route: Route,
    tls: TlsConnector,
}

impl Opener {
    /// `alpn` is the one application protocol that is offered.
    pub(crate) fn new(route: Route, alpn: &str) -> Outcome<Self> {
        let provider = CryptoProvider {
            kx_groups: vec![aws_lc_rs::kx_group::X25519],
            ..aws_lc_rs::default_provider()
        };
        let provider = Arc::new(provider);
        let mut config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        config.resumption = Resumption::disabled();
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Self { route, tls })
    }

    /// The route's host.
    pub(crate) fn host(&self) -> &str {
        &self.route.host
    }

    /// The route's port.
    pub(crate) const fn port(&self) -> u16 {
        self.route.port
    }

    /// A new connection for the route's host.
    pub(crate) async fn open(&self) -> Outcome<TlsStream<TcpStream>> {
        self.open_as(&self.route.host).await
    }

    /// A new connection for another host at the same port.
    pub(crate) async fn open_as(&self, host: &str) -> Outcome<TlsStream<TcpStream>> {
        let port = self.route.port;
        let tcp = match self.route.dial {
            Dial::Name => TcpStream::connect((host, port)).await,
            Dial::To(address) => TcpStream::connect(address).await,
            Dial::Connect(proxy) => TcpStream::connect(proxy).await,
        };
        let mut tcp = doing(tcp, || {
            format!("connect to {host}:{port} by {:?}", self.route.dial)
        })?;
        tcp.set_nodelay(true)?;
        if matches!(self.route.dial, Dial::Connect(_)) {
            connect_through(&mut tcp, host, port).await?;
        }
        let name = ServerName::try_from(host.to_owned())?;
        let tls = self.tls.connect(name, tcp).await;
        doing(tls, || format!("TLS handshake for {host}"))
    }
}

async fn connect_through(tcp: &mut TcpStream, host: &str, port: u16) -> Outcome<()> {
    let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
    tcp.write_all(request.as_bytes()).await?;
    let mut head = Vec::with_capacity(512);
    // The origin is silent until the ClientHello, so nothing follows the head.
    while !head.ends_with(b"\r\n\r\n") {
        if tcp.read_buf(&mut head).await? == 0 || head.len() > 16 * 1024 {
            return Err("the proxy closed the connection during CONNECT".into());
        }
    }
    let text = String::from_utf8_lossy(&head);
    if text.split(' ').nth(1) == Some("200") {
        return Ok(());
    }
    Err(format!(
        "CONNECT was refused: {}",
        text.lines().next().unwrap_or_default()
    )
    .into())
}

#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
