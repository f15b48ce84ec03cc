//! nf_tables as netlink messages: tables, sets, chains and rules of a
//! [`Ruleset`], in the kernel's own form.
//!
//! Pure: bytes out, nothing sent. The kernel's rules are small programs over
//! registers; each match of ours becomes two to four of their instructions
//! (`linux/netfilter/nf_tables.h`). Numbers travel in network order unless a
//! register holds them in the machine's.

use crate::netlink::Message;
use crate::ruleset::{
    Address, Chain, Family, Hook, Kind, Link, Match, Policy, Rule, Ruleset, Set, Table, Verdict,
};

pub(crate) mod noted;

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = 0;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const NEW_SET: u16 = 9;
const NEW_SET_ELEMENT: u16 = 12;
const GET_SET_ELEMENT: u16 = 13;
const DELETE_SET_ELEMENT: u16 = 14;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;

/// First attribute of tables, sets, chains, rules and element lists: a table's name.
const TABLE: u16 = 1;
const LIST_ELEMENT: u16 = 1;

/// 4-byte registers that follow each other, so that they make one key.
const FIRST: u32 = 8;
const SECOND: u32 = 9;
const THIRD: u32 = 10;
const FOURTH: u32 = 11;
/// The register of verdicts.
const VERDICT: u32 = 0;

/// Elements with one message: their length has to fit 16 bits, and a
/// transaction the socket's buffer.
const ELEMENTS_AT_ONCE: usize = 2000;

/// Everything, as transactions to be sent in order. The first is complete but
/// for elements; what it does not let pass yet is dropped. Only pools of more
/// than [`ELEMENTS_AT_ONCE`] slots have a second.
pub(crate) fn transactions(ruleset: &Ruleset) -> Vec<Vec<Message>> {
    let mut first = vec![batch(BATCH_BEGIN)];
    let mut later: Vec<Vec<Message>> = Vec::new();
    for table in &ruleset.tables {
        first.push(new_table(table));
        for (set, number) in table.sets.iter().zip(1..) {
            first.push(new_set(table, set, number));
            for (round, elements) in set.elements.chunks(ELEMENTS_AT_ONCE).enumerate() {
                let message = new_elements(table, set, elements);
                match round.checked_sub(1) {
                    None => first.push(message),
                    Some(at) => {
                        if later.len() <= at {
                            later.push(vec![batch(BATCH_BEGIN)]);
                        }
                        if let Some(transaction) = later.get_mut(at) {
                            transaction.push(message);
                        }
                    }
                }
            }
        }
        for chain in &table.chains {
            first.push(new_chain(table, chain));
            first.extend(chain.rules.iter().map(|rule| new_rule(table, chain, rule)));
        }
    }
    later.insert(0, first);
    for transaction in &mut later {
        transaction.push(batch(BATCH_END));
    }
    later
}

/// The same in one transaction, in the place of whatever tables of these names there are.
pub(crate) fn replacement(ruleset: &Ruleset) -> Vec<Message> {
    let mut all: Vec<Message> = transactions(ruleset).into_iter().flatten().collect();
    for table in ruleset.tables.iter().rev() {
        // What is not there cannot be removed: it is made before.
        all.insert(1, remove_table(table));
        all.insert(1, new_table(table));
    }
    all
}

fn batch(kind: u16) -> Message {
    let mut message = Message::unacknowledged("load the firewall", kind, 0);
    // `struct nfgenmsg`: family, version, and which subsystem's batch it is.
    message.put(&[0, 0]).put(&SUBSYSTEM.to_be_bytes());
    message
}

fn message(what: &'static str, kind: u16, flags: u16, table: &Table) -> Message {
    let mut message = Message::new(what, SUBSYSTEM << 8 | kind, NLM_F_CREATE | flags);
    let family = match table.family {
        Family::V4 => 2,
        Family::V6 => 10,
    };
    message.put(&[family, 0, 0, 0]).text(TABLE, table.name);
    message
}

fn new_table(table: &Table) -> Message {
    message("make the firewall's table", NEW_TABLE, 0, table)
}

fn remove_table(table: &Table) -> Message {
    message("remove the firewall's table", DELETE_TABLE, 0, table)
}

