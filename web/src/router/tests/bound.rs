//! Who lets a secret go where it did not go before.

use serde_json::json;

use super::furnished::{Ask, Furnished};
use crate::{role::Role, store::Store as _};

/// Saves policy `p`, whatever it is now.
async fn save(appliance: &Furnished, token: &str, entries: &[&str]) -> (u16, String) {
    let entries: String = entries.iter().map(|one| format!("  - {one}\n")).collect();
    // As the console begins each document.
    let body = json!({"document": format!("version: 1\nname: p\negress:\n{entries}")}).to_string();
    let ask = Ask {
        token,
        body: Some(&body),
        field: Some(("if-match", "*")),
        ..Ask::of("PUT /api/v1/policies/p")
    };
    let answer = appliance.ask(ask).await;
    (answer.status, answer.body)
}

const HOST: &str = "{host: api.example.com, ports: [443]}";
const BOUND: &str = "{host: api.example.com, ports: [443], secrets: [MAIL_TOKEN]}";
const BESIDE: &str = "{host: api.example.com, ports: [443], secrets: [MAIL_TOKEN], rules: [{methods: [GET], paths: [/user]}]}";
const ELSEWHERE: &str = "{host: collect.evil.example, ports: [443], secrets: [MAIL_TOKEN]}";

#[tokio::test]
async fn an_editor_lets_a_secret_go_nowhere_new() {
    let appliance = Furnished::new().await;
    let editor = appliance.token("dan", Role::Editor, ("", ""));
    let writes = appliance.token("dan", Role::Admin, ("read policies:write", ""));
    for token in [&editor, &writes] {
        for fresh in [BOUND, ELSEWHERE] {
            let (status, body) = save(&appliance, token, &[fresh]).await;
            assert_eq!(status, 403, "{body}");
            assert!(body.contains("MAIL_TOKEN"), "{body}");
        }
        assert_eq!(save(&appliance, token, &[HOST]).await.0, 200);
    }
    let admin = appliance.token("dan", Role::Admin, ("", ""));
    assert_eq!(save(&appliance, &admin, &[BOUND]).await.0, 200);
    // Beside what somebody bound an editor goes on.
    for known in [
        vec![BOUND],
        vec![BESIDE],
        vec![BOUND, "{host: b.example, ports: [443]}"],
    ] {
        let (status, body) = save(&appliance, &editor, &known).await;
        assert_eq!(status, 200, "{body}");
    }
    assert_eq!(save(&appliance, &editor, &[BOUND, ELSEWHERE]).await.0, 403);
    // Nor back to a version that bound it, once none does.
    assert_eq!(save(&appliance, &editor, &[HOST]).await.0, 200);
    let version = appliance
        .lab
        .store
        .policy("p", None)
        .unwrap()
        .unwrap()
        .head
        .version;
    let back = format!("{{\"version\": {}}}", version - 1);
    let ask = Ask {
        token: &editor,
        body: Some(&back),
        field: Some(("if-match", "*")),
        ..Ask::of("POST /api/v1/policies/p/rollback")
    };
    let answer = appliance.ask(ask).await;
    assert_eq!(answer.status, 403, "{answer:?}");
}

#[tokio::test]
async fn an_editor_narrows_where_a_secret_goes_and_neither_opens_nor_prolongs_it() {
    let appliance = Furnished::new().await;
    let editor = appliance.token("dan", Role::Editor, ("", ""));
    let admin = appliance.token("dan", Role::Admin, ("", ""));
    let bound = |entry: &str| format!("{{{entry}, secrets: [MAIL_TOKEN]}}");
    for (known, wanted, status) in [
        (
            "host: \"*.example.com\", ports: [443]",
            "host: api.example.com, ports: [443]",
            200,
        ),
        (
            "host: api.example.com, ports: [443]",
            "host: \"*.example.com\", ports: [443]",
            403,
        ),
        // By default a secret goes over TLS alone.
        (
            "host: api.example.com",
            "host: api.example.com, protocol: http",
            403,
        ),
        // What has ended lets nothing go, and what ends is not made to last.
        (
            "host: api.example.com, expires: 2020-01-01T00:00:00Z",
            "host: api.example.com, ports: [443]",
            403,
        ),
        (
            "host: api.example.com, expires: 2099-01-01T00:00:00Z",
            "host: api.example.com, ports: [443]",
            403,
        ),
        (
            "host: api.example.com, expires: 2099-01-01T00:00:00Z",
            "host: api.example.com, expires: 2098-01-01T00:00:00Z",
            200,
        ),
    ] {
        let (made, body) = save(&appliance, &admin, &[&bound(known)]).await;
        assert_eq!(made, 200, "{known}: {body}");
        let (got, body) = save(&appliance, &editor, &[&bound(wanted)]).await;
        assert_eq!(got, status, "{known} then {wanted}: {body}");
    }
}

#[tokio::test]
async fn under_the_two_person_rule_somebody_else_sees_where_a_secret_would_go() {
    let appliance = Furnished::ruled().await;
    let editor = appliance.token("dan", Role::Editor, ("", ""));
    let (status, body) = save(&appliance, &editor, &[ELSEWHERE]).await;
    assert_eq!(status, 202, "{body}");
}
