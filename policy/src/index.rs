//! Rules arranged by what they speak of, so that a decision looks at those that match and no others.
//!
//! Exact names, wildcard bases and address ranges are hashed; a name asks once for itself and once for
//! each of its suffixes that may be a base, an address once for each prefix length in use. Per pattern
//! the ports are in a tree, per port everything that a permit needs stands ready, so that allowing costs
//! neither formatting nor a copy. What the answers mean is left to `policy`.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;
use thiserror::Error;

use crate::{
    fqdn::Fqdn,
    host::{Host, Port},
    host_pattern::HostPattern,
    rule::{Rule, Target},
    verdict::{Handling, RuleRef},
};

mod port_table;

pub(crate) use port_table::{PortTable, RequestMatch, SharedUnion};

/// All rules of one policy.
#[derive(Debug, Default)]
pub(crate) struct Index {
    exact: HashMap<Arc<str>, usize>,
    below: HashMap<Arc<str>, usize>,
    nets: HashMap<IpNet, usize>,
    /// Longest first; only lengths that some rule has.
    lengths_v4: Vec<u8>,
    lengths_v6: Vec<u8>,
    /// No wildcard base is longer.
    longest_base: usize,
    nodes: Vec<PatternNode>,
}

/// What all rules with one pattern say.
#[derive(Debug)]
pub(crate) struct PatternNode {
    /// The first of them.
    pub(crate) rule: RuleRef,
    ports: BTreeMap<Port, PortTable>,
}

/// Two rules that cannot both hold.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{target} port {port} is {word} here and {other_word} in {other}: bytes cannot be both; \
     keep one of the two rules or give them different ports"
)]
pub(crate) struct HandlingConflict {
    pub(crate) target: String,
    pub(crate) port: Port,
    pub(crate) word: &'static str,
    pub(crate) other_word: &'static str,
    pub(crate) other: RuleRef,
}

impl Index {
    /// Adds a rule. A port on which the pattern's earlier rules treat bytes otherwise is left out and
    /// reported.
    pub(crate) fn add(&mut self, rule: &Rule) -> Result<(), HandlingConflict> {
        let slot = self.slot(&rule.target, &rule.reference);
        match self.nodes.get_mut(slot) {
            Some(node) => node.add(rule),
            None => Ok(()),
        }
    }

    fn slot(&mut self, target: &Target, reference: &RuleRef) -> usize {
        let next = self.nodes.len();
        let slot = match target {
            Target::Names(HostPattern::Exact(name)) => {
                *self.exact.entry(name.shared()).or_insert(next)
            }
            Target::Names(HostPattern::Below(base)) => {
                self.longest_base = self.longest_base.max(base.as_str().len());
                *self.below.entry(base.shared()).or_insert(next)
            }
            Target::Addresses(net) => {
                let lengths = match net {
                    IpNet::V4(_) => &mut self.lengths_v4,
                    IpNet::V6(_) => &mut self.lengths_v6,
                };
                if !lengths.contains(&net.prefix_len()) {
                    lengths.push(net.prefix_len());
                    lengths.sort_unstable_by(|a, b| b.cmp(a));
                }
                *self.nets.entry(*net).or_insert(next)
            }
        };
        if slot == next {
            self.nodes.push(PatternNode {
                rule: reference.clone(),
                ports: BTreeMap::new(),
            });
        }
        slot
    }

    /// Keeps how a rule that has ended treated bytes, where a wider rule would now treat them
    /// otherwise: what it kept from that rule must not pass because it ended. It allows nothing.
    pub(crate) fn hold(&mut self, rule: &Rule) {
        for port in rule.ports.iter().map(|ports| ports.port) {
            let other = |node: &&PatternNode| {
                let table = node.port(port);
                table.is_some_and(|table| table.handling != rule.handling)
            };
            let Some(wider) = self.wider(&rule.target).find(other) else {
                continue;
            };
            let reference = wider.rule.clone();
            let slot = self.slot(&rule.target, &reference);
            if let Some(node) = self.nodes.get_mut(slot) {
                let table = || PortTable::new(rule.handling, rule.reference.clone());
                node.ports.entry(port).or_insert_with(table);
            }
        }
    }

