//! Links: the veth pair of a slot, its removal, and `lo`.
//!
//! Message constructors only; `kernel/linux` sends them. Both ends are born
//! with their names, indexes, MACs and namespaces, so that no look-up and no
//! moment under another name exists.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::netlink::{Message, find_attribute};
use crate::plan::{SANDBOX_LINK, SANDBOX_LINK_INDEX, SlotPlan};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
/// Bytes of `struct ifinfomsg`.
const HEADER: usize = 16;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
/// The most a veth takes. Nothing between the two ends cuts packets, so that
/// small ones would only be more of them: each pays for its way through the
/// firewall and the TCP of both sides.
const MTU: u32 = 65_535;
/// What TCP may hand over in one piece, and what a receiver may gather, beyond
/// what an IPv4 header can count ("BIG TCP", Linux 6.3; older kernels pass these
/// attributes over). A gibibyte then costs a fifth to a third less of the
/// kernel's time on either side.
const PIECE: u32 = 192 * 1024;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_GRO_IPV4_MAX_SIZE: u16 = 64;
const IFLA_OPERSTATE: u16 = 16;
/// RFC 2863's `up`: the carrier is there and the queue is in place.
const IF_OPER_UP: u8 = 6;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFF_UP: u32 = 0x1;
/// No ARP on the hub's end: it neither asks nor answers, so a sandbox learns
/// of no other gateway and can claim no other address. Both ends know each
/// other by a permanent neighbour entry.
const IFF_NOARP: u32 = 0x80;
pub(crate) const LOOPBACK_INDEX: u32 = 1;

/// Makes the pair: one end here and up, the other in `namespace`.
pub(crate) fn new_veth(slot: &SlotPlan, namespace: BorrowedFd<'_>) -> Message {
    let mut message = Message::new("make a veth pair", RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
    put_header(&mut message, slot.hub_index, IFF_UP | IFF_NOARP);
    message
        .attribute(IFLA_IFNAME, &name(&slot.hub_link))
        .attribute(IFLA_ADDRESS, &slot.hub_mac)
        .attribute(IFLA_MTU, &MTU.to_ne_bytes())
        .attribute(IFLA_GSO_IPV4_MAX_SIZE, &PIECE.to_ne_bytes())
        .attribute(IFLA_GRO_IPV4_MAX_SIZE, &PIECE.to_ne_bytes())
        .nested(IFLA_LINKINFO, |info| {
            info.attribute(IFLA_INFO_KIND, b"veth")
                .nested(IFLA_INFO_DATA, |data| {
                    data.nested(VETH_INFO_PEER, |peer| {
                        // Not up yet: the kernel refuses that before the pair is one.
                        put_header(peer, SANDBOX_LINK_INDEX, 0);
                        peer.attribute(IFLA_IFNAME, &name(SANDBOX_LINK))
                            .attribute(IFLA_ADDRESS, &slot.sandbox_mac)
                            .attribute(IFLA_MTU, &MTU.to_ne_bytes())
                            .attribute(IFLA_GSO_IPV4_MAX_SIZE, &PIECE.to_ne_bytes())
                            .attribute(IFLA_GRO_IPV4_MAX_SIZE, &PIECE.to_ne_bytes())
                            .attribute(IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
                    });
                });
        });
    message
}

/// Takes the hub's end down: nothing passes the pair any more. Removing it at
/// once would make the hub wait for every processor, some twenty milliseconds.
pub(crate) fn hub_down(slot: &SlotPlan) -> Message {
    let mut message = Message::new("cut a veth pair", RTM_NEWLINK, 0);
    put_flags(&mut message, slot.hub_index, 0, IFF_UP);
    message
}

/// Removes the pair: its other end goes with it.
pub(crate) fn delete_veth(slot: &SlotPlan) -> Message {
    let mut message = Message::new("remove a veth pair", RTM_DELLINK, 0);
    put_header(&mut message, slot.hub_index, 0);
    message
}

/// Brings `lo` up.
pub(crate) fn loopback_up() -> Message {
    up("bring lo up", LOOPBACK_INDEX)
}

/// Brings the sandbox's end up.
pub(crate) fn sandbox_up() -> Message {
    up("bring eth0 up", SANDBOX_LINK_INDEX)
}

/// Asks for the hub's end.
pub(crate) fn get_hub_end(slot: &SlotPlan) -> Message {
    get(slot.hub_index)
}

/// Asks for the sandbox's end.
pub(crate) fn get_sandbox_end() -> Message {
    get(SANDBOX_LINK_INDEX)
}

/// Whether the answer describes a link that transmits.
pub(crate) fn transmits(answer: &[u8]) -> bool {
    find_attribute(answer, HEADER, IFLA_OPERSTATE) == Some(&[IF_OPER_UP])
}

fn get(index: u32) -> Message {
    let mut message = Message::new("describe a link", RTM_GETLINK, 0);
    put_header(&mut message, index, 0);
    message
}

fn up(what: &'static str, index: u32) -> Message {
    let mut message = Message::new(what, RTM_NEWLINK, 0);
    put_header(&mut message, index, IFF_UP);
    message
}

fn put_header(message: &mut Message, index: u32, flags: u32) {
    put_flags(message, index, flags, flags);
}

/// `struct ifinfomsg`: family, type, index, flags, and which flags to change.
fn put_flags(message: &mut Message, index: u32, flags: u32, change: u32) {
    message
        .put(&[0; 4])
        .put(&index.to_ne_bytes())
        .put(&flags.to_ne_bytes())
        .put(&change.to_ne_bytes());
}

fn name(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes
}
