//! Opens a TCP connection for a permit: resolve, vet, race the addresses (RFC 8305).
//!
//! The only home of `connect`. Takes nothing but a [`ConnectPermit`]; dials nothing but a
//! [`VettedAddr`], or the proxy that the host's owner configured.

use std::{
    collections::HashMap,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
};

use gig_policy::{ConnectPermit, DenyReason, Fqdn, Host, Port};
use thiserror::Error;
use tokio::{net::TcpStream, time::timeout};

use self::race::{RaceError, interleave, race};
use super::connect_proxy::{ProxyFault, TunnelError, UpstreamProxy};
use crate::{
    deadlines::Deadlines,
    resolve::{NeverOpen, ResolveError, ResolveOverride, Resolver, VetError, VettedAddr, Vetter},
    subject::Subject,
};

mod own_places;
mod race;
mod unseen;

/// What a dialler needs.
#[derive(Debug, Clone)]
pub struct DialerSettings {
    /// `--resolve`.
    pub overrides: Vec<ResolveOverride>,
    /// The host's own proxy.
    pub upstream_proxy: Option<UpstreamProxy>,
    /// gig's own listeners.
    pub never_open: NeverOpen,
    /// How long things may take.
    pub deadlines: Deadlines,
}

/// Dials for every sandbox; shares only the look-up cache between them.
#[derive(Debug)]
pub struct Dialer {
    overrides: HashMap<(Fqdn, Port), Vec<SocketAddr>>,
    upstream_proxy: Option<UpstreamProxy>,
    never_open: NeverOpen,
    /// Where those of them are that are named.
    own_places: own_places::Known,
    vetter: Vetter,
    resolver: Resolver,
    deadlines: Deadlines,
    /// That the host's proxy refuses was told.
    warned_of_proxy: AtomicBool,
    /// That it may know names which are not known here was told.
    warned_of_names: AtomicBool,
}

/// Where a connection goes.
#[derive(Debug, Clone, Copy)]
pub struct Reached {
    /// The vetted address, by way of the host's proxy or not; `None` where the proxy was asked for the name, and alone
    /// knows.
    pub address: Option<SocketAddr>,
    /// Whether it is special-purpose, so that only `allow_private` opened it.
    pub is_private: bool,
}

/// A connection to an origin, with `TCP_NODELAY` and keepalive set.
#[derive(Debug)]
pub struct Dialed {
    /// The connection.
    pub stream: TcpStream,
    /// Where it goes.
    pub reached: Reached,
}

impl Reached {
    /// One of those that were vetted.
    fn of(address: SocketAddr, vetted: &[VettedAddr]) -> Self {
        let used = vetted.iter().find(|one| one.get() == address);
        Self {
            address: Some(address),
            is_private: used.is_some_and(|one| one.is_private()),
        }
    }

    /// The address, where only `allow_private` opened it.
    #[must_use]
    pub fn private(self) -> Option<IpAddr> {
        let address = self.address.filter(|_| self.is_private);
        address.map(|address| address.ip())
    }
}

/// No connection.
#[derive(Debug, Error)]
#[error("cannot connect to {host}: {why}")]
pub struct DialError {
    /// What the program is told.
    pub reason: DenyReason,
    /// The host and port asked for.
    pub host: String,
    /// The address that was refused or did not answer, for the record.
    pub addr: Option<SocketAddr>,
    /// That it is the doing of the host's proxy.
    pub by_proxy: Option<ProxyFault>,
    /// For our log; may hold addresses.
    pub why: String,
}

impl Dialer {
    /// A dialler with the host's resolver configuration.
    #[must_use]
    pub fn new(settings: DialerSettings) -> Self {
        let mut overrides = HashMap::<_, Vec<_>>::new();
        for one in settings.overrides {
            let place = overrides.entry((one.host, one.port));
            place.or_default().push(one.to);
        }
        Self {
            overrides,
            upstream_proxy: settings.upstream_proxy,
            vetter: Vetter::new(settings.never_open.clone()),
            never_open: settings.never_open,
            own_places: own_places::Known::default(),
            resolver: Resolver::new(settings.deadlines.resolve),
            deadlines: settings.deadlines,
            warned_of_proxy: AtomicBool::new(false),
            warned_of_names: AtomicBool::new(false),
        }
    }

