//! Documents that compile, and the mistakes that are told with line and column.

use proptest::prelude::*;

use super::*;
use crate::{compile_error::CompilePolicyError, policy::Policy};

fn refused(text: &str) -> CompilePolicyError {
    match Policy::compile(text, "p.yaml") {
        Ok(policy) => panic!("{text}\nwas accepted: {policy:?}"),
        Err(error) => error,
    }
}

/// The corpus beside this file: each document with every message it gives.
#[test]
fn every_mistake_is_told_with_line_column_and_cure() {
    let corpus = include_str!("tests/refused.txt");
    let mut cases = 0;
    for case in corpus.split("=====\n").skip(1) {
        let (text, expected) = case.split_once("\n-----\n").unwrap();
        assert_eq!(refused(text).to_string(), expected.trim_end(), "\n{text}");
        cases += 1;
    }
    assert!(cases > 30, "{cases}");
}

/// JSON is the same schema and gives the same places.
#[test]
fn json_is_read_as_yaml_is() {
    let text = "{\n\t\"version\": 1,\n\t\"egress\": [\n\t\t{\"host\": \"a.example\", \"port\": 1}\n\t]\n}\n";
    let error = refused(text).to_string();
    assert_eq!(
        error,
        "p.yaml:4:25: an egress entry has no field `port`: did you mean `ports`?"
    );
    let good = text.replace("\"port\": 1", "\"ports\": [8443], \"secrets\": []");
    assert!(Policy::compile(&good, "p.json").is_ok());
}

#[test]
fn a_flood_of_mistakes_is_cut_short() {
    let text = format!("egress:\n{}", "  - {host: '*'}\n".repeat(500));
    let error = refused(&text);
    assert_eq!(error.problems.len(), 500);
    assert!(error.to_string().ends_with("p.yaml: and 450 more"));
}

#[test]
fn alias_bombs_and_deep_nests_are_refused() {
    let mut bomb = String::from("a0: &a0 [x, x]\n");
    for i in 1..40 {
        bomb.push_str(&format!("a{i}: &a{i} [*a{p}, *a{p}]\n", p = i - 1));
    }
    assert!(!refused(&bomb).problems.is_empty());
    assert!(
        !refused(&format!("egress: {}", "[".repeat(100_000)))
            .problems
            .is_empty()
    );
    assert!(
        !refused(&format!("egress: {}", "{a: ".repeat(100_000)))
            .problems
            .is_empty()
    );
}

#[test]
fn the_name_is_the_documents_or_the_files() {
    let name = |text: &str, origin: &str| {
        let policy = Policy::compile(text, origin).unwrap();
        policy.reference().name.to_string()
    };
    assert_eq!(name("name: x y", "a.yaml"), "x y");
    assert_eq!(name("egress: []", "/etc/gig/web.prod.yaml"), "web.prod");
    assert_eq!(name("egress: []", "-"), "-");
}

#[test]
fn the_document_of_the_manual_compiles() {
    let text = r#"
version: 1
name: github-readonly
mode: enforce
deny: reset
egress:
  - host: api.github.com
    ports: [443]
    rules:
      - {methods: [GET, HEAD], paths: ["/repos/acme/**", /user]}
    secrets: [GITHUB_TOKEN]
  - {host: db.corp.example, ports: [5432], protocol: tcp, allow_private: [10.20.0.0/16]}
  - {host: pinned.example.com, tls: passthrough}
  - {ip: 203.0.113.7, ports: [22], protocol: tcp}
limits: {requests_per_minute: 600, connections: 64, request_body: 50MB, upload_per_hour: 1GiB}
"#;
    let policy = Policy::compile(text, "p.yaml").unwrap();
    assert_eq!(policy.deny_style(), DenyStyle::Reset);
    assert_eq!(policy.mode(), Mode::Enforce);
    let limits = policy.limits();
    assert_eq!(limits.requests_per_minute, Some(600));
    assert_eq!(limits.connections, 64);
    assert_eq!(limits.request_body, Some(ByteCount(50_000_000)));
    assert_eq!(limits.upload_per_hour, Some(ByteCount(1 << 30)));
    let unstated = Policy::compile("egress: []", "p.yaml").unwrap();
    assert_eq!(unstated.limits(), &Limits::UNSTATED);
    assert_eq!(unstated.deny_style(), DenyStyle::Explain);
}