fn new_set(table: &Table, set: &Set, number: u32) -> Message {
    const NAME: u16 = 2;
    const FLAGS: u16 = 3;
    const KEY_TYPE: u16 = 4;
    const KEY_LENGTH: u16 = 5;
    const DESCRIPTION: u16 = 9;
    const DESCRIPTION_SIZE: u16 = 1;
    const ID: u16 = 10;
    /// Rules add to it.
    const EVALUATED: u32 = 0x20;
    let mut message = message("make a set of the firewall", NEW_SET, 0, table);
    message
        .text(NAME, set.name)
        .number(FLAGS, if set.filled_by_rules { EVALUATED } else { 0 })
        .number(KEY_TYPE, set.key_type)
        .number(KEY_LENGTH, set.key_bytes)
        .number(ID, number)
        .nested(DESCRIPTION, |description| {
            description.number(DESCRIPTION_SIZE, set.size);
        });
    message
}

fn new_elements(table: &Table, set: &Set, elements: &[[u8; 8]]) -> Message {
    const SET: u16 = 2;
    const ELEMENTS: u16 = 3;
    const KEY: u16 = 1;
    let mut message = message("fill a set of the firewall", NEW_SET_ELEMENT, 0, table);
    message.text(SET, set.name).nested(ELEMENTS, |list| {
        for element in elements {
            list.nested(LIST_ELEMENT, |one| {
                one.nested(KEY, |key| value(key, element));
            });
        }
    });
    message
}

fn new_chain(table: &Table, chain: &Chain) -> Message {
    const NAME: u16 = 3;
    const HOOK: u16 = 4;
    const HOOK_NUMBER: u16 = 1;
    const HOOK_PRIORITY: u16 = 2;
    const POLICY: u16 = 5;
    const TYPE: u16 = 7;
    let mut message = message("make a chain of the firewall", NEW_CHAIN, 0, table);
    message
        .text(NAME, chain.name)
        .nested(HOOK, |hook| {
            let number = match chain.hook {
                Hook::Prerouting => 0,
                Hook::Input => 1,
                Hook::Forward => 2,
                Hook::Output => 3,
            };
            hook.number(HOOK_NUMBER, number)
                .attribute(HOOK_PRIORITY, &chain.priority.to_be_bytes());
        })
        .number(
            POLICY,
            match chain.policy {
                Policy::Drop => DROP,
                Policy::Accept => ACCEPT,
            },
        )
        .text(
            TYPE,
            match chain.kind {
                Kind::Filter => "filter",
                Kind::Nat => "nat",
            },
        );
    message
}

fn new_rule(table: &Table, chain: &Chain, rule: &Rule) -> Message {
    const CHAIN: u16 = 2;
    const EXPRESSIONS: u16 = 4;
    let mut message = message("add a rule to the firewall", NEW_RULE, NLM_F_APPEND, table);
    message.text(CHAIN, chain.name).nested(EXPRESSIONS, |list| {
        for matching in &rule.when {
            put_match(list, *matching);
        }
        put_verdict(list, rule.then);
    });
    message
}

fn put_match(list: &mut Message, matching: Match) {
    const EQUAL: u32 = 0;
    const UNEQUAL: u32 = 1;
    const CT_STATE: u32 = 0;
    match matching {
        Match::Pair {
            link,
            address,
            set,
            member,
        } => {
            let (index, offset) = (link_key(link), address_offset(address));
            meta(list, index, FIRST);
            payload(list, (NETWORK_HEADER, offset, 4), SECOND);
            lookup(list, set, member);
        }
        Match::ToLoopback => {
            let at = address_offset(Address::Destination);
            payload(list, (NETWORK_HEADER, at, 1), FIRST);
            compare(list, EQUAL, &[127]);
        }
        Match::ByLoopback(link) => {
            /// The first device of every network namespace.
            const LOOPBACK: u32 = 1;
            meta(list, link_key(link), FIRST);
            compare(list, EQUAL, &LOOPBACK.to_ne_bytes());
        }
        Match::Protocol(number) => {
            meta(list, L4_PROTOCOL, FIRST);
            compare(list, EQUAL, &[number]);
        }
        Match::Port(port) => {
            payload(list, (TRANSPORT_HEADER, 2, 2), FIRST);
            compare(list, EQUAL, &port.to_be_bytes());
        }
        Match::IcmpType(number) => {
            payload(list, (TRANSPORT_HEADER, 0, 1), FIRST);
            compare(list, EQUAL, &[number]);
        }
        Match::State { any_of, is } => {
            const KEY: u16 = 2;
            const DESTINATION: u16 = 1;
            expression(list, "ct", |ct| {
                ct.number(KEY, CT_STATE).number(DESTINATION, FIRST);
            });
            mask(list, any_of);
            compare(list, if is { UNEQUAL } else { EQUAL }, &[0; 4]);
        }
        Match::TrackedOver { set, count } => {
            let at = address_offset(Address::Source);
            payload(list, (NETWORK_HEADER, at, 4), FIRST);
            count_tracked(list, set, count);
        }
        Match::AllTrackedOver { count } => {
            expression(list, "connlimit", |limit| over(limit, count))
        }
    }
}