    /// Resolves, vets and dials what `permit` names. Dropping the future abandons every attempt.
    ///
    /// # Errors
    /// When the name has no address, none may be dialled, or none answers.
    pub async fn dial(
        &self,
        subject: &Subject,
        permit: &ConnectPermit,
    ) -> Result<Dialed, DialError> {
        let dialed = self.dial_permitted(permit).await;
        dialed.inspect_err(|error| {
            let DialError {
                reason, host, why, ..
            } = error;
            tracing::info!(sandbox.id = %subject.id(), %reason, host, why, "not connected");
        })
    }

    /// The same for gig itself, which asks for a place that a person named; says nothing in the log.
    /// Dropping the future abandons every attempt.
    ///
    /// # Errors
    /// As [`Dialer::dial`].
    pub async fn dial_permitted(&self, permit: &ConnectPermit) -> Result<Dialed, DialError> {
        let dialed = timeout(
            self.deadlines.connect,
            Box::pin(self.dial_unbounded(permit)),
        )
        .await;
        dialed.unwrap_or_else(|_| Err(Stopped::timeout())).map_err(
            |Stopped {
                 reason,
                 addr,
                 by_proxy,
                 why,
             }| {
                self.warn_of_proxy(by_proxy, &why);
                self.warn_of_names(permit, reason);
                DialError {
                    reason,
                    host: format!("{}:{}", permit.host(), permit.port()),
                    addr,
                    by_proxy,
                    why,
                }
            },
        )
    }

    async fn dial_unbounded(&self, permit: &ConnectPermit) -> Result<Dialed, Stopped> {
        let port = permit.port();
        // Before anybody else may be asked to find it.
        if self.never_open.names(permit.host(), port) {
            let why = "gig itself is reached there, or keeps there what it keeps";
            return Err(Stopped::new(DenyReason::NeverOpenable, why));
        }
        let proxy = self
            .upstream_proxy
            .as_ref()
            .filter(|p| !p.bypasses(permit.host(), port));
        if let (Some(proxy), Host::Name(name)) = (proxy, permit.host())
            && (proxy.resolves() || !self.resolver.has_servers())
            && self.overridden(name, port).is_empty()
        {
            if let Some((reason, why)) = unseen::refused(permit, proxy.resolves()) {
                return Err(Stopped::new(reason, why));
            }
            // The proxy may be on this host, and so would call what this host calls so.
            for ip in self.resolver.own_addresses(name).await {
                let vetted = self
                    .vetter
                    .vet(&[SocketAddr::new(ip, port.get())], permit)?;
                self.refuse_own_places(&vetted, permit).await?;
            }
            return self.tunnel(proxy, permit.host(), port).await;
        }
        let candidates = self.candidates(permit).await?;
        let vetted = self.vetter.vet(&candidates, permit)?;
        self.refuse_own_places(&vetted, permit).await?;
        let Some(first) = vetted.first() else {
            return Err(Stopped::new(DenyReason::NameNotResolved, "no address"));
        };
        let Some(proxy) = proxy else {
            return self.directly(&vetted).await;
        };
        let past = |one: &VettedAddr| proxy.bypasses_address(one.get().ip(), port);
        let by_proxy = !past(first);
        let (direct, tunnelled): (Vec<_>, Vec<_>) = vetted.into_iter().partition(past);
        if by_proxy {
            self.tunnel_in_turn(proxy, &tunnelled, port).await
        } else {
            self.directly(&direct).await
        }
    }

    async fn directly(&self, vetted: &[VettedAddr]) -> Result<Dialed, Stopped> {
        let addresses: Vec<_> = vetted.iter().map(|one| one.get()).collect();
        let (stream, addr) = race(&addresses, &self.deadlines).await?;
        Ok(Dialed {
            stream,
            reached: Reached::of(addr, vetted),
        })
    }

