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
fn assert_nowhere(appliance: &Appliance, cookie: &str) {
    let pages = [
        "/secrets",
        "/secrets/TOKEN",
        "/audit",
        "/api/v1/audit",
        "/api/v1/audit/export/jsonl",
    ];
    for page in pages {
        let shown = Ask::new("GET", page).cookie(cookie).send(appliance);
        assert_eq!(shown.status, 200, "{page}: {shown:?}");
        // A line of the record's page names no secret; all others tell of it.
        let told = shown.body.contains("TOKEN");
        assert!(told || page == "/audit", "{page}: {shown:?}");
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
    // While both are there and used.
    let cookie = appliance.first_admin();
    assert_nowhere(&appliance, &cookie);

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
    assert_nowhere(&appliance, &cookie);
}

#[test]
fn every_kind_of_secret_is_set_by_api_as_by_command() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/examples/secrets");
    let key = "AKIAQ3EGUIDTRPW7BZ5L:vN9wXk2+RqLr/7TbYcE4uHsZ0dGmPfJ1aKoI5xQe";
    let kinds = [
        ("aws", key),
        ("basic", "deployment:hunter2hunter2"),
        ("hmac", FIRST),
        ("oauth2-client-credentials", FIRST),
        ("oauth2-refresh-token", FIRST),
    ];
    for (number, (kind, value)) in kinds.into_iter().enumerate() {
        let file = format!("{examples}/{kind}.yaml");
        let (command, api) = (format!("COMMAND_{number}"), format!("API_{number}"));
        let set = appliance.gig(&["secret", "set", &command, "--definition", &file], value);
        assert_eq!(set.status, 0, "{kind}: {set:?}");
        let definition = std::fs::read_to_string(&file).expect("an example");
        let body = json!({"value": value, "definition": definition});
        let path = |name: &str| format!("/api/v1/secrets/{name}");
        let made = ask(&appliance, &token, "PUT", &path(&api), &body);
        assert_eq!(made.status, 201, "{kind}: {made:?}");
        let told = |name: &str| {
            let one = ask(&appliance, &token, "GET", &path(name), &json!({})).json();
            let told = [
                "kind",
                "provider",
                "entrusted",
                "hands_out",
                "version",
                "services",
            ];
            told.map(|field| one[field].clone())
        };
        assert_eq!(told(&api), told(&command), "{kind}");
        assert_eq!(told(&api)[0], kind.replace('-', "_"));
        // Whom gig itself asks is told wherever it is listed.
        let asks = definition
            .lines()
            .find_map(|line| line.trim().strip_prefix("token_url: "));
        let asks: Vec<&str> = asks.into_iter().collect();
        assert_eq!(told(&api)[5], json!(asks), "{kind}");
        let listed = appliance.gig(&["secret", "ls"], "");
        assert!(
            asks.iter()
                .all(|url| listed.output.contains(&format!("gig asks {url}"))),
            "{listed:?}"
        );
    }
}

#[test]
fn a_definition_that_is_none_or_names_gigs_own_machine_is_refused_and_nothing_is_set() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let path = "/api/v1/secrets/OTHER";
    for (body, words) in [
        (
            json!({"definition": "kind: {aws: {}}\n"}),
            "not usable as aws",
        ),
        (
            json!({"definition": "kind: static\nkynd: 1\n"}),
            "line 2, column 1",
        ),
        (
            json!({"definition": "", "kind": "basic"}),
            "say one of them",
        ),
        (
            json!({"definition": "provider: {command: {program: /bin/true}}\n"}),
            "provider command",
        ),
        (
            json!({"definition": "provider: {environment: {variable: GIG_MASTER_KEY}}\n"}),
            "provider environment",
        ),
        (
            json!({"definition": "provider: {file: {path: /etc/shadow}}\n"}),
            "provider file",
        ),
        (
            json!({"definition": "shape: {like: {prefix: k-, length: 4}}\n"}),
            "could be guessed",
        ),
        (json!({"kind": "odd"}), "kind \"odd\""),
    ] {
        let mut asked = body.clone();
        asked["value"] = FIRST.into();
        let refused = ask(&appliance, &token, "PUT", path, &asked);
        assert_eq!(refused.status, 422, "{body}: {refused:?}");
        let detail = refused.json()["detail"].to_string().replace("\\\"", "\"");
        assert!(detail.contains(words), "{body}: {detail}");
        // A value that was pasted in the wrong place is not told again.
        assert!(!detail.contains("kynd: 1"), "{body}: {detail}");
    }
    let none = ask(&appliance, &token, "GET", path, &json!({}));
    assert_eq!(none.status, 404, "{none:?}");
}

