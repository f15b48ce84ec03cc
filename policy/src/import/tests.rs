//! Documents of other tools, and what became of them.

use super::*;

mod denials;
mod docker;
mod hosts;
mod openshell;

fn egress(format: Format, text: &str) -> (String, Vec<String>, Vec<String>) {
    let imported = import(format, text, "theirs", "ours").unwrap_or_else(|e| panic!("{e}"));
    let document = imported.draft.to_string();
    let lines = document.lines().filter(|l| !l.starts_with('#')).skip(3);
    let told = |remarks: &[Remark]| remarks.iter().map(ToString::to_string).collect();
    (
        lines.collect::<Vec<_>>().join("\n"),
        told(&imported.widened),
        told(&imported.narrowed),
    )
}

fn refused(format: Format, text: &str) -> String {
    import(format, text, "theirs", "ours")
        .unwrap_err()
        .to_string()
}

#[test]
fn a_list_of_hosts() {
    let (document, widened, narrowed) = egress(
        Format::Hosts,
        "# what we need\n\
         api.example.com\n\
         API.example.com.   # the same\n\
         .example.org\n\
         *.example.net:8443\n\
         https://example.com/v1/models?x=1\n\
         10.0.0.0/8\n\
         *.com\n",
    );
    let expected = "egress:\n\
        \x20 - host: api.example.com\n\
        \x20 - host: example.org\n\
        \x20 - host: \"*.example.org\"\n\
        \x20 - host: \"*.example.net\"\n\
        \x20   ports: [8443]\n\
        \x20 - host: example.com\n\
        \x20   ports: [443]\n\
        \x20   rules:\n\
        \x20     - {paths: [/v1/models]}\n\
        \x20 - ip: \"10.0.0.0/8\"\n\
        \x20   allow_private: [\"10.0.0.0/8\"]";
    assert_eq!(document, expected);
    assert!(widened.is_empty(), "{widened:?}");
    assert_eq!(narrowed.len(), 1, "{narrowed:?}");
    assert!(narrowed[0].starts_with("line 8: left out"), "{narrowed:?}");
    assert!(refused(Format::Hosts, "a.example\n0.0.0.0 ads.example.com\n").contains("theirs:2:1"));
    assert!(refused(Format::Hosts, "||ads.example.com^\n").contains("ad blocker"));
}

#[test]
fn settings_of_sandbox_runtime() {
    let (document, widened, narrowed) = egress(
        Format::SandboxRuntime,
        r#"{"network": {
             "allowedDomains": ["github.com", "*.github.com:443", "api.example.com:8443", "[::1]"],
             "deniedDomains": ["gist.github.com", "api.example.com"],
             "tlsTerminate": {"excludeDomains": ["github.com"]},
             "allowUnixSockets": ["/run/docker.sock"]},
            "filesystem": {"denyRead": ["~/.ssh"]}}"#,
    );
    let expected = "egress:\n\
        \x20 - host: github.com\n\
        \x20   tls: passthrough\n\
        \x20 - host: \"*.github.com\"\n\
        \x20   ports: [443]\n\
        \x20 - ip: \"::1\"\n\
        \x20   allow_private: [\"::1\"]";
    assert_eq!(document, expected);
    assert_eq!(widened.len(), 1, "{widened:?}");
    assert!(widened[0].contains("gist.github.com was denied and *.github.com allows it"));
    for part in [
        "allowed at every port",
        "gig run --rw /run/docker.sock",
        "past gig",
        "`filesystem` is left out",
    ] {
        assert!(
            narrowed.iter().any(|n| n.contains(part)),
            "{part}: {narrowed:?}"
        );
    }
    assert!(refused(Format::SandboxRuntime, "{\"a\": 1}").contains("sandbox-runtime"));
    assert!(refused(Format::SandboxRuntime, "{\"a\": ").contains("neither YAML nor JSON"));
}