    /// By the proxy to one address after the other, until it gets to one: a proxy without IPv6 gets to
    /// no such address. One that asks for credentials asks for them every time.
    async fn tunnel_in_turn(
        &self,
        proxy: &UpstreamProxy,
        vetted: &[VettedAddr],
        permitted: Port,
    ) -> Result<Dialed, Stopped> {
        let addresses: Vec<_> = vetted.iter().map(|one| one.get()).collect();
        let mut failure = Stopped::new(DenyReason::NameNotResolved, "no address");
        for target in interleave(&addresses).into_iter().take(MAX_TUNNELS) {
            let (mut stream, _) = self.reach(proxy).await?;
            let (host, port) = (Host::from(target.ip()), target.port());
            let port = Port::new(port).unwrap_or(permitted);
            let tunnel = proxy.tunnel(&mut stream, &host, port);
            let error = match timeout(self.deadlines.connect_attempt, tunnel).await {
                Ok(Ok(())) => {
                    return Ok(Dialed {
                        stream,
                        reached: Reached::of(target, vetted),
                    });
                }
                Ok(Err(error)) => error,
                Err(_) => TunnelError::Refused(GATEWAY_TIMEOUT),
            };
            let last = matches!(error, TunnelError::Refused(AUTHENTICATION_REQUIRED));
            failure = error.into();
            // What the proxy refused got nowhere.
            if failure.by_proxy.is_none() {
                failure.addr = Some(target);
            }
            if last {
                break;
            }
        }
        Err(failure)
    }

    /// What might be dialled, before vetting.
    async fn candidates(&self, permit: &ConnectPermit) -> Result<Vec<SocketAddr>, Stopped> {
        let port = permit.port();
        let name = match permit.host() {
            Host::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, port.get())]),
            Host::Name(name) => name,
        };
        let overridden = self.overridden(name, port);
        if !overridden.is_empty() {
            return Ok(overridden.to_vec());
        }
        let addresses = self.resolver.addresses(name).await?;
        Ok(addresses
            .into_iter()
            .map(|ip| SocketAddr::new(ip, port.get()))
            .collect())
    }

    fn overridden(&self, name: &Fqdn, port: Port) -> &[SocketAddr] {
        let found = self.overrides.get(&(name.clone(), port));
        found.map_or(&[], Vec::as_slice)
    }

    /// By the proxy to a host that it finds itself.
    async fn tunnel(
        &self,
        proxy: &UpstreamProxy,
        host: &Host,
        port: Port,
    ) -> Result<Dialed, Stopped> {
        let (mut stream, _) = self.reach(proxy).await?;
        proxy.tunnel(&mut stream, host, port).await?;
        Ok(Dialed {
            stream,
            reached: Reached {
                address: None,
                is_private: false,
            },
        })
    }

    /// Once: what a proxy refuses it refuses for every request.
    fn warn_of_proxy(&self, fault: Option<ProxyFault>, why: &str) {
        let Some(fault) = fault else {
            return;
        };
        if self.warned_of_proxy.swap(true, Ordering::Relaxed) {
            return;
        }
        match fault {
            ProxyFault::Answered(AUTHENTICATION_REQUIRED) => tracing::warn!(
                status = AUTHENTICATION_REQUIRED,
                "the proxy of {PROXY_VARIABLES} refused a connection: put credentials that it takes into its URL"
            ),
            ProxyFault::Answered(status) => tracing::warn!(
                status,
                "the proxy of {PROXY_VARIABLES} refused a connection: it does not let gig through to that host; ask who \
                 runs it, or name the host in NO_PROXY"
            ),
            ProxyFault::Unreached => {
                tracing::warn!("{why}: start it, set {PROXY_VARIABLES} to where it is, or unset it")
            }
            ProxyFault::Broken => {
                tracing::warn!("{why}: is what {PROXY_VARIABLES} names a proxy for HTTP (http://)?")
            }
        }
    }

    /// Once: a host behind a proxy often has no name server for outside names.
    fn warn_of_names(&self, permit: &ConnectPermit, reason: DenyReason) {
        let here = self.upstream_proxy.as_ref().is_some_and(|p| !p.resolves());
        if reason != DenyReason::NameNotResolved
            || !here
            || self.warned_of_names.swap(true, Ordering::Relaxed)
        {
            return;
        }
        tracing::warn!(
            server.address = %permit.host(),
            "a name has no address here; where only the proxy of {PROXY_VARIABLES} finds names, have it asked for them: \
             GIG_UPSTREAM_PROXY_NAMES=proxy"
        );
    }

    /// A connection to the proxy itself.
    async fn reach(&self, proxy: &UpstreamProxy) -> Result<(TcpStream, SocketAddr), Stopped> {
        // The proxy is the choice of the host's owner and usually private: it is not vetted.
        let unreached = |why: &dyn fmt::Display| Stopped {
            reason: DenyReason::DestinationUnavailable,
            // Not the origin's address.
            addr: None,
            by_proxy: Some(ProxyFault::Unreached),
            why: format!(
                "the proxy of {PROXY_VARIABLES} ({}:{}) is not reached: {why}",
                proxy.host(),
                proxy.port()
            ),
        };
        let addresses = match proxy.host() {
            Host::Ip(ip) => vec![*ip],
            Host::Name(name) => {
                let found = self.resolver.addresses(name).await;
                found.map_err(|error| unreached(&error))?
            }
        };
        let addresses: Vec<_> = addresses
            .into_iter()
            .map(|ip| SocketAddr::new(ip, proxy.port().get()))
            .collect();
        let reached = race(&addresses, &self.deadlines).await;
        reached.map_err(|error| unreached(&error.source))
    }
}

