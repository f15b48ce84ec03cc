//! What the kernel tells of a namespace's handle and of the network a socket is in.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

/// `linux/nsfs.h`: `_IO(0xb7, 0x1)` and `_IO(0xb7, 0x3)`.
const NS_GET_USERNS: libc::c_ulong = 0xb701;
const NS_GET_NSTYPE: libc::c_ulong = 0xb703;
/// `linux/sockios.h`.
const SIOCGSKNS: libc::c_ulong = 0x894c;
/// `asm-generic/socket.h`, since Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// The `CLONE_NEW*` bit of the kind of namespace that `handle` is of.
pub(crate) fn kind(handle: impl AsFd) -> io::Result<libc::c_int> {
    let number = handle.as_fd().as_raw_fd();
    // SAFETY: this request takes no argument and touches no memory of ours.
    match unsafe { libc::ioctl(number, NS_GET_NSTYPE) } {
        -1 => Err(io::Error::last_os_error()),
        kind => Ok(kind),
    }
}

/// The user namespace that owns the namespace of `handle`.
pub(crate) fn owner(handle: impl AsFd) -> io::Result<OwnedFd> {
    handle_by(handle, NS_GET_USERNS)
}

/// The network namespace that `socket` is in.
pub(crate) fn network_of(socket: impl AsFd) -> io::Result<OwnedFd> {
    handle_by(socket, SIOCGSKNS)
}

fn handle_by(of: impl AsFd, request: libc::c_ulong) -> io::Result<OwnedFd> {
    let number = of.as_fd().as_raw_fd();
    // SAFETY: both requests take no argument and touch no memory of ours.
    let made = unsafe { libc::ioctl(number, request) };
    if made == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just returned this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// The number that the network namespace of `socket` has and no other ever had since the machine
/// was started.
pub(crate) fn cookie(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length: libc::socklen_t = 8;
    let number = socket.as_fd().as_raw_fd();
    // SAFETY: `cookie` has room for the eight octets that `length` says, and both outlive the call.
    let got = unsafe {
        libc::getsockopt(
            number,
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    match got {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(cookie),
    }
}
