//! Every class has what the schema requires, whatever a record lacks.

use std::collections::BTreeMap;

use super::*;
use crate::row::RowTls;

/// Required attributes of each class, of OCSF 1.3.0, with those of the base event.
fn required() -> BTreeMap<u64, Vec<&'static str>> {
    BTreeMap::from([
        (0, vec![]),
        (2004, vec!["finding_info"]),
        (3001, vec!["user"]),
        (3002, vec!["user"]),
        (3004, vec!["entity"]),
        (4001, vec!["dst_endpoint", "src_endpoint"]),
        (4002, vec!["dst_endpoint", "http_request", "src_endpoint"]),
        (4003, vec!["dst_endpoint", "query", "src_endpoint"]),
        (6002, vec!["app"]),
    ])
}

const BASE: [&str; 6] = [
    "activity_id",
    "category_uid",
    "class_uid",
    "severity_id",
    "time",
    "type_uid",
];

fn read(row: &Row) -> Value {
    let line = event(row);
    assert!(
        line.bytes().all(|octet| (b' '..=b'~').contains(&octet)),
        "{line}"
    );
    let value: Value = serde_json::from_str(&line).unwrap();
    check(&value);
    value
}

/// As a validator of the schema looks at it.
fn check(event: &Value) {
    for name in BASE {
        assert!(event[name].is_u64(), "{name}: {event}");
    }
    let class = event["class_uid"].as_u64().unwrap();
    let activity = event["activity_id"].as_u64().unwrap();
    assert_eq!(event["type_uid"], class * 100 + activity, "{event}");
    assert_eq!(event["category_uid"], class / 1000, "{event}");
    assert_eq!(event["metadata"]["version"], "1.3.0");
    assert_eq!(event["metadata"]["product"]["vendor_name"], "gig");
    for name in &required()[&class] {
        assert!(event[name].is_object(), "{name}: {event}");
    }
    assert!(!event.to_string().contains(":null"), "{event}");
    let has_control = event.get("action_id").is_some();
    let says_so = event["metadata"]["profiles"] == json!(["security_control"]);
    assert_eq!(has_control, says_so, "{event}");
}

fn row(event: &str) -> Row {
    Row {
        seq: 5,
        time: "2026-11-21T09:30:00.123456Z".into(),
        node: "n".into(),
        event: event.into(),
        hash: "ab".into(),
        ..Row::default()
    }
}

#[test]
fn every_event_has_its_class_and_what_it_requires() {
    for (event, class) in [
        ("dns", 4003),
        ("connect", 4001),
        ("request", 4002),
        ("response", 4001),
        ("secret.misuse", 2004),
        ("finding", 2004),
        ("audit.gap", 2004),
        ("policy.change", 3004),
        ("secret.change", 3004),
        ("auth", 0),
        ("admin", 3004),
        ("sandbox.start", 6002),
        ("sandbox.exit", 6002),
        ("quantum.leap", 0),
    ] {
        // With nothing, and with every verdict.
        for verdict in [None, Some("allow"), Some("deny"), Some("would_deny")] {
            let mut row = row(event);
            row.verdict = verdict.map(Into::into);
            // A sandbox has its address from the first record on.
            row.src = Some("10.200.0.2:4000".into());
            assert_eq!(read(&row)["class_uid"], class, "{event}");
        }
    }
}

/// What `actor` did, in these words.
fn doing(event: &str, actor: &str, words: &str) -> Value {
    let mut row = row(event);
    row.profile = Some(actor.into());
    row.verdict = Some("allow".into());
    row.src = Some("192.0.2.7:4000".into());
    row.server = Some("docs".into());
    row.policy = Some("web".into());
    row.policy_version = Some(1);
    row.secrets = vec!["TOKEN".into()];
    row.findings = vec![words.into(), "why: because".into()];
    read(&row)
}

#[test]
fn what_people_do_is_told_of_whom_they_do_it_to() {
    let set = "password of ben set, sessions ended, tokens stay";
    for (actor, words, user, id) in [
        ("ana", "user ben added as viewer", "ben", 300_101),
        (
            "ana",
            "user ana enrolled a second factor, 10 recovery codes",
            "ana",
            300_110,
        ),
        (
            "ana",
            "user ben has no second factor any more",
            "ben",
            300_111,
        ),
        ("ana", "user ben is now admin", "ben", 300_199),
        ("ana", "user ben removed", "ben", 300_106),
        ("ana", set, "ben", 300_104),
        ("ben", set, "ben", 300_103),
        ("ana", "set-up done: first admin ana", "ana", 300_101),
    ] {
        let event = doing("admin", actor, words);
        assert_eq!(event["type_uid"], id, "{words}");
        assert_eq!(event["user"]["name"], user, "{words}");
        assert_eq!(event["actor"]["user"]["name"], actor);
        assert_eq!(event["src_endpoint"]["ip"], "192.0.2.7");
    }
    for (words, id) in [
        ("signed in, session 5", 300_201),
        ("sign-in refused", 300_201),
        ("session 5 ended", 300_202),
        // No failed logon: nobody tried to sign in.
        ("refused by role or from another site: POST /x", 99),
    ] {
        assert_eq!(doing("auth", "ana", words)["type_uid"], id, "{words}");
    }
}

