//! What is printed works where it came from.

use gig_audit::{Entry, Event, VerdictWord};
use gig_policy::{Host, Policy, PolicyBuilder, Port, Verdict};

use super::{super::Summary, *};

fn denied(host: &str, port: Option<u16>, protocol: Option<&str>, reason: DenyReason) -> Denied {
    Denied {
        host: host.into(),
        port,
        reason,
        would: false,
        request: None,
        dst_ip: None,
        protocol: protocol.map(Into::into),
        rule: None,
        why: None,
    }
}

/// The options that a cure prints, made a policy.
fn policy(cure: &str) -> Policy {
    let words: Vec<&str> = cure.split([' ', ',', ';']).collect();
    let mut builder = PolicyBuilder::new("printed");
    for pair in words.windows(2) {
        builder = match pair {
            ["--allow", value] if !value.ends_with("PORT)") => builder.allow(value).unwrap(),
            ["--allow-private", value] => builder.allow_private(value).unwrap(),
            _ => builder,
        };
    }
    builder.build().unwrap()
}

#[test]
fn what_listens_everywhere_is_the_sandbox_itself() {
    for host in ["0.0.0.0", "::", "127.0.0.1"] {
        let denied = denied(host, Some(8000), Some("http"), DenyReason::NeverOpenable);
        let cure = cure(&denied, &RulesFrom::default());
        assert!(cure.contains(&format!("(NO_PROXY={host})")), "{cure}");
    }
    let metadata = denied(
        "169.254.169.254",
        Some(80),
        Some("http"),
        DenyReason::NeverOpenable,
    );
    let cure = cure(&metadata, &RulesFrom::default());
    assert_eq!(cure, "nothing opens that address");
}

#[test]
fn the_name_of_a_metadata_service_is_not_offered() {
    for host in [
        "metadata.google.internal",
        "instance-data.us-west-2.compute.internal",
    ] {
        for port in [None, Some(80)] {
            let denied = denied(host, port, Some("http"), DenyReason::HostNotAllowed);
            let cure = cure(&denied, &RulesFrom::default());
            assert!(
                cure.contains("nothing opens") && !cure.contains("--allow"),
                "{cure}"
            );
        }
    }
}

#[test]
fn what_is_printed_allows_what_was_denied() {
    use gig_policy::AppProtocol::{Http, Https, Tcp};
    use gig_policy::DenyReason::{
        HostNotAllowed, IpNotAllowed, PortNotAllowed, ProtocolNotAllowed, UnsupportedProtocol,
    };
    for (host, port, protocol, reason) in [
        ("a.example", 443, Https, HostNotAllowed),
        ("a.example", 80, Http, HostNotAllowed),
        ("a.example", 443, Http, HostNotAllowed),
        ("a.example", 80, Https, PortNotAllowed),
        ("a.example", 8443, Https, PortNotAllowed),
        ("db.example", 5432, Tcp, PortNotAllowed),
        ("db.example", 443, Tcp, HostNotAllowed),
        ("db.example", 5432, Tcp, ProtocolNotAllowed),
        ("db.example", 5432, Tcp, UnsupportedProtocol),
        ("a.example", 443, Http, ProtocolNotAllowed),
        ("10.0.0.1", 5432, Tcp, IpNotAllowed),
        ("93.184.215.14", 443, Https, IpNotAllowed),
        ("2606:2800:220:1::1", 8443, Https, IpNotAllowed),
        ("fd00::1", 22, Tcp, IpNotAllowed),
    ] {
        let denied = denied(host, Some(port), Some(protocol.as_str()), reason);
        let cure = cure(&denied, &RulesFrom::default());
        let (host, port) = (Host::parse(host).unwrap(), Port::new(port).unwrap());
        let verdict = policy(&cure).decide_connect(&host, port, Some(protocol));
        let Verdict::Allow(permit) = verdict else {
            panic!("{denied:?}: {cure}");
        };
        if let Host::Ip(ip) = host {
            let opened = gig_policy::special_purpose::admit(ip, permit.allow_private());
            assert!(opened.is_ok(), "{cure}");
        }
    }
}

