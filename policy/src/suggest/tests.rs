//! `suggest`: what it promises, tried.

use proptest::prelude::*;

use super::*;
use crate::{attempt::Outcome, deny_reason::DenyReason, host::Host};

mod denied;

const DENIED: Outcome = Outcome::Denied(DenyReason::HostNotAllowed);

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

fn request(method: &str, name: &str, port: u16, path: &str) -> Attempt {
    let protocol = if port == 80 {
        AppProtocol::Http
    } else {
        AppProtocol::Https
    };
    Attempt {
        asked: Asked::Request {
            host: host(name),
            port: Port::new(port).unwrap(),
            protocol,
            method: method.into(),
            path: path.into(),
        },
        address: None,
        secrets: Vec::new(),
        entrusted: Vec::new(),
        outcome: DENIED,
        first: "2026-01-02T03:04:05.000000Z".into(),
        time: "2026-01-02T03:04:05.000000Z".into(),
        count: 1,
    }
}

fn connection(name: &str, port: u16, protocol: Option<AppProtocol>) -> Attempt {
    Attempt {
        asked: Asked::Connection {
            host: host(name),
            port: Port::new(port).unwrap(),
            protocol,
        },
        address: None,
        secrets: Vec::new(),
        entrusted: Vec::new(),
        outcome: DENIED,
        first: "2026-01-02T03:04:05.000000Z".into(),
        time: "2026-01-02T03:04:05.000000Z".into(),
        count: 1,
    }
}

