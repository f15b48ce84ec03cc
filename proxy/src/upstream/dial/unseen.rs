//! What no name may be sent for to a proxy that resolves names itself: nobody here sees which address it dials.
//!
//! A rule that names a host is somebody's word that the host may be reached, wherever it is. What the program
//! picks (a policy that observes) and what is promised of addresses (private ranges alone) is nobody's word: it is
//! refused. So are the names of metadata services, which stay closed whatever is named; a public name that stands
//! for such an address is the proxy's to refuse.

use gig_policy::{ConnectPermit, DenyReason, Fqdn, Host, Reach};

/// Why this name is not sent to the proxy.
pub(super) fn refused(permit: &ConnectPermit) -> Option<(DenyReason, &'static str)> {
    if let Host::Name(name) = permit.host()
        && is_metadata_service(name)
    {
        let why = "it is a metadata service's name, which would be resolved by the upstream proxy";
        return Some((DenyReason::NeverOpenable, why));
    }
    if permit.would_deny().is_some() {
        let why = "the upstream proxy resolves it, so that what is only observed could be private";
        return Some((DenyReason::PrivateAddress, why));
    }
    if permit.reach() == Reach::Local {
        let why = "the upstream proxy resolves it, so that it could be a public address";
        return Some((DenyReason::PrivateAddress, why));
    }
    None
}

fn is_metadata_service(name: &Fqdn) -> bool {
    let name = name.to_string();
    let name = name.trim_end_matches('.');
    let is_below = |service: &&str| {
        let rest = name.strip_suffix(*service);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    METADATA.iter().any(is_below)
}

/// Names by which clouds serve what an instance is and may, as their documentation gives them.
const METADATA: [&str; 9] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.goog",
    "metadata.google.internal",
    "metadata.azure.internal",
    "metadata.platformequinix.com",
    "metadata.tencentyun.com",
    "metadata.packet.net",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_metadata_services_are_known() {
        let is = |name: &str| is_metadata_service(&name.parse().unwrap());
        assert!(is("metadata.google.internal"));
        assert!(is("Metadata.Google.Internal"));
        assert!(is("x.metadata.google.internal"));
        assert!(is("instance-data.ec2.internal"));
        assert!(!is("metadata.example.com"));
        assert!(!is("mymetadata.google.internal"));
    }
}
