//! The hub's firewall, worked out from the plan.
//!
//! Pure. The whole pool's identities are in it, so that no start of a sandbox
//! loads a rule. Every base chain that filters drops what no rule accepts; what
//! leaves a sandbox under an address or interface that is not its own is
//! dropped before the kernel keeps any state about it. Interfaces are known by
//! their indexes, which the plan gives them and nothing else can have.
//!
//! Every rule costs every packet: packets of a connection that was let in pass
//! two sets and one look at its state each way, and nothing more.

use std::net::Ipv4Addr;

use crate::plan::{DNS_PORT, HubPlan, SlotPlan};

/// All tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ruleset {
    pub(crate) tables: Vec<Table>,
}

/// Sets and chains for one version of IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) family: Family,
    pub(crate) sets: Vec<Set>,
    pub(crate) chains: Vec<Chain>,
}

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// Keys that rules look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) name: &'static str,
    pub(crate) key_bytes: u32,
    /// What the `nft` program calls the key's type, for a person who lists the rules.
    pub(crate) key_type: u32,
    /// Most elements it will have.
    pub(crate) size: u32,
    pub(crate) filled_by_rules: bool,
    /// Interface index and address.
    pub(crate) elements: Vec<[u8; 8]>,
}

/// Rules at one point of a packet's way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) hook: Hook,
    pub(crate) priority: i32,
    pub(crate) policy: Policy,
    pub(crate) rules: Vec<Rule>,
}

/// What a chain may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Let pass or drop.
    Filter,
    /// Change addresses; sees the first packet of each connection alone.
    Nat,
}

/// Where a chain is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    Prerouting,
    Input,
    Forward,
    Output,
}

/// What happens to a packet that no rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Drop,
    Accept,
}

/// When all matches hold, the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) when: Vec<Match>,
    pub(crate) then: Verdict,
}

/// One condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// Interface and address are together in the set, or are not.
    Pair {
        link: Link,
        address: Address,
        set: &'static str,
        member: bool,
    },
    /// For 127.0.0.0/8.
    ToLoopback,
    /// By `lo`.
    ByLoopback(Link),
    /// The protocol that IP carries.
    Protocol(u8),
    /// Destination port of TCP or UDP.
    Port(u16),
    /// Type of an ICMP message.
    IcmpType(u8),
    /// The connection's state is one of these bits, or is none of them.
    State { any_of: u32, is: bool },
    /// The source has more tracked connections than this.
    TrackedOver { set: &'static str, count: u32 },
    /// All together have.
    AllTrackedOver { count: u32 },
}

/// The interface of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    CameBy,
    LeavesBy,
}

/// An address of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address {
    Source,
    Destination,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    Drop,
    /// Its ends are kept in this set, of [`NOTED_KEY`] octets, while there is room; the next rule is asked.
    Note(&'static str),
    /// To this port of the interface's own address.
    Redirect(u16),
    /// Dropped, and the sender told by ICMP with this code.
    Unreachable(u8),
}

/// Connections the kernel tracks for one sandbox at once. The proxy's own
/// limit is far lower; this one keeps a flood of half-open connections or DNS
/// flows from filling the table that all sandboxes share (262,144 by default).
pub(crate) const TRACKED_PER_SANDBOX: u32 = 4096;

const IDENTITY: &str = "identity";
const GATEWAYS: &str = "gateways";
const TRACKED: &str = "tracked";
/// Where what is refused was for, until somebody reads it.
pub(crate) const REFUSED: &str = "refused";
/// Source, destination, protocol and port, each in a register of its own.
pub(crate) const NOTED_KEY: u32 = 16;
/// More different ones between two readings are refused as well, and not kept.
pub(crate) const MOST_REFUSED: u16 = 1024;
const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const ICMP_UNREACHABLE: u8 = 3;
pub(crate) const PORT_UNREACHABLE: u8 = 3;
pub(crate) const ADMIN_PROHIBITED: u8 = 13;
/// Types of the `nft` program's (`nftables/datatype.h`), six bits each in a key of several.
const IPV4: u32 = 7;
const INET_PROTOCOL: u32 = 12;
const INET_SERVICE: u32 = 13;
const INTERFACE: u32 = 20;
/// `NF_CT_STATE_BIT`s.
const ESTABLISHED: u32 = 2;
const RELATED: u32 = 4;
const NEW: u32 = 8;
/// Priorities: before connection tracking, where destinations are changed, and
/// the usual one.
const RAW: i32 = -300;
pub(crate) const DESTINATION: i32 = -100;
pub(crate) const USUAL: i32 = 0;

