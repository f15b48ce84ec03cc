//! `Idempotency-Key` over real connections: made once, on whichever node and however often it is sent.

use std::thread;

use gig_tests::lab::postgres::Postgres;
use serde_json::{Value, json};

use super::{Appliance, Ask, PASSWORD, Reply, nodes::node};

const KEY: &str = "\"8e03978e-40d5-43e8-bc93-6894a57f9324\"";

fn ask<'a>(method: &'a str, path: &'a str, token: &str, key: &str) -> Ask<'a> {
    Ask::new(method, path)
        .token(token)
        .header("Idempotency-Key", key)
}

fn ben() -> Value {
    json!({"name": "ben", "role": "viewer", "password": PASSWORD})
}

fn is_replayed(reply: &Reply) -> bool {
    reply.head.contains("idempotent-replayed: true")
}

/// How often somebody was added, by the record.
fn added(appliance: &Appliance, token: &str) -> usize {
    let records = appliance.records(token, "event=admin&limit=100");
    let words = records.iter().map(|one| one["findings"][0].to_string());
    words
        .filter(|words| words.contains("user ben added"))
        .count()
}

#[test]
fn a_request_is_made_once_on_two_nodes_however_often_it_is_sent() {
    let server = Postgres::start();
    let (one, two) = (node(&server), node(&server));
    let token = one.token("admin");
    let replies: Vec<Reply> = thread::scope(|scope| {
        let asks = (0..16).map(|n| {
            let (node, token) = (if n % 2 == 0 { &one } else { &two }, &token);
            scope.spawn(move || {
                ask("POST", "/api/v1/users", token, KEY)
                    .json(&ben())
                    .send(node)
            })
        });
        let asks: Vec<_> = asks.collect();
        asks.into_iter()
            .map(|one| one.join().expect("an answer"))
            .collect()
    });
    let first = replies
        .iter()
        .filter(|reply| reply.status == 201 && !is_replayed(reply));
    assert_eq!(first.count(), 1, "{replies:?}");
    for reply in &replies {
        let waits = reply.status == 409 && reply.body.contains("problem:in_progress");
        assert!(waits || reply.status == 201, "{reply:?}");
        assert!(!waits || reply.head.contains("retry-after: 1"), "{reply:?}");
    }
    for node in [&one, &two] {
        let again = ask("POST", "/api/v1/users", &token, KEY)
            .json(&ben())
            .send(node);
        assert!(again.status == 201 && is_replayed(&again), "{again:?}");
        assert_eq!(again.json()["name"], "ben");
        assert!(
            again.head.contains("content-type: application/json"),
            "{again:?}"
        );
    }
    assert_eq!(added(&one, &token), 1);
}

#[test]
fn a_key_is_of_one_request_of_one_caller_and_no_secret_is_kept_for_it() {
    let appliance = Appliance::start();
    let (token, other) = (appliance.token("admin"), appliance.token("editor"));
    let path = "/api/v1/policies/web";
    let document = json!({"document": "version: 1\negress: []\n"});
    let save = |token: &str, key: &str, tag: &str| {
        let field = if tag == "*" {
            "If-None-Match"
        } else {
            "If-Match"
        };
        let put = ask("PUT", path, token, key).header(field, tag);
        put.json(&document).send(&appliance)
    };
    let first = save(&token, KEY, "*");
    assert_eq!(first.status, 201, "{first:?}");
    let again = save(&token, KEY, "*");
    assert!(again.status == 201 && is_replayed(&again), "{again:?}");
    assert_eq!(
        (first.body, first.head.contains("etag")),
        (again.body, again.head.contains("etag"))
    );
    // Without the key it would be what it is: built on what is gone.
    let plain = Ask::new("PUT", path)
        .token(&token)
        .header("If-None-Match", "*");
    assert_eq!(plain.json(&document).send(&appliance).status, 412);
    // Another tag, another path: another request. Another caller: another key.
    let changed = save(&token, KEY, "\"1\"");
    assert_eq!(changed.status, 422, "{changed:?}");
    assert!(
        changed.body.contains("problem:other_request"),
        "{changed:?}"
    );
    let theirs = save(&other, KEY, "\"1\"");
    assert!(theirs.status == 200 && !is_replayed(&theirs), "{theirs:?}");
    for wrong in ["8e03978e-40d5-43e8", "\"\"", "\"a\", \"b\"", "\"a\";q=1"] {
        let refused = save(&token, wrong, "\"2\"");
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
        assert!(
            refused.body.contains("problem:idempotency_key"),
            "{refused:?}"
        );
    }
    let read = ask("GET", path, &token, "no key at all").send(&appliance);
    assert_eq!(read.status, 200, "{read:?}");

    let make = || {
        let ask = ask("POST", "/api/v1/tokens", &token, "\"token\"");
        ask.json(&json!({"name": "ci", "role": "viewer"}))
            .send(&appliance)
    };
    let made = make();
    assert_eq!(made.status, 201, "{made:?}");
    let again = make();
    assert_eq!(again.status, 409, "{again:?}");
    assert!(again.body.contains("problem:shown_already"), "{again:?}");
    let secret = made.json()["token"].as_str().expect("a token").to_owned();
    for name in ["gig.db", "gig.db-wal"] {
        let octets = std::fs::read(appliance.path(name)).unwrap_or_default();
        for text in [secret.as_str(), PASSWORD] {
            let text = text.as_bytes();
            assert!(
                !octets.windows(text.len()).any(|some| some == text),
                "{name}"
            );
        }
    }
}

