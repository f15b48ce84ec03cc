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

/// Endpoints, each on a line of its own from line 5 on.
fn endpoints(lines: &[&str]) -> (String, Vec<String>, Vec<String>) {
    let lines: String = lines
        .iter()
        .map(|one| format!("    - {{{one}}}\n"))
        .collect();
    let head = "version: 1\nnetwork_policies:\n  p:\n    endpoints:\n";
    let text = format!("{head}{lines}    binaries: [{{path: '**'}}]\n");
    egress(Format::OpenShell, &text)
}

#[test]
fn of_two_endpoints_for_one_host_what_decides_alone_there_is_told() {
    let rest = "host: api.example.com, port: 443, protocol: rest, enforcement: enforce";
    let all = format!("{rest}, access: full");
    let admin = format!("{rest}, access: read-only, path: /admin/**");
    let wide = "host: '*.example.com', ports: [80, 443], protocol: tcp";
    let told = |lines: &[&str]| {
        let (_, widened, _) = endpoints(lines);
        let deep = |one: &String| !one.contains("one label deep");
        widened.into_iter().filter(deep).collect::<Vec<_>>()
    };
    let path = told(&[&all, &admin]);
    assert!(
        path.len() == 1
            && path[0].starts_with("line 6: api.example.com has another `path` in line 5:"),
        "{path:?}"
    );
    for (lines, line) in [
        (["host: api.example.com, port: 443", &*admin], 5),
        ([&*admin, "host: api.example.com, port: 443"], 6),
        ([&*admin, wide], 6),
        ([wide, &*all], 5),
    ] {
        let told = told(&lines);
        let begins = format!("line {line}: ");
        let whole = |one: &&String| one.starts_with(&begins) && one.contains("passes whole");
        assert!(told.iter().find(whole).is_some(), "{lines:?}: {told:?}");
    }
    for lines in [
        [&*all, &*format!("{rest}, access: read-only")],
        [&*all, "host: api.example.com, port: 8443, protocol: tcp"],
        [&*all, "host: api.example.org, port: 443, protocol: tcp"],
        [
            "host: a.example.com, port: 443",
            "host: a.example.com, port: 443",
        ],
    ] {
        assert_eq!(told(&lines), [""; 0], "{lines:?}");
    }
}

#[test]
fn globs_of_openshell_are_read_as_what_they_are_there_or_told() {
    let of = |path: &str| {
        let rest = "host: a.example.com, protocol: rest, enforcement: enforce";
        let (document, _, narrowed) =
            endpoints(&[&format!("{rest}, rules: [{{allow: {{path: '{path}'}}}}]")]);
        let paths = document.rsplit("{paths: [").next().unwrap_or_default();
        (paths.trim_end_matches("]}").to_owned(), narrowed.join(" "))
    };
    for any in ["*", "**", "/**"] {
        assert_eq!(of(any), ("\"/**\"".to_owned(), String::new()));
    }
    let (paths, narrowed) = of("/a/**/info/refs*");
    assert!(paths.contains("/a/**/info/refs*") && narrowed.contains("stood for slashes"));
    for class in ["/repos/[0-9]/x", "/v?/x"] {
        let (document, narrowed) = of(class);
        assert!(document.contains("rules: []"), "{document}");
        assert!(narrowed.contains("has `?` or a class"), "{narrowed}");
    }
}
