//! What a person is told about one decision.

use super::*;

const DOCUMENT: &str = "\
name: demo
egress:
  - host: api.github.com
    ports: [443]
    rules:
      - {methods: [GET], paths: [/repos/acme/**]}
    secrets: [TOKEN]
  - host: '*.example.com'
  - {host: pinned.example.com, tls: passthrough}
  - {host: db.corp.example, ports: [5432], protocol: tcp, allow_private: [10.20.0.0/16]}
  - {ip: 10.20.1.1, ports: [443], allow_private: [10.20.0.0/16]}
  - {ip: 192.168.0.0/16}
";

fn explain(method: &str, url: &str) -> Explanation {
    Policy::compile(DOCUMENT, "p.yaml")
        .unwrap()
        .explain(method, url)
        .unwrap()
}

#[test]
fn a_method_in_lower_case_is_told_to_be_another_one() {
    let told = |method: &str| {
        let notes = explain(method, "https://www.example.com/").notes;
        notes.iter().any(|note| note.contains("told apart by case"))
    };
    assert!(told("get") && told("Patch"));
    assert!(!told("GET") && !told("PURGE") && !told("purge"));
}

#[test]
fn an_allowed_request_names_its_rule() {
    let told = explain("GET", "https://API.github.com/repos/acme/%78?token=1");
    assert!(told.passes());
    assert_eq!(
        told.to_string(),
        "ALLOW
  asked    GET https://api.github.com:443/repos/acme/x
  policy   demo version 0
  rule     egress[0].rules[0]
  handling inspect
  secrets  TOKEN
  + egress[0] api.github.com (line 3): egress[0].rules[0] matches
  note     every address of the name must be public, or it is not dialled
  note     the query takes no part in the decision
"
    );
}

#[test]
fn a_denied_request_says_what_was_missing_and_what_to_ask_for() {
    let told = explain("POST", "https://api.github.com/repos/acme/x");
    assert!(!told.passes());
    assert_eq!(
        told.to_string(),
        "DENY method_not_allowed: no rule of api.github.com has method POST
  asked    POST https://api.github.com:443/repos/acme/x
  policy   demo version 0
  nearest  egress[0].rules[0]
  handling inspect
  ask for  {host: api.github.com, ports: [443], rules: [{methods: [POST], paths: [/repos/acme/x]}]}
  - egress[0] api.github.com (line 3): none of its rules has method POST
"
    );
}

#[test]
fn each_hurdle_has_its_own_words() {
    for (method, url, verdict, outcome) in [
        ("GET", "https://nowhere.test/", "host_not_allowed", ""),
        (
            "GET",
            "https://example.com/",
            "host_not_allowed",
            "never example.com itself",
        ),
        (
            "GET",
            "https://x.example.com:8443/",
            "port_not_allowed",
            "not among its ports: 443, 80",
        ),
        (
            "GET",
            "http://x.example.com:443/",
            "protocol_not_allowed",
            "http is not allowed on port 443: https is",
        ),
        (
            "GET",
            "tcp://x.example.com:443",
            "protocol_not_allowed",
            "tcp is not allowed",
        ),
        (
            "GET",
            "https://api.github.com/user",
            "path_not_allowed",
            "has a path that fits /user",
        ),
        (
            "GET",
            "https://api.github.com/repos/acme/..%2Fx",
            "path_not_allowed",
            "a path that fits",
        ),
        (
            "GET",
            "https://192.168.3.4/",
            "private_address",
            "every request",
        ),
        (
            "GET",
            "https://169.254.169.254/latest",
            "never_openable",
            "",
        ),
        ("GET", "https://8.8.8.8/", "ip_not_allowed", ""),
    ] {
        let told = explain(method, url);
        assert_eq!(
            told.reason.map(DenyReason::as_str),
            Some(verdict),
            "{url}\n{told}"
        );
        let outcomes: Vec<_> = told.considered.iter().map(|c| c.outcome.as_str()).collect();
        assert!(
            outcomes.iter().any(|o| o.contains(outcome)) || outcome.is_empty(),
            "{told}"
        );
        assert_eq!(
            told.passes(),
            told.considered.iter().any(|c| c.matches) && verdict != "private_address",
            "{told}"
        );
    }
}

#[test]
fn bytes_that_are_not_looked_into_say_so() {
    let told = explain("GET", "https://pinned.example.com/x");
    assert_eq!(told.handling, Some("passthrough"));
    assert!(
        told.to_string()
            .contains("more specific egress[2] decides: passthrough"),
        "{told}"
    );
    let told = explain("-", "tcp://db.corp.example:5432");
    assert_eq!((told.verdict, told.handling), ("allow", Some("opaque")));
    assert_eq!(told.allow_private, ["10.20.0.0/16"]);
    assert_eq!(explain("GET", "https://10.20.1.1/").verdict, "allow");
}

#[test]
fn observing_is_told_as_would_deny() {
    let policy = Policy::compile("mode: observe", "p.yaml").unwrap();
    let told = policy.explain("GET", "https://a.example/").unwrap();
    assert_eq!((told.verdict, told.passes()), ("would_deny", true));
    assert_eq!(told.reason, Some(DenyReason::HostNotAllowed));
    let told = policy.explain("GET", "https://169.254.169.254/").unwrap();
    assert_eq!(
        (told.verdict, told.reason),
        ("deny", Some(DenyReason::NeverOpenable))
    );
}

#[test]
fn urls_that_no_sandbox_could_ask_for_are_refused() {
    let policy = Policy::deny_all("p");
    for (url, cure) in [
        ("api.github.com", "write https://"),
        ("ftp://a.example/", "write https://"),
        ("https://u:p@a.example/", "user information"),
        ("https://a.example:0/", "no port"),
        ("https://a.example:99999/", "no port"),
        ("tcp://a.example", "no port"),
        ("https:///x", "empty"),
    ] {
        let error = policy.explain("GET", url).unwrap_err().to_string();
        assert!(error.contains(cure), "{url}: {error}");
    }
}

#[test]
fn what_the_proxy_takes_for_no_request_is_denied() {
    let document = "egress:\n- host: a.example\n- {host: b.example, tls: passthrough}";
    let policy = Policy::compile(document, "p.yaml").unwrap();
    for (method, url, why) in [
        ("GET", "https://0x7f.1/", "IP address"),
        ("GET", "http://127.1/", "IP address"),
        ("GET", "https://a.example/../x", "climbs above"),
        ("GET", "https://a.example/a%00b", "control"),
        ("GET", "https://a.example/%7f", "control"),
        ("GET", "https://a.example/a%", "hexadecimal"),
        ("GET", "https://a.example/<x>", "percent-encoded"),
        ("GET", "https://a.example/`", "percent-encoded"),
        ("GET", "https://a.example/?q=<x>", "percent-encoded"),
        ("GE T", "https://a.example/", "not an HTTP method"),
        ("", "https://a.example/", "not an HTTP method"),
    ] {
        let told = policy.explain(method, url).unwrap();
        assert!(!told.passes(), "{method} {url}: {told}");
        assert_eq!(told.reason, Some(DenyReason::MalformedRequest), "{told}");
        assert!(told.notes.iter().any(|note| note.contains(why)), "{told}");
        assert_eq!((told.rule, told.hint), (None, None), "{method} {url}");
    }
    // A name that is refused is never asked for anything, and what is not opened is not read.
    let other = policy.explain("GET", "https://c.example/<x>").unwrap();
    assert_eq!(other.reason, Some(DenyReason::HostNotAllowed), "{other}");
    let unread = policy.explain("GET", "https://b.example/<x>").unwrap();
    assert!(unread.passes(), "{unread}");
    // `OPTIONS *`: a target like others.
    let star = policy.explain("OPTIONS", "https://a.example*").unwrap();
    assert_eq!((&*star.path, star.passes()), ("*", true), "{star}");
}

#[test]
fn a_wildcard_that_was_asked_for_is_not_offered() {
    let told = explain("GET", "https://api.github.com/**");
    assert_eq!(told.hint, None, "{told}");
    let why = |note: &String| note.contains("no rule can name it");
    assert!(told.notes.iter().any(why), "{told}");
}

#[test]
fn all_that_a_private_address_needs_is_told_at_once() {
    let document = "egress:\n- {host: db.example.com, ports: [5432], protocol: tcp}\n\
                    - {host: in.example.com, ports: [5432], protocol: tcp, allow_private: [10.0.0.0/8]}";
    let policy = Policy::compile(document, "p.yaml").unwrap();
    let told = |url| policy.explain("GET", url).unwrap().notes.join("; ");
    let needs = told("tcp://10.9.2.3:5432");
    assert!(needs.contains("allow_private: [10.9.2.3]"), "{needs}");
    let public = told("tcp://192.0.43.8:5432");
    assert!(!public.contains("allow_private"), "{public}");
    let name = told("tcp://db.example.com:5432");
    assert!(
        name.contains("every address of the name must be public"),
        "{name}"
    );
    let opened = told("tcp://in.example.com:5432");
    assert!(
        opened.contains("may also resolve to 10.0.0.0/8"),
        "{opened}"
    );
}

#[test]
fn it_serialises_for_programs() {
    let json = serde_json::to_value(explain("POST", "https://api.github.com/x")).unwrap();
    assert_eq!(json["verdict"], "deny");
    assert_eq!(json["reason"], "method_not_allowed");
    assert_eq!(json["considered"][0]["rule"], "egress[0]");
}

#[test]
fn a_local_policy_is_explained_as_it_is_enforced() {
    let document = "egress:\n- {ip: 10.1.0.0/16}\n- {ip: 20.1.2.3}\n- host: in.example.com\n\
                    - {ip: 192.0.2.0/24, allow_private: [192.0.2.0/24]}";
    let local = crate::PolicyBuilder::new("p")
        .document(document, "p.yaml")
        .unwrap()
        .reach(Reach::Local)
        .build()
        .unwrap();
    let told = |url| local.explain("GET", url).unwrap();
    assert_eq!(told("https://10.1.2.3/").verdict, "allow");
    assert_eq!(told("https://192.0.2.1/").verdict, "allow");
    let public = told("https://20.1.2.3/");
    assert_eq!(
        (public.verdict, public.reason),
        ("deny", Some(DenyReason::PublicAddress))
    );
    let name = told("https://in.example.com/").to_string();
    assert!(
        name.contains("only where it resolves to 10.0.0.0/8"),
        "{name}"
    );
    let external = Policy::compile(document, "p.yaml").unwrap();
    assert_eq!(
        external
            .explain("GET", "https://10.1.2.3/")
            .unwrap()
            .verdict,
        "deny"
    );
}