/// A policy that observes lets go what no rule names; what another port of the host has opens nothing.
#[test]
fn a_private_address_that_no_rule_names_is_opened_by_a_rule() {
    let mut private = denied(
        "db.example",
        Some(5432),
        Some("tcp"),
        DenyReason::PrivateAddress,
    );
    private.dst_ip = Some([127, 0, 0, 1].into());
    let from = RulesFrom {
        document: Some("p.yaml".into()),
        ..RulesFrom::default()
    };
    let told = cure(&private, &from);
    let rule = told.split_once("{host: ").unwrap().1;
    let document = format!(
        "version: 1\negress:\n  - {{host: db.example, ports: [9], allow_private: [127.0.0.1]}}\n  - {{host: {rule}\n"
    );
    let builder = PolicyBuilder::new("printed").document(&document, "printed");
    let option = cure(&private, &RulesFrom::default());
    for policy in [builder.unwrap().build().unwrap(), policy(&option)] {
        let host = Host::parse("db.example").unwrap();
        let verdict = policy.decide_connect(
            &host,
            Port::new(5432).unwrap(),
            Some(gig_policy::AppProtocol::Tcp),
        );
        let Verdict::Allow(permit) = verdict else {
            panic!("{told} {option}");
        };
        let opened =
            gig_policy::special_purpose::admit(private.dst_ip.unwrap(), permit.allow_private());
        assert!(opened.is_ok(), "{told} {option}");
    }
}

#[test]
fn a_documents_rule_is_mended_in_the_document() {
    let from = RulesFrom {
        document: Some("p.yaml".into()),
        ..RulesFrom::default()
    };
    let mut private = denied("db.example", Some(5432), None, DenyReason::PrivateAddress);
    private.dst_ip = Some([10, 0, 0, 1].into());
    for (rule, wanted) in [
        (
            Some("egress[0]"),
            "in p.yaml with this under the host: allow_private: [10.0.0.1]",
        ),
        (Some("--allow db.example"), "with: --allow-private 10.0.0.1"),
    ] {
        private.rule = rule.map(Into::into);
        let cure = cure(&private, &from);
        assert!(cure.ends_with(wanted), "{cure}");
    }
    // One that carries another takes both.
    private.dst_ip = Some("64:ff9b::a00:5".parse().unwrap());
    let both = cure(&private, &from);
    assert!(
        both.ends_with("--allow-private 64:ff9b::a00:5 --allow-private 10.0.0.5"),
        "{both}"
    );
    private.rule = Some("egress[0]".into());
    let both = cure(&private, &from);
    assert!(
        both.ends_with("allow_private: [\"64:ff9b::a00:5\", 10.0.0.5]"),
        "{both}"
    );
    let spoken = denied(
        "db.example",
        Some(5432),
        Some("tcp"),
        DenyReason::ProtocolNotAllowed,
    );
    let cure = cure(&spoken, &from);
    let rule = cure.split_once("host: {").unwrap().1;
    let document = format!("version: 1\negress:\n  - {{{rule}\n");
    let read = PolicyBuilder::new("printed").document(&document, "printed");
    let read = read.unwrap().build().unwrap();
    let host = Host::parse("db.example").unwrap();
    let verdict = read.decide_connect(
        &host,
        Port::new(5432).unwrap(),
        Some(gig_policy::AppProtocol::Tcp),
    );
    assert!(matches!(verdict, Verdict::Allow(_)), "{cure}");
}

#[test]
fn a_hello_that_may_hide_a_name_is_told_of_with_what_works() {
    let hidden = denied(
        "a.example",
        Some(443),
        Some("https"),
        DenyReason::NameMissing,
    );
    let cure = cure(&hidden, &RulesFrom::default());
    assert!(cure.contains("GREASE"), "{cure}");
    let host = Host::parse("a.example").unwrap();
    let verdict = policy(&cure).decide_connect(&host, Port::HTTPS, None);
    let handling = match verdict {
        Verdict::Allow(permit) => permit.handling(),
        Verdict::Deny(denial) => panic!("{denial:?}"),
    };
    assert_eq!(handling, gig_policy::Handling::Opaque);
}

