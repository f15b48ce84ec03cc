//! Rules that a denial is answered with.

use super::*;

fn denied(host: &str, path: Option<&str>) -> Row {
    Row {
        verdict: Some("deny".to_owned()),
        reason: Some("host_not_allowed".to_owned()),
        host: Some(host.to_owned()),
        port: Some(443),
        protocol: Some("https".to_owned()),
        method: path.map(|_| "GET".to_owned()),
        path: path.map(str::to_owned),
        ..Row::default()
    }
}

#[test]
fn a_rule_is_added_at_the_end_and_all_else_stays() {
    let document = "version: 1\n# why\negress:\n  - host: a.example   # first\n    ports: [443]\n\nlimits: {connections: 3}\n";
    let row = denied("b.example", Some("/x/1"));
    let proposal = propose("p", document, &row, (Width::Path, None)).unwrap();
    let rule = "{host: b.example, ports: [443], rules: [{methods: [GET], paths: [/x/1]}]}";
    assert_eq!(proposal.rule, rule);
    let want = format!(
        "version: 1\n# why\negress:\n  - host: a.example   # first\n    ports: [443]\n  - {rule}\n\nlimits: {{connections: 3}}\n"
    );
    assert_eq!(proposal.document.as_deref(), Some(want.as_str()));
    let wide = propose("p", document, &row, (Width::Host, None)).unwrap();
    assert_eq!(wide.rule, "{host: b.example, ports: [443]}");
}

#[test]
fn a_rule_for_an_hour_ends_in_an_hour() {
    let row = denied("b.example", None);
    let now: Moment = "2026-11-22T09:00:00Z".parse().unwrap();
    let until = Lasting::Hour.until(now);
    let proposal = propose("p", "version: 1\n", &row, (Width::Host, until)).unwrap();
    let rule = "{host: b.example, ports: [443], expires: \"2026-11-22T10:00:00Z\"}";
    assert_eq!(proposal.rule, rule);
    let document = proposal.document.unwrap();
    let policy = document::compile("p", 0, &document, None).unwrap();
    assert_eq!(policy.until(), until);
    assert_eq!(Lasting::Ever.until(now), None);
}

#[test]
fn empty_lists_no_lists_and_flush_lists_take_a_rule() {
    let row = denied("b.example", None);
    for document in [
        "version: 1\n",
        "version: 1\negress: []\n",
        "version: 1\negress:\n- host: a.example\n",
        "version: 1\negress: # all\n    - {host: a.example}",
    ] {
        let proposal = propose("p", document, &row, (Width::Path, None)).unwrap();
        let with = proposal.document.unwrap_or_else(|| panic!("{document}"));
        let policy = document::compile("p", 0, &with, None).unwrap();
        let answer = policy.explain("GET", "https://b.example/").unwrap();
        assert!(answer.passes(), "{with}");
    }
}

#[test]
fn lists_in_brackets_and_json_take_a_rule_and_stay_what_they_are() {
    let row = denied("b.example", Some("/x"));
    let yaml = "{host: b.example, ports: [443], rules: [{methods: [GET], paths: [/x]}]}";
    let json = r#"{"host": "b.example", "ports": [443], "rules": [{"methods": ["GET"], "paths": ["/x"]}]}"#;
    for (document, want) in [
        (
            "version: 1\negress: [{host: a.example}] # one\nlimits: {connections: 3}\n",
            format!(
                "version: 1\negress: [{{host: a.example}}, {yaml}] # one\nlimits: {{connections: 3}}\n"
            ),
        ),
        (
            "version: 1\negress:\n  # some\n  [\n    {host: a.example}\n  ]\n",
            format!(
                "version: 1\negress:\n  # some\n  [\n    {{host: a.example}},\n    {yaml}\n  ]\n"
            ),
        ),
        (
            "{\"version\": 1, \"egress\": []}",
            format!("{{\"version\": 1, \"egress\": [{json}]}}"),
        ),
        (
            "{\n  \"version\": 1,\n  \"egress\": [\n    {\"host\": \"a.example\"}\n  ]\n}\n",
            format!(
                "{{\n  \"version\": 1,\n  \"egress\": [\n    {{\"host\": \"a.example\"}},\n    {json}\n  ]\n}}\n"
            ),
        ),
        (
            "{\"version\": 1}",
            format!("{{\"version\": 1, \"egress\": [{json}]}}"),
        ),
    ] {
        let proposal = propose("p", document, &row, (Width::Path, None)).unwrap();
        assert_eq!(
            proposal.document.as_deref(),
            Some(want.as_str()),
            "{document}"
        );
    }
    let until = Lasting::Hour.until("2026-11-22T09:00:00Z".parse().unwrap());
    let hour = propose("p", "{\"version\": 1}", &row, (Width::Host, until)).unwrap();
    let document = hour.document.unwrap();
    assert!(
        serde_json::from_str::<serde_json::Value>(&document).is_ok(),
        "{document}"
    );
    assert_eq!(
        document::compile("p", 0, &document, None).unwrap().until(),
        until
    );
}

