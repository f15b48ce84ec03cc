//! What a connection may be dialled to, where the URL names an address.
//!
//! The same reading as the proxy's vetting of one address, without what only a host knows: its own
//! addresses.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{
    deny_reason::DenyReason,
    special_purpose::{PRIVATE_USE, admit},
    verdict::{ConnectPermit, Reach},
};

/// The special-purpose ranges that are open to it: those that rules name, and with
/// [`Reach::Local`] those that organisations number their networks from.
pub(super) fn opened(permit: &ConnectPermit) -> Vec<IpNet> {
    let mut open = permit.allow_private().to_vec();
    if permit.reach() == Reach::Local {
        // A range that is public as a whole is reached by no name or number of it.
        open.retain(|net| {
            admit(net.network(), &[]).is_err() || PRIVATE_USE.iter().any(|own| net.contains(own))
        });
    }
    // What is merely observed opens nothing.
    if permit.reach() == Reach::Local && permit.would_deny().is_none() {
        open.extend(
            PRIVATE_USE
                .iter()
                .filter(|net| !permit.allow_private().contains(net)),
        );
    }
    open
}

/// What an address needs beside a rule.
pub(super) fn needs(ip: IpAddr) -> Option<String> {
    let refusal = admit(ip, &[]).err()?;
    (refusal.reason() == DenyReason::PrivateAddress).then(|| {
        format!(
            "it is no public address: the rule that allows it needs allow_private: [{ip}] as well"
        )
    })
}

/// Whether this address would be dialled; the reason and the sentence if not.
pub(super) fn admitted(permit: &ConnectPermit, ip: IpAddr) -> Result<(), (DenyReason, String)> {
    if permit.reach() == Reach::Local && admit(ip, &[]).is_ok() {
        let why = "it is public, and the policy reaches private ranges only";
        return Err((DenyReason::PublicAddress, why.to_owned()));
    }
    admit(ip, &opened(permit)).map_err(|refusal| (refusal.reason(), refusal.to_string()))
}