#[test]
fn a_sandbox_is_started_once_and_who_may_less_is_answered_nothing_again() {
    let appliance = Appliance::start();
    let ana = appliance.first_admin();
    let added = appliance.gig(&["server", "add", "one", "--", "/bin/sleep", "60"], "");
    assert_eq!(added.status, 0, "{added:?}");
    let editor = appliance.token("editor");
    let start = || ask("POST", "/api/v1/servers/one/start", &editor, KEY).send(&appliance);
    let (first, again) = (start(), start());
    assert!(
        first.status < 300 && is_replayed(&again),
        "{first:?} {again:?}"
    );
    assert_eq!(first.json()["id"], again.json()["id"]);
    let listed = appliance.gig(&["ps", "--json"], "");
    let listed: Value = serde_json::from_str(&listed.output).expect("JSON");
    assert_eq!(
        listed["items"].as_array().map(Vec::len),
        Some(1),
        "{listed}"
    );
    // A refusal is not the answer for the day.
    let viewer = appliance.token("viewer");
    for _ in 0..2 {
        let refused = ask("POST", "/api/v1/servers/one/start", &viewer, KEY).send(&appliance);
        assert!(
            refused.status == 403 && !is_replayed(&refused),
            "{refused:?}"
        );
    }
    // A person who is an editor from now on.
    let ben = appliance.member(&ana, "ben", "admin");
    let origin = format!("http://{}", appliance.address);
    let add = || {
        let ask = Ask::new("POST", "/api/v1/users").cookie(&ben);
        let ask = ask.header("Idempotency-Key", KEY).header("Origin", &origin);
        let cem = json!({"name": "cem", "role": "viewer", "password": PASSWORD});
        ask.json(&cem).send(&appliance)
    };
    assert_eq!(add().status, 201);
    assert!(is_replayed(&add()));
    let role = appliance.gig(&["user", "role", "ben", "auditor"], "");
    assert_eq!(role.status, 0, "{role:?}");
    let refused = add();
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(!refused.body.contains("cem"), "{refused:?}");
}

#[test]
fn what_was_made_before_a_kill_is_not_made_again() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let add = |appliance: &Appliance| {
        let ask = ask("POST", "/api/v1/users", &token, KEY);
        ask.json(&ben()).send(appliance)
    };
    assert_eq!(add(&appliance).status, 201);
    let appliance = appliance.kill_and_start_again();
    let again = add(&appliance);
    assert!(again.status == 201 && is_replayed(&again), "{again:?}");
    assert_eq!(added(&appliance, &token), 1);
    let document = Ask::new("GET", "/api/v1/openapi.json").token(&token);
    let document = document.send(&appliance).json();
    let named = document["paths"]["/api/v1/users"]["post"]["parameters"].to_string();
    assert!(named.contains("Idempotency-Key"), "{named}");
    let read = &document["paths"]["/api/v1/users"]["get"]["parameters"];
    assert!(!read.to_string().contains("Idempotency-Key"), "{read}");
}
