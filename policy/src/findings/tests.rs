//! What a document's reader should know: shadowed, too wide.

use crate::policy::Policy;

fn found(text: &str) -> Vec<String> {
    let policy = Policy::compile(text, "p.yaml").unwrap();
    policy.findings().iter().map(ToString::to_string).collect()
}

/// The kinds and rules alone.
fn kinds(entries: &str) -> String {
    let policy = Policy::compile(&format!("egress:\n{entries}"), "p.yaml").unwrap();
    let findings = policy.findings();
    let words: Vec<_> = findings
        .iter()
        .map(|f| format!("{} {}", f.kind.as_str(), f.rule))
        .collect();
    words.join(", ")
}

#[test]
fn a_clean_policy_gives_none() {
    assert_eq!(
        kinds(
            "- {host: api.github.com, ports: [443], rules: [{methods: [GET], paths: [/a/**]}, {methods: [POST], paths: [/b]}], secrets: [{name: T, in: [basic]}]}\n\
             - {host: '*.example.com'}\n- {host: db.corp.example, ports: [5432], protocol: tcp, allow_private: [10.20.0.0/16]}\n\
             - {host: pinned.example.org, tls: passthrough}\n- {ip: 8.8.8.8, ports: [53], protocol: tcp}\n"
        ),
        ""
    );
}

#[test]
fn what_serves_a_clouds_credentials_is_told_to_be_out_of_reach() {
    assert_eq!(
        kinds(
            "- {host: metadata.google.internal, ports: [80]}\n- {host: '*.metadata.google.internal'}\n\
             - {host: instance-data.us-west-2.compute.internal}\n- {host: metadata.example.com}\n\
             - {host: www.google.internal}\n"
        ),
        "unreachable egress[0], unreachable egress[1], unreachable egress[2]"
    );
    let told = found("egress: [{host: metadata.google.internal}]");
    assert!(told[0].contains("that no rule opens"), "{told:?}");
}

#[test]
fn a_path_that_only_options_has_is_told_where_every_path_is_meant() {
    assert_eq!(
        kinds(
            "- {host: a.example, rules: [{methods: [GET], paths: ['*']}]}\n\
             - {host: b.example, rules: [{paths: ['*', /a]}]}\n\
             - {host: c.example, rules: [{methods: [OPTIONS], paths: ['*']}]}\n"
        ),
        "unreachable egress[0], unreachable egress[1]"
    );
}

#[test]
fn rules_that_add_nothing_are_told_once() {
    assert_eq!(
        kinds("- {host: a.example}\n- {host: A.example.}\n"),
        "shadowed egress[1]"
    );
    assert_eq!(
        kinds("- {host: a.x.example}\n- {host: '*.x.example'}\n"),
        "shadowed egress[0]"
    );
    assert_eq!(
        kinds("- {host: '*.a.x.example'}\n- {host: '*.x.example'}\n"),
        "shadowed egress[0]"
    );
    assert_eq!(
        kinds("- {host: a.example, ports: [443]}\n- {host: a.example}\n"),
        "shadowed egress[0]"
    );
    assert_eq!(
        kinds("- {ip: 8.8.8.8}\n- {ip: 8.8.0.0/16}\n"),
        "shadowed egress[0]"
    );
    // Each of these adds something.
    assert_eq!(
        kinds("- {host: a.example, secrets: [{name: T, in: [basic]}]}\n- {host: a.example}\n"),
        "shadowed egress[1]"
    );
    assert_eq!(kinds("- {host: x.example}\n- {host: '*.x.example'}\n"), "");
    assert_eq!(
        kinds("- {host: a.x.example, allow_private: [10.0.0.0/8]}\n- {host: '*.x.example'}\n"),
        ""
    );
    assert_eq!(
        kinds("- {host: a.x.example}\n- {host: '*.x.example', tls: passthrough}\n"),
        ""
    );
    assert_eq!(
        kinds(
            "- {host: a.example, rules: [{methods: [GET]}, {methods: [GET], paths: [/x]}, {paths: [/y/**]}, {paths: [/y/z]}]}\n"
        ),
        "shadowed egress[0], shadowed egress[0]"
    );
}

#[test]
fn entries_whose_requests_another_one_takes_are_told() {
    let get_x = "rules: [{methods: [GET], paths: [/x]}]";
    let beside = |one: &str, other: &str| kinds(&format!("- {{{one}}}\n- {{{other}}}\n"));
    // Twins, and the same below a name or a range that is wider; whichever comes first.
    assert_eq!(
        beside(
            &format!("host: a.example, {get_x}"),
            &format!("host: a.example, {get_x}")
        ),
        "shadowed egress[1]"
    );
    for wide in [
        "host: a.x.example, rules: [{paths: ['/**']}]",
        "host: '*.x.example', rules: [{methods: [GET]}]",
        "host: '*.x.example', rules: [{methods: [POST]}, {methods: [GET, HEAD], paths: [/x, /y]}]",
    ] {
        let narrow = format!("host: a.x.example, {get_x}");
        assert_eq!(beside(&narrow, wide), "shadowed egress[0]", "{wide}");
        assert_eq!(beside(wide, &narrow), "shadowed egress[1]", "{wide}");
    }
    assert_eq!(
        beside(
            &format!("ip: 8.8.8.8, {get_x}"),
            "ip: 8.8.0.0/16, rules: [{methods: [GET]}]"
        ),
        "shadowed egress[0]"
    );
    // Each of these adds something: a path, a method, a name, a secret, a port, a time.
    for (one, other) in [
        (
            "host: a.example, rules: [{methods: [GET], paths: [/x, /y]}]",
            "rules: [{methods: [GET], paths: [/x]}]",
        ),
        (
            "host: a.example, rules: [{paths: [/x]}]",
            "rules: [{methods: [GET], paths: [/x]}]",
        ),
        (
            "host: a.example, rules: [{methods: [GET]}]",
            "rules: [{methods: [GET], paths: ['/**']}]",
        ),
        (
            "host: a.example, rules: [{methods: [GET]}], secrets: [{name: T, in: [basic]}]",
            "rules: [{methods: [GET]}]",
        ),
        (
            "host: a.example, ports: [8443], rules: [{methods: [GET]}]",
            "rules: [{methods: [GET]}]",
        ),
        (
            "host: a.example, rules: [{methods: [GET]}]",
            "rules: [{methods: [GET]}], expires: 2099-01-01T00:00:00Z",
        ),
    ] {
        let found = beside(one, &format!("host: a.example, {other}"));
        assert!(!found.contains("egress[0]"), "{one}: {found}");
    }
    assert_eq!(
        beside(
            "host: '*.x.example', rules: []",
            &format!("host: a.x.example, {get_x}")
        ),
        "unreachable egress[0]"
    );
}