    /// The patterns that speak of all that `target` does and more.
    fn wider<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = &'a PatternNode> {
        let (name, net) = match target {
            Target::Names(HostPattern::Exact(name) | HostPattern::Below(name)) => {
                (Some(name), None)
            }
            Target::Addresses(net) => (None, Some(net)),
        };
        let first = name.and_then(|name| parent(name.as_str()));
        let named = std::iter::successors(first, |suffix| parent(suffix))
            .filter_map(|suffix| self.below.get(suffix));
        let lengths = [&self.lengths_v4, &self.lengths_v6].into_iter().flatten();
        let addressed = net.into_iter().flat_map(move |net| {
            let shorter = lengths.clone().filter(|length| **length < net.prefix_len());
            shorter.filter_map(|length| {
                let wider = IpNet::new(net.addr(), *length).ok()?;
                self.nets.get(&wider.trunc())
            })
        });
        let slots = named.chain(addressed);
        slots.filter_map(|slot| self.nodes.get(*slot))
    }

    /// The patterns that speak of `host`, the most specific first.
    pub(crate) fn nodes<'a>(&'a self, host: &'a Host) -> impl Iterator<Item = &'a PatternNode> {
        let (name, ip) = match host {
            Host::Name(name) => (Some(name), None),
            Host::Ip(ip) => (None, Some(ip.to_canonical())),
        };
        let named = name.into_iter().flat_map(|name| self.nodes_of_name(name));
        let addressed = ip.into_iter().flat_map(|ip| self.nodes_of_address(ip));
        named.chain(addressed)
    }

    /// The patterns that speak of `name`, the most specific first.
    pub(crate) fn nodes_of_name<'a>(
        &'a self,
        name: &'a Fqdn,
    ) -> impl Iterator<Item = &'a PatternNode> {
        let exact = self.exact.get(name.as_str());
        let suffixes = std::iter::successors(parent(name.as_str()), |suffix| parent(suffix));
        let below = suffixes
            .filter(|suffix| suffix.len() <= self.longest_base)
            .filter_map(|suffix| self.below.get(suffix));
        exact
            .into_iter()
            .chain(below)
            .filter_map(|slot| self.nodes.get(*slot))
    }

    fn nodes_of_address(&self, ip: IpAddr) -> impl Iterator<Item = &PatternNode> {
        let lengths = match ip {
            IpAddr::V4(_) => &self.lengths_v4,
            IpAddr::V6(_) => &self.lengths_v6,
        };
        lengths
            .iter()
            .filter_map(move |length| IpNet::new(ip, *length).ok())
            .filter_map(|net| self.nets.get(&net.trunc()))
            .filter_map(|slot| self.nodes.get(*slot))
    }

    /// The rule with the wildcard `*.name`: the one that a person may have thought covers the apex.
    pub(crate) fn wildcard_on(&self, name: &Fqdn) -> Option<&RuleRef> {
        let slot = self.below.get(name.as_str())?;
        self.nodes.get(*slot).map(|node| &node.rule)
    }
}

impl PatternNode {
    /// What its rules say of a port.
    pub(crate) fn port(&self, port: Port) -> Option<&PortTable> {
        self.ports.get(&port)
    }

    fn add(&mut self, rule: &Rule) -> Result<(), HandlingConflict> {
        let mut outcome = Ok(());
        for rule_port in &rule.ports {
            let port = rule_port.port;
            let table = self.ports.entry(port);
            let table =
                table.or_insert_with(|| PortTable::new(rule.handling, rule.reference.clone()));
            if table.handling == rule.handling {
                table.add(rule, rule_port.protocols);
            } else {
                outcome = Err(HandlingConflict {
                    target: rule.target.to_string(),
                    port,
                    word: handling_word(rule.handling),
                    other_word: handling_word(table.handling),
                    other: table.rule.clone(),
                });
            }
        }
        outcome
    }
}

const fn handling_word(handling: Handling) -> &'static str {
    match handling {
        Handling::Inspect => "inspected",
        Handling::Passthrough => "passed through",
        Handling::Opaque => "opaque",
    }
}

fn parent(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, rest)| rest)
}
