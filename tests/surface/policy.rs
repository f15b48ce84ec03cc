//! `gig policy check`, `gig policy test`, `gig policy diff`, `gig policy import`.

use std::path::PathBuf;

use super::{Answer, gig};

const DOCUMENT: &str = "version: 1\n\
    name: github-readonly\n\
    mode: enforce\n\
    egress:\n\
    \x20 - host: api.github.com\n\
    \x20   ports: [443]\n\
    \x20   rules:\n\
    \x20     - {methods: [GET, HEAD], paths: [\"/repos/acme/**\", /user]}\n\
    \x20 - {host: db.corp.example, ports: [5432], protocol: tcp, allow_private: [10.20.0.0/16]}\n\
    \x20 - {host: pinned.example.com, tls: passthrough}\n\
    \x20 - {ip: 9.9.9.9, ports: [22], protocol: tcp}\n\
    limits: {requests_per_minute: 600, connections: 64, request_body: 50MB, upload_per_hour: 200MB}\n";

/// A document in a folder that lives as long as the value.
struct Document {
    _folder: tempfile::TempDir,
    file: PathBuf,
}

impl Document {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("policy.yaml");
        std::fs::write(&file, text).expect("write");
        Self {
            _folder: folder,
            file,
        }
    }

    fn path(&self) -> &str {
        self.file.to_str().expect("a path in UTF-8")
    }
}

fn check(text: &str) -> Answer {
    gig(&["policy", "check", Document::new(text).path()])
}

#[test]
fn a_good_document_passes() {
    let answer = check(DOCUMENT);
    assert_eq!(answer.status, 0, "{answer:?}");
}

#[test]
fn mistakes_are_told_with_line_and_column() {
    for (wrong, line, word) in [
        (
            "version: 1\nname: x\negress:\n  - hosst: a.example.com\n",
            ":4:",
            "hosst",
        ),
        (
            "version: 1\nname: x\negress:\n  - {host: a.example.com, ports: [70000]}\n",
            ":4:",
            "70000",
        ),
        (
            "version: 1\nname: x\negress:\n  - {host: \"*.com\"}\n",
            ":4:",
            "*.com",
        ),
        ("version: 7\nname: x\negress: []\n", ":1:", "version"),
        (
            "version: 1\nname: x\negress:\n  - {host: a.example.com, protocol: udp}\n",
            ":4:",
            "udp",
        ),
        (
            "version: 1\nname: x\nmode: sometimes\negress: []\n",
            ":3:",
            "sometimes",
        ),
        (
            "version: 1\nname: x\negress:\n  - {host: a.example.com, allow_private: [169.254.0.0/16]}\n",
            ":4:",
            "169.254",
        ),
    ] {
        let answer = check(wrong);
        assert_eq!(answer.status, 1, "{wrong}: {answer:?}");
        let told = answer.output.clone() + &answer.errors;
        assert!(
            told.contains(line) && told.contains(word),
            "{wrong}: {answer:?}"
        );
    }
}

#[test]
fn one_decision_is_explained() {
    let document = Document::new(DOCUMENT);
    for (method, url, status, word) in [
        ("GET", "https://api.github.com/repos/acme/x", 0, "egress[0]"),
        ("GET", "https://API.GitHub.com./user", 0, "egress[0]"),
        (
            "POST",
            "https://api.github.com/user",
            1,
            "method_not_allowed",
        ),
        (
            "GET",
            "https://api.github.com/repos/other",
            1,
            "path_not_allowed",
        ),
        (
            "GET",
            "https://api.github.com/repos/acme/../other",
            1,
            "path_not_allowed",
        ),
        (
            "GET",
            "https://api.github.com:8443/user",
            1,
            "port_not_allowed",
        ),
        ("GET", "https://example.net/", 1, "host_not_allowed"),
        ("GET", "https://169.254.169.254/", 1, "_"),
    ] {
        let answer = gig(&["policy", "test", document.path(), method, url]);
        assert_eq!(answer.status, status, "{method} {url}: {answer:?}");
        assert!(answer.output.contains(word), "{method} {url}: {answer:?}");
    }
}

#[test]
fn decisions_are_told_as_json_too() {
    let document = Document::new(DOCUMENT);
    let url = "https://example.net/";
    let answer = gig(&["policy", "test", "--json", document.path(), "GET", url]);
    assert_eq!(answer.status, 1, "{answer:?}");
    let told: serde_json::Value = serde_json::from_str(&answer.output).expect("JSON");
    assert!(told.to_string().contains("host_not_allowed"), "{told}");
}

#[test]
fn shadowed_rules_are_found() {
    let answer = check(
        "version: 1\nname: x\negress:\n  - {host: \"*.example.com\"}\n  - {host: api.example.com}\n",
    );
    let told = answer.output.clone() + &answer.errors;
    assert!(
        told.to_lowercase().contains("shadow") || told.contains("covered"),
        "{answer:?}"
    );
}