#[test]
fn rules_that_another_entry_undoes_are_told() {
    assert_eq!(
        found(
            "egress:\n- {host: api.x.example, rules: [{methods: [GET]}]}\n- {host: '*.x.example'}\n"
        ),
        [
            "2:3: widened: egress[0]: its `rules` do not narrow anything, since egress[1] (*.x.example) \
          allows every request there: remove that one, or narrow it too"
        ]
    );
}

#[test]
fn what_is_wide_or_can_never_match_is_told() {
    assert_eq!(kinds("- {host: '*.amazonaws.com'}\n"), "too_wide egress[0]");
    assert_eq!(
        kinds("- {host: '*.db.example', ports: [5432], protocol: tcp}\n"),
        "too_wide egress[0]"
    );
    assert_eq!(
        kinds("- {host: a.example, ports: [443], protocol: tcp}\n"),
        "too_wide egress[0]"
    );
    assert_eq!(kinds("- {ip: 8.0.0.0/8}\n"), "too_wide egress[0]");
    for host in ["\u{430}pple.com", "xn--pple-43d.com", "*.xn--pple-43d.com"] {
        let told = found(&format!("egress:\n- {{host: '{host}'}}\n")).concat();
        for words in [
            "lookalike: egress[0]",
            "xn--pple-43d.com",
            "\u{430}pple.com",
            "Cyrillic",
        ] {
            assert!(told.contains(words), "{told}");
        }
    }
    assert_eq!(
        kinds("- {host: a.example, ports: []}\n"),
        "unreachable egress[0]"
    );
    assert_eq!(
        kinds("- {host: a.example, rules: []}\n"),
        "unreachable egress[0]"
    );
    assert_eq!(
        kinds("- {host: a.example, rules: [{methods: []}]}\n"),
        "unreachable egress[0]"
    );
    assert_eq!(
        kinds("- {ip: 203.0.113.7, ports: [22], protocol: tcp}\n"),
        "unreachable egress[0]"
    );
    assert_eq!(kinds("- {ip: 10.1.2.3, allow_private: [10.0.0.0/8]}\n"), "");
    assert_eq!(
        kinds("- {host: a.example, allow_private: [8.8.8.0/24]}\n"),
        "opens_nothing egress[0]"
    );
}

#[test]
fn secrets_that_may_stand_anywhere_are_told_once() {
    let told = found(
        "egress:\n- {host: r.example, rules: [{methods: [GET, HEAD]}], secrets: [R]}\n\
         - {host: a.example, secrets: [T, {name: N, in: [basic]}]}\n\
         - {host: b.example, rules: [{methods: [POST]}], secrets: [U]}\n\
         - {host: c.example, secrets: [T, {name: L, capture: true}]}\n",
    );
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("3:"), "{told:?}");
    assert!(
        told[0].contains("secret_anywhere: egress[1]: T, U"),
        "{told:?}"
    );
    assert!(
        told[0].contains("in: [\"header:Authorization\"]"),
        "{told:?}"
    );
}

#[test]
fn secrets_in_clear_text_are_told() {
    assert_eq!(
        kinds("- {host: a.example, protocol: http, secrets: [{name: T, in: [basic]}]}\n"),
        "secret_in_clear_text egress[0]"
    );
    assert_eq!(
        kinds("- {host: a.example, ports: [80], secrets: [{name: T, in: [basic]}]}\n"),
        "secret_unused egress[0]"
    );
    assert_eq!(
        kinds("- {host: a.example, secrets: [{name: T, in: [basic]}]}\n"),
        ""
    );
}

#[test]
fn observing_is_told() {
    assert_eq!(
        found("mode: observe"),
        [
            "observe_only: `mode: observe` denies no public destination: set `mode: enforce` when the \
          rules are complete"
        ]
    );
}

#[test]
fn many_rules_are_looked_at_in_reasonable_time() {
    let mut text = String::from("egress:\n");
    for i in 0..5_000 {
        text.push_str(&format!("- {{host: h{i}.example.com, ports: [443]}}\n"));
        text.push_str(&format!(
            "- {{host: one.example.com, ports: [443], rules: [{{paths: [/p{i}]}}]}}\n"
        ));
    }
    assert_eq!(found(&text).len(), 0);
}
