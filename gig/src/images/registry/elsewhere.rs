//! Where a registry points: named by nobody of this machine, so vetted as what sandboxes and webhooks ask for.
//!
//! Special-purpose addresses are dialled only where the registry itself is at one: one in a private network
//! may keep its blobs there, one on loopback beside itself, and one in the internet leads gig to neither.

use std::net::{IpAddr, Ipv4Addr};

use gig_policy::{
    Host, Verdict,
    special_purpose::{AddressClass, classify},
};
use gig_proxy::{
    Deadlines, NeverOpen, UpstreamProxy,
    upstream::dial::{Dialer, DialerSettings},
};
use tokio::net::TcpStream;

use crate::fetch::{Target, is_loopback, only};

/// Connects to where a registry that answers at `registry` points.
///
/// # Errors
/// Why not, in words.
pub(super) async fn dial(
    target: &Target,
    registry: Option<IpAddr>,
    proxy: Option<&UpstreamProxy>,
) -> Result<TcpStream, String> {
    let loopback = is_loopback(&target.host);
    let host = match &target.host {
        // As an address it is vetted, whoever would resolve the name.
        Host::Name(_) if loopback => Host::from(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        host => host.clone(),
    };
    let refused = |why: &str| format!("the registry points there, and {why}");
    let unusable = "gig goes to no such place";
    let rule = only(&host, target.port, &opened(registry)).map_err(|_| refused(unusable))?;
    let policy = rule.build().map_err(|_| refused(unusable))?;
    let permit = match policy.decide_connect(&host, target.port, None) {
        Verdict::Allow(permit) => permit,
        Verdict::Deny(_) => return Err(refused(unusable)),
    };
    let dialer = Dialer::new(DialerSettings {
        overrides: Vec::new(),
        // Behind it this machine's loopback is another machine's.
        upstream_proxy: proxy.filter(|_| !loopback).cloned(),
        never_open: NeverOpen::default(),
        deadlines: Deadlines::DEFAULT,
    });
    let dialed = dialer.dial_permitted(&permit).await;
    Ok(dialed.map_err(|error| refused(&error.why))?.stream)
}

/// The ranges that a registry at this address may lead to, beside the public ones.
fn opened(registry: Option<IpAddr>) -> Vec<String> {
    let special = |ip: &IpAddr| matches!(classify(*ip), AddressClass::Special { .. });
    let Some(ip) = registry.filter(special) else {
        return Vec::new();
    };
    let mut ranges = PRIVATE.map(ToOwned::to_owned).to_vec();
    ranges.push(format!("{ip}/{}", if ip.is_ipv4() { 32 } else { 128 }));
    if ip.is_loopback() {
        ranges.extend(["127.0.0.0/8".to_owned(), "::1/128".to_owned()]);
    }
    ranges
}

/// RFC 1918. The other private ranges hold metadata services of clouds: of those, the registry's own
/// address alone.
const PRIVATE: [&str; 3] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];

#[cfg(test)]
mod tests {
    use gig_policy::Port;

    use super::*;

    #[test]
    fn a_registry_leads_to_private_places_only_from_one() {
        let opened = |ip: &str| opened(Some(ip.parse().unwrap()));
        assert_eq!(super::opened(None), [""; 0]);
        for public in ["11.0.1.1", "2a00::1", "169.254.169.254"] {
            assert_eq!(opened(public), [""; 0], "{public}");
        }
        let private = opened("10.1.2.3");
        assert!(private.contains(&"192.168.0.0/16".to_owned()) && private.len() == 4);
        assert!(opened("::1").contains(&"127.0.0.0/8".to_owned()));
        // Each can be opened.
        for registry in ["10.1.2.3", "::1", "127.0.0.1", "100.64.1.1", "fd12::1"] {
            let named = only(
                &Host::parse("blobs.example").unwrap(),
                Port::HTTPS,
                &opened(registry),
            );
            assert!(named.is_ok_and(|rule| rule.build().is_ok()), "{registry}");
        }
    }
}
