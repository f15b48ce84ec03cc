//! The one route of a sandbox: everything goes to its gateway; in a namespace that gig did not make, to `lo`.
//!
//! A message constructor only.

use crate::link::LOOPBACK_INDEX;
use crate::netlink::Message;
use crate::plan::{SANDBOX_LINK_INDEX, SlotPlan};

const RTM_NEWROUTE: u16 = 24;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_REPLACE: u16 = 0x100;
const AF_INET: u8 = 2;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
/// The gateway is on the link though no route says so: there is no other route.
const RTNH_F_ONLINK: u32 = 4;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;

/// A default route that leads nowhere but back: what is sent anywhere meets the firewall at `lo`.
pub(crate) fn default_by_loopback() -> Message {
    let mut message = Message::new(
        "add the default route",
        RTM_NEWROUTE,
        NLM_F_CREATE | NLM_F_REPLACE,
    );
    message
        .put(&[
            AF_INET,
            0,
            0,
            0,
            RT_TABLE_MAIN,
            RTPROT_STATIC,
            RT_SCOPE_LINK,
            RTN_UNICAST,
        ])
        .put(&[0; 4]);
    message
        .attribute(RTA_OIF, &LOOPBACK_INDEX.to_ne_bytes())
        .attribute(RTA_PREFSRC, &[127, 0, 0, 1]);
    message
}

/// The default route of a sandbox.
pub(crate) fn default_via_gateway(slot: &SlotPlan) -> Message {
    let mut message = Message::new(
        "add the default route",
        RTM_NEWROUTE,
        NLM_F_CREATE | NLM_F_EXCL,
    );
    // `struct rtmsg`: family, destination and source length, tos, table, protocol, scope, type, flags.
    message
        .put(&[
            AF_INET,
            0,
            0,
            0,
            RT_TABLE_MAIN,
            RTPROT_STATIC,
            RT_SCOPE_UNIVERSE,
            RTN_UNICAST,
        ])
        .put(&RTNH_F_ONLINK.to_ne_bytes());
    message
        .attribute(RTA_GATEWAY, &slot.gateway.octets())
        .attribute(RTA_OIF, &SANDBOX_LINK_INDEX.to_ne_bytes());
    message
}