#[test]
fn the_allowlist_of_iron_proxy() {
    let (document, widened, narrowed) = egress(
        Format::IronProxy,
        "transforms:\n\
         \x20 - name: allowlist\n\
         \x20   config:\n\
         \x20     domains: [registry.example.org, '*.example.com']\n\
         \x20     cidrs: ['172.16.0.0/12', '169.254.0.0/16']\n\
         \x20     rules:\n\
         \x20       - {host: api.openai.com, methods: [post], paths: ['/v1/*']}\n\
         \x20 - name: secrets\n",
    );
    let expected = "egress:\n\
        \x20 - host: registry.example.org\n\
        \x20 - host: example.com\n\
        \x20 - host: \"*.example.com\"\n\
        \x20 - ip: \"172.16.0.0/12\"\n\
        \x20   allow_private: [\"172.16.0.0/12\"]\n\
        \x20 - host: api.openai.com\n\
        \x20   rules:\n\
        \x20     - {methods: [POST], paths: [\"/v1/*\"]}";
    assert_eq!(document, expected);
    assert!(widened.is_empty(), "{widened:?}");
    for part in [
        "names that resolve",
        "left out: 169.254.0.0/16",
        "one segment",
    ] {
        assert!(
            narrowed.iter().any(|n| n.contains(part)),
            "{part}: {narrowed:?}"
        );
    }
    let warned = "transforms: [{name: allowlist, config: {warn: true, domains: [a.example.com]}}]";
    let warned = import(Format::IronProxy, warned, "theirs", "ours").unwrap();
    assert!(
        warned.narrowed[0].message.contains("mode: observe"),
        "{warned:?}"
    );
    assert!(refused(Format::IronProxy, "transforms: []").contains("allowlist"));
    // The list alone, as its action for workflows takes it; what its name server did is told.
    let (document, wider, narrower) = egress(
        Format::IronProxy,
        "domains: [a.example.com]\ndns:\n  passthrough: ['*.internal.corp']\n  records:\n    - {name: b.example.com, type: A, \
         value: 10.0.0.5}\n",
    );
    assert_eq!(document, "egress:\n  - host: a.example.com");
    assert_eq!(
        (wider.len(), narrower.len()),
        (0, 2),
        "{wider:?} {narrower:?}"
    );
    assert!(
        narrower[0].contains("*.internal.corp was reached past"),
        "{narrower:?}"
    );
    assert!(
        narrower[1].contains("address of b.example.com"),
        "{narrower:?}"
    );
    for (text, what) in [("localhost", "localhost"), ("*.localhost", "*.localhost")] {
        let (document, _, narrower) =
            egress(Format::Hosts, &format!("{text}\na.example.com:443\n"));
        assert!(!document.contains("localhost"), "{document}");
        let told = format!("{what} was the machine itself");
        assert!(
            narrower.len() == 1 && narrower[0].contains(&told),
            "{narrower:?}"
        );
    }
}

#[test]
fn commands_of_dockers_sandboxes() {
    let (document, widened, narrowed) = egress(
        Format::Docker,
        "$ sbx policy set-default deny-all\n\
         sbx policy allow network \"api.example.com:443,*.packages.example.org:443\"\n\
         sbx policy allow network \"**.example.net:443\"\n\
         docker sandbox network proxy mine --policy deny \\\n\
         \x20 --allow-host gone.example.org:443 --bypass-host=pinned.example.org:443\n\
         sbx policy deny network gone.example.org\n",
    );
    let expected = "egress:\n\
        \x20 - host: api.example.com\n\
        \x20   ports: [443]\n\
        \x20 - host: \"*.packages.example.org\"\n\
        \x20   ports: [443]\n\
        \x20 - host: \"*.example.net\"\n\
        \x20   ports: [443]\n\
        \x20 - host: pinned.example.org\n\
        \x20   ports: [443]\n\
        \x20   tls: passthrough";
    assert_eq!(document, expected);
    assert_eq!(widened.len(), 2, "{widened:?}");
    assert!(
        widened[1].contains("what mine alone was allowed"),
        "{widened:?}"
    );
    assert!(narrowed.is_empty(), "{narrowed:?}");
    assert!(refused(Format::Docker, "rm -rf x\n").contains("theirs:1:1"));
}

#[test]
fn of_two_lists_of_squid_what_both_have_is_taken_and_the_rest_told() {
    let (both, _, narrower) = egress(
        Format::Squid,
        "acl a dstdomain .example.com other.test\nacl n dstdomain www.example.com .example.net\nhttp_access allow a n\n",
    );
    assert_eq!(both, "egress:\n  - host: www.example.com");
    let told = "left out: example.com, other.test, example.net, *.example.net, which one";
    assert!(narrower.iter().any(|n| n.contains(told)), "{narrower:?}");
}

