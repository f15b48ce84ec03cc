//! Secrets by console and API: values go in, never come out, and every change is recorded; and what an
//! admin sees of the machine.

use serde_json::{Value, json};

use super::{Appliance, Ask, Reply};

const FIRST: &str = "value-of-the-desk-3Kd8";
const SECOND: &str = "another-of-the-desk-9Vw1";

fn ask(appliance: &Appliance, token: &str, method: &str, path: &str, body: &Value) -> Reply {
    let ask = Ask::new(method, path).token(token).json(body);
    ask.send(appliance)
}

/// Neither value is anywhere that somebody reads.
fn assert_nowhere(appliance: &Appliance) {
    let pages = [
        "/secrets",
        "/secrets/TOKEN",
        "/audit",
        "/api/v1/audit",
        "/api/v1/audit/export/jsonl",
    ];
    let cookie = appliance.first_admin();
    for page in pages {
        let shown = Ask::new("GET", page).cookie(&cookie).send(appliance);
        assert_eq!(shown.status, 200, "{page}: {shown:?}");
        for value in [FIRST, SECOND] {
            assert!(!shown.body.contains(value), "{page}");
        }
    }
    let log = appliance.said();
    assert!(!log.contains(FIRST) && !log.contains(SECOND), "{log}");
}

#[test]
fn a_secret_is_kept_rotated_and_removed_and_its_value_never_comes_out() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let path = "/api/v1/secrets/TOKEN";
    let empty = ask(&appliance, &token, "GET", "/api/v1/secrets", &json!({}));
    assert_eq!(empty.json()["items"], json!([]));
    assert!(!appliance.path("master.key").exists(), "looking made a key");
    let rotate = format!("{path}/rotate");
    let early = ask(
        &appliance,
        &token,
        "POST",
        &rotate,
        &json!({"value": FIRST}),
    );
    assert_eq!(early.status, 404, "{early:?}");

    let made = ask(
        &appliance,
        &token,
        "PUT",
        path,
        &json!({"value": FIRST, "days": 30}),
    );
    assert_eq!(
        (made.status, &made.json()["version"]),
        (201, &json!(1)),
        "{made:?}"
    );
    let twice = ask(&appliance, &token, "PUT", path, &json!({"value": SECOND}));
    assert_eq!(twice.status, 409, "{twice:?}");
    let body = json!({"value": SECOND, "grace_hours": 1});
    let rotated = ask(&appliance, &token, "POST", &rotate, &body);
    assert_eq!(
        (rotated.status, &rotated.json()["version"]),
        (200, &json!(2)),
        "{rotated:?}"
    );
    let both = ask(&appliance, &token, "GET", path, &json!({})).json();
    assert_eq!(both["version"], 2, "{both}");
    assert_eq!(both["versions"][1]["state"], "grace", "{both}");

    let ended = ask(
        &appliance,
        &token,
        "DELETE",
        &format!("{path}?version=1"),
        &json!({}),
    );
    assert_eq!(ended.status, 204, "{ended:?}");
    let ended = ask(&appliance, &token, "DELETE", path, &json!({}));
    assert_eq!(ended.status, 204, "{ended:?}");
    let gone = ask(&appliance, &token, "GET", path, &json!({})).json();
    assert!(gone["removed"].is_string(), "{gone}");

    let records = appliance.records(&token, "event=secret.change&secret=TOKEN");
    let said: Vec<String> = records
        .iter()
        .map(|one| one["findings"][0].to_string())
        .collect();
    let want = [
        "revoke",
        "revoke version 1",
        "rotate version 2",
        "set version 1",
    ];
    assert_eq!(said.len(), 4, "{said:?}");
    for (said, want) in said.iter().zip(want) {
        assert!(said.contains(want), "{said} is not {want}");
    }
    let who = records[0]["profile"].as_str().expect("who");
    assert!(who.starts_with("token for-admin"), "{who}");
    assert_nowhere(&appliance);
}