/// The whole of it; `v6` says whether the kernel has IPv6, of which nothing passes.
pub(crate) fn ruleset(plan: &HubPlan, v6: bool) -> Ruleset {
    let mut tables = vec![Table {
        name: "gig",
        family: Family::V4,
        sets: sets(plan),
        chains: vec![
            nothing("forward", Hook::Forward),
            guard(),
            steer(plan),
            arrive(plan),
            leave(),
        ],
    }];
    if v6 {
        tables.push(no_v6());
    }
    Ruleset { tables }
}

/// Nothing of IPv6 passes, whatever is asked.
pub(crate) fn no_v6() -> Table {
    Table {
        name: "gig",
        family: Family::V6,
        sets: Vec::new(),
        chains: vec![
            nothing("guard", Hook::Prerouting),
            nothing("forward", Hook::Forward),
            nothing("leave", Hook::Output),
        ],
    }
}

fn sets(plan: &HubPlan) -> Vec<Set> {
    let pairs = |name, address: fn(&SlotPlan) -> Ipv4Addr| Set {
        name,
        key_bytes: 8,
        key_type: INTERFACE << 6 | IPV4,
        size: u32::try_from(plan.slots.len()).unwrap_or(u32::MAX),
        filled_by_rules: false,
        elements: plan
            .slots
            .iter()
            .map(|slot| pair(slot.hub_index, address(slot)))
            .collect(),
    };
    vec![
        pairs(IDENTITY, |slot| slot.address),
        pairs(GATEWAYS, |slot| slot.gateway),
        Set {
            name: TRACKED,
            key_bytes: 4,
            key_type: IPV4,
            size: 65_535,
            filled_by_rules: true,
            elements: Vec::new(),
        },
        Set {
            name: REFUSED,
            key_bytes: NOTED_KEY,
            key_type: IPV4 << 18 | IPV4 << 12 | INET_PROTOCOL << 6 | INET_SERVICE,
            size: MOST_REFUSED.into(),
            filled_by_rules: true,
            elements: Vec::new(),
        },
    ]
}

/// As two registers hold them: the index in the machine's order.
fn pair(index: u32, address: Ipv4Addr) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (index.to_ne_bytes(), address.octets());
    [a, b, c, d, e, f, g, h]
}

/// Lets nothing pass.
pub(crate) fn nothing(name: &'static str, hook: Hook) -> Chain {
    filter(
        name,
        hook,
        if hook == Hook::Prerouting { RAW } else { USUAL },
        Vec::new(),
    )
}

/// What a sandbox sends, before anything else looks at it.
fn guard() -> Chain {
    let rules = vec![
        rule(
            &[own(Link::CameBy, Address::Source, IDENTITY, false)],
            Verdict::Drop,
        ),
        rule(&[Match::ToLoopback], Verdict::Drop),
        rule(&[Match::Protocol(TCP)], Verdict::Accept),
        rule(
            &[Match::Protocol(UDP), Match::Port(DNS_PORT)],
            Verdict::Accept,
        ),
        rule(&[Match::Protocol(UDP)], Verdict::Note(REFUSED)),
        rule(
            &[Match::Protocol(UDP)],
            Verdict::Unreachable(PORT_UNREACHABLE),
        ),
        // What a kernel says of its own accord: programs have no sockets for anything else.
        rule(&[], Verdict::Unreachable(ADMIN_PROHIBITED)),
    ];
    filter("guard", Hook::Prerouting, RAW, rules)
}

/// Where a new connection really goes.
fn steer(plan: &HubPlan) -> Chain {
    let tracked = Match::TrackedOver {
        set: TRACKED,
        count: TRACKED_PER_SANDBOX,
    };
    let to_gateway = own(Link::CameBy, Address::Destination, GATEWAYS, true);
    let explicit = [
        Match::Protocol(TCP),
        Match::Port(plan.explicit_port),
        to_gateway,
    ];
    Chain {
        name: "steer",
        kind: Kind::Nat,
        hook: Hook::Prerouting,
        priority: DESTINATION,
        policy: Policy::Accept,
        rules: vec![
            rule(&[tracked], Verdict::Drop),
            rule(&[Match::Port(DNS_PORT)], Verdict::Redirect(DNS_PORT)),
            rule(&explicit, Verdict::Accept),
            rule(
                &[Match::Protocol(TCP)],
                Verdict::Redirect(plan.redirect_port),
            ),
        ],
    }
}

/// What reaches the listening sockets: of a connection's state, which `steer`
/// has seen the first packet of, or that first packet.
fn arrive(plan: &HubPlan) -> Chain {
    let mut rules = vec![
        rule(
            &[own(Link::CameBy, Address::Destination, GATEWAYS, false)],
            Verdict::Drop,
        ),
        rule(&[state(ESTABLISHED, true)], Verdict::Accept),
        rule(&[state(NEW, false)], Verdict::Drop),
        rule(
            &[Match::Protocol(UDP), Match::Port(DNS_PORT)],
            Verdict::Accept,
        ),
    ];
    for port in [DNS_PORT, plan.redirect_port, plan.explicit_port] {
        rules.push(rule(
            &[Match::Protocol(TCP), Match::Port(port)],
            Verdict::Accept,
        ));
    }
    filter("arrive", Hook::Input, USUAL, rules)
}

