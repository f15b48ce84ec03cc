//! May this address be dialled? The only maker of [`VettedAddr`].
//!
//! Every address that an origin's name resolves to (or that a program dialled itself) is judged on
//! its own: by the IANA registries and the addresses hidden in transition formats
//! ([`gig_policy::special_purpose`]), by whether it is one of this host's own, and by whether one of
//! gig's listeners is behind it. What `allow_private` of the permit names is opened, except for the
//! never-openable core. The vetted address is the one dialled, so that a second, different answer of
//! the name server changes nothing.
//!
//! A mixed answer is used in part: special-purpose addresses in it are left out, because resolvers
//! add them in honest networks too (DNS64, split horizon) and leaving out is as safe as refusing.
//! An answer with an address of the never-openable core is refused whole: no honest zone publishes
//! one.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
};

use gig_policy::{
    ConnectPermit, DenyReason, Host, Port, Reach,
    special_purpose::{AddressRefusal, PRIVATE_USE, admit},
};
use ipnet::IpNet;
use thiserror::Error;

use super::{announced, elsewhere::Elsewhere, own};

/// An address that was vetted for one permit; the only thing that is ever dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VettedAddr {
    address: SocketAddr,
    private: bool,
}

impl VettedAddr {
    /// The address and port.
    #[must_use]
    pub const fn get(self) -> SocketAddr {
        self.address
    }

    /// Whether only `allow_private` opened it.
    #[must_use]
    pub const fn is_private(self) -> bool {
        self.private
    }
}

/// Places of gig itself, which nothing opens to a sandbox.
#[derive(Debug, Clone, Default)]
pub struct NeverOpen {
    /// Listeners, by address and port; an unspecified address stands for every address of the host.
    pub listeners: Vec<SocketAddr>,
    /// By name, whatever it resolves to and whoever resolves it, and by each address that it has: where gig is
    /// reached from outside, its database.
    pub hosts: Vec<(Host, Port)>,
    /// Where the other nodes of its fleet listen.
    pub elsewhere: Elsewhere,
}

impl NeverOpen {
    /// Whether this is one of them by name.
    #[must_use]
    pub fn names(&self, host: &Host, port: Port) -> bool {
        self.hosts
            .iter()
            .any(|(one, at)| one == host && *at == port)
    }
}

/// No address of a host may be dialled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{address} is refused: {why}")]
pub struct VetError {
    /// What the program is told.
    pub reason: DenyReason,
    /// The first refused address, for record and log; never told to the program.
    pub address: SocketAddr,
    /// The registry entry.
    pub why: String,
}

/// Vets addresses against the registries, the host's own addresses and our own listeners.
#[derive(Debug)]
pub struct Vetter {
    never_open: NeverOpen,
    /// This host lets programs bind addresses that it does not have.
    binds_foreign: bool,
}

impl Vetter {
    /// A vetter that also refuses `never_open`.
    #[must_use]
    pub fn new(never_open: NeverOpen) -> Self {
        Self {
            never_open,
            binds_foreign: binds(IpAddr::V4(DOCUMENTATION)).unwrap_or(true),
        }
    }

    /// The addresses that may be dialled, in the order given.
    ///
    /// # Errors
    /// When none may, or one of them is never openable.
    pub fn vet(
        &self,
        addresses: &[SocketAddr],
        permit: &ConnectPermit,
    ) -> Result<Vec<VettedAddr>, VetError> {
        match permit.reach() {
            Reach::External => self.vet_for(addresses, Open::by(permit)),
            Reach::Local => self.vet_for(&self.not_public(addresses)?, Open::by(permit)),
        }
    }

