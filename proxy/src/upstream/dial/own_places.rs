//! Whether an address is that of a place of gig's own which is known by name: its public URL, its database.
//!
//! A policy may name the address, or another name of it. Where the program's bytes are spliced, or a Host that is
//! an address passes, the place would be reached as if it had been named; where each request is opened, its name
//! tells: another site behind the same front stays open. A name that cannot be resolved now has its last addresses.

use std::{collections::HashMap, net::SocketAddr};

use gig_policy::{ConnectPermit, DenyReason, Fqdn, Handling, Host, Port};
use parking_lot::Mutex;

use super::{Dialer, Stopped};
use crate::resolve::VettedAddr;

/// The last addresses of each name.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<Fqdn, Vec<SocketAddr>>>);

impl Dialer {
    /// Refuses an address of such a place.
    pub(super) async fn refuse_own_places(
        &self,
        vetted: &[VettedAddr],
        permit: &ConnectPermit,
    ) -> Result<(), Stopped> {
        if permit.handling() == Handling::Inspect && matches!(permit.host(), Host::Name(_)) {
            return Ok(());
        }
        for (host, port) in &self.never_open.hosts {
            let places = self.addresses_of_own(host, *port, vetted).await?;
            let is_own = |one: &&VettedAddr| places.contains(&one.get());
            if let Some(own) = vetted.iter().find(is_own) {
                return Err(Stopped {
                    reason: DenyReason::NeverOpenable,
                    addr: Some(own.get()),
                    by_proxy: None,
                    why: format!(
                        "{host}:{port} is there, where gig is reached or keeps what it keeps"
                    ),
                });
            }
        }
        Ok(())
    }

    /// Where such a place is, if any of `vetted` can be there.
    async fn addresses_of_own(
        &self,
        host: &Host,
        port: Port,
        vetted: &[VettedAddr],
    ) -> Result<Vec<SocketAddr>, Stopped> {
        let name = match host {
            Host::Ip(ip) => return Ok(vec![SocketAddr::new(ip.to_canonical(), port.get())]),
            Host::Name(name) => name,
        };
        let overridden = self.overridden(name, port);
        if !overridden.is_empty() {
            return Ok(overridden.to_vec());
        }
        if !vetted.iter().any(|one| one.get().port() == port.get()) {
            return Ok(Vec::new());
        }
        match self.resolver.addresses(name).await {
            Ok(addresses) => {
                let place = |ip: std::net::IpAddr| SocketAddr::new(ip.to_canonical(), port.get());
                let places: Vec<_> = addresses.into_iter().map(place).collect();
                let mut known = self.own_places.0.lock();
                known.insert(name.clone(), places.clone());
                Ok(places)
            }
            Err(error) => {
                let known = self.own_places.0.lock().get(name).cloned();
                match known {
                    Some(places) => Ok(places),
                    // It is nowhere.
                    None if error.reason == DenyReason::NameNotResolved => Ok(Vec::new()),
                    None => Err(error.into()),
                }
            }
        }
    }
}
