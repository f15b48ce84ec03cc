//! Doors: sockets that listen, and how a connection at each becomes one on which a request is read.
//!
//! Promises that nobody's TLS handshake keeps others waiting, and that none takes longer than
//! [`HANDSHAKE_WITHIN`]. Which certificate is shown is left to who opens the door.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener},
};
use tokio_rustls::{Accept, TlsAcceptor};

use super::{Peer, owner};

/// Where requests come in.
#[derive(Debug)]
pub enum Door {
    /// For people and programs, in clear text.
    Tcp(std::net::TcpListener),
    /// The same by TLS, and in no other way.
    Tls(std::net::TcpListener, Arc<rustls::ServerConfig>),
    /// For the owner of the data directory, whom the kernel names.
    Owner(std::os::unix::net::UnixListener),
}

/// A door that is open.
pub(super) enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener, TlsAcceptor),
    Owner(UnixListener),
}

impl Listener {
    pub(super) fn open(door: Door) -> std::io::Result<Self> {
        match door {
            Door::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::Tcp)
            }
            Door::Tls(listener, config) => {
                listener.set_nonblocking(true)?;
                let listener = TcpListener::from_std(listener)?;
                Ok(Self::Tls(listener, TlsAcceptor::from(config)))
            }
            Door::Owner(listener) => {
                listener.set_nonblocking(true)?;
                UnixListener::from_std(listener).map(Self::Owner)
            }
        }
    }

    /// Whoever reads nothing of an answer keeps their place no longer than [`UNREAD_WITHIN`].
    pub(super) async fn accept_tcp(
        listener: &TcpListener,
    ) -> std::io::Result<(TcpStream, SocketAddr)> {
        let (stream, address) = listener.accept().await?;
        rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD_WITHIN)?;
        // What somebody attached to a program is told is short, and waits for nothing.
        stream.set_nodelay(true)?;
        Ok((stream, address))
    }

    /// The next connection; `None` for somebody who is not let in.
    pub(super) async fn next(&self) -> std::io::Result<Option<(Knocking, Peer)>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = Self::accept_tcp(listener).await?;
                let stream = Knocking::Open(Box::new(stream));
                Ok(Some((stream, Peer::Network(address))))
            }
            Self::Tls(listener, acceptor) => {
                let (stream, address) = Self::accept_tcp(listener).await?;
                // Made elsewhere: whoever is slow at it does not keep others waiting.
                let stream = Knocking::Tls(Box::new(acceptor.accept(stream)));
                Ok(Some((stream, Peer::Network(address))))
            }
            Self::Owner(listener) => {
                let (stream, _) = listener.accept().await?;
                let Some(owner) = owner::owner(&stream) else {
                    tracing::warn!(
                        "somebody else than the owner, or somebody in a sandbox or container, reached gig's own \
                         socket: such a one needs the network's door and a token"
                    );
                    return Ok(None);
                };
                let stream = Knocking::Open(Box::new(stream));
                Ok(Some((stream, Peer::Owner(owner.into()))))
            }
        }
    }
}

/// A stream on which a request can be read at once, or after a handshake.
pub(super) enum Knocking {
    Open(Box<dyn Stream>),
    Tls(Box<Accept<TcpStream>>),
}

impl Knocking {
    /// `None` for who does not finish the handshake in time, or speaks no TLS that gig does.
    pub(super) async fn open(self) -> Option<Box<dyn Stream>> {
        match self {
            Self::Open(stream) => Some(stream),
            Self::Tls(accept) => match tokio::time::timeout(HANDSHAKE_WITHIN, accept).await {
                Ok(Ok(stream)) => Some(Box::new(stream)),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a TLS handshake failed");
                    None
                }
                Err(_) => None,
            },
        }
    }
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A handshake that takes longer is not a browser's, nor is one that never comes.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Milliseconds in which a peer takes what was sent to it.
pub(super) const UNREAD_WITHIN: u32 = 30_000;