#[test]
fn secrets_are_listed_with_where_they_may_go_and_unusable_ones_are_refused() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let path = "/api/v1/secrets/TOKEN";
    let document =
        "version: 1\negress:\n  - {host: api.example, ports: [443], secrets: [TOKEN, LOST]}\n";
    let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
    let put = put.header("If-None-Match", "*");
    let put = put.json(&json!({"document": document})).send(&appliance);
    assert_eq!(put.status, 200, "{put:?}");

    let made = ask(&appliance, &token, "PUT", path, &json!({"value": FIRST}));
    assert_eq!(made.status, 201, "{made:?}");
    for (body, status) in [
        (json!({"value": ""}), 422),
        (json!({"value": SECOND, "kind": "odd"}), 422),
        (json!({"value": SECOND, "hots": 1}), 422),
        (json!({}), 422),
    ] {
        let refused = ask(&appliance, &token, "PUT", "/api/v1/secrets/OTHER", &body);
        assert_eq!(refused.status, status, "{body}: {refused:?}");
    }
    let named = ask(
        &appliance,
        &token,
        "PUT",
        "/api/v1/secrets/a%20b",
        &json!({"value": SECOND}),
    );
    assert_eq!(named.status, 422, "{named:?}");

    let listed = ask(&appliance, &token, "GET", "/api/v1/secrets", &json!({})).json();
    let one = &listed["items"][1];
    assert_eq!(one["name"], "TOKEN", "{listed}");
    assert_eq!(
        (&one["version"], &one["set"]),
        (&json!(1), &json!(true)),
        "{listed}"
    );
    assert_eq!(one["places"][0]["target"], "api.example:443", "{listed}");
    // A name that a policy uses, and nobody set.
    assert_eq!(listed["items"][0]["name"], "LOST", "{listed}");
    assert_eq!(listed["items"][0]["set"], false, "{listed}");
}

#[test]
fn only_an_admin_changes_secrets_or_examines_the_machine() {
    let appliance = Appliance::start();
    let admin = appliance.token("admin");
    let path = "/api/v1/secrets/TOKEN";
    let made = ask(&appliance, &admin, "PUT", path, &json!({"value": FIRST}));
    assert_eq!(made.status, 201, "{made:?}");
    for role in ["viewer", "auditor", "editor", "approver"] {
        let token = appliance.token(role);
        let rotate = format!("{path}/rotate");
        for (method, path) in [("PUT", path), ("POST", &rotate), ("DELETE", path)] {
            let refused = ask(&appliance, &token, method, path, &json!({"value": SECOND}));
            assert_eq!(refused.status, 403, "{role} {method}: {refused:?}");
        }
        let looked = ask(&appliance, &token, "GET", path, &json!({}));
        assert_eq!(looked.status, 200, "{looked:?}");
        let page = Ask::new("GET", "/secrets/TOKEN")
            .token(&token)
            .send(&appliance);
        assert!(!page.body.contains("Rotate"), "{role}: {page:?}");
        for method in ["GET", "POST"] {
            let refused = Ask::new(method, "/settings").token(&token).send(&appliance);
            assert_eq!(refused.status, 403, "{role}: {refused:?}");
        }
    }
    let kept = ask(&appliance, &admin, "GET", path, &json!({})).json();
    assert_eq!(kept["version"], 1, "{kept}");
    let cookie = appliance.first_admin();
    // Nor does another site by an admin's session.
    let foreign = Ask::new("POST", "/secrets/TOKEN").cookie(&cookie);
    let foreign = foreign
        .header("Origin", "http://evil.example")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body("act=remove");
    assert_eq!(foreign.send(&appliance).status, 403);
    let kept = ask(&appliance, &admin, "GET", path, &json!({})).json();
    assert!(kept["removed"].is_null(), "{kept}");
}

#[test]
fn the_doctor_examines_the_host_from_the_console() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let shown = Ask::new("GET", "/settings")
        .cookie(&cookie)
        .send(&appliance);
    assert_eq!(shown.status, 200, "{shown:?}");
    for part in [
        "Data directory",
        match appliance.database {
            Some(_) => "PostgreSQL",
            None => "record.db",
        },
        "Examine this host",
        env!("CARGO_PKG_VERSION"),
    ] {
        assert!(shown.body.contains(part), "no {part}: {}", shown.body);
    }
    let examined = appliance.form("/settings", "").cookie(&cookie);
    let examined = examined.send(&appliance);
    assert_eq!(examined.status, 200, "{examined:?}");
    for part in ["user namespaces", "roots for origins", "memory for secrets"] {
        assert!(examined.body.contains(part), "no {part}: {}", examined.body);
    }
}
