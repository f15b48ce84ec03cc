//! What rules keep in a set: asking for it, reading it, and taking it out.
//!
//! Pure, as the messages beside it. What the kernel answers is read from any bytes.

use super::{
    BATCH_BEGIN, BATCH_END, DELETE_SET_ELEMENT, GET_SET_ELEMENT, LIST_ELEMENT, SUBSYSTEM, TABLE,
    batch, value,
};
use crate::hub::refusals::RefusedPacket;
use crate::netlink::dump::Told;
use crate::netlink::{Message, attributes, find_attribute};
use crate::ruleset::{NOTED_KEY, REFUSED, UDP};

/// Of lists of elements: which set, and the elements.
const SET: u16 = 2;
const ELEMENTS: u16 = 3;
/// Of an element.
const KEY: u16 = 1;
/// `struct nfgenmsg` of IPv4.
const FAMILY: [u8; 4] = [2, 0, 0, 0];

/// Asks for all that is kept in the hub's table of what was refused.
pub(crate) fn all_refused() -> Message {
    let kind = SUBSYSTEM << 8 | GET_SET_ELEMENT;
    let mut message = Message::all("list what was refused", kind);
    name_set(&mut message);
    message
}

/// Takes these out, so that they are kept when they come again. One transaction.
pub(crate) fn forget(packets: &[RefusedPacket]) -> [Message; 3] {
    let kind = SUBSYSTEM << 8 | DELETE_SET_ELEMENT;
    let mut message = Message::new("forget what was refused", kind, 0);
    name_set(&mut message);
    message.nested(ELEMENTS, |list| {
        for packet in packets {
            list.nested(LIST_ELEMENT, |one| {
                one.nested(KEY, |key| value(key, &key_of(packet)));
            });
        }
    });
    [batch(BATCH_BEGIN), message, batch(BATCH_END)]
}

fn name_set(message: &mut Message) {
    message.put(&FAMILY).text(TABLE, "gig").text(SET, REFUSED);
}

/// What a message of the kernel's lists.
pub(crate) fn refused(told: &Told) -> Vec<RefusedPacket> {
    const DATA: u16 = 1;
    let only = |bytes, wanted| attributes(bytes).find(|(kind, _)| *kind == wanted);
    let list = find_attribute(&told.bytes, FAMILY.len(), ELEMENTS).unwrap_or_default();
    attributes(list)
        .filter(|(kind, _)| *kind == LIST_ELEMENT)
        .filter_map(|(_, element)| {
            let (_, key) = only(element, KEY)?;
            let (_, key) = only(key, DATA)?;
            packet_of(key.try_into().ok()?)
        })
        .collect()
}

/// As four registers hold it.
const fn key_of(packet: &RefusedPacket) -> [u8; NOTED_KEY as usize] {
    let ([a, b, c, d], [e, f, g, h]) = (packet.source.octets(), packet.destination.octets());
    let [high, low] = packet.port.to_be_bytes();
    [a, b, c, d, e, f, g, h, UDP, 0, 0, 0, high, low, 0, 0]
}

fn packet_of(key: [u8; NOTED_KEY as usize]) -> Option<RefusedPacket> {
    let [a, b, c, d, e, f, g, h, _, _, _, _, high, low, ..] = key;
    let packet = RefusedPacket {
        source: [a, b, c, d].into(),
        destination: [e, f, g, h].into(),
        port: u16::from_be_bytes([high, low]),
    };
    // What is read otherwise than it is written could not be taken out.
    (key_of(&packet) == key).then_some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::dump::told_for_test;

    #[test]
    fn what_is_listed_is_what_is_taken_out() {
        let packets = [443, 53, 0].map(|port| RefusedPacket {
            source: [10, 200, 0, 2].into(),
            destination: [198, 18, 0, 1].into(),
            port,
        });
        let [_, message, _] = forget(&packets);
        let told = told_for_test(message);
        assert_eq!(refused(&told), packets);
        for cut in 0..told.bytes.len() {
            let mut less = told.clone();
            less.bytes.truncate(cut);
            assert!(refused(&less).len() < packets.len(), "{cut}");
        }
    }
}
