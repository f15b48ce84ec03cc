//! Address ranges as documents and options write them.
//!
//! One spelling each: no bits after the prefix, IPv4 as IPv4. Ranges that no rule could ever open are
//! refused here, so that nobody believes them open.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{rule::Target, special_purpose};

/// An address or a range that rules may speak of.
pub(crate) fn address_range(text: &str) -> Result<IpNet, String> {
    let net = range(text)?;
    if net.prefix_len() == 0 {
        return Err(format!(
            "{text} is every address: name the ranges that are needed"
        ));
    }
    match special_purpose::core_within(&net) {
        Some((core, name)) if core.contains(&net) => Err(format!(
            "{text} can never be opened ({name}): remove the entry"
        )),
        _ => Ok(net),
    }
}

/// A range that `allow_private` may open.
pub(crate) fn private_range(text: &str) -> Result<IpNet, String> {
    let net = range(text)?;
    match special_purpose::core_within(&net) {
        Some((core, name)) => {
            let core = Target::Addresses(core);
            Err(format!(
                "{text} touches {core} ({name}), which nothing may open: name narrower ranges without it"
            ))
        }
        None => Ok(net),
    }
}

fn range(text: &str) -> Result<IpNet, String> {
    let parsed = text.parse::<IpNet>().ok();
    let net = parsed.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    let Some(net) = net else {
        return Err(format!(
            "{text:?} is neither an address nor a range: write it as 10.1.2.3 or 10.20.0.0/16"
        ));
    };
    if net.trunc() != net {
        let (net, length) = (net.trunc(), net.prefix_len());
        return Err(format!(
            "{text} has bits set after its prefix of {length}: write {net}, or the one address alone"
        ));
    }
    match net {
        IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some() => Err(format!(
            "{text} is an IPv4 address inside IPv6: write it as IPv4"
        )),
        IpNet::V4(_) | IpNet::V6(_) => Ok(net),
    }
}
