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
        \x20     - {methods: [GET, HEAD], paths: [\"/repos/**\"]}\n\
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
        \x20     - {methods: [GET, HEAD], paths: [\"/v1/**\"]}\n\
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
        \x20     - {paths: [/v1, \"/v1/**\"]}";
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
    let rest = "host: a.example.com, protocol: rest, enforcement: enforce";
    let read = |endpoint: &str| {
        let (document, _, narrowed) = endpoints(&[&format!("{rest}, {endpoint}")]);
        let paths = document.rsplit_once("{paths: [").map(|(_, paths)| paths);
        let paths = paths.map_or(document.as_str(), |paths| paths.trim_end_matches("]}"));
        let of_paths = narrowed.iter().filter(|one| one.contains("path "));
        (
            paths.replace('"', ""),
            of_paths.cloned().collect::<String>(),
        )
    };
    let of_rule = |path: &str| read(&format!("rules: [{{allow: {{path: '{path}'}}}}]"));
    let of_endpoint = |path: &str| read(&format!("access: full, path: '{path}'"));
    for (path, paths) in [
        ("**", "/**"),
        ("/**", "/**"),
        ("/a/*/b", "/a/*/b"),
        ("/a/**/info/refs*", "/a/**/info/refs*, /a/info/refs*"),
        ("/**/x/**", "/**/x/**, /x/**"),
        ("**/x", "/**/x, /x"),
        ("/a/**secret**", "/a/*secret*"),
        ("/{a,b}/x", "/a/x, /b/x"),
        ("/v{1,2}/{c,}d", "/v1/cd, /v1/d, /v2/cd, /v2/d"),
        ("/a/**/**", "/a/**/**, /a/**"),
    ] {
        assert_eq!(of_rule(path), (paths.to_owned(), String::new()), "{path}");
    }
    for (path, words) in [
        ("*", "matched none there"),
        ("/repos/[0-9]/x", "`?`, a class"),
        ("/v?/x", "`?`, a class"),
        ("/a\\*", "`?`, a class"),
        ("/{a,{b,c}}", "braces"),
        ("/{a,b", "braces"),
        ("/a}", "braces"),
        ("/{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "braces"),
        ("/**/a/**/a/**/a/**/a/**/a/**/a/**/a", "more than 64"),
        ("a/b", "must start with a slash"),
        ("*/b", "must start with a slash"),
    ] {
        let (document, narrowed) = of_rule(path);
        assert!(document.contains("rules: []"), "{path}: {document}");
        assert!(narrowed.contains(words), "{path}: {narrowed}");
    }
    for (path, paths, words) in [
        ("/v1/**", "/v1, /v1/**", ""),
        ("/v1", "/v1", ""),
        ("/{a,b}", "/{a,b}", ""),
        ("/a/*", "/a/*", "stood for slashes"),
        ("/a/**/b", "/a/**/b, /a/b", ""),
    ] {
        let (read, narrowed) = of_endpoint(path);
        assert_eq!(read, paths, "{path}");
        let told = match words {
            "" => narrowed.is_empty(),
            words => narrowed.contains(words),
        };
        assert!(told, "{path}: {narrowed}");
    }
    for path in ["/a/*/**", "/a/**b", "/v?"] {
        let (document, narrowed) = of_endpoint(path);
        assert!(document.contains("rules: []"), "{path}: {document}");
        assert!(!narrowed.is_empty(), "{path}");
    }
    for every in ["", "*", "**", "/**"] {
        assert!(!of_endpoint(every).0.contains("rules"), "{every}");
    }
}

#[test]
fn of_endpoints_that_share_several_ports_each_meeting_is_told_once() {
    let told = |ports: &str| {
        let deep = "host: api.example.com, protocol: rest, enforcement: enforce, access: full";
        let one = format!("{deep}, port: 80, path: /admin/**");
        let all = format!("{deep}, ports: {ports}");
        let two = format!("{deep}, port: 443, path: /admin/**");
        endpoints(&[&one, &all, &two]).1.len()
    };
    assert_eq!((told("[443, 80]"), told("[80, 443]")), (2, 2));
}
