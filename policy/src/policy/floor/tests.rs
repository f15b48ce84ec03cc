//! What policy and floors decide together.

use crate::{
    host::{Host, Port},
    intent::{AppProtocol, RequestIntent},
    limits::ByteCount,
    policy::Policy,
    verdict::{Handling, Verdict},
};

fn policy(name: &str, rules: &str) -> Policy {
    let text = format!("version: 1\nname: {name}\n{rules}\n");
    Policy::compile(&text, name).unwrap()
}

fn told(policy: &Policy, method: &str, url: &str) -> (String, String) {
    let told = policy.explain(method, url).unwrap();
    (told.verdict.to_owned(), told.policy)
}

const OWN: &str = "egress:
  - {host: api.example.com, secrets: [TOKEN]}
  - {host: other.example.net}";
const FLOOR: &str = "egress:
  - {host: '*.example.com', rules: [{methods: [GET, HEAD]}]}";

#[test]
fn what_passes_passes_policy_and_floor() {
    let under = policy("own", OWN).under(vec![policy("company", FLOOR)]);
    let is = |method, url, verdict: &str, by: &str| {
        let want = (verdict.to_owned(), by.to_owned());
        assert_eq!(told(&under, method, url), want, "{method} {url}");
    };
    is("GET", "https://api.example.com/", "allow", "own");
    // Allowed by one alone.
    is("POST", "https://api.example.com/", "deny", "company");
    is("GET", "https://other.example.net/", "deny", "company");
    is("GET", "https://www.example.com/", "deny", "own");
    // By none: the floor is named, which a rule in the policy would not change.
    is("GET", "https://evil.example/", "deny", "company");
    let host = Host::parse("other.example.net").unwrap();
    let https = Some(AppProtocol::Https);
    let Verdict::Deny(denial) = under.decide_connect(&host, Port::HTTPS, https) else {
        panic!("passes");
    };
    assert!(denial.floor && &*denial.policy.name == "company");
    let Verdict::Deny(denial) = under.decide_name(host.name().unwrap()) else {
        panic!("is answered");
    };
    assert!(denial.floor);
}

#[test]
fn an_explanation_names_what_each_level_says() {
    let under = policy("own", OWN).under(vec![policy("company", FLOOR), policy("team", OWN)]);
    let told = under.explain("POST", "https://api.example.com/").unwrap();
    let levels: Vec<_> = told
        .levels
        .iter()
        .map(|level| (level.policy.as_str(), level.floor, level.verdict))
        .collect();
    let want = [
        ("own", false, "allow"),
        ("company", true, "deny"),
        ("team", true, "allow"),
    ];
    assert_eq!(levels, want);
    let text = told.to_string();
    assert!(
        text.contains("assigned own version 0: allow (egress[0])"),
        "{text}"
    );
    assert!(
        text.contains("floor    company version 0: deny method_not_allowed"),
        "{text}"
    );
}

#[test]
fn each_of_two_floors_bounds() {
    let other = policy(
        "other",
        "egress:\n  - {host: api.example.com, ports: [443]}",
    );
    let under = policy("own", OWN).under(vec![policy("company", FLOOR), other]);
    assert_eq!(told(&under, "GET", "https://api.example.com/").0, "allow");
    let denied = ("deny".to_owned(), "other".to_owned());
    assert_eq!(told(&under, "GET", "http://api.example.com/"), denied);
    assert_eq!(under.floors().len(), 2);
    assert!(under.alone().floors().is_empty());
}

#[test]
fn a_secret_is_the_policys_own_to_grant() {
    let under = policy("own", OWN).under(vec![policy("company", FLOOR)]);
    let intent = RequestIntent {
        protocol: AppProtocol::Https,
        method: "GET",
        path: "/",
    };
    let host = Host::parse("api.example.com").unwrap();
    let Verdict::Allow(permit) = under.decide_request(&host, Port::HTTPS, &intent) else {
        panic!("denied");
    };
    assert_eq!(permit.secrets().len(), 1);
    assert_eq!(&*permit.policy().name, "own");
}

