//! The network around gig: whom it trusts there, through what it goes out, and which of its places are
//! gig's own. Read once, for the sandboxes and for what the appliance itself asks.

use std::net::{IpAddr, SocketAddr};

use gig_policy::{Host, Port};
use gig_proxy::{NeverOpen, UpstreamProxy, tls::roots::Roots};

use super::database;
use crate::{
    args::serve::ServeArgs,
    run::settings::{own_proxy, read_roots, trusted_roots},
};

/// As options and environment say.
pub(super) struct Network {
    /// The system's, and `--upstream-ca`.
    pub(super) roots: Roots,
    /// `HTTPS_PROXY`.
    pub(super) upstream_proxy: Option<UpstreamProxy>,
    /// Console, API and database: no policy opens them to a sandbox, and no URL leads to them.
    pub(super) never_open: NeverOpen,
}

impl Network {
    /// Reads it.
    ///
    /// # Errors
    /// When one of them is unusable.
    pub(super) fn around(args: &ServeArgs, listener: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self {
            roots: trusted_roots(read_roots(&args.upstream_ca)?.as_deref())?,
            upstream_proxy: own_proxy()?,
            never_open: never_open(args, listener)?,
        })
    }
}

/// Where other nodes reach what listens at `local`; told in the log where this host's addresses cannot be read.
pub(super) fn seen_at(local: SocketAddr) -> Vec<SocketAddr> {
    gig_proxy::reached_at(local).unwrap_or_else(|error| {
        tracing::warn!(%error, "other nodes are not told where this gig listens, to close it to their sandboxes");
        Vec::new()
    })
}

/// Where gig and its database are reached, as far as it is told.
fn never_open(args: &ServeArgs, listener: SocketAddr) -> anyhow::Result<NeverOpen> {
    let mut places = database::places()?;
    if let Some(url) = &args.public_url {
        let tls = url.starts_with("https://");
        let authority = url.split_once("://").map_or("", |(_, authority)| authority);
        let said = authority.rsplit_once(':');
        let said = said.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = said.unwrap_or((authority, if tls { 443 } else { 80 }));
        places.push((host.to_owned(), port));
    }
    let mut never_open = NeverOpen {
        listeners: vec![listener],
        ..NeverOpen::default()
    };
    for (host, port) in places {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            never_open.listeners.push((address, port).into());
        }
        // What no policy can name has no name that the resolver is asked for.
        if let (Ok(host), Some(port)) = (Host::parse(bare), Port::new(port)) {
            never_open.hosts.push((host, port));
        }
    }
    Ok(never_open)
}