#[test]
fn an_address_that_is_not_public_is_opened_by_itself_and_what_nothing_opens_never() {
    let found_at = |host: &str, ip: &str| Row {
        reason: Some("private_address".to_owned()),
        dst_ip: Some(ip.to_owned()),
        ..denied(host, None)
    };
    let row = found_at("b.example", "10.1.2.3");
    assert!(can_be_allowed(&row));
    // It is let pass already, but for where it is.
    let document = "version: 1\negress:\n  - {host: b.example}\n";
    let proposal = propose("p", document, &row, (Width::Path, None)).unwrap();
    let rule = "{host: b.example, ports: [443], allow_private: [\"10.1.2.3/32\"]}";
    assert_eq!(proposal.rule, rule);
    let with = proposal.document.unwrap();
    let policy = document::compile("p", 0, &with, None).unwrap();
    let passes = |ip: &str| {
        let ip = ip.parse().unwrap();
        policy.covers(&asked(&row).unwrap(), Some(ip)).is_ok()
    };
    assert!(passes("10.1.2.3") && !passes("10.1.2.4"), "{with}");
    // An address that was asked for by itself, and one of six.
    let mut own = denied("10.1.2.3", None);
    own.reason = Some("ip_not_allowed".to_owned());
    for row in [
        own,
        found_at("fd12::7", "fd12::7"),
        found_at("b.example", "fd12::7"),
    ] {
        let proposal = propose("p", "version: 1\n", &row, (Width::Host, None)).unwrap();
        let with = proposal.document.unwrap();
        assert!(
            with.contains("/32\"]") || with.contains("/128\"]"),
            "{with}"
        );
    }
    // With no word of a path, since rules share what they open of addresses; and no other path is allowed by it.
    let mut narrow = found_at("b.example", "10.1.2.3");
    narrow.method = Some("GET".to_owned());
    narrow.path = Some("/x".to_owned());
    assert!(!has_path(&narrow) && address(&narrow).is_some());
    let document =
        "version: 1\negress:\n  - {host: b.example, rules: [{methods: [GET], paths: [/x]}]}\n";
    let rule = "{host: b.example, ports: [443], rules: [{methods: [GET], paths: [/x]}], \
                allow_private: [\"10.1.2.3/32\"]}";
    for width in [Width::Path, Width::Host] {
        let proposal = propose("p", document, &narrow, (width, None)).unwrap();
        assert_eq!(proposal.rule, rule);
        let with = proposal.document.unwrap();
        let policy = document::compile("p", 0, &with, None).unwrap();
        let at = Some("10.1.2.3".parse().unwrap());
        let mut other = narrow.clone();
        assert!(policy.covers(&asked(&other).unwrap(), at).is_ok(), "{with}");
        other.path = Some("/y".to_owned());
        assert!(
            policy.covers(&asked(&other).unwrap(), at).is_err(),
            "{with}"
        );
    }
    // Asked for by itself and denied by the rules: as narrow as any other.
    let mut literal = denied("10.1.2.3", Some("/x"));
    literal.reason = Some("ip_not_allowed".to_owned());
    assert!(has_path(&literal) && address(&literal).is_none());
    let one = propose("p", "version: 1\n", &literal, (Width::Path, None)).unwrap();
    let expected = "{ip: \"10.1.2.3\", ports: [443], rules: [{methods: [GET], paths: [/x]}], \
                    allow_private: [\"10.1.2.3/32\"]}";
    assert_eq!(one.rule, expected);
    for (never, open) in [
        ("169.254.169.254", false),
        ("::ffff:169.254.169.254", false),
        ("127.0.0.1", true),
        ("::1", true),
    ] {
        let row = found_at("b.example", never);
        let named = found_at(never, never);
        assert_eq!(
            (can_be_allowed(&row), can_be_allowed(&named)),
            (open, open),
            "{never}"
        );
    }
    let mut untold = found_at("b.example", "");
    untold.dst_ip = None;
    assert!(!can_be_allowed(&untold));
}

