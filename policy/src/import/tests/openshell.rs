//! What is made of a policy of OpenShell.

use super::*;

#[test]
fn a_policy_of_openshell() {
    let (document, widened, narrowed) = egress(
        Format::OpenShell,
        "version: 1\n\
         network_policies:\n\
         \x20 github:\n\
         \x20   endpoints:\n\
         \x20     - host: api.github.com\n\
         \x20       port: 443\n\
         \x20       protocol: rest\n\
         \x20       enforcement: enforce\n\
         \x20       rules:\n\
         \x20         - allow: {method: GET, path: /repos/**}\n\
         \x20         - allow: {method: '*', path: /user, query: {a: b}}\n\
         \x20     - {host: '*.example.com', ports: [443, 8443], protocol: rest, access: read-only}\n\
         \x20     - {host: '**.example.org', port: 443, tls: skip}\n\
         \x20     - {host: db.corp.example, port: 5432, protocol: tcp, allowed_ips: [10.20.0.0/16]}\n\
         \x20     - {host: '*-api.example.com', port: 443}\n\
         \x20   binaries: [{path: /usr/bin/curl}]\n\
         \x20 nobody:\n\
         \x20   endpoints: [{host: x.example.com, port: 443}]\n",
    );
    let expected = "egress:\n\
        \x20 - host: api.github.com\n\
        \x20   ports: [443]\n\
        \x20   rules:\n\
        \x20     - {methods: [GET], paths: [\"/repos/**\"]}\n\
        \x20     - {paths: [/user]}\n\
        \x20 - host: \"*.example.com\"\n\
        \x20   ports: [443, 8443]\n\
        \x20   rules:\n\
        \x20     - {methods: [GET, HEAD, OPTIONS]}\n\
        \x20 - host: \"*.example.org\"\n\
        \x20   ports: [443]\n\
        \x20   tls: passthrough\n\
        \x20 - host: db.corp.example\n\
        \x20   ports: [5432]\n\
        \x20   protocol: tcp\n\
        \x20   allow_private: [\"10.20.0.0/16\"]";
    assert_eq!(document, expected);
    let wide = [
        "/usr/bin/curl alone",
        "one label deep",
        "the query is not looked at",
    ];
    for part in wide {
        assert!(
            widened.iter().any(|w| w.contains(part)),
            "{part}: {widened:?}"
        );
    }
    let narrow = ["no `binaries`", "only logged", "whole first label"];
    for part in narrow {
        assert!(
            narrowed.iter().any(|n| n.contains(part)),
            "{part}: {narrowed:?}"
        );
    }
}

#[test]
fn what_an_endpoint_of_openshell_says_of_requests_is_kept_or_told() {
    let (document, widened, narrowed) = egress(
        Format::OpenShell,
        "version: 1\n\
         network_policies:\n\
         \x20 p:\n\
         \x20   endpoints:\n\
         \x20     - host: a.example.com\n\
         \x20       rules: [{allow: {method: GET, path: /v1/**}}]\n\
         \x20     - {host: b.example.com, access: read-only}\n\
         \x20     - {host: c.example.com, port: 443, tls: skip, access: read-only}\n\
         \x20     - {host: d.example.com, port: 443, protocol: tcp, path: /v1, rules: []}\n\
         \x20     - {host: e.example.com, path: /v1/**}\n\
         \x20   binaries: [{path: '**'}]\n",
    );
    let expected = "egress:\n\
        \x20 - host: a.example.com\n\
        \x20   rules:\n\
        \x20     - {methods: [GET], paths: [\"/v1/**\"]}\n\
        \x20 - host: b.example.com\n\
        \x20   rules:\n\
        \x20     - {methods: [GET, HEAD, OPTIONS]}\n\
        \x20 - host: c.example.com\n\
        \x20   ports: [443]\n\
        \x20   tls: passthrough\n\
        \x20 - host: d.example.com\n\
        \x20   ports: [443]\n\
        \x20   protocol: tcp\n\
        \x20 - host: e.example.com\n\
        \x20   rules:\n\
        \x20     - {paths: [\"/v1/**\"]}";
    assert_eq!(document, expected);
    let left = ["`access`", "`path`", "`rules`"].map(|name| {
        let words = format!("its {name} is left out: what passes unopened");
        widened.iter().filter(|one| one.contains(&words)).count()
    });
    assert_eq!(left, [1, 1, 1], "{widened:?}");
    let holds = narrowed
        .iter()
        .filter(|one| one.contains("of requests holds here"));
    assert_eq!(holds.count(), 3, "{narrowed:?}");
}

#[test]
fn what_openshell_itself_refuses_of_requests_is_refused_with_its_place() {
    let of = |endpoint: &str| {
        let text = format!(
            "version: 1\nnetwork_policies:\n  p:\n    endpoints:\n    - {{host: a.example.com, {endpoint}}}\n    \
             binaries: [{{path: '**'}}]\n"
        );
        refused(Format::OpenShell, &text)
    };
    for (endpoint, words) in [
        (
            "access: read-only, rules: [{allow: {method: GET}}]",
            "one of them alone",
        ),
        ("rules: []", "lists no rule"),
        ("protocol: rest, rules: []", "lists no rule"),
        ("access: bogus", "read-only, read-write or full"),
        ("access: [full]", "read-only, read-write or full"),
        ("protocol: rest, path: /v1", "needs `access` or `rules`"),
    ] {
        let message = of(endpoint);
        let placed = message.contains("theirs:5:") && message.contains(words);
        assert!(placed, "{endpoint}: {message}");
    }
}
