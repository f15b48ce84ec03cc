//! Loads the ruleset, once, by netlink.
//!
//! Promises that the rules are in force, all of them, when [`load`] returns.
//! The `nft` program is not needed: starting it cost more than all of the rest
//! of the hub's start.

use crate::hub_protocol::{Failure, Step};
use crate::netlink::Netlink;
use crate::nf_tables;
use crate::ruleset::Ruleset;

/// Loads it into the calling thread's network namespace.
pub(crate) fn load(ruleset: &Ruleset) -> Result<(), Failure> {
    let mut netlink =
        Netlink::netfilter().map_err(|source| Failure::io(Step::Firewall, &source))?;
    for mut transaction in nf_tables::transactions(ruleset) {
        netlink.request(&mut transaction).map_err(|error| {
            let what = format!("{error} (is the kernel's nf_tables complete?)");
            Failure::new(Step::Firewall, error.source.raw_os_error(), what)
        })?;
    }
    Ok(())
}

/// Loads it into the calling thread's network namespace, in the place of what a former gig left there.
pub(crate) fn replace(netlink: &mut Netlink, ruleset: &Ruleset) -> Result<(), Failure> {
    let loaded = netlink.request(&mut nf_tables::replacement(ruleset));
    loaded.map_err(|error| {
        let what = format!("{error} (is the kernel's nf_tables complete?)");
        Failure::new(Step::Firewall, error.source.raw_os_error(), what)
    })
}
