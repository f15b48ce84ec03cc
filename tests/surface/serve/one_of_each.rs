//! One sandbox, one record, one server: each by itself, in API and console, also when gig was started anew.

use serde_json::{Value, json};

use super::{Appliance, Ask};

/// The tag that stands in an answer's head.
fn tag(head: &str) -> Option<String> {
    let mut lines = head.lines();
    let line = lines.find(|line| line.to_ascii_lowercase().starts_with("etag:"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn sandbox(appliance: &Appliance, token: &str, id: &str) -> Value {
    let path = format!("/api/v1/sandboxes/{id}");
    let reply = Ask::new("GET", &path).token(token).send(appliance);
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

#[test]
fn a_sandbox_is_told_by_the_record_when_its_gig_is_another_one() {
    let appliance = Appliance::start();
    let (token, viewer) = (appliance.token("admin"), appliance.token("viewer"));
    appliance.policy(
        &token,
        "version: 1\negress:\n  - host: api.test\n    ports: [80]\n",
    );
    let script = "echo it began; while :; do curl -s -m 20 -o /dev/null http://wanted.test/; sleep 0.2; done";
    appliance.server("asker", script);
    let id = appliance.run("asker");
    let denied = format!("sandbox={id}&verdict=deny&host=wanted.test");
    appliance.until("it is denied", |one| {
        !one.records(&token, &denied).is_empty()
    });
    let kept = "/api/v1/servers/asker/log?grep=it+began";
    appliance.until("what it printed is kept", |one| {
        let lines = Ask::new("GET", kept).token(&token).send(one).json();
        lines["lines"]
            .as_array()
            .is_some_and(|lines| !lines.is_empty())
    });
    let told = |one: &Value| {
        assert_eq!(one["server"], "asker", "{one}");
        assert!(one["layers"].to_string().contains("seccomp"), "{one}");
        assert_eq!(one["reach"]["rules"][0]["rule"], "egress[0]", "{one}");
        let wanted = &one["tried"]["destinations"][0];
        assert_eq!(wanted["host"], "wanted.test", "{one}");
        assert!(
            wanted["denied"].as_u64().is_some_and(|count| count > 0),
            "{one}"
        );
    };
    let runs = sandbox(&appliance, &token, &id);
    assert_eq!(
        (&runs["state"], &runs["reach"]["now"]),
        (&json!("running"), &json!(true))
    );
    told(&runs);
    assert_eq!(sandbox(&appliance, &viewer, &id)["tried"], Value::Null);

    let again = appliance.kill_and_start_again();
    let lost = sandbox(&again, &token, &id);
    assert_eq!(
        (&lost["state"], &lost["reach"]["now"]),
        (&json!("lost"), &json!(false))
    );
    told(&lost);
    let page = format!("/sandboxes/{id}");
    let page = Ask::new("GET", &page).token(&token).send(&again);
    for words in [
        "before its end was recorded",
        "wanted.test",
        "api.test",
        "it began",
    ] {
        assert!(
            page.status == 200 && page.body.contains(words),
            "{words}: {page:?}"
        );
    }
    let path = format!("/api/v1/sandboxes/{id}");
    let stop = Ask::new("DELETE", &path).token(&token).send(&again);
    assert_eq!(stop.status, 404, "{stop:?}");
    let other = again.gig(&["server", "add", "other", "--", "/bin/true"], "");
    assert_eq!(other.status, 0, "{other:?}");
    let words = [
        "token", "add", "narrow", "--role", "admin", "--server", "other",
    ];
    let narrow = again.gig(&words, "").output.trim().to_owned();
    assert_eq!(
        Ask::new("GET", &path).token(&narrow).send(&again).status,
        404
    );
    let nobody = "/api/v1/sandboxes/00000000-0000-7000-8000-000000000000";
    assert_eq!(
        Ask::new("GET", nobody).token(&token).send(&again).status,
        404
    );
}

#[test]
fn a_record_is_shown_with_its_neighbours_and_what_was_signed() {
    let appliance = Appliance::start();
    let (token, viewer) = (appliance.token("auditor"), appliance.token("viewer"));
    let records = appliance.records(&token, "limit=3");
    let id = |at: usize| records[at]["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/audit/{}/chain", id(1));
    let ask = |token: &str| Ask::new("GET", &path).token(token).send(&appliance);
    assert_eq!(ask(&viewer).status, 403);
    let chain = ask(&token).json();
    assert_eq!(
        (&chain["holds"], &chain["hash"]),
        (&json!(true), &records[1]["hash"])
    );
    for (side, at) in [("before", 2), ("behind", 0)] {
        assert_eq!(chain[side]["id"], id(at).as_str(), "{chain}");
        assert_eq!(chain[side]["holds"], true, "{chain}");
        assert_eq!(chain[side]["hash"], records[at]["hash"], "{chain}");
    }
    let page = format!("/audit/{}", id(1));
    let page = Ask::new("GET", &page).token(&token).send(&appliance);
    assert!(page.body.contains("Its place in the chain"), "{page:?}");
    assert!(!page.body.contains("does not hold"), "{page:?}");
    assert!(page.body.contains(&format!("/audit/{}", id(2))), "{page:?}");
    for none in ["1-99999999", "77-1", "x", "1"] {
        let path = format!("/api/v1/audit/{none}/chain");
        let none = Ask::new("GET", &path).token(&token).send(&appliance);
        assert_eq!(none.status, 404, "{none:?}");
    }
}

const DOCS: &str = "/api/v1/servers/docs";

/// Puts the server `docs` under this condition.
fn put(appliance: &Appliance, token: &str, condition: &[(&str, &str)], spec: &Value) -> u16 {
    let ask = Ask::new("PUT", DOCS).token(token).json(spec);
    let ask = condition
        .iter()
        .fold(ask, |ask, (field, tag)| ask.header(field, tag));
    ask.send(appliance).status
}

/// A server that has a policy of its own.
fn registered(appliance: &Appliance, token: &str) {
    appliance.policy(token, "version: 1\negress: []\n");
    let spec = json!({"command": ["/bin/true"], "env": {"KEY": "v4lue"}});
    let new = [("If-None-Match", "*")];
    assert_eq!(put(appliance, token, &[], &spec), 428);
    assert_eq!(put(appliance, token, &new, &spec), 201);
    assert_eq!(put(appliance, token, &[], &spec), 428);
    assert_eq!(put(appliance, token, &new, &spec), 412);
    let assign = json!({"server": "docs", "policy": "web"});
    let put = |field: Option<(&str, &str)>| {
        let mut put = Ask::new("PUT", "/api/v1/assignments").token(token);
        if let Some((name, value)) = field {
            put = put.header(name, value);
        }
        put.json(&assign).send(appliance).status
    };
    assert_eq!(put(None), 428);
    assert_eq!(put(Some(("If-Match", "\"other\""))), 412);
    assert_eq!(put(Some(("If-Match", "*"))), 204);
}

/// Its tag, and what is registered.
fn seen(appliance: &Appliance, token: &str) -> (String, Value) {
    let reply = Ask::new("GET", DOCS).token(token).send(appliance);
    (tag(&reply.head).expect("a tag"), reply.json())
}

#[test]
fn a_server_is_changed_in_place_and_nobody_overwrites_what_they_have_not_seen() {
    let appliance = Appliance::start();
    let (token, viewer) = (appliance.token("admin"), appliance.token("viewer"));
    registered(&appliance, &token);
    let (first, shown) = seen(&appliance, &token);
    let expected =
        json!([{"people": [], "policy": "web", "version": 1, "by": "server docs", "floors": []}]);
    assert_eq!(shown["in_force"], expected);
    let limited = json!({"command": ["/bin/true"], "env": {"KEY": "v4lue"}, "pids": 64});
    let on_first = [("If-Match", first.as_str())];
    assert_eq!(put(&appliance, &token, &on_first, &limited), 204);
    let late = put(
        &appliance,
        &token,
        &on_first,
        &json!({"command": ["/bin/false"]}),
    );
    assert_eq!(late, 412, "somebody changed it meanwhile");
    let (_, shown) = seen(&appliance, &token);
    assert_eq!(
        shown["spec"],
        json!({"command": ["/bin/true"], "env": {"KEY": "v4lue"},
        "network": "external", "pids": 64})
    );
    assert_eq!(shown["in_force"], expected, "what is assigned stays");
    // To who does not see what variables hold, the tag would tell whether they guessed it.
    let theirs = Ask::new("GET", DOCS).token(&viewer).send(&appliance);
    assert!(
        theirs.status == 200 && tag(&theirs.head).is_none(),
        "{theirs:?}"
    );
    // The command line builds on what is there.
    let add = ["server", "add", "docs", "--", "/bin/false"];
    for _ in 0..2 {
        let added = appliance.gig(&add, "");
        assert_eq!(added.status, 0, "{added:?}");
    }
    let health = Ask::new("GET", "/api/v1/health")
        .token(&viewer)
        .send(&appliance);
    let health = health.json();
    let parts = health["items"].as_array().expect("parts").iter();
    let parts: Vec<_> = parts
        .map(|part| part["part"].as_str().unwrap_or_default())
        .collect();
    for part in [
        "sandboxes",
        "store",
        "record",
        "index of the record",
        "vault",
        "retention",
        "proxy",
    ] {
        assert!(parts.contains(&part), "{part}: {health}");
    }
}

#[test]
fn the_form_of_a_server_keeps_what_it_does_not_show_and_sets_its_limits() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    registered(&appliance, &token);
    let page = Ask::new("GET", "/servers/docs")
        .token(&token)
        .send(&appliance)
        .body;
    assert!(
        !page.contains("v4lue") && page.contains("server docs"),
        "{page}"
    );
    let on = page.split("name=\"on\" value=\"").nth(1).expect("the tag");
    let on = on.split('"').next().expect("the tag").to_owned();
    let form = |on: &str, fields: &str| {
        let fields = format!("on={on}&command=%2Fbin%2Ftrue&env=KEY&network=external&{fields}");
        appliance
            .form("/servers/docs", &fields)
            .token(&token)
            .send(&appliance)
    };
    let wrong = form(&on, "memory=lots");
    assert!(
        wrong.status == 400 && wrong.body.contains("does not start"),
        "{wrong:?}"
    );
    let saved = form(&on, "memory=512MiB&pids=32&cpus=0.5&idle=60");
    assert_eq!(saved.status, 303, "{saved:?}");
    assert_eq!(
        form(&on, "idle=90").status,
        412,
        "somebody changed it meanwhile"
    );
    let (_, shown) = seen(&appliance, &token);
    let want = json!({"command": ["/bin/true"], "env": {"KEY": "v4lue"}, "network": "external",
        "memory": 536_870_912, "pids": 32, "cpu_millis": 500, "idle_seconds": 60});
    assert_eq!(shown["spec"], want);
    assert_eq!(
        shown["in_force"][0]["by"], "server docs",
        "what is assigned stays"
    );
    let told = appliance.records(&token, "event=admin&server=docs&limit=1");
    let told = told[0]["findings"].to_string();
    assert!(
        told.contains("processes: 32, before: nothing") && !told.contains("v4lue"),
        "{told}"
    );
}