    /// Leaves public addresses out, whatever a rule names.
    fn not_public(&self, addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>, VetError> {
        let kept: Vec<_> = addresses
            .iter()
            .filter(|address| {
                let ip = address.ip().to_canonical();
                admit(ip, &[]).is_err() || self.is_own(ip).unwrap_or(true)
            })
            .copied()
            .collect();
        match (kept.is_empty(), addresses.first()) {
            (true, Some(first)) => Err(VetError {
                reason: DenyReason::PublicAddress,
                address: *first,
                why: "it is public, and the policy reaches private ranges only".to_owned(),
            }),
            _ => Ok(kept),
        }
    }

    fn vet_for(
        &self,
        addresses: &[SocketAddr],
        open: Open<'_>,
    ) -> Result<Vec<VettedAddr>, VetError> {
        let mut vetted = Vec::with_capacity(addresses.len());
        let mut refused = None;
        for address in addresses {
            match self.judge(*address, open) {
                Ok(one) => vetted.push(one),
                Err(error) if error.reason == DenyReason::NeverOpenable => return Err(error),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            Some(error) if vetted.is_empty() => Err(error),
            _ => Ok(vetted),
        }
    }

    fn judge(&self, address: SocketAddr, open: Open<'_>) -> Result<VettedAddr, VetError> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let refuse = |reason, why: String| VetError {
            reason,
            address,
            why,
        };
        let ip = address.ip();
        open.admit(ip)
            .map_err(|refusal| refuse(refusal.reason(), refusal.to_string()))?;
        let own = self.is_own(ip).map_err(|error| {
            refuse(
                DenyReason::Internal,
                format!("cannot tell whether it is this host's: {error}"),
            )
        })?;
        if own && !open.names(ip) {
            return Err(refuse(
                DenyReason::PrivateAddress,
                "it is this host's own".to_owned(),
            ));
        }
        if is_among(&self.never_open.listeners, address, own) {
            let why = "gig itself listens there".to_owned();
            return Err(refuse(DenyReason::NeverOpenable, why));
        }
        if self.never_open.elsewhere.has(address) {
            let why = "another node of its fleet listens there".to_owned();
            return Err(refuse(DenyReason::NeverOpenable, why));
        }
        if own {
            let others = announced::listeners().map_err(|error| {
                let why = format!("cannot tell whether another gig listens there: {error}");
                refuse(DenyReason::Internal, why)
            })?;
            if is_among(&others, address, own) {
                let why = "another gig listens there".to_owned();
                return Err(refuse(DenyReason::NeverOpenable, why));
            }
        }
        let private = own || matches!(admit(ip, &[]), Err(AddressRefusal::Private { .. }));
        Ok(VettedAddr { address, private })
    }

    /// Asks the kernel, which knows at every moment: an address is the host's own when a socket can
    /// be bound to it. Where `ip_nonlocal_bind` makes that true of all, the routing table is read.
    fn is_own(&self, ip: IpAddr) -> io::Result<bool> {
        if !binds(ip)? {
            return Ok(false);
        }
        if !self.binds_foreign {
            return Ok(true);
        }
        let all = match ip {
            IpAddr::V4(_) => own::v4(),
            IpAddr::V6(_) => own::v6(),
        };
        all.map(|all| all.contains(&ip))
    }
}

/// Whether one of `listeners` is behind an address, which may be this host's `own`.
fn is_among(listeners: &[SocketAddr], address: SocketAddr, own: bool) -> bool {
    listeners.iter().any(|listener| {
        let at = listener.ip().to_canonical();
        let here =
            at == address.ip() || (at.is_unspecified() && (own || address.ip().is_loopback()));
        here && listener.port() == address.port()
    })
}

/// What one permit opens beyond public addresses.
#[derive(Debug, Clone, Copy)]
struct Open<'a> {
    /// Named by the rules: `allow_private`.
    named: &'a [IpNet],
    /// All private ranges, by the policy's reach. The host's own addresses are not among them.
    private_use: bool,
}

impl<'a> Open<'a> {
    /// What a rule does not allow passes in observe mode, and private ranges stay closed to it.
    fn by(permit: &'a ConnectPermit) -> Self {
        Self {
            named: permit.allow_private(),
            private_use: permit.reach() == Reach::Local && permit.would_deny().is_none(),
        }
    }

    fn names(self, ip: IpAddr) -> bool {
        self.named.iter().any(|net| net.contains(&ip))
    }

    fn admit(self, ip: IpAddr) -> Result<(), AddressRefusal> {
        if self.private_use {
            admit(ip, &[self.named, &PRIVATE_USE].concat())
        } else {
            admit(ip, self.named)
        }
    }
}

/// Whether `permit` still opens the special-purpose address that a connection is open to.
#[must_use]
pub fn still_opens(permit: &ConnectPermit, ip: IpAddr) -> bool {
    let open = Open::by(permit);
    // A public address is noted only where it is the host's own, which opens by name alone.
    if admit(ip, &[]).is_ok() {
        open.names(ip)
    } else {
        open.admit(ip).is_ok()
    }
}

fn binds(ip: IpAddr) -> io::Result<bool> {
    match UdpSocket::bind(SocketAddr::new(ip, 0)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(false),
        // No IPv6 on this host: none of its addresses is the host's. Link-local without an
        // interface: EINVAL; not this host's to dial either, since no interface is named.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EAFNOSUPPORT | libc::EINVAL)
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// 192.0.2.1 (RFC 5737): nobody's, so that only `ip_nonlocal_bind` lets it be bound.
const DOCUMENTATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

#[cfg(test)]
mod tests;