#[test]
fn squid_lines_in_their_order() {
    let (document, widened, narrowed) = egress(
        Format::Squid,
        "http_port 3128\n\
         acl work src 10.0.0.0/8\n\
         acl safe port 443\n\
         acl sites dstdomain .example.com api.example.org   # two\n\
         acl sites dstdomain www.example.net\n\
         acl evil dstdomain .evil.example.com www.example.net\n\
         acl read method GET HEAD CONNECT\n\
         acl odd dstdom_regex ^x\n\
         http_access deny !safe\n\
         http_access deny evil\n\
         http_access allow work sites safe read\n\
         http_access allow odd\n\
         http_access allow all\n\
         http_access deny all\n",
    );
    let expected = "egress:\n\
        \x20 - host: example.com\n\
        \x20   ports: [443]\n\
        \x20   rules:\n\
        \x20     - {methods: [GET, HEAD]}\n\
        \x20 - host: \"*.example.com\"\n\
        \x20   ports: [443]\n\
        \x20   rules:\n\
        \x20     - {methods: [GET, HEAD]}\n\
        \x20 - host: api.example.org\n\
        \x20   ports: [443]\n\
        \x20   rules:\n\
        \x20     - {methods: [GET, HEAD]}";
    assert_eq!(document, expected);
    for part in ["condition work (src)", "evil.example.com was denied"] {
        assert!(
            widened.iter().any(|w| w.contains(part)),
            "{part}: {widened:?}"
        );
    }
    assert_eq!(
        narrowed
            .iter()
            .filter(|n| n.contains("names no destination"))
            .count(),
        2,
        "{narrowed:?}"
    );
    // Tunnels alone, and no plain HTTP.
    let (tunnels, _, narrower) = egress(
        Format::Squid,
        "acl a dstdomain a.example.com\nacl t method CONNECT\nhttp_access allow t a\n",
    );
    assert_eq!(
        tunnels,
        "egress:\n  - host: a.example.com\n    ports: [443]"
    );
    assert!(narrower[0].contains("tunnels"), "{narrower:?}");
    let joined = egress(
        Format::Squid,
        "acl up dstdomain a.example.com \\\n  c.example.com\nhttp_access allow up\n",
    );
    assert!(joined.0.contains("host: c.example.com"), "{}", joined.0);
    let (_, wider, narrower) = egress(
        Format::Squid,
        "acl odd dstdom_regex ^x\nhttp_access allow odd\n",
    );
    assert_eq!(
        (wider.len(), narrower.len()),
        (0, 1),
        "{wider:?} {narrower:?}"
    );
    let later = egress(
        Format::Squid,
        "acl a dstdomain a.example.com\nhttp_access allow a\nhttp_access deny a\n",
    );
    assert!(
        later.0.contains("a.example.com"),
        "the first line that fits decides: {}",
        later.0
    );
    assert!(refused(Format::Squid, "acl a dstdomain x\n").contains("http_access"));
}

#[test]
fn no_field_that_is_not_read_is_dropped_in_silence() {
    for (format, text) in [
        (
            Format::OpenShell,
            "network_middlewares: [{name: m}]\nnetwork_policies: {p: {binaries: [{path: '**'}], endpoints: \
             [{host: a.example.com, port: 443, protocol: rest, enforcement: enforce, access: full}]}}",
        ),
        (
            Format::OpenShell,
            "network_policies: {p: {binaries: [{path: '**'}], endpoints: [{host: a.example.com, port: 443, \
             protocol: rest, enforcement: enforce, rules: [{allow: {method: GET, headers: {a: b}}}]}]}}",
        ),
        (
            Format::OpenShell,
            "network_policies: {p: {binaries: [{path: '**'}], endpoints: [{host: a.example.com, port: 443, \
             protocol: tcp, schedule: night}]}}",
        ),
        (
            Format::IronProxy,
            "transforms: [{name: allowlist, config: {domains: [a.example.com]}}, {name: judge, config: {}}]",
        ),
        (
            Format::IronProxy,
            "transforms: [{name: allowlist, config: {rules: [{host: a.example.com, method: GET}]}}]",
        ),
        (
            Format::IronProxy,
            "transforms: [{name: allowlist, config: {domains: [a.example.com], not_after: noon}}]",
        ),
        (
            Format::Docker,
            "sbx policy allow network -g a.example.com:443\n\
             docker sandbox network proxy y --allow-host b.example.com:443\n",
        ),
        (
            Format::SandboxRuntime,
            r#"{"network": {"allowedDomains": ["a.example.com:443"], "mitmProxy": {"socketPath": "/x"}}}"#,
        ),
    ] {
        let (_, wider, _) = egress(format, text);
        assert_eq!(wider.len(), 1, "{text}: {wider:?}");
    }
    // Each of two lists had to let a request pass.
    let both = "transforms:\n  - {name: allowlist, config: {domains: [a.example.com]}}\n  - {name: allowlist, config: \
                {domains: [b.example.com]}}\n";
    let words = refused(Format::IronProxy, both);
    assert!(words.contains("theirs:3:"), "{words}");
}

