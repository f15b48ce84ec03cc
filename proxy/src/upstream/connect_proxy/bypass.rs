//! `NO_PROXY`: what goes past the host's proxy, read as curl and Go read it.

use std::net::IpAddr;

use gig_policy::{Fqdn, Host, Port};
use ipnet::IpNet;

use crate::authority::Authority;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bypass {
    /// `*`.
    Everything,
    /// `example.com`: the name and all below it; `.example.com` (`apex` false): only those below.
    Domain {
        name: Fqdn,
        apex: bool,
        port: Option<Port>,
    },
    /// `10.0.0.0/8` or one address.
    Net { net: IpNet, port: Option<Port> },
}

impl Bypass {
    /// Entries stand between commas or blanks; one that says nothing is left out, as everywhere else.
    pub(super) fn parse_list(list: &str) -> Vec<Self> {
        list.split([',', ' ', '\t'])
            .filter(|e| !e.is_empty())
            .filter_map(Self::parse)
            .collect()
    }

    fn parse(entry: &str) -> Option<Self> {
        if entry == "*" {
            return Some(Self::Everything);
        }
        if let Some(net) = super::net(entry) {
            return Some(Self::Net { net, port: None });
        }
        let (below, bare) = match entry.strip_prefix("*.").or_else(|| entry.strip_prefix('.')) {
            Some(bare) => (true, bare),
            None => (false, entry),
        };
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Some(Self::Net {
                net: IpNet::from(ip),
                port: None,
            });
        }
        let authority = Authority::parse(bare).ok()?;
        Some(match authority.host {
            Host::Name(name) => Self::Domain {
                name,
                apex: !below,
                port: authority.port,
            },
            Host::Ip(ip) => Self::Net {
                net: IpNet::from(ip),
                port: authority.port,
            },
        })
    }

    pub(super) fn covers(&self, host: &Host, port: Port) -> bool {
        match self {
            Self::Everything => true,
            Self::Domain {
                name,
                apex,
                port: only,
            } => {
                let Some(asked) = host.name() else {
                    return false;
                };
                let below = asked.is_below(name.as_str());
                (below || (*apex && asked == name)) && only.is_none_or(|only| only == port)
            }
            Self::Net { net, port: only } => {
                host.ip().is_some_and(|ip| net.contains(&ip))
                    && only.is_none_or(|only| only == port)
            }
        }
    }
}
