//! The network as providers and kinds of secrets see it: one HTTP/1.1 exchange over a connection of
//! its own, with the host's own proxy and the roots of `--upstream-ca`.
//!
//! What is reached here is named by the operator, in a secret's definition, as a destination of traces or
//! as an image's registry, never by a sandbox: private addresses are fine, and no permit exists. For a secret the core
//! that nothing opens is asked neither straight nor through a proxy. What a registry points to goes by
//! [`crate::images`]' own way instead. No redirect is followed and no connection is kept.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use gig_policy::{
    Host, Port, is_metadata_service,
    special_purpose::{AddressClass, classify},
};
use gig_proxy::{
    UpstreamProxy,
    tls::{
        roots::{LazyVerifier, Roots},
        upstream::{Offer, OriginTls},
    },
};
use gig_vault::{Fetch, FetchAnswer, FetchError, FetchFuture, FetchRequest, SecretBytes};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request,
    header::{HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use rustls::{InvalidMessage, crypto::CryptoProvider, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

pub(crate) use self::target::{Target, only};

mod target;

/// Goes out from the host, as gig itself.
#[derive(Debug)]
pub(crate) struct NetworkFetch {
    roots: Roots,
    verifier: LazyVerifier,
    provider: Arc<CryptoProvider>,
    proxy: Option<UpstreamProxy>,
}

/// Octets both ways.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl NetworkFetch {
    /// Trusts `roots`; goes through `proxy` where there is one.
    pub(crate) fn new(roots: Roots, proxy: Option<UpstreamProxy>) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Self {
            verifier: LazyVerifier::new(roots.clone(), Arc::clone(&provider)),
            roots,
            provider,
            proxy,
        }
    }

    async fn exchange(
        &self,
        target: &Target,
        request: FetchRequest,
    ) -> Result<FetchAnswer, FetchError> {
        let unreached = |why: String| FetchError::Connect {
            host: target.authority.clone(),
            why,
        };
        let extra = request.roots.clone();
        let (message, largest, deadline) = (
            message(target, &request)?,
            request.largest,
            request.deadline,
        );
        drop(request);
        // Through a proxy nobody here sees where it goes.
        if let Some(name) = never_asked(&target.host) {
            return Err(unreached(format!("it is never opened ({name})")));
        }
        let dialled = self.dial(&target.host, target.port).await;
        let (stream, at) = dialled.map_err(unreached)?;
        // Nothing was sent yet.
        if let Some(name) = at.and_then(never_open) {
            return Err(unreached(format!(
                "it is at an address that is never opened ({name})"
            )));
        }
        if !target.tls {
            return send(target, stream, message, largest).await;
        }
        let verifier = match extra {
            None => self.verifier.verifier().await,
            Some(pem) => {
                let roots = self.roots.clone().with_pem(&pem);
                let roots = roots.map_err(|error| unreached(error.to_string()))?;
                let provider = Arc::clone(&self.provider);
                LazyVerifier::new(roots, provider).verifier().await
            }
        };
        let verifier = verifier.map_err(|error| unreached(error.to_string()))?;
        let tls = OriginTls::new(&self.provider, &verifier, None);
        let tls = tls.map_err(|error| unreached(error.to_string()))?;
        let (stream, _) = tls
            .connect(stream, &target.host, Offer::Http1, deadline)
            .await
            .map_err(|error| unreached(chain(&error)))?;
        send(target, stream, message, largest).await
    }

    /// A stream of octets of its own: no HTTP, and in TLS no application protocol is named.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub(crate) async fn stream(
        &self,
        host: &Host,
        port: Port,
        tls: bool,
    ) -> Result<Box<dyn Stream>, String> {
        let (stream, _) = self.dial(host, port).await?;
        let within = self.within(stream, host, tls).await;
        within.map_err(|error| error.to_string())
    }

    /// The same over a connection that is there.
    ///
    /// # Errors
    /// When no TLS comes about; [`is_no_tls`] tells whether it is spoken at all.
    pub(crate) async fn within(
        &self,
        stream: TcpStream,
        host: &Host,
        tls: bool,
    ) -> io::Result<Box<dyn Stream>> {
        if !tls {
            return Ok(Box::new(stream));
        }
        let verifier = self.verifier.verifier().await;
        let verifier = verifier.map_err(io::Error::other)?;
        let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .dangerous()
            // The one that checks the system's roots and those that were named.
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.as_str().to_owned()),
            Host::Ip(ip) => Ok(ServerName::from(*ip)),
        };
        let name = name.map_err(io::Error::other)?;
        let session = TlsConnector::from(Arc::new(config)).connect(name, stream);
        Ok(Box::new(session.await?))
    }

    /// A connection, and the address that it goes to; `None` where the host's proxy was asked, which alone
    /// knows. This machine's own loopback is never asked of a proxy, whose loopback is another one.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub(crate) async fn dial(
        &self,
        host: &Host,
        port: Port,
    ) -> Result<(TcpStream, Option<IpAddr>), String> {
        let past = |proxy: &&UpstreamProxy| !is_loopback(host) && !proxy.bypasses(host, port);
        let proxy = self.proxy.as_ref().filter(past);
        let stream = match proxy {
            None => connect(host, port)
                .await
                .map_err(|error| error.to_string())?,
            Some(proxy) => {
                let stream = connect(proxy.host(), proxy.port()).await;
                let mut stream = stream.map_err(|error| format!("the host's proxy: {error}"))?;
                let made = proxy.tunnel(&mut stream, host, port).await;
                made.map_err(|error| error.to_string())?;
                stream
            }
        };
        stream
            .set_nodelay(true)
            .map_err(|error| error.to_string())?;
        let at = stream.peer_addr().map_err(|error| error.to_string())?;
        Ok((stream, proxy.is_none().then(|| at.ip().to_canonical())))
    }
}