fn put_verdict(list: &mut Message, verdict: Verdict) {
    match verdict {
        Verdict::Accept => decide(list, ACCEPT),
        Verdict::Drop => decide(list, DROP),
        Verdict::Note(set) => note(list, set),
        Verdict::Redirect(port) => {
            const PORT: u16 = 1;
            const FLAGS: u16 = 3;
            const PORT_GIVEN: u32 = 2;
            immediate(list, FIRST, |data| value(data, &port.to_be_bytes()));
            expression(list, "redir", |redirect| {
                redirect.number(PORT, FIRST).number(FLAGS, PORT_GIVEN);
            });
        }
        Verdict::Unreachable(code) => {
            const TYPE: u16 = 1;
            const CODE: u16 = 2;
            const ICMP_UNREACHABLE: u32 = 0;
            expression(list, "reject", |reject| {
                reject
                    .number(TYPE, ICMP_UNREACHABLE)
                    .attribute(CODE, &[code]);
            });
        }
    }
}

/// Of what the kernel knows of a packet: the protocol that IP carries.
const L4_PROTOCOL: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;

const fn link_key(link: Link) -> u32 {
    match link {
        Link::CameBy => 4,
        Link::LeavesBy => 5,
    }
}

/// Where it stands in the IPv4 header (RFC 791).
const fn address_offset(address: Address) -> u32 {
    match address {
        Address::Source => 12,
        Address::Destination => 16,
    }
}

fn expression(list: &mut Message, name: &str, inner: impl FnOnce(&mut Message)) {
    const NAME: u16 = 1;
    const DATA: u16 = 2;
    list.nested(LIST_ELEMENT, |expression| {
        expression.text(NAME, name).nested(DATA, inner);
    });
}

fn meta(list: &mut Message, key: u32, register: u32) {
    const DESTINATION: u16 = 1;
    const KEY: u16 = 2;
    expression(list, "meta", |meta| {
        meta.number(KEY, key).number(DESTINATION, register);
    });
}

fn payload(list: &mut Message, (base, offset, length): (u32, u32, u32), register: u32) {
    const DESTINATION: u16 = 1;
    const BASE: u16 = 2;
    const OFFSET: u16 = 3;
    const LENGTH: u16 = 4;
    expression(list, "payload", |payload| {
        payload
            .number(DESTINATION, register)
            .number(BASE, base)
            .number(OFFSET, offset)
            .number(LENGTH, length);
    });
}

fn compare(list: &mut Message, operation: u32, with: &[u8]) {
    const SOURCE: u16 = 1;
    const OPERATION: u16 = 2;
    const DATA: u16 = 3;
    expression(list, "cmp", |compare| {
        compare
            .number(SOURCE, FIRST)
            .number(OPERATION, operation)
            .nested(DATA, |data| value(data, with));
    });
}

/// Keeps these bits of the register, which holds a number of the machine's order.
fn mask(list: &mut Message, bits: u32) {
    const SOURCE: u16 = 1;
    const DESTINATION: u16 = 2;
    const LENGTH: u16 = 3;
    const MASK: u16 = 4;
    const XOR: u16 = 5;
    expression(list, "bitwise", |bitwise| {
        bitwise
            .number(SOURCE, FIRST)
            .number(DESTINATION, FIRST)
            .number(LENGTH, 4)
            .nested(MASK, |data| value(data, &bits.to_ne_bytes()))
            .nested(XOR, |data| value(data, &[0; 4]));
    });
}

