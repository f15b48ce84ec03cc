//! Every class has what the schema requires, whatever a record lacks.

use super::*;
use crate::{deed::Deed, row::RowTls};

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
    schema::check(event);
    let class = event["class_uid"].as_u64().unwrap();
    let activity = event["activity_id"].as_u64().unwrap();
    assert_eq!(event["type_uid"], class * 100 + activity, "{event}");
    assert_eq!(event["category_uid"], class / 1000, "{event}");
    assert_eq!(event["metadata"]["version"], "1.3.0");
    assert_eq!(event["metadata"]["product"]["vendor_name"], "gig");
    assert!(!event.to_string().contains(":null"), "{event}");
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
        ("secret.use", 4002),
        ("secret.misuse", 2004),
        ("finding", 2004),
        ("audit.gap", 2004),
        ("policy.change", 3004),
        ("secret.change", 3004),
        ("auth", 6003),
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

#[test]
fn denials_that_are_folded_are_many_and_have_no_url() {
    let mut row = row("request");
    row.verdict = Some("deny".into());
    row.sandbox = Some("5f1e".into());
    row.findings = vec!["folded:4000".into(), "host:a.example".into()];
    let event = read(&row);
    assert_eq!(event["class_uid"], 4001);
    assert_eq!(event["count"], 4000);
    assert!(!event.to_string().contains("http"), "{event}");
}

/// What `actor` did to `subject`.
fn doing(event: &str, actor: &str, deed: Deed, subject: &str) -> Value {
    let mut row = row(event);
    row.profile = Some(actor.into());
    row.verdict = Some("allow".into());
    row.src = Some("192.0.2.7:4000".into());
    row.deed = Some(deed.as_str().into());
    row.subject = Some(subject.into());
    row.policy_version = Some(1);
    // Whatever the words are.
    row.findings = vec!["user mallory removed".into(), "why: because".into()];
    read(&row)
}

#[test]
fn every_deed_under_every_event_and_verdict_is_what_the_schema_says() {
    for deed in Deed::ALL {
        for event in ["auth", "admin", "policy.change", "secret.change"] {
            for verdict in [None, Some("allow"), Some("deny")] {
                let mut row = row(event);
                row.deed = Some(deed.as_str().into());
                row.verdict = verdict.map(Into::into);
                let bare = read(&row);
                row.subject = Some("x".into());
                row.src = Some("[::1]:4000".into());
                row.profile = Some("ana".into());
                let told = read(&row);
                assert_eq!(told["type_uid"], bare["type_uid"], "{deed}");
                assert_eq!(told["unmapped"]["deed"], deed.as_str());
                let is_refusal = *deed == Deed::Refused;
                assert_eq!(told["class_uid"] == 6003, is_refusal, "{deed}");
            }
        }
        assert_eq!(Deed::of_word(deed.as_str()), Some(*deed));
    }
    let mut later = row("admin");
    later.deed = Some("quantum.leap".into());
    assert_eq!(read(&later)["type_uid"], 300_499);
}

#[test]
fn what_people_do_is_told_of_whom_they_do_it_to() {
    for (deed, id) in [
        (Deed::UserAdd, 300_101),
        (Deed::FactorSet, 300_110),
        (Deed::FactorRemove, 300_111),
        (Deed::UserRole, 300_199),
        (Deed::UserRemove, 300_106),
        (Deed::PasswordReset, 300_104),
        (Deed::PasswordChange, 300_103),
        (Deed::SetupDone, 300_101),
    ] {
        let event = doing("admin", "ana", deed, "ben");
        assert_eq!(event["type_uid"], id, "{deed}");
        assert_eq!(event["user"]["name"], "ben", "{deed}");
        assert_eq!(event["actor"]["user"]["name"], "ana");
        assert_eq!(event["src_endpoint"]["ip"], "192.0.2.7");
    }
    for (deed, id) in [
        (Deed::SignIn, 300_201),
        (Deed::SignOn, 300_201),
        (Deed::SignInRefused, 300_201),
        (Deed::SessionEnd, 300_202),
        // No failed logon: nobody tried to sign in.
        (Deed::Refused, 600_399),
    ] {
        assert_eq!(doing("auth", "ana", deed, "5")["type_uid"], id, "{deed}");
    }
}

#[test]
fn what_people_do_is_told_of_what_they_do_it_to() {
    for (event, deed, kind, id) in [
        ("admin", Deed::TokenAdd, "token", 1),
        ("admin", Deed::TokenRemove, "token", 4),
        ("admin", Deed::ServerAdd, "server", 1),
        ("admin", Deed::ServerSave, "server", 3),
        ("admin", Deed::ProposalAdd, "proposal", 1),
        ("admin", Deed::ProposalDecide, "proposal", 3),
        ("admin", Deed::TwoPersonOff, "two-person rule", 9),
        ("admin", Deed::BackupMake, "backup", 1),
        ("admin", Deed::RecordExport, "record", 2),
        ("policy.change", Deed::PolicyAdd, "policy", 1),
        ("policy.change", Deed::PolicyRemove, "policy", 4),
        ("policy.change", Deed::PolicyAssign, "assignment", 10),
        ("policy.change", Deed::FloorSet, "floor", 10),
        ("policy.change", Deed::TeamAdd, "team", 1),
        ("secret.change", Deed::SecretSet, "secret", 1),
        ("secret.change", Deed::SecretRotate, "secret", 3),
        ("secret.change", Deed::SecretRemove, "secret", 4),
    ] {
        let told = doing(event, "ana", deed, "it");
        assert_eq!(told["type_uid"], 300_400 + id, "{deed}");
        assert_eq!(told["entity"]["type"], kind, "{deed}");
        assert_eq!(told["entity"]["name"], "it", "{deed}");
        assert_eq!(told["actor"]["user"]["name"], "ana", "{deed}");
        assert_eq!(told["unmapped"]["src"], "192.0.2.7:4000");
    }
}

