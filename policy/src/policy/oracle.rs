//! Decisions compared with the slow, obvious reading of the rules.

use proptest::prelude::*;

use super::*;
use crate::{rule::Target, verdict::Verdict};

fn entry() -> impl Strategy<Value = String> {
    let target = prop_oneof![
        Just("host: a.x.example"),
        Just("host: b.a.x.example"),
        Just("host: x.example"),
        Just("host: '*.x.example'"),
        Just("host: '*.a.x.example'"),
        Just("ip: 20.0.0.0/8"),
        Just("ip: 20.1.0.0/16"),
        Just("ip: 20.1.2.3"),
    ];
    let ports = prop_oneof![
        Just("[443]"),
        Just("[443, 80]"),
        Just("[8443]"),
        Just("[80, 8443]")
    ];
    let kind = prop_oneof![
        4 => Just(", secrets: [A]"),
        4 => Just(", rules: [{methods: [GET], paths: [/a/**]}], secrets: [B]"),
        2 => Just(", rules: [{paths: [/b]}, {methods: [POST]}], secrets: [C]"),
        2 => Just(", protocol: http, secrets: [D]"),
        2 => Just(", protocol: https, rules: [{methods: [GET]}], secrets: [E]"),
        1 => Just(", protocol: tcp"),
        1 => Just(", tls: passthrough"),
    ];
    let private = prop_oneof![
        Just(""),
        Just(", allow_private: [10.0.0.0/8]"),
        Just(", allow_private: [10.0.0.0/8, fd12::/16]")
    ];
    (target, ports, kind, private).prop_map(|(t, p, k, a)| format!("- {{{t}, ports: {p}{k}{a}}}\n"))
}

struct Expected<'a> {
    handling: Handling,
    rules: Vec<&'a Rule>,
}

fn expected<'a>(
    policy: &'a Policy,
    host: &Host,
    port: Port,
    protocol: Option<AppProtocol>,
) -> Result<Expected<'a>, DenyReason> {
    let speaks = |r: &&Rule| match (&r.target, host) {
        (Target::Names(p), Host::Name(n)) => p.matches(n),
        (Target::Addresses(net), Host::Ip(ip)) => net.contains(ip),
        _ => false,
    };
    let specific = |r: &&Rule| match &r.target {
        Target::Names(p) => (
            p.to_string().starts_with('*'),
            usize::MAX - p.to_string().len(),
        ),
        Target::Addresses(net) => (false, usize::MAX - usize::from(net.prefix_len())),
    };
    let of_host: Vec<_> = policy.rules().iter().filter(speaks).collect();
    if of_host.is_empty() {
        let name = host.name().is_some();
        return Err(if name {
            DenyReason::HostNotAllowed
        } else {
            DenyReason::IpNotAllowed
        });
    }
    let has_port = |r: &&&Rule| r.ports.iter().any(|p| p.port == port);
    let Some(first) = of_host.iter().filter(has_port).min_by_key(|r| specific(r)) else {
        return Err(DenyReason::PortNotAllowed);
    };
    let handling = first.handling;
    let speaking = |r: &&Rule| {
        let mut ports = r.ports.iter();
        ports.any(|p| p.port == port && protocol.is_none_or(|wanted| p.protocols.has(wanted)))
    };
    let rules: Vec<_> = of_host
        .into_iter()
        .filter(|r| r.handling == handling)
        .filter(speaking)
        .collect();
    if rules.is_empty() {
        Err(DenyReason::ProtocolNotAllowed)
    } else {
        Ok(Expected { handling, rules })
    }
}

fn sorted<T: ToString>(items: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut items: Vec<_> = items.into_iter().map(|i| i.to_string()).collect();
    items.sort();
    items.dedup();
    items
}

fn request_allowed(rule: &Rule, method: &str, path: &str) -> bool {
    let fits = |pattern: &str| match pattern.strip_suffix("/**") {
        Some(prefix) => path
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with('/')),
        None => path == pattern,
    };
    let Some(requests) = &rule.requests else {
        return true;
    };
    requests.iter().any(|r| {
        let methods = r.methods.as_ref();
        let paths = r.paths.as_ref();
        methods.is_none_or(|m| m.iter().any(|m| m.as_str() == method))
            && paths.is_none_or(|p| p.iter().any(|p| fits(p.as_str())))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn decisions_agree_with_the_obvious_reading(
        entries in prop::collection::vec(entry(), 0..7),
        host in prop::sample::select(vec!["a.x.example", "b.a.x.example", "c.b.a.x.example", "x.example", "y.example", "20.1.2.3", "20.1.9.9", "20.9.9.9", "21.0.0.1"]),
        port in prop::sample::select(vec![443_u16, 80, 8443, 22]),
        protocol in prop::sample::select(vec![None, Some(AppProtocol::Https), Some(AppProtocol::Http), Some(AppProtocol::Tcp)]),
        method in prop::sample::select(vec!["GET", "POST", "PUT"]),
        path in prop::sample::select(vec!["/a/x", "/a", "/b", "/c", "/a/x%2Fy"]),
    ) {
        // Documents that contradict themselves are refused, which other tests look at.
        let Ok(policy) = Policy::compile(&format!("egress:\n{}", if entries.is_empty() { "  []".to_owned() } else { entries.concat() }), "p") else {
            return Ok(());
        };
        let (host, port) = (Host::parse(host).unwrap(), Port::new(port).unwrap());
        let wanted = expected(&policy, &host, port, protocol);
        match (policy.decide_connect(&host, port, protocol), &wanted) {
            (Verdict::Allow(permit), Ok(expected)) => {
                prop_assert_eq!(permit.handling(), expected.handling);
                let nets = expected.rules.iter().flat_map(|r| r.allow_private.iter());
                prop_assert_eq!(sorted(permit.allow_private()), sorted(nets));
            }
            (Verdict::Deny(denial), Err(reason)) => prop_assert_eq!(denial.reason, *reason),
            (got, _) => prop_assert!(false, "{:?}", got),
        }
        let Some(protocol) = protocol else { return Ok(()) };
        let intent = RequestIntent { protocol, method, path };
        let verdict = policy.decide_request(&host, port, &intent);
        let Ok(expected) = wanted else {
            prop_assert!(matches!(verdict, Verdict::Deny(_)));
            return Ok(());
        };
        let ambiguous = path.contains("%2F");
        let fits = |r: &&&Rule| {
            let path = if ambiguous { "/no/wildcard/fits" } else { path };
            expected.handling != Handling::Inspect || request_allowed(r, method, path)
        };
        let matching: Vec<_> = expected.rules.iter().filter(fits).collect();
        match verdict {
            Verdict::Allow(permit) => {
                prop_assert!(!matching.is_empty());
                let clear = protocol == AppProtocol::Http;
                let secrets = matching.iter().filter(|r| !clear || r.clear_text_secrets);
                let secrets = secrets.flat_map(|r| r.secrets.iter());
                prop_assert_eq!(sorted(permit.secrets()), sorted(secrets));
            }
            Verdict::Deny(denial) => {
                prop_assert!(matching.is_empty(), "{}", denial);
                prop_assert!(matches!(denial.reason, DenyReason::MethodNotAllowed | DenyReason::PathNotAllowed));
            }
        }
    }
}
