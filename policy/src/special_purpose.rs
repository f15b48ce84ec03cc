//! Which addresses are not public: the IANA special-purpose registries, and what stands above them.
//!
//! [`classify`] names the registry row of an address. An address that carries an IPv4 address inside
//! (mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP) is judged by both. [`admit`] is the
//! decision that vetting makes: public addresses pass, special ones pass where `allow_private` names
//! them, and the never-openable core (metadata services, "this host", multicast) never does.
//! Which names resolve to which addresses, and gig's own listeners, are left to the proxy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use thiserror::Error;

use crate::deny_reason::DenyReason;

mod embedded;
mod registry;
#[cfg(test)]
mod tests;

pub use embedded::Transition;

/// Ranges that organisations number their own networks from: RFC 1918, RFC 6598 (shared address
/// space), RFC 4193 (unique local). What a policy of [`crate::Reach::Local`] reaches.
pub const PRIVATE_USE: [IpNet; 5] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10)),
    IpNet::V6(Ipv6Net::new_assert(
        Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0),
        7,
    )),
];

/// What kind of address it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressClass {
    /// Global unicast in no registry row.
    Global,
    /// In a special-purpose row; `allow_private` may open it.
    Special {
        /// The registry's name of the row.
        name: &'static str,
    },
    /// Nothing opens it.
    NeverOpenable {
        /// What lives there.
        name: &'static str,
    },
}

impl AddressClass {
    /// The name of the registry row; `None` for a global address.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Global => None,
            Self::Special { name } | Self::NeverOpenable { name } => Some(name),
        }
    }

    const fn is_global(self) -> bool {
        matches!(self, Self::Global)
    }
}

/// Why an address may not be dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AddressRefusal {
    /// Not public, and no matching rule opens it.
    #[error("{address} is a special-purpose address ({name}) that no rule opens")]
    Private {
        /// The refused address.
        address: IpAddr,
        /// The registry row.
        name: &'static str,
    },
    /// In the core that nothing opens.
    #[error("{address} can never be opened ({name})")]
    NeverOpenable {
        /// The refused address.
        address: IpAddr,
        /// What lives there.
        name: &'static str,
    },
}

impl AddressRefusal {
    /// The word for records and answers.
    #[must_use]
    pub const fn reason(&self) -> DenyReason {
        match self {
            Self::Private { .. } => DenyReason::PrivateAddress,
            Self::NeverOpenable { .. } => DenyReason::NeverOpenable,
        }
    }

    /// The name of the registry row or of what lives there.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Private { name, .. } | Self::NeverOpenable { name, .. } => name,
        }
    }
}

/// The class of an address, with every IPv4 address that it carries inside taken into account: the
/// strictest of them holds.
#[must_use]
pub fn classify(address: IpAddr) -> AddressClass {
    match address.to_canonical() {
        IpAddr::V4(v4) => classify_v4(v4),
        IpAddr::V6(v6) => classify_v6(v6),
    }
}

/// May a rule that opens `allow_private` reach this address?
///
/// An address that carries another needs both: `allow_private: [64:ff9b::/96]` alone lets a NAT64
/// address pass whose inside is public, and not one whose inside is `10.0.0.1`.
///
/// # Errors
/// [`AddressRefusal`] with the registry row, when it may not.
pub fn admit(address: IpAddr, allow_private: &[IpNet]) -> Result<(), AddressRefusal> {
    let address = address.to_canonical();
    let class = classify(address);
    let opened = |ip: IpAddr| allow_private.iter().any(|net| net.contains(&ip));
    match class {
        AddressClass::Global => Ok(()),
        AddressClass::NeverOpenable { name } => {
            Err(AddressRefusal::NeverOpenable { address, name })
        }
        AddressClass::Special { name } => {
            let outside_open = row(address).is_none() || opened(address);
            let inside_open = Transition::of(address).all(|t| {
                t.advisory || classify_v4(t.inside).is_global() || opened(IpAddr::V4(t.inside))
            });
            if outside_open && inside_open {
                Ok(())
            } else {
                Err(AddressRefusal::Private { address, name })
            }
        }
    }
}

/// What `allow_private` has to name for [`admit`] to let an address pass: nothing for a public one, and for one that
/// carries another both where both are not.
#[must_use]
pub fn to_open(address: IpAddr) -> Vec<IpAddr> {
    let address = address.to_canonical();
    let outside = row(address).map(|_| address);
    let inside = Transition::of(address)
        .filter(|one| !one.advisory && !classify_v4(one.inside).is_global())
        .map(|one| IpAddr::V4(one.inside));
    outside.into_iter().chain(inside).collect()
}

/// The first never-openable address or range that `net` touches, with what lives there. A document
/// that names such a range in `allow_private` is refused.
#[must_use]
pub fn core_within(net: &IpNet) -> Option<(IpNet, &'static str)> {
    let touches = |core: &IpNet| core.contains(net) || net.contains(core);
    let mut rows = registry::core_nets();
    rows.find(|(core, _)| touches(core))
}

/// The registry row of the address itself, without a look inside.
pub(crate) fn row(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => registry::row_v4(v4),
        IpAddr::V6(v6) => registry::row_v6(v6),
    }
}

fn classify_v4(v4: Ipv4Addr) -> AddressClass {
    if let Some(name) = registry::core_v4(v4) {
        return AddressClass::NeverOpenable { name };
    }
    registry::row_v4(v4).map_or(AddressClass::Global, |name| AddressClass::Special { name })
}

fn classify_v6(v6: Ipv6Addr) -> AddressClass {
    if let Some(name) = registry::core_v6(v6) {
        return AddressClass::NeverOpenable { name };
    }
    let mut inside = None;
    for transition in Transition::of(IpAddr::V6(v6)) {
        match classify_v4(transition.inside) {
            AddressClass::NeverOpenable { name } => {
                // A guess at where an operator's translator puts the address must not close what
                // the guess reads as 0.0.0.0; a metadata address is no accident.
                if !transition.advisory || registry::is_metadata(transition.inside) {
                    return AddressClass::NeverOpenable { name };
                }
            }
            AddressClass::Special { name } if !transition.advisory => inside = Some(name),
            AddressClass::Special { .. } | AddressClass::Global => {}
        }
    }
    let name = inside.or_else(|| registry::row_v6(v6));
    name.map_or(AddressClass::Global, |name| AddressClass::Special { name })
}