/// A denial as it is recorded.
fn recorded(host: &str, port: u16, protocol: &str, reason: DenyReason) -> Entry {
    let mut entry = Entry::new(Event::Request);
    entry.verdict = Some(VerdictWord::Deny);
    entry.host = Some(host.into());
    entry.port = Some(port);
    entry.protocol = Some(protocol.into());
    entry.reason = Some(reason);
    entry
}

/// What the end of the run says of it.
fn told(entry: &Entry, from: &RulesFrom) -> String {
    let summary = Summary::default();
    summary.note(entry);
    summary.text(from).unwrap()
}

#[test]
fn what_gig_cannot_open_is_offered_as_any_bytes() {
    use gig_policy::AppProtocol::Tcp;
    let old_tls = recorded("a.example", 443, "https", DenyReason::UnsupportedProtocol);
    let mut connect = recorded("a.example", 3128, "http", DenyReason::ProtocolNotAllowed);
    // A CONNECT has no path.
    connect.method = Some("CONNECT".into());
    for entry in [old_tls, connect] {
        let told = told(&entry, &RulesFrom::default());
        let host = Host::parse("a.example").unwrap();
        let port = entry.port.and_then(Port::new).unwrap();
        let verdict = policy(&told.replace('\n', " ")).decide_connect(&host, port, Some(Tcp));
        assert!(matches!(verdict, Verdict::Allow(_)), "{told}");
        assert_eq!(
            told.contains("a proxy behind it"),
            entry.method.is_some(),
            "{told}"
        );
    }
}

#[test]
fn a_request_without_a_host_is_told_as_a_request() {
    let mut entry = recorded("93.184.215.14", 80, "http", DenyReason::NameMissing);
    entry.method = Some("GET".into());
    for path in [None, Some("/".into())] {
        entry.path = path;
        let told = told(&entry, &RulesFrom::default());
        assert!(told.contains("send a Host field"), "{told}");
        assert!(told.contains(":80  GET"), "{told}");
        assert!(!told.contains("--allow"), "{told}");
    }
}

#[test]
fn a_program_writes_no_wildcard_into_the_rule_that_is_offered() {
    let long = format!("/{}", "x".repeat(400));
    for (method, path, offered) in [
        ("GET", "/**", false),
        ("GET", "/a/*", false),
        ("get", "/a", false),
        ("*", "/a", false),
        ("GET", long.as_str(), true),
        ("GET", "/a", true),
    ] {
        let mut entry = recorded("a.example", 443, "https", DenyReason::PathNotAllowed);
        entry.method = Some(method.into());
        entry.path = Some(path.into());
        let told = told(&entry, &RulesFrom::default());
        let rule = format!("{{methods: [{method}], paths: [{path}]}}");
        assert_eq!(told.contains(&rule), offered, "{told}");
        assert_eq!(told.contains("paths: ["), offered, "{told}");
        assert_eq!(told.contains("no rule is offered"), !offered, "{told}");
    }
}

#[test]
fn what_is_inside_is_not_offered_to_be_opened_outside() {
    let from = RulesFrom {
        document: None,
        proxy: Some([10, 200, 0, 1].into()),
        sandbox: Some([10, 200, 0, 2].into()),
    };
    for (host, reason, said) in [
        (
            "localhost",
            DenyReason::HostNotAllowed,
            "NO_PROXY=localhost",
        ),
        ("db.localhost", DenyReason::HostNotAllowed, "NO_PROXY="),
        ("sandbox", DenyReason::HostNotAllowed, "NO_PROXY=sandbox"),
        ("127.0.0.2", DenyReason::IpNotAllowed, "NO_PROXY=127.0.0.2"),
        ("::1", DenyReason::IpNotAllowed, "NO_PROXY=::1"),
        ("10.200.0.2", DenyReason::PortNotAllowed, "NO_PROXY="),
        ("198.18.77.77", DenyReason::IpNotAllowed, "makes up"),
    ] {
        let told = told(&recorded(host, 8000, "http", reason), &from);
        assert!(told.contains(said), "{told}");
        assert!(!told.contains("--allow"), "{told}");
    }
    let other = recorded("10.200.0.6", 8000, "http", DenyReason::IpNotAllowed);
    let told = told(&other, &from);
    assert!(told.contains("--allow-private 10.200.0.6"), "{told}");
}