#[test]
fn no_denial_and_no_port_is_dropped_in_silence() {
    let wider = |format, text: &str| egress(format, text).1;
    for (format, text) in [
        (
            Format::SandboxRuntime,
            r#"{"network": {"allowedDomains": ["acme.github.io:443"], "deniedDomains": ["*.github.io"]}}"#,
        ),
        (
            Format::Docker,
            "sbx policy allow network 93.184.216.0/24:443\nsbx policy deny network 93.184.216.34\n",
        ),
        (
            Format::Docker,
            "docker sandbox network proxy x --allow-host a.example.com:443 --block-cidr 10.0.0.0/8\n",
        ),
        (
            Format::Squid,
            "acl w method POST\nacl g dstdomain a.example.com\nhttp_access deny w\nhttp_access allow g\n",
        ),
        (
            Format::OpenShell,
            "network_policies: {p: {binaries: [{path: '**'}], endpoints: [{host: a.example.com, port: 443, \
             tls: skip, deny_rules: [{method: POST}]}]}}",
        ),
    ] {
        assert_eq!(
            wider(format, text).len(),
            1,
            "{text}: {:?}",
            wider(format, text)
        );
    }
    // Nor in which ports there are fewer here.
    for (format, text) in [
        (
            Format::SandboxRuntime,
            r#"{"network": {"allowedDomains": ["a.example.com"]}}"#,
        ),
        (Format::Docker, "sbx policy allow network a.example.com\n"),
        (
            Format::Squid,
            "acl g dstdomain a.example.com\nhttp_access allow g\n",
        ),
    ] {
        let narrower = egress(format, text).2;
        assert_eq!(narrower.len(), 1, "{text}: {narrower:?}");
    }
    // What names a port, and none that is one, opens no other.
    for (format, text) in [
        (
            Format::OpenShell,
            "network_policies: {p: {binaries: [{path: '**'}], endpoints: [{host: a.example.com, \
             port: '8000-9000', protocol: rest, access: full}]}}",
        ),
        (
            Format::Docker,
            "docker sandbox network proxy x --bypass-host a.example.com:0\n",
        ),
        (Format::Hosts, "a.example.com:0\n"),
        (
            Format::Squid,
            "acl g dstdomain a.example.com\nhttp_access deny all\nhttp_access allow g\n",
        ),
        (
            Format::Squid,
            "acl a port 443\nacl b port 80\nacl g dstdomain a.example.com\nhttp_access allow g a b\n",
        ),
    ] {
        assert_eq!(egress(format, text).0, "egress: []", "{text}");
    }
    let (document, ..) = egress(Format::Hosts, "a.example.com\t# not evil.example.net\n");
    assert_eq!(document, "egress:\n  - host: a.example.com");
    let (document, ..) = egress(
        Format::OpenShell,
        "network_policies: {p: {binaries: [{path: '**'}], endpoints: [{host: a.example.com, port: 443, \
         protocol: rest, enforcement: enforce, path: /v1/**, rules: [{allow: {method: GET}}]}]}}",
    );
    assert!(
        document.contains("{methods: [GET, HEAD], paths: [/v1, \"/v1/**\"]}"),
        "{document}"
    );
    let unknown = refused(Format::Docker, "sbx policy allow network --box b a.com\n");
    assert!(unknown.contains("--box"), "{unknown}");
}

#[test]
fn denials_take_what_they_cover_and_tell_what_stays_wider() {
    let config = r#"{"network": {
        "allowedDomains": ["a.example.com", "*.example.com", "deep.b.example.com", "*.b.example.com", "x.example.org"],
        "deniedDomains": ["*.b.example.com", "secret.example.com", "x.example.org"]}}"#;
    let (document, widened, _) = egress(Format::SandboxRuntime, config);
    let hosts: Vec<_> = document
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- host: "))
        .collect();
    assert_eq!(hosts, ["a.example.com", "\"*.example.com\""], "{document}");
    assert_eq!(widened.len(), 2, "{widened:?}");
    assert!(
        widened
            .iter()
            .all(|line| line.contains("*.example.com allows it")),
        "{widened:?}"
    );
}

/// Compared each with each, these would be thousands of millions of comparisons.
#[test]
fn many_hosts_and_as_many_denials_are_read_in_one_pass() {
    let listed = |prefix: &str| -> String {
        let names: Vec<_> = (0..20_000)
            .map(|n| format!("\"{prefix}{n}.example.com\""))
            .collect();
        names.join(",")
    };
    let config = format!(
        r#"{{"network": {{"allowedDomains": [{},{}], "deniedDomains": [{}]}}}}"#,
        listed("a"),
        listed("b"),
        listed("b")
    );
    let imported = import(Format::SandboxRuntime, &config, "theirs", "ours").unwrap();
    assert_eq!(imported.draft.entries.len(), 20_000);
}
