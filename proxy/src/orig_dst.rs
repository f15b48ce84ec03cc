//! Where a redirected connection really wanted to go (`SO_ORIGINAL_DST`).

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::fd::AsFd,
};

use thiserror::Error;

/// The kernel does not know where the connection was going: it was not redirected.
#[derive(Debug, Error)]
#[error("the original destination of a connection from the sandbox is not known")]
pub struct OriginalDestinationError(#[source] io::Error);

/// The address and port the program dialled, before the redirect.
///
/// # Errors
/// When the socket was not redirected, or is not IPv4 (sandboxes have no IPv6).
pub fn original_destination(socket: &impl AsFd) -> Result<SocketAddrV4, OriginalDestinationError> {
    let address = socket2::SockRef::from(socket)
        .original_dst_v4()
        .map_err(OriginalDestinationError)?;
    match address.as_socket() {
        Some(SocketAddr::V4(v4)) if *v4.ip() != Ipv4Addr::UNSPECIFIED && v4.port() != 0 => Ok(v4),
        _ => Err(OriginalDestinationError(io::Error::from(
            io::ErrorKind::AddrNotAvailable,
        ))),
    }
}