/// What goes to a sandbox: answers, to its own address on its own link.
fn leave() -> Chain {
    let refusal = [Match::Protocol(ICMP), Match::IcmpType(ICMP_UNREACHABLE)];
    let rules = vec![
        rule(
            &[own(Link::LeavesBy, Address::Destination, IDENTITY, false)],
            Verdict::Drop,
        ),
        rule(&[state(ESTABLISHED | RELATED, true)], Verdict::Accept),
        rule(&refusal, Verdict::Accept),
    ];
    filter("leave", Hook::Output, USUAL, rules)
}

pub(crate) fn filter(name: &'static str, hook: Hook, priority: i32, rules: Vec<Rule>) -> Chain {
    Chain {
        name,
        kind: Kind::Filter,
        hook,
        priority,
        policy: Policy::Drop,
        rules,
    }
}

pub(crate) fn rule(when: &[Match], then: Verdict) -> Rule {
    Rule {
        when: when.to_vec(),
        then,
    }
}

const fn own(link: Link, address: Address, set: &'static str, member: bool) -> Match {
    Match::Pair {
        link,
        address,
        set,
        member,
    }
}

const fn state(any_of: u32, is: bool) -> Match {
    Match::State { any_of, is }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{HubIds, HubSettings};

    fn plan(slots: u16) -> HubPlan {
        let settings = HubSettings {
            slots,
            subnet: "10.200.0.0/16".parse().unwrap(),
            explicit_port: 8081,
            ids: HubIds::Single,
        };
        HubPlan::new(&settings).unwrap()
    }

    fn chain(name: &str) -> Chain {
        let ruleset = ruleset(&plan(2), true);
        let chains = ruleset.tables.into_iter().flat_map(|table| table.chains);
        let mut found = chains.filter(|chain| chain.name == name);
        found.next().unwrap()
    }

    #[test]
    fn every_filter_drops_by_default_and_nothing_is_forwarded() {
        for table in ruleset(&plan(2), true).tables {
            for chain in table.chains {
                let filters = chain.kind == Kind::Filter;
                assert_eq!(chain.policy == Policy::Drop, filters, "{}", chain.name);
                let closed = chain.hook == Hook::Forward || table.family == Family::V6;
                assert!(!closed || chain.rules.is_empty(), "{}", chain.name);
            }
        }
    }

    #[test]
    fn a_kernel_without_ipv6_gets_no_table_for_it() {
        let families = |v6| -> Vec<Family> {
            let tables = ruleset(&plan(1), v6).tables;
            tables.iter().map(|table| table.family).collect()
        };
        assert_eq!(families(true), [Family::V4, Family::V6]);
        assert_eq!(families(false), [Family::V4]);
    }

    #[test]
    fn the_whole_pools_identities_are_in_it() {
        let sets = ruleset(&plan(2), true).tables.remove(0).sets;
        let elements = |name| {
            let set = sets.iter().find(|set| set.name == name).unwrap();
            set.elements.clone()
        };
        let expected = |last: [u8; 2]| {
            [(1000, last[0]), (1001, last[1])]
                .map(|(index, last)| pair(index, Ipv4Addr::new(10, 200, 0, last)))
        };
        assert_eq!(elements(IDENTITY), expected([2, 6]));
        assert_eq!(elements(GATEWAYS), expected([1, 5]));
    }

    #[test]
    fn identity_is_checked_before_anything_is_accepted() {
        for (name, link, address, set) in [
            ("guard", Link::CameBy, Address::Source, IDENTITY),
            ("arrive", Link::CameBy, Address::Destination, GATEWAYS),
            ("leave", Link::LeavesBy, Address::Destination, IDENTITY),
        ] {
            let first = rule(&[own(link, address, set, false)], Verdict::Drop);
            assert_eq!(chain(name).rules.first(), Some(&first), "{name}");
        }
    }

    #[test]
    fn what_is_sent_to_a_sandbox_belongs_to_what_it_began() {
        let accepts: Vec<_> = chain("leave")
            .rules
            .into_iter()
            .filter(|rule| rule.then == Verdict::Accept)
            .map(|rule| rule.when)
            .collect();
        let refusal = vec![Match::Protocol(ICMP), Match::IcmpType(ICMP_UNREACHABLE)];
        assert_eq!(accepts, [vec![state(ESTABLISHED | RELATED, true)], refusal]);
    }
}
