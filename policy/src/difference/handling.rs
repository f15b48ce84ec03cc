//! Where two policies both let connections through and treat their bytes otherwise.
//!
//! The most specific rule of a port decides whether bytes are looked into: a rule that comes or goes
//! changes that for what other rules allow, though none of their lines changed. Each rule's hosts and
//! ports are put to both policies, to the code that enforces.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use serde::Serialize;

use crate::{
    fqdn::Fqdn,
    host::{Host, Port},
    host_pattern::HostPattern,
    policy::Policy,
    rule::Target,
    verdict::{Handling, Verdict},
};

/// Hosts of one port whose bytes are treated otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HandlingChange {
    /// A name, a wildcard or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// How the old policy treats bytes.
    pub old: &'static str,
    /// The rule by which it does.
    pub old_rule: String,
    /// How the new policy treats bytes.
    pub new: &'static str,
    /// The rule by which it does.
    pub new_rule: String,
}

impl fmt::Display for HandlingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            port,
            old,
            old_rule,
            new,
            new_rule,
        } = self;
        write!(
            f,
            "~ {host}:{port}: bytes were {old} by {old_rule}, and are {new} by {new_rule}"
        )
    }
}

/// All of them, by host and port.
pub(super) fn changes(old: &Policy, new: &Policy) -> Vec<HandlingChange> {
    let mut changes = BTreeMap::new();
    for rule in old.rules().iter().chain(new.rules()) {
        for (shown, host) in hosts(&rule.target) {
            for port in rule.ports.iter().map(|port| port.port) {
                let both = treated(old, &host, port).zip(treated(new, &host, port));
                let Some(((was, old_rule), (is, new_rule))) = both else {
                    continue;
                };
                if was == is {
                    continue;
                }
                let change = HandlingChange {
                    host: shown.clone(),
                    port: port.get(),
                    old: word(was),
                    old_rule,
                    new: word(is),
                    new_rule,
                };
                changes.insert((shown.clone(), port), change);
            }
        }
    }
    changes.into_values().collect()
}

/// Hosts that stand for what a rule speaks of, and how they are told.
fn hosts(target: &Target) -> Vec<(String, Host)> {
    match target {
        Target::Names(HostPattern::Exact(name)) => {
            vec![(name.to_string(), Host::Name(name.clone()))]
        }
        // A name below that no other rule is likely to speak of.
        Target::Names(HostPattern::Below(base)) => {
            let name = Fqdn::parse(&format!("{ANY}.{base}"));
            let host = name.map(|name| (format!("*.{base}"), Host::Name(name)));
            host.into_iter().collect()
        }
        // A range within may begin where this one does, and may end where this one does.
        Target::Addresses(net) => {
            let mut ends: Vec<IpAddr> = vec![net.network(), net.broadcast()];
            ends.dedup();
            ends.into_iter()
                .map(|ip| (ip.to_string(), Host::Ip(ip)))
                .collect()
        }
    }
}

fn treated(policy: &Policy, host: &Host, port: Port) -> Option<(Handling, String)> {
    match policy.decide_connect(host, port, None) {
        Verdict::Allow(permit) => {
            let rule = permit.rule()?.to_string();
            Some((permit.handling(), rule))
        }
        Verdict::Deny(_) => None,
    }
}

const fn word(handling: Handling) -> &'static str {
    match handling {
        Handling::Inspect => "looked into",
        Handling::Passthrough => "passed through as TLS",
        Handling::Opaque => "passed through unseen",
    }
}

const ANY: &str = "any-name-below-it";
