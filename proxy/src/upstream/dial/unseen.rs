//! What no name may be sent for to a proxy that resolves names itself: nobody here sees which address it dials.
//!
//! A rule that names a host is somebody's word that the host may be reached, wherever it is. What the program
//! picks (a policy that observes) is nobody's word: it is sent only where somebody said that the proxy resolves names
//! (`GIG_UPSTREAM_PROXY_NAMES=proxy`), and not where gig does that by itself for want of a name server. What is promised
//! of addresses (private ranges alone) cannot be kept. Names of metadata services stay closed whatever is named; what this
//! host itself calls by a name is vetted as ever, by who dials; a public name that stands for such an address is the proxy's to refuse.

use gig_policy::{ConnectPermit, DenyReason, Host, Reach, is_metadata_service};

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
}