#[test]
fn a_refusal_says_who_asked_for_what_from_where() {
    for (route, id) in [
        ("GET /api/v1/users", 600_302),
        ("POST /api/v1/users", 600_301),
        ("PUT /api/v1/policies/{name}", 600_303),
        ("DELETE /api/v1/users/{name}", 600_304),
        ("somewhere", 600_399),
    ] {
        let mut row = row("auth");
        row.deed = Some(Deed::Refused.as_str().into());
        row.subject = Some(route.into());
        row.profile = Some("ana".into());
        row.verdict = Some("deny".into());
        row.src = Some("192.0.2.7:4000".into());
        let event = read(&row);
        assert_eq!(event["type_uid"], id, "{route}");
        assert_eq!(event["api"]["operation"], route);
        assert_eq!(event["actor"]["user"]["name"], "ana");
        assert_eq!(event["src_endpoint"]["ip"], "192.0.2.7");
        assert_eq!(event["status"], "Failure");
        row.src = None;
        assert_eq!(read(&row)["src_endpoint"]["name"], "unknown");
    }
}

#[test]
fn what_was_allowed_and_came_to_nothing_is_a_failure() {
    let mut row = row("response");
    row.verdict = Some("allow".into());
    row.src = Some("10.200.0.2:4000".into());
    let whole = read(&row);
    assert_eq!(
        (&whole["status"], &whole["activity_name"]),
        (&"Success".into(), &"Close".into())
    );
    row.reason = Some("connection_refused".into());
    let opaque = read(&row);
    assert_eq!(
        (&opaque["status"], &opaque["activity_name"]),
        (&"Failure".into(), &"Fail".into())
    );
    row.method = Some("GET".into());
    row.host = Some("a.example".into());
    row.status = Some(502);
    row.reason = Some("name_not_resolved".into());
    let asked = read(&row);
    assert_eq!(asked["status"], "Failure");
    assert_eq!(asked["status_detail"], "name_not_resolved");
    assert_eq!(asked["action"], "Allowed");
    // Under a policy that observes the reason is why it would have been denied.
    row.verdict = Some("would_deny".into());
    row.reason = Some("host_not_allowed".into());
    assert_eq!(read(&row)["status"], "Success");
    // Or why it came to nothing, though it was let pass.
    for reason in ["name_not_resolved", "request_incomplete"] {
        row.reason = Some(reason.into());
        let failed = read(&row);
        assert_eq!(failed["status"], "Failure", "{reason}");
        assert_eq!(
            (&failed["action"], &failed["disposition"]),
            (&"Allowed".into(), &"Logged".into())
        );
    }
    row.method = None;
    assert_eq!(read(&row)["activity_name"], "Fail");
}

#[test]
fn what_decided_is_told_where_the_class_has_no_place_for_it() {
    for event in [
        "sandbox.start",
        "finding",
        "policy.change",
        "auth",
        "dns",
        "connect",
    ] {
        let mut row = row(event);
        row.src = Some("10.200.0.2:4000".into());
        row.policy = Some("p".into());
        row.rule = Some("egress[1]".into());
        row.conn = Some(7);
        let told = read(&row);
        let unmapped = &told["unmapped"];
        if told["class_uid"].as_u64().unwrap() / 1000 == 4 {
            assert_eq!(told["firewall_rule"]["name"], "egress[1]");
            assert!(unmapped.get("policy").is_none(), "{told}");
        } else {
            assert_eq!(unmapped["policy"], "p", "{told}");
            assert_eq!(unmapped["rule"], "egress[1]", "{told}");
        }
        let conn = &told["connection_info"]["uid"];
        assert!(unmapped["conn"] == 7 || *conn == "7", "{told}");
    }
}

#[test]
fn a_request_that_waits_for_a_person_is_no_alarm() {
    let mut row = row("finding");
    row.findings = vec!["held".into()];
    let waits = read(&row);
    assert_eq!(waits["severity"], "Low");
    assert_eq!(
        waits["finding_info"]["title"],
        "A request waits for a person"
    );
    row.verdict = Some("deny".into());
    row.findings = vec!["network namespace changed: a route".into()];
    let alarm = read(&row);
    assert_eq!(alarm["severity"], "High");
    assert_eq!(
        alarm["finding_info"]["title"],
        "Something was found and stopped"
    );
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

#[test]
fn what_the_name_server_answered_is_told_and_nothing_where_it_did_not() {
    let said = |verdict: &str, reason: Option<&str>, finding: Option<&str>| {
        let one = read(&Row {
            verdict: Some(verdict.into()),
            reason: reason.map(Into::into),
            findings: finding.map(Into::into).into_iter().collect(),
            host: finding.is_none().then(|| "a.example".into()),
            sandbox: Some("0193".into()),
            ..row("dns")
        });
        (one["rcode"].clone(), one["query"]["hostname"].clone())
    };
    let asked = json!("a.example");
    for (reason, code) in [
        ("host_not_allowed", "NXDomain"),
        ("malformed_name", "NXDomain"),
        ("unsupported_protocol", "Refused"),
        ("record_unavailable", "ServError"),
    ] {
        assert_eq!(
            said("deny", Some(reason), None),
            (json!(code), asked.clone()),
            "{reason}"
        );
    }
    assert_eq!(said("allow", None, None), (json!("NoError"), asked.clone()));
    let would = said("would_deny", Some("host_not_allowed"), None);
    assert_eq!(would, (json!("NoError"), asked));
    let dropped = said("deny", Some("request_rate"), Some("dropped:40"));
    assert_eq!(dropped, (Value::Null, Value::Null));
}
