//! Hosts, names, authorities and host patterns: one spelling each, and patterns that mean what they say.

use gig_policy::{Fqdn, Host, host_pattern::HostPattern};
use gig_proxy::authority::Authority;

/// Lines: the first two are patterns, the others hosts.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut lines = text.split('\n');
    let patterns: Vec<_> = lines
        .by_ref()
        .take(2)
        .filter_map(|line| HostPattern::parse(line).ok())
        .collect();
    for pattern in &patterns {
        assert_eq!(
            HostPattern::parse(&pattern.to_string()).as_ref(),
            Ok(pattern)
        );
    }
    for line in lines.take(8) {
        if let Ok(host) = Host::parse(line) {
            assert_eq!(Host::parse(&host.to_string()).as_ref(), Ok(&host));
        }
        if let Ok(authority) = Authority::parse(line) {
            assert!(line.is_ascii());
            assert_eq!(
                Host::parse(&authority.host.to_string()).as_ref(),
                Ok(&authority.host)
            );
        }
        if let Ok(name) = Fqdn::parse(line) {
            check_name(&name, &patterns);
        }
    }
}

fn check_name(name: &Fqdn, patterns: &[HostPattern]) {
    assert_eq!(Fqdn::parse(name.as_str()).as_ref(), Ok(name));
    assert!(
        name.as_str().len() <= 253 && name.labels().all(|label| (1..=63).contains(&label.len()))
    );
    assert!(
        name.as_str()
            .bytes()
            .all(|b| b.is_ascii() && !b.is_ascii_uppercase())
    );
    for pattern in patterns {
        let shown = pattern.to_string();
        // The obvious reading: below the base by at least one label, never the base.
        let obvious = match shown.strip_prefix('*') {
            Some(ending) => name.as_str().len() > ending.len() && name.as_str().ends_with(ending),
            None => name.as_str() == shown,
        };
        assert_eq!(pattern.matches(name), obvious, "{shown} {name}");
        for wider in patterns {
            let implied = wider.covers(pattern) && pattern.matches(name);
            assert!(
                !implied || wider.matches(name),
                "{wider} covers {shown}, not {name}"
            );
        }
    }
}
