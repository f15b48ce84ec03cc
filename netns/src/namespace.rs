//! New network namespaces, owned by the hub's user namespace.
//!
//! Made on a thread that ends: `unshare` changes the calling thread, and no
//! thread that goes on may be left in a sandbox's network. IPv6 is switched
//! off before the first link exists, so no link-local address is ever made.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use crate::link;
use crate::netlink::{Netlink, NetlinkError};
use crate::sys;

/// A network namespace with `lo` up and nothing else.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// Keeps it alive; what a child enters.
    pub(crate) fd: OwnedFd,
    /// Configures it, from any thread.
    pub(crate) netlink: Netlink,
}

/// Why no namespace was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeNamespaceError {
    #[error("a network namespace could not be made: {step}")]
    Io {
        step: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("a new network namespace could not be configured")]
    Netlink(#[from] NetlinkError),
}

/// Makes one.
pub(crate) fn new() -> Result<Namespace, MakeNamespaceError> {
    let step = |step| move |source| MakeNamespaceError::Io { step, source };
    let made = thread::scope(|scope| {
        thread::Builder::new()
            .spawn_scoped(scope, || {
                sys::unshare_network().map_err(step("unshare"))?;
                disable_ipv6().map_err(step("switching IPv6 off"))?;
                forget_fragments().map_err(step("letting go of fragments soon"))?;
                let fd = File::open("/proc/thread-self/ns/net").map_err(step("opening it"))?;
                let netlink = Netlink::route().map_err(step("opening netlink"))?;
                Ok(Namespace {
                    fd: fd.into(),
                    netlink,
                })
            })
            .map_err(step("starting a thread"))?
            .join()
            .unwrap_or_else(|_| Err(step("the thread panicked")(io::ErrorKind::Other.into())))
    });
    let mut namespace: Namespace = made?;
    namespace.netlink.request(&mut [link::loopback_up()])?;
    Ok(namespace)
}

/// Switches IPv6 off in the calling thread's network namespace, for every
/// interface that is there or will be.
pub(crate) fn disable_ipv6() -> io::Result<()> {
    for which in ["all", "default"] {
        match fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1") {
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

/// How long the kernel keeps parts of a packet of which others are missing, in the calling thread's network
/// namespace: there is no network whose delays they would be waited for, and each holds memory that is
/// nobody's. The default is 30 seconds.
pub(crate) fn forget_fragments() -> io::Result<()> {
    fs::write("/proc/sys/net/ipv4/ipfrag_time", FRAGMENTS_FOR)
}

/// In seconds: the least that there is.
const FRAGMENTS_FOR: &str = "1";
