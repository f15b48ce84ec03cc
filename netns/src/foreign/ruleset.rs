//! The firewall of a namespace that gig did not make.
//!
//! Pure. Everything that is sent there is sent by `lo`: TCP and DNS are redirected to gig's sockets whatever
//! address they were for, programs of the namespace reach each other at 127.0.0.0/8, and all else is refused
//! at once. Nothing arrives but by `lo`.

use std::io;

use crate::listener::Listeners;
use crate::plan::DNS_PORT;
use crate::ruleset::{
    ADMIN_PROHIBITED, Chain, DESTINATION, Family, Hook, Kind, Link, Match, PORT_UNREACHABLE,
    Policy, Ruleset, TCP, TRACKED_PER_SANDBOX, Table, UDP, USUAL, Verdict, filter, no_v6, nothing,
    rule,
};

/// Where the sockets are, on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    redirect: u16,
    dns_tcp: u16,
    dns_udp: u16,
}

impl Ports {
    pub(super) fn of(listeners: &Listeners) -> io::Result<Self> {
        Ok(Self {
            redirect: listeners.redirect.local_addr()?.port(),
            dns_tcp: listeners.dns_tcp.local_addr()?.port(),
            dns_udp: listeners.dns_udp.local_addr()?.port(),
        })
    }
}

/// The whole of it; `v6` says whether the kernel has IPv6, of which nothing passes.
pub(super) fn ruleset(ports: Ports, v6: bool) -> Ruleset {
    let mut tables = vec![Table {
        name: "gig",
        family: Family::V4,
        sets: Vec::new(),
        chains: vec![
            nothing("forward", Hook::Forward),
            steer(ports),
            leave(),
            arrive(),
        ],
    }];
    if v6 {
        tables.push(no_v6());
    }
    Ruleset { tables }
}

/// Where a new connection really goes.
fn steer(ports: Ports) -> Chain {
    let dns = |protocol| [Match::Protocol(protocol), Match::Port(DNS_PORT)];
    Chain {
        name: "steer",
        kind: Kind::Nat,
        hook: Hook::Output,
        priority: DESTINATION,
        policy: Policy::Accept,
        rules: vec![
            // Whatever addresses they are from: there are 16 million.
            rule(
                &[Match::AllTrackedOver {
                    count: TRACKED_PER_SANDBOX,
                }],
                Verdict::Drop,
            ),
            rule(&dns(UDP), Verdict::Redirect(ports.dns_udp)),
            rule(&dns(TCP), Verdict::Redirect(ports.dns_tcp)),
            rule(&[Match::ToLoopback], Verdict::Accept),
            rule(&[Match::Protocol(TCP)], Verdict::Redirect(ports.redirect)),
        ],
    }
}

/// What is sent, when it is known where it really goes.
fn leave() -> Chain {
    let rules = vec![
        rule(
            &[Match::ByLoopback(Link::LeavesBy), Match::ToLoopback],
            Verdict::Accept,
        ),
        rule(
            &[Match::Protocol(UDP)],
            Verdict::Unreachable(PORT_UNREACHABLE),
        ),
        rule(&[], Verdict::Unreachable(ADMIN_PROHIBITED)),
    ];
    filter("leave", Hook::Output, USUAL, rules)
}

fn arrive() -> Chain {
    let own = [Match::ByLoopback(Link::CameBy), Match::ToLoopback];
    let rules = vec![rule(&own, Verdict::Accept)];
    filter("arrive", Hook::Input, USUAL, rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_but_by_lo_and_to_itself() {
        let ports = Ports {
            redirect: 1001,
            dns_tcp: 1002,
            dns_udp: 1003,
        };
        let tables = ruleset(ports, true).tables;
        for table in &tables {
            for chain in &table.chains {
                let filters = chain.kind == Kind::Filter;
                assert_eq!(chain.policy == Policy::Drop, filters, "{}", chain.name);
                for rule in chain.rules.iter().filter(|_| filters) {
                    let to_itself = rule.when.contains(&Match::ToLoopback)
                        && matches!(rule.when.first(), Some(Match::ByLoopback(_)));
                    assert!(rule.then != Verdict::Accept || to_itself, "{}", chain.name);
                }
            }
        }
        assert!(tables[1].chains.iter().all(|chain| chain.rules.is_empty()));
        assert_eq!(ruleset(ports, false).tables.len(), 1);
    }
}