impl Fetch for NetworkFetch {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        Box::pin(async move {
            let target = Target::parse(&request.url).map_err(|why| FetchError::Request {
                host: String::new(),
                why: why.to_owned(),
            })?;
            let deadline = request.deadline;
            let exchange = Box::pin(self.exchange(&target, request));
            let done = tokio::time::timeout(deadline, exchange).await;
            done.unwrap_or_else(|_| Err(slow(&target, deadline)))
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the operator's key stores, token endpoints, registries and proxy, not a sandbox's destination: no \
              permit exists for them"
)]
pub(crate) async fn connect(host: &Host, port: Port) -> io::Result<TcpStream> {
    match host {
        Host::Ip(ip) => TcpStream::connect(SocketAddr::from((*ip, port.get()))).await,
        // Whatever a resolver says of it (RFC 6761 section 6.3).
        Host::Name(_) if is_loopback(host) => {
            let own = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            let own = own.map(|ip: IpAddr| SocketAddr::from((ip, port.get())));
            TcpStream::connect(own.as_slice()).await
        }
        Host::Name(name) => TcpStream::connect((name.as_str(), port.get())).await,
    }
}

/// What stands above every exception, such as the services that tell a machine its own credentials: who names what gig asks
/// for a secret need not have the machine.
fn never_open(ip: IpAddr) -> Option<&'static str> {
    match classify(ip) {
        AddressClass::NeverOpenable { name } => Some(name),
        AddressClass::Special { .. } | AddressClass::Global => None,
    }
}

/// The same of what is known without a look-up, by address or by name.
fn never_asked(host: &Host) -> Option<&'static str> {
    match host {
        Host::Ip(ip) => never_open(ip.to_canonical()),
        Host::Name(name) => is_metadata_service(name).then_some("a cloud's metadata service"),
    }
}

/// Whether it is this machine's own loopback, by address or by name.
pub(crate) fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Ip(ip) => ip.to_canonical().is_loopback(),
        Host::Name(name) => name.as_str() == "localhost",
    }
}

/// Whether a greeting of TLS was answered by something else: its first octet begins no record (RFC 8446
/// section 5.1).
pub(crate) fn is_no_tls(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(
        cause,
        Some(rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType
        ))
    )
}

/// Sends on a fresh connection and reads the whole answer.
async fn send(
    target: &Target,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    message: Request<Full<Bytes>>,
    largest: usize,
) -> Result<FetchAnswer, FetchError> {
    let broke = |error: hyper::Error| FetchError::Exchange {
        host: target.authority.clone(),
        why: chain(&error),
    };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broke)?;
    let exchange = async {
        let (head, body) = sender
            .send_request(message)
            .await
            .map_err(broke)?
            .into_parts();
        let body = Limited::new(body, largest).collect().await;
        let body = body.map_err(|_| FetchError::Large {
            host: target.authority.clone(),
            largest,
        })?;
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        Ok(FetchAnswer {
            status: head.status.as_u16(),
            headers: head
                .headers
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), text(value)))
                .collect(),
            body: SecretBytes::new(body.to_bytes().to_vec()),
        })
    };
    let (mut exchange, connection) = (pin!(exchange), pin!(connection));
    tokio::select! {
        biased;
        done = &mut exchange => done,
        // Closed by the other side: what was read before is still there.
        _ = connection => exchange.await,
    }
}

fn message(target: &Target, request: &FetchRequest) -> Result<Request<Full<Bytes>>, FetchError> {
    let unsendable = |why: &str| FetchError::Request {
        host: target.authority.clone(),
        why: why.to_owned(),
    };
    let mut message = Request::builder()
        .method(request.method.as_str())
        .uri(&target.path)
        .header(hyper::header::HOST, &target.authority)
        .header(hyper::header::USER_AGENT, AGENT)
        .header(hyper::header::CONNECTION, "close");
    for (name, value) in &request.headers {
        let name = HeaderName::try_from(*name).map_err(|_| unsendable("a field's name is none"))?;
        let mut value = HeaderValue::from_bytes(value.expose())
            .map_err(|_| unsendable("a field's value holds what no field can"))?;
        value.set_sensitive(true);
        message = message.header(name, value);
    }
    message
        .body(Full::new(Bytes::copy_from_slice(request.body.expose())))
        .map_err(|_| unsendable("the path cannot be sent"))
}

fn slow(target: &Target, deadline: Duration) -> FetchError {
    FetchError::Slow {
        host: target.authority.clone(),
        deadline,
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}

const AGENT: &str = concat!("gig/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests;