fn document(attempts: &[Attempt]) -> String {
    let suggestion = suggest("s", attempts, None, None, Width::Path);
    assert_eq!(suggestion.uncovered, [], "{}", suggestion.draft);
    let document = suggestion.draft.to_string();
    let kept = document
        .lines()
        .filter(|l| !l.trim_start().starts_with('#'));
    kept.map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_was_asked_for_and_nothing_more() {
    let attempts = [
        request("GET", "api.example.com", 443, "/user"),
        request("GET", "api.example.com", 443, "/user"),
        request("HEAD", "api.example.com", 443, "/user"),
        request("POST", "api.example.com", 443, "/items"),
        request("GET", "api.example.com", 8443, "/x"),
        connection("db.example.com", 5432, Some(AppProtocol::Tcp)),
    ];
    let expected = "version: 1\n\
        name: \"s\"\n\
        mode: enforce\n\
        egress:\n\
        \x20 - host: api.example.com\n\
        \x20   ports: [443]\n\
        \x20   rules:\n\
        \x20     - {methods: [GET, HEAD], paths: [/user]}\n\
        \x20     - {methods: [POST], paths: [/items]}\n\
        \x20 - host: api.example.com\n\
        \x20   ports: [8443]\n\
        \x20   protocol: https\n\
        \x20   rules:\n\
        \x20     - {methods: [GET], paths: [/x]}\n\
        \x20 - host: db.example.com\n\
        \x20   ports: [5432]\n\
        \x20   protocol: tcp\n";
    assert_eq!(document(&attempts), expected);
}

fn with_secret(secret: &str, mut attempt: Attempt) -> Attempt {
    attempt.secrets = vec![secret.into()];
    attempt.outcome = Outcome::Allowed;
    attempt
}

fn with_entrusted(secret: &str, attempt: Attempt) -> Attempt {
    let mut attempt = with_secret(secret, attempt);
    attempt.entrusted.clone_from(&attempt.secrets);
    attempt
}

#[test]
fn what_the_program_was_handed_is_entrusted_where_it_sent_it() {
    let mut beside = with_secret("TOK", request("GET", "api.example.com", 443, "/y"));
    beside.secrets.push("PW".into());
    beside.entrusted.push("PW".into());
    let attempts = [
        with_entrusted("PW", request("GET", "api.example.com", 443, "/x")),
        beside,
        with_entrusted(
            "PW",
            connection("db.example.com", 5432, Some(AppProtocol::Tcp)),
        ),
        connection("other.example.com", 5432, Some(AppProtocol::Tcp)),
        with_entrusted(
            "PW",
            connection("pin.example.com", 443, Some(AppProtocol::Https)),
        ),
    ];
    let entrusted = "secrets: [{name: \"PW\", entrusted: true}";
    let expected = format!(
        "version: 1\n\
        name: \"s\"\n\
        mode: enforce\n\
        egress:\n\
        \x20 - host: api.example.com\n\
        \x20   ports: [443]\n\
        \x20   {entrusted}]\n\
        \x20   rules:\n\
        \x20     - {{methods: [GET], paths: [/x]}}\n\
        \x20 - host: api.example.com\n\
        \x20   ports: [443]\n\
        \x20   {entrusted}, \"TOK\"]\n\
        \x20   rules:\n\
        \x20     - {{methods: [GET], paths: [/y]}}\n\
        \x20 - host: db.example.com\n\
        \x20   ports: [5432]\n\
        \x20   protocol: tcp\n\
        \x20   {entrusted}]\n\
        \x20 - host: other.example.com\n\
        \x20   ports: [5432]\n\
        \x20   protocol: tcp\n\
        \x20 - host: pin.example.com\n\
        \x20   ports: [443]\n\
        \x20   tls: passthrough\n\
        \x20   {entrusted}]\n"
    );
    assert_eq!(document(&attempts), expected);
}

#[test]
fn a_secret_is_granted_to_the_requests_that_carried_it() {
    let attempts = [
        request("GET", "api.example.com", 443, "/open"),
        request("POST", "api.example.com", 443, "/items"),
        with_secret("TOK", request("POST", "api.example.com", 443, "/items")),
        connection("api.example.com", 443, Some(AppProtocol::Https)),
        with_secret("KEY", request("GET", "plain.example.com", 80, "/")),
        connection("only.example.com", 443, None),
        with_secret("TOK", request("GET", "only.example.com", 443, "/x")),
    ];
    let expected = "version: 1\n\
        name: \"s\"\n\
        mode: enforce\n\
        egress:\n\
        \x20 - host: api.example.com\n\
        \x20   ports: [443]\n\
        \x20   rules:\n\
        \x20     - {methods: [GET], paths: [/open]}\n\
        \x20 - host: api.example.com\n\
        \x20   ports: [443]\n\
        \x20   secrets: [\"TOK\"]\n\
        \x20   rules:\n\
        \x20     - {methods: [POST], paths: [/items]}\n\
        \x20 - host: only.example.com\n\
        \x20   ports: [443]\n\
        \x20   secrets: [\"TOK\"]\n\
        \x20   rules:\n\
        \x20     - {methods: [GET], paths: [/x]}\n\
        \x20 - host: plain.example.com\n\
        \x20   ports: [80]\n\
        \x20   protocol: http\n\
        \x20   secrets: [\"KEY\"]\n\
        \x20   rules:\n\
        \x20     - {methods: [GET], paths: [/]}\n";
    assert_eq!(document(&attempts), expected);
    let wide = suggest("s", &attempts, None, None, Width::Host);
    assert_eq!(wide.uncovered, [], "{}", wide.draft);
    assert_eq!(wide.draft.entries.len(), 3, "{}", wide.draft);
    // What the base allows without the secret is not allowed with it.
    let base = Policy::compile("version: 1\negress:\n  - {host: only.example.com}\n", "b").unwrap();
    let beside = suggest("s", &attempts[6..], Some(&base), None, Width::Path);
    assert_eq!(beside.draft.entries.len(), 1, "{}", beside.draft);
}

#[test]
fn what_the_document_says_beside_hosts_and_requests_is_carried_over() {
    let old = "version: 1\nname: s\ndeny: reset\nlimits:\n  requests_per_minute: 60\n  request_body: 5MB\n\
        egress:\n\
        \x20 - host: \"*.example.com\"\n    expires: 2030-01-02T00:00:00Z\n\
        \x20   secrets: [{name: TOK, in: [\"header:authorization\"]}]\n\
        \x20 - {host: gone.example.com, expires: 2020-01-02T00:00:00Z}\n\
        \x20 - {host: pinned.example.org, tls: passthrough}\n\
        \x20 - {host: mixed.example.net, expires: 2030-01-02T00:00:00Z}\n\
        \x20 - {host: \"*.example.net\"}\n";
    let attempts = [
        with_secret("TOK", request("GET", "api.example.com", 443, "/")),
        request("GET", "gone.example.com", 443, "/"),
        connection("pinned.example.org", 443, Some(AppProtocol::Https)),
        request("GET", "mixed.example.net", 443, "/"),
        request("GET", "new.example.edu", 443, "/"),
    ];
    let instead = InPlaceOf {
        document: old,
        now: crate::Moment::from_unix(1_800_000_000),
    };
    let made = suggest("s", &attempts, None, Some(instead), Width::Path);
    assert_eq!(made.uncovered, [], "{}", made.draft);
    let text = made.draft.to_string();
    for part in [
        "mode: enforce\ndeny: reset\nlimits:\n  requests_per_minute: 60\n  request_body: 5MB\negress:",
        "secrets: [{name: \"TOK\", in: [\"header:authorization\"]}]\n    expires: 2030-01-02T00:00:00Z\n",
        "- host: pinned.example.org\n    ports: [443]\n    tls: passthrough\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // That of `*.example.com` holds for `gone.example.com`, whose own has ended.
    assert_eq!(text.matches("expires:").count(), 2, "{text}");
    assert!(
        made.notes
            .iter()
            .any(|note| note.contains("mixed.example.net: one of the rules")),
        "{:?}",
        made.notes
    );
    assert_eq!(made.notes.len(), 1, "{:?}", made.notes);
}

#[test]
fn identifiers_become_wildcards_and_names_stay() {
    let paths = [
        "/users/1/a",
        "/users/22/a",
        "/users/333/a",
        "/teams/x",
        "/teams/y",
    ];
    let attempts: Vec<_> = paths
        .iter()
        .map(|path| request("GET", "api.example.com", 443, path))
        .collect();
    let text = document(&attempts);
    assert!(
        text.contains("paths: [/teams/x, /teams/y, \"/users/*/a\"]"),
        "{text}"
    );
    let suggestion = suggest("s", &attempts, None, None, Width::Path);
    let text = suggestion.draft.to_string();
    assert!(
        text.contains("# /users/\\u{2a}/a stands for 3 paths")
            || text.contains("# /users/*/a stands for 3 paths"),
        "{text}"
    );
}

#[test]
fn many_siblings_become_one_pattern() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let attempts: Vec<_> = names
        .iter()
        .map(|name| request("GET", "index.example.com", 443, &format!("/simple/{name}/")))
        .collect();
    assert!(document(&attempts).contains("paths: [\"/simple/*/\"]"));
    let fewer = attempts.split_last().unwrap().1;
    assert!(!document(fewer).contains('*'));
}

#[test]
fn what_stands_deeper_than_identifiers_do_stays_as_it_is() {
    let deep = "/a".repeat(40);
    let paths = [1, 2, 3, 4].map(|number| format!("{deep}/{number}"));
    let attempts = paths.each_ref();
    let attempts = attempts.map(|path| request("GET", "api.example.com", 443, path));
    let document = document(&attempts);
    for path in &paths {
        assert!(document.contains(path), "{document}");
    }
    assert!(!document.contains('*'), "{document}");
}

#[test]
fn what_the_base_allows_is_left_out() {
    let base = Policy::compile("version: 1\negress:\n  - {host: a.example.com}\n", "b").unwrap();
    let attempts = [
        request("GET", "a.example.com", 443, "/"),
        request("GET", "b.example.com", 443, "/"),
    ];
    let suggestion = suggest("s", &attempts, Some(&base), None, Width::Path);
    assert_eq!(suggestion.draft.entries.len(), 1);
    let nothing = suggest("s", &attempts[..1], Some(&base), None, Width::Path);
    assert!(nothing.draft.to_string().contains("egress: []"));
}

#[test]
fn addresses_that_are_not_public_are_told_and_not_suggested() {
    let attempts = [
        connection("169.254.169.254", 80, Some(AppProtocol::Http)),
        connection("10.0.0.1", 443, None),
        connection("9.9.9.9", 53, Some(AppProtocol::Tcp)),
    ];
    let suggestion = suggest("s", &attempts, None, None, Width::Path);
    assert_eq!(suggestion.draft.entries.len(), 1);
    assert_eq!(suggestion.uncovered.len(), 2);
    assert_eq!(suggestion.notes.len(), 2, "{:?}", suggestion.notes);
}

#[test]
fn a_name_at_an_address_that_is_not_public_is_told_and_not_suggested() {
    let mut inside = request("GET", "db.example.com", 443, "/x");
    inside.address = Some([10, 1, 2, 3].into());
    inside.outcome = Outcome::Denied(DenyReason::PrivateAddress);
    let suggestion = suggest("s", &[inside], None, None, Width::Path);
    assert!(suggestion.draft.entries.is_empty(), "{}", suggestion.draft);
    assert_eq!(suggestion.uncovered.len(), 1);
    assert!(
        suggestion.notes[0].starts_with("db.example.com is at 10.1.2.3, which is not a public"),
        "{:?}",
        suggestion.notes
    );
}

#[test]
fn an_address_that_the_document_opens_there_stays_open_and_no_other_rule_is_written() {
    let old = "version: 1\nname: s\negress:\n\
        \x20 - {host: db.example.com, ports: [443], allow_private: [10.1.0.0/16], rules: [{methods: [GET]}]}\n";
    let instead = InPlaceOf {
        document: old,
        now: crate::Moment::from_unix(1_800_000_000),
    };
    let at = |mut attempt: Attempt, ip: [u8; 4], outcome| {
        attempt.address = Some(ip.into());
        attempt.outcome = outcome;
        attempt
    };
    let there = [10, 1, 2, 3];
    let mut late = request("PUT", "db.example.com", 443, "/y");
    late.outcome = Outcome::Denied(DenyReason::MethodNotAllowed);
    let attempts = [
        at(
            request("GET", "db.example.com", 443, "/x"),
            there,
            Outcome::Allowed,
        ),
        // Where that would have gone is known by the other.
        late,
        // The document opens nothing at that port, nor at that address, nor for that host.
        request("GET", "db.example.com", 8443, "/x"),
        at(request("GET", "new.example.com", 443, "/x"), there, DENIED),
    ];
    let made = suggest("s", &attempts, None, Some(instead), Width::Path);
    let text = made.draft.to_string();
    let [entry] = made.draft.entries.as_slice() else {
        panic!("{text}");
    };
    assert_eq!(entry.allow_private, ["10.1.0.0/16"]);
    assert_eq!(entry.rules.as_ref().map(Vec::len), Some(2), "{text}");
    let policy = Policy::compile(&text, "s").unwrap();
    for covered in [&attempts[0], &attempts[1]] {
        let ip = Some(there.into());
        assert!(policy.covers(&covered.asked, ip).is_ok(), "{text}");
    }
    assert_eq!(made.uncovered.len(), 2, "{:?}", made.uncovered);
    assert_eq!(made.notes.len(), 2, "{:?}", made.notes);
    // By itself nothing opens it.
    let made = suggest("s", &attempts, None, None, Width::Path);
    assert!(made.draft.entries.is_empty(), "{}", made.draft);
}

#[test]
fn a_cut_path_is_covered_by_an_entry_for_the_whole_host_alone() {
    let long = format!("/{}…[4000 octets sha256:0]…x", "x".repeat(900));
    let attempts = [request("GET", "a.example.com", 443, &long)];
    let narrow = suggest("s", &attempts, None, None, Width::Path);
    assert!(narrow.draft.entries.is_empty(), "{}", narrow.draft);
    assert_eq!((narrow.uncovered.len(), narrow.notes.len()), (1, 1));
    let wide = suggest("s", &attempts, None, None, Width::Host);
    assert_eq!(wide.uncovered, [], "{}", wide.draft);
    assert_eq!(wide.draft.entries.len(), 1);
}

/// Compared each with each, these would be thousands of millions of comparisons.
#[test]
fn many_hosts_and_every_port_are_suggested_in_one_pass() {
    let mut attempts: Vec<_> = (0..20_000)
        .map(|n| request("GET", &format!("h{n}.example.com"), 443, "/"))
        .collect();
    attempts.extend((1..=u16::MAX).map(|port| request("GET", "many.example.com", port, "/")));
    let suggestion = suggest("s", &attempts, None, None, Width::Path);
    assert_eq!(suggestion.uncovered, []);
    // What ports 80 and 443 speak needs no word; all others are one entry.
    assert_eq!(suggestion.draft.entries.len(), 20_000 + 2);
}

#[test]
fn what_is_guessed_is_said() {
    let name = Attempt {
        asked: Asked::Name(crate::Fqdn::parse("n.example.com").unwrap()),
        address: None,
        secrets: Vec::new(),
        entrusted: Vec::new(),
        outcome: DENIED,
        first: "t".into(),
        time: "t".into(),
        count: 1,
    };
    let unseen = connection("c.example.com", 9000, None);
    let suggestion = suggest("s", &[name, unseen], None, None, Width::Path);
    let text = suggestion.draft.to_string();
    assert_eq!(suggestion.uncovered, []);
    assert!(
        text.contains("the port is a guess") && text.contains("`protocol: tcp` if"),
        "{text}"
    );
}

#[test]
fn width_host_allows_every_request_there() {
    let attempts = [request("GET", "a.example.com", 443, "/x")];
    let text = suggest("s", &attempts, None, None, Width::Host)
        .draft
        .to_string();
    assert!(!text.contains("rules"), "{text}");
}

#[test]
fn what_no_document_can_say_is_told() {
    let attempts = [
        request("get", "a.example.com", 443, "/x"),
        request("GET", "a.example.com", 443, "/long...(5 octets cut)"),
        request("GET", "a.example.com", 443, "/*/a*"),
    ];
    let suggestion = suggest("s", &attempts, None, None, Width::Path);
    assert_eq!(suggestion.uncovered.len(), 3);
    assert_eq!(suggestion.notes.len(), 3, "{:?}", suggestion.notes);
    assert!(suggestion.draft.entries.is_empty(), "{}", suggestion.draft);
}

proptest! {
    /// Whatever normalised paths were asked for, the document compiles and covers them.
    #[test]
    fn every_attempt_is_covered(
        paths in prop::collection::vec(
            ("[A-Z]{1,8}", "(/([a-c*]{0,3}|[0-9]{1,3}|[0-9a-f]{8}|%2F[ab]|@a%2Fb|[-a:;,=&'\"#{}]{1,3})){1,4}"), 1..80),
        port in prop::sample::select(vec![80_u16, 443, 8443]),
    ) {
        let mut attempts = Vec::new();
        for (method, path) in &paths {
            let Ok(path) = crate::path::normalise(path) else { continue };
            if path.as_str().contains('*') { continue }
            attempts.push(request(method, "a.example.com", port, path.as_str()));
        }
        let suggestion = suggest("s", &attempts, None, None, Width::Path);
        prop_assert_eq!(&suggestion.uncovered, &Vec::new(), "{}", suggestion.draft);
        // And no other host, method or port.
        let policy = Policy::compile(&suggestion.draft.to_string(), "s").unwrap();
        for other in [
            request("GET", "b.example.com", port, "/"),
            request("TRACE-X", "a.example.com", port, "/a"),
            request("GET", "a.example.com", 9443, "/"),
        ] {
            prop_assert!(policy.covers(&other.asked, None).is_err());
        }
    }
}
