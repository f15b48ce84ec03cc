//! What is in a namespace that gig did not make: anything but `lo` and gig's own is a reason to leave it.
//!
//! The kernel is asked for whole lists; what they mean is decided without it. Names are of strangers.

use crate::hub_protocol::{Failure, Step};
use crate::link::LOOPBACK_INDEX;
use crate::netlink::dump::Told;
use crate::netlink::{Message, Netlink, NetlinkError, find_attribute};

use super::process::refused;

pub(super) const RTM_NEWLINK: u16 = 16;
pub(super) const RTM_DELLINK: u16 = 17;
pub(super) const RTM_NEWROUTE: u16 = 24;
const RTM_GETLINK: u16 = 18;
const RTM_GETROUTE: u16 = 26;
/// Bytes of `struct ifinfomsg` and `struct rtmsg`.
const LINK_HEADER: usize = 16;
const ROUTE_HEADER: usize = 12;
const IFLA_IFNAME: u16 = 3;
const IFF_UP: u32 = 1;
const RTA_OIF: u16 = 4;
/// `linux/netfilter/nf_tables.h`, with the subsystem's number.
const GET_TABLE: u16 = 10 << 8 | 1;
const NEW_TABLE: u16 = 10 << 8;
const GET_GENERATION: u16 = 10 << 8 | 16;
const TABLE_NAME: u16 = 1;
const GENERATION_ID: u16 = 1;
/// Bytes of `struct nfgenmsg`.
const FILTER_HEADER: usize = 4;
/// IPv4 and IPv6.
const OURS: [u8; 2] = [2, 10];
const OUR_TABLE: &[u8] = b"gig\0";
/// Devices that some kernel modules put into every new namespace; they are down.
const FALLBACKS: [&str; 9] = [
    "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0",
];

/// Which look it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinds {
    /// Before anything was made; a former gig may have been here.
    Before,
    /// When everything stands.
    After,
}

/// Looks at all there is.
pub(super) fn look(links: &mut Netlink, filter: &mut Netlink, kinds: Kinds) -> Result<(), Failure> {
    let mut list = Message::all("list the links", RTM_GETLINK);
    list.put(&[0; LINK_HEADER]);
    stranger(links_in(&links.dump(list).map_err(refused)?))?;
    let mut list = Message::all("list the routes", RTM_GETROUTE);
    list.put(&[0; ROUTE_HEADER]);
    stranger(routes_in(&links.dump(list).map_err(refused)?))?;
    let mut list = Message::all("list the firewall's tables", GET_TABLE);
    list.put(&[0; FILTER_HEADER]);
    let tables = filter.dump(list).map_err(refused)?;
    stranger(tables_in(&tables))?;
    if kinds == Kinds::After && tables.is_empty() {
        return stranger(Err("no firewall of gig's: somebody removed it".to_owned()));
    }
    Ok(())
}

/// How often the firewall was changed.
pub(super) fn generation(filter: &mut Netlink) -> Result<u32, NetlinkError> {
    let what = "say how often the firewall was changed";
    let mut asked = Message::new(what, GET_GENERATION, 0);
    asked.put(&[0; FILTER_HEADER]);
    let told = filter.exchange(&mut [asked])?;
    let number = told.iter().find_map(|answer| {
        let number = find_attribute(answer, FILTER_HEADER, GENERATION_ID)?;
        Some(u32::from_be_bytes(number.try_into().ok()?))
    });
    number.ok_or_else(|| NetlinkError {
        what,
        source: std::io::ErrorKind::InvalidData.into(),
    })
}

fn stranger(found: Result<(), String>) -> Result<(), Failure> {
    let words = |what| format!("it has {what}; a namespace is registered while it has `lo` alone");
    found.map_err(|what| Failure::new(Step::Inspect, None, words(what)))
}

fn links_in(listed: &[Told]) -> Result<(), String> {
    for told in listed.iter().filter(|told| told.kind == RTM_NEWLINK) {
        if is_loopback(told) {
            continue;
        }
        let name = link_name(told);
        let flags = number(told, 8).unwrap_or(IFF_UP);
        if !FALLBACKS.contains(&name.as_str()) || flags & IFF_UP != 0 {
            return Err(format!("the link {name}"));
        }
    }
    match listed.iter().any(is_loopback) {
        true => Ok(()),
        false => Err("no loopback device".to_owned()),
    }
}

