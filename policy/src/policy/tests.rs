//! Decisions on names, connections and requests.

use super::*;
use crate::{builder::PolicyBuilder, fqdn::Fqdn, verdict::Verdict};

mod secrets;

fn policy(text: &str) -> Policy {
    Policy::compile(text, "test.yaml").unwrap()
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

fn port(number: u16) -> Port {
    Port::new(number).unwrap()
}

/// `allow handling rule` or `deny reason rule hint`.
fn connect(p: &Policy, name: &str, number: u16, protocol: Option<AppProtocol>) -> String {
    match p.decide_connect(&host(name), port(number), protocol) {
        Verdict::Allow(permit) => {
            let rule = permit.rule().map_or("-", |r| &r.0).to_owned();
            let would = permit
                .would_deny()
                .map_or(String::new(), |d| format!(" would {}", d.reason));
            format!("allow {:?} {rule}{would}", permit.handling())
        }
        Verdict::Deny(d) => told(&d),
    }
}

fn request(
    p: &Policy,
    url: (&str, u16),
    protocol: AppProtocol,
    method: &str,
    path: &str,
) -> String {
    let intent = RequestIntent {
        protocol,
        method,
        path,
    };
    match p.decide_request(&host(url.0), port(url.1), &intent) {
        Verdict::Allow(permit) => {
            let rule = permit.rule().map_or("-", |r| &r.0).to_owned();
            format!(
                "allow {rule} {}",
                permit
                    .secrets()
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
            )
        }
        Verdict::Deny(d) => told(&d),
    }
}

fn told(denial: &Denial) -> String {
    let rule = denial.rule.as_ref().map_or("-", |r| &r.0);
    format!("deny {} near {rule} ask {}", denial.reason, denial.hint)
}

const HTTPS: Option<AppProtocol> = Some(AppProtocol::Https);
const HTTP: Option<AppProtocol> = Some(AppProtocol::Http);
const TCP: Option<AppProtocol> = Some(AppProtocol::Tcp);

#[test]
fn an_empty_policy_denies_everything_with_what_to_ask_for() {
    let p = Policy::deny_all("none");
    assert_eq!(
        connect(&p, "API.example.com.", 8443, None),
        "deny host_not_allowed near - ask api.example.com:8443"
    );
    assert_eq!(
        connect(&p, "db.example.com", 5432, TCP),
        "deny host_not_allowed near - ask tcp:db.example.com:5432"
    );
    assert_eq!(
        connect(&p, "8.8.8.8", 53, TCP),
        "deny ip_not_allowed near - ask tcp:8.8.8.8:53"
    );
    assert_eq!(
        connect(&p, "[2001:db8::1]", 443, HTTPS),
        "deny ip_not_allowed near - ask [2001:db8::1]:443"
    );
    let Verdict::Deny(d) = p.decide_name(&Fqdn::parse("a.example.com").unwrap()) else {
        panic!("allowed")
    };
    assert_eq!(told(&d), "deny host_not_allowed near - ask a.example.com");
    for empty in [
        "egress: []",
        "version: 1",
        "egress: [{host: a.example, ports: []}]",
    ] {
        assert!(
            connect(&policy(empty), "a.example", 443, None).starts_with("deny"),
            "{empty}"
        );
    }
    for empty in [
        "rules: []",
        "rules: [{methods: []}]",
        "rules: [{paths: []}]",
    ] {
        let p = policy(&format!("egress: [{{host: a.example, {empty}}}]"));
        let got = request(&p, ("a.example", 443), AppProtocol::Https, "GET", "/");
        assert!(got.starts_with("deny"), "{empty}: {got}");
    }
}

#[test]
fn the_core_is_never_hinted_at_and_never_observed() {
    let told = "deny never_openable near - ask ";
    for mode in ["enforce", "observe"] {
        for rules in ["[]", "[{ip: 169.254.0.0/16, ports: [80]}]"] {
            // A range that touches the core may not even be written down; where it is, it opens nothing.
            let Ok(p) = Policy::compile(&format!("mode: {mode}\negress: {rules}"), "test.yaml")
            else {
                continue;
            };
            for address in [
                "169.254.169.254",
                "[::ffff:169.254.169.254]",
                "[fd00:ec2::254]",
            ] {
                for protocol in [None, HTTP, TCP] {
                    let said = connect(&p, address, 80, protocol);
                    assert_eq!(said, told, "{mode} {rules} {address}");
                }
                let said = request(&p, (address, 80), AppProtocol::Http, "GET", "/");
                assert_eq!(said, told, "{mode} {rules} {address}");
            }
        }
    }
}

#[test]
fn default_ports_are_https_on_443_and_http_on_80() {
    let p = policy("egress: [{host: a.example}]");
    assert_eq!(
        connect(&p, "a.example", 443, None),
        "allow Inspect egress[0]"
    );
    assert_eq!(
        connect(&p, "a.example", 443, HTTPS),
        "allow Inspect egress[0]"
    );
    assert_eq!(
        connect(&p, "a.example", 80, HTTP),
        "allow Inspect egress[0]"
    );
    assert_eq!(
        connect(&p, "a.example", 443, HTTP),
        "deny protocol_not_allowed near egress[0] ask http:a.example:443"
    );
    assert_eq!(
        connect(&p, "a.example", 80, HTTPS),
        "deny protocol_not_allowed near egress[0] ask https:a.example:80"
    );
    assert_eq!(
        connect(&p, "a.example", 443, TCP),
        "deny protocol_not_allowed near egress[0] ask tcp:a.example:443"
    );
    assert_eq!(
        connect(&p, "a.example", 8443, HTTPS),
        "deny port_not_allowed near egress[0] ask a.example:8443"
    );
    let p = policy("egress: [{host: a.example, ports: [8443]}]");
    assert!(connect(&p, "a.example", 8443, HTTP).starts_with("allow"));
    assert!(connect(&p, "a.example", 8443, HTTPS).starts_with("allow"));
    assert!(connect(&p, "a.example", 443, HTTPS).starts_with("deny port"));
    let p = policy("egress: [{host: a.example, ports: [8443], protocol: https}]");
    assert!(connect(&p, "a.example", 8443, HTTP).starts_with("deny protocol"));
}

#[test]
fn opaque_takes_any_bytes_and_passthrough_tls_alone() {
    let p = policy(
        "egress:\n- {host: db.example, ports: [5432], protocol: tcp}\n\
         - {host: pinned.example, tls: passthrough}",
    );
    for protocol in [None, TCP, HTTP, HTTPS] {
        assert_eq!(
            connect(&p, "db.example", 5432, protocol),
            "allow Opaque egress[0]"
        );
    }
    assert_eq!(
        connect(&p, "pinned.example", 443, None),
        "allow Passthrough egress[1]"
    );
    assert_eq!(
        connect(&p, "pinned.example", 443, HTTPS),
        "allow Passthrough egress[1]"
    );
    assert!(connect(&p, "pinned.example", 443, HTTP).starts_with("deny protocol"));
    assert!(connect(&p, "pinned.example", 443, TCP).starts_with("deny protocol"));
    assert!(connect(&p, "pinned.example", 80, HTTP).starts_with("deny port"));
}

#[test]
fn the_most_specific_pattern_decides_how_bytes_are_treated() {
    let p = policy(
        "egress:\n- {host: '*.example.com', tls: passthrough}\n\
         - {host: api.example.com, rules: [{methods: [GET]}]}\n\
         - {host: '*.db.example.com', ports: [443], protocol: tcp}",
    );
    assert_eq!(
        connect(&p, "x.example.com", 443, None),
        "allow Passthrough egress[0]"
    );
    assert_eq!(
        connect(&p, "api.example.com", 443, None),
        "allow Inspect egress[1]"
    );
    assert_eq!(
        connect(&p, "a.db.example.com", 443, None),
        "allow Opaque egress[2]"
    );
    let post = request(
        &p,
        ("api.example.com", 443),
        AppProtocol::Https,
        "POST",
        "/",
    );
    assert!(post.starts_with("deny method"), "{post}");
}

#[test]
fn what_several_entries_allow_is_their_union() {
    let p = policy(
        "egress:\n- {host: '*.example.com', rules: [{methods: [GET], paths: [/pub/**]}], secrets: [A]}\n\
         - {host: api.example.com, rules: [{methods: [POST], paths: [/jobs]}], secrets: [B]}\n\
         - {host: api.example.com, rules: [{paths: [/pub/x]}], secrets: [C]}",
    );
    let api = ("api.example.com", 443);
    let https = AppProtocol::Https;
    assert_eq!(
        request(&p, api, https, "POST", "/jobs"),
        "allow egress[1].rules[0] B"
    );
    assert_eq!(
        request(&p, api, https, "GET", "/pub/y"),
        "allow egress[0].rules[0] A"
    );
    assert_eq!(
        request(&p, api, https, "GET", "/pub/x"),
        "allow egress[2].rules[0] C,A"
    );
    assert_eq!(
        request(&p, api, https, "POST", "/pub/y"),
        "deny path_not_allowed near egress[1].rules[0] ask {host: api.example.com, ports: [443], \
         rules: [{methods: [POST], paths: [/pub/y]}]}"
    );
    let x = ("x.example.com", 443);
    assert!(
        request(&p, x, https, "POST", "/pub/y")
            .starts_with("deny method_not_allowed near egress[0].rules[0]")
    );
    assert!(
        request(&p, x, https, "GET", "/jobs")
            .starts_with("deny path_not_allowed near egress[0].rules[0]")
    );
}

#[test]
fn allow_private_comes_from_matching_entries_only() {
    let p = policy(
        "egress:\n- {host: '*.corp.example', allow_private: [10.0.0.0/8]}\n\
         - {host: a.corp.example, allow_private: [192.168.0.0/16]}\n\
         - {host: b.corp.example, ports: [8443], allow_private: [172.16.0.0/12]}",
    );
    let opened = |name: &str, number: u16| match p.decide_connect(&host(name), port(number), None) {
        Verdict::Allow(permit) => {
            let nets: Vec<_> = permit
                .allow_private()
                .iter()
                .map(ToString::to_string)
                .collect();
            nets.join(" ")
        }
        Verdict::Deny(d) => told(&d),
    };
    assert_eq!(opened("x.corp.example", 443), "10.0.0.0/8");
    assert_eq!(opened("a.corp.example", 443), "192.168.0.0/16 10.0.0.0/8");
    assert_eq!(opened("b.corp.example", 443), "10.0.0.0/8");
    assert_eq!(opened("b.corp.example", 8443), "172.16.0.0/12");
}

#[test]
fn addresses_are_matched_by_the_longest_range() {
    let p = policy(
        "egress:\n- {ip: 203.0.112.0/23, ports: [22], protocol: tcp}\n\
         - {ip: 203.0.113.7, ports: [443]}\n- {ip: '2001:db8::/32'}",
    );
    assert_eq!(
        connect(&p, "203.0.112.9", 22, None),
        "allow Opaque egress[0]"
    );
    assert_eq!(
        connect(&p, "203.0.113.7", 22, None),
        "allow Opaque egress[0]"
    );
    assert_eq!(
        connect(&p, "203.0.113.7", 443, None),
        "allow Inspect egress[1]"
    );
    assert!(
        connect(&p, "203.0.113.8", 443, None).starts_with("deny port_not_allowed near egress[0]")
    );
    assert_eq!(
        connect(&p, "[::ffff:203.0.113.7]", 443, None),
        "allow Inspect egress[1]"
    );
    assert_eq!(
        connect(&p, "2001:db8:1::1", 443, None),
        "allow Inspect egress[2]"
    );
    assert!(connect(&p, "2001:db9::1", 443, None).starts_with("deny ip_not_allowed"));
}

#[test]
fn the_apex_is_denied_with_the_wildcard_as_its_nearest_rule() {
    let p = policy("egress: [{host: '*.example.com'}]");
    assert_eq!(
        connect(&p, "example.com", 443, None),
        "deny host_not_allowed near egress[0] ask example.com:443"
    );
}

#[test]
fn observe_lets_pass_and_says_what_it_would_deny_and_opens_nothing_private() {
    let p = policy(
        "mode: observe\negress: [{host: a.example, secrets: [T], rules: [{methods: [GET]}], \
         allow_private: [10.0.0.0/8]}]",
    );
    assert_eq!(
        connect(&p, "b.example", 443, None),
        "allow Inspect - would host_not_allowed"
    );
    assert_eq!(
        connect(&p, "b.example", 22, TCP),
        "allow Opaque - would host_not_allowed"
    );
    assert_eq!(
        connect(&p, "a.example", 443, TCP),
        "allow Opaque - would protocol_not_allowed"
    );
    assert_eq!(
        connect(&p, "a.example", 443, HTTPS),
        "allow Inspect egress[0]"
    );
    let https = AppProtocol::Https;
    assert_eq!(
        request(&p, ("a.example", 443), https, "POST", "/"),
        "allow - "
    );
    assert_eq!(
        request(&p, ("a.example", 443), https, "GET", "/"),
        "allow egress[0].rules[0] T"
    );
    let Verdict::Allow(permit) = p.decide_connect(&host("b.example"), port(443), None) else {
        panic!("denied")
    };
    assert!(permit.allow_private().is_empty());
    let name = Fqdn::parse("b.example").unwrap();
    let Verdict::Allow(permit) = p.decide_name(&name) else {
        panic!("denied")
    };
    assert_eq!(
        permit.would_deny().unwrap().reason,
        DenyReason::HostNotAllowed
    );
}

#[test]
fn options_add_to_a_document() {
    let p = PolicyBuilder::new("cli")
        .document("name: base\negress: [{host: a.example}]", "base.yaml")
        .unwrap()
        .allow("b.example:8443")
        .unwrap()
        .allow("tcp:db.example:5432")
        .unwrap()
        .allow("10.1.2.0/24:22")
        .unwrap()
        .allow("[2001:db8::1]:443")
        .unwrap()
        .allow("tls:pinned.example")
        .unwrap()
        .allow_private("10.0.0.0/8")
        .unwrap()
        .version(3)
        .build()
        .unwrap();
    assert_eq!(&*p.reference().name, "base");
    assert_eq!(p.reference().version, 3);
    assert_eq!(
        connect(&p, "a.example", 443, None),
        "allow Inspect egress[0]"
    );
    assert_eq!(
        connect(&p, "b.example", 8443, HTTP),
        "allow Inspect --allow b.example:8443"
    );
    assert_eq!(
        connect(&p, "db.example", 5432, None),
        "allow Opaque --allow tcp:db.example:5432"
    );
    assert_eq!(
        connect(&p, "10.1.2.3", 22, HTTPS),
        "allow Inspect --allow 10.1.2.0/24:22"
    );
    assert_eq!(
        connect(&p, "2001:db8::1", 443, None),
        "allow Inspect --allow [2001:db8::1]:443"
    );
    assert_eq!(
        connect(&p, "pinned.example", 443, None),
        "allow Passthrough --allow tls:pinned.example"
    );
    let private = |name: &str, n: u16| match p.decide_connect(&host(name), port(n), None) {
        Verdict::Allow(permit) => permit.allow_private().len(),
        Verdict::Deny(d) => panic!("{d}"),
    };
    assert_eq!(private("a.example", 443), 0);
    assert_eq!(private("b.example", 8443), 1);
}

#[test]
fn a_hint_is_bounded_and_quoted() {
    let p = policy("egress: [{host: a.example, rules: [{methods: [GET], paths: [/x]}]}]");
    let long = format!("/{}", "a".repeat(9000));
    let got = request(&p, ("a.example", 443), AppProtocol::Https, "GET", &long);
    assert!(got.len() < 500, "{}", got.len());
    let got = request(
        &p,
        ("a.example", 443),
        AppProtocol::Https,
        "GET",
        "/a,b]:\"c\\",
    );
    assert!(got.contains(r#"paths: ["/a,b]:\"c\\"]"#), "{got}");
}

#[test]
fn an_entry_for_one_protocol_lets_no_request_of_the_other_pass() {
    let p = policy(
        "egress:\n- {host: a.example, ports: [8080], protocol: http, secrets: [D]}\n\
         - {host: a.example, ports: [8080], protocol: https, rules: [{methods: [GET]}]}",
    );
    let a = ("a.example", 8080);
    let post = request(&p, a, AppProtocol::Https, "POST", "/");
    assert!(post.starts_with("deny method_not_allowed"), "{post}");
    let get = request(&p, a, AppProtocol::Https, "GET", "/");
    assert_eq!(get, "allow egress[1].rules[0] ");
    assert_eq!(
        request(&p, a, AppProtocol::Http, "POST", "/"),
        "allow egress[0] D"
    );
}
