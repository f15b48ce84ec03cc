//! Who is calling: the source address of a connection or datagram, looked up for each one.
//!
//! The hub's firewall lets a packet through only when interface and source address belong together,
//! so the address proves the sandbox. What is bound to which address is the composition root's. Sockets
//! that were opened in a namespace of one sandbox alone are that sandbox's, whatever address comes.

use std::{net::Ipv4Addr, sync::Arc};

use crate::subject::Subject;

/// Finds the sandbox that owns a source address.
pub trait Identity: Send + Sync + 'static {
    /// The sandbox bound to `source` at this moment; `None` means: nobody's, drop it.
    fn subject(&self, source: Ipv4Addr) -> Option<Arc<Subject>>;
}

/// Everything is of one sandbox: nobody else reaches the socket.
#[derive(Debug)]
pub(crate) struct Constant(pub(crate) Arc<Subject>);

impl Identity for Constant {
    fn subject(&self, _source: Ipv4Addr) -> Option<Arc<Subject>> {
        Some(Arc::clone(&self.0))
    }
}
