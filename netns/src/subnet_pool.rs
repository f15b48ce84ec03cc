//! The pool of /30s: slot number to the two addresses of one sandbox's link.
//!
//! Pure arithmetic. Promises that two slots never share an address and that a
//! slot past the pool's end is refused, not wrapped. The addresses exist inside
//! the hub only, so they clash with nothing on the host.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// Addresses of one /30: network, gateway, sandbox, broadcast.
const ADDRESSES_PER_SLOT: u32 = 4;

/// A range of addresses cut into /30s, one a slot.
#[derive(Debug, Clone, Copy)]
pub struct SubnetPool {
    subnet: Ipv4Net,
}

/// Why a range cannot serve as the pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubnetPoolError {
    /// The range holds fewer /30s than slots are wanted.
    #[error(
        "subnet {subnet} has room for {room} sandboxes, {slots} are wanted; give a wider range, such as 10.200.0.0/16"
    )]
    TooSmall {
        /// The range that was given.
        subnet: Ipv4Net,
        /// /30s in it.
        room: u32,
        /// Slots wanted.
        slots: u16,
    },
    /// The range is one that a host would treat specially.
    #[error(
        "subnet {subnet} is loopback, link-local, multicast or of what names have inside (198.18.0.0/15); give a private \
         range, such as 10.200.0.0/16"
    )]
    Unusable {
        /// The range that was given.
        subnet: Ipv4Net,
    },
}

/// Addresses that stand for names inside each sandbox (RFC 2544).
const FIRST_OF_NAMES: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const LAST_OF_NAMES: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 255);

impl SubnetPool {
    /// A pool with room for `slots` sandboxes.
    ///
    /// # Errors
    /// If the range is too small or of a special kind.
    pub fn new(subnet: Ipv4Net, slots: u16) -> Result<Self, SubnetPoolError> {
        let subnet = subnet.trunc();
        let first = subnet.network();
        let last = subnet.broadcast();
        let special = |address: Ipv4Addr| {
            address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.octets()[0] == 0
                || address.octets()[0] >= 240
        };
        let of_names = first <= LAST_OF_NAMES && last >= FIRST_OF_NAMES;
        if special(first) || special(last) || of_names {
            return Err(SubnetPoolError::Unusable { subnet });
        }
        let bits = 32_u32.saturating_sub(u32::from(subnet.prefix_len()));
        let room = bits
            .checked_sub(2)
            .map_or(0, |bits| 1_u32.checked_shl(bits).unwrap_or(u32::MAX));
        if room < u32::from(slots) {
            return Err(SubnetPoolError::TooSmall {
                subnet,
                room,
                slots,
            });
        }
        Ok(Self { subnet })
    }

    /// The hub's end of a slot's /30.
    #[must_use]
    pub fn gateway(&self, slot: u16) -> Ipv4Addr {
        self.nth(slot, 1)
    }

    /// The sandbox's end of a slot's /30.
    #[must_use]
    pub fn address(&self, slot: u16) -> Ipv4Addr {
        self.nth(slot, 2)
    }

    fn nth(&self, slot: u16, host: u32) -> Ipv4Addr {
        let base = u32::from(self.subnet.network());
        Ipv4Addr::from(
            base.saturating_add(u32::from(slot).saturating_mul(ADDRESSES_PER_SLOT))
                .saturating_add(host),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn slots_never_share_an_address() {
        let pool = SubnetPool::new("10.200.0.0/16".parse().unwrap(), 16_384).unwrap();
        let mut seen = HashSet::new();
        for slot in 0..16_384 {
            assert!(seen.insert(pool.gateway(slot)));
            assert!(seen.insert(pool.address(slot)));
        }
        assert_eq!(pool.address(0), Ipv4Addr::new(10, 200, 0, 2));
        assert_eq!(pool.gateway(64), Ipv4Addr::new(10, 200, 1, 1));
    }

    #[test]
    fn small_or_special_ranges_are_refused() {
        assert!(SubnetPool::new("10.0.0.0/30".parse().unwrap(), 1).is_ok());
        assert!(SubnetPool::new("10.0.0.0/30".parse().unwrap(), 2).is_err());
        assert!(SubnetPool::new("10.0.0.0/31".parse().unwrap(), 1).is_err());
        for special in [
            "127.0.0.0/16",
            "169.254.0.0/16",
            "224.0.0.0/8",
            "0.0.0.0/0",
            "240.0.0.0/8",
            "198.18.0.0/16",
            "198.19.255.0/24",
            "198.0.0.0/8",
        ] {
            assert!(
                SubnetPool::new(special.parse().unwrap(), 1).is_err(),
                "{special}"
            );
        }
    }
}