#[test]
fn a_decision_can_be_asked_for_the_local_profile() {
    let document = Document::new("egress:\n- {ip: 10.1.0.0/16}\n");
    let ask = |profile: &[&str]| {
        let words = [
            "policy",
            "test",
            document.path(),
            "GET",
            "https://10.1.2.3/",
        ];
        gig(&[&words, profile].concat()).status
    };
    assert_eq!((ask(&[]), ask(&["--profile", "local"])), (1, 0));
}

#[test]
fn two_documents_are_compared_by_what_they_say() {
    let old = Document::new(DOCUMENT);
    let spelled = DOCUMENT.replace("[GET, HEAD]", "[HEAD, GET]");
    let same = gig(&["policy", "diff", old.path(), Document::new(&spelled).path()]);
    assert_eq!(
        (same.status, same.output.trim()),
        (0, "no difference"),
        "{same:?}"
    );
    let wider = DOCUMENT.replace("/user]", "/user, /orgs/**]");
    let wider = gig(&["policy", "diff", old.path(), Document::new(&wider).path()]);
    assert_eq!(wider.status, 1, "{wider:?}");
    let signs: Vec<_> = wider.output.lines().map(|line| &line[..1]).collect();
    assert_eq!(signs, ["-", "+"], "{wider:?}");
    let wrong = gig(&[
        "policy",
        "diff",
        old.path(),
        Document::new("egres: []").path(),
    ]);
    assert_eq!(wrong.status, 125, "{wrong:?}");
    assert!(wrong.errors.contains(":1:1:"), "{wrong:?}");
}

#[test]
fn another_tools_allowlist_is_imported_with_what_could_not_be_kept() {
    let exact = Document::new("api.example.com\n");
    let answer = gig(&["policy", "import", "hosts", exact.path()]);
    assert_eq!(
        (answer.status, answer.errors.as_str()),
        (0, ""),
        "{answer:?}"
    );
    assert_eq!(check(&answer.output).status, 0, "{answer:?}");
    let wider = Document::new(
        "acl us src 10.0.0.0/8\nacl s dstdomain .example.com\nhttp_access allow us s\n",
    );
    let answer = gig(&["policy", "import", "squid", wider.path()]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(
        answer.errors.contains("wider: line 3: the condition us"),
        "{answer:?}"
    );
    assert_eq!(check(&answer.output).status, 0, "{answer:?}");
    let wrong = gig(&["policy", "import", "openshell", exact.path()]);
    assert_eq!(wrong.status, 125, "{wrong:?}");
    assert!(wrong.errors.contains("OpenShell"), "{wrong:?}");
}

#[test]
fn policy_test_honours_when_a_rule_ends() {
    let document = |end: &str| {
        let text = format!("version: 1\negress:\n  - host: api.example.com\n    expires: {end}\n");
        Document::new(&text)
    };
    let test = |document: &Document| {
        let url = "https://api.example.com/";
        gig(&["policy", "test", document.path(), "GET", url]).status
    };
    let (over, ahead) = (
        document("2020-01-01T00:00:00Z"),
        document("9999-01-01T00:00:00+01:00"),
    );
    assert_eq!((test(&over), test(&ahead)), (1, 0));
    let url = "https://api.example.com/";
    let told = gig(&["policy", "test", over.path(), "GET", url]);
    let first = told.output.lines().next().unwrap();
    assert!(first.contains("ended at 2020-01-01T00:00:00Z"), "{told:?}");
    let found = gig(&["policy", "check", over.path()]);
    assert_eq!(found.status, 0, "{found:?}");
    assert!(
        found.output.contains("3:5: expired: egress[0]"),
        "{found:?}"
    );
    let wrong = gig(&["policy", "check", document("soon").path()]);
    assert_eq!(wrong.status, 1, "{wrong:?}");
    assert!(wrong.output.contains(":4:14: `expires`"), "{wrong:?}");
}

#[test]
fn a_run_has_nobody_to_ask() {
    let asking = Document::new("version: 1\nhold: 30s\negress:\n  - host: api.example.com\n");
    let checked = gig(&["policy", "check", asking.path()]);
    assert_eq!(checked.status, 0, "{checked:?}");
    let refused = gig(&["run", "--policy", asking.path(), "--", "/bin/true"]);
    assert_eq!(refused.status, 125, "{refused:?}");
    assert!(refused.errors.contains("nobody to ask"), "{refused:?}");
    let floor = Document::new("version: 1\nname: company\negress:\n  - host: other.example.com\n");
    let url = "https://api.example.com/";
    let words = [
        "policy",
        "test",
        asking.path(),
        "GET",
        url,
        "--floor",
        floor.path(),
    ];
    let told = gig(&words);
    assert_eq!(told.status, 1, "{told:?}");
    assert!(
        told.output.contains("floor    company version 0: deny"),
        "{told:?}"
    );
    assert_eq!(gig(&words[..5]).status, 0);
}
