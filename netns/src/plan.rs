//! What the hub will make, worked out before anything is made.
//!
//! Pure: from the configuration to every interface name, index, MAC and
//! address. The same plan feeds the kernel calls and the firewall, so the two
//! cannot disagree.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::subnet_pool::{SubnetPool, SubnetPoolError};

/// Name of the one interface a sandbox has besides `lo`.
pub(crate) const SANDBOX_LINK: &str = "eth0";
/// Its index in the sandbox; high enough that fallback devices, which some
/// kernel modules put into every new namespace, do not hold it.
pub(crate) const SANDBOX_LINK_INDEX: u32 = 100;
/// DNS is taken on this port whatever address it was sent to.
pub(crate) const DNS_PORT: u16 = 53;

/// Index of slot 0's interface in the hub.
const FIRST_HUB_INDEX: u32 = 1000;
/// TCP arrives here, redirected. Any two ports do: the hub has no other listeners.
const REDIRECT_PORTS: [u16; 2] = [15_001, 15_002];

/// What the hub is asked to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HubSettings {
    /// Sandboxes at once.
    pub(crate) slots: u16,
    /// Range that the /30s are cut from.
    pub(crate) subnet: Ipv4Net,
    /// Port of the explicit proxy on every gateway address.
    pub(crate) explicit_port: u16,
    /// Whether each slot has ids of its own.
    pub(crate) ids: HubIds,
}

/// Ids as the hub sees them, inside its own user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HubIds {
    /// One id, not 0, for everything.
    Single,
    /// Id 0 for the hub; slot n has `per_sandbox` ids from `first + n * per_sandbox`.
    Range {
        /// First id of slot 0.
        first: u32,
        /// Ids a slot.
        per_sandbox: u32,
    },
}

/// Everything about one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotPlan {
    pub(crate) slot: u16,
    pub(crate) hub_link: String,
    pub(crate) hub_index: u32,
    pub(crate) hub_mac: [u8; 6],
    pub(crate) gateway: Ipv4Addr,
    pub(crate) sandbox_mac: [u8; 6],
    pub(crate) address: Ipv4Addr,
}

/// Everything about the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HubPlan {
    pub(crate) slots: Vec<SlotPlan>,
    pub(crate) explicit_port: u16,
    pub(crate) redirect_port: u16,
}

impl HubPlan {
    /// Works the plan out.
    pub(crate) fn new(settings: &HubSettings) -> Result<Self, SubnetPoolError> {
        let pool = SubnetPool::new(settings.subnet, settings.slots)?;
        let [usual, other] = REDIRECT_PORTS;
        Ok(Self {
            slots: (0..settings.slots)
                .map(|slot| SlotPlan::new(&pool, slot))
                .collect(),
            explicit_port: settings.explicit_port,
            redirect_port: if settings.explicit_port == usual {
                other
            } else {
                usual
            },
        })
    }

    /// The plan of one slot, if there is such a slot.
    pub(crate) fn slot(&self, slot: u16) -> Option<&SlotPlan> {
        self.slots.get(usize::from(slot))
    }
}

impl SlotPlan {
    fn new(pool: &SubnetPool, slot: u16) -> Self {
        Self {
            slot,
            hub_link: format!("gig{slot}"),
            hub_index: FIRST_HUB_INDEX + u32::from(slot),
            hub_mac: mac(Side::Hub, slot),
            gateway: pool.gateway(slot),
            sandbox_mac: mac(Side::Sandbox, slot),
            address: pool.address(slot),
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Hub = 1,
    Sandbox = 2,
}

/// A locally administered, unicast MAC that says nothing about the host.
fn mac(side: Side, slot: u16) -> [u8; 6] {
    let [high, low] = slot.to_be_bytes();
    [0x02, b'g', b'i', side as u8, high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(explicit_port: u16) -> HubSettings {
        HubSettings {
            slots: 3,
            subnet: "10.200.0.0/16".parse().unwrap(),
            explicit_port,
            ids: HubIds::Single,
        }
    }

    #[test]
    fn every_slot_has_names_and_addresses_of_its_own() {
        let plan = HubPlan::new(&settings(8081)).unwrap();
        assert_eq!(plan.slots.len(), 3);
        let two = plan.slot(2).unwrap();
        assert_eq!(two.hub_link, "gig2");
        assert_eq!(two.gateway, Ipv4Addr::new(10, 200, 0, 9));
        assert_eq!(two.address, Ipv4Addr::new(10, 200, 0, 10));
        assert_ne!(two.hub_mac, two.sandbox_mac);
        assert_eq!(plan.slot(3), None);
    }

    #[test]
    fn redirect_port_steps_aside_for_the_explicit_port() {
        assert_eq!(HubPlan::new(&settings(8081)).unwrap().redirect_port, 15_001);
        assert_eq!(
            HubPlan::new(&settings(15_001)).unwrap().redirect_port,
            15_002
        );
    }
}