#[test]
fn too_many_connections_are_told_of_by_their_limit() {
    let from = RulesFrom {
        proxy: Some([10, 200, 0, 1].into()),
        ..RulesFrom::default()
    };
    for host in ["10.200.0.1", "a.example"] {
        let told = told(
            &recorded(host, 80, "http", DenyReason::ConnectionLimit),
            &from,
        );
        assert!(told.contains("raise `connections`"), "{told}");
    }
}

#[test]
fn no_rule_is_offered_for_gigs_own_proxy() {
    let from = RulesFrom {
        proxy: Some([10, 200, 0, 1].into()),
        ..RulesFrom::default()
    };
    for reason in [DenyReason::IpNotAllowed, DenyReason::ProtocolNotAllowed] {
        let cure = cure(
            &denied("10.200.0.1", Some(8081), Some("http"), reason),
            &from,
        );
        assert!(
            cure.contains("gig's own proxy") && !cure.contains("--allow"),
            "{cure}"
        );
    }
}

#[test]
fn a_name_alone_says_what_else_there_is() {
    let named = denied("db.example", None, Some("dns"), DenyReason::HostNotAllowed);
    let cure = cure(&named, &RulesFrom::default());
    assert!(cure.contains("--allow db.example "), "{cure}");
    // On another port there may be HTTP too: that is not to pass unread.
    let other =
        "another port: --allow db.example:PORT; what is no HTTP: --allow tcp:db.example:PORT";
    assert!(cure.contains(other), "{cure}");
}

#[test]
fn no_rule_is_offered_for_what_dns_gives_no_data_for() {
    let asked = |host, kind: &str, reason| {
        let mut denied = denied(host, None, Some("dns"), reason);
        denied.request = Some((kind.into(), None));
        cure(&denied, &RulesFrom::default())
    };
    let hosts = DenyReason::HostNotAllowed;
    for (host, kind, said) in [
        ("_ldap._tcp.example.com", "SRV", "asks nobody for SRV"),
        ("example.com", "MX", "asks nobody for MX"),
        (".", "NS", "the root of DNS"),
    ] {
        let reason = match host {
            "." => DenyReason::MalformedName,
            _ => hosts,
        };
        let told = asked(host, kind, reason);
        assert!(told.contains(said), "{told}");
        assert!(!told.contains("--allow"), "{told}");
    }
    for kind in ["A", "AAAA", "HTTPS"] {
        let told = asked("example.com", kind, hosts);
        assert!(told.contains("--allow example.com "), "{told}");
    }
    let told = asked("version.bind", "CH TXT", DenyReason::UnsupportedProtocol);
    assert!(told.contains("CH TXT is asked of nobody"), "{told}");
    let mut update = denied(
        "zone.example",
        None,
        Some("dns"),
        DenyReason::UnsupportedProtocol,
    );
    update.why = Some("its opcode is not QUERY".into());
    let told = cure(&update, &RulesFrom::default());
    assert_eq!(told, "no server was asked: its opcode is not QUERY");
}

#[test]
fn no_rule_is_offered_for_what_is_no_tcp() {
    for (protocol, port, word) in [
        ("udp", Some(443), "QUIC"),
        ("udp", Some(53), "UDP"),
        ("icmp", None, "ping"),
        ("ip protocol 47", None, "nothing but TCP"),
    ] {
        let denied = denied(
            "a.example",
            port,
            Some(protocol),
            DenyReason::UnsupportedProtocol,
        );
        let cure = cure(&denied, &RulesFrom::default());
        assert!(cure.contains(word) && !cure.contains("--allow"), "{cure}");
    }
}