#[test]
fn bytes_are_looked_at_as_closely_as_the_closest_wants() {
    let open = "egress:\n  - {host: a.example, tls: passthrough}";
    let seen = "egress:\n  - {host: a.example}";
    let host = Host::parse("a.example").unwrap();
    let ask = |policy: Policy| policy.decide_connect(&host, Port::HTTPS, Some(AppProtocol::Https));
    let Verdict::Deny(denial) = ask(policy("own", open).under(vec![policy("f", seen)])) else {
        panic!("passes unopened");
    };
    assert!(denial.floor);
    let Verdict::Allow(permit) = ask(policy("own", seen).under(vec![policy("f", open)])) else {
        panic!("denied");
    };
    assert_eq!(permit.handling(), Handling::Inspect);
}

#[test]
fn a_private_range_is_open_where_both_open_it() {
    let rule = |private: &str| {
        format!("egress:\n  - {{host: db.corp.example, ports: [5432], protocol: tcp{private}}}")
    };
    let opened = |own: &str, floor: &str| {
        let under = policy("own", &rule(own)).under(vec![policy("f", &rule(floor))]);
        let host = Host::parse("db.corp.example").unwrap();
        let port = Port::new(5432).unwrap();
        match under.decide_connect(&host, port, Some(AppProtocol::Tcp)) {
            Verdict::Allow(permit) => {
                let nets = permit.allow_private().iter();
                nets.map(ToString::to_string).collect::<Vec<_>>()
            }
            Verdict::Deny(denial) => panic!("{denial}"),
        }
    };
    let (wide, narrow) = (
        ", allow_private: [10.0.0.0/8]",
        ", allow_private: [10.20.0.0/16]",
    );
    assert_eq!(opened(wide, narrow), ["10.20.0.0/16"]);
    assert_eq!(opened(narrow, wide), ["10.20.0.0/16"]);
    assert!(opened(wide, "").is_empty());
    assert!(opened(wide, ", allow_private: [192.168.0.0/16]").is_empty());
}

#[test]
fn the_least_of_all_limits_holds() {
    let own = policy(
        "own",
        "limits: {connections: 10, request_body: 5MB}\negress: []",
    );
    let floor = policy(
        "f",
        "limits: {requests_per_minute: 60, request_body: 1MB}\negress: []",
    );
    let under = own.under(vec![floor]);
    let limits = under.limits();
    assert_eq!(limits.connections, 10);
    assert_eq!(limits.requests_per_minute, Some(60));
    assert_eq!(limits.request_body, Some(ByteCount(1_000_000)));
    assert_eq!(limits.upload_per_hour, None);
}

#[test]
fn a_floor_bounds_a_policy_that_observes_and_one_that_observes_bounds_nothing() {
    let observing = policy("own", "mode: observe\negress: []").under(vec![policy("f", FLOOR)]);
    assert_eq!(
        told(&observing, "GET", "https://evil.example/"),
        ("deny".into(), "f".into())
    );
    assert_eq!(
        told(&observing, "GET", "https://a.example.com/").0,
        "would_deny"
    );
    let floor = policy("f", "mode: observe\negress: []");
    let under = policy("own", OWN).under(vec![floor]);
    let seen = ("would_deny".to_owned(), "f".to_owned());
    assert_eq!(told(&under, "GET", "https://api.example.com/"), seen);
    assert_eq!(told(&under, "GET", "https://evil.example/").0, "deny");
}

#[test]
fn a_floors_rule_ends_in_time_like_any_other() {
    let floor = "egress:\n  - {host: '*.example.com', expires: 2026-11-22T10:00:00Z}";
    let under = policy("own", OWN).under(vec![policy("f", floor)]);
    let end = "2026-11-22T10:00:00Z".parse().unwrap();
    assert_eq!(under.until(), Some(end));
    let then = under.as_of(end);
    assert_eq!(told(&under, "GET", "https://api.example.com/").0, "allow");
    assert_eq!(
        told(&then, "GET", "https://api.example.com/"),
        ("deny".into(), "f".into())
    );
    assert_eq!(then.until(), None);
}