#[test]
fn options_that_make_no_rule_say_what_to_write() {
    use crate::builder::PolicyBuilder;
    for (option, expected) in [
        (
            "https://a.example/x",
            "--allow https://a.example/x: write the host alone, as in `a.example`",
        ),
        (
            "a.example:0",
            "--allow a.example:0: \"0\" is not a port: ports are 1 to 65535",
        ),
        (
            "a.example:+80",
            "--allow a.example:+80: \"+80\" is not a port: ports are 1 to 65535",
        ),
        (
            "a.example:",
            "--allow a.example:: \"\" is not a port: ports are 1 to 65535",
        ),
        (
            "tcp:a.example",
            "--allow tcp:a.example: say the port, as in `tcp:a.example:5432`",
        ),
        (
            "*",
            "--allow *: `*` would allow every host: list the hosts, or observe to learn them (`gig run --observe`, or \
             `mode: observe` in a policy document)",
        ),
        (
            "0.0.0.0/0",
            "--allow 0.0.0.0/0: 0.0.0.0/0 is every address: name the ranges that are needed",
        ),
        (
            "a.example/x",
            "--allow a.example/x: an option allows a whole host, as `a.example`; paths are allowed in a policy document (`rules: \
             [{paths: […]}]` under the host)",
        ),
        (
            "10.1.2.3/40",
            "--allow 10.1.2.3/40: \"10.1.2.3/40\" is neither an address nor a range: write it as 10.1.2.3 or 10.20.0.0/16",
        ),
        ("", "--allow : a host name must not be empty"),
    ] {
        let error = PolicyBuilder::new("p").allow(option).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let error = PolicyBuilder::new("p")
        .allow_private("169.254.0.0/16")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("169.254.169.254 (cloud metadata service)"),
        "{error}"
    );
    let both = PolicyBuilder::new("p")
        .allow("a.example:25")
        .unwrap()
        .allow("tcp:a.example:25");
    let error = both.unwrap().build().unwrap_err().to_string();
    assert!(
        error.starts_with("command line: --allow tcp:a.example:25: a.example port 25 is opaque"),
        "{error}"
    );
}

#[test]
fn every_shipped_example_compiles() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "yaml" || e == "json") {
            let text = std::fs::read_to_string(&path).unwrap();
            let outcome = Policy::compile(&text, &path.display().to_string());
            assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
            seen += 1;
        }
    }
    assert!(seen > 0);
}

const MANUAL: &str = "\
version: 1
name: demo
egress:
  - host: api.github.com
    ports: [443]
    rules:
      - {methods: [GET, HEAD], paths: [/repos/**, /user]}
    secrets: [TOKEN]
  - {host: db.corp.example, ports: [5432], protocol: tcp, allow_private: [10.20.0.0/16]}
limits: {requests_per_minute: 600, request_body: 50MB}
";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn a_damaged_document_is_refused_in_place_and_without_a_panic(
        cuts in prop::collection::vec((0..MANUAL.len(), 0..6_usize, "[a-z0-9{}\\[\\]:,'\"*&!#|>% \\n\\t-]{0,4}"), 1..4),
    ) {
        let mut text = MANUAL.to_owned();
        for (at, length, more) in cuts {
            let start = at.min(text.len());
            let end = (start + length).min(text.len());
            text.replace_range(start..end, &more);
        }
        if let Err(error) = Policy::compile(&text, "p") {
            let lines = text.lines().count() as u64 + 1;
            prop_assert!(!error.problems.is_empty());
            for problem in error.problems {
                prop_assert!((1..=lines).contains(&problem.line), "{problem:?}\n{text}");
                prop_assert!(problem.column > 0 && !problem.message.is_empty());
            }
        }
    }

    #[test]
    fn any_text_is_judged_without_a_panic(text in any::<String>(), option in any::<String>()) {
        drop(Policy::compile(&text, "p"));
        drop(crate::builder::PolicyBuilder::new("p").allow(&option));
        drop(Policy::deny_all("p").explain("GET", &option));
        drop(crate::host_pattern::HostPattern::parse(&option));
        drop(crate::path::normalise(&option));
    }
}
