//! What the firewall refused of UDP: all that is no question for a name.
//!
//! The kernel keeps the ends of such packets in a set of bounded size, each once, so that a flood of them costs
//! nothing more; whoever asks gets what came since, and it is taken out. What came beyond the set's room is refused
//! like everything, and not told.

use std::io;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, Weak};

use serde::{Deserialize, Serialize};

use super::{exchange, out_of_turn};
use crate::hub_protocol::{Failure, Reply, Request, Step};
use crate::netlink::{Netlink, NetlinkError};
use crate::nf_tables::noted;

/// Where a packet of UDP that the firewall refused came from and went to. How many there were of it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusedPacket {
    /// The sandbox's address.
    pub source: Ipv4Addr,
    /// Where it was for.
    pub destination: Ipv4Addr,
    /// The destination's.
    pub port: u16,
}

/// Asks a hub what it refused. Does not keep the hub up.
#[derive(Debug, Clone)]
pub struct Refusals(pub(super) Weak<Mutex<UnixStream>>);

impl Refusals {
    /// Where packets of all its sandboxes were for that were refused since this was asked last, each once. Nothing
    /// where the hub is gone. Blocks for one short exchange.
    ///
    /// # Errors
    /// When the hub cannot read it, or did not answer.
    pub fn take(&self) -> io::Result<Vec<RefusedPacket>> {
        let Some(socket) = self.0.upgrade() else {
            return Ok(Vec::new());
        };
        match exchange(&socket, Some(&Request::Refused), &[])? {
            (Reply::Refused { packets }, _) => Ok(packets),
            (Reply::Failed(failure), _) => Err(io::Error::other(failure)),
            (other, _) => Err(out_of_turn(&other)),
        }
    }
}

/// The hub's side: what its own table keeps.
#[derive(Debug)]
pub(super) struct Noted(Netlink);

impl Noted {
    /// Of the calling thread's network namespace.
    pub(super) fn open() -> io::Result<Self> {
        Netlink::netfilter().map(Self)
    }

    pub(super) fn take(&mut self) -> Result<Vec<RefusedPacket>, Failure> {
        let failure = |NetlinkError { what, source }| {
            Failure::new(Step::Refused, source.raw_os_error(), what)
        };
        let listed = match self.0.dump(noted::all_refused()) {
            // More came meanwhile: it is read next time, whole.
            Err(error) if error.source.kind() == io::ErrorKind::Interrupted => {
                return Ok(Vec::new());
            }
            other => other.map_err(failure)?,
        };
        let packets: Vec<RefusedPacket> = listed.iter().flat_map(noted::refused).collect();
        for some in packets.chunks(AT_ONCE) {
            self.0.request(&mut noted::forget(some)).map_err(failure)?;
        }
        Ok(packets)
    }
}

/// Elements of one message, whose length has to fit 16 bits.
const AT_ONCE: usize = 1000;