#[test]
fn what_people_do_is_told_of_what_they_do_it_to() {
    let waits = "waits for a second person, proposal 7: user x added as admin";
    let approved = "proposal 7 of ana approved: user x added as admin";
    for (event, words, kind, name, id) in [
        ("admin", "token ci (3f) made as editor", "token", "ci", 1),
        ("admin", "token 3f removed", "token", "3f", 4),
        ("admin", "server registered: npx docs", "server", "docs", 1),
        ("admin", "server removed", "server", "docs", 4),
        ("admin", waits, "proposal", "7", 1),
        ("admin", approved, "proposal", "7", 3),
        (
            "admin",
            "two-person rule turned off",
            "appliance",
            "appliance",
            99,
        ),
        ("policy.change", "version saved", "policy", "web", 1),
        ("policy.change", "policy removed", "policy", "web", 4),
        (
            "policy.change",
            "web put in force for docs",
            "policy",
            "web",
            3,
        ),
        ("secret.change", "version 2 set", "secret", "TOKEN", 3),
    ] {
        let told = doing(event, "ana", words);
        assert_eq!(told["type_uid"], 300_400 + id, "{words}");
        assert_eq!(told["entity"]["type"], kind, "{words}");
        assert_eq!(told["entity"]["name"], name, "{words}");
        assert_eq!(told["unmapped"]["src"], "192.0.2.7:4000");
    }
}

#[test]
fn a_finding_is_new_until_somebody_looks_at_it() {
    let mut row = row("secret.misuse");
    row.verdict = Some("deny".into());
    let event = read(&row);
    assert_eq!(
        (&event["status_id"], &event["status"]),
        (&1.into(), &"New".into())
    );
    assert_eq!(event["unmapped"]["verdict"], "deny");
}

#[test]
fn a_denied_request_is_told_whole() {
    let mut row = row("request");
    row.verdict = Some("deny".into());
    row.reason = Some("path_not_allowed".into());
    row.rule = Some("egress[0]".into());
    row.policy = Some("p".into());
    row.src = Some("10.200.0.2:4000".into());
    row.host = Some("api.example.com".into());
    row.port = Some(443);
    row.protocol = Some("https".into());
    row.method = Some("POST".into());
    row.path = Some("/a\u{202e}".into());
    row.status = Some(403);
    row.tls = Some(RowTls {
        version: Some("1.3".into()),
        ..RowTls::default()
    });
    let event = read(&row);
    assert_eq!(event["time"], 1_795_253_400_123_u64);
    assert_eq!(
        (&event["activity_id"], &event["type_uid"]),
        (&6.into(), &400_206.into())
    );
    assert_eq!(
        (&event["action_id"], &event["disposition_id"]),
        (&2.into(), &2.into())
    );
    assert_eq!(event["status_detail"], "path_not_allowed");
    assert_eq!(event["src_endpoint"]["port"], 4000);
    assert_eq!(event["dst_endpoint"]["hostname"], "api.example.com");
    let url = &event["http_request"]["url"]["url_string"];
    assert_eq!(url, "https://api.example.com:443/a\u{202e}");
    assert_eq!(event["http_response"]["code"], 403);
    assert_eq!(event["firewall_rule"]["name"], "egress[0]");
    assert_eq!(event["severity_id"], 3);
    row.method = Some("BREW".into());
    let event = read(&row);
    assert_eq!(
        (&event["activity_id"], &event["activity_name"]),
        (&99.into(), &"BREW".into())
    );
}

#[test]
fn an_address_is_no_host_name_and_an_observed_denial_passed() {
    let mut row = row("connect");
    row.verdict = Some("would_deny".into());
    row.src = Some("[fd00::2]:4000".into());
    row.host = Some("2001:db8::1".into());
    let event = read(&row);
    assert_eq!(event["dst_endpoint"]["ip"], "2001:db8::1");
    assert!(event["dst_endpoint"].get("hostname").is_none());
    assert_eq!(
        (&event["action_id"], &event["disposition_id"]),
        (&1.into(), &17.into())
    );
    row.method = Some("GET".into());
    row.event = "response".into();
    assert_eq!(
        read(&row)["http_request"]["url"]["url_string"],
        "https://[2001:db8::1]/"
    );
}