#[test]
fn what_is_not_certain_is_left_to_a_person() {
    let row = denied("b.example", None);
    for document in [
        "version: 1\negress:\n  - hots: a\n",
        "version: 1\negress: [\n  {host: a.example} # the only one\n]\n",
        "version: 1\negress: &all [{host: a.example}]\n",
        "{\"version\": 1, \"egress\": {}}",
    ] {
        let proposal = propose("p", document, &row, (Width::Host, None)).unwrap();
        assert_eq!(proposal.document, None, "{document}");
    }
}

#[test]
fn the_document_with_the_rule_lets_the_request_pass_on_any_port() {
    for (port, protocol) in [(443, "http"), (80, "https"), (8443, "https"), (22, "tcp")] {
        let row = Row {
            port: Some(port),
            protocol: Some(protocol.to_owned()),
            ..denied("b.example", None)
        };
        let proposal = propose("p", "version: 1\n", &row, (Width::Host, None)).unwrap();
        let with = proposal.document.unwrap();
        let policy = document::compile("p", 0, &with, None).unwrap();
        assert!(policy.covers(&asked(&row).unwrap(), None).is_ok(), "{with}");
    }
    // Bytes that another rule passes unopened there are not looked into for this one.
    let opaque = "version: 1\negress:\n  - {host: b.example, protocol: tcp, ports: [443]}\n";
    let row = denied("b.example", Some("/x"));
    let proposal = propose("p", opaque, &row, (Width::Path, None)).unwrap();
    assert!(proposal.document.is_none());
}

#[test]
fn hostile_text_becomes_no_rule_and_patterns_no_wider_one() {
    assert!(
        propose(
            "p",
            "",
            &denied("a.example, ports: [1]", None),
            (Width::Host, None)
        )
        .is_none()
    );
    assert!(!can_be_allowed(&denied("x\ny", None)));
    let star = denied("b.example", Some("/a/*"));
    assert!(!has_path(&star));
    let rule = propose("p", "version: 1\n", &star, (Width::Path, None))
        .unwrap()
        .rule;
    // The path no rule can name, the method it can.
    assert_eq!(
        rule,
        "{host: b.example, ports: [443], rules: [{methods: [GET]}]}"
    );
    assert_eq!(method_alone(&star).as_deref(), Some("GET"));
    let wide = propose("p", "version: 1\n", &star, (Width::Host, None)).unwrap();
    let with = document::compile("p", 0, &wide.document.unwrap(), None).unwrap();
    assert!(with.covers(&asked(&star).unwrap(), None).is_ok());
    let mut other = star;
    other.method = Some("POST".to_owned());
    assert!(with.covers(&asked(&other).unwrap(), None).is_err());
    assert_eq!(method_alone(&denied("b.example", Some("/x"))), None);
    let mut misuse = denied("b.example", None);
    misuse.reason = Some("secret_misuse".to_owned());
    assert!(!can_be_allowed(&misuse));
}
