//! `difference`: what it promises, tried.

use super::*;

fn policy(egress: &str) -> Policy {
    let text = format!("version: 1\nname: p\n{egress}");
    Policy::compile(&text, "p").unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn order_and_spelling_are_no_difference() {
    let one = policy(
        "egress:\n\
         \x20 - {host: API.Example.com, ports: [443, 8443], rules: [{methods: [GET, HEAD], paths: [/a, /b]}]}\n\
         \x20 - {ip: 9.9.9.9, ports: [22], protocol: tcp}\n\
         limits: {connections: 64}\n",
    );
    let other = policy(
        "egress:\n\
         \x20 - {ip: 9.9.9.9/32, ports: [22], protocol: tcp}\n\
         \x20 - {host: api.example.com., ports: [8443, 443], rules: [{paths: [/b, /%61], methods: [HEAD, GET]}]}\n",
    );
    let difference = one.difference(&other);
    assert!(difference.is_empty(), "{difference}");
    assert_eq!(difference.to_string(), "no difference");
}

#[test]
fn what_was_added_and_removed_is_told_with_what_covers_it() {
    let old = policy(
        "mode: observe\n\
         egress:\n\
         \x20 - {host: '*.example.com'}\n\
         \x20 - {host: gone.example.org, secrets: [T]}\n\
         \x20 - {host: api.example.net, rules: [{methods: [GET]}]}\n",
    );
    let new = policy(
        "egress:\n\
         \x20 - {host: '*.example.com'}\n\
         \x20 - {host: api.example.com}\n\
         \x20 - {host: api.example.net}\n\
         limits: {request_body: 5MB}\n",
    );
    let text = old.difference(&new).to_string();
    let expected = "~ mode: observe -> enforce\n\
        ~ limits.request_body: no limit -> 5000000\n\
        - host gone.example.org ports 80/http, 443/https secrets T  (egress[1])\n\
        - host api.example.net ports 80/http, 443/https only [GET of every path]  (egress[2]); \
        still allowed by egress[2]\n\
        + host api.example.com ports 80/http, 443/https  (egress[1]); was already allowed by egress[0]\n\
        + host api.example.net ports 80/http, 443/https  (egress[2])";
    assert_eq!(text, expected);
}

#[test]
fn a_rule_that_says_more_is_not_covered() {
    let old = policy("egress:\n  - {host: a.example.com, ports: [443]}\n");
    for wider in [
        "{host: a.example.com, ports: [443, 8443]}",
        "{host: a.example.com, ports: [443], secrets: [T]}",
        "{host: a.example.com, ports: [443], allow_private: [10.0.0.0/8]}",
        "{host: '*.example.com', ports: [443]}",
        "{host: a.example.com, ports: [443], tls: passthrough}",
    ] {
        let difference = old.difference(&policy(&format!("egress:\n  - {wider}\n")));
        let [added] = difference.added.as_slice() else {
            panic!("{wider}: {difference}");
        };
        assert_eq!(added.covered_by, None, "{wider}");
    }
}

#[test]
fn the_same_rule_twice_is_one_more() {
    let once = policy("egress:\n  - {host: a.example.com}\n");
    let twice = policy("egress:\n  - {host: a.example.com}\n  - {host: a.example.com}\n");
    assert_eq!(once.difference(&twice).added.len(), 1);
    assert_eq!(twice.difference(&once).removed.len(), 1);
    assert!(twice.difference(&twice).is_empty());
}

#[test]
fn what_holds_where_bytes_pass_unseen_is_not_guessed() {
    let old = policy(
        "egress:\n  - {host: '*.example.com', tls: passthrough}\n\
         \x20 - {host: '*.api.example.com', ports: [443], rules: [{methods: [GET]}]}\n",
    );
    let new = policy(
        "egress:\n  - {host: '*.example.com', tls: passthrough}\n\
         \x20 - {host: '*.api.example.com', ports: [443], rules: [{methods: [GET]}]}\n\
         \x20 - {host: v1.api.example.com, tls: passthrough}\n",
    );
    let difference = old.difference(&new);
    assert_eq!(difference.added[0].covered_by, None, "{difference}");
}

#[test]
fn what_another_rule_makes_of_the_bytes_is_told_when_a_rule_comes_or_goes() {
    let with = policy(
        "egress:\n  - {host: '*.example.com', ports: [443], tls: passthrough}\n\
         \x20 - {host: api.example.com, ports: [443], rules: [{methods: [GET]}]}\n",
    );
    let without = policy("egress:\n  - {host: '*.example.com', ports: [443], tls: passthrough}\n");
    let told = with.difference(&without).to_string();
    let line = "~ api.example.com:443: bytes were looked into by egress[1], and are passed through as TLS by \
                egress[0]";
    assert!(told.lines().any(|found| found == line), "{told}");
    let back = without.difference(&with);
    assert_eq!(back.handling.len(), 1, "{back}");
    assert_eq!(back.handling[0].new, "looked into");
    assert!(with.difference(&with).is_empty());
}

#[test]
fn ranges_and_wildcards_that_change_hands_are_told() {
    let old = policy(
        "egress:\n  - {ip: 9.9.0.0/16, ports: [443], protocol: tcp}\n\
         \x20 - {ip: 9.9.9.0/24, ports: [443]}\n\
         \x20 - {host: '*.a.example.com', ports: [22], protocol: tcp}\n\
         \x20 - {host: '*.example.com', ports: [22], protocol: http}\n",
    );
    let new = policy(
        "egress:\n  - {ip: 9.9.0.0/16, ports: [443], protocol: tcp}\n\
         \x20 - {host: '*.example.com', ports: [22], protocol: http}\n",
    );
    let told = old.difference(&new);
    let hosts: Vec<_> = told.handling.iter().map(|c| c.host.as_str()).collect();
    assert_eq!(hosts, ["*.a.example.com", "9.9.9.0", "9.9.9.255"], "{told}");
}
