//! Addresses against the registries, and those that embed others.

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

#[test]
fn every_registry_row_is_refused_from_its_first_to_its_last_address() {
    for (first, prefix, name) in registry::rows() {
        let range = IpNet::new(first, prefix).unwrap();
        assert_eq!(range.network(), first, "{name} is not a network address");
        for address in [range.network(), range.broadcast()] {
            assert_ne!(
                classify(address),
                AddressClass::Global,
                "{address} of {name}"
            );
            let refused = admit(address, &[]).unwrap_err();
            assert!(!refused.name().is_empty());
        }
    }
}

#[test]
fn rows_carry_the_registrys_names() {
    for (text, name) in [
        ("10.1.2.3", "Private-Use"),
        ("172.31.255.255", "Private-Use"),
        ("192.168.0.1", "Private-Use"),
        ("100.127.255.255", "Shared Address Space"),
        ("127.0.0.1", "Loopback"),
        ("127.255.255.254", "Loopback"),
        ("169.254.7.7", "Link Local"),
        ("192.0.0.8", "IPv4 dummy address"),
        ("192.0.0.171", "NAT64/DNS64 Discovery"),
        ("192.0.0.100", "IETF Protocol Assignments"),
        ("198.19.255.255", "Benchmarking"),
        ("240.0.0.1", "Reserved"),
        ("::1", "Loopback Address"),
        ("100::1", "Discard-Only Address Block"),
        ("100:0:0:1::1", "Dummy IPv6 Prefix"),
        ("2001:1::3", "DNS-SD Service Registration Protocol Anycast"),
        ("2001:2::1", "Benchmarking"),
        ("2001:db8::1", "Documentation"),
        ("3fff:fff::1", "Documentation"),
        ("5f00::1", "Segment Routing (SRv6) SIDs"),
        ("fd12::1", "Unique-Local"),
        ("fe80::1", "Link-Local Unicast"),
        ("fec0::1", "Site-Local Unicast (deprecated)"),
        ("4000::1", "Not global unicast (outside 2000::/3)"),
        ("1::1", "Not global unicast (outside 2000::/3)"),
    ] {
        assert_eq!(classify(ip(text)), AddressClass::Special { name }, "{text}");
    }
}

#[test]
fn public_addresses_and_neighbours_of_rows_are_global() {
    for text in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2003::1",
        "3ffe::1",
        "2620:4f:8001::1",
    ] {
        assert_eq!(classify(ip(text)), AddressClass::Global, "{text}");
        assert_eq!(admit(ip(text), &[]), Ok(()), "{text}");
    }
}

#[test]
fn nothing_opens_the_core_in_any_spelling() {
    let everything = [net("0.0.0.0/0"), net("::/0")];
    for text in [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "239.255.255.255",
        "255.255.255.255",
        "::",
        "ff02::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fe80::a9fe:a9fe",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::6464:64c8",
        "2002:a9fe:a9fe::1",
        // Teredo: server in clear, client inverted (0xa9fe ^ 0xffff = 0x5601).
        "2001:0:a9fe:a9fe::5601:5601",
        "2001:0:0808:0808::5601:5601",
        "2001:0:a9fe:a9fe::1",
        "2001:db8::5efe:a9fe:a9fe",
        "2606:4700::200:5efe:a9fe:a9fe",
        // RFC 6052 §2.2 with prefixes of 48, 56, 64 and 96 bits.
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:a9:fe:a9fe::",
        "64:ff9b:1:0:a9:fea9:fe00:0",
        "64:ff9b:1::a9fe:a9fe",
    ] {
        let class = classify(ip(text));
        assert!(
            matches!(class, AddressClass::NeverOpenable { .. }),
            "{text} is {class:?}"
        );
        let refused = admit(ip(text), &everything).unwrap_err();
        assert_eq!(refused.reason(), DenyReason::NeverOpenable, "{text}");
    }
}

#[test]
fn private_addresses_inside_transition_forms_need_a_rule_for_both() {
    for (text, outer) in [
        ("64:ff9b::a00:1", "64:ff9b::/96"),
        ("2002:a00:1::1", "2002::/16"),
        ("::10.0.0.1", "::/96"),
        ("2001:0:808:808::f5ff:fffe", "2001::/32"),
    ] {
        let (outer, inner) = (net(outer), net("10.0.0.0/8"));
        assert_eq!(
            classify(ip(text)),
            AddressClass::Special {
                name: "Private-Use"
            },
            "{text}"
        );
        assert!(admit(ip(text), &[]).is_err(), "{text}");
        assert!(
            admit(ip(text), &[outer]).is_err(),
            "{text} opened by its outside alone"
        );
        assert!(
            admit(ip(text), &[inner]).is_err(),
            "{text} opened by its inside alone"
        );
        assert_eq!(admit(ip(text), &[outer, inner]), Ok(()), "{text}");
    }
    assert!(admit(ip("64:ff9b::808:808"), &[]).is_err());
    assert_eq!(
        admit(ip("64:ff9b::808:808"), &[net("64:ff9b::/96")]),
        Ok(())
    );
    let isatap = ip("2606:4700::5efe:a00:1");
    assert!(admit(isatap, &[]).is_err());
    assert_eq!(admit(isatap, &[net("10.0.0.0/8")]), Ok(()));
    assert_eq!(admit(ip("2606:4700::5efe:808:808"), &[]), Ok(()));
}

#[test]
fn a_mapped_address_is_its_ipv4_address() {
    assert_eq!(admit(ip("::ffff:8.8.8.8"), &[]), Ok(()));
    assert!(admit(ip("::ffff:10.0.0.1"), &[]).is_err());
    assert_eq!(admit(ip("::ffff:10.0.0.1"), &[net("10.0.0.0/8")]), Ok(()));
}

#[test]
fn a_range_opens_what_it_names_and_nothing_else() {
    let rule = [net("10.20.0.0/16")];
    assert_eq!(admit(ip("10.20.3.4"), &rule), Ok(()));
    assert!(admit(ip("10.21.0.1"), &rule).is_err());
    assert!(admit(ip("fd12::1"), &rule).is_err());
}

#[test]
fn ranges_that_touch_the_core_are_found() {
    for text in [
        "169.254.0.0/16",
        "169.254.169.254/32",
        "100.64.0.0/10",
        "0.0.0.0/0",
        "224.0.0.0/24",
        "fc00::/7",
        "fd00:ec2::/32",
        "::/0",
        "ff02::/16",
        "0.0.0.0/32",
        "192.0.0.0/24",
    ] {
        assert!(core_within(&net(text)).is_some(), "{text}");
    }
    for text in [
        "10.0.0.0/8",
        "127.0.0.0/8",
        "192.168.0.0/16",
        "100.64.0.0/11",
        "fd12::/16",
    ] {
        assert_eq!(core_within(&net(text)), None, "{text}");
    }
}
