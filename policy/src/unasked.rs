//! Names that systems look up by themselves: no program wants to go there, and no rule should be made for them.

/// Whether a look-up of this name is a system's own question: a reverse look-up (RFC 1035 §3.5, RFC 3596 §2.5),
/// whether there is encrypted DNS (RFC 9462 §4), NAT64 (RFC 7050 §3), or something that wants none (Firefox's canary).
#[must_use]
pub fn is_unasked(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let below = |zone: &str| {
        let label = name.strip_suffix(zone);
        label.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    ZONES.iter().any(|zone| below(zone))
}

const ZONES: [&str; 5] = [
    "in-addr.arpa",
    "ip6.arpa",
    "resolver.arpa",
    "ipv4only.arpa",
    "use-application-dns.net",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_systems_ask_for_are_told_from_hosts() {
        for name in [
            "1.2.18.198.in-addr.arpa",
            "8.b.d.0.1.0.0.2.ip6.arpa.",
            "_dns.resolver.arpa",
            "ipv4only.arpa",
            "use-application-dns.net",
        ] {
            assert!(is_unasked(name), "{name}");
        }
        for name in ["xin-addr.arpa", "arpa", "home.arpa", "api.example", ""] {
            assert!(!is_unasked(name), "{name}");
        }
    }
}
