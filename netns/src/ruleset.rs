//! The hub's firewall, as one nft transaction worked out from the plan.
//!
//! Pure. The whole pool's identities are in it, so that no start of a sandbox
//! loads a rule. Every base chain drops what no rule accepts; what leaves a
//! sandbox under an address or interface that is not its own is dropped before
//! the kernel keeps any state about it.

use std::fmt::Write as _;

use crate::plan::{DNS_PORT, HubPlan};

/// Connections the kernel tracks for one sandbox at once. The proxy's own
/// limit is far lower; this one keeps a flood of half-open connections or DNS
/// flows from filling the table that all sandboxes share (262,144 by default).
const TRACKED_PER_SANDBOX: u32 = 4096;

/// The ruleset as text for the `nft` program.
pub(crate) fn ruleset(plan: &HubPlan) -> String {
    let identity = elements(plan, |slot| {
        format!("\"{}\" . {}", slot.hub_link, slot.address)
    });
    let gateways = elements(plan, |slot| {
        format!("\"{}\" . {}", slot.hub_link, slot.gateway)
    });
    let explicit = elements(plan, |slot| {
        format!(
            "\"{}\" . {} . {}",
            slot.hub_link, slot.gateway, plan.explicit_port
        )
    });
    let (redirect, explicit_port) = (plan.redirect_port, plan.explicit_port);
    format!(
        r#"table inet gig {{
  set identity {{ typeof iifname . ip saddr; elements = {{ {identity} }} }}
  set peers {{ typeof oifname . ip daddr; elements = {{ {identity} }} }}
  set gateways {{ typeof iifname . ip daddr; elements = {{ {gateways} }} }}
  set explicit {{ typeof iifname . ip daddr . tcp dport; elements = {{ {explicit} }} }}
  set tracked {{ type ipv4_addr; size 65535; flags dynamic; }}

  chain forward {{ type filter hook forward priority filter; policy drop; }}

  chain guard {{
    type filter hook prerouting priority raw; policy drop;
    meta nfproto != ipv4 drop
    iifname . ip saddr != @identity drop
    ip daddr 127.0.0.0/8 drop
    meta l4proto tcp accept
    udp dport {DNS_PORT} accept
    meta l4proto udp reject with icmp port-unreachable
    reject with icmp admin-prohibited
  }}

  chain bound {{
    type filter hook prerouting priority mangle; policy accept;
    ct state invalid drop
    ct state new add @tracked {{ ip saddr ct count over {TRACKED_PER_SANDBOX} }} drop
  }}

  chain steer {{
    type nat hook prerouting priority dstnat; policy accept;
    meta l4proto {{ tcp, udp }} th dport {DNS_PORT} redirect to :{DNS_PORT}
    iifname . ip daddr . tcp dport @explicit accept
    meta l4proto tcp redirect to :{redirect}
  }}

  chain arrive {{
    type filter hook input priority filter; policy drop;
    iifname . ip daddr != @gateways drop
    tcp dport {{ {DNS_PORT}, {redirect}, {explicit_port} }} accept
    udp dport {DNS_PORT} accept
  }}

  chain leave {{
    type filter hook output priority filter; policy drop;
    oifname . ip daddr != @peers drop
    meta l4proto icmp icmp type destination-unreachable accept
    ct state established,related accept
  }}
}}
"#
    )
}

fn elements(plan: &HubPlan, element: impl Fn(&crate::plan::SlotPlan) -> String) -> String {
    let mut text = String::new();
    for slot in &plan.slots {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{}", element(slot));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{HubIds, HubSettings};

    fn text() -> String {
        let settings = HubSettings {
            slots: 2,
            subnet: "10.200.0.0/16".parse().unwrap(),
            explicit_port: 8081,
            ids: HubIds::Single,
        };
        ruleset(&HubPlan::new(&settings).unwrap())
    }

    #[test]
    fn every_filter_drops_by_default() {
        let text = text();
        let filters = text.matches("type filter hook").count();
        // `bound` only takes away from what `guard`, before it, let through.
        assert_eq!(text.matches("policy drop").count(), filters - 1);
        let forward = text.split("chain forward").nth(1).unwrap();
        assert!(!forward.split('}').next().unwrap().contains("accept"));
    }

    #[test]
    fn the_whole_pools_identities_are_in_it() {
        let text = text();
        for identity in ["\"gig0\" . 10.200.0.2", "\"gig1\" . 10.200.0.6"] {
            assert_eq!(text.matches(identity).count(), 2, "coming and going");
        }
        assert!(text.contains("\"gig1\" . 10.200.0.5 . 8081"));
    }

    #[test]
    fn identity_is_checked_before_anything_is_accepted() {
        let text = text();
        let guard = text.split("chain guard").nth(1).unwrap();
        let at = |rule: &str| guard.find(rule).unwrap();
        assert!(at("nfproto != ipv4 drop") < at("accept"));
        assert!(at("iifname . ip saddr != @identity drop") < at("accept"));
    }
}
