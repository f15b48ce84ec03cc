//! What no name may be sent for to a proxy that resolves names itself: nobody here sees which address it dials.
//!
//! A rule that names a host is somebody's word that the host may be reached, wherever it is. What the program
//! picks (a policy that observes) is nobody's word: it is sent only where somebody said that the proxy resolves names
//! (`GIG_UPSTREAM_PROXY_NAMES=proxy`), and not where gig does that by itself for want of a name server. What is promised
//! of addresses (private ranges alone) cannot be kept. Names of metadata services stay closed whatever is named; a public
//! name that stands for such an address is the proxy's to refuse.

use gig_policy::{ConnectPermit, DenyReason, Fqdn, Host, Reach};

/// Why this name is not sent to the proxy; `asked` where somebody said that it is to resolve names.
pub(super) fn refused(permit: &ConnectPermit, asked: bool) -> Option<(DenyReason, &'static str)> {
    if let Host::Name(name) = permit.host()
        && is_metadata_service(name)
    {
        let why = "it is a metadata service's name, which would be resolved by the upstream proxy";
        return Some((DenyReason::NeverOpenable, why));
    }
    if permit.would_deny().is_some() && !asked {
        let why = "no name server is here and the upstream proxy would resolve it, so that what is only observed could \
                   be private; GIG_UPSTREAM_PROXY_NAMES=proxy takes its word for it";
        return Some((DenyReason::PrivateAddress, why));
    }
    if permit.reach() == Reach::Local {
        let why = "the upstream proxy resolves it, so that it could be a public address";
        return Some((DenyReason::PrivateAddress, why));
    }
    None
}

/// Whether it is a name by which a cloud serves what an instance is and may.
#[must_use]
pub fn is_metadata_service(name: &Fqdn) -> bool {
    let known = |service: &&str| name.as_str() == *service || name.is_below(service);
    let is_instance =
        name.as_str().starts_with("instance-data.") && name.is_below("compute.internal");
    is_instance || METADATA.iter().any(known)
}

/// Names by which clouds serve what an instance is and may, as their documentation gives them.
const METADATA: [&str; 10] = [
    "instance-data",
    "instance-data.ec2.internal",
    "metadata",
    "metadata.goog",
    "metadata.google.internal",
    "metadata.azure.internal",
    "metadata.cloud.ibm.com",
    "metadata.platformequinix.com",
    "metadata.tencentyun.com",
    "metadata.packet.net",
];

#[cfg(test)]
mod tests {
    use gig_policy::{Policy, Port, Verdict};

    use super::*;

    fn permit(document: &str, host: &str) -> ConnectPermit {
        let policy = Policy::compile(document, "test").unwrap();
        let port = Port::new(443).unwrap();
        match policy.decide_connect(&Host::parse(host).unwrap(), port, None) {
            Verdict::Allow(permit) => permit,
            Verdict::Deny(denial) => panic!("{denial}"),
        }
    }

    #[test]
    fn what_nobody_named_is_sent_only_where_somebody_said_so() {
        let observing = "version: 1\nname: p\nmode: observe\negress: []\n";
        let naming = "version: 1\nname: p\negress:\n- {host: metadata.google.internal}\n- {host: a.example}\n";
        let reason = |document, host, asked| {
            let refused = refused(&permit(document, host), asked);
            refused.map(|(reason, _)| reason)
        };
        for asked in [false, true] {
            let closed = Some(DenyReason::NeverOpenable);
            assert_eq!(reason(observing, "metadata.google.internal", asked), closed);
            assert_eq!(reason(naming, "metadata.google.internal", asked), closed);
            assert_eq!(reason(naming, "a.example", asked), None);
        }
        assert_eq!(reason(observing, "a.example", true), None);
        let private = Some(DenyReason::PrivateAddress);
        assert_eq!(reason(observing, "a.example", false), private);
    }

    #[test]
    fn names_of_metadata_services_are_known() {
        let is = |name: &str| is_metadata_service(&name.parse().unwrap());
        assert!(is("metadata.google.internal"));
        assert!(is("Metadata.Google.Internal"));
        assert!(is("x.metadata.google.internal"));
        assert!(is("instance-data.ec2.internal"));
        assert!(is("instance-data.us-west-2.compute.internal"));
        assert!(is("api.metadata.cloud.ibm.com"));
        assert!(!is("metadata.example.com"));
        assert!(!is("mymetadata.google.internal"));
    }
}
