//! The API takes what its document says and nothing else: bodies, conditions, and events that go on where they broke off.

use serde_json::{Value, json};

use super::furnished::{Answer, Ask, Furnished};
use crate::{role::Role, store::Store as _};

struct Asking<'a>(&'a Furnished, String);

impl Asking<'_> {
    async fn of(&self, what: &str, field: Option<(&str, &str)>, body: &Value) -> Answer {
        let body = body.to_string();
        let ask = Ask {
            token: &self.1,
            body: Some(&body)
                .filter(|body| *body != "null")
                .map(String::as_str),
            field,
            ..Ask::of(what)
        };
        self.0.ask(ask).await
    }
}

fn admin(appliance: &Furnished) -> Asking<'_> {
    Asking(appliance, appliance.token("dan", Role::Admin, ("", "")))
}

#[tokio::test]
async fn no_list_stands_for_an_object_and_no_object_for_a_word() {
    let appliance = Furnished::new().await;
    let admin = admin(&appliance);
    for (what, body) in [
        ("POST /api/v1/tokens", json!(["seq", "admin", 1, [], []])),
        (
            "POST /api/v1/tokens",
            json!({"name": "q1", "role": {"admin": null}}),
        ),
        (
            "POST /api/v1/users",
            json!(["zed", "viewer", "correct horse battery"]),
        ),
        ("POST /api/v1/audit/{record}/allow", json!(["hour", "host"])),
        ("POST /api/v1/held/h1/allow", json!(["ever", "host"])),
        ("PUT /api/v1/two-person-rule", json!([false])),
    ] {
        let refused = admin.of(what, None, &body).await;
        assert_eq!(refused.status, 422, "{what} {body}: {refused:?}");
        let detail = refused.json()["detail"].to_string();
        assert!(
            detail.contains("expected an object") || detail.contains("expected a word"),
            "{what}: {detail}"
        );
    }
    let kept = appliance.lab.store.policy("p", None).unwrap().unwrap();
    assert_eq!(kept.head.version, 2, "nothing was written");
}

#[tokio::test]
async fn what_is_asked_on_a_condition_that_does_not_hold_is_not_done() {
    let appliance = Furnished::new().await;
    let admin = admin(&appliance);
    let stale = Some(("if-match", "\"stale\""));
    let new = Some(("if-none-match", "*"));
    let webhook = json!({"kind": "generic"});
    for (what, field, body) in [
        ("DELETE /api/v1/servers/idle", stale, Value::Null),
        ("DELETE /api/v1/users/ben", stale, Value::Null),
        ("DELETE /api/v1/webhooks/ops", stale, Value::Null),
        ("PUT /api/v1/webhooks/ops", stale, webhook.clone()),
        (
            "PUT /api/v1/webhooks/none",
            Some(("if-match", "*")),
            webhook.clone(),
        ),
        ("PUT /api/v1/webhooks/ops", new, webhook.clone()),
        ("DELETE /api/v1/secrets/MAIL_TOKEN", stale, Value::Null),
        ("PATCH /api/v1/users/ben", stale, json!({"role": "viewer"})),
        ("PUT /api/v1/two-person-rule", new, json!({"on": true})),
    ] {
        let refused = admin.of(what, field, &body).await;
        assert_eq!(refused.status, 412, "{what} {field:?}: {refused:?}");
    }
    // As long as it holds it is done.
    let server = admin
        .of("GET /api/v1/servers/idle", None, &Value::Null)
        .await;
    let tag = server.headers["etag"].to_str().unwrap().to_owned();
    for (what, field, body) in [
        ("PUT /api/v1/webhooks/fresh", new, webhook),
        (
            "PATCH /api/v1/users/ben",
            Some(("if-match", "*")),
            json!({"role": "viewer"}),
        ),
        (
            "DELETE /api/v1/servers/idle",
            Some(("if-match", tag.as_str())),
            Value::Null,
        ),
    ] {
        let done = admin.of(what, field, &body).await;
        assert!(matches!(done.status, 200..=204), "{what}: {done:?}");
    }
}

#[tokio::test]
async fn a_key_makes_no_operation_of_what_is_none() {
    let appliance = Furnished::new().await;
    let admin = admin(&appliance);
    for key in ["x", "\"4b9c6a1e-8f0d-4a53-9c57-1f6f6ad0a111\""] {
        let field = Some(("idempotency-key", key));
        for (what, status) in [("PUT /api/v1/users", 405), ("PUT /api/v1/nonexist", 404)] {
            let answer = admin.of(what, field, &json!({})).await;
            assert_eq!(answer.status, status, "{what} {key}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn what_is_refused_is_refused_whatever_is_known_and_said_as_it_is() {
    let appliance = Furnished::new().await;
    let admin = admin(&appliance);
    let known = Some(("if-none-match", "*"));
    for what in [
        "GET /api/v1/assignments?limit=0",
        "GET /api/v1/floors?cursor=%00",
    ] {
        let refused = admin.of(what, known, &Value::Null).await;
        assert_eq!(refused.status, 400, "{what}: {refused:?}");
    }
    let gone = admin
        .of(
            "DELETE /api/v1/policies/nosuch",
            Some(("if-match", "*")),
            &Value::Null,
        )
        .await;
    assert_eq!(gone.status, 412, "{gone:?}");
    assert!(gone.body.contains("there is no policy nosuch"), "{gone:?}");
    let document = json!({"document": "version: 1\negress: []\n", "days": 1});
    let named = admin
        .of("POST /api/v1/policies/%C2%84/simulate", None, &document)
        .await;
    assert!(matches!(named.status, 400 | 422), "{named:?}");
    for (what, status) in [
        // Done as if nothing was said it would answer another question.
        ("GET /api/v1/held?limit=1", 400),
        ("GET /api/v1/nodes?nope=1", 400),
        ("GET /api/v1/policies/p?version=1", 400),
        ("GET /api/v1/held?", 200),
        ("GET /api/v1/policies/nosuch/versions?cursor=5", 404),
        ("GET /api/v1/policies/nosuch/versions", 404),
        ("GET /api/v1/policies/p/versions?cursor=1", 200),
    ] {
        let answer = admin.of(what, None, &Value::Null).await;
        assert_eq!(answer.status, status, "{what}: {answer:?}");
    }
    let reason = json!({"document": "version: 1\negress: []\n", "reason": "a\u{0}b\u{1b}[31m"});
    let unseen = admin
        .of(
            "PUT /api/v1/policies/esc",
            Some(("if-none-match", "*")),
            &reason,
        )
        .await;
    assert_eq!(unseen.status, 400, "{unseen:?}");
    assert!(unseen.body.contains("no control characters"), "{unseen:?}");
    // A word of a list, and JSON that is none of what is taken.
    let body = json!({"name": "q", "role": ["admin"]});
    let refused = admin.of("POST /api/v1/tokens", None, &body).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(!refused.body.contains("no JSON"), "{refused:?}");
    let log = admin
        .of("GET /api/v1/servers/docs/log?since=7d", None, &Value::Null)
        .await;
    assert_eq!(log.status, 200, "{log:?}");
}