/// Every route leads to `lo`.
fn routes_in(listed: &[Told]) -> Result<(), String> {
    let routes = listed.iter().filter(|told| told.kind == RTM_NEWROUTE);
    for told in routes {
        let by = find_attribute(&told.bytes, ROUTE_HEADER, RTA_OIF);
        if by != Some(&LOOPBACK_INDEX.to_ne_bytes()) {
            return Err("a route".to_owned());
        }
    }
    Ok(())
}

fn tables_in(listed: &[Told]) -> Result<(), String> {
    for told in listed.iter().filter(|told| told.kind == NEW_TABLE) {
        let name = find_attribute(&told.bytes, FILTER_HEADER, TABLE_NAME).unwrap_or_default();
        let family = told.body(0, 1).and_then(|bytes| bytes.first());
        if name != OUR_TABLE || !family.is_some_and(|family| OURS.contains(family)) {
            return Err(format!("the firewall table {}", printable(name)));
        }
    }
    Ok(())
}

/// Whether a message about a link is about `lo`: the first device, which nobody can make or remove.
pub(super) fn is_loopback(told: &Told) -> bool {
    number(told, 4) == Some(LOOPBACK_INDEX)
}

pub(super) fn link_name(told: &Told) -> String {
    printable(find_attribute(&told.bytes, LINK_HEADER, IFLA_IFNAME).unwrap_or_default())
}

fn number(told: &Told, at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(told.body(at, 4)?.try_into().ok()?))
}

/// A stranger's name, short and in letters that do nothing.
fn printable(name: &[u8]) -> String {
    let name = name.split(|octet| *octet == 0).next().unwrap_or_default();
    let letters = name.iter().take(64).map(|octet| match octet {
        b'!'..=b'~' => char::from(*octet),
        _ => '?',
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::dump::told_for_test;

    fn link(index: u32, name: &[u8], flags: u32) -> Told {
        let mut message = Message::new("test", RTM_NEWLINK, 0);
        message
            .put(&[0; 4])
            .put(&index.to_ne_bytes())
            .put(&flags.to_ne_bytes())
            .put(&[0; 4])
            .attribute(IFLA_IFNAME, name);
        told_for_test(message)
    }

    #[test]
    fn a_link_beside_lo_is_named_and_fallbacks_that_are_down_are_none() {
        let lo = link(1, b"lo\0", 9);
        assert_eq!(links_in(&[lo.clone(), link(2, b"sit0\0", 0)]), Ok(()));
        for (other, word) in [
            (link(2, b"eth0\0", 0), "eth0"),
            (link(2, b"sit0\0", IFF_UP), "sit0"),
            (link(2, b"lo\0", 0), "lo"),
            (link(7, b"\x1b[2J\xff\0", 0), "?[2J?"),
        ] {
            let refused = links_in(&[lo.clone(), other]).unwrap_err();
            assert_eq!(refused, format!("the link {word}"));
        }
        assert!(links_in(&[]).is_err());
    }

    #[test]
    fn a_route_leads_to_lo_or_is_a_strangers() {
        let route = |attributes: &[(u16, u32)]| {
            let mut message = Message::new("test", RTM_NEWROUTE, 0);
            message.put(&[0; ROUTE_HEADER]);
            for (kind, value) in attributes {
                message.attribute(*kind, &value.to_ne_bytes());
            }
            told_for_test(message)
        };
        assert_eq!(routes_in(&[route(&[(15, 254), (RTA_OIF, 1)])]), Ok(()));
        assert!(routes_in(&[route(&[(RTA_OIF, 2)])]).is_err());
        assert!(routes_in(&[route(&[])]).is_err());
    }

    #[test]
    fn a_table_that_is_not_gigs_is_named() {
        let table = |family: u8, name: &str| {
            let mut message = Message::new("test", NEW_TABLE, 0);
            message.put(&[family, 0, 0, 0]).text(TABLE_NAME, name);
            told_for_test(message)
        };
        assert_eq!(tables_in(&[table(2, "gig"), table(10, "gig")]), Ok(()));
        for (family, name) in [(1, "gig"), (2, "nat"), (2, "gig2"), (2, "")] {
            assert!(tables_in(&[table(family, name)]).is_err(), "{name}");
        }
    }
}
