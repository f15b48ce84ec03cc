//! Plain lists of hosts: what denies, what names a port, what is no host.

use super::*;

#[test]
fn a_line_that_denies_is_no_rule_that_allows() {
    let empty = [
        "deny bad.example.com",
        "block bad.example.com",
        "bad.example.com deny",
        "bad.example.com: BLOCK",
        "!bad.example.com",
        "deny: bad.example.com:443",
    ];
    for text in empty {
        assert_eq!(egress(Format::Hosts, text).0, "egress: []", "{text}");
        let list = format!("bad.example.com\ngood.example.com\n{text}\n");
        let document = egress(Format::Hosts, &list).0;
        assert_eq!(document, "egress:\n  - host: good.example.com", "{text}");
        let (_, widened, _) = egress(Format::Hosts, &format!("*.example.com\n{text}\n"));
        assert!(
            widened[0].contains("bad.example.com was denied"),
            "{text}: {widened:?}"
        );
    }
    let unsure = [
        "- bad.example.com",
        "deny",
        "[blocked]",
        "allow a.example.com deny b.example.com",
        "443 a.example.com",
        "host,port,action\na.example.com,443,deny",
    ];
    for text in unsure {
        assert!(
            refused(Format::Hosts, text).contains("theirs:1:1"),
            "{text}"
        );
    }
    assert_eq!(
        egress(Format::Hosts, "allow a.example.com  // not b.example.com").0,
        "egress:\n  - host: a.example.com"
    );
    assert_eq!(
        egress(Format::Hosts, "! Title: what we need\n").0,
        "egress: []"
    );
}

#[test]
fn a_port_of_a_list_is_kept_and_a_word_is_no_host() {
    let ports = |text: &str| egress(Format::Hosts, text).0;
    for text in [
        "a.example.com,8443",
        "a.example.com 8443",
        "a.example.com tcp/8443",
        "\"a.example.com\",\"8443\",tcp",
        "allow a.example.com, 8443/tcp",
        "host,port\na.example.com,8443",
    ] {
        assert_eq!(
            ports(text),
            "egress:\n  - host: a.example.com\n    ports: [8443]",
            "{text}"
        );
    }
    assert_eq!(
        ports("a.example.com 443 8443 b.example.com\nc.example.com https\n"),
        "egress:\n  - host: a.example.com\n    ports: [443, 8443]\n  - host: b.example.com\n  - host: c.example.com\n    \
         ports: [443]"
    );
    for text in [
        "a.example.com udp/53",
        "a.example.com 53 udp",
        "please read this",
        "a.example.com 0",
    ] {
        let (document, _, narrowed) = egress(Format::Hosts, text);
        assert_eq!(document, "egress: []", "{text}");
        assert!(!narrowed.is_empty(), "{text}");
    }
}
