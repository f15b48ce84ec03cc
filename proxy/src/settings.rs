//! What the proxy is told when it starts.

use std::{
    net::{TcpListener, UdpSocket},
    sync::Arc,
};

use crate::{
    deadlines::Deadlines,
    hold::Desk,
    resolve::{NeverOpen, ResolveOverride},
    tls::{authority_key::Authority, roots::Roots},
    upstream::connect_proxy::UpstreamProxy,
};

/// How the proxy works; resolved already, nothing is read from files or the environment here.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The port of the explicit proxy, as sandboxes know it.
    pub explicit_port: u16,
    /// How long things may take.
    pub deadlines: Deadlines,
    /// `--resolve`.
    pub resolve: Vec<ResolveOverride>,
    /// Whom origins' certificates may come from.
    pub upstream_roots: Roots,
    /// The host's own proxy, if it has one.
    pub upstream_proxy: Option<UpstreamProxy>,
    /// The authority that sandboxes trust.
    pub authority: Authority,
    /// gig's own listeners.
    pub never_open: NeverOpen,
    /// Who is asked about what a policy holds; `None`: nobody, and it is denied at once.
    pub desk: Option<Arc<dyn Desk>>,
    /// Threads, each with a runtime of its own; at least one. One per core is fastest.
    pub workers: usize,
}

/// The sockets that were made inside the hub, non-blocking.
#[derive(Debug)]
pub struct ProxyListeners {
    /// Where every TCP connection is redirected to.
    pub redirect: TcpListener,
    /// The explicit proxy.
    pub explicit: TcpListener,
    /// DNS over TCP.
    pub dns_tcp: TcpListener,
    /// DNS over UDP.
    pub dns_udp: UdpSocket,
}