/// Addresses of one host that the proxy is asked for: two of each family, within the time for all.
const MAX_TUNNELS: usize = 4;
/// What names it, in gig's own environment.
const PROXY_VARIABLES: &str = "HTTPS_PROXY (or ALL_PROXY)";
/// RFC 9110 §15.5.8 and §15.6.5.
const AUTHENTICATION_REQUIRED: u16 = 407;
const GATEWAY_TIMEOUT: u16 = 504;

/// A [`DialError`] without its host.
#[derive(Debug)]
struct Stopped {
    reason: DenyReason,
    addr: Option<SocketAddr>,
    by_proxy: Option<ProxyFault>,
    why: String,
}

impl Stopped {
    fn new(reason: DenyReason, why: &str) -> Self {
        Self {
            reason,
            addr: None,
            by_proxy: None,
            why: why.to_owned(),
        }
    }

    fn timeout() -> Self {
        Self::new(
            DenyReason::ConnectionTimeout,
            "all attempts together took too long",
        )
    }
}

impl From<ResolveError> for Stopped {
    fn from(error: ResolveError) -> Self {
        Self {
            reason: error.reason,
            addr: None,
            by_proxy: None,
            why: error.to_string(),
        }
    }
}

impl From<VetError> for Stopped {
    fn from(error: VetError) -> Self {
        Self {
            reason: error.reason,
            addr: Some(error.address),
            by_proxy: None,
            why: error.to_string(),
        }
    }
}

impl From<RaceError> for Stopped {
    fn from(error: RaceError) -> Self {
        let reason = match error.source.kind() {
            io::ErrorKind::ConnectionRefused => DenyReason::ConnectionRefused,
            io::ErrorKind::TimedOut => DenyReason::ConnectionTimeout,
            _ => DenyReason::DestinationUnavailable,
        };
        Self {
            reason,
            addr: error.addr,
            by_proxy: None,
            why: error.source.to_string(),
        }
    }
}

impl From<TunnelError> for Stopped {
    fn from(error: TunnelError) -> Self {
        let reason = match &error {
            TunnelError::Refused(GATEWAY_TIMEOUT) => DenyReason::ConnectionTimeout,
            TunnelError::Refused(_) | TunnelError::Malformed | TunnelError::Io(_) => {
                DenyReason::DestinationUnavailable
            }
        };
        // Of a gateway that was slow it is known that it was let through.
        let by_proxy = match &error {
            TunnelError::Refused(status) if *status != GATEWAY_TIMEOUT => {
                Some(ProxyFault::Answered(*status))
            }
            TunnelError::Malformed | TunnelError::Io(_) => Some(ProxyFault::Broken),
            TunnelError::Refused(_) => None,
        };
        Self {
            reason,
            addr: None,
            by_proxy,
            why: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
