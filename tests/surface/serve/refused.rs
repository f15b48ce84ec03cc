//! What is refused says what was asked, what is wrong where, and who may.

use serde_json::{Value, json};

use super::{Appliance, Ask, Reply};

fn ask(appliance: &Appliance, token: &str, what: &str, body: &Value) -> Reply {
    let (method, path) = what.split_once(' ').expect("method and path");
    Ask::new(method, path)
        .token(token)
        .json(body)
        .send(appliance)
}

#[test]
fn a_refusal_by_role_names_the_lowest_role_that_would_do() {
    let appliance = Appliance::start();
    let viewer = appliance.token("viewer");
    let editor = appliance.token("editor");
    let check = json!({"document": "version: 1\n"});
    for (token, what, body, role, words) in [
        (
            &viewer,
            "POST /api/v1/policies/check",
            &check,
            "editor",
            "to write policies",
        ),
        (
            &viewer,
            "GET /api/v1/audit",
            &json!({}),
            "auditor",
            "to read the record",
        ),
        (
            &viewer,
            "PUT /api/v1/assignments",
            &json!({"policy": "p"}),
            "editor",
            "in force where",
        ),
        (
            &editor,
            "PUT /api/v1/secrets/TOKEN",
            &json!({"value": "x"}),
            "admin",
            "give secrets values",
        ),
        (
            &editor,
            "PUT /api/v1/teams/t",
            &json!({"members": []}),
            "admin",
            "of which team",
        ),
        (
            &editor,
            "POST /api/v1/proposals/1/approve",
            &json!({}),
            "approver",
            "decide on",
        ),
    ] {
        let refused = ask(&appliance, token, what, body);
        assert_eq!(refused.status, 403, "{what}: {refused:?}");
        let problem = refused.json();
        assert_eq!(problem["needs_role"], role, "{what}: {problem}");
        let detail = problem["detail"].as_str().expect("words");
        assert!(
            detail.contains(words) && detail.contains(&format!("takes the role {role}")),
            "{what}: {detail}"
        );
    }
}

#[test]
fn what_cannot_be_read_of_a_request_is_told_with_its_place_and_what_to_do() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let json_type = ("Content-Type", "application/json");
    for (what, body, status, words) in [
        (
            "PUT /api/v1/secrets/TOKEN",
            "{\"value\": \"3\"",
            400,
            "no JSON: line 1, column 13",
        ),
        (
            "PUT /api/v1/secrets/TOKEN",
            "{\n\"valeu\": \"x\"}",
            422,
            "line 2, column 7: unknown field `valeu`",
        ),
        (
            "GET /api/v1/audit?limit=many",
            "",
            400,
            "its query cannot be used",
        ),
        ("GET /api/v1/audit?hots=1", "", 400, "unknown field `hots`"),
        (
            "GET /api/v1/policies/p/versions/first",
            "",
            400,
            "\"first\" in its path",
        ),
        (
            "GET /api/v1/policies/%ff",
            "",
            400,
            "name in its path is not UTF-8",
        ),
    ] {
        let (method, path) = what.split_once(' ').expect("method and path");
        let ask = Ask::new(method, path).token(&token);
        let refused = ask
            .header(json_type.0, json_type.1)
            .body(body)
            .send(&appliance);
        assert_eq!(refused.status, status, "{what}: {refused:?}");
        let problem = refused.json();
        let detail = problem["detail"].as_str().expect("words");
        let (asked, _) = what.split_once('?').unwrap_or((what, ""));
        assert!(
            detail.starts_with(&format!("{asked} was not done: ")) && detail.contains(words),
            "{what}: {detail}"
        );
        assert!(!detail.contains("deserialize"), "{what}: {detail}");
        assert_eq!(problem["type"], "urn:gig:problem:invalid", "{problem}");
    }
    let text = Ask::new("PUT", "/api/v1/secrets/TOKEN")
        .token(&token)
        .body("{}");
    let text = text.header("Content-Type", "text/plain").send(&appliance);
    assert!(
        text.status == 415 && text.body.contains("Content-Type: application/json"),
        "{text:?}"
    );
}

#[test]
fn what_cannot_be_read_of_a_page_or_its_form_is_told_on_a_page() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let page = |path: &str| Ask::new("GET", path).cookie(&cookie).send(&appliance);
    let form = |path: &str, fields: &str| {
        let form = appliance.form(path, fields).cookie(&cookie);
        form.send(&appliance)
    };
    for (answer, status, words) in [
        (page("/policies/web/versions/first"), 400, "in its path"),
        (page("/policies/%ff"), 400, "is not UTF-8"),
        (page("/policies/web/remove?on=x"), 400, "after the `?`"),
        (
            form("/secrets", "name=x"),
            422,
            "form is not the one of this page",
        ),
    ] {
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(
            answer.body.contains("<!doctype html>") && answer.body.contains(words),
            "{words}: {answer:?}"
        );
        assert!(!answer.body.contains("deserialize"), "{answer:?}");
    }
}

#[test]
fn what_a_change_is_built_on_hides_no_other_fault_of_the_request() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let bad = json!({"document": "version: 1\negress:\n  - {host: '*'}\n"});
    let both = ask(&appliance, &token, "PUT /api/v1/policies/web", &bad);
    assert_eq!(both.status, 422, "{both:?}");
    let problem = both.json();
    assert_eq!(problem["problems"][0]["line"], 3, "{problem}");
    for (what, body, status, words) in [
        ("PUT /api/v1/policies/web", &bad, 422, "not a valid policy"),
        (
            "PUT /api/v1/teams/a%20b",
            &json!({"members": []}),
            422,
            "1 to 64 letters",
        ),
        (
            "PUT /api/v1/servers/web",
            &json!({"command": []}),
            422,
            "command",
        ),
        (
            "PUT /api/v1/assignments",
            &json!({"policy": "lost"}),
            404,
            "lost",
        ),
        (
            "PUT /api/v1/floors",
            &json!({"policy": "lost"}),
            404,
            "lost",
        ),
        (
            "PUT /api/v1/floors",
            &json!({"server": "a", "team": "b", "policy": "p"}),
            400,
            "not two",
        ),
    ] {
        let refused = ask(&appliance, &token, what, body);
        assert_eq!(refused.status, status, "{what}: {refused:?}");
        let detail = refused.json()["detail"].to_string();
        assert!(
            detail.contains(words) && detail.contains("If-Match"),
            "{what}: {detail}"
        );
    }
    // Where nothing else is wrong, it is what is missing.
    let good = json!({"document": "version: 1\negress: []\n"});
    let unseen = ask(&appliance, &token, "PUT /api/v1/policies/web", &good);
    assert_eq!(unseen.status, 428, "{unseen:?}");
}
