//! Addresses of the two ends of a slot's link, and how each knows the other.
//!
//! Message constructors only. Neighbour entries are permanent, so that no ARP
//! is spoken on the link.

use std::net::Ipv4Addr;

use crate::netlink::Message;
use crate::plan::{SANDBOX_LINK_INDEX, SlotPlan};

const RTM_NEWADDR: u16 = 20;
const RTM_NEWNEIGH: u16 = 28;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_REPLACE: u16 = 0x100;
const AF_INET: u8 = 2;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// The address brings no route along: the only route is the one we add.
const IFA_F_NOPREFIXROUTE: u32 = 0x200;
const PREFIX: u8 = 30;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;

/// The gateway address on the hub's end.
pub(crate) fn on_hub(slot: &SlotPlan) -> Message {
    new_address(slot.hub_index, slot.gateway, 0)
}

/// The sandbox's address on its end.
pub(crate) fn on_sandbox(slot: &SlotPlan) -> Message {
    new_address(SANDBOX_LINK_INDEX, slot.address, IFA_F_NOPREFIXROUTE)
}

/// The hub's knowledge of the sandbox's MAC.
pub(crate) fn sandbox_as_neighbour(slot: &SlotPlan) -> Message {
    new_neighbour(slot.hub_index, slot.address, slot.sandbox_mac)
}

/// The sandbox's knowledge of the gateway's MAC.
pub(crate) fn gateway_as_neighbour(slot: &SlotPlan) -> Message {
    new_neighbour(SANDBOX_LINK_INDEX, slot.gateway, slot.hub_mac)
}

fn new_address(index: u32, address: Ipv4Addr, flags: u32) -> Message {
    let mut message = Message::new("add an address", RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
    // `struct ifaddrmsg`: family, prefix length, flags, scope, index.
    message
        .put(&[AF_INET, PREFIX, 0, 0])
        .put(&index.to_ne_bytes());
    message
        .attribute(IFA_LOCAL, &address.octets())
        .attribute(IFA_ADDRESS, &address.octets())
        .attribute(IFA_FLAGS, &flags.to_ne_bytes());
    message
}

fn new_neighbour(index: u32, address: Ipv4Addr, mac: [u8; 6]) -> Message {
    let mut message = Message::new(
        "add a neighbour",
        RTM_NEWNEIGH,
        NLM_F_CREATE | NLM_F_REPLACE,
    );
    // `struct ndmsg`: family, padding, index, state, flags, type.
    message
        .put(&[AF_INET, 0, 0, 0])
        .put(&index.to_ne_bytes())
        .put(&NUD_PERMANENT.to_ne_bytes())
        .put(&[0, 0]);
    message
        .attribute(NDA_DST, &address.octets())
        .attribute(NDA_LLADDR, &mac);
    message
}