fn lookup(list: &mut Message, set: &str, member: bool) {
    const SET: u16 = 1;
    const SOURCE: u16 = 2;
    const FLAGS: u16 = 5;
    const INVERTED: u32 = 1;
    expression(list, "lookup", |lookup| {
        lookup
            .text(SET, set)
            .number(SOURCE, FIRST)
            .number(FLAGS, if member { 0 } else { INVERTED });
    });
}

/// Keeps where a packet of UDP comes from and goes to.
fn note(list: &mut Message, set: &str) {
    let (from, to) = (Address::Source, Address::Destination);
    payload(list, (NETWORK_HEADER, address_offset(from), 4), FIRST);
    payload(list, (NETWORK_HEADER, address_offset(to), 4), SECOND);
    meta(list, L4_PROTOCOL, THIRD);
    payload(list, (TRANSPORT_HEADER, 2, 2), FOURTH);
    add_key(list, set, |_| {});
}

/// Counts the connections of the address in the register; matches over `count`.
fn count_tracked(list: &mut Message, set: &str, count: u32) {
    const EXPRESSION: u16 = 7;
    const NAME: u16 = 1;
    const DATA: u16 = 2;
    add_key(list, set, |dynamic| {
        dynamic.nested(EXPRESSION, |limit| {
            limit
                .text(NAME, "connlimit")
                .nested(DATA, |data| over(data, count));
        });
    });
}

/// Adds what begins in the first register to a set that rules fill, where it is not in it.
fn add_key(list: &mut Message, set: &str, more: impl FnOnce(&mut Message)) {
    const SET: u16 = 1;
    const OPERATION: u16 = 3;
    const KEY: u16 = 4;
    const ADD: u32 = 0;
    expression(list, "dynset", |dynamic| {
        dynamic
            .text(SET, set)
            .number(OPERATION, ADD)
            .number(KEY, FIRST);
        more(dynamic);
    });
}

/// What `connlimit` is told.
fn over(data: &mut Message, count: u32) {
    const COUNT: u16 = 1;
    const FLAGS: u16 = 2;
    const OVER: u32 = 1;
    data.number(COUNT, count).number(FLAGS, OVER);
}

fn decide(list: &mut Message, code: u32) {
    const VERDICT_DATA: u16 = 2;
    const CODE: u16 = 1;
    immediate(list, VERDICT, |data| {
        data.nested(VERDICT_DATA, |verdict| {
            verdict.number(CODE, code);
        });
    });
}

fn immediate(list: &mut Message, register: u32, inner: impl FnOnce(&mut Message)) {
    const DESTINATION: u16 = 1;
    const DATA: u16 = 2;
    expression(list, "immediate", |immediate| {
        immediate.number(DESTINATION, register).nested(DATA, inner);
    });
}

fn value(data: &mut Message, bytes: &[u8]) {
    const VALUE: u16 = 1;
    data.attribute(VALUE, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{HubIds, HubPlan, HubSettings};
    use crate::ruleset::ruleset;

    fn lengths(slots: u16) -> Vec<usize> {
        let settings = HubSettings {
            slots,
            subnet: "10.200.0.0/16".parse().unwrap(),
            explicit_port: 8081,
            ids: HubIds::Single,
        };
        let ruleset = ruleset(&HubPlan::new(&settings).unwrap(), true);
        transactions(&ruleset)
            .iter_mut()
            .map(|transaction| transaction.iter_mut().map(Message::length).sum())
            .collect()
    }

    #[test]
    fn a_usual_pool_is_one_transaction_and_a_large_one_fits_the_socket() {
        /// `net.core.wmem_default`, which no unprivileged user can rely on raising.
        const SOCKET: usize = 212_992;
        assert_eq!(lengths(1).len(), 1);
        assert_eq!(lengths(2000).len(), 1);
        let large = lengths(16_384);
        assert_eq!(large.len(), 9);
        assert!(large.iter().all(|length| *length < SOCKET / 2), "{large:?}");
    }
}