#[test]
fn the_consoles_form_keeps_what_its_definition_says() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let cookie = appliance.first_admin();
    let form = |fields: &str| {
        appliance
            .form("/secrets", fields)
            .cookie(&cookie)
            .send(&appliance)
    };
    let sent = form(&format!(
        "name=TOKEN&kind=defined&value=&lines={FIRST}&definition=kind:%20%7Boauth2_refresh_token:%20%7Bendpoint:%20%7Btoken_url:%20https://a.example/t%7D,%0D%0A\
         client:%20%7Bclient_id:%20notes,%20authentication:%20none%7D%7D%7D"
    ));
    assert_eq!(sent.status, 303, "{sent:?}");
    let one = ask(
        &appliance,
        &token,
        "GET",
        "/api/v1/secrets/TOKEN",
        &json!({}),
    )
    .json();
    assert_eq!(one["kind"], "oauth2_refresh_token", "{one}");
    let sent = form(&format!(
        "name=OTHER&kind=static&value={FIRST}&definition=kind:%20basic"
    ));
    assert!(
        sent.status == 422 && sent.body.contains("leave one of them out"),
        "{sent:?}"
    );
    assert_nowhere(&appliance, &cookie);
}

/// Of a secret whose tokens come from there.
fn endpoint(url: &str) -> String {
    format!(
        "kind: {{oauth2_client_credentials: {{endpoint: {{token_url: '{url}'}}, \
         client: {{client_id: reporting, authentication: client_secret_basic}}}}}}"
    )
}

#[test]
fn a_value_that_is_too_short_to_be_looked_for_and_a_service_in_clear_text_are_told_by_the_api() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    for (name, body, says) in [
        ("SHORT", json!({"value": "short"}), Some("has 5 octets")),
        (
            "PAIR",
            json!({"value": "somebody:pw", "kind": "basic"}),
            Some("has 2 octets"),
        ),
        ("LONG", json!({"value": FIRST}), None),
        // Whom gig asks where everybody on the way reads, and this machine alone does not.
        (
            "OPEN",
            json!({"value": FIRST, "definition": endpoint("http://auth.example/token")}),
            Some("gig asks http://auth.example/token in clear text"),
        ),
        (
            "OWN",
            json!({"value": FIRST, "definition": endpoint("http://127.0.0.1:9/token")}),
            None,
        ),
    ] {
        let path = format!("/api/v1/secrets/{name}");
        let made = ask(&appliance, &token, "PUT", &path, &body);
        assert_eq!(made.status, 201, "{made:?}");
        let warnings = made.json()["warnings"].clone();
        match says {
            Some(says) => assert!(warnings[0].to_string().contains(says), "{warnings}"),
            None => assert_eq!(warnings, json!([])),
        }
    }
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
    assert_eq!(put.status, 201, "{put:?}");

    let made = ask(&appliance, &token, "PUT", path, &json!({"value": FIRST}));
    assert_eq!(made.status, 201, "{made:?}");
    for (body, status) in [
        (json!({"value": ""}), 422),
        (json!({"value": SECOND, "kind": "odd"}), 422),
        (json!({"value": SECOND, "hots": 1}), 422),
        (json!({"value": SECOND, "days": 0}), 422),
        (json!({}), 422),
    ] {
        let refused = ask(&appliance, &token, "PUT", "/api/v1/secrets/OTHER", &body);
        assert_eq!(refused.status, status, "{body}: {refused:?}");
    }
    for name in ["HOME", "LD_PRELOAD"] {
        let (path, body) = (format!("/api/v1/secrets/{name}"), json!({"value": SECOND}));
        let refused = ask(&appliance, &token, "PUT", &path, &body);
        assert_eq!(refused.status, 422, "{refused:?}");
        let (path, body) = (
            format!("/api/v1/servers/{name}"),
            json!({"command": ["true"], "secrets": [name]}),
        );
        let refused = ask(&appliance, &token, "PUT", &path, &body);
        assert!(
            refused.status == 422 && refused.body.contains("name of its own"),
            "{refused:?}"
        );
    }
    let named = ask(
        &appliance,
        &token,
        "PUT",
        "/api/v1/secrets/a%20b",
        &json!({"value": SECOND}),
    );
    assert_eq!(named.status, 422, "{named:?}");
    let detail = named.json()["detail"].to_string();
    assert_eq!(
        detail.matches("a b").count(),
        1,
        "it says so once: {detail}"
    );

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
    // A program that may do nothing else hears the same.
    let words = [
        "token",
        "add",
        "watch",
        "--role",
        "admin",
        "--scope",
        "settings:examine",
    ];
    let token = appliance.gig(&words, "");
    assert_eq!(token.status, 0, "{token:?}");
    let ask = |method: &str, path: &str| {
        Ask::new(method, path)
            .token(token.output.trim())
            .send(&appliance)
    };
    let told = ask("POST", "/api/v1/doctor");
    assert_eq!(told.status, 200, "{told:?}");
    let told = told.json();
    let parts = told["items"].as_array().expect("items");
    let part = parts.iter().find(|one| one["name"] == "user namespaces");
    assert_eq!(part.expect("it was tried")["state"], "works", "{told}");
    assert_eq!(ask("GET", "/api/v1/policies").status, 403);
}
